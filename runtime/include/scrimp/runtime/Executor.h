// Walks the command list of a graph. Everything that a step needs is prepared when the program is loaded; running
// allocates nothing, and only adds strides to pointers where commands are repeated. Collectives that are under way get
// on between two commands.
#ifndef SCRIMP_RUNTIME_EXECUTOR_H
#define SCRIMP_RUNTIME_EXECUTOR_H

#include "scrimp/runtime/Communicator.h"
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/Trace.h"
#include <memory>
#include <optional>
#include <vector>

namespace scrimp::runtime {

/// How long a command took, over all its runs.
struct CommandTiming {
  std::string_view what, where;     // the library function, "kernel", "copy", a kind of collective (its start),
                                    // "wait" or "read";
                                    // the user's name for what it computes
  double seconds = 0, expected = 0; // expected: as the compiler estimated, over all runs; 0 where it did not
  int64_t runs = 0;
};

/// The samples of the batch under way, for commands that read pieces of it.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  /// Writes the samples in `count` places of this rank's batch, from `first` on, of a streamed input to `target`, one
  /// behind the other. Where one cannot be read other valid values are written, and whoever gave the source asks it
  /// afterwards: in the middle of a list ranks wait for each other, so none may end it alone.
  virtual void read(const program::Input *input, int64_t first, int64_t count, char *target) = 0;
};

/// A graph of a verified program, bound to an arena and to this process' rank. Refers to the program, the arena, the
/// device, the communicator and the source, which outlive it. A program with streamed inputs needs a source.
class Executor {
public:
  Executor(const program::Program *program, const program::Graph *graph, const scrimp_kernel *kernels, char *arena,
           Device &device, Communicator &communicator, BatchSource *source = nullptr);

  /// Runs the commands in order: submit() and finish(). The check that met a number that is not finite, on this rank or
  /// another, after which the rest was left out on all ranks; null if all went well. Nothing is under way afterwards.
  /// Fails where the communicator does.
  Result<const program::CheckFinite *> run();
  /// The same in two parts. A device whose memory is not the host's works between them, and another run may be
  /// submitted in the other `slot`, 0 or 1, before the first is finished. With `goesOnAfterFailure` false, what a check
  /// has found switches off all later runs too.
  Status submit(int slot = 0, bool goesOnAfterFailure = true);
  Result<const program::CheckFinite *> finish(int slot = 0);

  /// From now on run() measures each command.
  void startProfile();
  /// What it measured, command by command.
  std::vector<CommandTiming> getProfile() const;
  /// From now on run() tells `trace` of each command; null: nobody.
  void setTrace(Trace *newTrace) { trace = newTrace; }

  /// An output as a double, of the run that was finished last.
  Result<double> output(const program::Output *output) const;
  /// What a check of the graph looked at; on a device only of the one that run() gave, elsewhere 0.
  double checked(const program::CheckFinite *check) const;

private:
  enum class Kind : uint8_t { launch, call, copy, fill, check, repeat, conditional, collective, wait };
  using Commands = flatbuffers::Vector<flatbuffers::Offset<program::Command>>;
  struct Command {
    Kind kind = Kind::check;
    LaunchCall launch;
    const LibraryFunction *function = nullptr;
    size_t firstPointer = 0;            // into `pointers`. launch, call: buffers; copy: target, source; repeat: index;
                                        // conditional: condition; collective: source, target; fill: target; check: on
                                        // a device the buffers of its launch
    int64_t units = 0;                  // copy: bytes; repeat: how often; fill: samples
    int64_t firstPlace = 0;             // fill
    char *staged[Device::marks] = {};   // fill, where the host does not write the arena: samples of all iterations
    size_t end = 0;                     // repeat, conditional: where in `commands` theirs end
    size_t firstMove = 0, lastMove = 0; // repeat: into `moves`
    LibraryArguments arguments;
    const program::CheckFinite *check = nullptr;
    const program::Input *input = nullptr; // fill
    const program::Command *source = nullptr;
    uint32_t event = 0; // collective, wait
    CollectiveCall collective;
  };
  struct Measured {
    double seconds = 0;
    int64_t runs = 0;
  };
  /// How far a pointer moves from one iteration of a repeat to the next.
  struct Move {
    size_t pointer;
    int64_t stride;
  };

  static CommandTiming describe(const Command &command);
  void prepare(const program::Program *program, const Commands *list);
  void addPointer(const program::Range *range);
  void addPointer(char *address, uint64_t bytes);
  void prepareLaunch(Command &prepared, const program::Launch *launch);
  void prepareCheck(Command &prepared, const program::CheckFinite *check);
  /// Of a device whose memory is not the host's: what the host gives to the commands, before they run.
  Status reserveStaging();
  Status reserveStaging(size_t first, size_t last, int64_t iterations);
  void stage(size_t first, size_t last, int64_t iterations);
  Status submitApart(bool goesOnAfterFailure);
  Status walkOrReplay();
  Status walk();
  /// `iteration` is that of the innermost repeat around the commands.
  Status run(size_t first, size_t last, int64_t iteration);
  Status compute(const Command &command);
  Trace::Index openSpan(const Command &command);
  Status communicate(const Command &command);
  Status check(const Command &command);
  Status repeat(size_t index);
  void move(const Command &repeat, int64_t iterations);

  char *arena;
  Device &device;
  bool isApart; // the device's memory is not the host's
  Communicator &communicator;
  BatchSource *source;
  std::vector<Command> commands;  // a repeat's or conditional's follow it
  std::vector<Measured> measured; // by command; empty: nothing is measured
  Trace *trace = nullptr;
  std::vector<char *> pointers; // of the iterations under way
  std::vector<uint64_t> lengths;
  std::vector<Move> moves;
  std::vector<std::vector<Move>> open;          // while preparing: of the repeats around
  std::vector<Communicator::Handle> started;    // by event: what was started with it last
  const program::CheckFinite *failed = nullptr; // of the run under way
  const scrimp_kernel *kernels;
  // Where the memories are apart:
  const program::Range *condition = nullptr; // while preparing: of the conditional around
  std::vector<const program::CheckFinite *> checks;
  const flatbuffers::Vector<flatbuffers::Offset<program::Output>> *outputs;
  int slot = 0;                  // of the run that is being submitted, or was finished last
  int64_t *iterations = nullptr; // 0, 1, ...: the numbers that repeats give to the device
  CheckResult *nothing = nullptr;
  /// What the device tells the host at the end of a run.
  struct Told {
    CheckResult found;
    char outputs[][sizeof(double)];
  };
  Told *told[Device::marks] = {};
  bool hasRun = false;                       // the library has chosen how it computes
  std::optional<int> records[Device::marks]; // of all commands
  Traffic recorded;                          // what a run of them sends
};

} // namespace scrimp::runtime

#endif
