// The op table: ops that move elements.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

LogicalResult reshape(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  FailureOr<SmallVector<int64_t>> requested = b.constantInts(1, "the shape");
  if (failed(requested))
    return failure();
  Value x = b.input(0);
  SmallVector<int64_t> dims = *requested;
  int64_t unknown = -1, known = 1;
  bool allowZero = b.intAttr("allowzero", 0);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim == 0 && !allowZero) {
      if (i >= shapeOf(x).size())
        return b.error() << "dimension " << i << " of the shape is 0 (copied), but the input has rank "
                         << shapeOf(x).size();
      dim = shapeOf(x)[i];
    }
    if (dim == -1) {
      if (unknown >= 0)
        return b.error() << "the shape has two dimensions of -1";
      unknown = i;
    } else if (dim < 0) {
      return b.error() << "the shape has a dimension of " << dim;
    } else {
      known *= dim;
    }
  }
  int64_t total = tensorType(x).getNumElements();
  if (unknown >= 0) {
    if (known == 0 || total % known)
      return b.error() << total << " elements do not divide into " << known;
    dims[unknown] = total / known;
    known *= dims[unknown];
  }
  if (known != total) {
    InFlightDiagnostic diagnostic = b.error() << "the input has " << total << " elements, but the shape [";
    llvm::interleaveComma(dims, diagnostic);
    return diagnostic << "] " << known;
  }
  return b.result(b.reshape(x, dims));
}

LogicalResult flatten(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  int64_t rank = dims.size(), axis = b.intAttr("axis", 1);
  if (axis < -rank || axis > rank)
    return b.error() << "axis " << axis << " is outside a tensor of rank " << rank;
  axis = axis < 0 ? axis + rank : axis;
  int64_t rows = 1, columns = 1;
  for (auto [i, dim] : llvm::enumerate(dims))
    ((int64_t)i < axis ? rows : columns) *= dim;
  return b.result(b.reshape(b.input(0), {rows, columns}));
}

LogicalResult squeeze(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  auto axes = b.axes("axes", 1);
  if (failed(axes))
    return failure();
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  SmallVector<int64_t> drop, kept;
  if (*axes) {
    FailureOr<SmallVector<int64_t>> normalized = b.normalizeAxes(**axes, dims.size());
    if (failed(normalized))
      return failure();
    drop = *normalized;
  } else {
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim == 1)
        drop.push_back(i);
  }
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(drop, (int64_t)i))
      kept.push_back(dim);
    else if (dim != 1)
      return b.error() << "dimension " << i << " is " << dim << ", only dimensions of 1 can be squeezed";
  }
  return b.result(b.reshape(b.input(0), kept));
}

LogicalResult unsqueeze(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  auto axes = b.axes("axes", 1);
  if (failed(axes))
    return failure();
  if (!*axes)
    return b.error() << "the axes are missing";
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  int64_t rank = dims.size() + (*axes)->size();
  FailureOr<SmallVector<int64_t>> normalized = b.normalizeAxes(**axes, rank);
  if (failed(normalized))
    return failure();
  SmallVector<int64_t> result;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    result.push_back(llvm::is_contained(*normalized, i) ? 1 : dims[next++]);
  return b.result(b.reshape(b.input(0), result));
}

LogicalResult transpose(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  int64_t rank = shapeOf(b.input(0)).size();
  SmallVector<int64_t> permutation;
  if (auto given = b.intsAttr("perm"))
    permutation = *given;
  else
    for (int64_t i = rank; i-- > 0;)
      permutation.push_back(i);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  bool valid = (int64_t)sorted.size() == rank;
  for (int64_t i = 0; valid && i < rank; ++i)
    valid = sorted[i] == i;
  if (!valid) {
    InFlightDiagnostic diagnostic = b.error() << "perm [";
    llvm::interleaveComma(permutation, diagnostic);
    return diagnostic << "] is no permutation of " << rank << " dimensions";
  }
  return b.result(b.transpose(b.input(0), permutation));
}

