// scrimp-split-batch: micro-batches. What an op is for a part of the batch, the op knows (BatchSplitOp); where the
// batch is, BatchAnalysis. What is left for the pass: what runs before, in and after the loop, and building it.
#include "PieceLoop.h"

#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_SPLITBATCH
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

/// The loop over the micro-batches of one function: what runs in it, before and after it.
class MicroBatches {
public:
  MicroBatches(func::FuncOp function, const BatchAnalysis &analysis, bool narrowSums)
      : function(function), block(function.getBody().front()), analysis(analysis), narrowSums(narrowSums),
        loop(
            block, function.getLoc(), analysis, [this](Operation &op) { return runsInLoop(op); },
            /*remakesOutside=*/true) {}

  /// Fails after an error at an output that is no sum.
  LogicalResult plan() {
    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      BatchPlacement::Kind kind = analysis.getPlacement(operand.get()).kind;
      unsigned result = operand.getOperandNumber();
      if (auto updates = function.getResultAttrOfType<IntegerAttr>(result, ScrimpDialect::kUpdates);
          updates && kind == BatchPlacement::Own) {
        loop.addState(function.getArgument(updates.getInt()), operand.get());
        moved.push_back(result);
        continue;
      }
      if (kind != BatchPlacement::Split && kind != BatchPlacement::Own)
        continue;
      auto output = function.getResultAttrOfType<StringAttr>(result, ScrimpDialect::kOutput);
      return emitError(operand.get().getLoc())
             << (output ? ("output '" + output.getValue() + "'").str() : "a result of @" + function.getName().str())
             << " has a value for every " << (kind == BatchPlacement::Own ? "micro-batch" : "sample")
             << ", which micro-batches do not keep; return a sum or a mean of it, or use --micro-batches 1";
    }
    chooseSums();
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (isPartial(operand) && !runsInLoop(op) && (!operand.getDefiningOp() || runsInLoop(*operand.getDefiningOp())))
          loop.addSum(operand, accumulatorType(operand));
    loop.close();
    return success();
  }

  /// Builds one loop a run; what needs the sums comes after them.
  void build(ArrayRef<PieceRun> runs) {
    if (loop.empty())
      return;
    Operation *terminator = block.getTerminator();
    OpBuilder builder(terminator);
    SmallVector<Value> carried = loop.build(builder, runs);
    for (auto [result, value] : llvm::zip(moved, ArrayRef(carried).drop_front(loop.getSums().size())))
      terminator->setOperand(result, value);
    for (auto [part, sum] : llvm::zip(loop.getSums(), carried))
      replaceByWide(builder, part, sum);
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : ops)
      if (waiting.contains(op) || llvm::any_of(op->getResults(), [&](Value v) {
            return analysis.getPlacement(v).kind == BatchPlacement::Total;
          }))
        op->moveBefore(terminator);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }

