// Ops that move, join and reduce elements, products, and constructs around the batch, in random graphs.
#include "GraphBuilder.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

static void broadcast(GraphBuilder &b, Node x) {
  x = b.front(x);
  Shape shape(shapeOf(x.value));
  shape.insert(shape.begin() + b.between(1, shape.size()), 1);
  Shape wide(shape);
  for (auto [i, size] : llvm::enumerate(wide))
    if (i > 0 && size == 1 && b.chance(.8))
      size = b.between(1, 3);
  b.add({b.broadcast(b.reshape(x.value, shape), wide), 0, 1, x.bound});
}

/// The batch is merged with what follows it, or parted from it again.
static void reshape(GraphBuilder &b, Node x) {
  Node y = b.front(x);
  Shape shape(shapeOf(y.value));
  if (b.chance(.5) && shape.size() > 1) {
    int64_t rest = shape[1];
    Shape merged{shape[0] * rest};
    merged.append(shape.begin() + 2, shape.end());
    return b.add({b.reshape(y.value, merged), 0, rest, x.bound});
  }
  b.add(b.withRank(x, b.between(2, 5)));
}

static void transpose(GraphBuilder &b, Node x) {
  if (shapeOf(x.value).size() < 2)
    x = b.withRank(x, 3);
  int64_t rank = shapeOf(x.value).size();
  Shape permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  while (llvm::is_sorted(permutation))
    for (int64_t i = rank - 1; i > 0; --i)
      std::swap(permutation[i], permutation[b.pick(i + 1)]);
  int64_t dim = x.dim < 0 ? -1 : llvm::find(permutation, x.dim) - permutation.begin();
  b.add({b.transpose(x.value, permutation), dim, x.rest, x.bound});
}

/// Every dimension but the batch.
static void slice(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  Shape shape(shapeOf(x.value)), starts(shape.size(), 0), strides(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) {
    int64_t size = shape[i];
    strides[i] = b.chance(.7) ? 1 : b.chance(.5) ? 2 : -1;
    shape[i] = b.between(1, strides[i] == 2 ? (size + 1) / 2 : size);
    int64_t span = std::abs(strides[i]) * (shape[i] - 1), room = size - 1 - span;
    starts[i] = b.pick(room + 1) + (strides[i] < 0 ? span : 0);
  }
  Value y = SliceOp::create(b.builder, b.location("slice"), b.tensor(shape), x.value, starts, strides);
  b.add(y, x, x.bound);
}

static void pad(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  Shape shape(shapeOf(x.value)), starts(shape.size(), 0), strides(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) {
    strides[i] = b.chance(.8) ? 1 : b.chance(.5) ? 2 : -1;
    int64_t span = std::abs(strides[i]) * (shape[i] - 1), before = b.pick(3), after = b.pick(2);
    starts[i] = before + (strides[i] < 0 ? span : 0);
    shape[i] = before + span + 1 + after;
  }
  Value y = PadOp::create(b.builder, b.location("pad"), b.tensor(shape), x.value, starts, strides,
                          APFloat(b.chance(.5) ? 0.0 : b.number(-1, 1)));
  b.add(y, x, std::max(1.0, x.bound));
}

static void concat(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  int64_t dim = b.between(1, shapeOf(x.value).size() - 1);
  SmallVector<Value> parts{x.value};
  Shape shape(shapeOf(x.value));
  double bound = x.bound;
  for (int64_t more = b.between(1, 2); more > 0; --more) {
    Node part = b.partner(x);
    bound = std::max(bound, part.bound);
    parts.insert(parts.begin() + b.pick(parts.size() + 1), part.value);
    shape[dim] += shapeOf(x.value)[dim];
  }
  Value y = ConcatOp::create(b.builder, b.location("concat"), b.tensor(shape), parts, dim);
  b.add(y, x, bound);
}

/// Two batches become one, of which halves are taken afterwards (preference losses).
static void joinedBatches(GraphBuilder &b, Node x) {
  x = b.withRank(x, 2);
  Node other = b.partner(x);
  Shape shape(shapeOf(x.value)), twice(shape);
  twice[0] *= 2;
  Value joined =
      ConcatOp::create(b.builder, b.location("concat"), b.tensor(twice), ValueRange{x.value, other.value}, 0);
  Value y = b.make<TanhOp>(b.project(joined, shape[1]));
  Shape none(2, 0), one(2, 1), later{b.batch, 0};
  Value first = SliceOp::create(b.builder, b.location("slice"), b.tensor(shape), y, none, one);
  Value second = SliceOp::create(b.builder, b.location("slice"), b.tensor(shape), y, later, one);
  b.add(b.make<SubOp>(first, second), x, 2);
}

