// Math functions in f32 as code that vectorises; test/Unit/Codegen measures their error. f64 goes to libm.
#include "LowerKernels.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// A call of the libm function `name` (f64) or `name`f (f32), for ops that upstream's conversions would compute badly.
template <typename Op> struct CallLibm : OpRewritePattern<Op> {
  CallLibm(MLIRContext *context, StringRef name) : OpRewritePattern<Op>(context), name(name) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!type.isF32() && !type.isF64())
      return rewriter.notifyMatchFailure(op, "neither f32 nor f64");
    std::string symbol = (name + (type.isF32() ? "f" : "")).str();
    auto module = op->template getParentOfType<ModuleOp>();
    auto function = module.template lookupSymbol<func::FuncOp>(symbol);
    if (!function) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToEnd(module.getBody());
      SmallVector<Type> types(op->getNumOperands(), type);
      function = func::FuncOp::create(rewriter, module.getLoc(), symbol, rewriter.getFunctionType(types, type));
      function.setPrivate();
    }
    rewriter.replaceOpWithNewOp<func::CallOp>(op, function, op->getOperands());
    return success();
  }

  StringRef name;
};

/// e^x by Cephes' expf: 2^k * e^r with |r| <= ln(2)/2. Unlike upstream's expansion it is right up to the largest float
/// and gives denormals, which sums of small probabilities need.
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    Location loc = op.getLoc();
    ScalarExpr x(rewriter, loc, op.getOperand());
    auto fma = [&](ScalarExpr a, ScalarExpr b, ScalarExpr c) {
      return x.with(math::FmaOp::create(rewriter, loc, a.value, b.value, c.value));
    };
    // Selects keep a NaN. e^-104 rounds to 0 and e^89 overflows.
    x = select(gt(x, like(x, 89.0)), like(x, 89.0), x);
    x = select(lt(x, like(x, -104.0)), like(x, -104.0), x);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; no conversion of a NaN is needed.
    constexpr double kShift = 12582912.0;
    ScalarExpr shifted = fma(x, like(x, 1.44269504088896341), like(x, kShift));
    ScalarExpr k = shifted - kShift;
    ScalarExpr r = fma(k, like(x, -0.693359375), x);
    r = fma(k, like(x, 2.12194440e-4), r);
    ScalarExpr p = like(x, 1.9875691500e-4);
    for (double c : {1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1})
      p = fma(p, r, like(x, c));
    ScalarExpr y = fma(p, r * r, r) + 1.0;
    // 2^k in two factors: for the smallest results the second product rounds, for the largest neither factor overflows.
    Type i32 = rewriter.getI32Type();
    ScalarExpr bits = x.with(arith::BitcastOp::create(rewriter, loc, i32, shifted.value));
    ScalarExpr exponent = bits - like(bits, 0x4B400000);
    ScalarExpr half = x.with(arith::ShRSIOp::create(rewriter, loc, exponent.value, like(exponent, 1).value));
    auto powerOfTwo = [&](ScalarExpr n) {
      Value biased = (n + like(n, 127)).value;
      Value moved = arith::ShLIOp::create(rewriter, loc, biased, like(n, 23).value);
      return x.with(arith::BitcastOp::create(rewriter, loc, rewriter.getF32Type(), moved));
    };
    rewriter.replaceOp(op, (y * powerOfTwo(half) * powerOfTwo(exponent - half)).value);
    return success();
  }
};

/// e^x - 1: its series for |x| <= 0.7, elsewhere as written, which there loses little more than a bit.
struct ExpandExpM1 : OpRewritePattern<math::ExpM1Op> {
  ExpandExpM1(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(math::ExpM1Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    ScalarExpr x(rewriter, op.getLoc(), op.getOperand());
    // 1/10!, 1/9!, ..., 1/2!: the next term is below half a unit in the last place.
    ScalarExpr p = like(x, 1.0 / 3628800);
    for (double factorial : {362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0})
      p = p * x + 1.0 / factorial;
    ScalarExpr near = x + x * x * p;
    rewriter.replaceOp(op, select(le(abs(x), like(x, 0.7)), near, exp(x) - 1.0).value);
    return success();
  }
};

/// tanh by Cephes' tanhf: a polynomial near 0, elsewhere 1 - 2 / (e^2|x| + 1).
struct ExpandTanh : OpRewritePattern<math::TanhOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::TanhOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    ScalarExpr x(rewriter, op.getLoc(), op.getOperand()), magnitude = abs(x), z = x * x;
    ScalarExpr p = like(x, -5.70498872745e-3);
    for (double c : {2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1})
      p = p * z + c;
    ScalarExpr near = magnitude + magnitude * z * p;
    ScalarExpr far = 1.0 - like(x, 2.0) / (exp(magnitude + magnitude) + 1.0);
    ScalarExpr y = select(lt(magnitude, like(x, 0.625)), near, far);
    rewriter.replaceOpWithNewOp<math::CopySignOp>(op, y.value, x.value);
    return success();
  }
};

