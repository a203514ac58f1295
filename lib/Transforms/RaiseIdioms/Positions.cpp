// Affine functions of indices, values that repeat, and values that depend on the distance of a key from its query.
#include "Positions.h"
#include "Match.h"

using namespace mlir;
using namespace mlir::scrimp;

static constexpr unsigned kMaxDepth = 32;

static SmallVector<int64_t> padShape(ArrayRef<int64_t> shape, size_t rank) {
  SmallVector<int64_t> padded(rank - shape.size(), 1);
  llvm::append_range(padded, shape);
  return padded;
}

/// For each dimension of `to` the dimension of `from` that it is: -1 where it has size 1 and is none of them.
/// Dimensions that are merged or split are -2 and stand in `mixed`, the dimensions of `from` that are.
static SmallVector<int64_t> matchReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to, SmallVector<int64_t> &mixed) {
  SmallVector<int64_t> source(to.size(), -1);
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0)) {
    llvm::fill(source, -2);
    llvm::append_range(mixed, llvm::seq<int64_t>(from.size()));
    return source;
  }
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    SmallVector<size_t> left, right; // of one group, without dimensions of 1
    int64_t a = 1, b = 1;
    do {
      bool takeLeft = j == to.size() || (i < from.size() && a <= b);
      int64_t size = takeLeft ? from[i] : to[j];
      (takeLeft ? a : b) *= size;
      if (size != 1)
        (takeLeft ? left : right).push_back(takeLeft ? i : j);
      ++(takeLeft ? i : j);
    } while (a != b);
    bool same = left.size() == right.size();
    for (size_t n = 0; same && n < left.size(); ++n)
      same = from[left[n]] == to[right[n]];
    for (size_t n = 0; n < right.size(); ++n)
      source[right[n]] = same ? static_cast<int64_t>(left[n]) : -2;
    if (!same)
      llvm::append_range(mixed, left);
  }
  return source;
}

static Value cloneWith(OpBuilder &builder, Operation *op, ValueRange operands, ArrayRef<int64_t> shape) {
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  clone->getResult(0).setType(tensorType(op->getResult(0)).clone(shape));
  return clone->getResult(0);
}

//===-- Affine functions -----------------------------------------------------------------------------------------===//

static bool isIntegral(double value) { return std::abs(value) < 0x1p52 && value == std::floor(value); }

/// The affine function that a constant's elements are.
static std::optional<Affine> affineOfElements(const HostTensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  Affine result{0, SmallVector<int64_t>(shape.size(), 0)};
  if (tensor.size() == 0 || !isIntegral(tensor.asDouble(0)))
    return std::nullopt;
  result.start = static_cast<int64_t>(tensor.asDouble(0));
  for (auto [size, stride, step] : llvm::zip(shape, strides, result.steps)) {
    double second = size > 1 ? tensor.asDouble(stride) : tensor.asDouble(0);
    if (!isIntegral(second))
      return std::nullopt;
    step = static_cast<int64_t>(second) - result.start;
  }
  bool fits = true;
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t i) {
    double expected = result.start;
    for (auto [at, step] : llvm::zip(index, result.steps))
      expected += static_cast<double>(at) * static_cast<double>(step);
    fits &= tensor.asDouble(i) == expected;
  });
  return fits ? std::optional(result) : std::nullopt;
}

/// Whether all values of the function are exact in `type`.
static bool isExact(const Affine &affine, RankedTensorType type) {
  double most = std::abs(static_cast<double>(affine.start));
  for (auto [size, step] : llvm::zip(type.getShape(), affine.steps))
    most += std::abs(static_cast<double>(step)) * static_cast<double>(std::max<int64_t>(size - 1, 0));
  if (auto floatType = dyn_cast<FloatType>(type.getElementType()))
    return most <= std::ldexp(1.0, std::min<int>(floatType.getFPMantissaWidth(), 52));
  return most < std::ldexp(1.0, std::min<int>(type.getElementTypeBitWidth() - 1, 52));
}

static std::optional<Affine> findAffine(Value value, unsigned depth);

