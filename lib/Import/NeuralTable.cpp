// The op table: softmax, normalization, attention, dropout and losses.
#include "NodeBuilder.h"

#include <limits>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

/// Moves `axis` to the end; `undo` brings it back.
SmallVector<int64_t> lastPermutation(int64_t axis, int64_t rank) {
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      permutation.push_back(i);
  permutation.push_back(axis);
  return permutation;
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result(permutation.size());
  for (auto [i, p] : llvm::enumerate(permutation))
    result[p] = i;
  return result;
}

/// Over one axis since opset 13; before, over all from `axis` on, as one flat row (default axis 1).
template <typename Op> LogicalResult softmax(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  int64_t rank = shapeOf(x).size();
  bool flat = b.node.opset < 13;
  int64_t axis = b.intAttr("axis", flat ? 1 : -1);
  if (flat && axis == rank)
    return b.result(
        b.reshape(b.make<Op>(b.reshape(x, {tensorType(x).getNumElements(), 1})), SmallVector<int64_t>(shapeOf(x))));
  if (rank == 0)
    return b.result(b.reshape(b.make<Op>(b.reshape(x, {1})), {}));
  FailureOr<int64_t> normalized = b.normalizeAxis(axis, rank);
  if (failed(normalized))
    return failure();
  if (flat && *normalized != rank - 1) {
    int64_t rows = 1, columns = 1;
    for (int64_t i = 0; i < rank; ++i)
      (i < *normalized ? rows : columns) *= shapeOf(x)[i];
    return b.result(b.reshape(b.make<Op>(b.reshape(x, {rows, columns})), SmallVector<int64_t>(shapeOf(x))));
  }
  SmallVector<int64_t> permutation = lastPermutation(*normalized, rank);
  return b.result(b.transpose(b.make<Op>(b.transpose(x, permutation)), inverse(permutation)));
}

/// `value` broadcast to the normalized dimensions of x.
FailureOr<Value> normParameter(NodeBuilder &b, unsigned i, ArrayRef<int64_t> shape) {
  if (!b.has(i))
    return Value();
  if (failed(b.requireFloat(i)))
    return failure();
  FailureOr<SmallVector<int64_t>> common = b.commonShape({b.input(i), b.splat(tensorType(b.input(i)).clone(shape), 0)});
  if (failed(common))
    return failure();
  if (ArrayRef<int64_t>(*common) != shape) {
    b.error() << "input " << i << " ('" << b.node.inputs[i] << "') is " << tensorType(b.input(i))
              << ", which does not fit the normalized dimensions";
    return failure();
  }
  Value value = b.cast(b.input(i), tensorType(b.input(0)).getElementType());
  return b.broadcast(value, shape);
}

template <bool rms> LogicalResult layerNorm(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 1)))
    return failure();
  b.pass("stash_type"); // narrow types are summed in f32 anyway
  Value x = b.input(0);
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", -1), shapeOf(x).size());
  if (failed(axis))
    return failure();
  SmallVector<int64_t> normalized(shapeOf(x).drop_front(*axis)), kept(shapeOf(x));
  for (size_t i = *axis; i < kept.size(); ++i)
    kept[i] = 1;
  FailureOr<Value> scale = normParameter(b, 1, normalized);
  if (failed(scale))
    return failure();
  double epsilon = b.floatAttr("epsilon", 1e-5);
  if (rms)
    return b.result(b.makeAll<RmsNormOp>(x, *scale, *axis, epsilon)[0]);
  FailureOr<Value> bias = normParameter(b, 2, normalized);
  if (failed(bias))
    return failure();
  SmallVector<Value> results = b.makeAll<LayerNormOp>(x, *scale, *bias, *axis, epsilon);
  for (unsigned i = 1; i < 3; ++i)
    if (b.isUsed(i))
      (void)b.set(i, b.reshape(results[i], kept));
  return b.result(results[0]);
}

