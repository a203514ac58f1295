// Emitting scalar code and loops into a kernel: the vocabulary of KernelOp implementations.
//
// Everything here builds arith, math, scf and memref ops at the builder's insertion point. No fast-math flag is ever
// set, and every reduction's order is written out, so that the bits of a kernel follow from its ops alone.
#ifndef SCRIMP_CODEGEN_EMIT_H
#define SCRIMP_CODEGEN_EMIT_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::scrimp {

Value emitIndex(OpBuilder &builder, Location loc, int64_t value);

/// A constant of `type` (float, integer or index).
Value emitConstant(OpBuilder &builder, Location loc, Type type, double value);

/// The type arithmetic on `type` is done in: f32 for f16 and bf16, else the type itself.
Type getComputeType(Type type);

/// Converts between numeric types. To a narrower float: rounds to nearest even. Float to integer: towards zero. To
/// i1: whether it is not zero. From i1: 0 or 1. Same type: no op.
Value emitConvert(OpBuilder &builder, Location loc, Value value, Type to);

/// `for (iv = 0; iv < n; ++iv) body(iv)`. A loop whose iterations touch disjoint elements is `parallel`: an scf.parallel,
/// which a processor vectorises and the threads of a device share out (ExpandUnits.cpp).
void emitLoop(OpBuilder &builder, Location loc, Value begin, Value end,
              llvm::function_ref<void(OpBuilder &, Value iv)> body, bool parallel = false);
void emitLoop(OpBuilder &builder, Location loc, int64_t n, llvm::function_ref<void(OpBuilder &, Value iv)> body,
              bool parallel = false);

/// Nested loops over `shape`, the innermost parallel if asked for.
void emitLoopNest(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape,
                  llvm::function_ref<void(OpBuilder &, ValueRange ivs)> body, bool innermostParallel = false);

/// A buffer of a unit of work, shared by whoever works on it, that lives as long as the kernel function; its contents are
/// undefined.
Value emitStackBuffer(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape, Type elementType);

/// The index into `shape` (row-major) that the linear index `linear` stands for.
SmallVector<Value> emitDelinearize(OpBuilder &builder, Location loc, Value linear, ArrayRef<int64_t> shape);

/// Row-major linear index of `indices` into `shape`.
Value emitLinearize(OpBuilder &builder, Location loc, ValueRange indices, ArrayRef<int64_t> shape);

enum class Combine { Add, Max, Min, Mul };

Value emitCombine(OpBuilder &builder, Location loc, Combine kind, Value a, Value b);

/// The neutral element of `kind` in `type`.
Value emitNeutral(OpBuilder &builder, Location loc, Combine kind, Type type);

/// Reduces elements 0..n-1 in an order that is a function of n and the target alone (ExpandUnits.cpp): an scf.parallel with
/// an scf.reduce. `element(builder, j)` gives one value per accumulator, of its compute type; returns one value per
/// accumulator.
SmallVector<Value> emitReduce(OpBuilder &builder, Location loc, int64_t n, ArrayRef<Combine> kinds,
                              ArrayRef<Type> types,
                              llvm::function_ref<SmallVector<Value>(OpBuilder &, Value j)> element);

//===-- Expressions ------------------------------------------------------------------------------------------------===//
// One spelling for a formula, whether it is computed now (double, int64_t), emitted into a kernel (ScalarExpr) or built
// into the graph (GraphExpr, Dialect/GraphExpr.h): `x / (1.0 + exp(-x))`.

struct ScalarExpr {
  OpBuilder *builder;
  Location loc;
  Value value;

  ScalarExpr(OpBuilder &builder, Location loc, Value value) : builder(&builder), loc(loc), value(value) {}
  ScalarExpr with(Value v) const { return ScalarExpr(*builder, loc, v); }
  ScalarExpr constant(double v) const { return with(emitConstant(*builder, loc, value.getType(), v)); }
};

