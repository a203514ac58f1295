// attention and its gradients: what they compute, and on a CPU the call of the runtime's library that does so
// (runtime/include/scrimp/runtime/Library.h); AttentionKernels.cpp has them as kernels. A gradient that neither
// computes (through lse) is built from ordinary ops.
#include "AttentionOps.h"
#include "IndexMath.h"
#include "NeuralRows.h"
#include "RandomOps.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

//===-- What both ops share ----------------------------------------------------------------------------------------===//

template <typename Op> static LogicalResult verifyDropout(Op op) {
  bool drops = bool(op.getSeed());
  if (bool(op.getStep()) != drops || bool(op.getSampleBase()) != drops || op.getP().has_value() != drops ||
      op.getKey().has_value() != drops || (op.getSamples() && !drops))
    return op.emitOpError() << "dropout takes seed, step, sample_base, `p` and `key`, all or none";
  if (!drops)
    return success();
  if (failed(verifyProbability(op, *op.getP())))
    return failure();
  rt::AttentionShape s = attentionShape(op);
  int64_t samples = op.getSamples().value_or(1);
  if (samples < 1 || s.B % samples)
    return op.emitOpError() << "a batch of " << s.B << " does not divide into " << samples << " samples";
  // [heads, queries, keys], as many times as a sample has members of the batch.
  double elements = static_cast<double>(s.B / samples);
  for (int64_t size : wholeScores(op))
    elements *= static_cast<double>(size);
  if (elements > 0x1p34)
    return op.emitOpError() << "a sample may have 2^34 probabilities that are dropped, found " << elements;
  return success();
}

template <typename Op> static LogicalResult verifyAttention(Op op) {
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
  for (Value mask : op.getMasks()) {
    RankedTensorType type = tensorType(mask);
    bool fits = type.getElementType() == element || type.getElementType() == getComputeType(element) ||
                type.getElementType().isInteger(1);
    const int64_t scores[] = {s.B, s.Hq, s.Sq, s.Sk}, distances[] = {s.Hq, s.Sq + s.Sk - 1};
    if (type.getRank() == 2)
      fits &= (type.getDimSize(0) == 1 || type.getDimSize(0) == distances[0]) && type.getDimSize(1) == distances[1];
    else
      fits &= type.getRank() == 4;
    for (auto [size, full] : llvm::zip(type.getShape(), scores))
      fits &= type.getRank() == 2 || size == 1 || size == full;
    if (!fits) {
      auto error = op.emitOpError() << "the mask must be i1";
      if (element != getComputeType(element))
        error << ", " << element;
      return error << " or " << getComputeType(element) << " and broadcast to [" << s.B << ", " << s.Hq << ", " << s.Sq
                   << ", " << s.Sk << "], or go by distance, [1 or " << distances[0] << ", " << distances[1]
                   << "], found " << type;
    }
  }
  if (auto window = op.getWindow(); window && window->size() != 2)
    return op.emitOpError() << "the window must be two numbers, how far a query sees before and after itself, found "
                            << window->size();
  if (Value segments = op.getSegments())
    if (s.Sq != s.Sk || shapeOf(segments) != ArrayRef<int64_t>{s.B, s.Sk})
      return op.emitOpError() << "segments must be [" << s.B << ", " << s.Sk << "] with as many queries as keys, found "
                              << segments.getType() << " for " << s.Sq << " queries";
  if (failed(verifyDropout(op)) || failed(verifyPiece(op, {s.Hq, s.Sq, s.Sk})))
    return failure();
  RankedTensorType out = q.clone({s.B, s.Hq, s.Sq, s.Dv});
  if (op.getOut().getType() != out)
    return op.emitOpError() << "out must be " << out << ", found " << op.getOut().getType();
  if (op.getLse().getType() != wideOuterType(q, 3))
    return op.emitOpError() << "lse must be " << wideOuterType(q, 3) << ", found " << op.getLse().getType();
  return success();
}

