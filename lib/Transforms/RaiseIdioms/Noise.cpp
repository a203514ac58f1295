// Dropout of whole samples or channels (stochastic depth, arXiv:1603.09382; Dropout2d), which exporters write by a
// random number below a bound. It becomes the dropout of ones, spread over what it multiplies: evaluation then knows
// it.
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The draw from [0, 1) that `value` is.
static RandomUniformOp matchDraw(Value value) {
  auto draw = value.getDefiningOp<RandomUniformOp>();
  return draw && draw.getLow().isZero() && draw.getHigh().isExactlyValue(1) ? draw : RandomUniformOp();
}

/// 0 with the probability 1 - keep, else 1 / keep; in evaluation 1.
static Value buildNoise(PatternRewriter &rewriter, RandomUniformOp draw, double keep) {
  Value ones = splatConstant(rewriter, draw.getLoc(), tensorType(draw.getY()), 1);
  return DropoutOp::create(rewriter, draw.getLoc(), draw.getType(), ones, draw.getSeed(), draw.getStep(),
                           draw.getSampleBase(), draw.getOrigin(), draw.getKeyAttr(), draw.getBatchDimAttr(),
                           draw.getSamplesAttr(), draw.getWholeAttr(), rewriter.getF64FloatAttr(1 - keep));
}

static bool isProbability(std::optional<double> keep) { return keep && *keep > 0 && *keep <= 1; }

namespace {
/// (u < keep) / keep.
struct RaiseBernoulli : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto cast = op.getA().getDefiningOp<CastOp>();
    auto below = cast ? cast.getX().getDefiningOp<CompareOp>() : CompareOp();
    RandomUniformOp draw = below ? matchDraw(below.getA()) : RandomUniformOp();
    if (!draw || below.getPredicate() != Predicate::lt || draw.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "not a draw below a bound");
    std::optional<double> keep = getSplat(op.getB());
    if (!isProbability(keep) || !isSplatOf(below.getB(), *keep))
      return rewriter.notifyMatchFailure(op, "not divided by that bound");
    rewriter.replaceOp(op, buildNoise(rewriter, draw, *keep));
    return success();
  }
};

/// x / keep * floor(keep + u).
struct RaiseDropPath : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (unsigned i : {0, 1}) {
      auto scaled = op->getOperand(i).getDefiningOp<DivOp>();
      Value noise = op->getOperand(1 - i);
      auto spread = noise.getDefiningOp<BroadcastOp>();
      auto floor = (spread ? spread.getX() : noise).getDefiningOp<FloorOp>();
      std::optional<double> keep = scaled ? getSplat(scaled.getB()) : std::nullopt;
      if (!floor || !isProbability(keep))
        continue;
      Value other = matchEither<AddOp>(floor.getX(), [&](Value bound) { return isSplatOf(bound, *keep); });
      RandomUniformOp draw = other ? matchDraw(other) : RandomUniformOp();
      if (!draw)
        continue;
      Value factor = broadcastTo(rewriter, op.getLoc(), buildNoise(rewriter, draw, *keep), shapeOf(op.getY()));
      rewriter.replaceOpWithNewOp<MulOp>(op, scaled.getA(), factor);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no x / keep and floor(keep + u)");
  }
};
} // namespace

void mlir::scrimp::populateNoiseIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseBernoulli, RaiseDropPath>(patterns.getContext());
}