/// GroupNormalization, and InstanceNormalization (a group a channel): layer_norm over [N, groups, the rest].
LogicalResult groupNorm(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 2)) || failed(b.requireRank(1, 1)) ||
      failed(b.requireRank(2, 1)))
    return failure();
  Value x = b.input(0);
  ArrayRef<int64_t> s = shapeOf(x);
  bool instance = b.node.type == "InstanceNormalization";
  int64_t groups = instance ? s[1] : b.intAttr("num_groups", 0);
  if (groups <= 0 || s[1] % groups)
    return b.error() << s[1] << " channels do not divide into " << groups << " groups";
  int64_t rest = tensorType(x).getNumElements() / std::max<int64_t>(s[0] * groups, 1);
  Value y =
      b.makeAll<LayerNormOp>(b.reshape(x, {s[0], groups, rest}), Value(), Value(), 2, b.floatAttr("epsilon", 1e-5))[0];
  y = b.reshape(y, SmallVector<int64_t>(s));
  for (unsigned i = 1; i < 3; ++i) {
    Value parameter = b.input(i);
    int64_t count = shapeOf(parameter)[0];
    if (shapeOf(parameter).size() != 1 || (count != s[1] && count != groups))
      return b.error() << "input " << i << " ('" << b.node.inputs[i] << "') is " << tensorType(parameter)
                       << ", expected " << s[1] << " elements";
    if (count != s[1]) // per group before opset 21
      parameter = b.reshape(b.broadcast(b.reshape(parameter, {groups, 1}), {groups, s[1] / groups}), {s[1]});
    SmallVector<int64_t> channels(s.size(), 1);
    channels[1] = s[1];
    parameter = b.broadcast(b.reshape(parameter, channels), SmallVector<int64_t>(s));
    y = i == 1 ? b.make<MulOp>(y, parameter) : b.make<AddOp>(y, parameter);
  }
  return b.result(y);
}

/// Keys that a query sees by position: as many as ONNX says, counted from the first ("upper left").
Value causalMask(NodeBuilder &b, int64_t queries, int64_t keys) {
  SmallVector<int64_t> shape{1, 1, queries, keys};
  return b.make<CompareOp>(Predicate::le, b.positions(shape, 3), b.positions(shape, 2));
}

/// Both masks: what one hides is hidden.
FailureOr<Value> joinMasks(NodeBuilder &b, Value mask, Value seen) {
  if (!mask)
    return seen;
  FailureOr<SmallVector<int64_t>> shape = b.commonShape({mask, seen});
  if (failed(shape))
    return failure();
  Value m = b.broadcast(mask, *shape), s = b.broadcast(seen, *shape);
  if (!isFloatTensor(mask))
    return b.make<AndOp>(m, s);
  return b.make<SelectOp>(s, m, b.splat(tensorType(m), -std::numeric_limits<double>::infinity()));
}

/// Attention in ops of its own, where scores are capped: cap * tanh(scores / cap).
Value cappedAttention(NodeBuilder &b, Value q, Value k, Value v, Value mask, double scale, double cap) {
  ArrayRef<int64_t> qs = shapeOf(q);
  auto repeat = [&](Value x) {
    ArrayRef<int64_t> s = shapeOf(x);
    Value grouped = b.reshape(x, {s[0], s[1], 1, s[2], s[3]});
    return b.reshape(b.broadcast(grouped, {s[0], s[1], qs[1] / s[1], s[2], s[3]}), {s[0], qs[1], s[2], s[3]});
  };
  k = repeat(k);
  v = repeat(v);
  Value scores = b.make<MatmulOp>(q, k, false, true);
  RankedTensorType type = tensorType(scores);
  scores = b.make<MulOp>(scores, b.splat(type, scale));
  scores = b.make<MulOp>(b.make<TanhOp>(b.make<DivOp>(scores, b.splat(type, cap))), b.splat(type, cap));
  if (mask && isFloatTensor(mask))
    scores = b.make<AddOp>(scores, b.broadcast(mask, type.getShape()));
  else if (mask)
    scores = b.make<SelectOp>(b.broadcast(mask, type.getShape()), scores,
                              b.splat(type, -std::numeric_limits<double>::infinity()));
  return b.make<MatmulOp>(b.make<SoftmaxOp>(scores), v);
}

