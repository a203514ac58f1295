// What a run tells: JSON lines, a progress line, the process's peak memory. Nothing here allocates once constructed.
#ifndef SCRIMP_RUNTIME_METRICS_H
#define SCRIMP_RUNTIME_METRICS_H

#include "scrimp/runtime/File.h"
#include <optional>

namespace scrimp::runtime {

struct StepReport {
  int64_t step, totalSteps;
  double loss;
  bool hasGradNorm;
  double gradNorm;
  double lr;
  int64_t samples, tokens; // since the run began, before a resume too
  double seconds;          // this step
  uint64_t arenaBytes;
  bool skipped;
  bool hasRanks;                   // the next three are told
  int64_t sentElements, sentBytes; // by this rank in the step's collectives
  double waited;                   // for other ranks, seconds
  double lossScale;                // of this step; 0: none
  int64_t scaleSkips;              // steps left out by loss scaling since the run began
  const char *nonFinite;           // "loss", or the first parameter whose gradient is not finite; null if all is well
};

/// Peak resident set of this process image (VmHWM: unlike ru_maxrss it does not survive exec).
class PeakMemory {
public:
  PeakMemory();
  uint64_t bytes() const;

private:
  std::optional<File> status;
};

/// --metrics: one JSON object a line; NaN and infinities are null.
class MetricsFile {
public:
  Status open(const std::string &path, bool append);
  Status step(const StepReport &report, uint64_t peakBytes);
  Status evaluation(int64_t step, double loss);

private:
  Status append(const char *text, int length);

  std::optional<File> file;
};

/// One line that is rewritten in place; into a file or pipe, a line every ten seconds.
class Progress {
public:
  Progress();
  void step(const StepReport &report, double elapsed, int64_t stepsThisRun, int64_t samplesThisRun,
            int64_t tokensThisRun);
  /// A line of its own.
  void evaluation(int64_t step, double loss);
  /// Ends the line so that other output can follow.
  void finish();

private:
  bool terminal;
  bool open = false;
  double lastShown = -1;
};

} // namespace scrimp::runtime

#endif
