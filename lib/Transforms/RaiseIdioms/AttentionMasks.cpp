// What an attention's masks really say: nothing, a band of keys around the query, a function of the distance, the same
// for every head or query. Masks are never evaluated as tensors of queries times keys, so that what is found does not
// depend on the size.
#include "Match.h"
#include "Positions.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The largest vector (of keys, or of distances and heads) that is evaluated.
static constexpr int64_t kMaxElements = int64_t(1) << 22;

/// Puts `values` in the place of the mask numbered `at`.
static LogicalResult replaceMask(AttentionOp op, size_t at, ArrayRef<Value> values, PatternRewriter &rewriter) {
  SmallVector<Value> masks(op.getMasks());
  masks.erase(masks.begin() + at);
  masks.insert(masks.begin() + at, values.begin(), values.end());
  rewriter.modifyOpInPlace(op, [&] { op.getMasksMutable().assign(masks); });
  return success();
}

namespace {
/// A pattern that rewrites one mask. Masks by distance (rank 2) are as simple as they get.
struct MaskPattern : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    for (auto [at, mask] : llvm::enumerate(op.getMasks()))
      if (tensorType(mask).getRank() == 4 && succeeded(rewriteMask(op, at, mask, rewriter)))
        return success();
    return rewriter.notifyMatchFailure(op, "no mask of this kind");
  }
  virtual LogicalResult rewriteMask(AttentionOp op, size_t at, Value mask, PatternRewriter &rewriter) const = 0;
};
} // namespace

//===-- Parts
//------------------------------------------------------------------------------------------------------===//

static Value buildNot(OpBuilder &builder, Value value) {
  return XorOp::create(builder, value.getLoc(), value, splatConstant(builder, value.getLoc(), tensorType(value), 1));
}

/// Whether it pays to add two masks apart: one of them repeats where the other does not, or goes by distance.
static bool areAddedApart(Value a, Value b) {
  size_t rank = shapeOf(a).size();
  return narrowShape(a) != narrowShape(b) ||
         (rank >= 2 && bool(Diagonals().get(a, rank - 2, rank - 1)) != bool(Diagonals().get(b, rank - 2, rank - 1)));
}

/// What lowers scores to a very low number or adds something: lowering, which swallows whatever else is added, and
/// that.
static SmallVector<Value> splitLowered(SelectOp select, OpBuilder &builder) {
  auto isVeryLow = [](Value value) {
    std::optional<double> splat = getSplat(value);
    return splat && *splat <= -1e30;
  };
  bool lowersB = isVeryLow(select.getB());
  Value added = lowersB ? select.getA() : select.getB();
  if ((!lowersB && !isVeryLow(select.getA())) || getSplat(added))
    return {};
  Value zero = splatConstant(builder, select.getLoc(), tensorType(select.getY()), 0);
  return {SelectOp::create(builder, select.getLoc(), select.getCondition(), lowersB ? zero : select.getA(),
                           lowersB ? select.getB() : zero),
          added};
}

SmallVector<Value> mlir::scrimp::splitMask(Value mask, OpBuilder &builder, double low) {
  Operation *op = mask.getDefiningOp();
  if (!op)
    return {};
  if (isa<ReshapeOp, BroadcastOp, TransposeOp, SliceOp>(op)) {
    SmallVector<Value> parts = splitMask(op->getOperand(0), builder, low);
    for (Value &part : parts) {
      Operation *moved = builder.clone(*op);
      moved->setOperand(0, part);
      moved->getResult(0).setType(tensorType(mask).clone(tensorType(part).getElementType()));
      part = moved->getResult(0);
    }
    return parts;
  }
  if (auto both = dyn_cast<AndOp>(op))
    return {both.getA(), both.getB()};
  if (auto add = dyn_cast<AddOp>(op))
    return areAddedApart(add.getA(), add.getB()) ? SmallVector<Value>{add.getA(), add.getB()} : SmallVector<Value>{};
  if (auto either = dyn_cast<XorOp>(op))
    if (auto inner = isSplatOf(either.getB(), 1) ? either.getA().getDefiningOp<OrOp>() : OrOp())
      return {buildNot(builder, inner.getA()), buildNot(builder, inner.getB())};
  if (auto select = dyn_cast<SelectOp>(op); select && isFloatTensor(mask)) {
    auto isLow = [&](Value value) {
      std::optional<double> splat = getSplat(value);
      return splat && *splat <= low;
    };
    bool keeps = isLow(select.getB());
    if (!keeps && !isLow(select.getA()))
      return splitLowered(select, builder);
    Value sees = keeps ? select.getCondition() : buildNot(builder, select.getCondition());
    Value added = keeps ? select.getA() : select.getB();
    return isSplatOf(added, 0) ? SmallVector<Value>{sees} : SmallVector<Value>{sees, added};
  }
  return {};
}

