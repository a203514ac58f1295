// attention and its gradient: calls of the runtime's library (runtime/include/scrimp/runtime/Library.h). A gradient
// that the library does not compute (of an additive mask, or through lse) is built from ordinary ops.
#include "NeuralRows.h"

#include "scrimp/runtime/workspace.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

//===-- What both ops share ----------------------------------------------------------------------------------------===//

template <typename Op>
static rt::AttentionShape attentionShape(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK()), v = shapeOf(op.getV());
  return {q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
}

template <typename Op>
static LogicalResult verifyAttention(Op op) {
  RankedTensorType q = tensorType(op.getQ()), k = tensorType(op.getK()), v = tensorType(op.getV());
  Type element = q.getElementType();
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4 || k.getElementType() != element ||
      v.getElementType() != element)
    return op.emitOpError() << "q, k and v must have rank 4 and one element type, found " << q << ", " << k << ", "
                            << v;
  if (k.getDimSize(0) != q.getDimSize(0) || v.getDimSize(0) != q.getDimSize(0))
    return op.emitOpError() << "q, k and v must have one batch size, found " << q << ", " << k << ", " << v;
  if (k.getDimSize(3) != q.getDimSize(3))
    return op.emitOpError() << "heads of q and k must have one width, found " << q << " and " << k;
  if (v.getDimSize(1) != k.getDimSize(1) || v.getDimSize(2) != k.getDimSize(2))
    return op.emitOpError() << "k and v must have the same heads and positions, found " << k << " and " << v;
  rt::AttentionShape s = attentionShape(op);
  if (s.Hkv == 0 || s.Hq % s.Hkv)
    return op.emitOpError() << "the query heads must be a multiple of the key-value heads, found " << s.Hq << " and "
                            << s.Hkv;
  if (Value mask = op.getMask()) {
    RankedTensorType type = tensorType(mask);
    bool fits = type.getRank() == 4 && (type.getElementType() == element || type.getElementType().isInteger(1));
    const int64_t scores[] = {s.B, s.Hq, s.Sq, s.Sk};
    for (auto [size, full] : llvm::zip(type.getShape(), scores))
      fits &= size == 1 || size == full;
    if (!fits)
      return op.emitOpError() << "the mask must be i1 or " << element << " and broadcast to [" << s.B << ", " << s.Hq
                              << ", " << s.Sq << ", " << s.Sk << "], found " << type;
  }
  if (Value segments = op.getSegments())
    if (s.Sq != s.Sk || shapeOf(segments) != ArrayRef<int64_t>{s.B, s.Sk})
      return op.emitOpError() << "segments must be [" << s.B << ", " << s.Sk
                              << "] with as many queries as keys, found " << segments.getType() << " for " << s.Sq
                              << " queries";
  RankedTensorType out = q.clone({s.B, s.Hq, s.Sq, s.Dv});
  if (op.getOut().getType() != out)
    return op.emitOpError() << "out must be " << out << ", found " << op.getOut().getType();
  if (op.getLse().getType() != wideOuterType(q, 3))
    return op.emitOpError() << "lse must be " << wideOuterType(q, 3) << ", found " << op.getLse().getType();
  return success();
}

template <typename Op>
static LibraryCall attentionCall(Op op, StringRef function) {
  rt::AttentionShape s = attentionShape(op);
  LibraryCall call{function.str(), {s.B, s.Hq, s.Hkv, s.Sq, s.Sk, s.D, s.Dv, op.getCausal()},
                   {op.getScale().convertToDouble()}};
  if (Value mask = op.getMask()) {
    call.ints.push_back(tensorType(mask).getElementType().isInteger(1) ? 2 : 1);
    for (auto [stride, size] : llvm::zip(rowMajorStrides(shapeOf(mask)), shapeOf(mask)))
      call.ints.push_back(size == 1 ? 0 : stride);
  } else {
    call.ints.append(5, 0);
  }
  call.ints.push_back(op.getSegments() ? 1 : 0);
  return call;
}

static RankedTensorType bytesType(MLIRContext *context, int64_t bytes) {
  return RankedTensorType::get({bytes}, IntegerType::get(context, 8));
}

static int64_t elementBytes(Value value) { return tensorType(value).getElementTypeBitWidth() / 8; }

/// The probabilities in the interpreter.
namespace {
template <typename Op>
class Probabilities {
public:
  Probabilities(Op op, const HostTensor &q, const HostTensor &k, const HostTensor *mask, const HostTensor *segments)
      : op(op), s(attentionShape(op)), q(q), k(k), mask(mask), segments(segments),
        scale(op.getScale().convertToDouble()) {}

