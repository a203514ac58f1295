// Attention from matmul, scale, mask, softmax, dropout, matmul, with heads or without; and heads of keys and values
// repeated for groups of query heads.
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

static SmallVector<int64_t> swapLastTwo(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> swapped(shape);
  std::swap(swapped[shape.size() - 1], swapped[shape.size() - 2]);
  return swapped;
}

/// `value` with its last two dimensions exchanged. A transpose that did so is taken off, also one between reshapes that
/// only merge or split the dimensions before.
static Value transposeLastTwo(OpBuilder &builder, Location loc, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  SmallVector<int64_t> permutation = swapLastTwo(llvm::to_vector(llvm::seq<int64_t>(shape.size())));
  if (auto transpose = value.getDefiningOp<TransposeOp>();
      transpose && transpose.getPermutation() == ArrayRef<int64_t>(permutation))
    return transpose.getX();
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    if (ArrayRef<int64_t> inner = shapeOf(reshape.getX());
        inner.size() >= 2 && inner.take_back(2) == shape.take_back(2) &&
        (reshape.getX().getDefiningOp<TransposeOp>() || reshape.getX().getDefiningOp<ReshapeOp>()))
      return reshapeTo(builder, loc, transposeLastTwo(builder, loc, reshape.getX()), swapLastTwo(shape));
  return TransposeOp::create(builder, loc, value, permutation);
}

/// [batch, rows, columns] as one head; rank 4 stays.
static Value withHeads(OpBuilder &builder, Location loc, Value value) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape.size() == 3)
    shape.insert(shape.begin() + 1, 1);
  return reshapeTo(builder, loc, value, shape);
}

namespace {
/// The way from an attention's scores to what multiplies its values.
struct Probabilities {
  SoftmaxOp softmax;
  /// The select that turns NaN (rows that see nothing) into 0, with its condition; null without one.
  SelectOp guarded;
  CompareOp isNan;
  /// Null without one.
  DropoutOp dropout;
};
} // namespace

/// Whether attention can draw what `dropout` draws: its samples lie along the batch, or it knows none.
static bool drawsByBatch(DropoutOp dropout) {
  int64_t dim = dropout.getBatchDim();
  return dim <= 0 && !dropout.getOrigin();
}

static std::optional<Probabilities> matchProbabilities(Value value) {
  Probabilities p;
  if ((p.dropout = value.getDefiningOp<DropoutOp>())) {
    if (!drawsByBatch(p.dropout))
      return std::nullopt;
    value = p.dropout.getX();
  }
  if ((p.guarded = value.getDefiningOp<SelectOp>())) {
    p.isNan = p.guarded.getCondition().getDefiningOp<CompareOp>();
    value = p.guarded.getB();
    if (!p.isNan || p.isNan.getPredicate() != Predicate::ne || p.isNan.getA() != value || p.isNan.getB() != value ||
        !isSplatOf(p.guarded.getA(), 0))
      return std::nullopt;
  }
  p.softmax = value.getDefiningOp<SoftmaxOp>();
  return p.softmax ? std::optional(p) : std::nullopt;
}

/// Whether only this attention reads the probabilities.
static bool areOwn(const Probabilities &p, Operation *reader) {
  Operation *inner[] = {p.softmax, p.isNan, p.guarded, p.dropout};
  return llvm::all_of(inner, [&](Operation *op) {
    return !op || llvm::all_of(op->getUsers(),
                               [&](Operation *user) { return user == reader || llvm::is_contained(inner, user); });
  });
}

/// Lets `attention`, whose scores have the row-major order of the operand of `dropout`, draw what that draws.
static void takeDropout(AttentionOp attention, DropoutOp dropout) {
  attention.getSeedMutable().assign(dropout.getSeed());
  attention.getStepMutable().assign(dropout.getStep());
  attention.getSampleBaseMutable().assign(dropout.getSampleBase());
  attention.setPAttr(dropout.getPAttr());
  attention.setKeyAttr(dropout.getKeyAttr());
  if (int64_t dim = dropout.getBatchDim(); dim == 0)
    attention.setSamplesAttr(dropout.getSamplesAttr());
}

namespace {
/// The product of queries and keys, and what hides some of its elements.
struct Scores {
  MatmulOp matmul;
  double scale = 1;
  SmallVector<Value> added;
  /// i1: scores stay where it is `keeps`, and become `hidden` elsewhere.
  struct Choice {
    Value condition;
    bool keeps;
    double hidden;
  };
  SmallVector<Choice> chosen;
};
} // namespace

/// What leaves nothing of a score beside one that stays.
static constexpr double kHidden = -1e30;

static bool hides(std::optional<double> number) { return number && *number <= kHidden; }

static bool matchScores(Value value, Scores &scores) {
  double scale = 1;
  if (auto matmul = skipScale(value, scale).getDefiningOp<MatmulOp>()) {
    scores.matmul = matmul;
    scores.scale = scale;
    return true;
  }
  if (Value mask = matchEither<AddOp>(value, [&](Value operand) { return matchScores(operand, scores); })) {
    scores.added.push_back(mask);
    return true;
  }
  auto select = value.getDefiningOp<SelectOp>();
  if (!select)
    return false;
  for (bool keeps : {true, false}) {
    std::optional<double> hidden = getSplat(keeps ? select.getB() : select.getA());
    if (hides(hidden) && matchScores(keeps ? select.getA() : select.getB(), scores)) {
      scores.chosen.push_back({select.getCondition(), keeps, *hidden});
      return true;
    }
  }
  return false;
}

