#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::scrimp;

ScalarExpr mlir::scrimp::bitAnd(ScalarExpr a, ScalarExpr b) {
  return a.with(arith::AndIOp::create(*a.builder, a.loc, a.value, b.value));
}
ScalarExpr mlir::scrimp::bitOr(ScalarExpr a, ScalarExpr b) {
  return a.with(arith::OrIOp::create(*a.builder, a.loc, a.value, b.value));
}
ScalarExpr mlir::scrimp::bitXor(ScalarExpr a, ScalarExpr b) {
  return a.with(arith::XOrIOp::create(*a.builder, a.loc, a.value, b.value));
}

//===-- compare ----------------------------------------------------------------------------------------------------===//

void CompareOp::build(OpBuilder &builder, OperationState &state, Predicate predicate, Value a, Value b) {
  build(builder, state, tensorType(a).clone(builder.getI1Type()), predicate, a, b);
}

template <typename E>
static auto comparePair(Predicate predicate, E a, E b) {
  switch (predicate) {
  case Predicate::eq:
    return eq(a, b);
  case Predicate::ne:
    return ne(a, b);
  case Predicate::lt:
    return lt(a, b);
  case Predicate::le:
    return le(a, b);
  case Predicate::gt:
    return gt(a, b);
  case Predicate::ge:
    return ge(a, b);
  }
  llvm_unreachable("a predicate");
}

LogicalResult CompareOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  for (int64_t i = 0; i < a.size(); ++i) {
    // 64-bit integers do not all fit a double; their difference's sign does.
    bool holds = a.isFloat() ? comparePair(getPredicate(), a.floats()[i], b.floats()[i])
                             : comparePair(getPredicate(), double(a.ints()[i] > b.ints()[i]) - double(a.ints()[i] < b.ints()[i]), 0.0);
    results[0].ints()[i] = holds;
  }
  return success();
}

SmallVector<Value> CompareOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr a = loadCompute(builder, loc, load, 0, ivs), b = loadCompute(builder, loc, load, 1, ivs);
  return {comparePair(getPredicate(), a, b).value};
}

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }

//===-- select -----------------------------------------------------------------------------------------------------===//

LogicalResult SelectOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &condition = *operands[0];
  for (int64_t i = 0; i < condition.size(); ++i) {
    const HostTensor &taken = condition.ints()[i] ? *operands[1] : *operands[2];
    if (taken.isFloat())
      results[0].floats()[i] = taken.floats()[i];
    else
      results[0].ints()[i] = taken.ints()[i];
  }
  return success();
}

SmallVector<Value> SelectOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  Value condition = load(builder, 0, ivs), a = load(builder, 1, ivs), b = load(builder, 2, ivs);
  return {arith::SelectOp::create(builder, loc, condition, a, b)};
}

void SelectOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  Value zero = splatConstant(builder, getLoc(), tensorType(getY()), 0);
  if (needed[1])
    operandGrads[1] = SelectOp::create(builder, getLoc(), getCondition(), resultGrads[0], zero);
  if (needed[2])
    operandGrads[2] = SelectOp::create(builder, getLoc(), getCondition(), zero, resultGrads[0]);
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB())
    return getA();
  if (auto condition = dyn_cast_or_null<SplatElementsAttr>(adaptor.getCondition()))
    return condition.getSplatValue<bool>() ? getA() : getB();
  return foldExactly(*this, adaptor.getOperands());
}

//===-- cast -------------------------------------------------------------------------------------------------------===//

LogicalResult CastOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  bool toBool = y.getType().getElementType().isInteger(1);
  for (int64_t i = 0; i < x.size(); ++i) {
    if (y.isFloat())
      y.floats()[i] = x.asDouble(i);
    else if (toBool)
      y.ints()[i] = x.isFloat() ? x.floats()[i] != 0 : x.ints()[i] != 0;
    else
      y.ints()[i] = x.isFloat() ? static_cast<int64_t>(x.floats()[i]) : x.ints()[i];
  }
  return success();
}

