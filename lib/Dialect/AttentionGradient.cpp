// The gradient of attention: by the ops that compute it without a tensor of scores, or where they do not (through lse)
// from ordinary ones.
#include "AttentionOps.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

namespace {
/// The gradient with the scores as a tensor, in the wide type: of everything, the mask and lse included.
class ExplicitGradient {
public:
  ExplicitGradient(OpBuilder &builder, AttentionOp op)
      : builder(builder), loc(op.getLoc()), op(op), s(attentionShape(op)), full{s.B, s.Hq, s.Sq, s.Sk} {}

  void build(ArrayRef<Value> resultGrads, ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
    Value q = wide(op.getQ()), k = spreadHeads(wide(op.getK())), v = spreadHeads(wide(op.getV()));
    double scale = op.getScale().convertToDouble();
    GraphExpr scores = scale * expr(MatmulOp::create(builder, loc, q, k, false, true));
    for (Value mask : op.getMasks())
      if (isFloatTensor(mask))
        scores = scores + expr(wide(spreadMask(mask)));
    GraphExpr p = exp(scores - spreadRows(op.getLse()));
    for (Value sees : visibility())
      p = select(expr(sees), p, like(p, 0));
    GraphExpr ds = like(p, 0), delta = like(expr(op.getLse()), 0);
    if (resultGrads[0]) {
      GraphExpr g = expr(wide(resultGrads[0]));
      ds = expr(dropped(MatmulOp::create(builder, loc, g.value, v, false, true)));
      delta = expr(ReduceOp::create(builder, loc, ReduceKind::sum, (g * expr(wide(op.getOut()))).value, {3}));
      if (needed[2])
        operandGrads[2] = sumHeads(MatmulOp::create(builder, loc, dropped(p.value), g.value, true, false), op.getV());
    }
    if (resultGrads[1])
      delta = delta - expr(resultGrads[1]);
    ds = p * (ds - spreadRows(delta.value));
    for (auto [n, mask] : llvm::enumerate(op.getMasks()))
      if (isFloatTensor(mask) && needed[3 + n])
        operandGrads[3 + n] = sumMask(ds.value, mask);
    Value scaled = (scale * ds).value;
    if (needed[0])
      operandGrads[0] = narrow(MatmulOp::create(builder, loc, scaled, k), op.getQ());
    if (needed[1])
      operandGrads[1] = sumHeads(MatmulOp::create(builder, loc, scaled, q, true, false), op.getK());
  }

private:
  GraphExpr expr(Value value) { return GraphExpr(builder, loc, value); }
  Value cast(Value value, Type element) {
    RankedTensorType type = tensorType(value).clone(element);
    return type == value.getType() ? value : CastOp::create(builder, loc, type, value).getResult();
  }
  Value wide(Value value) { return cast(value, tensorType(op.getLse()).getElementType()); }
  Value narrow(Value value, Value like) { return cast(value, tensorType(like).getElementType()); }

  /// `value`, of the scores' shape, dropped out as the probabilities are.
  Value dropped(Value value) {
    if (!op.getSeed())
      return value;
    Value origin;
    DenseI64ArrayAttr whole;
    int64_t samples = op.getSamples().value_or(1);
    if (op.getOrigin()) {
      RankedTensorType type = RankedTensorType::get({4}, builder.getI64Type());
      origin =
          PadOp::create(builder, loc, type, op.getOrigin(), ArrayRef<int64_t>{1}, ArrayRef<int64_t>{1}, APFloat(0.0));
      SmallVector<int64_t> sample = wholeScores(op);
      sample.insert(sample.begin(), s.B / samples);
      whole = builder.getDenseI64ArrayAttr(sample);
    }
    return DropoutOp::create(builder, loc, value.getType(), value, op.getSeed(), op.getStep(), op.getSampleBase(),
                             origin, op.getKeyAttr(), builder.getI64IntegerAttr(op.getSamples() ? 0 : -1),
                             builder.getI64IntegerAttr(samples), whole, op.getPAttr());
  }

  /// Element `d` of the origin, as often as there are scores.
  GraphExpr originOf(int64_t d) {
    RankedTensorType type = RankedTensorType::get({1}, builder.getI64Type());
    Value element = SliceOp::create(builder, loc, type, op.getOrigin(), ArrayRef<int64_t>{d}, ArrayRef<int64_t>{1});
    return expr(broadcastTo(builder, loc, reshapeTo(builder, loc, element, {1, 1, 1, 1}), full));
  }

  /// [B,Hq,Sq] along the keys.
  GraphExpr spreadRows(Value value) {
    return expr(broadcastTo(builder, loc, reshapeTo(builder, loc, value, {s.B, s.Hq, s.Sq, 1}), full));
  }
  /// [B,Hkv,S,D] -> [B,Hq,S,D], each head for its group of query heads; and the sum over the groups.
  Value spreadHeads(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    int64_t group = s.Hq / s.Hkv, length = shape[2], width = shape[3];
    Value split = reshapeTo(builder, loc, value, {s.B, s.Hkv, 1, length, width});
    return reshapeTo(builder, loc, broadcastTo(builder, loc, split, {s.B, s.Hkv, group, length, width}),
                     {s.B, s.Hq, length, width});
  }
  Value sumHeads(Value value, Value like) {
    ArrayRef<int64_t> shape = shapeOf(like);
    Value split = reshapeTo(builder, loc, value, {s.B, s.Hkv, s.Hq / s.Hkv, shape[2], shape[3]});
    return narrow(ReduceOp::create(builder, loc, ReduceKind::sum, split, {2}), like);
  }

