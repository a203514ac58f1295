// What the patterns of scrimp-raise-idioms share: looking through the shapes and constants around a formula.
#ifndef SCRIMP_LIB_TRANSFORMS_RAISEIDIOMS_MATCH_H
#define SCRIMP_LIB_TRANSFORMS_RAISEIDIOMS_MATCH_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::scrimp {

void populateActivationIdioms(RewritePatternSet &patterns);
void populateAttentionIdioms(RewritePatternSet &patterns);
void populateAttentionMaskIdioms(RewritePatternSet &patterns);
void populateCrossEntropyIdioms(RewritePatternSet &patterns);
void populateLogarithmIdioms(RewritePatternSet &patterns);
void populateNoiseIdioms(RewritePatternSet &patterns);
void populateNormIdioms(RewritePatternSet &patterns);
void populateSoftmaxIdioms(RewritePatternSet &patterns);

/// The one number that all elements of a float or integer constant are, seen through broadcasts and reshapes.
std::optional<double> getSplat(Value value);

/// Whether `value` is a splat of `number` rounded to its element type. A formula with 0.7978846 is not GELU in fp64.
bool isSplatOf(Value value, double number);

/// `value` without the reshapes that made it: elements in the same row-major order.
Value skipReshapes(Value value);

/// The value that `value` spreads over the dimensions from some axis on: one element for each of the `rows` first
/// indices, in order. Null if it is no such broadcast. Constants are not looked at.
Value getRowValue(Value value, int64_t rows);

/// Matches the combination of `x` over its dimensions from `axis` on, whatever shape of one element a row it has.
ReduceOp matchRowReduce(Value value, ReduceKind kind);

/// The first of the trailing dimensions that `reduce` runs over; nothing if it reduces others.
std::optional<int64_t> getTrailingAxis(ReduceOp reduce);

/// Splits `value` into the factors of a tree of multiplications; splats, also divisors, are multiplied into `scale`.
void collectFactors(Value value, SmallVectorImpl<Value> &factors, double &scale);

/// Takes splat factors and divisors off `value`, multiplying them into `scale`.
Value skipScale(Value value, double &scale);

/// Remarks at every attention that has a large mask of queries times keys.
void tellLargeMasks(Operation *root);

/// The masks that do together what an attention's `mask` does: conjunctions and sums, also under what only moves elements.
/// Nothing if it is one mask. Where `low` or less is added, nothing is seen.
SmallVector<Value> splitMask(Value mask, OpBuilder &builder, double low = -std::numeric_limits<double>::infinity());

/// If `op` combines `match(a)` with another operand b, returns b.
template <typename Op, typename Fn>
Value matchEither(Value value, Fn match) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return {};
  if (match(op->getOperand(0)))
    return op->getOperand(1);
  return match(op->getOperand(1)) ? op->getOperand(0) : Value();
}

} // namespace mlir::scrimp

#endif
