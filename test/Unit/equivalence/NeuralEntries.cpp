// Softmax, norms, cross entropy, attention in all its forms, and random ops, in random graphs.
#include "GraphBuilder.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

template <typename Op, int out> static void ofRows(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  b.add({b.make<Op>(x.value), 0, 1, out + (out > 1 ? x.bound : 0)});
}

/// Statistics are values like any other.
static void addStatistics(GraphBuilder &b, ArrayRef<Value> statistics) {
  for (Value statistic : statistics)
    if (b.chance(.2))
      b.add(b.within({statistic, 0, 1, 10}, 2));
}

static void layerNorm(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  ArrayRef<int64_t> shape = shapeOf(x.value);
  int64_t axis = b.between(1, shape.size() - 1);
  auto parameter = [&] { return b.chance(.8) ? b.parameter(shape.drop_front(axis)) : Value(); };
  Value scale = parameter(), bias = parameter();
  auto norm = b.make<LayerNormOp>(x.value, scale, bias, axis, 1e-2);
  b.add({norm.getY(), 0, 1, 4});
  addStatistics(b, {norm.getMean(), norm.getRstd()});
}

static void rmsNorm(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  ArrayRef<int64_t> shape = shapeOf(x.value);
  int64_t axis = b.between(1, shape.size() - 1);
  auto norm = b.make<RmsNormOp>(x.value, b.chance(.8) ? b.parameter(shape.drop_front(axis)) : Value(), axis, 1e-2);
  b.add({norm.getY(), 0, 1, 4});
  addStatistics(b, {norm.getRstd()});
}

static void crossEntropy(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 3));
  Shape rows(shapeOf(x.value));
  int64_t classes = rows.pop_back_val();
  std::optional<int64_t> ignore;
  if (b.chance(.6))
    ignore = b.chance(.5) ? -100 : 0;
  Value labels = b.integerInput(rows, 0, 0, classes, ignore);
  auto entropy = b.make<CrossEntropyOp>(x.value, labels, ignore);
  b.add({entropy.getLoss(), 0, 1, 2 + 2 * x.bound});
  addStatistics(b, {entropy.getLse()});
}

static void dropout(GraphBuilder &b, Node x) {
  if (x.dim < 0)
    x = b.front(x);
  auto [seed, step, base] = b.drawScalars();
  auto y = DropoutOp::create(b.builder, b.location("dropout"), x.value.getType(), x.value, seed, step, base, Value(),
                             b.builder.getI64IntegerAttr(b.nextKey()), b.builder.getI64IntegerAttr(x.dim),
                             b.builder.getI64IntegerAttr(b.batch), DenseI64ArrayAttr(),
                             b.builder.getF64FloatAttr(b.chance(.5) ? .5 : .2));
  b.add(y, x, 2 * x.bound);
}

static void randomUniform(GraphBuilder &b, Node x) {
  if (x.dim < 0)
    x = b.front(x);
  auto [seed, step, base] = b.drawScalars();
  Value noise =
      RandomUniformOp::create(b.builder, b.location("random_uniform"), x.value.getType(), seed, step, base, Value(),
                              b.builder.getI64IntegerAttr(b.nextKey()), b.builder.getI64IntegerAttr(x.dim),
                              b.builder.getI64IntegerAttr(b.batch), DenseI64ArrayAttr(), b.builder.getF64FloatAttr(-1),
                              b.builder.getF64FloatAttr(2));
  b.add(b.make<MulOp>(x.value, noise), x, 2 * x.bound);
}

/// [samples, heads, length, width] of [samples, length, features].
static Value heads(GraphBuilder &b, const Node &x, int64_t heads, int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(x.value);
  Value rows = b.project(b.reshape(x.value, {shape[0] * shape[1], shape[2]}), heads * width);
  return b.transpose(b.reshape(rows, {shape[0], shape[1], heads, width}), {0, 2, 1, 3});
}

static Value attentionMask(GraphBuilder &b, int64_t heads, int64_t queries, int64_t keys) {
  auto perhaps = [&](int64_t size) { return b.chance(.5) ? size : 1; };
  if (b.chance(.3)) // by distance
    return b.parameter({perhaps(heads), queries + keys - 1});
  Shape shape{perhaps(b.batch), perhaps(heads), perhaps(queries), perhaps(keys)};
  if (b.chance(.4)) { // which keys are seen, by data or by a constant
    Value x = shape[0] == 1 ? b.constant(shape, [&](int64_t) { return b.number(-1, 2); }) : b.input(shape, 0);
    return b.make<CompareOp>(Predicate::gt, x, b.splat(b.tensor(shape), -.5));
  }
  if (shape[0] > 1)
    return b.input(shape, 0);
  return b.parameter(shape);
}

static void attention(GraphBuilder &b, Node x) {
  x = b.within(b.withRank(x, 3), 2);
  int64_t length = shapeOf(x.value)[1];
  int64_t keyHeads = b.between(1, 2), queryHeads = keyHeads * b.between(1, 2), width = b.between(1, 4);
  Node source = x;
  if (b.chance(.3)) { // keys of something else, as long as it is
    Node other = b.within(b.withRank(b.pickNode(), 3), 2);
    if (shapeOf(other.value)[1] <= 12)
      source = other;
  }
  int64_t keys = shapeOf(source.value)[1];
  Value q = heads(b, x, queryHeads, width), k = heads(b, source, keyHeads, width);
  Value v = b.chance(.3) ? k : heads(b, source, keyHeads, b.chance(.5) ? width : b.between(1, 3));
  SmallVector<Value> masks;
  while (b.chance(.4) && masks.size() < 3)
    masks.push_back(attentionMask(b, queryHeads, length, keys));
  Value segments;
  if (length == keys && b.chance(.2))
    segments = b.integerInput({b.batch, length}, 0, 0, 2);
  auto op = b.make<AttentionOp>(q, k, v, masks, segments, b.chance(.5), b.number(.3, 1.0));
  if (b.chance(.3))
    op.setReach(b.between(0, 3), op.getCausal() ? 0 : b.between(0, 3));
  if (b.chance(.4)) {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPoint(op);
    auto [seed, step, base] = b.drawScalars();
    op.getSeedMutable().assign(seed);
    op.getStepMutable().assign(step);
    op.getSampleBaseMutable().assign(base);
    op.setKeyAttr(b.builder.getI64IntegerAttr(b.nextKey()));
    op.setPAttr(b.builder.getF64FloatAttr(.3));
    op.setSamplesAttr(b.builder.getI64IntegerAttr(b.batch));
  }
  b.add({op.getOut(), 0, 1, 2 * x.bound});
  addStatistics(b, {op.getLse()});
}

ArrayRef<Entry> mlir::scrimp::neuralEntries() {
  static const Entry entries[] = {
      {"softmax", ofRows<SoftmaxOp, 1>},
      {"log_softmax", ofRows<LogSoftmaxOp, 3>},
      {"log_sum_exp", ofRows<LogSumExpOp, 3>, .5},
      {"layer_norm", layerNorm, 2},
      {"rms_norm", rmsNorm},
      {"cross_entropy", crossEntropy},
      {"dropout", dropout, 2},
      {"random_uniform", randomUniform, .5},
      {"attention", attention, 3},
  };
  return entries;
}