/// q, k or v as [B, heads, S, D]: given so, or as [B, S, heads * D].
FailureOr<Value> splitHeads(NodeBuilder &b, unsigned i, int64_t heads) {
  Value x = b.input(i);
  SmallVector<int64_t> s(shapeOf(x));
  if (s.size() == 4)
    return x;
  if (s.size() != 3 || heads <= 0 || s[2] % heads) {
    b.error() << "input " << i << " ('" << b.node.inputs[i] << "') is " << tensorType(x) << ", which is not a batch of "
              << heads << " heads";
    return failure();
  }
  return b.transpose(b.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

/// The mask with rank 4, fit for scores of `full`.
FailureOr<Value> attentionMask(NodeBuilder &b, ArrayRef<int64_t> full, Type elementType) {
  Value mask = b.input(3);
  SmallVector<int64_t> m(shapeOf(mask));
  m.insert(m.begin(), 4 - std::min<size_t>(m.size(), 4), 1);
  bool fits = m.size() == 4;
  for (unsigned i = 0; fits && i < 4; ++i)
    fits = m[i] == 1 || m[i] == full[i];
  if (!fits || !(isFloatTensor(mask) || tensorType(mask).getElementType().isInteger(1))) {
    InFlightDiagnostic diagnostic = b.error() << "the mask is " << tensorType(mask) << ", expected bool or float for "
                                              << "scores of [";
    llvm::interleaveComma(full, diagnostic);
    diagnostic << "]";
    return failure();
  }
  mask = b.reshape(mask, m);
  return isFloatTensor(mask) ? b.cast(mask, elementType) : mask;
}

/// ONNX Attention (opset 23): rank 4 [B,H,S,D], or rank 3 [B,S,H*D] with the numbers of heads as attributes.
LogicalResult attention(NodeBuilder &b) {
  for (unsigned i = 0; i < 3; ++i)
    if (failed(b.requireFloat(i)) || failed(b.requireRank(i, 3)))
      return failure();
  if (b.has(4) || b.has(5) || b.has(6) || b.isUsed(1) || b.isUsed(2) || b.isUsed(3))
    return b.error() << "a key-value cache (past_key, past_value) and scores as output are not supported";
  b.pass("qk_matmul_output_mode"); // of the scores
  b.pass("softmax_precision");     // f32 at the least
  Value heads[3];
  for (unsigned i = 0; i < 3; ++i) {
    FailureOr<Value> split = splitHeads(b, i, b.intAttr(i ? "kv_num_heads" : "q_num_heads", 0));
    if (failed(split))
      return failure();
    heads[i] = *split;
  }
  SmallVector<int64_t> q(shapeOf(heads[0])), k(shapeOf(heads[1])), v(shapeOf(heads[2]));
  if (q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || k[1] == 0 || q[1] % k[1] || q[3] != k[3] || k[2] != v[2])
    return b.error() << "q " << tensorType(heads[0]) << ", k " << tensorType(heads[1]) << " and v "
                     << tensorType(heads[2]) << " do not fit together";
  FailureOr<Value> mask = Value();
  if (b.has(3))
    mask = attentionMask(b, {q[0], q[1], q[2], k[2]}, tensorType(heads[0]).getElementType());
  if (failed(mask))
    return failure();
  double scale = b.floatAttr("scale", 0), cap = b.floatAttr("softcap", 0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(q[3]));
  bool causal = b.intAttr("is_causal", 0);
  if (causal && (cap != 0 || q[2] != k[2])) {
    mask = joinMasks(b, *mask, causalMask(b, q[2], k[2]));
    if (failed(mask))
      return failure();
    causal = false;
  }
  Value y = cap != 0 ? cappedAttention(b, heads[0], heads[1], heads[2], *mask, scale, cap)
                     : b.makeAll<AttentionOp>(heads[0], heads[1], heads[2], *mask ? ValueRange(*mask) : ValueRange(),
                                              Value(), causal, scale)[0];
  if (shapeOf(b.input(0)).size() == 3)
    y = b.reshape(b.transpose(y, {0, 2, 1, 3}), {q[0], q[2], q[1] * v[3]});
  return b.result(y);
}

/// Whether a value is computed from the samples of the batch.
bool dependsOnBatch(NodeBuilder &b, Value value) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      auto batchDim = b.graph.function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kInput);
      if (batchDim && batchDim.getInt() >= 0)
        return true;
    } else {
      llvm::append_range(work, next.getDefiningOp()->getOperands());
    }
  }
  return false;
}

