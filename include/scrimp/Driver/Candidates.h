// The configurations that --memory-budget chooses from: a family that does not depend on the budget, each planned
// whole.
#ifndef SCRIMP_DRIVER_CANDIDATES_H
#define SCRIMP_DRIVER_CANDIDATES_H

#include "scrimp/Driver/Compile.h"
#include "scrimp/Planner/ProcessMemory.h"

namespace mlir::scrimp {
struct Device;

/// --overlap-bytes max: more than any program has.
inline constexpr int64_t kMostOverlapBytes = int64_t(1) << 60;

/// A configuration, and what its plan came to.
struct Candidate {
  std::string flags;        // what makes it, to type: "--micro-batches 4 --remat full"
  CompileOptions options;   // those given, with these
  int64_t arenaBytes = 0;   // planned
  int64_t processBytes = 0; // and what the process needs beside it
  double seconds = 0;       // of a step, estimated
  double exposed = 0;       // of these, waiting for other ranks
  int64_t sentBytes = 0;    // by a rank in a step
};

/// Configurations that the model does not allow, all for one reason.
struct Refusal {
  std::string why;
  std::vector<std::string> flags; // of each
};

struct Family {
  std::vector<Candidate> plans; // ordered by time, equal times by bytes; at least one
  std::vector<Refusal> refusals;
};

/// Plans for the imported module, in parallel: micro-batches x precisions that options name x chunks x what is computed
/// again. Of the last, every choice that is worth having for some price of a kept byte is looked at where the plans
/// around it are the best found. Fails after an error where nothing is possible.
///
/// Over ranks also x what they share out (--zero) x when they add up gradients (--sync) x what stays gathered
/// (--unshard), where these are not given. Within a budget that is searched: of every layout the fastest plan that
/// fits, first of those whose exchanges start as early as helps (--overlap-bytes max). A layout is left out where what
/// none of its plans goes without is too much.
FailureOr<Family> planFamily(ModuleOp module, const CompileOptions &options, const Device &device,
                             std::optional<int64_t> budget = std::nullopt);

/// Kernels of the BLAS library that may run on the processor that is compiled for (ProcessMemory.h): on this one those
/// that it has, on others also better ones. Fails after an error where the processor is not known.
FailureOr<SmallVector<::scrimp::runtime::BlasBlocks>> findBlasKernels(const CompileOptions &options,
                                                                      MLIRContext *context);

/// The candidates that no other beats in both time and bytes, fastest first.
std::vector<const Candidate *> paretoFront(const std::vector<Candidate> &candidates);

} // namespace mlir::scrimp

#endif
