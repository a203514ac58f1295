// Ops that choose elements by index tensors, and ops along one dimension, in random graphs.
#include "GraphBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Indices into [-end, end), mostly from 0 on.
static int64_t drawIndex(GraphBuilder &b, int64_t end) { return b.chance(.2) ? -1 - b.pick(end) : b.pick(end); }

static int64_t lowest(GraphBuilder &b, int64_t end) { return b.chance(.3) ? -end : 0; }

/// Rows of a table by data, or elements along another dimension than the batch.
static void gather(GraphBuilder &b, Node x) {
  if (b.chance(.6)) {
    int64_t rows = b.between(2, 6), width = b.size(), length = b.size();
    Value ids = b.integerInput({b.batch, length}, 0, lowest(b, rows), rows);
    std::optional<int64_t> padding;
    if (b.chance(.3))
      padding = b.pick(rows);
    Value y = b.make<GatherOp>(b.parameter({rows, width}), ids, 0, padding);
    return b.add({y, 0, 1, 1});
  }
  x = b.withRank(x, b.between(2, 3));
  int64_t dim = b.between(1, shapeOf(x.value).size() - 1), size = shapeOf(x.value)[dim];
  Shape shape;
  for (int64_t rank = b.pick(3); rank > 0; --rank)
    shape.push_back(b.between(1, 3));
  Value ids = b.chance(.5) ? b.indices(shape, [&](int64_t) { return drawIndex(b, size); })
                           : b.integerInput(shape, -1, lowest(b, size), size);
  b.add({b.make<GatherOp>(x.value, ids, dim), 0, 1, x.bound});
}

static void scatterAdd(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 3));
  int64_t dim = b.between(1, shapeOf(x.value).size() - 1), end = b.between(1, 5);
  Shape shape(shapeOf(x.value));
  if (b.chance(.2)) { // each sample adds to rows that all share
    Value ids = b.integerInput({b.batch}, 0, 0, end);
    shape[0] = end;
    return b.addSum(b.make<ScatterAddOp>(b.tensor(shape), b.within(x, 2).value, ids, 0));
  }
  Value ids = b.chance(.5) ? b.indices({shape[dim]}, [&](int64_t) { return drawIndex(b, end); })
                           : b.integerInput({shape[dim]}, -1, 0, end);
  shape[dim] = end;
  b.add({b.make<ScatterAddOp>(b.tensor(shape), x.value, ids, dim), 0, 1, 2 * x.bound});
}

static void gatherElements(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  Shape shape(shapeOf(x.value));
  int64_t dim = b.between(1, shape.size() - 1), size = shape[dim];
  shape[dim] = b.between(1, 4);
  for (size_t i = 1; i < shape.size(); ++i)
    if (static_cast<int64_t>(i) != dim)
      shape[i] = b.between(1, shape[i]);
  Value ids = b.integerInput(shape, 0, lowest(b, size), size);
  b.add({b.make<GatherElementsOp>(x.value, ids, dim), 0, 1, x.bound});
}

static void scatterElementsAdd(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 3));
  Shape shape(shapeOf(x.value));
  int64_t dim = b.between(1, shape.size() - 1), end = b.between(1, 5);
  Value ids = b.integerInput(shape, 0, 0, end);
  shape[dim] = end;
  b.add({b.make<ScatterElementsAddOp>(b.tensor(shape), x.value, ids, b.builder.getI64IntegerAttr(dim)), 0, 1,
         2 * x.bound});
}

static void gatherNd(GraphBuilder &b, Node x) {
  if (b.chance(.4)) {
    Shape table{b.between(2, 3), b.between(1, 4), b.size()};
    Value ids = b.integerInput({b.batch, b.between(1, 3), 2}, 0, 0, std::min(table[0], table[1]));
    return b.add({b.make<GatherNdOp>(b.parameter(table), ids, 0), 0, 1, 1});
  }
  x = b.withRank(x, 3);
  int64_t end = shapeOf(x.value)[1];
  Value ids = b.integerInput({b.batch, b.between(1, 4), 1}, 0, lowest(b, end), end);
  b.add({b.make<GatherNdOp>(x.value, ids, 1), 0, 1, x.bound});
}

static void scatterNd(GraphBuilder &b, Node x) {
  x = b.withRank(x, 3);
  Shape shape(shapeOf(x.value));
  int64_t rows = b.between(1, shape[1]);
  Shape updates{shape[0], rows, shape[2]};
  Value y;
  if (b.chance(.5)) { // samples by their own indices, added
    Value ids = b.integerInput({b.batch, rows, 1}, 0, lowest(b, shape[1]), shape[1]);
    Node like = x;
    if (rows != shape[1])
      like.value =
          SliceOp::create(b.builder, b.location("slice"), b.tensor(updates), x.value, Shape(3, 0), Shape(3, 1));
    y = ScatterNdOp::create(b.builder, b.location("scatter_nd"), x.value.getType(), x.value, ids, b.partner(like).value,
                            ScatterReduction::add, 1);
  } else { // rows of all samples, replaced: [rows, samples, width]
    Value turned = b.transpose(x.value, {1, 0, 2});
    int64_t first = b.pick(shape[1]);
    Value ids = b.indices({rows, 1}, [&](int64_t i) { return (first + i) % shape[1]; });
    Value data = b.broadcast(b.parameter({rows, 1, shape[2]}), {rows, shape[0], shape[2]});
    y = ScatterNdOp::create(b.builder, b.location("scatter_nd"), turned.getType(), turned, ids, data,
                            b.chance(.7) ? ScatterReduction::none : ScatterReduction::add, 0);
    y = b.transpose(y, {1, 0, 2});
  }
  b.add({y, 0, 1, 4 * x.bound});
}

static void cumsum(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 3));
  int64_t dim = b.between(1, shapeOf(x.value).size() - 1);
  auto flag = [&] { return b.chance(.4) ? b.builder.getUnitAttr() : UnitAttr(); };
  UnitAttr exclusive = flag(), reverse = flag();
  b.add({b.make<CumsumOp>(x.value.getType(), x.value, b.builder.getI64IntegerAttr(dim), exclusive, reverse), 0, 1,
         2 * x.bound});
}

static void topK(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 3));
  int64_t dim = b.between(1, shapeOf(x.value).size() - 1);
  auto top = b.make<TopKOp>(x.value, dim, b.between(1, shapeOf(x.value)[dim]));
  b.add({top.getValues(), 0, 1, x.bound});
  if (b.chance(.5)) // what another value has where x is largest
    b.add({b.make<GatherElementsOp>(b.partner(x).value, top.getIndices(), dim), 0, 1, 4});
}

/// No gradient passes, but it chooses.
static void argMax(GraphBuilder &b, Node x) {
  x = b.withRank(x, 2);
  Value at = b.make<ArgMaxOp>(x.value, 1, b.chance(.3));
  Value column = b.reshape(at, {b.batch, 1});
  b.add({b.make<GatherElementsOp>(b.partner(x).value, column, 1), 0, 1, 4});
}

ArrayRef<Entry> mlir::scrimp::indexingEntries() {
  static const Entry entries[] = {
      {"gather", gather, 2},
      {"scatter_add", scatterAdd},
      {"gather_elements", gatherElements},
      {"scatter_elements_add", scatterElementsAdd},
      {"gather_nd", gatherNd},
      {"scatter_nd", scatterNd},
      {"cumsum", cumsum},
      {"top_k", topK},
      {"arg_max", argMax, .5},
  };
  return entries;
}