static std::optional<Affine> affineOf(Operation *op, unsigned depth) {
  RankedTensorType type = tensorType(op->getResult(0));
  Affine result{0, SmallVector<int64_t>(type.getRank(), 0)};
  if (std::optional<double> splat = getSplat(op->getResult(0))) {
    result.start = isIntegral(*splat) ? static_cast<int64_t>(*splat) : 0;
    return isIntegral(*splat) ? std::optional(result) : std::nullopt;
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    double start = iota.getStart().convertToDouble(), step = iota.getStep().convertToDouble();
    result.start = isIntegral(start) ? static_cast<int64_t>(start) : 0;
    result.steps[iota.getDim()] = isIntegral(step) ? static_cast<int64_t>(step) : 0;
    return isIntegral(start) && isIntegral(step) ? std::optional(result) : std::nullopt;
  }
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<DenseElementsAttr>(constant.getValue()) ? affineOfElements(HostTensor::get(constant.getValue()))
                                                       : std::nullopt;
  if (op->getNumOperands() == 0)
    return std::nullopt;
  std::optional<Affine> x = findAffine(op->getOperand(0), depth + 1);
  if (auto mul = dyn_cast<MulOp>(op)) {
    std::optional<double> factor = getSplat(mul.getB());
    if (!x || !factor) {
      factor = getSplat(mul.getA());
      x = findAffine(mul.getB(), depth + 1);
    }
    if (!x || !factor || !isIntegral(*factor) || std::abs(*factor) > 0x1p24)
      return std::nullopt;
    int64_t by = static_cast<int64_t>(*factor);
    x->start *= by;
    for (int64_t &step : x->steps)
      step *= by;
    return x;
  }
  if (!x)
    return std::nullopt;
  if (isa<AddOp, SubOp>(op)) {
    std::optional<Affine> y = findAffine(op->getOperand(1), depth + 1);
    if (!y)
      return std::nullopt;
    int64_t sign = isa<AddOp>(op) ? 1 : -1;
    x->start += sign * y->start;
    for (auto [step, other] : llvm::zip(x->steps, y->steps))
      step += sign * other;
    return x;
  }
  if (isa<NegOp>(op)) {
    x->start = -x->start;
    for (int64_t &step : x->steps)
      step = -step;
    return x;
  }
  if (isa<CastOp>(op))
    return x;
  result.start = x->start;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    size_t lead = result.steps.size() - x->steps.size();
    for (auto [d, size] : llvm::enumerate(shapeOf(broadcast.getX())))
      result.steps[lead + d] = size == 1 ? 0 : x->steps[d];
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (auto [d, from] : llvm::enumerate(transpose.getPermutation()))
      result.steps[d] = x->steps[from];
    return result;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [d, step] : llvm::enumerate(x->steps)) {
      result.start += step * slice.getStarts()[d];
      result.steps[d] = step * slice.getStrides()[d];
    }
    return result;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    SmallVector<int64_t> mixed, source = matchReshape(shapeOf(reshape.getX()), type.getShape(), mixed);
    if (!mixed.empty())
      return std::nullopt;
    for (auto [d, from] : llvm::enumerate(source))
      result.steps[d] = from < 0 ? 0 : x->steps[from];
    return result;
  }
  return std::nullopt;
}

static std::optional<Affine> findAffine(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > kMaxDepth || op->getNumResults() != 1 || tensorType(value).getElementType().isInteger(1))
    return std::nullopt;
  std::optional<Affine> result = affineOf(op, depth);
  return result && isExact(*result, tensorType(value)) ? result : std::nullopt;
}

std::optional<Affine> mlir::scrimp::getAffine(Value value) { return findAffine(value, 0); }

//===-- Values that repeat ---------------------------------------------------------------------------------------===//

using Shapes = llvm::DenseMap<Value, SmallVector<int64_t>>;

