// Formulas built into the graph: what the derivatives beside the ops are written in. Operands of one expression have
// one type; a double becomes a splat of it.
#ifndef SCRIMP_DIALECT_GRAPHEXPR_H
#define SCRIMP_DIALECT_GRAPHEXPR_H

#include "mlir/IR/Builders.h"

namespace mlir::scrimp {

struct GraphExpr {
  OpBuilder *builder;
  Location loc;
  Value value;

  GraphExpr(OpBuilder &builder, Location loc, Value value) : builder(&builder), loc(loc), value(value) {}
  GraphExpr with(Value v) const { return GraphExpr(*builder, loc, v); }
  GraphExpr constant(double v) const;
};

GraphExpr operator+(GraphExpr a, GraphExpr b);
GraphExpr operator-(GraphExpr a, GraphExpr b);
GraphExpr operator*(GraphExpr a, GraphExpr b);
GraphExpr operator/(GraphExpr a, GraphExpr b);
GraphExpr operator-(GraphExpr a);
inline GraphExpr operator+(GraphExpr a, double b) { return a + a.constant(b); }
inline GraphExpr operator-(GraphExpr a, double b) { return a - a.constant(b); }
inline GraphExpr operator*(GraphExpr a, double b) { return a * a.constant(b); }
inline GraphExpr operator/(GraphExpr a, double b) { return a / a.constant(b); }
inline GraphExpr operator+(double a, GraphExpr b) { return b.constant(a) + b; }
inline GraphExpr operator-(double a, GraphExpr b) { return b.constant(a) - b; }
inline GraphExpr operator*(double a, GraphExpr b) { return b.constant(a) * b; }
inline GraphExpr operator/(double a, GraphExpr b) { return b.constant(a) / b; }
inline GraphExpr like(GraphExpr x, double value) { return x.constant(value); }
GraphExpr eq(GraphExpr a, GraphExpr b);
GraphExpr lt(GraphExpr a, GraphExpr b);
GraphExpr gt(GraphExpr a, GraphExpr b);
GraphExpr le(GraphExpr a, GraphExpr b);
inline GraphExpr eq(GraphExpr a, double b) { return eq(a, a.constant(b)); }
inline GraphExpr lt(GraphExpr a, double b) { return lt(a, a.constant(b)); }
inline GraphExpr gt(GraphExpr a, double b) { return gt(a, a.constant(b)); }
inline GraphExpr le(GraphExpr a, double b) { return le(a, a.constant(b)); }
GraphExpr select(GraphExpr condition, GraphExpr a, GraphExpr b);
GraphExpr pow(GraphExpr a, GraphExpr b);
GraphExpr abs(GraphExpr x);
GraphExpr exp(GraphExpr x);
GraphExpr log(GraphExpr x);
GraphExpr sin(GraphExpr x);
GraphExpr cos(GraphExpr x);
GraphExpr erf(GraphExpr x);
GraphExpr tanh(GraphExpr x);
GraphExpr sqrt(GraphExpr x);
GraphExpr sigmoid(GraphExpr x);

/// g * d, and 0 where g is 0, even if d is infinite or NaN there.
GraphExpr guard(GraphExpr g, GraphExpr d);

/// The value broadcast to `shape` (no op if it has it), and summed down to `type`'s shape: the adjoint.
Value broadcastTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape);
Value sumTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape);
Value reshapeTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape);

/// The value as f32 where it is f16 or bf16: what sums are computed in.
Value castToCompute(OpBuilder &builder, Location loc, Value value);
/// The value in `type`, which differs in the element type at most (no op if it does not).
Value castToType(OpBuilder &builder, Location loc, Value value, Type type);

/// log(sum e^x) over `dims`, which the result lacks.
Value logSumExp(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> dims);

/// A splat constant.
Value splatConstant(OpBuilder &builder, Location loc, RankedTensorType type, double value);

} // namespace mlir::scrimp

#endif
