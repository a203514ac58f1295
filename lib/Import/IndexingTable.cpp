// The op table: ops that choose elements by index tensors, and ops along one dimension.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

LogicalResult requireIndices(NodeBuilder &b, unsigned i) {
  if (failed(b.require(i, 1)))
    return failure();
  Type type = tensorType(b.input(i)).getElementType();
  if (!type.isInteger(32) && !type.isInteger(64))
    return b.error() << "input " << i << " ('" << b.node.inputs[i] << "') is " << type
                     << ", expected indices of i32 or i64";
  return success();
}

/// Constant indices of input `i` must lie in [-size, size); `axis` is the dimension of input 0 that they choose from.
/// Those that data give are checked as they are read.
LogicalResult checkIndex(NodeBuilder &b, unsigned i, int64_t index, int64_t axis) {
  int64_t size = shapeOf(b.input(0))[axis];
  if (index >= -size && index < size)
    return success();
  return b.error() << "index " << index << " (in '" << b.node.inputs[i] << "') is outside " << -size << " to "
                   << size - 1 << ", what dimension " << axis << " of '" << b.node.inputs[0] << "' ("
                   << tensorType(b.input(0)) << ") has";
}

LogicalResult checkIndices(NodeBuilder &b, unsigned i, int64_t axis) {
  if (std::optional<HostTensor> indices = constantOf(b.input(i)))
    for (int64_t index : indices->ints())
      if (failed(checkIndex(b, i, index, axis)))
        return failure();
  return success();
}

LogicalResult gather(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)) || failed(requireIndices(b, 1)))
    return failure();
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(b.input(0)).size());
  if (failed(axis) || failed(checkIndices(b, 1, *axis)))
    return failure();
  std::optional<int64_t> padding = b.node.padding;
  if (int64_t rows = shapeOf(b.input(0))[*axis]; padding && *padding >= rows)
    return b.error() << "has the padding row " << *padding << ", but only " << rows << " rows";
  return b.result(b.make<GatherOp>(b.input(0), b.input(1), *axis, padding));
}

LogicalResult gatherElements(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)) || failed(requireIndices(b, 1)))
    return failure();
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(b.input(0)).size());
  if (failed(axis))
    return failure();
  if (shapeOf(b.input(1)).size() != shapeOf(b.input(0)).size())
    return b.error() << "the indices have rank " << shapeOf(b.input(1)).size() << ", the data "
                     << shapeOf(b.input(0)).size();
  if (failed(checkIndices(b, 1, *axis)))
    return failure();
  return b.result(b.make<GatherElementsOp>(b.input(0), b.input(1), *axis));
}

/// Whether indices [.., k] and batch dimensions fit data.
LogicalResult checkTuples(NodeBuilder &b, int64_t batchDims) {
  if (failed(b.requireRank(0, 1)) || failed(requireIndices(b, 1)) || failed(b.requireRank(1, 1)))
    return failure();
  ArrayRef<int64_t> data = shapeOf(b.input(0)), indices = shapeOf(b.input(1));
  int64_t limit = std::min(data.size(), indices.size() - 1);
  bool fits = batchDims >= 0 && batchDims <= limit && indices.back() + batchDims <= (int64_t)data.size();
  for (int64_t i = 0; fits && i < batchDims; ++i)
    fits = data[i] == indices[i];
  if (!fits)
    return b.error() << "indices of " << tensorType(b.input(1)) << " with " << batchDims
                     << " batch dimensions do not fit data of " << tensorType(b.input(0));
  if (std::optional<HostTensor> tuples = constantOf(b.input(1)))
    for (auto [i, index] : llvm::enumerate(tuples->ints()))
      if (failed(checkIndex(b, 1, index, batchDims + static_cast<int64_t>(i) % indices.back())))
        return failure();
  return success();
}

LogicalResult gatherNd(NodeBuilder &b) {
  int64_t batchDims = b.intAttr("batch_dims", 0);
  if (failed(checkTuples(b, batchDims)))
    return failure();
  return b.result(b.make<GatherNdOp>(b.input(0), b.input(1), batchDims));
}

LogicalResult scatterNd(NodeBuilder &b) {
  if (failed(checkTuples(b, 0)) || failed(b.require(2, 1)))
    return failure();
  Value x = b.input(0), indices = b.input(1), updates = b.input(2);
  SmallVector<int64_t> expected(shapeOf(indices).drop_back());
  llvm::append_range(expected, shapeOf(x).drop_front(shapeOf(indices).back()));
  if (shapeOf(updates) != ArrayRef<int64_t>(expected) ||
      tensorType(updates).getElementType() != tensorType(x).getElementType())
    return b.error() << "updates are " << tensorType(updates) << ", expected " << tensorType(x).clone(expected);
  std::string reduction = b.stringAttr("reduction", "none");
  if (reduction != "none" && reduction != "add")
    return b.error() << "reduction is '" << reduction << "', supported are none and add";
  return b.result(b.make<ScatterNdOp>(
      tensorType(x), x, indices, updates,
      ScatterReductionAttr::get(b.graph.context, reduction == "add" ? ScatterReduction::add : ScatterReduction::none),
      b.builder.getI64IntegerAttr(0)));
}

