// What the runtime does on a device by kernels of its own, beside those of the graph.
#ifndef SCRIMP_LIB_CODEGEN_RUNTIMEKERNELS_H
#define SCRIMP_LIB_CODEGEN_RUNTIMEKERNELS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::scrimp {

/// Builds at the builder, in the form of emitKernels, what the program of `module` may need:
///   check_T                   looks at an element (program.fbs, CheckFinite)
///   exchange_sum_W_T          out[i] of T = ((w[0, i] + w[1, i]) + ...) of w[ranks, units] of W, in f32, in f64 for
///   f64,
///                             with one rounding; exchange_max_T the largest, as of scrimp.maximum
///   exchange_cast_T_W         element by element
/// The latter where ranks reduce, of the types that they reduce; exchange_max_i64 wherever there are ranks.
void emitRuntimeKernels(OpBuilder &builder, ModuleOp module);

} // namespace mlir::scrimp

#endif
