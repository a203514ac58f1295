// Steps of lowering that CPU and GPU share.
#ifndef SCRIMP_LIB_CODEGEN_LOWERKERNELS_H
#define SCRIMP_LIB_CODEGEN_LOWERKERNELS_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::scrimp {

/// Rewrites math ops in f32 as code that vectorises, and calls libm, where there is one, for those that LLVM's lowering
/// would compute badly. See MathExpansion.cpp.
std::unique_ptr<Pass> createExpandMathPass(bool hasFma, bool hasLibm);

/// Rewrites what f32 kernels of a device would take from a library. See DeviceMath.cpp.
std::unique_ptr<Pass> createDeviceMathPass();

/// Rewrites conversions to bf16 from anything but f32, which would round twice, in terms of f32.
std::unique_ptr<Pass> createExpandBFloat16Pass();

/// What is left of bf16 arithmetic becomes f32's, and its conversions integer code.
void addFloatExpansion(OpPassManager &manager);

} // namespace mlir::scrimp

#endif
