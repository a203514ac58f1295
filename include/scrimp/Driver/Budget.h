// --memory-budget: the fastest configuration whose plan fits. Every candidate of a family that does not depend on the
// budget is planned whole, so a smaller budget never gives a higher peak.
#ifndef SCRIMP_DRIVER_BUDGET_H
#define SCRIMP_DRIVER_BUDGET_H

#include "scrimp/Driver/Candidates.h"

#include "llvm/Support/JSON.h"

namespace mlir::scrimp {
/// A line for each plan that no other beats, a star at `chosen` if it is among them; then one for each reason why there
/// are not more. Of a search over ranks within `budget`: a line for each layout and number of micro-batches that was
/// planned.
void printFamily(raw_ostream &os, const Family &family, const Candidate *chosen = nullptr,
                 std::optional<int64_t> budget = std::nullopt);

/// Replaces options.memoryBudget by the flags of the fastest candidate that fits, and says which on stderr unless
/// options.quiet. Gives what it looked at, for reports (Report.h, `search`). Fails after an error that names the
/// smallest plan and what holds it up.
FailureOr<llvm::json::Object> chooseWithinBudget(ModuleOp module, CompileOptions &options, const Device &device);

/// An SVG of peak against time: all candidates, the front as a line.
std::string drawPareto(const std::vector<Candidate> &candidates);

/// Bytes of "6GiB", "512 MiB", "2G" (2^30), "1500MB" (10^6), or of "max": what this process may still take of the
/// machine's memory or its cgroup's. None: no such size.
std::optional<int64_t> parseMemorySize(StringRef text);

} // namespace mlir::scrimp

#endif
