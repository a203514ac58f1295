// Elementwise ops in random graphs. Operands are brought to where the op's value and derivative are moderate.
#include "GraphBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;

template <typename Op, int in, int out> static void unary(GraphBuilder &b, Node x) {
  x = b.within(x, in);
  b.add(b.make<Op>(x.value), x, out);
}

/// Of an operand in [.5, 4.5].
template <typename Op, int out> static void ofPositive(GraphBuilder &b, Node x) {
  x = b.positive(x);
  b.add(b.make<Op>(x.value), x, out);
}

template <typename Op> static void sum(GraphBuilder &b, Node x) {
  Node y = b.partner(x);
  bool turned = b.chance(.5);
  b.add(b.make<Op>(turned ? y.value : x.value, turned ? x.value : y.value), x, x.bound + y.bound);
}

template <typename Op> static void extreme(GraphBuilder &b, Node x) {
  Node y = b.partner(x);
  b.add(b.make<Op>(x.value, y.value), x, std::max(x.bound, y.bound));
}

static void product(GraphBuilder &b, Node x) {
  x = b.within(x, 4);
  Node y = b.within(b.partner(x), 4);
  b.add(b.make<MulOp>(x.value, y.value), x, x.bound * y.bound);
}

static void quotient(GraphBuilder &b, Node x) {
  Node y = b.positive(b.partner(x));
  b.add(b.make<DivOp>(x.value, y.value), x, 2 * x.bound);
}

static void power(GraphBuilder &b, Node x) {
  x = b.positive(x);
  Node y = b.within(b.partner(x), 2);
  b.add(b.make<PowOp>(x.value, y.value), x, 20);
}

static void addRemainder(GraphBuilder &b, Node x) {
  Node y = b.positive(b.partner(x));
  b.add(b.make<RemainderOp>(x.value, y.value), x, y.bound);
}

static Value condition(GraphBuilder &b, Value x, Value y) {
  static const Predicate predicates[] = {Predicate::lt, Predicate::le, Predicate::gt, Predicate::ge, Predicate::ne};
  return b.make<CompareOp>(predicates[b.pick(5)], x, y);
}

static void addSelect(GraphBuilder &b, Node x) {
  Node y = b.partner(x);
  Value choice = condition(b, x.value, b.partner(x).value);
  if (b.chance(.5)) {
    Value other = condition(b, y.value, b.partner(x).value);
    switch (b.pick(3)) {
    case 0:
      choice = b.make<AndOp>(choice, other);
      break;
    case 1:
      choice = b.make<OrOp>(choice, other);
      break;
    default:
      choice = b.make<XorOp>(choice, other);
    }
  }
  b.add(b.make<SelectOp>(choice, x.value, y.value), x, std::max(x.bound, y.bound));
}

/// By position: along samples too.
static void mask(GraphBuilder &b, Node x) {
  ArrayRef<int64_t> shape = shapeOf(x.value);
  if (shape.empty())
    return product(b, x);
  int64_t dim = b.pick(shape.size());
  auto positions = b.integers(shape);
  Value place = IotaOp::create(b.builder, b.location("iota"), positions, dim, APFloat(0.0), APFloat(1.0));
  Value bound = b.splat(positions, b.pick(shape[dim] + 1));
  Value keep = condition(b, place, bound);
  Node y = b.partner(x);
  b.add(b.make<SelectOp>(keep, x.value, y.value), x, std::max(x.bound, y.bound));
}

static void addCast(GraphBuilder &b, Node x) {
  auto wide = tensorType(x.value);
  Type narrow = b.chance(.5) ? Type(b.builder.getBF16Type()) : Type(b.builder.getF32Type());
  // To integers and back: no gradient passes. Those of a parameter in 16 bits would be added up there.
  if (x.dim < 0 || b.chance(.2))
    narrow = b.builder.getI32Type();
  if (narrow == b.type)
    narrow = b.builder.getF64Type();
  Value low = b.make<CastOp>(wide.clone(narrow), x.value);
  Value back = b.make<CastOp>(wide, low);
  if (isa<IntegerType>(narrow))
    back = b.make<SubOp>(x.value, back);
  b.add(back, x, x.bound + 1);
}

static void clip(GraphBuilder &b, Node x) {
  double low = b.number(-1, 0), high = b.number(0, 1);
  b.add(b.make<ClipOp>(x.value.getType(), x.value, b.builder.getF64FloatAttr(low), b.builder.getF64FloatAttr(high),
                       b.chance(.3) ? b.builder.getUnitAttr() : UnitAttr()),
        x, 1);
}

template <typename Op> static void withAlpha(GraphBuilder &b, Node x) {
  x = b.within(x, 8);
  b.add(b.make<Op>(x.value.getType(), x.value, b.builder.getF64FloatAttr(b.number(.1, 1.5))), x, 1.5 * x.bound);
}

/// To whole numbers and back: x minus that has a gradient.
template <typename Op> static void whole(GraphBuilder &b, Node x) {
  Value y = b.make<Op>(x.value);
  b.add(b.chance(.5) ? b.make<SubOp>(x.value, y).getResult() : b.make<MulOp>(b.within(x, 3).value, y).getResult(), x,
        3 * (x.bound + 1));
}

ArrayRef<Entry> mlir::scrimp::elementwiseEntries() {
  static const Entry entries[] = {
      {"add", sum<AddOp>, 3},
      {"sub", sum<SubOp>, 2},
      {"mul", product, 3},
      {"div", quotient},
      {"maximum", extreme<MaximumOp>},
      {"minimum", extreme<MinimumOp>},
      {"remainder", addRemainder, .5},
      {"pow", power, .5},
      {"neg", unary<NegOp, 100, 100>, .5},
      {"abs", unary<AbsOp, 100, 100>, .5},
      {"sign", whole<SignOp>, .5},
      {"exp", unary<ExpOp, 2, 8>},
      {"log", ofPositive<LogOp, 2>},
      {"expm1", unary<Expm1Op, 2, 8>, .5},
      {"log1p", ofPositive<Log1pOp, 2>, .5},
      {"sqrt", ofPositive<SqrtOp, 3>, .5},
      {"rsqrt", ofPositive<RsqrtOp, 2>, .5},
      {"sin", unary<SinOp, 8, 1>, .5},
      {"cos", unary<CosOp, 8, 1>, .5},
      {"erf", unary<ErfOp, 3, 1>, .5},
      {"floor", whole<FloorOp>, .3},
      {"ceil", whole<CeilOp>, .3},
      {"round", whole<RoundOp>, .3},
      {"tanh", unary<TanhOp, 4, 1>, 2},
      {"sigmoid", unary<SigmoidOp, 8, 1>},
      {"relu", unary<ReluOp, 100, 100>, 2},
      {"silu", unary<SiluOp, 8, 8>},
      {"gelu", unary<GeluOp, 8, 8>, 2},
      {"gelu_tanh", unary<GeluTanhOp, 8, 8>},
      {"softplus", unary<SoftplusOp, 8, 9>, .5},
      {"select", addSelect},
      {"cast", addCast},
      {"clip", clip, .5},
      {"leaky_relu", withAlpha<LeakyReluOp>, .5},
      {"elu", withAlpha<EluOp>, .5},
      {"mask by position", mask},
  };
  return entries;
}