LogicalResult concat(NodeBuilder &b) {
  if (b.numInputs() == 0 || failed(b.require(0, b.numInputs())))
    return b.numInputs() == 0 ? LogicalResult(b.error() << "has no inputs") : failure();
  SmallVector<Value> inputs = b.allInputs();
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(inputs[0]).size());
  if (failed(axis))
    return failure();
  SmallVector<int64_t> result(shapeOf(inputs[0]));
  for (Value other : llvm::drop_begin(inputs)) {
    ArrayRef<int64_t> dims = shapeOf(other);
    bool fits =
        dims.size() == result.size() && tensorType(other).getElementType() == tensorType(inputs[0]).getElementType();
    for (size_t i = 0; fits && i < dims.size(); ++i)
      fits = (int64_t)i == *axis || dims[i] == result[i];
    if (!fits)
      return b.error() << "cannot join " << tensorType(inputs[0]) << " and " << tensorType(other) << " along axis "
                       << *axis;
    result[*axis] += dims[*axis];
  }
  if (inputs.size() == 1)
    return b.result(inputs[0]);
  return b.result(b.make<ConcatOp>(tensorType(inputs[0]).clone(result), inputs, b.builder.getI64IntegerAttr(*axis)));
}

/// Sizes of the pieces: the attribute (to 11), input 1 (from 13), or equal parts, the last smaller (from 18).
FailureOr<SmallVector<int64_t>> splitSizes(NodeBuilder &b, int64_t dim, int64_t parts) {
  auto sizes = b.axes("split", 1);
  if (failed(sizes))
    return failure();
  SmallVector<int64_t> result;
  if (*sizes) {
    result = **sizes;
  } else {
    int64_t chunk = parts ? (dim + parts - 1) / parts : 0;
    if (!b.hasAttr("num_outputs") && parts && dim % parts) {
      b.error() << "a dimension of " << dim << " does not divide into " << parts << " parts";
      return failure();
    }
    for (int64_t i = 0, left = dim; i < parts; ++i, left -= chunk)
      result.push_back(std::clamp<int64_t>(left, 0, chunk));
  }
  int64_t sum = 0;
  for (int64_t size : result) {
    if (size < 0 || size > dim) {
      b.error() << "a part is " << size << ", but the dimension is " << dim;
      return failure();
    }
    sum += size;
  }
  if (sum != dim) {
    b.error() << "the parts add up to " << sum << ", but the dimension is " << dim;
    return failure();
  }
  return result;
}

LogicalResult split(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)))
    return failure();
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(b.input(0)).size());
  if (failed(axis))
    return failure();
  FailureOr<SmallVector<int64_t>> sizes = splitSizes(b, shapeOf(b.input(0))[*axis], b.node.outputs.size());
  if (failed(sizes))
    return failure();
  if (sizes->size() != b.node.outputs.size())
    return b.error() << "found " << sizes->size() << " parts for " << b.node.outputs.size() << " outputs";
  int64_t start = 0;
  for (auto [i, size] : llvm::enumerate(*sizes)) {
    (void)b.set(i, b.sliceDim(b.input(0), *axis, start, size));
    start += size;
  }
  return success();
}

