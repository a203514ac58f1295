// The op table: ops that compute element by element, with NumPy's broadcasting made explicit.
#include "NodeBuilder.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

template <typename Op> LogicalResult unary(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return b.result(b.make<Op>(b.input(0)));
}

/// Ops that also take integers.
template <typename Op> LogicalResult unaryNumeric(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  return b.result(b.make<Op>(b.input(0)));
}

template <typename Op> LogicalResult binary(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({b.input(0), b.input(1)});
  if (failed(operands))
    return failure();
  return b.result(b.make<Op>((*operands)[0], (*operands)[1]));
}

/// Add, Sub, Mul and Div of i1 have no meaning in ONNX.
template <typename Op> LogicalResult arithmetic(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  if (tensorType(b.input(0)).getElementType().isInteger(1))
    return b.error() << "arithmetic on booleans is not supported";
  return binary<Op>(b);
}

/// torch's exporter adds a boolean mask as it is where attention has dropout (opset 23): it means 0 where it is true,
/// -inf elsewhere.
LogicalResult addition(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  Value scores = b.input(0), mask = b.input(1);
  if (!b.isFrom({"aten.scaled_dot_product_attention"}) || !isFloatTensor(scores) ||
      !tensorType(mask).getElementType().isInteger(1))
    return arithmetic<AddOp>(b);
  auto type = RankedTensorType::get(shapeOf(mask), tensorType(scores).getElementType());
  double infinity = std::numeric_limits<double>::infinity();
  mask = b.make<SelectOp>(mask, b.splat(type, 0), b.splat(type, -infinity));
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({scores, mask});
  if (failed(operands))
    return failure();
  return b.result(b.make<AddOp>((*operands)[0], (*operands)[1]));
}

template <Predicate predicate> LogicalResult compare(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({b.input(0), b.input(1)});
  if (failed(operands))
    return failure();
  return b.result(b.make<CompareOp>(predicate, (*operands)[0], (*operands)[1]));
}

template <typename Op> LogicalResult variadic(NodeBuilder &b) {
  if (failed(b.require(0, std::max(b.numInputs(), 1u))))
    return failure();
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether(b.allInputs());
  if (failed(operands))
    return failure();
  Value value = (*operands)[0];
  for (Value next : llvm::drop_begin(*operands))
    value = b.make<Op>(value, next);
  return b.result(value);
}

bool isAll(Value value, double number) {
  std::optional<HostTensor> constant = constantOf(value);
  return constant && constant->isFloat() && llvm::all_of(constant->floats(), [&](double x) { return x == number; });
}

/// Whether `value` is a sigmoid, or 1 less one.
bool isOfSigmoid(Value value) {
  while (isa_and_nonnull<AddOp, SubOp, NegOp>(value.getDefiningOp())) {
    Operation *op = value.getDefiningOp();
    value = constantOf(op->getOperand(0)) ? op->getOperands().back() : op->getOperand(0);
  }
  return static_cast<bool>(value.getDefiningOp<SigmoidOp>());
}

/// Max(log p, -100), as torch.binary_cross_entropy is written: its gradient divides by no less than 1e-12, so that p =
/// 0 has one. The logarithm of a sigmoid is raised, and never gets there.
Value clampedLog(NodeBuilder &b, LogOp log, Value bound) {
  RankedTensorType type = tensorType(log.getY());
  Value larger = b.make<MaximumOp>(log.getY(), b.broadcast(bound, type.getShape()));
  if (isOfSigmoid(log.getX()))
    return larger;
  Value isZero = b.make<CompareOp>(Predicate::eq, log.getX(), b.splat(type, 0));
  Value steep = b.make<SubOp>(b.make<MulOp>(log.getX(), b.splat(type, 1 / double(1e-12f))), b.splat(type, 100));
  return b.make<SelectOp>(isZero, steep, larger);
}