  /// The scores of query `i` of head `h`, -inf where it does not see.
  SmallVector<double> scores(int64_t b, int64_t h, int64_t i) {
    SmallVector<double> row(s.Sk);
    const double *queries = &q.floats()[((b * s.Hq + h) * s.Sq + i) * s.D];
    for (int64_t j = 0; j < s.Sk; ++j) {
      const double *keys = &k.floats()[((b * s.Hkv + h / (s.Hq / s.Hkv)) * s.Sk + j) * s.D];
      double sum = 0;
      for (int64_t d = 0; d < s.D; ++d)
        sum += queries[d] * keys[d];
      row[j] = sees(b, h, i, j) ? sum * scale + added(b, h, i, j) : -std::numeric_limits<double>::infinity();
    }
    return row;
  }

private:
  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) {
    if (op.getCausal() && j > i + s.Sk - s.Sq)
      return false;
    if (segments && segments->ints()[b * s.Sk + i] != segments->ints()[b * s.Sk + j])
      return false;
    return !mask || mask->isFloat() || mask->ints()[maskIndex(b, h, i, j)];
  }
  double added(int64_t b, int64_t h, int64_t i, int64_t j) {
    return mask && mask->isFloat() ? mask->floats()[maskIndex(b, h, i, j)] : 0;
  }
  int64_t maskIndex(int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t index = 0;
    const int64_t position[] = {b, h, i, j};
    for (auto [at, size] : llvm::zip(position, mask->getShape()))
      index = index * size + (size == 1 ? 0 : at);
    return index;
  }

  Op op;
  rt::AttentionShape s;
  const HostTensor &q, &k;
  const HostTensor *mask, *segments;
  double scale;
};
} // namespace

/// The optional operands of an evaluation, which start at number `first`.
template <typename Op>
static std::pair<const HostTensor *, const HostTensor *> optionalOperands(Op op, ArrayRef<const HostTensor *> operands,
                                                                          unsigned first) {
  const HostTensor *mask = op.getMask() ? operands[first] : nullptr;
  return {mask, op.getSegments() ? operands.back() : nullptr};
}

//===-- attention --------------------------------------------------------------------------------------------------===//

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value q, Value k, Value v, Value mask,
                        Value segments, bool causal, double scale) {
  SmallVector<int64_t> shape(shapeOf(q));
  shape.back() = shapeOf(v).back();
  build(builder, state, tensorType(q).clone(shape), wideOuterType(tensorType(q), 3), q, k, v, mask, segments, causal,
        APFloat(scale));
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

int64_t AttentionOp::getFlops() {
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq * s.Sk * (2 * s.D + 2 * s.Dv + 5) / (getCausal() ? 2 : 1);
}

LibraryCall AttentionOp::getLibraryCall() { return attentionCall(*this, "attention"); }

SmallVector<RankedTensorType> AttentionOp::getWorkspaceTypes(int64_t workers) {
  return {bytesType(getContext(), rt::attentionWorkspaceBytes(attentionShape(*this), elementBytes(getQ()), workers))};
}

LogicalResult AttentionOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  rt::AttentionShape s = attentionShape(*this);
  auto [mask, segments] = optionalOperands(*this, operands, 3);
  Probabilities<AttentionOp> probabilities(*this, *operands[0], *operands[1], mask, segments);
  for (int64_t row = 0; row < s.B * s.Hq * s.Sq; ++row) {
    int64_t b = row / s.Sq / s.Hq, h = row / s.Sq % s.Hq;
    SmallVector<double> p = probabilities.scores(b, h, row % s.Sq);
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double score : p)
      most = maximum(most, score);
    if (most == -std::numeric_limits<double>::infinity())
      continue; // sees nothing: 0, as the results come
    for (double &value : p)
      sum += value = std::exp(value - most);
    results[1].floats()[row] = most + std::log(sum);
    for (int64_t j = 0; j < s.Sk; ++j)
      for (int64_t d = 0; d < s.Dv; ++d)
        results[0].floats()[row * s.Dv + d] +=
            p[j] / sum * operands[2]->floats()[((b * s.Hkv + h / (s.Hq / s.Hkv)) * s.Sk + j) * s.Dv + d];
  }
  return success();
}

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
    if (op.getMask() && isFloatTensor(op.getMask()))
      scores = scores + expr(broadcastTo(builder, loc, wide(op.getMask()), full));
    GraphExpr p = exp(scores - spreadRows(op.getLse()));
    for (Value sees : visibility())
      p = select(expr(sees), p, like(p, 0));
    GraphExpr ds = like(p, 0), delta = like(expr(op.getLse()), 0);
    if (resultGrads[0]) {
      GraphExpr g = expr(wide(resultGrads[0]));
      ds = expr(MatmulOp::create(builder, loc, g.value, v, false, true));
      delta = expr(ReduceOp::create(builder, loc, ReduceKind::sum, (g * expr(wide(op.getOut()))).value, {3}));
      if (needed[2])
        operandGrads[2] = sumHeads(MatmulOp::create(builder, loc, p.value, g.value, true, false), op.getV());
    }
    if (resultGrads[1])
      delta = delta - expr(resultGrads[1]);
    ds = p * (ds - spreadRows(delta.value));
    if (op.getMask() && needed[3])
      operandGrads[3] = narrow(sumTo(builder, loc, ds.value, shapeOf(op.getMask())), op.getMask());
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

  /// Conditions of the scores' shape, all of which hold where a key is seen.
  SmallVector<Value> visibility() {
    SmallVector<Value> conditions;
    auto index = [&](int64_t dim, double start) {
      auto type = RankedTensorType::get(full, builder.getI64Type());
      return expr(IotaOp::create(builder, loc, type, dim, APFloat(start), APFloat(1.0)));
    };
    if (op.getCausal())
      conditions.push_back(le(index(3, 0), index(2, static_cast<double>(s.Sk - s.Sq))).value);
    if (op.getMask() && !isFloatTensor(op.getMask()))
      conditions.push_back(broadcastTo(builder, loc, op.getMask(), full));
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
  bool needsMask = getMask() && isFloatTensor(getMask()) && needed[3];
  if (needsMask || resultGrads[1])
    return ExplicitGradient(builder, *this).build(resultGrads, needed, operandGrads);
  auto grad = AttentionGradOp::create(builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(), getQ(),
                                      getK(), getV(), getOut(), getLse(), resultGrads[0], getMask(), getSegments(),
                                      getCausal(), getScale());
  for (unsigned i = 0; i < 3; ++i)
    if (needed[i])
      operandGrads[i] = grad.getResult(i);
}

