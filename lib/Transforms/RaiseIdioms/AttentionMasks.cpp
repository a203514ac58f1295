// What an attention's mask really says: nothing, the causal order, or the same for every head or query.
#include "Match.h"

#include "scrimp/Eval/HostTensor.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The largest mask that is evaluated here, in elements.
static constexpr int64_t kMaxElements = int64_t(1) << 24;

/// Evaluates `value` if it depends on nothing but constants.
static std::optional<HostTensor> evaluate(Value value, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  auto eval = dyn_cast_or_null<EvalOp>(op);
  if (!eval || depth > 16 || op->getNumResults() != 1 || tensorType(value).getNumElements() > kMaxElements)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op))
    if (!isa<DenseElementsAttr>(constant.getValue()))
      return std::nullopt;
  SmallVector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    std::optional<HostTensor> known = evaluate(operand, depth + 1);
    if (!known)
      return std::nullopt;
    operands.push_back(std::move(*known));
  }
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &operand : operands)
    pointers.push_back(&operand);
  SmallVector<HostTensor> results{HostTensor(tensorType(value))};
  if (failed(eval.eval(pointers, results)))
    return std::nullopt;
  results[0].roundToType();
  return std::move(results[0]);
}

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
static bool isCausal(const HostTensor &mask, int64_t queries, int64_t keys) {
  ArrayRef<int64_t> shape = mask.getShape();
  // With fewer keys than queries the first rows would see nothing: an additive mask means something else there.
  if (shape[2] != queries || shape[3] != keys || keys < queries || queries == 1)
    return false;
  for (int64_t i = 0; i < mask.size(); ++i) {
    bool sees = i % keys <= i / keys % queries + keys - queries;
    if (sightOf(mask, i) != (sees ? Sight::Seen : Sight::Hidden))
      return false;
  }
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
  auto replacement =
      AttentionOp::create(rewriter, op.getLoc(), op.getQ(), op.getK(), op.getV(), mask,
                          segments ? segments : op.getSegments(), op.getCausal() || causal,
                          op.getScale().convertToDouble());
  rewriter.replaceOp(op, replacement);
  return success();
}

namespace {
/// A mask known at compile time.
struct SimplifyKnownMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    std::optional<HostTensor> mask = op.getMask() ? evaluate(op.getMask()) : std::nullopt;
    if (!mask)
      return rewriter.notifyMatchFailure(op, "no mask that is known");
    if (seesAll(*mask))
      return setMask(op, {}, false, rewriter);
    if (isCausal(*mask, shapeOf(op.getQ())[2], shapeOf(op.getK())[2]))
      return setMask(op, {}, true, rewriter);
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
      std::optional<HostTensor> mask = evaluate(known);
      if (!mask)
        continue;
      if (seesAll(*mask))
        return setMask(op, other, false, rewriter);
      if (isCausal(*mask, shapeOf(op.getQ())[2], shapeOf(op.getK())[2]))
        return setMask(op, other, true, rewriter);
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

/// Whether `op` computes each element from those at the same index.
static bool isPointwise(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel || kernel.getKernelFamily() != KernelFamily::Map || op->getNumResults() != 1 || op->getNumOperands() == 0)
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    return kernel.isPointwiseOperand(operand.getOperandNumber()) &&
           shapeOf(operand.get()) == shapeOf(op->getResult(0));
  });
}

/// The shape, of `value`'s rank, of a tensor that broadcasts to `value` and that the same ops could compute.
static SmallVector<int64_t> narrowShape(Value value, unsigned depth = 0) {
  SmallVector<int64_t> full(shapeOf(value)), shape(full.size(), 1);
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return full;
  if (getSplat(value))
    return shape;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return paddedShape(broadcast);
  if (auto iota = dyn_cast<IotaOp>(op)) {
    shape[iota.getDim()] = full[iota.getDim()];
    return shape;
  }
  if (!isPointwise(op))
    return full;
  for (Value operand : op->getOperands())
    for (auto [size, needed] : llvm::zip(shape, narrowShape(operand, depth + 1)))
      size = std::max(size, needed);
  return shape;
}

/// `value` computed in `shape`, which narrowShape allows.
static Value buildNarrow(Value value, ArrayRef<int64_t> shape, PatternRewriter &rewriter) {
  if (shapeOf(value) == shape)
    return value;
  Location loc = value.getLoc();
  if (std::optional<double> splat = getSplat(value))
    return splatConstant(rewriter, loc, tensorType(value).clone(shape), *splat);
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return broadcastTo(rewriter, loc, reshapeTo(rewriter, loc, broadcast.getX(), paddedShape(broadcast)), shape);
  if (auto iota = value.getDefiningOp<IotaOp>()) {
    RankedTensorType line = tensorType(value).clone(narrowShape(value));
    Value numbers = IotaOp::create(rewriter, loc, line, iota.getDim(), iota.getStart(), iota.getStep());
    return broadcastTo(rewriter, loc, numbers, shape);
  }
  SmallVector<Value> operands;
  for (Value operand : value.getDefiningOp()->getOperands())
    operands.push_back(buildNarrow(operand, shape, rewriter));
  Operation *clone = rewriter.clone(*value.getDefiningOp());
  clone->setOperands(operands);
  clone->getResult(0).setType(tensorType(value).clone(shape));
  return clone->getResult(0);
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
    return setMask(op, buildNarrow(op.getMask(), shape, rewriter), false, rewriter);
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
