// Layer and RMS normalization, then their scale and bias.
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

static int64_t countFrom(Value x, int64_t axis) {
  int64_t count = 1;
  for (int64_t size : shapeOf(x).drop_front(axis))
    count *= size;
  return count;
}

/// Matches the mean over trailing dimensions: their sum divided by their number, or multiplied by its inverse.
static ReduceOp matchRowMean(Value value) {
  double scale = 1;
  ReduceOp sum = matchRowReduce(skipScale(skipReshapes(value), scale), ReduceKind::sum);
  if (!sum)
    return {};
  double expected = 1.0 / countFrom(sum.getX(), *getTrailingAxis(sum));
  auto type = dyn_cast<FloatType>(tensorType(value).getElementType());
  return type && (scale == expected || scale == roundToFloatType(expected, type)) ? sum : ReduceOp();
}

static bool isSquareOf(Value value, Value &x) {
  if (auto mul = value.getDefiningOp<MulOp>(); mul && mul.getA() == mul.getB()) {
    x = mul.getA();
    return true;
  }
  auto pow = value.getDefiningOp<PowOp>();
  if (!pow || !isSplatOf(pow.getB(), 2.0))
    return false;
  x = pow.getA();
  return true;
}

namespace {
/// x divided by the root of its mean square.
struct Normalization {
  Value x;
  int64_t axis;
  double epsilon;
};
} // namespace

/// Matches mean(x^2) + epsilon, one element a row.
static std::optional<Normalization> matchMeanSquare(Value value) {
  double epsilon = 0;
  Value meanSquare = skipReshapes(value), x;
  if (auto add = meanSquare.getDefiningOp<AddOp>()) {
    bool first = getSplat(add.getA()).has_value();
    std::optional<double> splat = getSplat(first ? add.getA() : add.getB());
    if (!splat || *splat < 0)
      return std::nullopt;
    epsilon = *splat;
    meanSquare = first ? add.getB() : add.getA();
  }
  ReduceOp mean = matchRowMean(meanSquare);
  if (!mean || !isSquareOf(mean.getX(), x))
    return std::nullopt;
  return Normalization{x, *getTrailingAxis(mean), epsilon};
}

/// Matches sqrt(mean(x^2) + epsilon).
static std::optional<Normalization> matchRoot(Value value) {
  auto sqrt = skipReshapes(value).getDefiningOp<SqrtOp>();
  return sqrt ? matchMeanSquare(sqrt.getX()) : std::nullopt;
}

/// Matches 1 / sqrt(mean(x^2) + epsilon).
static std::optional<Normalization> matchInverseRoot(Value value) {
  value = skipReshapes(value);
  if (auto div = value.getDefiningOp<DivOp>(); div && isSplatOf(div.getA(), 1.0))
    return matchRoot(div.getB());
  auto rsqrt = value.getDefiningOp<RsqrtOp>();
  return rsqrt ? matchMeanSquare(rsqrt.getX()) : std::nullopt;
}

/// The x of x - mean(x) over the dimensions from `axis` on. Null if `value` is not that.
static Value matchCentered(Value value, int64_t axis) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub)
    return {};
  Value x = sub.getA(), row = getRowValue(sub.getB(), tensorType(x).getNumElements() / countFrom(x, axis));
  ReduceOp mean = row ? matchRowMean(row) : ReduceOp();
  return mean && mean.getX() == x && getTrailingAxis(mean) == axis ? x : Value();
}

static LogicalResult raiseNorm(Operation *op, const Normalization &norm, PatternRewriter &rewriter) {
  if (Value x = matchCentered(norm.x, norm.axis)) {
    auto layerNorm = LayerNormOp::create(rewriter, op->getLoc(), x, Value(), Value(), norm.axis, norm.epsilon);
    rewriter.replaceOp(op, layerNorm.getY());
  } else {
    auto rmsNorm = RmsNormOp::create(rewriter, op->getLoc(), norm.x, Value(), norm.axis, norm.epsilon);
    rewriter.replaceOp(op, rmsNorm.getY());
  }
  return success();
}

static int64_t countRows(Value x, int64_t axis) { return tensorType(x).getNumElements() / countFrom(x, axis); }