LogicalResult cumSum(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)))
    return failure();
  FailureOr<double> given = b.constantScalar(1, "the axis");
  if (failed(given))
    return failure();
  Value x = b.input(0);
  FailureOr<int64_t> axis = b.normalizeAxis(*given, shapeOf(x).size());
  if (failed(axis))
    return failure();
  auto flag = [&](StringRef name) { return b.intAttr(name, 0) ? b.builder.getUnitAttr() : UnitAttr(); };
  return b.result(
      b.make<CumsumOp>(tensorType(x), x, b.builder.getI64IntegerAttr(*axis), flag("exclusive"), flag("reverse")));
}

LogicalResult argMax(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)))
    return failure();
  Value x = b.input(0);
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(x).size());
  if (failed(axis))
    return failure();
  if (b.node.type == "ArgMin")
    x = b.make<NegOp>(x);
  SmallVector<int64_t> kept(shapeOf(x));
  kept[*axis] = 1;
  Value y = b.cast(b.make<ArgMaxOp>(x, *axis, b.intAttr("select_last_index", 0) != 0), b.builder.getI64Type());
  return b.result(b.intAttr("keepdims", 1) ? b.reshape(y, kept) : y);
}

LogicalResult topK(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)))
    return failure();
  b.pass("sorted"); // unsorted leaves the order open
  FailureOr<SmallVector<int64_t>> k = b.constantInts(1, "k");
  if (failed(k))
    return failure();
  Value x = b.input(0);
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", -1), shapeOf(x).size());
  if (failed(axis))
    return failure();
  if (k->size() != 1 || (*k)[0] < 0 || (*k)[0] > shapeOf(x)[*axis])
    return b.error() << "k is " << (k->empty() ? 0 : (*k)[0]) << ", expected one number from 0 to "
                     << shapeOf(x)[*axis];
  bool largest = b.intAttr("largest", 1);
  SmallVector<Value> results = b.makeAll<TopKOp>(largest ? x : b.make<NegOp>(x), *axis, (*k)[0]);
  (void)b.set(0, largest ? results[0] : b.make<NegOp>(results[0]));
  return b.set(1, results[1]);
}

LogicalResult oneHot(NodeBuilder &b) {
  if (failed(b.require(0, 3)))
    return failure();
  FailureOr<double> depth = b.constantScalar(1, "the depth");
  if (failed(depth))
    return failure();
  Type i64 = b.builder.getI64Type();
  Value indices = b.cast(b.input(0), i64), values = b.input(2);
  if (!(*depth >= 0 && *depth <= 1 << 30))
    return b.error() << "the depth is " << *depth << ", expected 0 to " << (1 << 30);
  int64_t rank = shapeOf(indices).size() + 1, count = static_cast<int64_t>(*depth);
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", -1), rank);
  if (failed(axis))
    return failure();
  if (shapeOf(values) != ArrayRef<int64_t>{2})
    return b.error() << "the values are " << tensorType(values) << ", expected two";
  SmallVector<int64_t> shape(shapeOf(indices)), single(shapeOf(indices)), along(rank, 1), numbers;
  shape.insert(shape.begin() + *axis, count);
  single.insert(single.begin() + *axis, 1);
  along[*axis] = count;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(i);
  Value negative = b.make<CompareOp>(Predicate::lt, indices, b.splat(tensorType(indices), 0));
  indices = b.make<SelectOp>(negative, b.make<AddOp>(indices, b.splat(tensorType(indices), count)), indices);
  Value hot = b.make<CompareOp>(Predicate::eq, b.broadcast(b.reshape(indices, single), shape),
                                b.broadcast(b.intConstant(numbers, along), shape));
  auto value = [&](int64_t i) { return b.broadcast(b.sliceDim(values, 0, i, 1), shape); };
  return b.result(b.make<SelectOp>(hot, value(1), value(0)));
}

const OpEntry kOps[] = {
    {"Gather", "", 1, 0, gather},      {"GatherElements", "", 11, 0, gatherElements},
    {"GatherND", "", 11, 0, gatherNd}, {"ScatterND", "", 11, 0, scatterNd},
    {"CumSum", "", 11, 0, cumSum},     {"ArgMax", "", 1, 0, argMax},
    {"ArgMin", "", 1, 0, argMax},      {"TopK", "", 10, 0, topK},
    {"OneHot", "", 9, 0, oneHot},
};

} // namespace

ArrayRef<OpEntry> onnx_import::indexingOps() { return kOps; }