static SmallVector<int64_t> narrowShapeOf(Value value, unsigned depth, Shapes &known) {
  SmallVector<int64_t> full(shapeOf(value)), shape(full.size(), 1);
  Operation *op = value.getDefiningOp();
  if (!op || depth > kMaxDepth)
    return full;
  if (getSplat(value))
    return shape;
  auto inner = [&](Value x) {
    auto entry = known.find(x);
    return entry != known.end() ? entry->second : known[x] = narrowShapeOf(x, depth + 1, known);
  };
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return padShape(inner(broadcast.getX()), full.size());
  if (auto iota = dyn_cast<IotaOp>(op)) {
    shape[iota.getDim()] = full[iota.getDim()];
    return shape;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<int64_t> x = inner(transpose.getX());
    for (auto [d, from] : llvm::enumerate(transpose.getPermutation()))
      shape[d] = x[from];
    return shape;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [d, size] : llvm::enumerate(inner(slice.getX())))
      shape[d] = size == 1 ? 1 : full[d];
    return shape;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    SmallVector<int64_t> mixed, x = inner(reshape.getX()), source = matchReshape(shapeOf(reshape.getX()), full, mixed);
    bool repeats = llvm::all_of(mixed, [&](int64_t d) { return x[d] == 1; });
    for (auto [d, from] : llvm::enumerate(source))
      shape[d] = from >= 0 ? x[from] : from == -1 || repeats ? 1 : full[d];
    return shape;
  }
  if (!isPointwise(op))
    return full;
  for (Value operand : op->getOperands())
    for (auto [size, needed] : llvm::zip(shape, inner(operand)))
      size = std::max(size, needed);
  return shape;
}

SmallVector<int64_t> mlir::scrimp::narrowShape(Value value) {
  Shapes known;
  return narrowShapeOf(value, 0, known);
}

Value mlir::scrimp::buildNarrow(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  Location loc = value.getLoc();
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> full = shapeOf(value);
  if (std::optional<double> splat = getSplat(value))
    return splatConstant(builder, loc, tensorType(value).clone(shape), *splat);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    SmallVector<int64_t> inner(shapeOf(broadcast.getX()));
    ArrayRef<int64_t> wanted = shape.take_back(inner.size());
    for (auto [size, most] : llvm::zip(inner, wanted))
      size = std::min(size, most);
    Value x = buildNarrow(builder, broadcast.getX(), inner);
    return broadcastTo(builder, loc, reshapeTo(builder, loc, x, padShape(inner, shape.size())), shape);
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    SmallVector<int64_t> line(shape.size(), 1);
    line[iota.getDim()] = full[iota.getDim()];
    Value numbers =
        IotaOp::create(builder, loc, tensorType(value).clone(line), iota.getDim(), iota.getStart(), iota.getStep());
    return broadcastTo(builder, loc, numbers, shape);
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<int64_t> inner(shape.size());
    for (auto [d, from] : llvm::enumerate(transpose.getPermutation()))
      inner[from] = shape[d];
    return TransposeOp::create(builder, loc, buildNarrow(builder, transpose.getX(), inner), transpose.getPermutation());
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    SmallVector<int64_t> inner(shapeOf(slice.getX())), starts(slice.getStarts()), strides(slice.getStrides());
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != full[d]) {
        inner[d] = strides[d] = 1;
        starts[d] = 0;
      }
    Value x = buildNarrow(builder, slice.getX(), inner);
    return SliceOp::create(builder, loc, tensorType(value).clone(shape), x, starts, strides);
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    SmallVector<int64_t> mixed, inner(shapeOf(reshape.getX())), source = matchReshape(inner, full, mixed);
    bool repeats = false;
    for (auto [d, from] : llvm::enumerate(source)) {
      if (from >= 0)
        inner[from] = shape[d];
      repeats |= from == -2 && shape[d] != full[d];
    }
    if (!repeats)
      return reshapeTo(builder, loc, buildNarrow(builder, reshape.getX(), inner), shape);
    for (int64_t d : mixed)
      inner[d] = 1;
    SmallVector<int64_t> single(shape);
    for (auto [d, from] : llvm::enumerate(source))
      single[d] = from == -2 ? 1 : shape[d];
    Value x = reshapeTo(builder, loc, buildNarrow(builder, reshape.getX(), inner), single);
    return broadcastTo(builder, loc, x, shape);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(buildNarrow(builder, operand, shape));
  return cloneWith(builder, op, operands, shape);
}

//===-- Distances
//--------------------------------------------------------------------------------------------------===//

