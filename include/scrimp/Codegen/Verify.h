// Runs compiled kernels op by op beside the interpreter: the engine of `scrimp-compile --verify` and of the kernels'
// tests.
#ifndef SCRIMP_CODEGEN_VERIFY_H
#define SCRIMP_CODEGEN_VERIFY_H

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Eval/HostTensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

struct VerifyOptions {
  CpuOptions cpu;
  /// Tolerance in units of the element type's rounding error, for |expected| plus the result's largest magnitude.
  double ulps = 16;
};

/// The bytes of a tensor in memory as kernels see it, and back.
std::vector<char> encodeTensor(const HostTensor &value);
HostTensor decodeTensor(RankedTensorType type, ArrayRef<char> bytes);

/// Values for a function's arguments that its ops can digest: indices within scrimp.valid, the ignored index here and
/// there, state that is never negative (a variance), small parameters, usual hyperparameters. The same for one seed.
SmallVector<HostTensor> makeRandomArguments(func::FuncOp function, uint64_t seed);

/// Evaluates `function` on `arguments`. Every kernel runs as compiled code on the values that ops before it gave,
/// whatever else there is in the interpreter, and must
///   - agree with the interpreter on the same operands, to `options.ulps` of the kernel's coarsest rounding, or of what
///     rounding the operands otherwise would change (integers exactly);
///   - give the same bits when its units are cut into ranges run in another order, and when a result takes the bytes of
///     an operand it may overwrite.
/// Of a program of many ranks one is evaluated, and all others taken for the same (EqualRanks).
/// `module` holds `function`; emitKernels has been run on it and gave `kernels`. Fails after an error at the first op
/// that differs, which names the op, the element and both values. `results` are the function's.
LogicalResult verifyKernels(ModuleOp module, func::FuncOp function, ModuleOp kernels, ArrayRef<HostTensor> arguments,
                            const VerifyOptions &options, SmallVectorImpl<HostTensor> &results);

} // namespace mlir::scrimp

#endif