/// What hides scores or is added to them: i1 masks of what stays where -inf hides, else additive ones (a score to which
/// -1e30 is added is -1e30).
static SmallVector<Value> buildMasks(OpBuilder &builder, Location loc, Scores &scores) {
  SmallVector<Value> masks(scores.added);
  RankedTensorType type = tensorType(scores.matmul.getY());
  for (const Scores::Choice &choice : scores.chosen) {
    if (choice.hidden == -std::numeric_limits<double>::infinity()) {
      RankedTensorType conditions = tensorType(choice.condition);
      masks.push_back(choice.keeps
                          ? choice.condition
                          : XorOp::create(builder, loc, choice.condition, splatConstant(builder, loc, conditions, 1)));
      continue;
    }
    Value stays = splatConstant(builder, loc, type, 0), hidden = splatConstant(builder, loc, type, choice.hidden);
    masks.push_back(
        SelectOp::create(builder, loc, choice.condition, choice.keeps ? stays : hidden, choice.keeps ? hidden : stays));
  }
  return masks;
}

namespace {
struct RaiseAttention : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    std::optional<Probabilities> probabilities = matchProbabilities(op.getA());
    if (!probabilities || op.getTransposeA())
      return rewriter.notifyMatchFailure(op, "no softmax times values");
    int64_t rank = tensorType(op.getY()).getRank();
    if (rank != 3 && rank != 4)
      return rewriter.notifyMatchFailure(op, "rank is not 3 or 4");
    if (!areOwn(*probabilities, op))
      return rewriter.notifyMatchFailure(op, "the probabilities are read elsewhere");
    Scores scores;
    if (!matchScores(probabilities->softmax.getX(), scores))
      return rewriter.notifyMatchFailure(op, "the scores are no product of queries and keys");
    for (MatmulOp matmul : {op, scores.matmul})
      if (tensorType(matmul.getY()).getElementType() != tensorType(matmul.getA()).getElementType())
        return rewriter.notifyMatchFailure(op, "a product is wider than its operands");
    Location loc = op.getLoc();
    double scale = scores.scale;
    Value q = skipScale(scores.matmul.getA(), scale), k = skipScale(scores.matmul.getB(), scale);
    if (scores.matmul.getTransposeA())
      q = transposeLastTwo(rewriter, loc, q);
    if (!scores.matmul.getTransposeB())
      k = transposeLastTwo(rewriter, loc, k);
    // A factor between the keys and their transpose.
    k = skipScale(k, scale);
    Value v = op.getTransposeB() ? transposeLastTwo(rewriter, loc, op.getB()) : op.getB();
    SmallVector<Value> masks;
    for (Value mask : buildMasks(rewriter, loc, scores)) {
      // Whoever guards against NaN wants 0 for a query that sees nothing: it is scaled_dot_product_attention, whose
      // exporter lowers a score where it means to hide a key.
      SmallVector<Value> parts = probabilities->guarded ? splitMask(mask, rewriter, kHidden) : SmallVector<Value>();
      parts.empty() ? masks.push_back(mask) : masks.append(parts);
    }
    for (Value &mask : masks)
      mask = withHeads(rewriter, loc, mask);
    auto attention = AttentionOp::create(rewriter, loc, withHeads(rewriter, loc, q), withHeads(rewriter, loc, k),
                                         withHeads(rewriter, loc, v), masks, Value(), /*causal=*/false, scale);
    if (probabilities->dropout)
      takeDropout(attention, probabilities->dropout);
    rewriter.replaceOp(op, reshapeTo(rewriter, loc, attention.getOut(), shapeOf(op.getY())));
    return success();
  }
};

/// Keys and values [B,Hkv,S,D] -> [B,Hkv,1,S,D] -> [B,Hkv,G,S,D] -> [B,Hkv*G,S,D].
struct FoldRepeatedHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    BroadcastOp ofKeys = matchRepeated(op.getK()), ofValues = matchRepeated(op.getV());
    if (!ofKeys || !ofValues || shapeOf(ofKeys.getX())[1] != shapeOf(ofValues.getX())[1])
      return rewriter.notifyMatchFailure(op, "keys and values are not repeated alike");
    Value k = beforeRepetition(ofKeys, rewriter), v = beforeRepetition(ofValues, rewriter);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(k);
      op.getVMutable().assign(v);
    });
    return success();
  }

  static Value beforeRepetition(BroadcastOp op, PatternRewriter &rewriter) {
    ArrayRef<int64_t> shape = shapeOf(op.getX());
    return reshapeTo(rewriter, op.getLoc(), op.getX(), {shape[0], shape[1], shape[3], shape[4]});
  }

  static BroadcastOp matchRepeated(Value value) {
    auto merged = value.getDefiningOp<ReshapeOp>();
    auto repeated = merged ? merged.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
    if (!repeated)
      return {};
    ArrayRef<int64_t> full = shapeOf(repeated.getY()), from = shapeOf(repeated.getX()), shape = shapeOf(value);
    bool fits = full.size() == 5 && from.size() == 5 && from[2] == 1 && full[0] == shape[0] &&
                full[1] * full[2] == shape[1] && full[3] == shape[2] && full[4] == shape[3];
    for (unsigned d : {0, 1, 3, 4})
      fits = fits && from[d] == full[d];
    return fits ? repeated : BroadcastOp();
  }
};
} // namespace

void mlir::scrimp::populateAttentionIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, FoldRepeatedHeads>(patterns.getContext());
}
