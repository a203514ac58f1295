// What is alive while a planned program runs a step.
#ifndef SCRIMP_PLANNER_TIMELINE_H
#define SCRIMP_PLANNER_TIMELINE_H

#include "scrimp/Analysis/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::scrimp {

/// [[seconds, bytes], ...]: from each point in time on, as the cost model has it, so many bytes of the arena hold
/// something that is still needed. A loop is shown as one iteration, as long as all of them take. Equal neighbours are
/// one point; the last ends the step. Fails after an error where the function has no legal place for a value.
FailureOr<llvm::json::Array> buildTimeline(func::FuncOp planned, const DeviceRates &rates);

/// The report (Report.h) as a page to look at: tables, and timelines as drawings.
std::string drawReport(const llvm::json::Object &report);

} // namespace mlir::scrimp

#endif
