// How the dimensions of an op's operands and results correspond: the vocabulary of BatchSplitOp. Kept apart from the
// dialect so that interfaces need no more than this.
#ifndef SCRIMP_DIALECT_DIMENSIONRULE_H
#define SCRIMP_DIALECT_DIMENSIONRULE_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::scrimp {

/// Which parts of a factor's indices make a piece of the op.
enum class FactorKind {
  Whole,      ///< none: every result needs them all
  Statistics, ///< none, unless each piece may have statistics of its own (batch normalisation)
  Split,      ///< any
  InOrder,    ///< a range, whose first index the piece is built with: elements depend on where they are
};

/// Indices 0 to size - 1 that an op runs over.
struct Factor {
  int64_t size;
  FactorKind kind;
};

/// The factors of the dimensions of one tensor, outermost first; their sizes multiply to the dimension's. A dimension
/// without factors cannot be cut.
using DimensionFactors = SmallVector<SmallVector<unsigned, 2>>;

/// What BatchSplitOp::getDimensionRule describes.
struct DimensionRule {
  /// No tensor of `op` has a factor yet.
  explicit DimensionRule(Operation *op);

  /// A new factor's number.
  unsigned add(int64_t size, FactorKind kind = FactorKind::Split);
  /// The first `count` dimensions of all these tensors, of the sizes in `shape`, get a factor each, the same in all.
  void shareLeading(ArrayRef<DimensionFactors *> tensors, ArrayRef<int64_t> shape, size_t count);

  SmallVector<Factor> factors;
  /// Results that lack a factor of statistics are these statistics themselves, not sums.
  bool givesStatistics = false;
  SmallVector<DimensionFactors> operands, results;
};

/// The part of an op that a piece of the batch needs.
struct BatchPiece {
  unsigned factor;   ///< the one whose indices it takes some of
  int64_t perSample; ///< how many indices of it make one sample, where samples follow each other
  Value begin;       ///< the first sample (an i64 of rank 0)
};

/// How pieces of a batch that are there at once make statistics of all of it.
struct SharedBatch {
  /// The value, samples along dimension 0, with 0 in places that no sample has.
  llvm::function_ref<Value(Value)> clearEmptyPlaces;
  /// The sum over the pieces.
  llvm::function_ref<Value(Value)> addUp;
};

/// The index of the piece's factor at which it begins, an i64 of rank 0.
Value firstIndexOf(OpBuilder &builder, Location loc, const BatchPiece &piece);

/// The rule of an op whose tensors of its first result's shape are read and written element by element.
DimensionRule elementwiseRule(Operation *op);

/// The results of the same op with other operands and result types.
SmallVector<Value> cloneForPiece(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange types);

} // namespace mlir::scrimp

#endif