/// Trains where training_mode is true (since opset 12) or --training-mode says so; otherwise its operand.
LogicalResult dropout(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  Value x = b.input(0);
  double ratio = b.floatAttr("ratio", 0.5);
  bool training = b.graph.options.trainingMode;
  if (b.has(1)) {
    FailureOr<double> given = b.constantScalar(1, "the ratio");
    if (failed(given))
      return failure();
    ratio = *given;
  }
  if (b.has(2)) {
    FailureOr<double> mode = b.constantScalar(2, "training_mode");
    if (failed(mode))
      return failure();
    training |= *mode != 0;
  }
  if (!(ratio >= 0 && ratio < 1))
    return b.error() << "the ratio is " << ratio << ", expected one in [0, 1)";
  if (!training || ratio == 0) {
    if (!training && ratio != 0)
      b.graph.evaluationDropouts.push_back(b.node.displayName());
    if (b.isUsed(1))
      (void)b.set(1, b.splat(boolLike(tensorType(x)), 1));
    return b.result(x);
  }
  // Samples lie along the first dimension that they divide: [batch * rest, ...] is what reshapes of a batch give.
  int64_t batch = dependsOnBatch(b, x) ? b.graph.batch : -1, dim = -1;
  for (int64_t i = 0, rank = shapeOf(x).size(); batch > 0 && i < rank && dim < 0; ++i)
    if (shapeOf(x)[i] && shapeOf(x)[i] % batch == 0)
      dim = i;
  auto attr = [&](int64_t value) { return b.builder.getI64IntegerAttr(value); };
  Type i64 = b.builder.getI64Type();
  Value seed = b.graph.scalarArgument("seed", i64), step = b.graph.scalarArgument("step", i64),
        base = b.graph.scalarArgument("sample_base", i64);
  IntegerAttr key = attr(b.graph.nextRandomKey());
  auto drop = [&](Value value) -> Value {
    return b.make<DropoutOp>(tensorType(value), value, seed, step, base, /*origin=*/Value(), key, attr(dim),
                             attr(dim < 0 ? 1 : batch), /*whole=*/nullptr, b.builder.getF64FloatAttr(ratio));
  };
  // The mask as an output takes the very draws of the values: it is where ones are left.
  if (b.isUsed(1))
    (void)b.set(1, b.make<CompareOp>(Predicate::ne, drop(b.splat(tensorType(x), 1)), b.splat(tensorType(x), 0)));
  return b.result(drop(x));
}

/// Numbers from [low, high) in the shape of the input. Where that has a batch of samples, each draws its own.
LogicalResult randomUniformLike(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  Type type = b.hasAttr("dtype") ? elementTypeOf(b.intAttr("dtype", 0), b.graph.context)
                                 : tensorType(b.input(0)).getElementType();
  if (!isa_and_nonnull<FloatType>(type))
    return b.error() << "its numbers are of no supported float type";
  double low = b.floatAttr("low", 0), high = b.floatAttr("high", 1);
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
    return b.error() << "low is " << low << " and high " << high;
  ArrayRef<int64_t> shape = shapeOf(b.input(0));
  bool batched = b.graph.batch > 0 && !shape.empty() && shape[0] == b.graph.batch;
  Type i64 = b.builder.getI64Type();
  auto attr = [&](int64_t value) { return b.builder.getI64IntegerAttr(value); };
  return b.result(b.make<RandomUniformOp>(
      RankedTensorType::get(shape, b.graph.widen(type)), b.graph.scalarArgument("seed", i64),
      b.graph.scalarArgument("step", i64), b.graph.scalarArgument("sample_base", i64), /*origin=*/Value(),
      attr(b.graph.nextRandomKey()), attr(batched ? 0 : -1), attr(batched ? b.graph.batch : 1), /*whole=*/nullptr,
      b.builder.getF64FloatAttr(low), b.builder.getF64FloatAttr(high)));
}