static void reduce(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  ArrayRef<int64_t> shape = shapeOf(x.value);
  Shape dims;
  int64_t count = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    if (b.chance(.6)) {
      dims.push_back(i);
      count *= shape[i];
    }
  static const ReduceKind kinds[] = {ReduceKind::sum, ReduceKind::sum, ReduceKind::max, ReduceKind::min,
                                     ReduceKind::prod};
  ReduceKind kind = kinds[b.pick(count > 6 ? 4 : 5)];
  if (kind == ReduceKind::prod)
    x = b.within(x, 1.5);
  double bound = kind == ReduceKind::sum ? x.bound * std::sqrt(count) : kind == ReduceKind::prod ? 10 : x.bound;
  b.add(b.make<ReduceOp>(kind, x.value, dims), x, bound);
}

static void matmul(GraphBuilder &b, Node x) {
  switch (b.pick(4)) {
  case 0: { // rows of samples
    x = b.withRank(x, 3);
    Shape shape(shapeOf(x.value));
    Value y = b.project(b.reshape(x.value, {shape[0] * shape[1], shape[2]}), b.size());
    return b.add({y, 0, shape[1], x.bound * std::sqrt(shape[2])});
  }
  case 1: { // samples apart, by a weight that is repeated
    x = b.withRank(x, 3);
    Shape shape(shapeOf(x.value));
    int64_t columns = b.size();
    bool transposeA = b.chance(.3), transposeB = b.chance(.3);
    int64_t inner = transposeA ? shape[1] : shape[2];
    Value w = b.parameter(transposeB ? Shape{columns, inner} : Shape{inner, columns});
    Shape wide{shape[0]};
    llvm::append_range(wide, shapeOf(w));
    Value y = b.make<MatmulOp>(x.value, b.broadcast(w, wide), transposeA, transposeB);
    return b.add({y, 0, 1, x.bound * std::sqrt(inner)});
  }
  case 2: { // of two values
    x = b.within(b.withRank(x, b.between(3, 4)), 4);
    Node other = b.within(b.partner(x), 4);
    bool transposeA = b.chance(.5);
    Value y = b.make<MatmulOp>(x.value, other.value, transposeA, !transposeA);
    return b.add({y, 0, 1, x.bound * other.bound * 2});
  }
  default: { // of two parameters, before it meets a sample
    x = b.withRank(x, 2);
    int64_t inner = b.size(), columns = b.size();
    Value w = b.make<MatmulOp>(b.parameter({shapeOf(x.value)[1], inner}), b.parameter({inner, columns}));
    return b.add({b.make<MatmulOp>(x.value, w), 0, 1, x.bound * 2});
  }
  }
}

/// What depends on parameters alone.
static void weights(GraphBuilder &b, Node) {
  Shape shape;
  for (int64_t rank = b.between(0, 3); rank > 0; --rank)
    shape.push_back(b.size());
  Value w = b.parameter(shape);
  b.add({b.make<TanhOp>(w), -1, 1, 1});
}

/// A sum over samples, and one of features that each sample adds to.
static void sumOverSamples(GraphBuilder &b, Node x) {
  x = b.within(b.withRank(x, b.between(2, 3)), 4);
  Value y = b.make<TanhOp>(b.make<MulOp>(x.value, b.partner(x).value));
  if (b.chance(.5))
    return b.addSum(b.make<ReduceOp>(ReduceKind::sum, y, ArrayRef<int64_t>{0}));
  Node flat = b.withRank(x, 2);
  b.addSum(b.make<MatmulOp>(flat.value, b.within(b.partner(flat), 4).value, true, false));
}

/// Samples are compared with the mean of the batch: of data that can be computed beforehand, else it cannot be split.
static void batchMean(GraphBuilder &b, Node x) {
  Node y = b.front(x);
  if (b.chance(.9))
    y.value = b.input(shapeOf(y.value), 0);
  Value mean = b.make<ReduceOp>(ReduceKind::sum, y.value, ArrayRef<int64_t>{0});
  mean = b.make<MulOp>(mean, b.broadcast(b.splat(b.tensor({}), 1.0 / b.batch), shapeOf(mean)));
  Shape shape(shapeOf(y.value)), one(shape);
  one[0] = 1;
  Value centred = b.make<SubOp>(b.front(x).value, b.broadcast(b.reshape(mean, one), shape));
  b.add({centred, 0, 1, x.bound + 2});
}

ArrayRef<Entry> mlir::scrimp::shapeEntries() {
  static const Entry entries[] = {
      {"broadcast", broadcast},
      {"reshape", reshape, 2},
      {"transpose", transpose, 2},
      {"slice", slice},
      {"pad", pad},
      {"concat", concat},
      {"reduce", reduce, 2},
      {"matmul", matmul, 6},
      {"joined batches", joinedBatches, .5},
      {"weights", weights, .7},
      {"sum over samples", sumOverSamples, .7},
      {"batch mean", batchMean, .4},
  };
  return entries;
}
