// Where the batch is in every value of a function, for splitting it in time (micro-batches) and in space (ranks).
#ifndef SCRIMP_ANALYSIS_BATCHANALYSIS_H
#define SCRIMP_ANALYSIS_BATCHANALYSIS_H

#include "scrimp/Dialect/DimensionRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// What a value is to the pieces of a batch.
struct BatchPlacement {
  enum Kind {
    Invariant, ///< the same for all pieces
    Split,     ///< each piece has its samples: dimension `dim` is [outer, samples, rest]
    Own,       ///< each piece has one of its own, without samples: its statistics, and states that they move
    Partial,   ///< the sum of the pieces' values
    Total,     ///< computed from complete sums, so after all pieces
    Mixed,     ///< none of these: see BatchAnalysis::getProblems
  };
  Kind kind = Invariant;
  int64_t dim = 0, outer = 1;

  bool operator==(const BatchPlacement &) const = default;
  bool isSum() const { return kind == Partial || kind == Total; }
};

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, BatchPlacement placement);

/// How an op's piece is cut: along a factor, of which [outer, samples, rest] indices are there.
struct BatchCut {
  unsigned factor;
  int64_t outer;

  bool operator==(const BatchCut &) const = default;
};

/// The type of a piece of `samples` of the `batch` samples of a split value.
RankedTensorType pieceType(RankedTensorType type, BatchPlacement split, int64_t batch, int64_t samples);

/// The cut that gives pieces of a tensor split so. None if the tensor cannot be cut there. `cutsStatistics`: what takes
/// statistics may be cut too.
std::optional<BatchCut> cutOf(const DimensionRule &rule, const DimensionFactors &tensor, BatchPlacement split,
                              int64_t batch, bool cutsStatistics = false);

/// Where the samples are in a tensor of an op that is cut so. None if the tensor lacks the factor.
std::optional<BatchPlacement> splitBy(const DimensionRule &rule, const DimensionFactors &tensor, BatchCut cut);

/// Starts from the arguments with `scrimp.input` >= 0; everything else comes from BatchSplitOp. What depends on data
/// alone (on no trainable parameter) and needs the whole batch, or is a sum over it that pieces need, is *whole*: it is
/// computed once, before the pieces, and invariant to them.
///
/// A region of a graph can be split alike, along any dimension of what it reads: then `batch` counts what is split
/// there (tokens, say), nothing in it is computed whole, and what lies outside has no placement.
///
/// With OwnStatistics batch normalisation works on pieces, each by its own statistics; running statistics then move at
/// every piece. With SharedStatistics it works on pieces too, and statistics are the same to all.
///
/// Pieces in time follow each other; those in space (ranks) are there at once and can exchange what they have. There
/// nothing but statistics is a problem: an op that needs all samples is whole, and a sum that samples need is too,
/// although pieces can sum their parts first.
class BatchAnalysis {
public:
  enum Pieces { InTime, InSpace };
  /// Of what batch normalisation takes statistics: of all samples at once, of each piece, or of sums that pieces share.
  enum Statistics { WholeStatistics, OwnStatistics, SharedStatistics };
  explicit BatchAnalysis(func::FuncOp function, Statistics statistics = WholeStatistics, Pieces pieces = InTime);
  /// Of `region`, ops of one block in their order. `seed` is what it reads split first; whatever else it reads that
  /// some op needs split alike, and that `mayBeSplit`, is a seed too.
  BatchAnalysis(ArrayRef<Operation *> region, Value seed, BatchPlacement placement, int64_t batch,
                llvm::function_ref<bool(Value)> mayBeSplit);

  /// The samples of the whole batch; 0 if no argument is split.
  int64_t getBatch() const { return batch; }
  BatchPlacement getPlacement(Value value) const { return placements.lookup(value); }
  /// Whether the op is computed once, from the whole batch, although its operands may be split.
  bool isWhole(Operation *op) const { return whole.contains(op); }
  bool sharesStatistics() const { return statistics == SharedStatistics; }
  /// The cut of an op that works on pieces, none for other ops.
  std::optional<BatchCut> getCut(Operation *op) const;
  /// How an op would be cut that is whole only because it makes a sum that pieces need.
  std::optional<BatchCut> getSumCut(Operation *op) const;

  /// Why an op cannot work on pieces.
  struct Problem {
    Operation *op;
    std::string reason;
  };
  /// In program order, the first cause of every mixed value.
  ArrayRef<Problem> getProblems() const { return problems; }

private:
  bool run();
  bool findSeeds(llvm::function_ref<bool(Value)> mayBeSplit);
  bool findOwnStates();
  bool visit(Operation &op);
  bool visitPieces(Operation &op);
  void markSumsWhole(Value sum);
  bool needsWhole(Operation &op, const llvm::Twine &reason);

  func::FuncOp function; ///< null: a region
  SmallVector<Operation *> ops;
  Statistics statistics = WholeStatistics;
  Pieces pieces = InTime;
  int64_t batch = 0;
  llvm::DenseSet<Value> trained; ///< depends on a trainable parameter
  llvm::DenseSet<Operation *> whole;
  llvm::DenseSet<Value> ownStates;              ///< arguments that pieces update
  llvm::MapVector<Value, BatchPlacement> seeds; ///< what is split from the outset
  llvm::DenseMap<Value, BatchPlacement> placements;
  llvm::DenseMap<Operation *, BatchCut> cuts, sumCuts;
  SmallVector<Problem> problems;
};

} // namespace mlir::scrimp

#endif