ScalarExpr operator+(ScalarExpr a, ScalarExpr b);
ScalarExpr operator-(ScalarExpr a, ScalarExpr b);
ScalarExpr operator*(ScalarExpr a, ScalarExpr b);
ScalarExpr operator/(ScalarExpr a, ScalarExpr b);
ScalarExpr operator-(ScalarExpr a);
inline ScalarExpr operator+(ScalarExpr a, double b) { return a + a.constant(b); }
inline ScalarExpr operator-(ScalarExpr a, double b) { return a - a.constant(b); }
inline ScalarExpr operator*(ScalarExpr a, double b) { return a * a.constant(b); }
inline ScalarExpr operator/(ScalarExpr a, double b) { return a / a.constant(b); }
inline ScalarExpr operator+(double a, ScalarExpr b) { return b.constant(a) + b; }
inline ScalarExpr operator-(double a, ScalarExpr b) { return b.constant(a) - b; }
inline ScalarExpr operator*(double a, ScalarExpr b) { return b.constant(a) * b; }
inline ScalarExpr operator/(double a, ScalarExpr b) { return b.constant(a) / b; }

// Comparisons give an i1. Ordered, apart from ne.
ScalarExpr eq(ScalarExpr a, ScalarExpr b);
ScalarExpr ne(ScalarExpr a, ScalarExpr b);
ScalarExpr lt(ScalarExpr a, ScalarExpr b);
ScalarExpr le(ScalarExpr a, ScalarExpr b);
ScalarExpr gt(ScalarExpr a, ScalarExpr b);
ScalarExpr ge(ScalarExpr a, ScalarExpr b);
/// `value` in the type of `x`.
inline ScalarExpr like(ScalarExpr x, double value) { return x.constant(value); }
ScalarExpr select(ScalarExpr condition, ScalarExpr a, ScalarExpr b);
// NaN if an operand is NaN.
ScalarExpr maximum(ScalarExpr a, ScalarExpr b);
ScalarExpr minimum(ScalarExpr a, ScalarExpr b);
ScalarExpr remainder(ScalarExpr a, ScalarExpr b); // C's fmod or %
ScalarExpr pow(ScalarExpr a, ScalarExpr b);
ScalarExpr exp(ScalarExpr x);
ScalarExpr log(ScalarExpr x);
ScalarExpr expm1(ScalarExpr x);
ScalarExpr log1p(ScalarExpr x);
ScalarExpr sqrt(ScalarExpr x);
ScalarExpr tanh(ScalarExpr x);
ScalarExpr erf(ScalarExpr x);
ScalarExpr sin(ScalarExpr x);
ScalarExpr cos(ScalarExpr x);
ScalarExpr floor(ScalarExpr x);
ScalarExpr ceil(ScalarExpr x);
ScalarExpr roundEven(ScalarExpr x);
ScalarExpr abs(ScalarExpr x);

// The same for values at hand.
inline bool eq(double a, double b) { return a == b; }
inline bool ne(double a, double b) { return a != b; }
inline bool lt(double a, double b) { return a < b; }
inline bool le(double a, double b) { return a <= b; }
inline bool gt(double a, double b) { return a > b; }
inline bool ge(double a, double b) { return a >= b; }
inline double like(double, double value) { return value; }
inline double select(bool condition, double a, double b) { return condition ? a : b; }
double maximum(double a, double b);
double minimum(double a, double b);
double remainder(double a, double b);
double roundEven(double x);
double exp(double x);
double log(double x);
double expm1(double x);
double log1p(double x);
double sqrt(double x);
double tanh(double x);
double erf(double x);
double sin(double x);
double cos(double x);
double floor(double x);
double ceil(double x);
double abs(double x);
double pow(double a, double b);
inline int64_t maximum(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }
// The least integer has no negative: its remainder by -1 would trap.
inline int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

} // namespace mlir::scrimp

#endif