//===-- attention_grad ---------------------------------------------------------------------------------------------===//

LogicalResult AttentionGradOp::verify() { return verifyAttention(*this); }

int64_t AttentionGradOp::getFlops() {
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq * s.Sk * (6 * s.D + 4 * s.Dv + 8) / (getCausal() ? 2 : 1);
}

LibraryCall AttentionGradOp::getLibraryCall() { return attentionCall(*this, "attention_grad"); }

SmallVector<RankedTensorType> AttentionGradOp::getWorkspaceTypes(int64_t workers) {
  return {
      bytesType(getContext(), rt::attentionGradWorkspaceBytes(attentionShape(*this), elementBytes(getQ()), workers))};
}

LogicalResult AttentionGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  rt::AttentionShape s = attentionShape(*this);
  auto [mask, segments] = optionalOperands(*this, operands, 6);
  Probabilities<AttentionGradOp> probabilities(*this, *operands[0], *operands[1], mask, segments);
  ArrayRef<double> q = operands[0]->floats(), k = operands[1]->floats(), v = operands[2]->floats(),
                   out = operands[3]->floats(), lse = operands[4]->floats(), g = operands[5]->floats();
  MutableArrayRef<double> dq = results[0].floats(), dk = results[1].floats(), dv = results[2].floats();
  double scale = getScale().convertToDouble();
  for (int64_t row = 0; row < s.B * s.Hq * s.Sq; ++row) {
    int64_t b = row / s.Sq / s.Hq, h = row / s.Sq % s.Hq, head = b * s.Hkv + h / (s.Hq / s.Hkv);
    SmallVector<double> scores = probabilities.scores(b, h, row % s.Sq);
    double delta = 0;
    for (int64_t d = 0; d < s.Dv; ++d)
      delta += g[row * s.Dv + d] * out[row * s.Dv + d];
    for (int64_t j = 0; j < s.Sk; ++j) {
      double p = std::exp(scores[j] - lse[row]), dp = 0;
      int64_t key = head * s.Sk + j;
      for (int64_t d = 0; d < s.Dv; ++d) {
        dp += g[row * s.Dv + d] * v[key * s.Dv + d];
        dv[key * s.Dv + d] += p * g[row * s.Dv + d];
      }
      double ds = p * (dp - delta) * scale;
      for (int64_t d = 0; d < s.D; ++d) {
        dq[row * s.D + d] += ds * k[key * s.D + d];
        dk[key * s.D + d] += ds * q[row * s.D + d];
      }
    }
  }
  return success();
}