private:
  /// Rounding every addition to 16 bits loses what is less than half of a sum's last digit: only where that is asked
  /// for, and for no single number (a loss, a norm).
  RankedTensorType accumulatorType(Value value) const {
    RankedTensorType wide = PieceLoop::getWideType(value);
    bool isNarrow = narrowSums && wide.getElementType().isF32() && wide.getRank() > 0;
    return isNarrow ? wide.clone(BFloat16Type::get(wide.getContext())) : wide;
  }

  bool isPartial(Value value) const { return analysis.getPlacement(value).kind == BatchPlacement::Partial; }
  bool isOwn(Value value) const { return analysis.getPlacement(value).kind == BatchPlacement::Own; }

  /// Whether the op works on pieces or on what they add to a sum.
  bool runsInLoop(Operation &op) const {
    return !analysis.isWhole(&op) && !waiting.contains(&op) &&
           (analysis.getCut(&op) || llvm::any_of(op.getResults(), [&](Value v) { return isPartial(v) || isOwn(v); }));
  }

  /// Whether the op waits for what another has started.
  static bool endsAnother(Operation &op) {
    return llvm::any_of(op.getOperands(), [](Value v) { return v.getDefiningOp() && isa<AsyncOp>(v.getDefiningOp()); });
  }

  /// Whether the op puts one of its operands into another: sums of both can lie where they go.
  static bool places(Operation &op) {
    std::optional<Tie> tie = isViewLike(&op) ? getViewTie(op.getResult(0)) : std::nullopt;
    return tie && tie->placed;
  }

  /// Which of the ops that are linear in sums wait for the complete sums. An op stays in the loop only where that makes
  /// the accumulators smaller: both gradients of a tied parameter are added up there, but not gradients scaled apart.
  void chooseSums() {
    auto bitsIfAccumulated = [this](Value value) {
      RankedTensorType type = accumulatorType(value);
      return type.getNumElements() * type.getElementTypeBitWidth();
    };
    auto hasWaitingUser = [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) { return !runsInLoop(*user); });
    };
    for (bool changed = true; std::exchange(changed, false);)
      for (Operation &op : llvm::reverse(block)) {
        // What is started in the loop arrives in it.
        auto async = dyn_cast<AsyncOp>(op);
        Operation *last = async && async.getEnd() ? async.getEnd() : &op;
        if (!runsInLoop(op) || endsAnother(op) || analysis.getCut(&op) || isOwn(op.getResult(0)) ||
            llvm::any_of(last->getUsers(), [&](Operation *user) { return runsInLoop(*user); }))
          continue;
        int64_t saved = 0, added = 0;
        for (Value result : last->getResults())
          saved += bitsIfAccumulated(result);
        llvm::SmallDenseSet<Value> operands;
        for (Value operand : op.getOperands())
          if (isPartial(operand) && operands.insert(operand).second && !hasWaitingUser(operand))
            added += bitsIfAccumulated(operand);
        if (added <= saved || places(op)) {
          changed = waiting.insert(&op).second;
          waiting.insert(last);
        }
      }
  }

  func::FuncOp function;
  Block &block;
  const BatchAnalysis &analysis;
  bool narrowSums; ///< accumulators are bf16
  /// Ops that are linear in sums and run after the loop nevertheless.
  llvm::DenseSet<Operation *> waiting;
  PieceLoop loop;
  SmallVector<unsigned> moved; ///< the results that are states of the loop
};

struct SplitBatch : scrimp::impl::SplitBatchBase<SplitBatch> {
  using SplitBatchBase::SplitBatchBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(split(function)))
        return signalPassFailure();
  }

  LogicalResult split(func::FuncOp function) {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError() << "must have one block, found " << function.getBody().getBlocks().size();
    if (batchStats != "whole" && batchStats != "per-micro-batch")
      return function.emitError() << "batch-stats is '" << batchStats << "'; there are whole and per-micro-batch";
    if (accumulate != "f32" && accumulate != "bf16")
      return function.emitError() << "accumulate is '" << accumulate << "'; there are f32 and bf16";
    BatchAnalysis analysis(function, batchStats == "per-micro-batch" ? BatchAnalysis::OwnStatistics
                                                                     : BatchAnalysis::WholeStatistics);
    FailureOr<int64_t> count = countPieces(function, analysis.getBatch());
    if (failed(count))
      return failure();
    if (*count == 1)
      return success();
    for (const BatchAnalysis::Problem &problem : analysis.getProblems())
      return problem.op->emitOpError() << "cannot work on micro-batches: " << problem.reason
                                       << "; use --micro-batches 1, or compute it for each sample";
    MicroBatches batches(function, analysis, accumulate == "bf16");
    if (failed(batches.plan()))
      return failure();
    batches.build(makeRuns(analysis.getBatch(), *count));
    return success();
  }

  /// How many micro-batches the options ask for. Fails after an error where they do not fit the batch.
  FailureOr<int64_t> countPieces(func::FuncOp function, int64_t batch) {
    int64_t count = microBatches, size = microBatchSize;
    if (count < 0 || size < 0)
      return function.emitError() << "micro-batches and their size must be positive, found " << count << " and "
                                  << size;
    if (count <= 1 && size == 0)
      return int64_t(1);
    if (batch == 0)
      return function.emitError() << "has no input with a batch dimension, so nothing to make micro-batches of; use "
                                     "--micro-batches 1";
    if (size > 0) {
      int64_t needed = llvm::divideCeil(batch, size);
      if (count > 0 && count != needed)
        return function.emitError() << "a batch of " << batch << " samples in micro-batches of at most " << size
                                    << " makes " << needed << " of them on 1 rank, but --micro-batches is " << count
                                    << "; leave out one of the two, or change --dim";
      count = needed;
    }
    if (count > batch)
      return function.emitError() << "a batch of " << batch << " samples cannot be split into " << count
                                  << " micro-batches; use " << batch << " at most";
    return count;
  }
};
} // namespace