/// Lets upstream's expansion of log, which takes denormals for the smallest normal number, see a normal number.
struct ScaleDenormalLog : OpRewritePattern<math::LogOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::LogOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32() || op->hasAttr(ScrimpDialect::kScaled))
      return rewriter.notifyMatchFailure(op, "not f32, or scaled already");
    Location loc = op.getLoc();
    ScalarExpr x(rewriter, loc, op.getOperand());
    ScalarExpr tiny = lt(x, like(x, 1.17549435e-38));
    auto log = math::LogOp::create(rewriter, loc, select(tiny, x * 8388608.0, x).value);
    log->setAttr(ScrimpDialect::kScaled, rewriter.getUnitAttr());
    ScalarExpr y = x.with(log);
    rewriter.replaceOp(op, select(tiny, y - 15.942385152878742, y).value);
    return success();
  }
};

/// log(1 + x) where no libm has it: the logarithm of the rounded sum u, and x / (u - 1) for what the rounding took
/// (Goldberg, "What every computer scientist should know about floating-point arithmetic", theorem 4).
struct ExpandLog1p : OpRewritePattern<math::Log1pOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::Log1pOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    ScalarExpr x(rewriter, op.getLoc(), op.getOperand()), u = x + 1.0, rounded = u - 1.0;
    ScalarExpr isSmall = eq(rounded, like(x, 0)), isInfinite = eq(u, like(x, std::numeric_limits<double>::infinity()));
    ScalarExpr y = log(u) * (x / select(isSmall, like(x, 1), rounded));
    rewriter.replaceOp(op, select(isSmall, x, select(isInfinite, u, y)).value);
    return success();
  }
};

/// x^2 and x^3, which models write as powers, as products: as PyTorch does.
struct PowByProducts : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    FloatAttr exponent;
    if (!matchPattern(op.getRhs(), m_Constant(&exponent)))
      return rewriter.notifyMatchFailure(op, "the exponent is not constant");
    double n = exponent.getValueAsDouble();
    if (n != 2 && n != 3)
      return rewriter.notifyMatchFailure(op, "not a square or cube");
    ScalarExpr x(rewriter, op.getLoc(), op.getLhs());
    rewriter.replaceOp(op, (n == 2 ? x * x : x * x * x).value);
    return success();
  }
};

/// a * b + c rounded twice, for processors without the instruction: their fma is a slow function call.
struct SplitFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    Value product = arith::MulFOp::create(rewriter, op.getLoc(), op.getA(), op.getB());
    rewriter.replaceOpWithNewOp<arith::AddFOp>(op, product, op.getC());
    return success();
  }
};

struct ExpandMath : PassWrapper<ExpandMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  ExpandMath(bool hasFma, bool hasLibm) : hasFma(hasFma), hasLibm(hasLibm) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    if (hasLibm) {
      patterns.add<CallLibm<math::Log1pOp>>(&getContext(), "log1p");
      patterns.add<CallLibm<math::ExpM1Op>>(&getContext(), "expm1");
    } else {
      patterns.add<ExpandLog1p>(&getContext());
    }
    patterns.add<ExpandExp, ExpandExpM1, ExpandTanh, ScaleDenormalLog, PowByProducts>(&getContext());
    RewritePatternSet upstream(&getContext());
    populateMathPolynomialApproximationPatterns(upstream, [](StringRef name) {
      return llvm::is_contained({"math.erf", "math.log"}, name);
    });
    if (!hasFma)
      upstream.add<SplitFma>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))) ||
        failed(applyPatternsGreedily(getOperation(), std::move(upstream))))
      signalPassFailure();
  }

  bool hasFma, hasLibm;
};

/// bf16 from f64 or a wide integer by way of f32: rounding first to odd, an inexact f32 cannot become a tie.
struct RoundToOddFirst : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value x = op.getIn();
    if (!op.getType().isBF16() || !x.getType().isF64())
      return rewriter.notifyMatchFailure(op, "not f64 to bf16");
    Type i32 = rewriter.getI32Type(), f32 = rewriter.getF32Type();
    Value narrow = arith::TruncFOp::create(rewriter, loc, f32, x);
    Value wide = arith::ExtFOp::create(rewriter, loc, rewriter.getF64Type(), narrow);
    // Ordered: a NaN stays as it is.
    Value inexact = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::ONE, wide, x);
    Value outward =
        arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, math::AbsFOp::create(rewriter, loc, wide),
                              math::AbsFOp::create(rewriter, loc, x));
    Value bits = arith::BitcastOp::create(rewriter, loc, i32, narrow);
    Value towardsZero = arith::SubIOp::create(rewriter, loc, bits, arith::ExtUIOp::create(rewriter, loc, i32, outward));
    Value odd = arith::OrIOp::create(rewriter, loc, towardsZero, arith::ExtUIOp::create(rewriter, loc, i32, inexact));
    Value result = arith::BitcastOp::create(rewriter, loc, f32, odd);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), result);
    return success();
  }
};

template <typename Op> struct ConvertThroughF64 : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isBF16())
      return rewriter.notifyMatchFailure(op, "not to bf16");
    Value wide = Op::create(rewriter, op.getLoc(), rewriter.getF64Type(), op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }
};

struct ExpandBFloat16 : PassWrapper<ExpandBFloat16, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandBFloat16)

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RoundToOddFirst, ConvertThroughF64<arith::SIToFPOp>, ConvertThroughF64<arith::UIToFPOp>>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> mlir::scrimp::createExpandMathPass(bool hasFma, bool hasLibm) {
  return std::make_unique<ExpandMath>(hasFma, hasLibm);
}
std::unique_ptr<Pass> mlir::scrimp::createExpandBFloat16Pass() { return std::make_unique<ExpandBFloat16>(); }