namespace {
struct SplitMask : MaskPattern {
  using MaskPattern::MaskPattern;
  LogicalResult rewriteMask(AttentionOp op, size_t at, Value mask, PatternRewriter &rewriter) const override {
    SmallVector<Value> parts = splitMask(mask, rewriter);
    return parts.empty() ? failure() : replaceMask(op, at, parts, rewriter);
  }
};

/// A mask that repeats along a dimension.
struct NarrowMask : MaskPattern {
  using MaskPattern::MaskPattern;
  LogicalResult rewriteMask(AttentionOp op, size_t at, Value mask, PatternRewriter &rewriter) const override {
    SmallVector<int64_t> shape = narrowShape(mask);
    if (shapeOf(mask) == ArrayRef<int64_t>(shape))
      return failure();
    return replaceMask(op, at, buildNarrow(rewriter, mask, shape), rewriter);
  }
};
} // namespace

//===-- Masks by distance ----------------------------------------------------------------------------------------===//

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

/// The first and the last distance that a mask by distance shows, if it hides all others and only those.
static std::optional<std::pair<int64_t, int64_t>> getBand(const HostTensor &mask, int64_t queries) {
  int64_t first = -1, last = -1;
  for (int64_t i = 0; i < mask.size(); ++i) {
    Sight sight = sightOf(mask, i);
    if (sight == Sight::Else || (sight == Sight::Seen && first >= 0 && last != i - 1))
      return std::nullopt;
    if (sight != Sight::Seen)
      continue;
    first = first < 0 ? i : first;
    last = i;
  }
  if (first < 0)
    return std::nullopt;
  return std::pair(first - (queries - 1), last - (queries - 1));
}

/// Whether `value` depends on nothing but constants and, if so allowed, parameters.
static bool dependsOnNoData(Value value, bool allowParameters) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp()) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    auto argument = cast<BlockArgument>(next);
    auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    if (!allowParameters || !function || !function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kParam))
      return false;
  }
  return true;
}

/// Whether `mask` may hide a key that it is asked about: it is known to, or the data tell. What is computed from
/// parameters is a table that is learned.
static bool mayHide(Value mask) {
  if (!isFloatTensor(mask))
    return true;
  if (!dependsOnNoData(mask, /*allowParameters=*/false))
    return !dependsOnNoData(mask, /*allowParameters=*/true);
  Scratch scratch(mask.getContext());
  Value narrow = buildNarrow(scratch.builder, mask, narrowShape(mask));
  if (tensorType(mask).getRank() == 4)
    if (Value byDistance = Diagonals(&scratch.builder).get(narrow, 2, 3))
      narrow = byDistance;
  std::optional<HostTensor> known = evaluateConstant(narrow, kMaxElements);
  return !known || llvm::any_of(known->floats(), [](double value) { return !(value > -1e30); });
}

/// Where all of a row is lowered alike, lowering is not hiding: whether each query sees a key in the band, and keeps
/// it.
static bool isAsGoodAsHiding(AttentionOp op, Value mask, std::pair<int64_t, int64_t> band) {
  if (!isFloatTensor(mask))
    return true;
  int64_t queries = shapeOf(op.getQ())[2], keys = shapeOf(op.getK())[2];
  auto [left, right] = op.getReach();
  if (band.second < 0 || queries - 1 + band.first > keys - 1 || op.getSegments() || left < keys || right < keys)
    return false;
  return llvm::none_of(op.getMasks(), [&](Value other) { return other != mask && mayHide(other); });
}

