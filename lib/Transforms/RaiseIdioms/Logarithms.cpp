// Logarithms and exponentials whose operand has lost what matters by the time it is formed (1 + x near 1, a sigmoid
// that rounds to 0 or 1, a sum of exponentials that overflows). They are raised to forms that are right everywhere.
#include "Match.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

/// The x of 1 + x; null if `value` is nothing of the kind.
static Value matchOnePlus(Value value) {
  return matchEither<AddOp>(value, [](Value operand) { return isSplatOf(operand, 1.0); });
}

/// The x of 1 - x, also as -x + 1.
static Value matchOneMinus(Value value) {
  if (auto sub = value.getDefiningOp<SubOp>())
    return isSplatOf(sub.getA(), 1.0) ? sub.getB() : Value();
  Value other = matchOnePlus(value);
  auto neg = other ? other.getDefiningOp<NegOp>() : NegOp();
  return neg ? neg.getX() : Value();
}

/// The x of x - 1, also as x + (-1).
static Value matchMinusOne(Value value) {
  if (auto sub = value.getDefiningOp<SubOp>())
    return isSplatOf(sub.getB(), 1.0) ? sub.getA() : Value();
  return matchEither<AddOp>(value, [](Value operand) { return isSplatOf(operand, -1.0); });
}

template <typename Op> static Value operandOf(Value value) {
  auto op = value ? value.getDefiningOp<Op>() : Op();
  return op ? op.getX() : Value();
}

static Value negate(OpBuilder &builder, Location loc, Value value) {
  Value inner = operandOf<NegOp>(value);
  return inner ? inner : NegOp::create(builder, loc, value).getResult();
}

/// log(1 + e^x).
static Value softplus(OpBuilder &builder, Location loc, Value x) { return SoftplusOp::create(builder, loc, x); }

/// Whether all elements of a constant are positive and finite.
static bool isPositiveConstant(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<BroadcastOp, ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  DenseFPElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && llvm::all_of(elements.getValues<APFloat>(), [](APFloat element) {
           return element.isFinite() && !element.isZero() && !element.isNegative();
         });
}

/// log(e^a + e^b). Where the exponents are equal it is written apart: two infinite ones have no difference.
static Value logAddExp(OpBuilder &builder, Location loc, Value aValue, Value bValue) {
  GraphExpr a(builder, loc, aValue), b(builder, loc, bValue);
  GraphExpr larger = a.with(MaximumOp::create(builder, loc, a.value, b.value));
  GraphExpr apart = larger + a.with(softplus(builder, loc, (-abs(a - b)).value));
  return select(eq(a, b), 0.5 * a + 0.5 * b + std::log(2.0), apart).value;
}

/// log(value), without forming `value`; null where the plain logarithm is as good.
static Value buildLog(OpBuilder &builder, Location loc, Value value) {
  if (Value x = operandOf<SigmoidOp>(value))
    return negate(builder, loc, softplus(builder, loc, negate(builder, loc, x)));
  if (auto softmax = value.getDefiningOp<SoftmaxOp>())
    return LogSoftmaxOp::create(builder, loc, softmax.getX());
  if (auto sum = value.getDefiningOp<ReduceOp>(); sum && sum.getKind() == ReduceKind::sum)
    if (Value x = operandOf<ExpOp>(sum.getX()))
      return logSumExp(builder, loc, x, sum.getDims());
  if (Value x = matchOneMinus(value)) {
    if (Value logit = operandOf<SigmoidOp>(x))
      return negate(builder, loc, softplus(builder, loc, logit));
    return Log1pOp::create(builder, loc, negate(builder, loc, x));
  }
  if (Value x = matchOnePlus(value)) {
    if (Value exponent = operandOf<ExpOp>(x))
      return softplus(builder, loc, exponent);
    return Log1pOp::create(builder, loc, x);
  }
  if (auto add = value.getDefiningOp<AddOp>()) {
    Value a = operandOf<ExpOp>(add.getA()), b = operandOf<ExpOp>(add.getB());
    if (a && b)
      return logAddExp(builder, loc, a, b);
    Value exponent = a ? a : b, constant = a ? add.getB() : add.getA();
    if (exponent && isPositiveConstant(constant)) { // log(e^x + c) = log c + log(1 + e^(x - log c))
      GraphExpr x(builder, loc, exponent), logC = log(x.with(constant));
      return (logC + x.with(softplus(builder, loc, (x - logC).value))).value;
    }
    return {};
  }
  // What only moves elements may move their logarithms.
  Operation *op = value.getDefiningOp();
  if (!op || !isa<BroadcastOp, GatherElementsOp, GatherOp, ReshapeOp, SliceOp, TransposeOp>(op))
    return {};
  Value inner = buildLog(builder, loc, op->getOperand(0));
  if (!inner)
    return {};
  Operation *moved = builder.clone(*op);
  moved->setOperand(0, inner);
  return moved->getResult(0);
}

