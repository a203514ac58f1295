// GELU (with erf and with tanh) and SiLU, in any order of their factors.
#include "Match.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::scrimp;

/// Whether `factors` are `x` `count` times and nothing else.
static bool areAll(ArrayRef<Value> factors, Value x, size_t count) {
  return factors.size() == count && llvm::all_of(factors, [&](Value factor) { return factor == x; });
}

/// Whether `scale`, a product of constants of x's type, is `number` up to the roundings of that product.
static bool isScale(double scale, double number, Value x) {
  auto type = cast<FloatType>(tensorType(x).getElementType());
  double unit = std::ldexp(1.0, -static_cast<int>(type.getFPMantissaWidth()));
  return std::abs(scale - number) <= 2 * unit * std::abs(number);
}

/// The operand f of 1 + f.
template <typename Op>
static Op matchOnePlus(Value value) {
  Value other = matchEither<AddOp>(value, [](Value operand) { return isSplatOf(operand, 1.0); });
  return other ? other.getDefiningOp<Op>() : Op();
}

namespace {
/// x * 0.5 * (1 + f(argument of x)) becomes an activation of its own; `Form` says what the argument is.
template <typename Form, typename Inner, typename Raised> struct RaiseHalved : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> factors;
    double scale = 1;
    collectFactors(op.getY(), factors, scale);
    if (factors.size() != 2)
      return rewriter.notifyMatchFailure(op, "not two factors");
    for (unsigned i : {0, 1}) {
      auto inner = matchOnePlus<Inner>(factors[i]);
      Value x = factors[1 - i];
      if (!inner)
        continue;
      if (!isScale(scale, 0.5, x) || !Form::matchArgument(inner.getX(), x))
        return rewriter.notifyMatchFailure(op, "not the argument and the constants of GELU");
      rewriter.replaceOpWithNewOp<Raised>(op, x);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no x and 1 + f(x)");
  }
};

/// 1 + erf(x / sqrt(2)).
struct RaiseGelu : RaiseHalved<RaiseGelu, ErfOp, GeluOp> {
  using RaiseHalved::RaiseHalved;
  static bool matchArgument(Value value, Value x) {
    double inner = 1;
    return skipScale(value, inner) == x && isScale(inner, 1 / std::numbers::sqrt2, x);
  }
};

/// 1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)), also with x (1 + 0.044715 x^2) inside.
struct RaiseGeluTanh : RaiseHalved<RaiseGeluTanh, TanhOp, GeluTanhOp> {
  using RaiseHalved::RaiseHalved;

  /// Whether `value` is 0.044715 x^power.
  static bool isCubicTerm(Value value, Value x, unsigned power) {
    SmallVector<Value> factors;
    double scale = 1;
    collectFactors(value, factors, scale);
    if (!isScale(scale, 0.044715, x))
      return false;
    if (factors.size() == 1)
      if (auto pow = factors[0].getDefiningOp<PowOp>())
        return pow.getA() == x && isSplatOf(pow.getB(), power);
    return areAll(factors, x, power);
  }

  static bool matchArgument(Value value, Value x) {
    SmallVector<Value> factors;
    double scale = 1;
    collectFactors(value, factors, scale);
    if (!isScale(scale, std::sqrt(2 / std::numbers::pi), x))
      return false;
    if (factors.size() == 1) {
      Value cubic = matchEither<AddOp>(factors[0], [&](Value operand) { return operand == x; });
      return cubic && isCubicTerm(cubic, x, 3);
    }
    if (factors.size() != 2)
      return false;
    for (unsigned i : {0, 1}) {
      Value square = matchEither<AddOp>(factors[i], [](Value operand) { return isSplatOf(operand, 1.0); });
      if (factors[1 - i] == x && square && isCubicTerm(square, x, 2))
        return true;
    }
    return false;
  }
};

/// x * sigmoid(x).
struct RaiseSilu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (auto [x, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())})
      if (auto sigmoid = other.getDefiningOp<SigmoidOp>(); sigmoid && sigmoid.getX() == x) {
        rewriter.replaceOpWithNewOp<SiluOp>(op, x);
        return success();
      }
    return rewriter.notifyMatchFailure(op, "not x times sigmoid(x)");
  }
};

/// x / (1 + e^-x).
struct RaiseSiluQuotient : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto exp = matchOnePlus<ExpOp>(op.getB());
    auto neg = exp ? exp.getX().getDefiningOp<NegOp>() : NegOp();
    if (!neg || neg.getX() != op.getA())
      return rewriter.notifyMatchFailure(op, "not x / (1 + e^-x)");
    rewriter.replaceOpWithNewOp<SiluOp>(op, op.getA());
    return success();
  }
};
} // namespace

void mlir::scrimp::populateActivationIdioms(RewritePatternSet &patterns) {
  patterns.add<RaiseGelu, RaiseGeluTanh, RaiseSilu, RaiseSiluQuotient>(patterns.getContext());
}