  /// A mask in the scores' shape, and the gradient of that summed to the mask's.
  Value spreadMask(Value mask) {
    if (shapeOf(mask).size() == 4)
      return broadcastTo(builder, loc, mask, full);
    return broadcastTo(builder, loc, GatherOp::create(builder, loc, mask, distances(), 1), full);
  }
  Value sumMask(Value gradient, Value mask) {
    if (shapeOf(mask).size() == 4)
      return narrow(sumTo(builder, loc, gradient, shapeOf(mask)), mask);
    auto gather = GatherOp::create(builder, loc, mask, distances(), 1);
    Value spread = narrow(sumTo(builder, loc, gradient, shapeOf(gather)), mask), grads[2];
    cast<DifferentiableOp>(gather.getOperation()).buildGradient(builder, {spread}, {true, false}, grads);
    gather.erase();
    return grads[0];
  }
  /// j - i + Sq - 1 for [Sq,Sk].
  Value distances() {
    auto type = RankedTensorType::get({s.Sq, s.Sk}, builder.getI64Type());
    Value i = IotaOp::create(builder, loc, type, 0, APFloat(1.0 - s.Sq), APFloat(1.0));
    Value j = IotaOp::create(builder, loc, type, 1, APFloat(0.0), APFloat(1.0));
    return SubOp::create(builder, loc, j, i);
  }

  /// Conditions of the scores' shape, all of which hold where a key is seen.
  SmallVector<Value> visibility() {
    SmallVector<Value> conditions;
    auto index = [&](int64_t dim, double start) {
      auto type = RankedTensorType::get(full, builder.getI64Type());
      return expr(IotaOp::create(builder, loc, type, dim, APFloat(start), APFloat(1.0)));
    };
    auto [left, right] = op.getReach();
    if (std::min(left, right) != AttentionOp::kUnbounded) {
      SmallVector<int64_t> whole = wholeScores(op);
      GraphExpr query = index(2, static_cast<double>(whole[2] - whole[1])), key = index(3, 0);
      if (op.getOrigin()) {
        query = query + originOf(1);
        key = key + originOf(2);
      }
      auto shifted = [&](int64_t by) { return by ? query + static_cast<double>(by) : query; };
      if (right != AttentionOp::kUnbounded)
        conditions.push_back(le(key, shifted(right)).value);
      if (left != AttentionOp::kUnbounded)
        conditions.push_back(le(shifted(-left), key).value);
    }
    for (Value mask : op.getMasks())
      if (!isFloatTensor(mask))
        conditions.push_back(spreadMask(mask));
    if (Value segments = op.getSegments()) {
      Value ofQuery = broadcastTo(builder, loc, reshapeTo(builder, loc, segments, {s.B, 1, s.Sq, 1}), full);
      Value ofKey = broadcastTo(builder, loc, reshapeTo(builder, loc, segments, {s.B, 1, 1, s.Sk}), full);
      conditions.push_back(eq(expr(ofQuery), expr(ofKey)).value);
    }
    return conditions;
  }

  OpBuilder &builder;
  Location loc;
  AttentionOp op;
  rt::AttentionShape s;
  SmallVector<int64_t> full;
};
} // namespace

void AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  if (resultGrads[1])
    return ExplicitGradient(builder, *this).build(resultGrads, needed, operandGrads);
  Value g = resultGrads[0];
  if (needed[0] || needed[1] || needed[2]) {
    auto grad = AttentionGradOp::create(builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(), getQ(),
                                        getK(), getV(), getOut(), getLse(), g, getMasks(), getSegments(), getSeed(),
                                        getStep(), getSampleBase(), getOrigin(), getCausalAttr(), getScaleAttr(),
                                        getPAttr(), getKeyAttr(), getSamplesAttr(), getWholeAttr(), getWindowAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (needed[i])
        operandGrads[i] = grad.getResult(i);
  }
  for (auto [n, mask] : llvm::enumerate(getMasks()))
    if (isFloatTensor(mask) && needed[3 + n]) {
      auto type = tensorType(mask).clone(tensorType(getLse()).getElementType());
      Value grad = AttentionMaskGradOp::create(
          builder, getLoc(), type, getQ(), getK(), getV(), getOut(), getLse(), g, getMasks(), getSegments(),
          getSeed(), getStep(), getSampleBase(), getOrigin(), getCausalAttr(), getScaleAttr(), getPAttr(), getKeyAttr(),
          getSamplesAttr(), getWholeAttr(), getWindowAttr(), builder.getI64IntegerAttr(n));
      operandGrads[3 + n] = castToType(builder, getLoc(), grad, mask.getType());
    }
}
