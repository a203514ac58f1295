// What the ops of ElementwiseOps.td share: a formula evaluated or emitted element by element.
#ifndef SCRIMP_LIB_DIALECT_MAPOPS_H
#define SCRIMP_LIB_DIALECT_MAPOPS_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// Operand `operand` at `ivs`, converted to the type arithmetic is done in.
inline ScalarExpr loadCompute(OpBuilder &builder, Location loc, LoadFn load, unsigned operand, ValueRange ivs) {
  Value value = load(builder, operand, ivs);
  return ScalarExpr(builder, loc, emitConvert(builder, loc, value, getComputeType(value.getType())));
}

/// `value` rounded to result `result`'s element type.
inline Value roundToResult(OpBuilder &builder, Operation *op, unsigned result, Value value) {
  return emitConvert(builder, op->getLoc(), value, tensorType(op->getResult(result)).getElementType());
}

template <typename Op>
LogicalResult evalUnary(Op op, ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &x = *operands[0];
  if (x.isFloat())
    for (int64_t i = 0; i < x.size(); ++i)
      results[0].floats()[i] = op.formula(x.floats()[i]);
  else if constexpr (requires { op.formulaTakesIntegers(); })
    for (int64_t i = 0; i < x.size(); ++i)
      results[0].ints()[i] = op.formula(x.ints()[i]);
  return success();
}

template <typename Op>
SmallVector<Value> emitUnary(Op op, OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs);
  return {roundToResult(builder, op, 0, op.formula(x).value)};
}

template <typename Op>
LogicalResult evalBinary(Op op, ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  if constexpr (requires { op.formulaTakesFloats(); })
    if (a.isFloat())
      for (int64_t i = 0; i < a.size(); ++i)
        results[0].floats()[i] = op.formula(a.floats()[i], b.floats()[i]);
  if constexpr (requires { op.formulaTakesIntegers(); })
    if (!a.isFloat())
      for (int64_t i = 0; i < a.size(); ++i)
        results[0].ints()[i] = op.formula(a.ints()[i], b.ints()[i]);
  return success();
}

template <typename Op>
SmallVector<Value> emitBinary(Op op, OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr a = loadCompute(builder, loc, load, 0, ivs), b = loadCompute(builder, loc, load, 1, ivs);
  return {roundToResult(builder, op, 0, op.formula(a, b).value)};
}

} // namespace mlir::scrimp

#endif
