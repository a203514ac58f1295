// The entry of an executable. main() hands its program to runMain, and so do the tests.
#ifndef SCRIMP_RUNTIME_RUNTIME_H
#define SCRIMP_RUNTIME_RUNTIME_H

#include "scrimp/runtime/abi.h"

namespace scrimp::runtime {

class Communicator;

/// Called around each training step, for tests: between the two no allocation happens after the first step.
struct StepHooks {
  void *context = nullptr;
  void (*begin)(void *context, int64_t step) = nullptr;
  void (*end)(void *context, int64_t step) = nullptr;
};

/// A compiled program. Everything stays valid while runMain runs; runMain owns none of it.
struct ProgramImage {
  const unsigned char *program;
  uint64_t programBytes;
  const scrimp_kernel *kernels;
  uint64_t kernelCount;
  /// The file whose trailer holds initial weights: weights, then the footer "SCRIMPW1" and their length as u64.
  const char *weightsPath = "/proc/self/exe";
  StepHooks hooks{};
  /// That of this rank, for tests; null: what started the process tells (Launch.h).
  Communicator *communicator = nullptr;
};

/// Parses the command line, trains, and returns the exit status. Errors are one line on stderr.
int runMain(int argc, char **argv, const ProgramImage &image);

} // namespace scrimp::runtime

#endif