/// Max or Min. torch.clamp by a number is written so too: its gradient stops at the bound, where torch.maximum's is
/// shared. (torch.clamp by a tensor shares it.)
template <typename Op> LogicalResult extremum(NodeBuilder &b) {
  if (failed(b.require(0, b.numInputs())))
    return failure();
  if (std::is_same_v<Op, MaximumOp> && b.isFrom({"aten.maximum"}) && b.numInputs() == 2)
    if (auto log = b.input(0).getDefiningOp<LogOp>(); log && isAll(b.input(1), -100))
      return b.result(clampedLog(b, log, b.input(1)));
  if (b.isFrom({"aten.clamp"}) && b.numInputs() == 2 && isFloatTensor(b.input(0)) && constantOf(b.input(1)) &&
      shapeOf(b.input(1)).empty()) {
    double infinity = std::numeric_limits<double>::infinity();
    FailureOr<double> bound = b.constantScalar(1, "the bound");
    if (failed(bound))
      return failure();
    bool isLow = std::is_same_v<Op, MaximumOp>;
    return b.result(b.make<ClipOp>(tensorType(b.input(0)), b.input(0),
                                   b.builder.getF64FloatAttr(isLow ? *bound : -infinity),
                                   b.builder.getF64FloatAttr(isLow ? infinity : *bound)));
  }
  return variadic<Op>(b);
}

/// Whether the root is one that torch computes a norm or a deviation by. The latter it writes as the root of a
/// variance.
bool isOfNorm(NodeBuilder &b) {
  return b.isFrom({"aten.std", "aten.norm", "aten.linalg_", "aten.cdist", "aten._cdist", "aten.dist"}) ||
         b.isInputFrom(0, {"aten.var", "prims.var"});
}

LogicalResult sqrt(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  auto root = [&](Value x) { return b.make<SqrtOp>(x); };
  return b.result(isOfNorm(b) ? b.rootOfSum(b.input(0), root) : root(b.input(0)));
}

LogicalResult mean(NodeBuilder &b) {
  if (failed(variadic<AddOp>(b)))
    return failure();
  Value sum = b.graph.values[b.node.outputs[0]];
  return b.result(b.make<DivOp>(sum, b.splat(tensorType(sum), b.numInputs())));
}

LogicalResult logicalNot(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  return b.result(b.make<XorOp>(b.input(0), b.splat(tensorType(b.input(0)), 1)));
}

LogicalResult pow(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  if (!isFloatTensor(b.input(0))) { // a result of integers, computed in doubles
    Type wide = b.builder.getF64Type();
    FailureOr<SmallVector<Value>> operands = b.broadcastTogether({b.cast(b.input(0), wide), b.cast(b.input(1), wide)});
    if (failed(operands))
      return failure();
    Value power = b.make<PowOp>((*operands)[0], (*operands)[1]);
    return b.result(b.cast(power, tensorType(b.input(0)).getElementType()));
  }
  Type type = tensorType(b.input(0)).getElementType();
  Value exponent = b.cast(b.input(1), type);
  // Squares are a product: exact derivative, no logarithm, and what frameworks compute.
  std::optional<HostTensor> constant = constantOf(exponent);
  bool uniform = constant && constant->size() > 0;
  for (int64_t i = 1; uniform && i < constant->size(); ++i)
    uniform = constant->floats()[i] == constant->floats()[0];
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({b.input(0), exponent});
  if (failed(operands))
    return failure();
  Value x = (*operands)[0];
  if (uniform) {
    double power = constant->floats()[0];
    if (power == 1)
      return b.result(x);
    if (power == 2)
      return b.result(b.make<MulOp>(x, x));
    if (power == 3)
      return b.result(b.make<MulOp>(b.make<MulOp>(x, x), x));
    if (power > 0 && power < 1 && isOfNorm(b))
      return b.result(b.rootOfSum(x, [&](Value sum) { return b.make<PowOp>(sum, (*operands)[1]); }));
    if (power == 0.5)
      return b.result(b.make<SqrtOp>(x));
  }
  return b.result(b.make<PowOp>(x, (*operands)[1]));
}

LogicalResult reciprocal(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return b.result(b.make<DivOp>(b.splat(tensorType(b.input(0)), 1), b.input(0)));
}

