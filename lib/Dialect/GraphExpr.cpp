#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

GraphExpr GraphExpr::constant(double v) const { return with(splatConstant(*builder, loc, tensorType(value), v)); }

template <typename Op>
static GraphExpr binary(GraphExpr a, GraphExpr b) {
  return a.with(Op::create(*a.builder, a.loc, a.value, b.value));
}
template <typename Op>
static GraphExpr unary(GraphExpr x) {
  return x.with(Op::create(*x.builder, x.loc, x.value));
}
static GraphExpr compare(Predicate predicate, GraphExpr a, GraphExpr b) {
  return a.with(CompareOp::create(*a.builder, a.loc, predicate, a.value, b.value));
}

GraphExpr mlir::scrimp::operator+(GraphExpr a, GraphExpr b) { return binary<AddOp>(a, b); }
GraphExpr mlir::scrimp::operator-(GraphExpr a, GraphExpr b) { return binary<SubOp>(a, b); }
GraphExpr mlir::scrimp::operator*(GraphExpr a, GraphExpr b) { return binary<MulOp>(a, b); }
GraphExpr mlir::scrimp::operator/(GraphExpr a, GraphExpr b) { return binary<DivOp>(a, b); }
GraphExpr mlir::scrimp::operator-(GraphExpr a) { return unary<NegOp>(a); }
GraphExpr mlir::scrimp::eq(GraphExpr a, GraphExpr b) { return compare(Predicate::eq, a, b); }
GraphExpr mlir::scrimp::lt(GraphExpr a, GraphExpr b) { return compare(Predicate::lt, a, b); }
GraphExpr mlir::scrimp::gt(GraphExpr a, GraphExpr b) { return compare(Predicate::gt, a, b); }
GraphExpr mlir::scrimp::le(GraphExpr a, GraphExpr b) { return compare(Predicate::le, a, b); }
GraphExpr mlir::scrimp::select(GraphExpr condition, GraphExpr a, GraphExpr b) {
  return a.with(SelectOp::create(*a.builder, a.loc, condition.value, a.value, b.value));
}
GraphExpr mlir::scrimp::pow(GraphExpr a, GraphExpr b) { return binary<PowOp>(a, b); }
GraphExpr mlir::scrimp::abs(GraphExpr x) { return unary<AbsOp>(x); }
GraphExpr mlir::scrimp::exp(GraphExpr x) { return unary<ExpOp>(x); }
GraphExpr mlir::scrimp::log(GraphExpr x) { return unary<LogOp>(x); }
GraphExpr mlir::scrimp::sin(GraphExpr x) { return unary<SinOp>(x); }
GraphExpr mlir::scrimp::cos(GraphExpr x) { return unary<CosOp>(x); }
GraphExpr mlir::scrimp::erf(GraphExpr x) { return unary<ErfOp>(x); }
GraphExpr mlir::scrimp::tanh(GraphExpr x) { return unary<TanhOp>(x); }
GraphExpr mlir::scrimp::sqrt(GraphExpr x) { return unary<SqrtOp>(x); }
GraphExpr mlir::scrimp::sigmoid(GraphExpr x) { return unary<SigmoidOp>(x); }

GraphExpr mlir::scrimp::guard(GraphExpr g, GraphExpr d) { return select(eq(g, 0.0), like(g, 0.0), g * d); }

Value mlir::scrimp::splatConstant(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  HostTensor scalar = HostTensor::splat(RankedTensorType::get({}, type.getElementType()), value);
  return ConstantOp::create(builder, loc, cast<ElementsAttr>(scalar.toAttr().resizeSplat(type)));
}

Value mlir::scrimp::reshapeTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(builder, loc, tensorType(value).clone(shape), value);
}

Value mlir::scrimp::broadcastTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return BroadcastOp::create(builder, loc, tensorType(value).clone(shape), value);
}

Value mlir::scrimp::sumTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(value);
  if (from == shape)
    return value;
  SmallVector<int64_t> dims;
  size_t leading = from.size() - shape.size();
  for (size_t d = 0; d < from.size(); ++d)
    if (d < leading || (shape[d - leading] == 1 && from[d] != 1))
      dims.push_back(d);
  return reshapeTo(builder, loc, ReduceOp::create(builder, loc, ReduceKind::sum, value, dims), shape);
}

Value mlir::scrimp::castToCompute(OpBuilder &builder, Location loc, Value value) {
  RankedTensorType type = tensorType(value);
  return castToType(builder, loc, value, type.clone(getComputeType(type.getElementType())));
}

Value mlir::scrimp::castToType(OpBuilder &builder, Location loc, Value value, Type type) {
  return value.getType() == type ? value : Value(CastOp::create(builder, loc, type, value));
}

Value mlir::scrimp::logSumExp(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> dims) {
  // log_sum_exp takes one dimension, the last: the others come first.
  SmallVector<int64_t> permutation, shape;
  int64_t count = 1;
  for (auto [d, size] : llvm::enumerate(shapeOf(x))) {
    if (llvm::is_contained(dims, static_cast<int64_t>(d))) {
      count *= size;
      continue;
    }
    permutation.push_back(d);
    shape.push_back(size);
  }
  llvm::append_range(permutation, dims);
  shape.push_back(count);
  if (!llvm::is_sorted(permutation))
    x = TransposeOp::create(builder, loc, x, permutation);
  return LogSumExpOp::create(builder, loc, reshapeTo(builder, loc, x, shape));
}