template <typename Op> static LibraryCall attentionCall(Op op, StringRef function) {
  rt::AttentionCall call{};
  call.shape = attentionShape(op);
  std::tie(call.left, call.right) = op.getReach();
  call.masks = op.getMasks().size();
  call.hasSegments = bool(op.getSegments());
  double keptScale = 1;
  if (op.getSeed()) {
    double p = op.getP()->convertToDouble();
    call.hasDropout = 1;
    call.dropoutKey = static_cast<int64_t>(mix64(*op.getKey()));
    call.samples = op.getSamples().value_or(0);
    call.dropBelow = dropBelow(p);
    keptScale = 1 / (1 - p);
  }
  call.hasOrigin = bool(op.getOrigin());
  llvm::copy(wholeScores(op), call.whole);
  auto integers = llvm::bit_cast<std::array<int64_t, rt::attentionCallInts>>(call);
  SmallVector<int64_t> ints(integers.begin(), integers.end());
  for (Value mask : op.getMasks()) {
    rt::AttentionMask layout = maskLayout(op, mask);
    llvm::append_range(ints, llvm::bit_cast<std::array<int64_t, rt::attentionMaskInts>>(layout));
  }
  return {function.str(), ints, {op.getScale().convertToDouble(), keptScale}};
}

template <typename Op> static SmallVector<RankedTensorType> attentionWorkspace(Op op, bool isGradient, int64_t workers) {
  if (op.getKernelFamily() != KernelFamily::Library)
    return {};
  Type type = tensorType(op.getQ()).getElementType(), sums = getComputeType(type);
  int64_t bytes =
      rt::attentionWorkspaceBytes(attentionShape(op), elementBytesOf(sums), type != sums, isGradient, workers);
  return {RankedTensorType::get({bytes}, IntegerType::get(op.getContext(), 8))};
}

/// For each score: Philox, as for scrimp.dropout.
template <typename Op> static int64_t dropoutFlops(Op op) { return op.getSeed() ? 40 : 0; }

/// The scores that are looked at: pairs of a query and a key within its reach.
template <typename Op> static int64_t countScores(Op op) {
  rt::AttentionShape s = attentionShape(op);
  auto [left, right] = op.getReach();
  int64_t pairs = 0;
  for (int64_t i = 0; i < s.Sq; ++i) {
    int64_t p = i + s.Sk - s.Sq;
    pairs += std::max<int64_t>(0, std::min(s.Sk, p + right + 1) - std::max<int64_t>(0, p - left));
  }
  return s.B * s.Hq * pairs;
}

/// The probabilities in the interpreter. `operands` are those of the op, of which the optional ones start at `first`.
namespace {
template <typename Op> class Probabilities {
public:
  Probabilities(Op op, ArrayRef<const HostTensor *> operands, unsigned first)
      : op(op), s(attentionShape(op)), whole(wholeScores(op)), q(*operands[0]), k(*operands[1]),
        scale(op.getScale().convertToDouble()) {
    auto next = [&](bool present) { return present ? operands[first++] : nullptr; };
    for (Value mask : op.getMasks())
      masks.push_back({maskLayout(op, mask), next(true)});
    segments = next(bool(op.getSegments()));
    for (const HostTensor *&scalar : random)
      scalar = next(bool(op.getSeed()));
    if (const HostTensor *given = next(bool(op.getOrigin())))
      llvm::copy(given->ints(), origin);
  }

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

  /// What dropout multiplies a probability by: 0 or 1 / (1 - p).
  double kept(int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!op.getSeed())
      return 1;
    int64_t samples = op.getSamples().value_or(0), rest = s.B / std::max<int64_t>(samples, 1);
    int64_t sample = samples ? random[2]->ints()[0] + b / rest : 0;
    int64_t element = (((b % rest) * whole[0] + origin[0] + h) * whole[1] + origin[1] + i) * whole[2] + origin[2] + j;
    uint32_t bits = drawBits(random[0]->ints()[0], random[1]->ints()[0], *op.getKey(), sample, element);
    double p = op.getP()->convertToDouble();
    return bits < dropBelow(p) ? 0 : 1 / (1 - p);
  }

private:
  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) {
    auto [left, right] = op.getReach();
    int64_t distance = origin[2] + j - (origin[1] + i + whole[2] - whole[1]);
    if (distance < -left || distance > right)
      return false;
    if (segments && segments->ints()[b * s.Sk + i] != segments->ints()[b * s.Sk + j])
      return false;
    return llvm::all_of(masks, [&](auto &mask) {
      return mask.second->isFloat() || mask.second->ints()[maskIndex(mask.first, b, h, i, j)];
    });
  }
  double added(int64_t b, int64_t h, int64_t i, int64_t j) {
    double sum = 0;
    for (auto &[layout, mask] : masks)
      sum += mask->isFloat() ? mask->floats()[maskIndex(layout, b, h, i, j)] : 0;
    return sum;
  }

