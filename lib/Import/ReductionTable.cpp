// The op table: reductions and products of matrices.
#include "NodeBuilder.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

/// The dimensions a reduction runs over; empty with `noop` set where it returns its input.
FailureOr<SmallVector<int64_t>> reducedDims(NodeBuilder &b, bool &noop) {
  auto axes = b.axes("axes", 1);
  if (failed(axes))
    return failure();
  int64_t rank = shapeOf(b.input(0)).size();
  noop = false;
  b.pass("noop_with_empty_axes"); // read below, where there are none
  if (*axes && !(*axes)->empty())
    return b.normalizeAxes(**axes, rank);
  noop = b.intAttr("noop_with_empty_axes", 0);
  SmallVector<int64_t> all;
  for (int64_t i = 0; !noop && i < rank; ++i)
    all.push_back(i);
  return all;
}

/// The reduction of what `before` makes of the input, `after` applied to it.
template <typename Before, typename After>
LogicalResult reduceWith(NodeBuilder &b, ReduceKind kind, Before before, After after) {
  if (failed(b.require(0, 1)))
    return failure();
  bool isBool = tensorType(b.input(0)).getElementType().isInteger(1), noop;
  if (isBool && kind != ReduceKind::max && kind != ReduceKind::min)
    return b.error() << "a sum or product of booleans is not supported";
  FailureOr<SmallVector<int64_t>> dims = reducedDims(b, noop);
  if (failed(dims))
    return failure();
  Value x = isBool ? b.cast(b.input(0), b.builder.getI32Type()) : b.input(0);
  int64_t count = 1;
  SmallVector<int64_t> kept(shapeOf(x));
  for (int64_t dim : *dims) {
    count *= kept[dim];
    kept[dim] = 1;
  }
  Value y = after(b.reduce(kind, before(x), *dims), count);
  if (isBool) // of nothing: the largest and the smallest i32
    y = b.make<CompareOp>(Predicate::gt, y, b.splat(tensorType(y), 0));
  if (b.intAttr("keepdims", 1))
    y = b.reshape(y, kept);
  return b.result(y);
}

auto same = [](Value x) { return x; };
auto unchanged = [](Value y, int64_t) { return y; };

LogicalResult reduceSum(NodeBuilder &b) { return reduceWith(b, ReduceKind::sum, same, unchanged); }

/// torch.amax shares the gradient among equal elements, torch.max over a dimension gives it to the one that it returns
/// the index of: the first.
LogicalResult reduceExtremum(NodeBuilder &b, ReduceKind kind) {
  if (!b.isFrom({"aten.max.dim", "aten.min.dim"}) || !b.has(0) || !isFloatTensor(b.input(0)))
    return reduceWith(b, kind, same, unchanged);
  bool noop;
  FailureOr<SmallVector<int64_t>> dims = reducedDims(b, noop);
  if (failed(dims))
    return failure();
  if (dims->size() != 1)
    return reduceWith(b, kind, same, unchanged);
  Value x = b.input(0), ordered = kind == ReduceKind::max ? x : b.make<NegOp>(x);
  SmallVector<int64_t> shape(shapeOf(x)), kept(shape);
  kept[dims->front()] = 1;
  Value first = b.reshape(b.make<ArgMaxOp>(ordered, dims->front()), kept);
  Value y = b.make<GatherElementsOp>(x, first, dims->front());
  if (b.intAttr("keepdims", 1))
    return b.result(y);
  shape.erase(shape.begin() + dims->front());
  return b.result(b.reshape(y, shape));
}
LogicalResult reduceMax(NodeBuilder &b) { return reduceExtremum(b, ReduceKind::max); }
LogicalResult reduceMin(NodeBuilder &b) { return reduceExtremum(b, ReduceKind::min); }
LogicalResult reduceProd(NodeBuilder &b) { return reduceWith(b, ReduceKind::prod, same, unchanged); }
LogicalResult reduceMean(NodeBuilder &b) {
  return reduceWith(b, ReduceKind::sum, same,
                    [&](Value y, int64_t count) { return b.make<DivOp>(y, b.splat(tensorType(y), count)); });
}
LogicalResult reduceL1(NodeBuilder &b) {
  return reduceWith(
      b, ReduceKind::sum, [&](Value x) { return b.make<AbsOp>(x); }, unchanged);
}
LogicalResult reduceSumSquare(NodeBuilder &b) {
  return reduceWith(
      b, ReduceKind::sum, [&](Value x) { return b.make<MulOp>(x, x); }, unchanged);
}
LogicalResult reduceL2(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return reduceWith(
      b, ReduceKind::sum, [&](Value x) { return b.make<MulOp>(x, x); },
      [&](Value y, int64_t) { return b.rootOfSum(y, [&](Value sum) { return b.make<SqrtOp>(sum); }); });
}
LogicalResult reduceLogSum(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  return reduceWith(b, ReduceKind::sum, same, [&](Value y, int64_t) { return b.make<LogOp>(y); });
}

