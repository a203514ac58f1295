// What each memory pass saved and cost, for reports.
#ifndef SCRIMP_DRIVER_PASSREPORT_H
#define SCRIMP_DRIVER_PASSREPORT_H

#include "scrimp/Driver/Compile.h"

#include "llvm/Support/JSON.h"

namespace mlir::scrimp {

/// Adds to a report `passes` and `timeline` (Report.h): the imported module is planned again without the options that
/// save memory, then with one more of them at a time, up to `options`. Fails after an error where a plan cannot be
/// made.
LogicalResult addPasses(llvm::json::Object &report, ModuleOp imported, const CompileOptions &options);

} // namespace mlir::scrimp

#endif
