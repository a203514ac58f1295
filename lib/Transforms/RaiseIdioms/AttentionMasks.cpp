// What an attention's mask really says: nothing, the causal order, or the same for every head or query.
#include "Match.h"
#include "Positions.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The largest mask, or vector of distances, that is evaluated. Causality is found in the distances alone.
static constexpr int64_t kMaxElements = int64_t(1) << 22;

namespace {
enum class Sight { Seen, Hidden, Else };
} // namespace

/// What element `i` of a mask does to its score. An additive -1e30 leaves nothing of any exponential beside a score
/// that is seen.
static Sight sightOf(const HostTensor &mask, int64_t i) {
  if (!mask.isFloat())
    return mask.ints()[i] ? Sight::Seen : Sight::Hidden;
  double value = mask.floats()[i];
  return value == 0 ? Sight::Seen : value <= -1e30 ? Sight::Hidden : Sight::Else;
}

/// Whether `mask` (rank 4, its last two dimensions those of the scores) hides exactly the keys j > i + Sk - Sq.
static bool isCausal(Value mask) {
  ArrayRef<int64_t> shape = shapeOf(mask);
  int64_t queries = shape[2], keys = shape[3];
  // With fewer keys than queries the first rows would see nothing: an additive mask means something else there.
  if (shape[0] != 1 || shape[1] != 1 || keys < queries || queries == 1 || !Diagonals().get(mask, 2, 3))
    return false;
  Scratch scratch(mask.getContext());
  std::optional<HostTensor> distances = evaluateConstant(Diagonals(&scratch.builder).get(mask, 2, 3), kMaxElements);
  if (!distances)
    return false;
  for (int64_t i = 0; i < distances->size(); ++i)
    if (sightOf(*distances, i) != (i < keys ? Sight::Seen : Sight::Hidden))
      return false;
  return true;
}

static bool seesAll(const HostTensor &mask) {
  for (int64_t i = 0; i < mask.size(); ++i)
    if (sightOf(mask, i) != Sight::Seen)
      return false;
  return true;
}

/// The dimensions (made 1) along which all elements are equal.
static SmallVector<int64_t> distinctShape(const HostTensor &mask) {
  SmallVector<int64_t> shape(mask.getShape()), strides = rowMajorStrides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    bool same = true;
    forEachIndex(mask.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
      same = same && mask.asDouble(i) == mask.asDouble(i - index[d] * strides[d]);
    });
    if (same)
      shape[d] = 1;
  }
  return shape;
}

/// Makes `mask` (null: none) the op's mask, and `segments` its segments if there are some.
static LogicalResult setMask(AttentionOp op, Value mask, bool causal, PatternRewriter &rewriter, Value segments = {}) {
  rewriter.modifyOpInPlace(op, [&] {
    op.getMaskMutable().assign(mask ? ValueRange(mask) : ValueRange());
    if (segments)
      op.getSegmentsMutable().assign(segments);
    op.setCausal(op.getCausal() || causal);
  });
  return success();
}

namespace {
/// A mask known at compile time.
struct SimplifyKnownMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (op.getMask() && isCausal(op.getMask()))
      return setMask(op, {}, true, rewriter);
    std::optional<HostTensor> mask = op.getMask() ? evaluateConstant(op.getMask(), kMaxElements) : std::nullopt;
    if (!mask)
      return rewriter.notifyMatchFailure(op, "no mask that is known");
    if (seesAll(*mask))
      return setMask(op, {}, false, rewriter);
    SmallVector<int64_t> shape = distinctShape(*mask);
    if (ArrayRef<int64_t>(shape) == mask->getShape())
      return rewriter.notifyMatchFailure(op, "the mask is not causal and differs along each dimension");
    HostTensor distinct(mask->getType().clone(shape));
    SmallVector<int64_t> strides = rowMajorStrides(mask->getShape());
    forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t i) {
      int64_t from = 0;
      for (auto [at, stride] : llvm::zip(index, strides))
        from += at * stride;
      if (mask->isFloat())
        distinct.floats()[i] = mask->floats()[from];
      else
        distinct.ints()[i] = mask->ints()[from];
    });
    Value smaller = ConstantOp::create(rewriter, op.getLoc(), cast<ElementsAttr>(distinct.toAttr()));
    return setMask(op, smaller, false, rewriter);
  }
};

