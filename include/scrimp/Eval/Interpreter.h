// Evaluates IR of any graph level: the oracle that is independent of code generation.
#ifndef SCRIMP_EVAL_INTERPRETER_H
#define SCRIMP_EVAL_INTERPRETER_H

#include "scrimp/Eval/HostTensor.h"

#include "mlir/IR/Block.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::scrimp {

/// How values are rounded between ops. `Exact`: every float is a double, whatever its type says. `Typed`: every result
/// is rounded to its element type.
enum class Rounding { Exact, Typed };

/// That of the evalFunction under way on this thread (Typed outside of one), for an op whose steps are roundings too.
Rounding getCurrentRounding();

/// Sees every value that is computed, in order.
using EvalObserver = llvm::function_ref<void(Value, const HostTensor &)>;

/// Evaluates a block whose ops implement EvalOp; `results` receive the terminator's operands. Values are dropped after
/// their last use; rounding is that of the evalFunction under way (Typed outside of one). Fails after an error at the op that cannot be evaluated.
LogicalResult evalBlock(Block &block, ArrayRef<const HostTensor *> arguments, MutableArrayRef<HostTensor> results,
                        EvalObserver observer = nullptr);

/// Evaluates a function with one block.
LogicalResult evalFunction(FunctionOpInterface function, ArrayRef<HostTensor> arguments,
                           SmallVectorImpl<HostTensor> &results, Rounding rounding, EvalObserver observer = nullptr);

} // namespace mlir::scrimp

#endif
