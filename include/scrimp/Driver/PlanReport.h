// What scrimp-plan prints.
#ifndef SCRIMP_DRIVER_PLANREPORT_H
#define SCRIMP_DRIVER_PLANREPORT_H

#include "scrimp/Driver/Compile.h"

namespace mlir::scrimp {

/// Plans the model and prints peak, lower bound, segments, where the peak is and who holds most of it (Report.h says
/// what these are).
LogicalResult printPlan(const CompileOptions &options, MLIRContext *context, llvm::raw_ostream &os);

/// Prints the program that the runtime would run, as scrimp.cmd ops.
LogicalResult printCommands(const CompileOptions &options, MLIRContext *context, llvm::raw_ostream &os);

/// Lists each parameter and buffer: name, shape, role, the reason for the role, further names.
LogicalResult printParameters(const CompileOptions &options, MLIRContext *context, llvm::raw_ostream &os);

/// Plans every candidate that --memory-budget would look at, prints those that no other beats in both time and bytes,
/// and draws all into the file `pareto`.
LogicalResult printPareto(const CompileOptions &options, StringRef pareto, MLIRContext *context, raw_ostream &os);

} // namespace mlir::scrimp

#endif