/// A mask that is a known part and an unknown one: the known part may be all or causal.
struct SplitMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto both = op.getMask() ? op.getMask().getDefiningOp<AndOp>() : AndOp();
    if (!both || !tensorType(op.getMask()).getElementType().isInteger(1))
      return rewriter.notifyMatchFailure(op, "the mask is no conjunction");
    for (auto [known, other] : {std::pair(both.getA(), both.getB()), std::pair(both.getB(), both.getA())}) {
      Scratch scratch(op.getContext());
      Value narrow = buildNarrow(scratch.builder, known, narrowShape(known));
      if (isCausal(narrow))
        return setMask(op, other, true, rewriter);
      std::optional<HostTensor> mask = evaluateConstant(narrow, kMaxElements);
      if (mask && seesAll(*mask))
        return setMask(op, other, false, rewriter);
    }
    return rewriter.notifyMatchFailure(op, "no part of the mask is known to be all or causal");
  }
};
} // namespace

/// The shape of the operand of a broadcast, with as many dimensions as the result.
static SmallVector<int64_t> paddedShape(BroadcastOp op) {
  SmallVector<int64_t> shape(shapeOf(op.getY()).size() - shapeOf(op.getX()).size(), 1);
  llvm::append_range(shape, shapeOf(op.getX()));
  return shape;
}

namespace {
/// A mask that repeats along a dimension.
struct NarrowMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask())
      return rewriter.notifyMatchFailure(op, "no mask");
    SmallVector<int64_t> shape = narrowShape(op.getMask());
    if (shapeOf(op.getMask()) == ArrayRef<int64_t>(shape))
      return rewriter.notifyMatchFailure(op, "the mask repeats along no dimension");
    return setMask(op, buildNarrow(rewriter, op.getMask(), shape), false, rewriter);
  }
};
} // namespace

/// The tensor [batch, length] that `value`, of the scores' rank, repeats along all but the batch and dimension `dim`.
static Value getLine(Value value, int64_t batch, int64_t length, size_t dim) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  SmallVector<int64_t> expected{batch, 1, 1, 1};
  expected[dim] = length;
  return broadcast && paddedShape(broadcast) == expected ? skipReshapes(broadcast.getX()) : Value();
}

namespace {
/// A mask, or a part of one, that lets a query see the keys of its own segment: ids[b, query] == ids[b, key].
struct RaiseSegments : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask() || op.getSegments())
      return rewriter.notifyMatchFailure(op, "no mask, or segments already");
    SmallVector<std::pair<Value, Value>> parts{{op.getMask(), Value()}};
    if (auto both = op.getMask().getDefiningOp<AndOp>())
      parts = {{both.getA(), both.getB()}, {both.getB(), both.getA()}};
    int64_t batch = shapeOf(op.getQ())[0], length = shapeOf(op.getQ())[2];
    if (shapeOf(op.getK())[2] != length || length == 1)
      return rewriter.notifyMatchFailure(op, "queries and keys are not the same positions");
    for (auto [part, other] : parts) {
      auto compare = part.getDefiningOp<CompareOp>();
      if (!compare || compare.getPredicate() != Predicate::eq || isFloatTensor(compare.getA()))
        continue;
      for (auto [a, b] : {std::pair(compare.getA(), compare.getB()), std::pair(compare.getB(), compare.getA())}) {
        Value ids = getLine(a, batch, length, 2);
        if (!ids || ids != getLine(b, batch, length, 3))
          continue;
        ids = reshapeTo(rewriter, op.getLoc(), ids, {batch, length});
        RankedTensorType wide = RankedTensorType::get({batch, length}, rewriter.getI64Type());
        if (ids.getType() != wide)
          ids = CastOp::create(rewriter, op.getLoc(), wide, ids);
        return setMask(op, other, false, rewriter, ids);
      }
    }
    return rewriter.notifyMatchFailure(op, "no part of the mask compares segments");
  }
};
} // namespace

void mlir::scrimp::populateAttentionMaskIdioms(RewritePatternSet &patterns) {
  // Narrow first: a mask is then small enough to be evaluated.
  patterns.add<NarrowMask>(patterns.getContext(), /*benefit=*/2);
  patterns.add<RaiseSegments, SimplifyKnownMask, SplitMask>(patterns.getContext());
}
