// sin, cos, pow and fmod in f32 for a device, by way of f64: no library has to be linked for them, and an emulated
// device gives the bits of the real one. test/Unit/Codegen measures their error.
#include "LowerKernels.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>
#include <numbers>

using namespace mlir;
using namespace mlir::scrimp;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// c[0] + z c[1] + z^2 c[2] + ...
static ScalarExpr polynomial(ScalarExpr z, ArrayRef<double> coefficients) {
  ScalarExpr sum = like(z, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = sum * z + c;
  return sum;
}

static ScalarExpr fma(ScalarExpr a, ScalarExpr b, ScalarExpr c) {
  return a.with(math::FmaOp::create(*a.builder, a.loc, a.value, b.value, c.value));
}

static ScalarExpr convert(ScalarExpr x, Type type) { return x.with(emitConvert(*x.builder, x.loc, x.value, type)); }

static ScalarExpr bitsOf(ScalarExpr x, Type type) {
  return x.with(arith::BitcastOp::create(*x.builder, x.loc, type, x.value));
}

template <typename Op> static ScalarExpr combine(ScalarExpr a, ScalarExpr b) {
  return a.with(Op::create(*a.builder, a.loc, a.value, b.value));
}

static ScalarExpr constant(ScalarExpr x, Type type, uint64_t value) {
  return x.with(
      arith::ConstantOp::create(*x.builder, x.loc, type, x.builder->getIntegerAttr(type, static_cast<int64_t>(value))));
}

//===-- sin and cos ----------------------------------------------------------------------------------------------===//

namespace {
/// x = n pi/2 + r with |r| <= pi/4, r in f64; n modulo 4.
struct Reduced {
  ScalarExpr n, r; // i64, f64
};
} // namespace

/// By two parts of pi/2 (Cody and Waite 1980).
static Reduced reduceSmall(ScalarExpr x) {
  ScalarExpr n = roundEven(x * (2 / std::numbers::pi));
  ScalarExpr r = fma(-n, like(x, 0x1.921fb54442d18p+0), x);
  return {convert(n, x.builder->getI64Type()), fma(-n, like(x, 0x1.1a62633145c07p-54), r)};
}

/// By the 96 bits of 2/pi that matter for an |x| from 2^26 on (Payne and Hanek 1983): x = m 2^e with an integer m, so
/// of 2^(e-2) 2/pi the fraction is enough for that of x 2/pi / 4.
static Reduced reduceLarge(ScalarExpr x) {
  OpBuilder &b = *x.builder;
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  auto shiftLeft = [](ScalarExpr a, ScalarExpr by) { return combine<arith::ShLIOp>(a, by); };
  auto shiftRight = [](ScalarExpr a, ScalarExpr by) { return combine<arith::ShRUIOp>(a, by); };
  auto word = [&](uint64_t value) { return constant(x, i64, value); };
  ScalarExpr bits = bitsOf(x, i32);
  bits = x.with(arith::ExtUIOp::create(b, x.loc, i64, bits.value));
  ScalarExpr exponent = combine<arith::AndIOp>(shiftRight(bits, word(23)), word(0xff));
  ScalarExpr mantissa = combine<arith::OrIOp>(combine<arith::AndIOp>(bits, word(0x7fffff)), word(0x800000));
  ScalarExpr shift = combine<arith::SubIOp>(exponent, word(150 + 2));
  ScalarExpr first = shiftRight(shift, word(5)), within = combine<arith::AndIOp>(shift, word(31));
  constexpr uint64_t twoOverPi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  // Words first to first + 3: an exponent reaches the fourth at most.
  SmallVector<ScalarExpr> words;
  for (unsigned k = 0; k < 4; ++k) {
    ScalarExpr chosen = word(twoOverPi[k]);
    for (unsigned j = 1; j < 4; ++j)
      chosen = select(eq(first, word(j)), word(twoOverPi[k + j]), chosen);
    words.push_back(chosen);
  }
  SmallVector<ScalarExpr> parts; // shifted by `within`
  for (unsigned k = 0; k < 3; ++k) {
    ScalarExpr both = combine<arith::OrIOp>(shiftLeft(words[k], word(32)), words[k + 1]);
    parts.push_back(combine<arith::AndIOp>(shiftRight(shiftLeft(both, within), word(32)), word(0xffffffff)));
  }
  ScalarExpr fraction =
      shiftLeft(mantissa * parts[0], word(32)) + mantissa * parts[1] + shiftRight(mantissa * parts[2], word(32));
  ScalarExpr n = shiftRight(fraction + word(uint64_t{1} << 61), word(62));
  ScalarExpr rest = fraction - shiftLeft(n, word(62));
  ScalarExpr r = convert(rest, b.getF64Type()) * (2 * std::numbers::pi * 0x1p-64);
  // Of -x both are the other way round.
  ScalarExpr isNegative = lt(x, like(x, 0));
  return {select(isNegative, -n, n), select(isNegative, -r, r)};
}

namespace {
template <typename Op> struct ExpandSinCos : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    Location loc = op.getLoc();
    Type i64 = rewriter.getI64Type(), f64 = rewriter.getF64Type();
    ScalarExpr x(rewriter, loc, op.getOperand());
    ScalarExpr isLarge = ge(abs(x), like(x, 0x1p26));
    auto branch = scf::IfOp::create(rewriter, loc, TypeRange{i64, f64}, isLarge.value, /*withElseRegion=*/true);
    auto fill = [&](Region &region, llvm::function_ref<Reduced(ScalarExpr)> reduce) {
      OpBuilder inside = OpBuilder::atBlockEnd(&region.front());
      Reduced reduced = reduce(ScalarExpr(inside, loc, x.value));
      scf::YieldOp::create(inside, loc, ValueRange{reduced.n.value, reduced.r.value});
    };
    fill(branch.getThenRegion(), reduceLarge);
    fill(branch.getElseRegion(), [&](ScalarExpr small) { return reduceSmall(convert(small, f64)); });
    rewriter.setInsertionPoint(op);
    ScalarExpr n = x.with(branch.getResult(0)), r = x.with(branch.getResult(1)), z = r * r;
    ScalarExpr sine = r * polynomial(z, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800});
    ScalarExpr cosine = polynomial(z, {1, -0.5, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600});
    if (std::is_same_v<Op, math::CosOp>) // sin(x + pi/2)
      n = n + constant(n, i64, 1);
    auto bit = [&](uint64_t mask) {
      return ne(combine<arith::AndIOp>(n, constant(n, i64, mask)), constant(n, i64, 0));
    };
    ScalarExpr y = select(bit(1), cosine, sine);
    y = convert(select(bit(2), -y, y), rewriter.getF32Type());
    // Of an infinity and NaN it is NaN; a zero keeps its sign.
    y = select(lt(abs(x), like(x, kInfinity)), y, x - x);
    if (std::is_same_v<Op, math::SinOp>)
      y = select(eq(x, like(x, 0)), x, y);
    rewriter.replaceOp(op, y.value);
    return success();
  }
};