LogicalResult splitToSequence(NodeBuilder &b) {
  if (failed(b.requireRank(0, 1)))
    return failure();
  Value x = b.input(0);
  FailureOr<int64_t> axis = b.normalizeAxis(b.intAttr("axis", 0), shapeOf(x).size());
  if (failed(axis))
    return failure();
  int64_t dim = shapeOf(x)[*axis];
  SmallVector<int64_t> sizes(dim, 1);
  bool keep = true;
  b.pass("keepdims"); // is for a split into ones
  if (b.has(1)) {
    FailureOr<SmallVector<int64_t>> given = b.constantInts(1, "split");
    if (failed(given))
      return failure();
    sizes = *given;
    if (shapeOf(b.input(1)).empty()) { // a chunk size, the last chunk smaller
      int64_t chunk = sizes[0];
      if (chunk <= 0)
        return b.error() << "split is " << chunk << ", expected at least 1";
      sizes.clear();
      for (int64_t left = dim; left > 0; left -= chunk)
        sizes.push_back(std::min(left, chunk));
    }
  } else {
    keep = b.intAttr("keepdims", 1);
  }
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    if (size < 0 || start + size > dim)
      return b.error() << "the parts do not add up to the dimension, " << dim;
    Value part = b.sliceDim(x, *axis, start, size);
    if (!keep) {
      SmallVector<int64_t> dims(shapeOf(part));
      dims.erase(dims.begin() + *axis);
      part = b.reshape(part, dims);
    }
    parts.push_back(part);
    start += size;
  }
  b.graph.sequences[b.node.outputs[0]] = parts;
  return success();
}

LogicalResult sequenceConstruct(NodeBuilder &b) {
  if (failed(b.require(0, b.numInputs())))
    return failure();
  b.graph.sequences[b.node.outputs[0]] = b.allInputs();
  return success();
}

LogicalResult sequenceAt(NodeBuilder &b) {
  auto sequence = b.has(0) ? b.graph.sequences.find(b.node.inputs[0]) : b.graph.sequences.end();
  if (sequence == b.graph.sequences.end())
    return b.error() << "input 0 is not a sequence";
  FailureOr<SmallVector<int64_t>> position = b.constantInts(1, "the position");
  if (failed(position))
    return failure();
  FailureOr<int64_t> index = b.normalizeAxis((*position)[0], sequence->second.size());
  if (failed(index))
    return failure();
  return b.result(sequence->second[*index]);
}

LogicalResult slice(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  Value x = b.input(0);
  int64_t rank = shapeOf(x).size();
  FailureOr<SmallVector<int64_t>> starts = b.constantInts(1, "starts"), ends = b.constantInts(2, "ends");
  if (failed(starts) || failed(ends))
    return failure();
  SmallVector<int64_t> axes, steps(starts->size(), 1);
  for (size_t i = 0; i < starts->size(); ++i)
    axes.push_back(i);
  if (b.has(3)) {
    FailureOr<SmallVector<int64_t>> given = b.constantInts(3, "axes");
    if (failed(given))
      return failure();
    axes = *given;
  }
  if (b.has(4)) {
    FailureOr<SmallVector<int64_t>> given = b.constantInts(4, "steps");
    if (failed(given))
      return failure();
    steps = *given;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size())
    return b.error() << "found " << starts->size() << " starts, " << ends->size() << " ends, " << axes.size()
                     << " axes and " << steps.size() << " steps, expected as many of each";
  SmallVector<int64_t> first(rank, 0), sizes(shapeOf(x)), strides(rank, 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    FailureOr<int64_t> axis = b.normalizeAxis(axes[i], rank);
    if (failed(axis))
      return failure();
    int64_t dim = shapeOf(x)[*axis], step = steps[i], start = (*starts)[i], end = (*ends)[i];
    if (step == 0)
      return b.error() << "a step is 0";
    auto clamp = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp<int64_t>(at < 0 ? (at < -dim ? low : at + dim) : std::min(at, dim), low, high);
    };
    int64_t count;
    if (step > 0) {
      start = clamp(start, 0, dim);
      end = clamp(end, 0, dim);
      count = start < end ? (end - start - 1) / step + 1 : 0;
    } else {
      start = clamp(start, -1, dim - 1);
      end = clamp(end, -1, dim - 1);
      count = start > end ? (start - end - 1) / -step + 1 : 0;
    }
    first[*axis] = count ? start : 0;
    sizes[*axis] = count;
    strides[*axis] = count > 1 ? step : 1;
  }
  return b.result(b.slice(x, first, sizes, strides));
}