public:
  static int64_t maskIndex(const rt::AttentionMask &mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    return mask.offset + b * mask.strides[0] + h * mask.strides[1] + i * mask.strides[2] + j * mask.strides[3];
  }

private:
  Op op;
  rt::AttentionShape s;
  SmallVector<int64_t> whole;
  const HostTensor &q, &k, *segments, *random[3]; // seed, step and sample_base
  SmallVector<std::pair<rt::AttentionMask, const HostTensor *>> masks;
  int64_t origin[3] = {};
  double scale;
};
} // namespace

/// The op for some of the samples, or of the heads: with dropout these go on drawing by their places in the whole.
template <typename Op>
static SmallVector<Value> buildAttentionPiece(Op op, OpBuilder &builder, ValueRange operands, TypeRange types,
                                              const BatchPiece &piece) {
  SmallVector<Value> results = cloneForPiece(op, builder, operands, types);
  if (!op.getSeed())
    return results;
  Location loc = op.getLoc();
  auto clone = cast<Op>(results[0].getDefiningOp());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(clone);
  Value first = firstIndexOf(builder, loc, piece);
  if (std::optional<int64_t> samples = op.getSamples(); samples && piece.factor == 0) {
    GraphExpr base(builder, loc, clone.getSampleBase());
    clone.getSampleBaseMutable().assign((base + base.with(first)).value);
    int64_t rest = attentionShape(op).B / *samples;
    clone.setSamples(attentionShape(clone).B / rest);
    return results;
  }
  RankedTensorType type = RankedTensorType::get({3}, builder.getI64Type());
  Value origin = PadOp::create(builder, loc, type, reshapeTo(builder, loc, first, {1}), ArrayRef<int64_t>{0},
                               ArrayRef<int64_t>{1}, APFloat(0.0));
  if (clone.getOrigin())
    origin = AddOp::create(builder, loc, clone.getOrigin(), origin);
  clone.getOriginMutable().assign(origin);
  clone.setWhole(wholeScores(op));
  return results;
}

//===-- attention --------------------------------------------------------------------------------------------------===//

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value q, Value k, Value v, ValueRange masks,
                        Value segments, bool causal, double scale) {
  SmallVector<int64_t> shape(shapeOf(q));
  shape.back() = shapeOf(v).back();
  build(builder, state, tensorType(q).clone(shape), wideOuterType(tensorType(q), 3), q, k, v, masks, segments,
        /*seed=*/Value(), /*step=*/Value(), /*sample_base=*/Value(), /*origin=*/Value(), causal, APFloat(scale),
        /*p=*/FloatAttr(), /*key=*/IntegerAttr(), /*samples=*/IntegerAttr(), /*whole=*/DenseI64ArrayAttr(),
        /*window=*/DenseI64ArrayAttr());
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

SmallVector<Value> AttentionOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                           const BatchPiece &piece) {
  return buildAttentionPiece(*this, builder, operands, types, piece);
}

SmallVector<Value> AttentionOp::buildEvaluation(OpBuilder &builder) {
  auto op = cast<AttentionOp>(builder.clone(*getOperation()));
  op.getSeedMutable().clear(), op.getStepMutable().clear(), op.getSampleBaseMutable().clear();
  op.removePAttr(), op.removeKeyAttr(), op.removeSamplesAttr();
  return llvm::to_vector_of<Value>(op->getResults());
}

int64_t AttentionOp::getFlops() {
  rt::AttentionShape s = attentionShape(*this);
  return countScores(*this) * (2 * s.D + 2 * s.Dv + 5 + dropoutFlops(*this));
}

LibraryCall AttentionOp::getLibraryCall() { return attentionCall(*this, "attention"); }

SmallVector<RankedTensorType> AttentionOp::getWorkspaceTypes(int64_t workers) {
  return attentionWorkspace(*this, /*isGradient=*/false, workers);
}

LogicalResult AttentionOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  rt::AttentionShape s = attentionShape(*this);
  Probabilities<AttentionOp> probabilities(*this, operands, 3);
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
    for (int64_t j = 0; j < s.Sk; ++j) {
      double probability = p[j] / sum * probabilities.kept(b, h, row % s.Sq, j);
      for (int64_t d = 0; d < s.Dv; ++d)
        results[0].floats()[row * s.Dv + d] +=
            probability * operands[2]->floats()[((b * s.Hkv + h / (s.Hq / s.Hkv)) * s.Sk + j) * s.Dv + d];
    }
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