namespace {
struct RaiseNormProduct : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (auto [x, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      auto broadcast = skipReshapes(other).getDefiningOp<BroadcastOp>();
      std::optional<Normalization> norm = broadcast ? matchInverseRoot(broadcast.getX()) : std::nullopt;
      if (norm && norm->x == x && getRowValue(other, countRows(x, norm->axis)))
        return raiseNorm(op, *norm, rewriter);
    }
    return rewriter.notifyMatchFailure(op, "not x times the inverse root of its mean square");
  }
};

struct RaiseNormQuotient : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto broadcast = skipReshapes(op.getB()).getDefiningOp<BroadcastOp>();
    std::optional<Normalization> norm = broadcast ? matchRoot(broadcast.getX()) : std::nullopt;
    if (!norm || norm->x != op.getA() || !getRowValue(op.getB(), countRows(norm->x, norm->axis)))
      return rewriter.notifyMatchFailure(op, "not x divided by the root of its mean square");
    return raiseNorm(op, *norm, rewriter);
  }
};
} // namespace

/// The parameter that `value` repeats over the rows of x, in the shape of x's dimensions from `axis` on.
static Value matchParameter(Value value, Value x, int64_t axis, PatternRewriter &rewriter) {
  ArrayRef<int64_t> inner = shapeOf(x).drop_front(axis);
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  Value parameter = broadcast ? broadcast.getX() : axis == 0 ? value : Value();
  if (!parameter)
    return {};
  ArrayRef<int64_t> shape = shapeOf(parameter);
  while (shape.size() > inner.size() && shape.front() == 1)
    shape = shape.drop_front();
  // A scalar, or one that repeats inside a row as well, is no parameter of the norm.
  return shape == inner ? reshapeTo(rewriter, value.getLoc(), parameter, inner) : Value();
}

/// The norm whose y is `value`, if nothing else reads that or its statistics.
template <typename Norm>
static Norm definingNorm(Value value) {
  auto norm = value.getDefiningOp<Norm>();
  return norm && value == norm.getY() && norm->hasOneUse() ? norm : Norm();
}

namespace {
/// norm(x) * scale, where the norm has neither scale nor bias yet.
struct FoldScale : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (auto [y, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      if (auto norm = definingNorm<LayerNormOp>(y); norm && !norm.getScale() && !norm.getBias())
        if (Value scale = matchParameter(other, norm.getX(), norm.getAxis(), rewriter)) {
          auto scaled = LayerNormOp::create(rewriter, op.getLoc(), norm.getX(), scale, Value(), norm.getAxis(),
                                            norm.getEpsilon().convertToDouble());
          rewriter.replaceOp(op, scaled.getY());
          return success();
        }
      if (auto norm = definingNorm<RmsNormOp>(y); norm && !norm.getScale())
        if (Value scale = matchParameter(other, norm.getX(), norm.getAxis(), rewriter)) {
          auto scaled = RmsNormOp::create(rewriter, op.getLoc(), norm.getX(), scale, norm.getAxis(),
                                          norm.getEpsilon().convertToDouble());
          rewriter.replaceOp(op, scaled.getY());
          return success();
        }
    }
    return rewriter.notifyMatchFailure(op, "not a normalized value times a parameter of its rows");
  }
};

/// layer_norm(x) + bias.
struct FoldBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (auto [y, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())})
      if (auto norm = definingNorm<LayerNormOp>(y); norm && !norm.getBias())
        if (Value bias = matchParameter(other, norm.getX(), norm.getAxis(), rewriter)) {
          auto biased = LayerNormOp::create(rewriter, op.getLoc(), norm.getX(), norm.getScale(), bias, norm.getAxis(),
                                            norm.getEpsilon().convertToDouble());
          rewriter.replaceOp(op, biased.getY());
          return success();
        }
    return rewriter.notifyMatchFailure(op, "not a normalized value plus a parameter of its rows");
  }
};
} // namespace

void mlir::scrimp::populateNormIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseNormProduct, RaiseNormQuotient, FoldScale, FoldBias>(patterns.getContext());
}