LogicalResult expand(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  FailureOr<SmallVector<int64_t>> requested = b.constantInts(1, "the shape");
  if (failed(requested))
    return failure();
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  SmallVector<int64_t> result(*requested);
  if (dims.size() > result.size())
    result.insert(result.begin(), dims.size() - result.size(), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t &dim = result[result.size() - dims.size() + i];
    if (dim != dims[i] && dim != 1 && dims[i] != 1)
      return b.error() << "dimension " << i << " of the input is " << dims[i] << " and cannot become " << dim;
    dim = dim == 1 ? dims[i] : dim;
  }
  return b.result(b.broadcast(b.input(0), result));
}

LogicalResult tile(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  FailureOr<SmallVector<int64_t>> repeats = b.constantInts(1, "repeats");
  if (failed(repeats))
    return failure();
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  if (repeats->size() != dims.size())
    return b.error() << "found " << repeats->size() << " repeats for rank " << dims.size();
  SmallVector<int64_t> split, repeated, result;
  for (auto [dim, repeat] : llvm::zip(dims, *repeats)) {
    if (repeat < 0)
      return b.error() << "a repeat is " << repeat;
    split.append({1, dim});
    repeated.append({repeat, dim});
    result.push_back(repeat * dim);
  }
  return b.result(b.reshape(b.broadcast(b.reshape(b.input(0), split), repeated), result));
}

/// Source index of position i (which may be outside) of a dimension for the modes that repeat the input.
int64_t padSource(int64_t i, int64_t dim, StringRef mode) {
  if (mode == "edge")
    return std::clamp<int64_t>(i, 0, dim - 1);
  if (mode == "wrap")
    return ((i % dim) + dim) % dim;
  int64_t period = std::max<int64_t>(2 * (dim - 1), 1);
  i = ((i % period) + period) % period;
  return i < dim ? i : period - i;
}

LogicalResult pad(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  Value x = b.input(0);
  int64_t rank = shapeOf(x).size();
  FailureOr<SmallVector<int64_t>> given = b.constantInts(1, "pads");
  if (failed(given))
    return failure();
  double value = 0;
  if (b.has(2)) {
    FailureOr<double> constant = b.constantScalar(2, "the value");
    if (failed(constant))
      return failure();
    value = *constant;
  }
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    axes.push_back(i);
  if (b.has(3)) {
    FailureOr<SmallVector<int64_t>> some = b.constantInts(3, "axes");
    if (failed(some))
      return failure();
    axes = *some;
  }
  if (given->size() != 2 * axes.size())
    return b.error() << "found " << given->size() << " pads for " << axes.size()
                     << " dimensions, expected twice as many";
  std::string mode = b.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return b.error() << "mode is '" << mode << "', expected constant, reflect, edge or wrap";
  SmallVector<int64_t> before(rank, 0), after(rank, 0);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    FailureOr<int64_t> dim = b.normalizeAxis(axis, rank);
    if (failed(dim))
      return failure();
    before[*dim] = (*given)[i];
    after[*dim] = (*given)[axes.size() + i];
    constexpr int64_t most = int64_t(1) << 40;
    if (std::max(before[*dim], after[*dim]) > most || std::min(before[*dim], after[*dim]) < -most ||
        shapeOf(x)[*dim] + before[*dim] + after[*dim] < 0 || (mode != "constant" && shapeOf(x)[*dim] == 0))
      return b.error() << "dimension " << *dim << " of " << shapeOf(x)[*dim] << " cannot be padded by " << before[*dim]
                       << " and " << after[*dim];
  }
  if (mode != "constant") {
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (before[dim] == 0 && after[dim] == 0)
        continue;
      SmallVector<int64_t> indices;
      for (int64_t i = -before[dim]; i < shapeOf(x)[dim] + after[dim]; ++i)
        indices.push_back(padSource(i, shapeOf(x)[dim], mode));
      x = b.make<GatherOp>(x, b.intConstant(indices, {(int64_t)indices.size()}), dim);
    }
    return b.result(x);
  }
  SmallVector<int64_t> starts(rank), sizes(rank), padded(rank), ones(rank, 1);
  for (int64_t i = 0; i < rank; ++i) { // negative pads cut
    starts[i] = std::max<int64_t>(-before[i], 0);
    sizes[i] = std::max<int64_t>(shapeOf(x)[i] - starts[i] - std::max<int64_t>(-after[i], 0), 0);
    before[i] = std::max<int64_t>(before[i], 0);
    padded[i] = sizes[i] + before[i] + std::max<int64_t>(after[i], 0);
  }
  x = b.slice(x, starts, sizes, ones);
  if (padded == sizes)
    return b.result(x);
  if (tensorType(x).getElementType().isInteger(1)) {
    Value wide = b.make<PadOp>(tensorType(x).clone(padded, b.builder.getI32Type()), b.cast(x, b.builder.getI32Type()),
                               b.builder.getDenseI64ArrayAttr(before), b.builder.getDenseI64ArrayAttr(ones),
                               b.builder.getF64FloatAttr(value));
    return b.result(b.cast(wide, b.builder.getI1Type()));
  }
  return b.result(b.make<PadOp>(tensorType(x).clone(padded), x, b.builder.getDenseI64ArrayAttr(before),
                                b.builder.getDenseI64ArrayAttr(ones), b.builder.getF64FloatAttr(value)));
}