LogicalResult reduceLogSumExp(NodeBuilder &b) {
  if (failed(b.requireFloat(0)))
    return failure();
  bool noop;
  FailureOr<SmallVector<int64_t>> dims = reducedDims(b, noop);
  if (failed(dims))
    return failure();
  Value x = b.input(0), y = logSumExp(b.builder, b.loc, x, *dims);
  if (b.intAttr("keepdims", 1)) {
    SmallVector<int64_t> kept(shapeOf(x));
    for (int64_t dim : *dims)
      kept[dim] = 1;
    y = b.reshape(y, kept);
  }
  return b.result(y);
}

/// Products as numpy.matmul: rank 1 is a row on the left and a column on the right, leading dimensions broadcast.
FailureOr<Value> matmulOf(NodeBuilder &b, Value x, Value y) {
  ArrayRef<int64_t> xs = shapeOf(x), ys = shapeOf(y);
  if (xs.empty() || ys.empty() || tensorType(x).getElementType() != tensorType(y).getElementType() ||
      xs.back() != (ys.size() == 1 ? ys[0] : ys[ys.size() - 2])) {
    b.error() << "cannot multiply " << tensorType(x) << " by " << tensorType(y);
    return failure();
  }
  bool row = xs.size() == 1, column = ys.size() == 1;
  if (row)
    x = b.reshape(x, {1, xs[0]});
  if (column)
    y = b.reshape(y, {ys[0], 1});
  xs = shapeOf(x);
  ys = shapeOf(y);
  SmallVector<int64_t> result;
  int64_t m = xs[xs.size() - 2], k = xs.back(), n = ys.back();
  Value product;
  if (ys.size() == 2 && xs.size() > 2) { // one product: the leading dimensions are rows
    int64_t rows = 1;
    for (int64_t dim : xs.drop_back())
      rows *= dim;
    result.assign(xs.begin(), xs.end());
    result.back() = n;
    product = b.reshape(b.make<MatmulOp>(b.reshape(x, {rows, k}), y), result);
  } else {
    SmallVector<int64_t> batch(xs.drop_back(2)), other(ys.drop_back(2));
    while (batch.size() < other.size())
      batch.insert(batch.begin(), 1);
    while (other.size() < batch.size())
      other.insert(other.begin(), 1);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i] != other[i] && batch[i] != 1 && other[i] != 1) {
        b.error() << "cannot multiply " << tensorType(x) << " by " << tensorType(y);
        return failure();
      }
      batch[i] = batch[i] == 1 ? other[i] : batch[i];
    }
    SmallVector<int64_t> xShape(batch), yShape(batch);
    xShape.append({m, k});
    yShape.append({k, n});
    product = b.make<MatmulOp>(b.broadcast(x, xShape), b.broadcast(y, yShape));
    result.assign(shapeOf(product).begin(), shapeOf(product).end());
  }
  if (row)
    result.erase(result.end() - 2);
  if (column)
    result.pop_back();
  return b.reshape(product, result);
}

LogicalResult matmul(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireFloat(1)))
    return failure();
  FailureOr<Value> product = matmulOf(b, b.input(0), b.input(1));
  return failed(product) ? failure() : b.result(*product);
}

LogicalResult gemm(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireFloat(1)))
    return failure();
  Value x = b.input(0), y = b.input(1);
  for (unsigned i = 0; i < 2; ++i)
    if (shapeOf(b.input(i)).size() != 2)
      return b.error() << "input " << i << " ('" << b.node.inputs[i] << "') has rank " << shapeOf(b.input(i)).size()
                       << ", expected 2";
  bool transA = b.intAttr("transA", 0), transB = b.intAttr("transB", 0);
  if (shapeOf(x)[transA ? 0 : 1] != shapeOf(y)[transB ? 1 : 0] ||
      tensorType(x).getElementType() != tensorType(y).getElementType())
    return b.error() << "cannot multiply " << tensorType(x) << (transA ? " transposed" : "") << " by " << tensorType(y)
                     << (transB ? " transposed" : "");
  Value result = b.make<MatmulOp>(x, y, transA, transB);
  double alpha = b.floatAttr("alpha", 1), beta = b.floatAttr("beta", 1);
  if (alpha != 1)
    result = b.make<MulOp>(result, b.splat(tensorType(result), alpha));
  if (b.has(2) && beta != 0) {
    if (failed(b.requireFloat(2)))
      return failure();
    Value c = b.input(2);
    if (beta != 1)
      c = b.make<MulOp>(c, b.splat(tensorType(c), beta));
    FailureOr<SmallVector<Value>> terms = b.broadcastTogether({result, c});
    if (failed(terms))
      return failure();
    if (shapeOf((*terms)[0]) != shapeOf(result))
      return b.error() << "C is " << tensorType(c) << ", which does not broadcast to " << tensorType(result);
    result = b.make<AddOp>((*terms)[0], (*terms)[1]);
  }
  return b.result(result);
}

