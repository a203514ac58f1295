// --memory-budget: the fastest configuration whose plan fits. Every candidate of a family that does not depend on the
// budget is planned whole, so a smaller budget never gives a higher peak.
#ifndef SCRIMP_DRIVER_BUDGET_H
#define SCRIMP_DRIVER_BUDGET_H

#include "scrimp/Driver/Compile.h"

namespace mlir::scrimp {
struct Device;

/// A configuration, and what its plan came to.
struct Candidate {
  std::string flags;         // what makes it, to type: "--micro-batches 4 --remat full"
  CompileOptions options;    // those given, with these
  int64_t arenaBytes = 0;    // planned
  int64_t processBytes = 0;  // and what the process needs beside it
  double seconds = 0;        // of a step, estimated
  std::string failure;       // why it has no plan; empty: it has one
};

/// Plans all candidates for the imported module, in parallel; ordered by time, equal times by bytes, those that are not
/// possible last. Fails after an error where none is.
FailureOr<std::vector<Candidate>> planCandidates(ModuleOp module, const CompileOptions &options, const Device &device);

/// The candidates that no other beats in both time and bytes, fastest first.
std::vector<const Candidate *> paretoFront(const std::vector<Candidate> &candidates);

/// A line for each of these; a star at `chosen`, if it is among them.
void printFront(raw_ostream &os, const std::vector<Candidate> &candidates, const Candidate *chosen = nullptr);

/// Replaces options.memoryBudget by the flags of the fastest candidate that fits, and says which on stderr unless
/// options.quiet. Fails after an error that names the smallest plan and what holds it up.
LogicalResult chooseWithinBudget(ModuleOp module, CompileOptions &options, const Device &device);

/// An SVG of peak against time: all candidates, the front as a line.
std::string drawPareto(const std::vector<Candidate> &candidates);

/// Bytes of "6GiB", "512 MiB", "2G" (2^30), "1500MB" (10^6), or of "max": what this process may still take of the machine's
/// memory or its cgroup's. None: no such size.
std::optional<int64_t> parseMemorySize(StringRef text);

} // namespace mlir::scrimp

#endif
