#include "scrimp/Codegen/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

static bool isFloat(ScalarExpr x) { return isa<FloatType>(x.value.getType()); }

template <typename FloatOp, typename IntOp>
static ScalarExpr binary(ScalarExpr a, ScalarExpr b) {
  if (isFloat(a))
    return a.with(FloatOp::create(*a.builder, a.loc, a.value, b.value));
  return a.with(IntOp::create(*a.builder, a.loc, a.value, b.value));
}

template <typename Op>
static ScalarExpr unary(ScalarExpr x) {
  return x.with(Op::create(*x.builder, x.loc, x.value));
}

ScalarExpr mlir::scrimp::operator+(ScalarExpr a, ScalarExpr b) { return binary<arith::AddFOp, arith::AddIOp>(a, b); }
ScalarExpr mlir::scrimp::operator-(ScalarExpr a, ScalarExpr b) { return binary<arith::SubFOp, arith::SubIOp>(a, b); }
ScalarExpr mlir::scrimp::operator*(ScalarExpr a, ScalarExpr b) { return binary<arith::MulFOp, arith::MulIOp>(a, b); }

/// A divisor of `a` with which neither division nor remainder traps: 1 where `b` is 0, and where the quotient overflows
/// (the least integer by -1, which is the least integer again).
static ScalarExpr safeDivisor(ScalarExpr a, ScalarExpr b) {
  unsigned width = b.value.getType().getIntOrFloatBitWidth();
  ScalarExpr least = a.constant(-std::ldexp(1.0, width - 1)), one = b.constant(1);
  ScalarExpr overflows =
      a.with(arith::AndIOp::create(*a.builder, a.loc, eq(a, least).value, eq(b, b.constant(-1)).value));
  return select(eq(b, b.constant(0)), one, select(overflows, one, b));
}

ScalarExpr mlir::scrimp::operator/(ScalarExpr a, ScalarExpr b) {
  if (isFloat(a))
    return a.with(arith::DivFOp::create(*a.builder, a.loc, a.value, b.value));
  return a.with(arith::DivSIOp::create(*a.builder, a.loc, a.value, safeDivisor(a, b).value));
}

ScalarExpr mlir::scrimp::operator-(ScalarExpr a) {
  if (isFloat(a))
    return unary<arith::NegFOp>(a);
  return a.constant(0) - a;
}

static ScalarExpr compare(ScalarExpr a, ScalarExpr b, arith::CmpFPredicate floatPredicate,
                          arith::CmpIPredicate intPredicate) {
  if (isFloat(a))
    return a.with(arith::CmpFOp::create(*a.builder, a.loc, floatPredicate, a.value, b.value));
  return a.with(arith::CmpIOp::create(*a.builder, a.loc, intPredicate, a.value, b.value));
}

// i1 values compare as unsigned: false < true.
static arith::CmpIPredicate order(ScalarExpr a, arith::CmpIPredicate isSigned, arith::CmpIPredicate isUnsigned) {
  return a.value.getType().isInteger(1) ? isUnsigned : isSigned;
}

ScalarExpr mlir::scrimp::eq(ScalarExpr a, ScalarExpr b) {
  return compare(a, b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq);
}
ScalarExpr mlir::scrimp::ne(ScalarExpr a, ScalarExpr b) {
  return compare(a, b, arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne);
}
ScalarExpr mlir::scrimp::lt(ScalarExpr a, ScalarExpr b) {
  return compare(a, b, arith::CmpFPredicate::OLT, order(a, arith::CmpIPredicate::slt, arith::CmpIPredicate::ult));
}
ScalarExpr mlir::scrimp::le(ScalarExpr a, ScalarExpr b) {
  return compare(a, b, arith::CmpFPredicate::OLE, order(a, arith::CmpIPredicate::sle, arith::CmpIPredicate::ule));
}
ScalarExpr mlir::scrimp::gt(ScalarExpr a, ScalarExpr b) { return lt(b, a); }
ScalarExpr mlir::scrimp::ge(ScalarExpr a, ScalarExpr b) { return le(b, a); }