/// One or two operands, no repeated letter in one operand, no ellipsis: a transposed batch of matrix products.
LogicalResult einsum(NodeBuilder &b) {
  std::string equation = b.stringAttr("equation", "");
  llvm::erase(equation, ' ');
  if (!StringRef(equation).contains("->")) { // what appears once, in alphabetical order
    std::string once;
    for (char letter = 'A'; letter <= 'z'; ++letter)
      if (llvm::isAlpha(letter) && llvm::count(equation, letter) == 1)
        once += letter;
    equation += "->" + once;
  }
  auto [left, output] = StringRef(equation).split("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != b.numInputs() || terms.size() > 2 || StringRef(equation).contains('.'))
    return b.error() << "equation '" << equation << "': one or two operands and no ellipsis are supported";
  std::map<char, int64_t> sizes;
  SmallVector<Value> operands;
  SmallVector<std::string> letters;
  for (auto [i, term] : llvm::enumerate(terms)) {
    if (failed(b.requireFloat(i)))
      return failure();
    Value x = b.input(i);
    if (term.size() != shapeOf(x).size() || std::set<char>(term.begin(), term.end()).size() != term.size())
      return b.error() << "equation '" << equation << "' does not fit an operand of " << tensorType(x);
    SmallVector<int64_t> summed;
    std::string kept;
    for (auto [d, letter] : llvm::enumerate(term)) {
      auto [at, isNew] = sizes.insert({letter, shapeOf(x)[d]});
      if (!isNew && at->second != shapeOf(x)[d])
        return b.error() << "equation '" << equation << "': '" << std::string(1, letter) << "' is " << at->second
                         << " and " << shapeOf(x)[d];
      bool elsewhere = output.contains(letter) || (terms.size() == 2 && terms[1 - i].contains(letter));
      if (elsewhere)
        kept += letter;
      else
        summed.push_back(d);
    }
    operands.push_back(b.reduce(ReduceKind::sum, x, summed));
    letters.push_back(kept);
  }
  for (char letter : output)
    if (!sizes.count(letter))
      return b.error() << "equation '" << equation << "': '" << std::string(1, letter) << "' is in no operand";
  auto permuteTo = [&](Value x, StringRef from, StringRef to) {
    SmallVector<int64_t> permutation;
    for (char letter : to)
      permutation.push_back(from.find(letter));
    return b.transpose(x, permutation);
  };
  if (operands.size() == 1)
    return b.result(permuteTo(operands[0], letters[0], output));
  std::string batch, rows, inner, columns;
  for (char letter : letters[0])
    (StringRef(letters[1]).contains(letter) ? (output.contains(letter) ? batch : inner) : rows) += letter;
  for (char letter : letters[1])
    if (!StringRef(letters[0]).contains(letter))
      columns += letter;
  auto product = [&](StringRef group) {
    int64_t size = 1;
    for (char letter : group)
      size *= sizes[letter];
    return size;
  };
  Value x = b.reshape(permuteTo(operands[0], letters[0], batch + rows + inner),
                      {product(batch), product(rows), product(inner)});
  Value y = b.reshape(permuteTo(operands[1], letters[1], batch + inner + columns),
                      {product(batch), product(inner), product(columns)});
  Value z = b.make<MatmulOp>(x, y);
  SmallVector<int64_t> shape;
  std::string order = batch + rows + columns;
  for (char letter : order)
    shape.push_back(sizes[letter]);
  return b.result(permuteTo(b.reshape(z, shape), order, output));
}

const OpEntry kOps[] = {
    {"ReduceSum", "", 1, 0, reduceSum},
    {"ReduceMean", "", 1, 0, reduceMean},
    {"ReduceMax", "", 1, 0, reduceMax},
    {"ReduceMin", "", 1, 0, reduceMin},
    {"ReduceProd", "", 1, 0, reduceProd},
    {"ReduceL1", "", 1, 0, reduceL1},
    {"ReduceL2", "", 1, 0, reduceL2},
    {"ReduceSumSquare", "", 1, 0, reduceSumSquare},
    {"ReduceLogSum", "", 1, 0, reduceLogSum},
    {"ReduceLogSumExp", "", 1, 0, reduceLogSumExp},
    {"MatMul", "", 1, 0, matmul},
    {"Gemm", "", 7, 0, gemm},
    {"Einsum", "", 12, 0, einsum},
};

} // namespace

ArrayRef<OpEntry> onnx_import::reductionOps() { return kOps; }
