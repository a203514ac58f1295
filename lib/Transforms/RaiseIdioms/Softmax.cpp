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

/// x - log_sum_exp(x), x being shifted by its maximum or not.
struct RaiseLogSoftmax : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter &rewriter) const override {
    Value row = shapeOf(op.getY()).empty() ? Value() : getRowValue(op.getB(), countRows(op.getB()));
    auto sum = row ? row.getDefiningOp<LogSumExpOp>() : LogSumExpOp();
    if (!sum || skipReshapes(sum.getX()) != skipReshapes(op.getA()) ||
        shapeOf(sum.getX()).back() != shapeOf(op.getA()).back())
      return rewriter.notifyMatchFailure(op, "not less its own log-sum-exp");
    rewriter.replaceOpWithNewOp<LogSoftmaxOp>(op, skipShift(op.getA()));
    return success();
  }
};
} // namespace

void mlir::scrimp::populateSoftmaxIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseSoftmax, RaiseLogSoftmax>(patterns.getContext());
}
