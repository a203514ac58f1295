// cross_entropy from log_softmax and the label's entry, taken by gather_elements or by a product with a one-hot row.
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The labels of `value`: one for each row, in the rows' shape, i32 or i64.
static Value labelsOf(Value value, Value logits, PatternRewriter &rewriter) {
  ArrayRef<int64_t> rows = shapeOf(logits).drop_back();
  Type type = tensorType(value).getElementType();
  if (tensorType(value).getNumElements() != tensorType(logits).getNumElements() / shapeOf(logits).back() ||
      !(type.isInteger(32) || type.isInteger(64)))
    return {};
  return reshapeTo(rewriter, value.getLoc(), skipReshapes(value), rows);
}

/// `loss` in `op`'s type: the rows' losses, wide and in the logits' leading shape.
static void replaceByLoss(Operation *op, LogSoftmaxOp logSoftmax, Value labels, std::optional<int64_t> ignore,
                          PatternRewriter &rewriter) {
  RankedTensorType type = tensorType(op->getResult(0));
  Value loss = CrossEntropyOp::create(rewriter, op->getLoc(), logSoftmax.getX(), labels, ignore).getLoss();
  if (tensorType(loss).getElementType() != type.getElementType())
    loss = CastOp::create(rewriter, op->getLoc(), tensorType(loss).clone(type.getElementType()), loss);
  rewriter.replaceOp(op, reshapeTo(rewriter, op->getLoc(), loss, type.getShape()));
}

/// The log_softmax and the labels of the entries that `value` takes, one a row.
static LogSoftmaxOp matchTaken(Value value, Value &labels) {
  auto gather = skipReshapes(value).getDefiningOp<GatherElementsOp>();
  auto logSoftmax = gather ? gather.getX().getDefiningOp<LogSoftmaxOp>() : LogSoftmaxOp();
  if (!logSoftmax || static_cast<int64_t>(gather.getDim()) != tensorType(gather.getX()).getRank() - 1 ||
      shapeOf(gather.getIndices()).back() != 1 ||
      shapeOf(gather.getIndices()).drop_back() != shapeOf(gather.getX()).drop_back())
    return {};
  labels = skipReshapes(gather.getIndices());
  return logSoftmax;
}

/// Whether `value` is 1 where the class (the last dimension) is the row's label, 0 elsewhere.
static bool matchOneHot(Value value, Value &labels) {
  if (auto select = value.getDefiningOp<SelectOp>()) {
    if (!isSplatOf(select.getA(), 1) || !isSplatOf(select.getB(), 0))
      return false;
    value = select.getCondition();
  } else if (auto cast = value.getDefiningOp<CastOp>()) {
    value = cast.getX();
  }
  auto compare = value.getDefiningOp<CompareOp>();
  if (!compare || compare.getPredicate() != Predicate::eq || shapeOf(value).empty())
    return false;
  int64_t classes = shapeOf(value).back();
  for (auto [row, numbers] : {std::pair(compare.getA(), compare.getB()), std::pair(compare.getB(), compare.getA())}) {
    Value perRow = getRowValue(row, tensorType(row).getNumElements() / std::max<int64_t>(classes, 1));
    if (!perRow)
      continue;
    auto broadcast = numbers.getDefiningOp<BroadcastOp>();
    Value line = broadcast ? broadcast.getX() : numbers;
    if (auto iota = line.getDefiningOp<IotaOp>()) {
      if (shapeOf(line).back() != classes || static_cast<int64_t>(iota.getDim()) != tensorType(line).getRank() - 1 ||
          !iota.getStart().isZero() || iota.getStep().convertToDouble() != 1)
        continue;
    } else {
      // A constant 0, 1, 2, ... along the last dimension.
      auto constant = line.getDefiningOp<ConstantOp>();
      auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
      if (!dense || !isa<IntegerType>(dense.getElementType()) || dense.getNumElements() % classes ||
          cast<RankedTensorType>(dense.getType()).getRank() == 0 ||
          cast<RankedTensorType>(dense.getType()).getShape().back() != classes)
        continue;
      int64_t i = 0;
      bool counts = true;
      for (APInt number : dense.getValues<APInt>())
        counts &= number.getSExtValue() == i++ % classes;
      if (!counts)
        continue;
    }
    labels = perRow;
    // Negative labels count from the end, says ONNX; cross_entropy has none.
    if (auto wrap = labels.getDefiningOp<SelectOp>())
      if (auto negative = wrap.getCondition().getDefiningOp<CompareOp>();
          negative && negative.getPredicate() == Predicate::lt && negative.getA() == wrap.getB() &&
          isSplatOf(negative.getB(), 0))
        labels = wrap.getB();
    return true;
  }
  return false;
}