//===-- pow and fmod ---------------------------------------------------------------------------------------------===//

struct ExpandPow : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    Type i64 = rewriter.getI64Type(), f64 = rewriter.getF64Type();
    ScalarExpr base(rewriter, op.getLoc(), op.getLhs()), power(rewriter, op.getLoc(), op.getRhs());
    ScalarExpr x = convert(base, f64), y = convert(power, f64), magnitude = abs(x);

    // log2 |x| = k + ln(m) / ln 2 with m from sqrt(1/2) to sqrt(2); every f32 but 0 is a normal f64.
    ScalarExpr bits = bitsOf(magnitude, i64);
    ScalarExpr offset = bits - constant(bits, i64, 0x3fe6a09e667f3bcd); // of sqrt(1/2)
    ScalarExpr k = combine<arith::ShRSIOp>(offset, constant(bits, i64, 52));
    ScalarExpr m = bitsOf(bits - combine<arith::ShLIOp>(k, constant(bits, i64, 52)), f64);
    ScalarExpr s = (m - 1.0) / (m + 1.0), z = s * s;
    ScalarExpr series = polynomial(z, {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15});
    ScalarExpr log2 = convert(k, f64) + s * series * (2 / std::numbers::ln2);
    log2 = select(eq(magnitude, like(x, 0)), like(x, -kInfinity), log2);
    log2 = select(eq(magnitude, like(x, kInfinity)), like(x, kInfinity), log2);

    // 2^t: what is beyond the range of f32 stays beyond it.
    ScalarExpr t = y * log2;
    t = select(gt(t, like(t, 300)), like(t, 300), t);
    t = select(lt(t, like(t, -300)), like(t, -300), t);
    ScalarExpr whole = roundEven(t), rest = (t - whole) * std::numbers::ln2;
    ScalarExpr fraction = polynomial(rest, {1, 1, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                            1.0 / 362880, 1.0 / 3628800});
    ScalarExpr exponent = convert(select(eq(whole, whole), whole, like(whole, 0)), i64) + constant(bits, i64, 1023);
    ScalarExpr result = fraction * bitsOf(combine<arith::ShLIOp>(exponent, constant(bits, i64, 52)), f64);
    result = select(eq(magnitude, like(x, 1)), like(x, 1), result); // also to the power of an infinity

    // A negative base has a power where that is an integer, an infinity and the largest numbers among them.
    ScalarExpr half = y * 0.5, isInteger = eq(y, floor(y)),
               isOdd = combine<arith::AndIOp>(isInteger, ne(half, floor(half)));
    ScalarExpr isNegative = x.with(arith::CmpIOp::create(rewriter, x.loc, arith::CmpIPredicate::slt,
                                                         bitsOf(x, i64).value, constant(bits, i64, 0).value));
    result = select(combine<arith::AndIOp>(isNegative, isOdd), -result, result);
    ScalarExpr hasNone =
        combine<arith::AndIOp>(combine<arith::AndIOp>(lt(x, like(x, 0)), gt(x, like(x, -kInfinity))), ne(y, floor(y)));
    result = select(hasNone, like(x, std::numeric_limits<double>::quiet_NaN()), result);
    result = select(ne(x, x), x, result);
    result = select(ne(y, y), y, result);
    ScalarExpr isOne = combine<arith::OrIOp>(eq(y, like(y, 0)), eq(x, like(x, 1)));
    rewriter.replaceOp(op, convert(select(isOne, like(x, 1), result), rewriter.getF32Type()).value);
    return success();
  }
};