/// Makes the mask numbered `at` the attributes that say the same.
static LogicalResult setBand(AttentionOp op, size_t at, std::pair<int64_t, int64_t> band, PatternRewriter &rewriter) {
  int64_t queries = shapeOf(op.getQ())[2], keys = shapeOf(op.getK())[2];
  auto [left, right] = op.getReach();
  // A band that reaches the furthest keys there are has no bound on that side.
  if (band.first > 1 - queries)
    left = std::min(left, keys - queries - band.first);
  if (band.second < keys - 1)
    right = std::min(right, band.second - (keys - queries));
  (void)replaceMask(op, at, {}, rewriter);
  rewriter.modifyOpInPlace(op, [&, left = left, right = right] { op.setReach(left, right); });
  return success();
}

namespace {
/// A mask that goes by the distance of the key: a band becomes an attribute, anything else a mask of rank 2.
struct RaiseDistance : MaskPattern {
  using MaskPattern::MaskPattern;
  LogicalResult rewriteMask(AttentionOp op, size_t at, Value mask, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = shapeOf(mask);
    int64_t queries = shapeOf(op.getQ())[2], keys = shapeOf(op.getK())[2];
    if (shape[0] != 1 || shape[2] != queries || shape[3] != keys || queries == 1 || keys == 1 ||
        !Diagonals().get(mask, 2, 3))
      return failure();
    Value byDistance = Diagonals(&rewriter).get(mask, 2, 3);
    std::optional<HostTensor> known = shape[1] == 1 ? evaluateConstant(byDistance, kMaxElements) : std::nullopt;
    if (auto band = known ? getBand(*known, queries) : std::nullopt; band && isAsGoodAsHiding(op, mask, *band))
      return setBand(op, at, *band, rewriter);
    return replaceMask(op, at, reshapeTo(rewriter, mask.getLoc(), byDistance, {shape[1], queries + keys - 1}),
                       rewriter);
  }
};

/// Two known additive masks by distance are one, which may be a band although each of them could hide what the other
/// leaves.
struct JoinDistances : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    std::optional<size_t> first;
    for (auto [at, mask] : llvm::enumerate(op.getMasks())) {
      ArrayRef<int64_t> shape = shapeOf(mask);
      std::optional<HostTensor> known = shape.size() == 2 && shape[0] == 1 && isFloatTensor(mask)
                                            ? evaluateConstant(mask, kMaxElements)
                                            : std::nullopt;
      if (!known)
        continue;
      if (auto band = getBand(*known, shapeOf(op.getQ())[2]); band && isAsGoodAsHiding(op, mask, *band))
        return setBand(op, at, *band, rewriter);
      if (!first) {
        first = at;
        continue;
      }
      Value sum = AddOp::create(rewriter, op.getLoc(), op.getMasks()[*first], mask);
      (void)replaceMask(op, at, {}, rewriter);
      return replaceMask(op, *first, sum, rewriter);
    }
    return rewriter.notifyMatchFailure(op, "no masks by distance to join");
  }
};
} // namespace

//===-- Known vectors
//----------------------------------------------------------------------------------------------===//

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

namespace {
/// A mask known at compile time that shows all, or whose elements repeat.
struct SimplifyKnownMask : MaskPattern {
  using MaskPattern::MaskPattern;
  LogicalResult rewriteMask(AttentionOp op, size_t at, Value value, PatternRewriter &rewriter) const override {
    std::optional<HostTensor> mask = evaluateConstant(value, kMaxElements);
    if (!mask)
      return failure();
    if (seesAll(*mask))
      return replaceMask(op, at, {}, rewriter);
    SmallVector<int64_t> shape = distinctShape(*mask);
    if (ArrayRef<int64_t>(shape) == mask->getShape())
      return failure();
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
    return replaceMask(op, at, smaller, rewriter);
  }
};
} // namespace

//===-- Segments
//-----------------------------------------------------------------------------------------------------===//

