// One kernel's function; see Kernels.h for its form.
#ifndef SCRIMP_LIB_CODEGEN_KERNELEMITTER_H
#define SCRIMP_LIB_CODEGEN_KERNELEMITTER_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

struct KernelShape {
  int64_t units = 0;
  /// A unit is one element, so that a range of units is one vector loop.
  bool unitIsElement = false;
};

/// Emits `kernel` as function `symbol` at the builder's insertion point. Fails after an error at the kernel.
FailureOr<KernelShape> emitKernelFunction(OpBuilder &builder, KernelRegionOp kernel, StringRef symbol);

} // namespace mlir::scrimp

#endif