/// Reading fewer bytes again costs less than storing more.
bool CastOp::isFreeInKernel() {
  return isFloatTensor(getX()) && isFloatTensor(getY()) && tensorType(getX()).getElementTypeBitWidth() == 16 &&
         tensorType(getY()).getElementTypeBitWidth() > 16;
}

SmallVector<Value> CastOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  return {roundToResult(builder, *this, 0, load(builder, 0, ivs))};
}

void CastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                           MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = CastOp::create(builder, getLoc(), getX().getType(), resultGrads[0]);
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  // x -> wider -> x again loses nothing.
  if (auto inner = getX().getDefiningOp<CastOp>())
    if (inner.getX().getType() == getY().getType() && isFloatTensor(inner.getX()) && isFloatTensor(getX()) &&
        tensorType(getX()).getElementTypeBitWidth() >= 2 * tensorType(getY()).getElementTypeBitWidth())
      return inner.getX();
  return foldExactly(*this, adaptor.getOperands());
}

//===-- clip, leaky_relu, elu --------------------------------------------------------------------------------------===//

LogicalResult ClipOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  double low = getLow().convertToDouble(), high = getHigh().convertToDouble();
  for (auto [x, y] : llvm::zip(operands[0]->floats(), results[0].floats()))
    y = minimum(maximum(x, low), high);
  return success();
}

SmallVector<Value> ClipOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs);
  ScalarExpr y = minimum(maximum(x, like(x, getLow().convertToDouble())), like(x, getHigh().convertToDouble()));
  return {roundToResult(builder, *this, 0, y.value)};
}

void ClipOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                           MutableArrayRef<Value> operandGrads) {
  GraphExpr g(builder, getLoc(), resultGrads[0]), x(builder, getLoc(), getX()), zero = like(g, 0);
  if (getStraightThrough()) {
    operandGrads[0] = g.value;
    return;
  }
  double low = getLow().convertToDouble(), high = getHigh().convertToDouble();
  // A side without a bound hides nothing, whatever x is.
  if (low != -std::numeric_limits<double>::infinity())
    g = select(gt(x, low), g, zero);
  if (high != std::numeric_limits<double>::infinity())
    g = select(lt(x, high), g, zero);
  operandGrads[0] = g.value;
}

namespace mlir::scrimp {
template <typename E>
static E leakyRelu(E x, double alpha) {
  return select(gt(x, like(x, 0.0)), x, alpha * x);
}
template <typename E>
static E elu(E x, double alpha) {
  return select(gt(x, like(x, 0.0)), x, alpha * expm1(minimum(x, like(x, 0.0))));
}
} // namespace mlir::scrimp

LogicalResult LeakyReluOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  for (auto [x, y] : llvm::zip(operands[0]->floats(), results[0].floats()))
    y = leakyRelu(x, getAlpha().convertToDouble());
  return success();
}
SmallVector<Value> LeakyReluOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs);
  return {roundToResult(builder, *this, 0, leakyRelu(x, getAlpha().convertToDouble()).value)};
}
void LeakyReluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  GraphExpr g(builder, getLoc(), resultGrads[0]), x(builder, getLoc(), getX());
  operandGrads[0] = select(gt(x, 0.0), g, getAlpha().convertToDouble() * g).value;
}

LogicalResult EluOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  for (auto [x, y] : llvm::zip(operands[0]->floats(), results[0].floats()))
    y = elu(x, getAlpha().convertToDouble());
  return success();
}
SmallVector<Value> EluOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs);
  return {roundToResult(builder, *this, 0, elu(x, getAlpha().convertToDouble()).value)};
}
void EluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                          MutableArrayRef<Value> operandGrads) {
  // Not y + alpha, which is 0 long before its exponential is.
  GraphExpr g(builder, getLoc(), resultGrads[0]), x(builder, getLoc(), getX());
  operandGrads[0] = select(gt(x, 0.0), g, g * (getAlpha().convertToDouble() * exp(x))).value;
}