/// The remainder of a division towards zero, exactly: multiples of y times a power of 2 are taken off, 26 bits of the
/// quotient at a time.
struct ExpandFmod : OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::RemFOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    Location loc = op.getLoc();
    Type i64 = rewriter.getI64Type(), f64 = rewriter.getF64Type();
    ScalarExpr x(rewriter, loc, op.getLhs()), y(rewriter, loc, op.getRhs());
    ScalarExpr dividend = abs(convert(x, f64)), divisor = abs(convert(y, f64));
    ScalarExpr isOrdinary =
        combine<arith::AndIOp>(lt(dividend, like(dividend, kInfinity)),
                               combine<arith::AndIOp>(gt(divisor, like(divisor, 0)), eq(divisor, divisor)));
    // Nothing to take off where it is not.
    ScalarExpr start = select(isOrdinary, dividend, like(dividend, 0));
    auto loop = scf::WhileOp::create(
        rewriter, loc, TypeRange{f64}, ValueRange{start.value},
        [&](OpBuilder &b, Location, ValueRange rest) {
          ScalarExpr r(b, loc, rest[0]);
          scf::ConditionOp::create(b, loc, ge(r, r.with(divisor.value)).value, rest);
        },
        [&](OpBuilder &b, Location, ValueRange rest) {
          ScalarExpr r(b, loc, rest[0]), d = r.with(divisor.value);
          auto exponentOf = [&](ScalarExpr value) {
            return combine<arith::ShRUIOp>(bitsOf(value, i64), constant(value, i64, 52));
          };
          ScalarExpr ahead = exponentOf(r) - exponentOf(d) - constant(r, i64, 26);
          ScalarExpr none = constant(r, i64, 0);
          ahead = select(gt(ahead, none), ahead, none);
          ScalarExpr scale = bitsOf(combine<arith::ShLIOp>(ahead + constant(r, i64, 1023), constant(r, i64, 52)), f64);
          ScalarExpr step = d * scale;
          ScalarExpr next = fma(-floor(r / step), step, r);
          // The quotient may have been rounded up to the next integer.
          next = select(lt(next, like(next, 0)), next + step, next);
          scf::YieldOp::create(b, loc, next.value);
        });
    ScalarExpr rest = convert(x.with(loop.getResult(0)), rewriter.getF32Type());
    rest = x.with(math::CopySignOp::create(rewriter, loc, rest.value, x.value));
    ScalarExpr none = select(ne(y, y), y, x - x) / like(x, 0.0); // NaN: of an infinite x, a NaN, or y = 0
    rewriter.replaceOp(op, select(isOrdinary, rest, none).value);
    return success();
  }
};

struct DeviceMath : PassWrapper<DeviceMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DeviceMath)

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandSinCos<math::SinOp>, ExpandSinCos<math::CosOp>, ExpandPow, ExpandFmod>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> mlir::scrimp::createDeviceMathPass() { return std::make_unique<DeviceMath>(); }