ScalarExpr mlir::scrimp::select(ScalarExpr condition, ScalarExpr a, ScalarExpr b) {
  return a.with(arith::SelectOp::create(*a.builder, a.loc, condition.value, a.value, b.value));
}

ScalarExpr mlir::scrimp::maximum(ScalarExpr a, ScalarExpr b) {
  return binary<arith::MaximumFOp, arith::MaxSIOp>(a, b);
}
ScalarExpr mlir::scrimp::minimum(ScalarExpr a, ScalarExpr b) { return binary<arith::MinimumFOp, arith::MinSIOp>(a, b); }

ScalarExpr mlir::scrimp::remainder(ScalarExpr a, ScalarExpr b) {
  if (isFloat(a))
    return a.with(arith::RemFOp::create(*a.builder, a.loc, a.value, b.value));
  return a.with(arith::RemSIOp::create(*a.builder, a.loc, a.value, safeDivisor(a, b).value));
}

ScalarExpr mlir::scrimp::pow(ScalarExpr a, ScalarExpr b) {
  return a.with(math::PowFOp::create(*a.builder, a.loc, a.value, b.value));
}
ScalarExpr mlir::scrimp::exp(ScalarExpr x) { return unary<math::ExpOp>(x); }
ScalarExpr mlir::scrimp::log(ScalarExpr x) { return unary<math::LogOp>(x); }
ScalarExpr mlir::scrimp::expm1(ScalarExpr x) { return unary<math::ExpM1Op>(x); }
ScalarExpr mlir::scrimp::log1p(ScalarExpr x) { return unary<math::Log1pOp>(x); }
ScalarExpr mlir::scrimp::sqrt(ScalarExpr x) { return unary<math::SqrtOp>(x); }
ScalarExpr mlir::scrimp::tanh(ScalarExpr x) { return unary<math::TanhOp>(x); }
ScalarExpr mlir::scrimp::erf(ScalarExpr x) { return unary<math::ErfOp>(x); }
ScalarExpr mlir::scrimp::sin(ScalarExpr x) { return unary<math::SinOp>(x); }
ScalarExpr mlir::scrimp::cos(ScalarExpr x) { return unary<math::CosOp>(x); }
ScalarExpr mlir::scrimp::floor(ScalarExpr x) { return unary<math::FloorOp>(x); }
ScalarExpr mlir::scrimp::ceil(ScalarExpr x) { return unary<math::CeilOp>(x); }
ScalarExpr mlir::scrimp::roundEven(ScalarExpr x) { return unary<math::RoundEvenOp>(x); }
ScalarExpr mlir::scrimp::abs(ScalarExpr x) {
  return isFloat(x) ? unary<math::AbsFOp>(x) : unary<math::AbsIOp>(x);
}

double mlir::scrimp::maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double mlir::scrimp::minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double mlir::scrimp::remainder(double a, double b) { return std::fmod(a, b); }
double mlir::scrimp::roundEven(double x) { return std::nearbyint(x); }
double mlir::scrimp::exp(double x) { return std::exp(x); }
double mlir::scrimp::log(double x) { return std::log(x); }
double mlir::scrimp::expm1(double x) { return std::expm1(x); }
double mlir::scrimp::log1p(double x) { return std::log1p(x); }
double mlir::scrimp::sqrt(double x) { return std::sqrt(x); }
double mlir::scrimp::tanh(double x) { return std::tanh(x); }
double mlir::scrimp::erf(double x) { return std::erf(x); }
double mlir::scrimp::sin(double x) { return std::sin(x); }
double mlir::scrimp::cos(double x) { return std::cos(x); }
double mlir::scrimp::floor(double x) { return std::floor(x); }
double mlir::scrimp::ceil(double x) { return std::ceil(x); }
double mlir::scrimp::abs(double x) { return std::fabs(x); }
double mlir::scrimp::pow(double a, double b) { return std::pow(a, b); }