namespace {
/// -log_softmax(x)[label].
struct RaiseTakenLoss : OpRewritePattern<NegOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(NegOp op, PatternRewriter &rewriter) const override {
    Value labels;
    LogSoftmaxOp logSoftmax = matchTaken(op.getX(), labels);
    labels = logSoftmax ? labelsOf(labels, logSoftmax.getX(), rewriter) : Value();
    if (!labels)
      return rewriter.notifyMatchFailure(op, "not the entry of a log_softmax at a label");
    replaceByLoss(op, logSoftmax, labels, std::nullopt, rewriter);
    return success();
  }
};

/// -sum(log_softmax(x) * one_hot(label)).
struct RaiseOneHotLoss : OpRewritePattern<NegOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(NegOp op, PatternRewriter &rewriter) const override {
    ReduceOp sum = matchRowReduce(op.getX(), ReduceKind::sum);
    Value oneHot, labels;
    LogSoftmaxOp logSoftmax;
    if (sum && sum.getDims().size() == 1)
      oneHot = matchEither<MulOp>(sum.getX(), [&](Value operand) {
        logSoftmax = operand.getDefiningOp<LogSoftmaxOp>();
        return static_cast<bool>(logSoftmax);
      });
    labels = oneHot && matchOneHot(oneHot, labels) ? labelsOf(labels, logSoftmax.getX(), rewriter) : Value();
    if (!labels)
      return rewriter.notifyMatchFailure(op, "not the product of a log_softmax and a one-hot row");
    replaceByLoss(op, logSoftmax, labels, std::nullopt, rewriter);
    return success();
  }
};

/// Where labels differ from some number their loss, elsewhere 0: that number is ignored. The labels of the loss may
/// have been made harmless before (0 where they are ignored).
struct FoldIgnoredLabels : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto valid = skipReshapes(op.getCondition()).getDefiningOp<CompareOp>();
    if (!valid || valid.getPredicate() != Predicate::ne || !isSplatOf(op.getB(), 0) ||
        isa<FloatType>(tensorType(valid.getA()).getElementType()))
      return rewriter.notifyMatchFailure(op, "not zeros where labels are ignored");
    std::optional<double> ignore = getSplat(valid.getB());
    auto loss = skipReshapes(op.getA()).getDefiningOp<CrossEntropyOp>();
    if (!ignore || !loss || loss.getIgnoreIndex() || skipReshapes(op.getA()) != loss.getLoss() || !loss->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no cross_entropy of its own");
    Value labels = skipReshapes(valid.getA()), used = skipReshapes(loss.getLabels());
    if (auto safe = used.getDefiningOp<SelectOp>();
        safe && skipReshapes(safe.getCondition()) == skipReshapes(op.getCondition()))
      used = skipReshapes(safe.getA());
    if (used != labels)
      return rewriter.notifyMatchFailure(op, "the condition looks at other labels");
    Value given = reshapeTo(rewriter, op.getLoc(), labels, shapeOf(loss.getLabels()));
    Value raised =
        CrossEntropyOp::create(rewriter, op.getLoc(), loss.getLogits(), given, static_cast<int64_t>(*ignore)).getLoss();
    rewriter.replaceOp(op, reshapeTo(rewriter, op.getLoc(), raised, shapeOf(op.getY())));
    return success();
  }
};
} // namespace

void mlir::scrimp::populateCrossEntropyIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseTakenLoss, RaiseOneHotLoss, FoldIgnoredLabels>(patterns.getContext());
}
