// A run: what is open, where it stands, and its loop.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_TRAINER_H
#define SCRIMP_RUNTIME_LIB_COMMON_TRAINER_H

#include "Batch.h"
#include "Ranks.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/Metrics.h"
#include "scrimp/runtime/Options.h"
#include "scrimp/runtime/Trace.h"

namespace scrimp::runtime {

class Trainer {
public:
  /// `programName` starts every message on stderr. The references and the program outlive the trainer.
  Trainer(const ProgramImage &image, const program::Program *program, Options options, std::string programName,
          Communicator &communicator, Ranks &ranks);
  ~Trainer();

  /// Opens data and checkpoint, checks them, then allocates and initialises. Nothing is written before all is well, on
  /// all ranks.
  Status prepare();
  /// Trains to the last step, or to a signal.
  Status run();
  /// Writes what --trace asked for, also of a run that ended by a signal, or by a failure that all ranks know of.
  Status writeTrace();
  /// After a failure: the --save folder goes if this run made it and nothing is in it, and a trace that is not whole.
  void removeLeftovers();

private:
  struct PreparedScalar {
    int index;
    DType type;
    std::vector<HostBytes> targets; // by slot
  };

  /// A step that has been submitted and not judged.
  struct Flight {
    int slot = 0;
    int64_t step = 0, updates = 0, position = 0; // the updates and samples before it
    ScalarInputs inputs;
    Traffic sent;
    double start = 0; // when it began to fill its batch
    bool isProfiled = false;
  };

  Status openInputs();
  std::vector<Fact> facts() const;
  Status openDevice();
  Status allocate();
  Status openOutputs();
  Status mergeResumedState(const RunState &saved);
  Status checkOutputFiles();
  Status findTotalSteps();
  Status findTracedSteps();
  Status openTrace();
  Status switchTrace(bool isLast);
  void observe(Trace *newTrace);
  void tellScheduleJump(const RunState &saved);
  int64_t sampleIn(int64_t place) const;
  int64_t evalSampleIn(int64_t place) const;
  /// How many steps may be under way when the next one is submitted.
  size_t depth() const;
  int slot() const { return depth() ? static_cast<int>(state.step % 2) : 0; }
  Status submitStep(bool isProfiled);
  Status judgeStep();
  void judgeSteps();
  Status judge(const Flight &flight, StepReport &report);
  bool isDue(int64_t every) const { return every && state.step % every == 0; }
  Result<int> agree();
  Status afterStep(bool last);
  Status evaluate();
  Result<double> evaluateBatches();
  Status save();

  /// Where a number that is not finite comes from, and what to do about it.
  struct Cause {
    std::string text, hint;
    bool skipHelps = true;
  };
  Cause findCause();
  Cause findCauseInData();
  Cause findCauseInWeights() const;
  /// What to do after a step that ended so: success if it is skipped.
  Status nonFiniteLoss(double loss, int64_t step, bool applied);
  std::string tellAll(const std::string &what);
  Result<double> valueOf(const Executor &graph, const program::Output *output);
  Status nonFiniteGradient(const program::CheckFinite *check, double loss, int64_t step);
  Status overflowedGradient(const program::CheckFinite *check, double loss, int64_t step);
  Result<const char *> findNonFiniteIn(const program::Tensor *tensor, bool nanOnly = false) const;
  Status noteFiniteWeights();
  /// Whether the weights that were finite before the first step still are.
  Status checkWeights() const;

  void warn(const std::string &text);
  Status summarise(double seconds, int64_t steps, int64_t samples);
  ScalarInputs scalarInputs(int64_t step, int64_t t, int64_t validSamples) const;
  Status writeScalars(const ScalarInputs &inputs, int slot);

  const ProgramImage &image;
  const program::Program *program;
  Options options;
  std::string programName;
  std::optional<ThreadPool> pool;
  std::unique_ptr<Device> device;
  Communicator &communicator; // of the host
  std::unique_ptr<Communicator> deviceCommunicator;
  Communicator *exchange; // what the graphs use: that of the device, where it has its own, else the host's
  Ranks &ranks;
  Share share; // of each batch
  RunState state;
  Status pending;        // what this rank has met and not yet told the others
  int pendingWeight = 0; // how much it knows of the cause
  int64_t totalSteps = 0;
  int64_t savedStep = -1, evaluatedStep = -1;
  int64_t skippedSteps = 0;
  int64_t profiledSteps = 0;
  double profiledSeconds = 0;
  double batchStart = 0;       // when the step that is next began to fill its batch
  std::vector<Flight> flights; // in order; never more than two
  Flight judged;               // the one that is looked at, or was last
  int64_t batchPosition = 0;   // of the batch that sampleIn() tells of
  double runStart = 0, judgedAt = 0;
  int64_t firstStep = 0; // of this run
  double lastLoss = 0, lastEvalLoss = 0;
  bool warnedPartial = false;
  bool madeFolder = false; // --save DIR was not there

  std::optional<CheckpointOnDisk> checkpoint;
  std::optional<Dataset> data, evalData;
  std::optional<SampleOrder> order;
  std::optional<Batch> batch, evalBatch;
  int64_t evalFirst = 0, evalFilled = 0,
          evalOwn = 0; // of evalBatch: its first sample, samples of all, and of this rank
  CarriedTensors carried;
  std::optional<ArenaRef> arena;
  std::optional<Executor> trainGraph, evalGraph;
  const program::Output *lossOutput = nullptr, *normOutput = nullptr;
  const program::Graph *evalProgram = nullptr;
  bool updatesWait = false;
  bool hasLossScale = false;
  std::vector<const program::Tensor *> finiteWeights; // before the first step
  std::vector<PreparedScalar> scalars;
  MetricsFile metrics;
  std::optional<Trace> trace;
  Trace *tracing = nullptr; // the trace, in the steps that it shows
  int64_t firstTraced = 0, lastTraced = 0, tracedSteps = 0;
  File traceFile; // the first rank's
  bool traceIsPartial = false;
  File saveLock; // on the folder of checkpoints
  PeakMemory peak;
  Progress progress;
};

/// Signals that ask a run to end set a flag while one of these lives; a second SIGTERM or SIGINT has its usual effect.
class SignalGuard {
public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard &) = delete;
  SignalGuard &operator=(const SignalGuard &) = delete;
  /// The signal that came, or 0.
  static int raised();
};

} // namespace scrimp::runtime

#endif
