// Math functions in f32 as code that vectorises; test/Unit/Codegen measures their error. f64 goes to libm.
#include "LowerKernels.h"

#include "scrimp/Codegen/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// A call of the libm function `name` (f64) or `name`f (f32), for ops that upstream's conversions would compute badly.
template <typename Op>
struct CallLibm : OpRewritePattern<Op> {
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

/// a * b + c rounded twice, for processors without the instruction: their fma is a slow function call.
struct SplitFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    Value product = arith::MulFOp::create(rewriter, op.getLoc(), op.getA(), op.getB());
    rewriter.replaceOpWithNewOp<arith::AddFOp>(op, product, op.getC());
    return success();
  }
};

struct ExpandMath : PassWrapper<ExpandMath, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  explicit ExpandMath(bool hasFma) : hasFma(hasFma) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<CallLibm<math::Log1pOp>>(&getContext(), "log1p");
    patterns.add<CallLibm<math::ExpM1Op>>(&getContext(), "expm1");
    populateMathPolynomialApproximationPatterns(
        patterns, [](StringRef name) { return llvm::is_contained({"math.exp", "math.tanh", "math.erf", "math.log"}, name); });
    if (!hasFma)
      patterns.add<SplitFma>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }

  bool hasFma;
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
    Value towardsZero =
        arith::SubIOp::create(rewriter, loc, bits, arith::ExtUIOp::create(rewriter, loc, i32, outward));
    Value odd = arith::OrIOp::create(rewriter, loc, towardsZero, arith::ExtUIOp::create(rewriter, loc, i32, inexact));
    Value result = arith::BitcastOp::create(rewriter, loc, f32, odd);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), result);
    return success();
  }
};

template <typename Op>
struct ConvertThroughF64 : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isBF16())
      return rewriter.notifyMatchFailure(op, "not to bf16");
    Value wide = Op::create(rewriter, op.getLoc(), rewriter.getF64Type(), op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }
};

struct ExpandBFloat16 : PassWrapper<ExpandBFloat16, OperationPass<ModuleOp>> {
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

std::unique_ptr<Pass> mlir::scrimp::createExpandMathPass(bool hasFma) { return std::make_unique<ExpandMath>(hasFma); }
std::unique_ptr<Pass> mlir::scrimp::createExpandBFloat16Pass() { return std::make_unique<ExpandBFloat16>(); }
