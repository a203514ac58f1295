#include "scrimp/Eval/Interpreter.h"

#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Region ops evaluate their bodies through EvalOp::eval, which knows nothing of rounding: it is that of the
/// evaluation under way.
static thread_local Rounding currentRounding = Rounding::Typed;

Rounding mlir::scrimp::getCurrentRounding() { return currentRounding; }

LogicalResult mlir::scrimp::evalBlock(Block &block, ArrayRef<const HostTensor *> arguments,
                                      MutableArrayRef<HostTensor> results, EvalObserver observer) {
  llvm::DenseMap<Value, HostTensor> values;
  llvm::DenseMap<Value, int64_t> usesLeft;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = *value;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++usesLeft[operand];
  for (Operation &op : block.without_terminator()) {
    auto eval = dyn_cast<EvalOp>(op);
    if (!eval)
      return op.emitOpError() << "cannot be interpreted";
    SmallVector<const HostTensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values[operand]);
    SmallVector<HostTensor> outputs;
    for (Type type : op.getResultTypes())
      outputs.emplace_back(cast<RankedTensorType>(type));
    if (failed(eval.eval(operands, outputs)))
      return failure();
    for (Value operand : op.getOperands())
      if (--usesLeft[operand] == 0)
        values.erase(operand);
    for (auto [result, output] : llvm::zip(op.getResults(), outputs)) {
      if (currentRounding == Rounding::Typed || !output.isFloat())
        output.roundToType();
      if (observer)
        observer(result, output);
      if (usesLeft[result] > 0)
        values[result] = std::move(output);
    }
  }
  for (auto [result, operand] : llvm::zip(results, block.getTerminator()->getOperands()))
    result = values[operand];
  return success();
}

LogicalResult mlir::scrimp::evalFunction(FunctionOpInterface function, ArrayRef<HostTensor> arguments,
                                         SmallVectorImpl<HostTensor> &results, Rounding rounding,
                                         EvalObserver observer) {
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &argument : arguments)
    pointers.push_back(&argument);
  results.assign(function.getNumResults(), HostTensor());
  Rounding outer = currentRounding;
  currentRounding = rounding;
  LogicalResult result = evalBlock(function.getFunctionBody().front(), pointers, results, observer);
  currentRounding = outer;
  return result;
}