/// The shape of a value that is asked for by distance.
static SmallVector<int64_t> diagonalShape(ArrayRef<int64_t> shape, int64_t query, int64_t key) {
  SmallVector<int64_t> result(shape);
  result[key] = shape[query] + shape[key] - 1;
  result[query] = 1;
  return result;
}

Value Diagonals::get(Value value, int64_t query, int64_t key) {
  auto place = std::make_pair(value, query * 64 + key);
  if (auto entry = known.find(place); entry != known.end())
    return entry->second;
  if (++depth > kMaxDepth) {
    --depth;
    return {};
  }
  Value result = find(value, query, key);
  --depth;
  return known[place] = result;
}

/// A constant whose every element is the one before it in both dimensions.
Value Diagonals::findConstant(Value value, int64_t query, int64_t key) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!isa<DenseElementsAttr>(constant.getValue()))
    return {};
  HostTensor from = HostTensor::get(constant.getValue());
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(value)), shape = diagonalShape(shapeOf(value), query, key);
  HostTensor to(from.getType().clone(shape));
  SmallVector<int64_t> targets = rowMajorStrides(shape);
  SmallVector<bool> written(to.size(), false);
  int64_t queries = shapeOf(value)[query];
  bool fits = true;
  auto copy = [&](auto in, auto out) {
    forEachIndex(shapeOf(value), [&](ArrayRef<int64_t> index, int64_t i) {
      int64_t at = 0;
      for (auto [d, n] : llvm::enumerate(index))
        at += static_cast<int64_t>(d) == query ? 0
              : static_cast<int64_t>(d) == key ? (n - index[query] + queries - 1) * targets[d]
                                               : n * targets[d];
      fits &= !written[at] || std::memcmp(&out[at], &in[i], sizeof(in[i])) == 0;
      out[at] = in[i];
      written[at] = true;
    });
  };
  from.isFloat() ? copy(from.floats(), to.floats()) : copy(from.ints(), to.ints());
  if (!fits)
    return {};
  return builder ? ConstantOp::create(*builder, value.getLoc(), cast<ElementsAttr>(to.toAttr())).getResult() : value;
}

/// a < b and its like, where a - b is a multiple of the distance and a constant.
Value Diagonals::findCompared(Operation *op, int64_t query, int64_t key) {
  auto compare = dyn_cast<CompareOp>(op);
  std::optional<Affine> a = compare ? getAffine(compare.getA()) : std::nullopt,
                        b = a ? getAffine(compare.getB()) : std::nullopt;
  if (!b)
    return {};
  for (auto [d, steps] : llvm::enumerate(llvm::zip(a->steps, b->steps)))
    if (auto [first, second] = steps;
        static_cast<int64_t>(d) != query && static_cast<int64_t>(d) != key && first != second)
      return {};
  int64_t step = a->steps[key] - b->steps[key];
  if (a->steps[query] - b->steps[query] != -step)
    return {};
  if (!builder)
    return op->getResult(0);
  ArrayRef<int64_t> full = shapeOf(op->getResult(0));
  RankedTensorType type = RankedTensorType::get(diagonalShape(full, query, key), builder->getI64Type());
  double start = static_cast<double>(a->start - b->start - step * (full[query] - 1));
  Value difference = IotaOp::create(*builder, op->getLoc(), type, key, APFloat(start), APFloat(double(step)));
  return CompareOp::create(*builder, op->getLoc(), compare.getPredicate(), difference,
                           splatConstant(*builder, op->getLoc(), type, 0));
}

Value Diagonals::findPointwise(Operation *op, int64_t query, int64_t key) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(get(operand, query, key));
    if (!operands.back())
      return {};
  }
  Value y = op->getResult(0);
  return builder ? cloneWith(*builder, op, operands, diagonalShape(shapeOf(y), query, key)) : y;
}