/// [N, C, d...] with the classes last.
Value classesLast(NodeBuilder &b, Value x) { return b.transpose(x, lastPermutation(1, shapeOf(x).size())); }

std::optional<int64_t> ignoreIndex(NodeBuilder &b) {
  return b.hasAttr("ignore_index") ? std::optional(b.intAttr("ignore_index", 0)) : std::nullopt;
}

LogicalResult checkLabels(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 2)) || failed(b.require(1, 1)))
    return failure();
  SmallVector<int64_t> expected(shapeOf(b.input(0)));
  expected.erase(expected.begin() + 1);
  Type type = tensorType(b.input(1)).getElementType();
  if (shapeOf(b.input(1)) != ArrayRef<int64_t>(expected) || (!type.isInteger(32) && !type.isInteger(64)))
    return b.error() << "labels are " << tensorType(b.input(1)) << ", which do not fit scores of "
                     << tensorType(b.input(0));
  if (b.has(2) && (failed(b.requireFloat(2)) || shapeOf(b.input(2)) != ArrayRef<int64_t>{shapeOf(b.input(0))[1]}))
    return b.error() << "the class weights do not fit scores of " << tensorType(b.input(0));
  std::string reduction = b.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return b.error() << "reduction is '" << reduction << "', expected mean, sum or none";
  // Those that data give are checked as they are read.
  std::optional<int64_t> ignore = ignoreIndex(b);
  int64_t classes = shapeOf(b.input(0))[1];
  if (std::optional<HostTensor> labels = constantOf(b.input(1)))
    for (int64_t label : labels->ints())
      if ((label < 0 || label >= classes) && label != ignore)
        return b.error() << "label " << label << " (in '" << b.node.inputs[1] << "') is outside 0 to " << classes - 1
                         << ", the classes of '" << b.node.inputs[0] << "'";
  return success();
}

LogicalResult softmaxCrossEntropyLoss(NodeBuilder &b) {
  if (failed(checkLabels(b)))
    return failure();
  Value logits = classesLast(b, b.input(0));
  FailureOr<Value> loss =
      crossEntropy(b, logits, b.input(1), b.input(2), ignoreIndex(b), b.stringAttr("reduction", "mean"));
  if (failed(loss))
    return failure();
  if (b.isUsed(1))
    (void)b.set(1, b.transpose(b.make<LogSoftmaxOp>(logits), inverse(lastPermutation(1, shapeOf(logits).size()))));
  return b.result(*loss);
}

/// What counts a row: 0 where the label is ignored, else 1 or its class's weight; null: all count 1.
Value rowWeights(NodeBuilder &b, Value labels, Value weight, std::optional<int64_t> ignore, Type type) {
  RankedTensorType rows = tensorType(labels).clone(type);
  if (!ignore && !weight)
    return {};
  Value zero = b.splat(rows, 0), valid, counted = b.splat(rows, 1);
  Value safe = labels;
  if (ignore) {
    valid = b.make<CompareOp>(Predicate::ne, labels, b.splat(tensorType(labels), *ignore));
    safe = b.make<SelectOp>(valid, labels, b.splat(tensorType(labels), 0));
  }
  if (weight)
    counted = b.make<GatherOp>(b.cast(weight, type), safe, 0);
  return ignore ? b.make<SelectOp>(valid, counted, zero) : counted;
}