namespace {
struct RaiseLog : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op, PatternRewriter &rewriter) const override {
    Value raised = buildLog(rewriter, op.getLoc(), op.getX());
    if (!raised)
      return rewriter.notifyMatchFailure(op, "its operand is no naive form");
    rewriter.replaceOp(op, raised);
    return success();
  }
};

/// e^x - 1, and 1 - e^x = -(e^x - 1).
template <typename Op> struct RaiseExpm1 : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (Value x = operandOf<ExpOp>(matchMinusOne(op.getY()))) {
      rewriter.replaceOpWithNewOp<Expm1Op>(op, x);
      return success();
    }
    if (Value x = operandOf<ExpOp>(matchOneMinus(op.getY()))) {
      rewriter.replaceOpWithNewOp<NegOp>(op, Expm1Op::create(rewriter, op.getLoc(), x));
      return success();
    }
    return rewriter.notifyMatchFailure(op, "neither e^x - 1 nor 1 - e^x");
  }
};

/// 1 - sigmoid(x) = sigmoid(-x), where nobody else needs the sigmoid: otherwise there would be two to keep for their
/// gradients (a GRU's gate). A logarithm of it is raised in any case.
template <typename Op> struct RaiseOneMinusSigmoid : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Value complement = matchOneMinus(op.getY()), x = operandOf<SigmoidOp>(complement);
    if (!x || !complement.hasOneUse())
      return rewriter.notifyMatchFailure(op, "not 1 less a sigmoid of its own");
    rewriter.replaceOpWithNewOp<SigmoidOp>(op, negate(rewriter, op.getLoc(), x));
    return success();
  }
};

/// 1 / (1 + e^x) = sigmoid(-x), and e^x / (1 + e^x) = sigmoid(x), which overflow as they stand.
struct RaiseSigmoid : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    Value x = operandOf<ExpOp>(matchOnePlus(op.getB()));
    if (x && isSplatOf(op.getA(), 1.0)) {
      rewriter.replaceOpWithNewOp<SigmoidOp>(op, negate(rewriter, op.getLoc(), x));
      return success();
    }
    if (x && operandOf<ExpOp>(op.getA()) == x) {
      rewriter.replaceOpWithNewOp<SigmoidOp>(op, x);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no quotient of 1 + e^x");
  }
};

/// a x - w log(sigmoid(x)), binary cross entropy of logits with 1 - label for a, is a softplus(x) + (w - a)
/// softplus(-x): neither its value nor its gradient is then a difference of large numbers.
struct RaiseBinaryCrossEntropy : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter &rewriter) const override {
    Value x, weight;
    auto isLogSigmoid = [&](Value value) {
      x = operandOf<NegOp>(operandOf<SoftplusOp>(operandOf<NegOp>(value)));
      return static_cast<bool>(x);
    };
    if (!isLogSigmoid(op.getB()) && !(weight = matchEither<MulOp>(op.getB(), isLogSigmoid)))
      return rewriter.notifyMatchFailure(op, "no logarithm of a sigmoid is subtracted");
    Value factor = matchEither<MulOp>(op.getA(), [&](Value value) { return value == x; });
    if (!factor)
      return rewriter.notifyMatchFailure(op, "not from a product with its logit");
    Location loc = op.getLoc();
    GraphExpr a(rewriter, loc, factor), w = weight ? a.with(weight) : like(a, 1.0);
    GraphExpr positive = a.with(softplus(rewriter, loc, x));
    GraphExpr negative = a.with(softplus(rewriter, loc, negate(rewriter, loc, x)));
    rewriter.replaceOp(op, (a * positive + (w - a) * negative).value);
    return success();
  }
};

/// max + log(sum(e^(x - max))) as written by hand, for any number that is subtracted from a whole row.
struct RaiseShiftedLogSumExp : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (auto [shift, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      auto sum = skipReshapes(other).getDefiningOp<LogSumExpOp>();
      auto sub = sum ? skipReshapes(sum.getX()).getDefiningOp<SubOp>() : SubOp();
      Value row = sub ? getRowValue(sub.getB(), tensorType(sum.getY()).getNumElements()) : Value();
      if (!row || row != skipReshapes(shift))
        continue;
      Value x = reshapeTo(rewriter, op.getLoc(), sub.getA(), shapeOf(sum.getX()));
      Value raised = LogSumExpOp::create(rewriter, op.getLoc(), x);
      rewriter.replaceOp(op, reshapeTo(rewriter, op.getLoc(), raised, shapeOf(op.getY())));
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no log-sum-exp of a row shifted by the other operand");
  }
};
} // namespace

void mlir::scrimp::populateLogarithmIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseLog, RaiseExpm1<AddOp>, RaiseExpm1<SubOp>, RaiseOneMinusSigmoid<AddOp>, RaiseOneMinusSigmoid<SubOp>,
               RaiseSigmoid, RaiseBinaryCrossEntropy, RaiseShiftedLogSumExp>(patterns.getContext());
}