LogicalResult mod(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({b.input(0), b.input(1)});
  if (failed(operands))
    return failure();
  Value x = (*operands)[0], y = (*operands)[1];
  Value remainder = b.make<RemainderOp>(x, y);
  if (b.intAttr("fmod", 0))
    return b.result(remainder);
  // The sign of the divisor: add it where the remainder is not zero and has the other sign.
  Value zero = b.splat(tensorType(x), 0);
  Value differs =
      b.make<XorOp>(b.make<CompareOp>(Predicate::lt, remainder, zero), b.make<CompareOp>(Predicate::lt, y, zero));
  Value nonZero = b.make<CompareOp>(Predicate::ne, remainder, zero);
  return b.result(b.make<SelectOp>(b.make<AndOp>(differs, nonZero), b.make<AddOp>(remainder, y), remainder));
}

LogicalResult where(NodeBuilder &b) {
  if (failed(b.require(0, 3)))
    return failure();
  FailureOr<SmallVector<int64_t>> shape = b.commonShape({b.input(0), b.input(1), b.input(2)});
  if (failed(shape))
    return failure();
  if (tensorType(b.input(1)).getElementType() != tensorType(b.input(2)).getElementType())
    return b.error() << "the branches' types differ: " << tensorType(b.input(1)).getElementType() << " and "
                     << tensorType(b.input(2)).getElementType();
  if (!tensorType(b.input(0)).getElementType().isInteger(1))
    return b.error() << "the condition is " << tensorType(b.input(0)).getElementType() << ", expected bool";
  return b.result(b.make<SelectOp>(b.broadcast(b.input(0), *shape), b.broadcast(b.input(1), *shape),
                                   b.broadcast(b.input(2), *shape)));
}

/// The cast of input 0. What is too large for the type becomes infinite, as ONNX says; of constants that is told.
LogicalResult castTo(NodeBuilder &b, Type type) {
  Value x = b.input(0), y = b.cast(x, type);
  std::optional<HostTensor> before, after;
  if (isFloatTensor(x) && isa<FloatType>(type) && x != y) {
    before = constantOf(x);
    after = constantOf(y);
  }
  int64_t count = 0;
  if (before && after)
    for (auto [wide, narrow] : llvm::zip(before->floats(), after->floats()))
      count += std::isinf(narrow) && !std::isinf(wide);
  if (count)
    b.graph.notes.push_back((Twine(count) + " of the " + Twine(before->size()) + " values of '" + b.node.inputs[0] +
                             "' are too large for the type that node '" + b.node.displayName() +
                             "' casts them to, and become infinite")
                                .str());
  return b.result(y);
}

LogicalResult cast(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  b.pass("saturate"); // of eight-bit floats
  Type type = elementTypeOf(b.intAttr("to", 0), b.graph.context);
  if (!type)
    return b.error() << "a cast to " << dataTypeName(b.intAttr("to", 0)) << " is not supported";
  // torch has these for f32 alone, and rounds a double on the way in.
  if (type.isF32() && tensorType(b.input(0)).getElementType().isF64() &&
      b.isFrom({"aten.celu", "aten.isinf", "aten.isposinf", "aten.isneginf"}))
    return b.result(b.input(0));
  return castTo(b, b.graph.widen(type));
}

LogicalResult castLike(NodeBuilder &b) {
  if (failed(b.require(0, 2)))
    return failure();
  b.pass("saturate");
  return castTo(b, tensorType(b.input(1)).getElementType());
}

LogicalResult identity(NodeBuilder &b) {
  if (b.has(0) && b.graph.sequences.count(b.node.inputs[0])) {
    b.graph.sequences[b.node.outputs[0]] = b.graph.sequences[b.node.inputs[0]];
    return success();
  }
  if (failed(b.require(0, 1)))
    return failure();
  return b.result(b.input(0));
}

LogicalResult isNan(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return b.result(b.make<CompareOp>(Predicate::ne, b.input(0), b.input(0)));
}

LogicalResult isInf(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  double infinity = std::numeric_limits<double>::infinity();
  Value result = b.splat(boolLike(tensorType(x)), 0);
  if (b.intAttr("detect_positive", 1))
    result = b.make<OrOp>(result, b.make<CompareOp>(Predicate::eq, x, b.splat(tensorType(x), infinity)));
  if (b.intAttr("detect_negative", 1))
    result = b.make<OrOp>(result, b.make<CompareOp>(Predicate::eq, x, b.splat(tensorType(x), -infinity)));
  return b.result(result);
}