/// The tensor [batch or 1, length] that `value`, of the scores' rank, repeats along all but the batch and dimension
/// `dim`.
static Value getLine(Value value, int64_t batch, int64_t length, size_t dim) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    if (shapeOf(broadcast.getX()).size() > 4)
      return {};
    SmallVector<int64_t> expected(4 - shapeOf(broadcast.getX()).size(), 1);
    llvm::append_range(expected, shapeOf(broadcast.getX()));
    value = broadcast.getX();
    bool fits = (expected[0] == batch || expected[0] == 1) && expected[dim] == length;
    expected[0] = expected[dim] = 1;
    if (fits && llvm::all_of(expected, [](int64_t size) { return size == 1; }))
      return skipReshapes(value);
  }
  SmallVector<int64_t> expected{batch, 1, 1, 1};
  expected[dim] = length;
  return shapeOf(value) == ArrayRef<int64_t>(expected) ? skipReshapes(value) : Value();
}

/// Whether two lines have the same elements: they are one value, or constants.
static bool areSameLine(Value a, Value b) {
  if (!b || a == b)
    return a == b;
  std::optional<HostTensor> first = evaluateConstant(a, kMaxElements),
                            second = first ? evaluateConstant(b, kMaxElements) : std::nullopt;
  return second && first->ints() == second->ints();
}

namespace {
/// A mask that lets a query see the keys of its own segment: ids[b, query] == ids[b, key].
struct RaiseSegments : MaskPattern {
  using MaskPattern::MaskPattern;
  LogicalResult rewriteMask(AttentionOp op, size_t at, Value mask, PatternRewriter &rewriter) const override {
    auto compare = mask.getDefiningOp<CompareOp>();
    int64_t batch = shapeOf(op.getQ())[0], length = shapeOf(op.getQ())[2];
    if (!compare || compare.getPredicate() != Predicate::eq || isFloatTensor(compare.getA()) || op.getSegments() ||
        shapeOf(op.getK())[2] != length || length == 1)
      return failure();
    for (auto [a, b] : {std::pair(compare.getA(), compare.getB()), std::pair(compare.getB(), compare.getA())}) {
      Value ids = getLine(a, batch, length, 2);
      if (!ids || !areSameLine(ids, getLine(b, batch, length, 3)))
        continue;
      int64_t members = tensorType(ids).getNumElements() / length;
      ids =
          broadcastTo(rewriter, op.getLoc(), reshapeTo(rewriter, op.getLoc(), ids, {members, length}), {batch, length});
      RankedTensorType wide = RankedTensorType::get({batch, length}, rewriter.getI64Type());
      if (ids.getType() != wide)
        ids = CastOp::create(rewriter, op.getLoc(), wide, ids);
      (void)replaceMask(op, at, {}, rewriter);
      rewriter.modifyOpInPlace(op, [&] { op.getSegmentsMutable().assign(ids); });
      return success();
    }
    return failure();
  }
};
} // namespace

void mlir::scrimp::tellLargeMasks(Operation *root) {
  constexpr int64_t kLargeBytes = int64_t(1) << 24;
  root->walk([](AttentionOp op) {
    int64_t queries = shapeOf(op.getQ())[2], keys = shapeOf(op.getK())[2];
    for (Value mask : op.getMasks()) {
      RankedTensorType type = tensorType(mask);
      int64_t bytes = type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
      if (type.getRank() != 4 || type.getDimSize(2) != queries || type.getDimSize(3) != keys || bytes < kLargeBytes)
        continue;
      op.emitRemark() << "attention reads a mask of " << type << ", " << (bytes >> 20)
                      << " MiB: it is not known to depend on the distance from query to key alone";
    }
  });
}

void mlir::scrimp::populateAttentionMaskIdioms(RewritePatternSet &patterns) {
  // Parts and what they repeat first: the others look at one small mask.
  patterns.add<NarrowMask, SplitMask>(patterns.getContext(), /*benefit=*/3);
  patterns.add<RaiseSegments>(patterns.getContext(), /*benefit=*/2);
  patterns.add<RaiseDistance, JoinDistances, SimplifyKnownMask>(patterns.getContext());
}
