// softmax and log_softmax over the last dimension, with or without the maximum that keeps them from overflowing.
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

static int64_t countRows(Value x) {
  int64_t size = shapeOf(x).empty() ? 0 : shapeOf(x).back();
  return size ? tensorType(x).getNumElements() / size : 0;
}

/// Matches the combination of a value like x over its last dimension, spread over that dimension again.
static ReduceOp matchSpreadReduce(Value value, ReduceKind kind) {
  Value row = shapeOf(value).empty() ? Value() : getRowValue(value, countRows(value));
  ReduceOp reduce = row ? matchRowReduce(row, kind) : ReduceOp();
  return reduce && shapeOf(reduce.getX()) == shapeOf(value) && reduce.getDims().size() == 1 ? reduce : ReduceOp();
}

/// The x of x - max(x); `value` itself if it is nothing of the kind.
static Value skipShift(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  ReduceOp max = sub ? matchSpreadReduce(sub.getB(), ReduceKind::max) : ReduceOp();
  return max && max.getX() == sub.getA() ? sub.getA() : value;
}

namespace {
/// e^x / sum(e^x).
struct RaiseSoftmax : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto exp = op.getA().getDefiningOp<ExpOp>();
    ReduceOp sum = exp ? matchSpreadReduce(op.getB(), ReduceKind::sum) : ReduceOp();
    if (!sum || sum.getX() != op.getA())
      return rewriter.notifyMatchFailure(op, "not e^x divided by its sum over the last dimension");
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, skipShift(exp.getX()));
    return success();
  }
};

/// log(softmax(x)).
struct RaiseLogOfSoftmax : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op, PatternRewriter &rewriter) const override {
    auto softmax = op.getX().getDefiningOp<SoftmaxOp>();
    if (!softmax)
      return rewriter.notifyMatchFailure(op, "not the logarithm of a softmax");
    rewriter.replaceOpWithNewOp<LogSoftmaxOp>(op, softmax.getX());
    return success();
  }
};

/// x - log(sum(e^x)), x being shifted by its maximum or not; also x - (max(x) + log(sum(e^(x - max(x))))).
struct RaiseLogSoftmax : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter &rewriter) const override {
    if (shapeOf(op.getY()).empty())
      return rewriter.notifyMatchFailure(op, "a scalar");
    Value row = getRowValue(op.getB(), countRows(op.getB()));
    if (!row)
      return rewriter.notifyMatchFailure(op, "nothing spread over the last dimension is subtracted");
    Value added;
    if (auto add = row.getDefiningOp<AddOp>()) {
      bool first = isMaximumOf(skipReshapes(add.getA()), op.getA());
      if (!first && !isMaximumOf(skipReshapes(add.getB()), op.getA()))
        return rewriter.notifyMatchFailure(op, "not a log-sum-exp");
      added = skipReshapes(first ? add.getA() : add.getB());
      row = skipReshapes(first ? add.getB() : add.getA());
    }
    auto log = row.getDefiningOp<LogOp>();
    ReduceOp sum = log ? matchRowReduce(log.getX(), ReduceKind::sum) : ReduceOp();
    auto exp = sum && sum.getDims().size() == 1 ? sum.getX().getDefiningOp<ExpOp>() : ExpOp();
    if (!exp)
      return rewriter.notifyMatchFailure(op, "not a log-sum-exp");
    // Both sides are shifted alike, or the shift is added again.
    Value x = added ? skipShift(exp.getX()) : exp.getX();
    if (x != op.getA() || (added && x == exp.getX()))
      return rewriter.notifyMatchFailure(op, "the log-sum-exp of another value");
    rewriter.replaceOpWithNewOp<LogSoftmaxOp>(op, skipShift(x));
    return success();
  }

  static bool isMaximumOf(Value value, Value x) {
    ReduceOp max = matchRowReduce(value, ReduceKind::max);
    return max && max.getX() == x && max.getDims().size() == 1;
  }
};
} // namespace

void mlir::scrimp::populateSoftmaxIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseSoftmax, RaiseLogOfSoftmax, RaiseLogSoftmax>(patterns.getContext());
}