/// [N, C, H, W] with blocks of B x B pixels in the channels, or back.
LogicalResult depthToSpace(NodeBuilder &b) {
  if (failed(b.requireRank(0, 4)))
    return failure();
  Value x = b.input(0);
  ArrayRef<int64_t> s = shapeOf(x);
  int64_t block = b.intAttr("blocksize", 0);
  std::string mode = b.stringAttr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return b.error() << "mode is '" << mode << "', expected DCR or CRD";
  bool toSpace = b.node.type == "DepthToSpace";
  if (s.size() != 4 || block <= 0 || block > (1 << 16) ||
      (toSpace ? s[1] % (block * block) : s[2] % block || s[3] % block))
    return b.error() << "an input of " << tensorType(x) << " does not fit blocks of " << block;
  if (!toSpace) {
    Value y = b.reshape(x, {s[0], s[1], s[2] / block, block, s[3] / block, block});
    y = mode == "CRD" ? b.transpose(y, {0, 1, 3, 5, 2, 4}) : b.transpose(y, {0, 3, 5, 1, 2, 4});
    return b.result(b.reshape(y, {s[0], s[1] * block * block, s[2] / block, s[3] / block}));
  }
  int64_t channels = s[1] / (block * block);
  Value y = mode == "DCR" ? b.transpose(b.reshape(x, {s[0], block, block, channels, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
                : b.transpose(b.reshape(x, {s[0], channels, block, block, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  return b.result(b.reshape(y, {s[0], channels, s[2] * block, s[3] * block}));
}

const OpEntry kOps[] = {
    {"Reshape", "", 5, 0, reshape},
    {"Flatten", "", 9, 0, flatten},
    {"Squeeze", "", 1, 0, squeeze},
    {"Unsqueeze", "", 1, 0, unsqueeze},
    {"Transpose", "", 1, 0, transpose},
    {"Concat", "", 4, 0, concat},
    {"Split", "", 2, 0, split},
    {"SplitToSequence", "", 11, 0, splitToSequence},
    {"SequenceConstruct", "", 11, 0, sequenceConstruct},
    {"SequenceAt", "", 11, 0, sequenceAt},
    {"Slice", "", 10, 0, slice},
    {"Expand", "", 8, 0, expand},
    {"Tile", "", 6, 0, tile},
    {"Pad", "", 11, 0, pad},
    {"DepthToSpace", "", 11, 0, depthToSpace},
    {"SpaceToDepth", "", 1, 0, depthToSpace},
};

} // namespace

ArrayRef<OpEntry> onnx_import::shapeOps() { return kOps; }
