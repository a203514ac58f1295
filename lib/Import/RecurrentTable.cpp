// The op table: recurrent layers, unrolled over their steps. Gradients then flow through time like through anything.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

/// The operands of one direction: w [G*H, I], r [G*H, H], biases [G*H] or null, states [B, H].
struct Direction {
  Value w, r, inputBias, recurrentBias, h, c;
  bool reverse;
};

/// Sizes common to all directions, and the input with the steps first.
struct Layer {
  Value x; // [T, B, I]
  int64_t steps, batch, width, hidden, gates;
  bool batchFirst;
};

Value takeDirection(NodeBuilder &b, Value value, int64_t direction) {
  Value piece = b.sliceDim(value, 0, direction, 1);
  return b.reshape(piece, SmallVector<int64_t>(shapeOf(piece).drop_front()));
}

/// x W^T + b, for all steps at once or one of them.
Value affine(NodeBuilder &b, Value x, Value w, Value bias) {
  Value y = b.make<MatmulOp>(x, w, false, true);
  return bias ? b.make<AddOp>(y, b.broadcast(bias, SmallVector<int64_t>(shapeOf(y)))) : y;
}

FailureOr<Layer> readLayer(NodeBuilder &b, int64_t gates, unsigned peephole) {
  Layer layer;
  layer.gates = gates;
  for (unsigned i = 0; i < 3; ++i)
    if (failed(b.requireFloat(i)) || failed(b.requireRank(i, 3)))
      return failure();
  layer.batchFirst = b.intAttr("layout", 0);
  layer.x = layer.batchFirst ? b.transpose(b.input(0), {1, 0, 2}) : b.input(0);
  ArrayRef<int64_t> x = shapeOf(layer.x), r = shapeOf(b.input(2));
  layer.steps = x[0];
  layer.batch = x[1];
  layer.width = x[2];
  layer.hidden = r[2];
  std::string direction = b.stringAttr("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    b.error() << "direction is '" << direction << "', expected forward, reverse or bidirectional";
    return failure();
  }
  if (int64_t hidden = b.intAttr("hidden_size", layer.hidden); hidden != layer.hidden) {
    b.error() << "hidden_size is " << hidden << ", but the weight '" << b.node.inputs[2] << "' ("
              << tensorType(b.input(2)) << ") has " << layer.hidden;
    return failure();
  }
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (shapeOf(b.input(1)) != ArrayRef<int64_t>{directions, gates * layer.hidden, layer.width} ||
      r != ArrayRef<int64_t>{directions, gates * layer.hidden, layer.hidden}) {
    b.error() << "weights " << tensorType(b.input(1)) << " and " << tensorType(b.input(2)) << " do not fit an input of "
              << tensorType(b.input(0)) << " and " << directions << " directions";
    return failure();
  }
  if (b.has(4)) { // all sequences at full length are as good as none given
    FailureOr<SmallVector<int64_t>> lengths = b.constantInts(4, "sequence_lens");
    if (failed(lengths))
      return failure();
    if (llvm::any_of(*lengths, [&](int64_t length) { return length != layer.steps; })) {
      b.error() << "sequences of different lengths are not supported";
      return failure();
    }
  }
  if ((peephole && b.has(peephole)) || b.hasAttr("clip") || b.intAttr("input_forget", 0)) {
    b.error() << "peepholes, clip and input_forget are not supported";
    return failure();
  }
  if (const AttributeValue *activations = b.find("activations", AttributeValue::Strings)) {
    static const std::vector<std::string> expected[] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    const std::vector<std::string> &wanted = expected[gates == 1 ? 0 : gates == 3 ? 1 : 2];
    for (auto [i, name] : llvm::enumerate(activations->strings))
      if (name != wanted[i % wanted.size()]) {
        b.error() << "activation '" << name << "' is not supported, only the default '" << wanted[i % wanted.size()]
                  << "'";
        return failure();
      }
  }
  for (StringRef unused : {"activation_alpha", "activation_beta"}) // the default ones have none
    b.pass(unused);
  return layer;
}