/// Bounds are inputs since opset 11; a bound that is data is a maximum or minimum.
LogicalResult clip(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  Value x = b.input(0);
  double infinity = std::numeric_limits<double>::infinity();
  if (isFloatTensor(x) && (!b.has(1) || constantOf(b.input(1))) && (!b.has(2) || constantOf(b.input(2)))) {
    double low = -infinity, high = infinity;
    for (auto [index, bound] : {std::pair<unsigned, double *>{1, &low}, {2, &high}})
      if (b.has(index)) {
        FailureOr<double> value = b.constantScalar(index, index == 1 ? "min" : "max");
        if (failed(value))
          return failure();
        *bound = *value;
      }
    return b.result(b.make<ClipOp>(tensorType(x), x, b.builder.getF64FloatAttr(low), b.builder.getF64FloatAttr(high),
                                   b.node.straightThrough ? b.builder.getUnitAttr() : UnitAttr()));
  }
  if (b.has(1))
    x = b.make<MaximumOp>(x, b.broadcast(b.input(1), shapeOf(x)));
  if (b.has(2))
    x = b.make<MinimumOp>(x, b.broadcast(b.input(2), shapeOf(x)));
  return b.result(x);
}

LogicalResult leakyRelu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  return b.result(b.make<LeakyReluOp>(tensorType(x), x, b.builder.getF64FloatAttr(b.floatAttr("alpha", 0.01))));
}

LogicalResult elu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  return b.result(b.make<EluOp>(tensorType(x), x, b.builder.getF64FloatAttr(b.floatAttr("alpha", 1.0))));
}

/// max(0, x) + min(0, alpha (e^(x / alpha) - 1)).
LogicalResult celu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0), alpha = b.splat(tensorType(x), b.floatAttr("alpha", 1.0));
  Value y = b.make<EluOp>(tensorType(x), b.make<DivOp>(x, alpha), b.builder.getF64FloatAttr(1));
  return b.result(b.make<MulOp>(y, alpha));
}

/// An attribute of f32; the double that torch means where it is that one's rounding.
double exactAttr(NodeBuilder &b, StringRef name, double fallback, double meant) {
  double value = b.floatAttr(name, fallback);
  return value == static_cast<float>(meant) ? meant : value;
}

LogicalResult selu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  Value y = b.make<EluOp>(tensorType(x), x,
                          b.builder.getF64FloatAttr(exactAttr(b, "alpha", 1.6732632423543772f, 1.6732632423543772)));
  return b.result(
      b.make<MulOp>(y, b.splat(tensorType(x), exactAttr(b, "gamma", 1.0507009873554805f, 1.0507009873554805))));
}

/// max(0, x) + slope * min(0, x), the slope broadcast.
LogicalResult prelu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireFloat(1)))
    return failure();
  Value x = b.input(0), zero = b.splat(tensorType(x), 0);
  FailureOr<SmallVector<Value>> operands = b.broadcastTogether({x, b.input(1)});
  if (failed(operands))
    return failure();
  return b.result(b.make<SelectOp>(b.make<CompareOp>(Predicate::gt, x, zero), x, b.make<MulOp>(x, (*operands)[1])));
}

LogicalResult hardSigmoid(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  bool swish = b.node.type == "HardSwish";
  Value x = b.input(0);
  double alpha = swish ? 1.0 / 6 : exactAttr(b, "alpha", 0.2, 1.0 / 6), beta = b.floatAttr("beta", 0.5);
  Value y = b.make<AddOp>(b.make<MulOp>(x, b.splat(tensorType(x), alpha)), b.splat(tensorType(x), beta));
  y = b.make<ClipOp>(tensorType(x), y, b.builder.getF64FloatAttr(0), b.builder.getF64FloatAttr(1));
  return b.result(swish ? b.make<MulOp>(x, y) : y);
}

LogicalResult softsign(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  return b.result(b.make<DivOp>(x, b.make<AddOp>(b.make<AbsOp>(x), b.splat(tensorType(x), 1))));
}

LogicalResult mish(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  return b.result(b.make<MulOp>(x, b.make<TanhOp>(b.make<SoftplusOp>(x))));
}