/// Losses of rows, weighted and reduced.
Value reduceLosses(NodeBuilder &b, Value losses, Value weights, bool classWeights, StringRef reduction) {
  if (weights && classWeights)
    losses = b.make<MulOp>(losses, weights);
  if (reduction == "none")
    return losses;
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < shapeOf(losses).size(); ++i)
    dims.push_back(i);
  Value sum = b.reduce(ReduceKind::sum, losses, dims);
  if (reduction == "sum")
    return sum;
  Value count = weights ? b.reduce(ReduceKind::sum, weights, dims)
                        : b.splat(tensorType(sum), tensorType(losses).getNumElements());
  return quotientLoss(b, sum, count);
}

/// -scores[label], scores being logarithms already.
LogicalResult negativeLogLikelihoodLoss(NodeBuilder &b) {
  if (failed(checkLabels(b)))
    return failure();
  Value scores = classesLast(b, b.input(0)), labels = b.input(1);
  tellNormalizedScores(b.graph, scores, "cross_entropy");
  std::optional<int64_t> ignore = ignoreIndex(b);
  Type type = tensorType(scores).getElementType();
  Value weights = rowWeights(b, labels, b.input(2), ignore, type), safe = labels;
  if (ignore)
    safe = b.make<SelectOp>(b.make<CompareOp>(Predicate::ne, labels, b.splat(tensorType(labels), *ignore)), labels,
                            b.splat(tensorType(labels), 0));
  SmallVector<int64_t> rows(shapeOf(labels)), single(rows);
  single.push_back(1);
  Value losses =
      b.make<NegOp>(b.reshape(b.make<GatherElementsOp>(scores, b.reshape(safe, single), (int64_t)rows.size()), rows));
  if (ignore && !b.has(2))
    losses = b.make<SelectOp>(b.make<CompareOp>(Predicate::ne, labels, b.splat(tensorType(labels), *ignore)), losses,
                              b.splat(tensorType(losses), 0));
  return b.result(reduceLosses(b, losses, weights, b.has(2), b.stringAttr("reduction", "mean")));
}

const OpEntry kOps[] = {
    {"Softmax", "", 1, 0, softmax<SoftmaxOp>},
    {"LogSoftmax", "", 1, 0, softmax<LogSoftmaxOp>},
    {"LayerNormalization", "", 17, 0, layerNorm<false>},
    {"RMSNormalization", "", 23, 0, layerNorm<true>},
    {"GroupNormalization", "", 18, 0, groupNorm},
    {"InstanceNormalization", "", 6, 0, groupNorm},
    {"Attention", "", 23, 0, attention},
    {"Dropout", "", 7, 0, dropout},
    {"RandomUniformLike", "", 1, 0, randomUniformLike},
    {"SoftmaxCrossEntropyLoss", "", 12, 0, softmaxCrossEntropyLoss},
    {"NegativeLogLikelihoodLoss", "", 12, 0, negativeLogLikelihoodLoss},
};

} // namespace

ArrayRef<OpEntry> onnx_import::neuralOps() { return kOps; }

Value onnx_import::quotientLoss(NodeBuilder &b, Value sum, Value count) {
  // No valid label at all gives 0 / 1, not NaN.
  Value zero = b.splat(tensorType(count), 0), one = b.splat(tensorType(count), 1);
  Value divisor = b.make<SelectOp>(b.make<CompareOp>(Predicate::eq, count, zero), one, count);
  Value loss = b.make<DivOp>(sum, divisor);
  b.graph.losses[loss] = {sum, count};
  return loss;
}

FailureOr<Value> onnx_import::crossEntropy(NodeBuilder &b, Value logits, Value labels, Value weight,
                                           std::optional<int64_t> ignore, StringRef reduction) {
  tellNormalizedScores(b.graph, logits, "cross_entropy");
  Value losses = b.makeAll<CrossEntropyOp>(logits, labels, ignore)[0];
  Value weights = rowWeights(b, labels, weight, ignore, tensorType(losses).getElementType());
  return reduceLosses(b, losses, weights, bool(weight), reduction);
}
