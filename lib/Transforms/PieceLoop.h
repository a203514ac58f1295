// A scrimp.accumulate over pieces of what BatchAnalysis has split: micro-batches of a batch, chunks of a region. What an op
// is for a piece, the op knows (BatchSplitOp); who decides what runs in the loop are the passes.
#ifndef SCRIMP_LIB_TRANSFORMS_PIECELOOP_H
#define SCRIMP_LIB_TRANSFORMS_PIECELOOP_H

#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// Equal pieces of consecutive samples, which one loop runs over.
struct PieceRun {
  int64_t begin, pieces, samples;
};

/// `count` pieces of `batch` samples whose sizes differ by at most one, larger ones first: one loop, or two.
SmallVector<PieceRun, 2> makeRuns(int64_t batch, int64_t count);

class PieceLoop {
public:
  /// The loop will hold ops of `block` for which `isInside`; the analysis has a cut of them, or they give sums or states.
  /// Of what the loop reads from outside, a piece makes its samples itself where that costs nothing; with `remakesOutside`
  /// wherever it can (a mask of the whole batch), and each gathers anew what is gathered for one use.
  PieceLoop(Block &block, Location loc, const BatchAnalysis &analysis, std::function<bool(Operation &)> isInside,
            bool remakesOutside)
      : block(block), loc(loc), analysis(analysis), batch(analysis.getBatch()), isInside(std::move(isInside)),
        remakesOutside(remakesOutside) {}

  /// What the loop gives. A sum is added up over the pieces, from 0 on, and kept as `type` in between. Of a value that is
  /// split each piece writes its part into the whole; floats of 16 bits are f32 there. A state is an argument that each
  /// piece moves to `next`.
  void addSum(Value value, RankedTensorType type) {
    sums.insert(value);
    sumTypes[value] = type;
  }
  void addWhole(Value value) { wholes.insert(value); }
  void addState(Value argument, Value next) { states.push_back({argument, next}); }
  bool empty() const { return sums.empty() && wholes.empty() && states.empty(); }

  /// Finds what the loop must hold and read for what has been added.
  void close();
  /// The values that it reads.
  SmallVector<Value> getInputs() const;

  /// Has the loop read `other` for the input `value`, which it is the same as.
  void replaceInput(Value value, Value other) { replaced[value] = other; }

  /// Builds a loop a run at the builder's insertion point. Gives the sums, the wholes and the states, in their order.
  SmallVector<Value> build(OpBuilder &builder, ArrayRef<PieceRun> runs);

  /// The value's type with f32 for floats of 16 bits: rounding every addition to 16 bits would lose small summands.
  static RankedTensorType getWideType(Value value) {
    RankedTensorType type = tensorType(value);
    return type.clone(getComputeType(type.getElementType()));
  }

  ArrayRef<Value> getSums() const { return sums.getArrayRef(); }
  ArrayRef<Value> getWholes() const { return wholes.getArrayRef(); }

private:
  /// A value as the loop's body reads it: where there is `split` the samples of the iteration, otherwise whole (of a
  /// sum: what the iteration adds to it).
  using Form = std::pair<Value, std::pair<int64_t, int64_t>>;
  struct State {
    Value argument, next;
  };

  static Form formOf(Value value, std::optional<BatchPlacement> split) {
    return split ? Form{value, {split->dim, split->outer}} : Form{value, {-1, 1}};
  }
  static bool isSplit(const Form &form) { return form.second.first >= 0; }
  static BatchPlacement placementOf(const Form &form) {
    return {BatchPlacement::Split, form.second.first, form.second.second};
  }
  static std::optional<BatchPlacement> splitOfOperand(Operation &op, unsigned operand, std::optional<BatchCut> cut);
  bool isOwn(Value value) const { return analysis.getPlacement(value).kind == BatchPlacement::Own; }
  bool isFree(Operation *op) const;
  bool isOfOneUse(Operation *op);

  void need(const Form &form);
  void needInput(const Form &form);
  std::pair<int64_t, int64_t> aroundSamples(const Form &form) const;
  std::pair<Value, int64_t> takeRun(OpBuilder &builder, const Form &form, const PieceRun &run);
  Value arrangePiece(OpBuilder &builder, const Form &form, Value piece, int64_t samples);
  SmallVector<Value> buildRun(OpBuilder &builder, const PieceRun &run, ValueRange carried);
  void buildInstance(OpBuilder &builder, Operation &op, std::optional<BatchCut> cut, int64_t samples, Value begin,
                     llvm::DenseMap<Form, Value> &forms);
  Value writePiece(OpBuilder &builder, Value value, Value piece, Value whole, Value begin);

  Block &block;
  Location loc;
  const BatchAnalysis &analysis;
  int64_t batch;
  std::function<bool(Operation &)> isInside;
  bool remakesOutside;
  llvm::SetVector<Value> sums, wholes;
  llvm::DenseMap<Value, RankedTensorType> sumTypes;
  SmallVector<State> states;
  llvm::SetVector<Form> sharedInputs, splitInputs;
  llvm::DenseMap<Operation *, bool> ofOneUse;
  llvm::DenseMap<Value, Value> replaced;
  /// How often, and cut how, the body holds an op.
  llvm::DenseMap<Operation *, SmallVector<std::optional<BatchCut>>> instances;
};

/// Has readers of `value` take what a loop gave in its place, cast to its type where that is wider; what widens it takes
/// it as it is.
void replaceByWide(OpBuilder &builder, Value value, Value wide);

} // namespace mlir::scrimp

#endif
