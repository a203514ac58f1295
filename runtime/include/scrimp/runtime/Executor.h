// Walks the command list of a graph. Everything that a step needs is prepared when the program is loaded; running
// allocates nothing.
#ifndef SCRIMP_RUNTIME_EXECUTOR_H
#define SCRIMP_RUNTIME_EXECUTOR_H

#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/Program.h"
#include <memory>
#include <vector>

namespace scrimp::runtime {

/// A graph of a verified program, bound to an arena. Refers to the program, the arena and the pool, which outlive it.
class Executor {
public:
  Executor(const program::Program *program, const program::Graph *graph, const scrimp_kernel *kernels, char *arena,
           ThreadPool &pool);

  /// Runs the commands in order. The check that met a number that is not finite, after which the rest was left out;
  /// null if all went well.
  const program::CheckFinite *run();

  /// An output as a double, after run().
  double output(const program::Output *output) const;
  /// What a check of the graph looks at.
  double checked(const program::CheckFinite *check) const;

private:
  enum class Kind : uint8_t { launch, call, copy, check };
  struct Command {
    Kind kind = Kind::check;
    scrimp_kernel kernel = nullptr;
    const LibraryFunction *function = nullptr;
    size_t firstPointer = 0;      // launch, call: into `pointers`; copy: target, then source
    int64_t units = 0, grain = 0; // launch; copy: bytes
    LibraryArguments arguments;
    const program::CheckFinite *check = nullptr;
  };

  char *arena;
  ThreadPool &pool;
  std::vector<Command> commands;
  std::vector<char *> pointers;
  std::vector<uint64_t> lengths;
};

} // namespace scrimp::runtime

#endif