/// Runs `step(xt, direction)`, which updates the states, over all steps of all directions and sets the outputs.
template <typename Step> LogicalResult unroll(NodeBuilder &b, Layer &layer, bool hasCell, Step step) {
  int64_t directions = shapeOf(b.input(1))[0], gh = layer.gates * layer.hidden;
  std::string direction = b.stringAttr("direction", "forward");
  Type type = tensorType(layer.x).getElementType();
  auto state = [&](unsigned i, int64_t d) {
    if (!b.has(i))
      return b.splat(RankedTensorType::get({layer.batch, layer.hidden}, type), 0);
    Value value = layer.batchFirst ? b.transpose(b.input(i), {1, 0, 2}) : b.input(i);
    return takeDirection(b, value, d);
  };
  SmallVector<Value> all, lastH, lastC;
  for (int64_t d = 0; d < directions; ++d) {
    Direction run;
    run.w = takeDirection(b, b.input(1), d);
    run.r = takeDirection(b, b.input(2), d);
    if (b.has(3)) {
      Value bias = takeDirection(b, b.input(3), d);
      run.inputBias = b.sliceDim(bias, 0, 0, gh);
      run.recurrentBias = b.sliceDim(bias, 0, gh, gh);
    }
    run.h = state(5, d);
    if (hasCell)
      run.c = state(6, d);
    run.reverse = direction == "reverse" || d == 1;
    // The inputs' part of all steps is one product.
    Value projected = affine(b, b.reshape(layer.x, {layer.steps * layer.batch, layer.width}), run.w, run.inputBias);
    SmallVector<Value> hs(layer.steps);
    for (int64_t i = 0; i < layer.steps; ++i) {
      int64_t t = run.reverse ? layer.steps - 1 - i : i;
      step(b.sliceDim(projected, 0, t * layer.batch, layer.batch), run);
      hs[t] = b.reshape(run.h, {1, 1, layer.batch, layer.hidden});
    }
    all.push_back(hs.size() == 1
                      ? hs[0]
                      : b.make<ConcatOp>(RankedTensorType::get({layer.steps, 1, layer.batch, layer.hidden}, type), hs,
                                         b.builder.getI64IntegerAttr(0)));
    lastH.push_back(b.reshape(run.h, {1, layer.batch, layer.hidden}));
    if (hasCell)
      lastC.push_back(b.reshape(run.c, {1, layer.batch, layer.hidden}));
  }
  auto join = [&](ArrayRef<Value> parts, int64_t dim) {
    if (parts.size() == 1)
      return parts[0];
    SmallVector<int64_t> shape(shapeOf(parts[0]));
    shape[dim] = parts.size();
    return b.make<ConcatOp>(RankedTensorType::get(shape, type), parts, b.builder.getI64IntegerAttr(dim));
  };
  Value y = join(all, 1), h = join(lastH, 0), c = hasCell ? join(lastC, 0) : Value();
  (void)b.set(0, layer.batchFirst ? b.transpose(y, {2, 0, 1, 3}) : y);
  (void)b.set(1, layer.batchFirst ? b.transpose(h, {1, 0, 2}) : h);
  if (hasCell)
    (void)b.set(2, layer.batchFirst ? b.transpose(c, {1, 0, 2}) : c);
  return success();
}

/// Gates i, o, f, c: c' = f c + i tanh(c~), h' = o tanh(c').
LogicalResult lstm(NodeBuilder &b) {
  FailureOr<Layer> layer = readLayer(b, 4, 7);
  if (failed(layer))
    return failure();
  int64_t n = layer->hidden;
  return unroll(b, *layer, true, [&](Value x, Direction &run) {
    Value sum = b.make<AddOp>(x, affine(b, run.h, run.r, run.recurrentBias));
    auto gate = [&](int64_t i) { return b.sliceDim(sum, 1, i * n, n); };
    Value input = b.make<SigmoidOp>(gate(0)), output = b.make<SigmoidOp>(gate(1)), forget = b.make<SigmoidOp>(gate(2));
    run.c = b.make<AddOp>(b.make<MulOp>(forget, run.c), b.make<MulOp>(input, b.make<TanhOp>(gate(3))));
    run.h = b.make<MulOp>(output, b.make<TanhOp>(run.c));
  });
}

/// Gates z, r, h: h' = (1 - z) h~ + z h; the reset gate acts before or after the recurrent product.
LogicalResult gru(NodeBuilder &b) {
  FailureOr<Layer> layer = readLayer(b, 3, 0);
  if (failed(layer))
    return failure();
  int64_t n = layer->hidden;
  bool after = b.intAttr("linear_before_reset", 0);
  return unroll(b, *layer, false, [&](Value x, Direction &run) {
    auto rows = [&](Value v, int64_t i, int64_t count) { return v ? b.sliceDim(v, 0, i * n, count * n) : Value(); };
    Value gates =
        b.make<AddOp>(b.sliceDim(x, 1, 0, 2 * n), affine(b, run.h, rows(run.r, 0, 2), rows(run.recurrentBias, 0, 2)));
    Value z = b.make<SigmoidOp>(b.sliceDim(gates, 1, 0, n)), r = b.make<SigmoidOp>(b.sliceDim(gates, 1, n, n));
    Value recurrent;
    if (after)
      recurrent = b.make<MulOp>(r, affine(b, run.h, rows(run.r, 2, 1), rows(run.recurrentBias, 2, 1)));
    else
      recurrent = affine(b, b.make<MulOp>(r, run.h), rows(run.r, 2, 1), rows(run.recurrentBias, 2, 1));
    Value candidate = b.make<TanhOp>(b.make<AddOp>(b.sliceDim(x, 1, 2 * n, n), recurrent));
    Value keep = b.make<SubOp>(b.splat(tensorType(z), 1), z);
    run.h = b.make<AddOp>(b.make<MulOp>(keep, candidate), b.make<MulOp>(z, run.h));
  });
}

LogicalResult rnn(NodeBuilder &b) {
  FailureOr<Layer> layer = readLayer(b, 1, 0);
  if (failed(layer))
    return failure();
  return unroll(b, *layer, false, [&](Value x, Direction &run) {
    run.h = b.make<TanhOp>(b.make<AddOp>(x, affine(b, run.h, run.r, run.recurrentBias)));
  });
}

const OpEntry kOps[] = {
    {"LSTM", "", 7, 0, lstm},
    {"GRU", "", 7, 0, gru},
    {"RNN", "", 7, 0, rnn},
};

} // namespace

ArrayRef<OpEntry> onnx_import::recurrentOps() { return kOps; }