//===-- attention_grad ---------------------------------------------------------------------------------------------===//

LogicalResult AttentionGradOp::verify() { return verifyAttention(*this); }

SmallVector<Value> AttentionGradOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                               const BatchPiece &piece) {
  return buildAttentionPiece(*this, builder, operands, types, piece);
}

int64_t AttentionGradOp::getFlops() {
  rt::AttentionShape s = attentionShape(*this);
  return countScores(*this) * (6 * s.D + 4 * s.Dv + 8 + dropoutFlops(*this));
}

LibraryCall AttentionGradOp::getLibraryCall() { return attentionCall(*this, "attention_grad"); }

SmallVector<RankedTensorType> AttentionGradOp::getWorkspaceTypes(int64_t workers) {
  return attentionWorkspace(*this, /*isGradient=*/true, workers);
}

LogicalResult AttentionGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  rt::AttentionShape s = attentionShape(*this);
  Probabilities<AttentionGradOp> probabilities(*this, operands, 6);
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
      double p = std::exp(scores[j] - lse[row]), kept = probabilities.kept(b, h, row % s.Sq, j), dp = 0;
      int64_t key = head * s.Sk + j;
      for (int64_t d = 0; d < s.Dv; ++d) {
        dp += kept * g[row * s.Dv + d] * v[key * s.Dv + d];
        dv[key * s.Dv + d] += p * kept * g[row * s.Dv + d];
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

//===-- attention_mask_grad
//----------------------------------------------------------------------------------------===//

LogicalResult AttentionMaskGradOp::verify() {
  int64_t count = getMasks().size();
  if (getIndexAttr().getInt() < 0 || getIndexAttr().getInt() >= count || !isFloatTensor(getMasks()[getIndex()]) ||
      shapeOf(getDmask()) != shapeOf(getMasks()[getIndex()]) ||
      tensorType(getDmask()).getElementType() != tensorType(getLse()).getElementType())
    return emitOpError() << "index must name one of the " << count << " masks, of floats and of the result's shape, found "
                         << getIndexAttr().getInt() << " for " << getDmask().getType();
  return verifyAttention(*this);
}

SmallVector<Value> AttentionMaskGradOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                                   const BatchPiece &piece) {
  return buildAttentionPiece(*this, builder, operands, types, piece);
}

int64_t AttentionMaskGradOp::getFlops() {
  rt::AttentionShape s = attentionShape(*this);
  return countScores(*this) * (2 * s.D + 2 * s.Dv + 8 + dropoutFlops(*this));
}

LibraryCall AttentionMaskGradOp::getLibraryCall() {
  LibraryCall call = attentionCall(*this, "attention_mask_grad");
  call.ints.push_back(getIndex());
  return call;
}

SmallVector<RankedTensorType> AttentionMaskGradOp::getWorkspaceTypes(int64_t workers) {
  return attentionWorkspace(*this, /*isGradient=*/true, workers);
}

LogicalResult AttentionMaskGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  rt::AttentionShape s = attentionShape(*this);
  rt::AttentionMask layout = maskLayout(*this, getMasks()[getIndex()]);
  Probabilities<AttentionMaskGradOp> probabilities(*this, operands, 6);
  ArrayRef<double> v = operands[2]->floats(), out = operands[3]->floats(), lse = operands[4]->floats(),
                   g = operands[5]->floats();
  for (int64_t row = 0; row < s.B * s.Hq * s.Sq; ++row) {
    int64_t b = row / s.Sq / s.Hq, h = row / s.Sq % s.Hq, i = row % s.Sq, head = b * s.Hkv + h / (s.Hq / s.Hkv);
    SmallVector<double> scores = probabilities.scores(b, h, i);
    for (int64_t j = 0; j < s.Sk; ++j) {
      double dp = 0, delta = 0, kept = probabilities.kept(b, h, i, j);
      for (int64_t d = 0; d < s.Dv; ++d) {
        dp += kept * g[row * s.Dv + d] * v[(head * s.Sk + j) * s.Dv + d];
        delta += g[row * s.Dv + d] * out[row * s.Dv + d];
      }
      results[0].floats()[probabilities.maskIndex(layout, b, h, i, j)] += std::exp(scores[j] - lse[row]) * (dp - delta);
    }
  }
  return success();
}