Value Diagonals::find(Value value, int64_t query, int64_t key) {
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> full = shapeOf(value);
  SmallVector<int64_t> shape = diagonalShape(full, query, key), narrow = narrowShape(value);
  Location loc = value.getLoc();
  if (narrow[query] == 1 && narrow[key] == 1) {
    if (!builder)
      return value;
    SmallVector<int64_t> single(full);
    single[query] = single[key] = 1;
    return broadcastTo(*builder, loc, buildNarrow(*builder, value, single), shape);
  }
  if (!op || op->getNumResults() != 1)
    return {};
  if (std::optional<Affine> affine = getAffine(value)) {
    bool others = false;
    for (auto [d, step] : llvm::enumerate(affine->steps))
      others |= step != 0 && static_cast<int64_t>(d) != query && static_cast<int64_t>(d) != key;
    int64_t step = affine->steps[key];
    if (!others && affine->steps[query] == -step) {
      if (!builder)
        return value;
      double start = static_cast<double>(affine->start - step * (full[query] - 1));
      return IotaOp::create(*builder, loc, tensorType(value).clone(shape), key, APFloat(start), APFloat(double(step)));
    }
  }
  if (isa<ConstantOp>(op))
    return findConstant(value, query, key);
  if (Value compared = findCompared(op, query, key))
    return compared;
  if (isPointwise(op))
    return findPointwise(op, query, key);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    int64_t lead = full.size() - shapeOf(broadcast.getX()).size();
    if (query < lead || key < lead || shapeOf(broadcast.getX())[query - lead] != full[query] ||
        shapeOf(broadcast.getX())[key - lead] != full[key])
      return {};
    Value x = get(broadcast.getX(), query - lead, key - lead);
    return x && builder ? broadcastTo(*builder, loc, x, shape) : x;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Value x = get(transpose.getX(), transpose.getPermutation()[query], transpose.getPermutation()[key]);
    return x && builder ? TransposeOp::create(*builder, loc, x, transpose.getPermutation()).getResult() : x;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    SmallVector<int64_t> mixed, source = matchReshape(shapeOf(reshape.getX()), full, mixed);
    Value x = source[query] >= 0 && source[key] >= 0 ? get(reshape.getX(), source[query], source[key]) : Value();
    return x && builder ? reshapeTo(*builder, loc, x, shape) : x;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(slice.getX());
    if (slice.getStrides()[query] != 1 || slice.getStrides()[key] != 1)
      return {};
    Value x = get(slice.getX(), query, key);
    if (!x || !builder)
      return x;
    SmallVector<int64_t> starts(slice.getStarts());
    starts[key] += from[query] - full[query] - starts[query];
    starts[query] = 0;
    return SliceOp::create(*builder, loc, tensorType(value).clone(shape), x, starts,
                           SmallVector<int64_t>(slice.getStrides()));
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    int64_t dim = gather.getDim(), rank = shapeOf(gather.getIndices()).size();
    if (std::min(query, key) < dim || std::max(query, key) >= dim + rank)
      return {};
    Value indices = get(gather.getIndices(), query - dim, key - dim);
    return indices && builder ? GatherOp::create(*builder, loc, gather.getX(), indices, dim).getResult() : indices;
  }
  return {};
}

//===-- Constants
//--------------------------------------------------------------------------------------------------===//

static const HostTensor *evaluate(Value value, int64_t most,
                                  llvm::DenseMap<Value, std::unique_ptr<HostTensor>> &known) {
  if (auto entry = known.find(value); entry != known.end())
    return entry->second.get();
  Operation *op = value.getDefiningOp();
  auto eval = dyn_cast_or_null<EvalOp>(op);
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  if (!eval || op->getNumResults() != 1 || tensorType(value).getNumElements() > most ||
      (constant && !isa<DenseElementsAttr>(constant.getValue())))
    return known[value] = nullptr, nullptr;
  SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(evaluate(operand, most, known));
    if (!operands.back())
      return known[value] = nullptr, nullptr;
  }
  SmallVector<HostTensor> results{HostTensor(tensorType(value))};
  if (failed(eval.eval(operands, results)))
    return known[value] = nullptr, nullptr;
  results[0].roundToType();
  return (known[value] = std::make_unique<HostTensor>(std::move(results[0]))).get();
}

std::optional<HostTensor> mlir::scrimp::evaluateConstant(Value value, int64_t most) {
  llvm::DenseMap<Value, std::unique_ptr<HostTensor>> known;
  const HostTensor *tensor = evaluate(value, most, known);
  return tensor ? std::optional(*tensor) : std::nullopt;
}
