// attention and the ops of its gradient: what they compute, and on a CPU the call of the runtime's library that does so
// (runtime/include/scrimp/runtime/Library.h); AttentionKernels.cpp has them as kernels, AttentionGradient.cpp builds them.
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