LogicalResult gelu(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  std::string approximate = b.stringAttr("approximate", "none");
  if (approximate == "tanh")
    return b.result(b.make<GeluTanhOp>(b.input(0)));
  if (approximate != "none")
    return b.error() << "approximate is '" << approximate << "', expected none or tanh";
  return b.result(b.make<GeluOp>(b.input(0)));
}

LogicalResult tan(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return b.result(b.make<DivOp>(b.make<SinOp>(b.input(0)), b.make<CosOp>(b.input(0))));
}

const OpEntry kOps[] = {
    {"Add", "", 7, 0, addition},
    {"Sub", "", 7, 0, arithmetic<SubOp>},
    {"Mul", "", 7, 0, arithmetic<MulOp>},
    {"Div", "", 7, 0, arithmetic<DivOp>},
    {"Pow", "", 7, 0, pow},
    {"Mod", "", 10, 0, mod},
    {"Max", "", 8, 0, extremum<MaximumOp>},
    {"Min", "", 8, 0, extremum<MinimumOp>},
    {"Sum", "", 8, 0, variadic<AddOp>},
    {"Mean", "", 8, 0, mean},
    {"Neg", "", 6, 0, unaryNumeric<NegOp>},
    {"Abs", "", 6, 0, unaryNumeric<AbsOp>},
    {"Sign", "", 9, 0, unaryNumeric<SignOp>},
    {"Reciprocal", "", 6, 0, reciprocal},
    {"Exp", "", 6, 0, unary<ExpOp>},
    {"Log", "", 6, 0, unary<LogOp>},
    {"Sqrt", "", 6, 0, sqrt},
    {"Sin", "", 7, 0, unary<SinOp>},
    {"Cos", "", 7, 0, unary<CosOp>},
    {"Tan", "", 7, 0, tan},
    {"Erf", "", 9, 0, unary<ErfOp>},
    {"Floor", "", 6, 0, unary<FloorOp>},
    {"Ceil", "", 6, 0, unary<CeilOp>},
    {"Round", "", 11, 0, unary<RoundOp>},
    {"Tanh", "", 6, 0, unary<TanhOp>},
    {"Sigmoid", "", 6, 0, unary<SigmoidOp>},
    {"Relu", "", 6, 0, unary<ReluOp>},
    {"Softplus", "", 1, 0, unary<SoftplusOp>},
    {"Softsign", "", 1, 0, softsign},
    {"LeakyRelu", "", 6, 0, leakyRelu},
    {"Elu", "", 6, 0, elu},
    {"Celu", "", 12, 0, celu},
    {"Selu", "", 6, 0, selu},
    {"PRelu", "", 7, 0, prelu},
    {"HardSigmoid", "", 6, 0, hardSigmoid},
    {"HardSwish", "", 14, 0, hardSigmoid},
    {"Mish", "", 18, 0, mish},
    {"Gelu", "", 20, 0, gelu},
    {"Clip", "", 11, 0, clip},
    {"And", "", 7, 0, binary<AndOp>},
    {"Or", "", 7, 0, binary<OrOp>},
    {"Xor", "", 7, 0, binary<XorOp>},
    {"BitwiseAnd", "", 18, 0, binary<AndOp>},
    {"BitwiseOr", "", 18, 0, binary<OrOp>},
    {"BitwiseXor", "", 18, 0, binary<XorOp>},
    {"Not", "", 1, 0, logicalNot},
    {"Equal", "", 7, 0, compare<Predicate::eq>},
    {"Less", "", 7, 0, compare<Predicate::lt>},
    {"LessOrEqual", "", 12, 0, compare<Predicate::le>},
    {"Greater", "", 7, 0, compare<Predicate::gt>},
    {"GreaterOrEqual", "", 12, 0, compare<Predicate::ge>},
    {"IsNaN", "", 9, 0, isNan},
    {"IsInf", "", 10, 0, isInf},
    {"Where", "", 9, 0, where},
    {"Cast", "", 9, 0, cast},
    {"CastLike", "", 15, 0, castLike},
    {"Identity", "", 1, 0, identity},
};

} // namespace

ArrayRef<OpEntry> onnx_import::elementwiseOps() { return kOps; }
