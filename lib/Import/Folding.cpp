// Constant folding as ops are made. Vectors are folded; what spreads them over each other (a mask [T,T] from positions
// [T]) stays the ops that compute it, whatever the size, so that nothing grows with the square of a sequence.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// Above this a constant is computed by the program instead.
static constexpr int64_t kMaxFoldedIntegers = int64_t(1) << 22, kMaxFoldedFloats = int64_t(1) << 20;

/// Up to this a constant is written out as it is, also where it repeats or counts.
static constexpr int64_t kSmallConstant = 8;

static bool isTooLarge(Value value) {
  return tensorType(value).getNumElements() > (isFloatTensor(value) ? kMaxFoldedFloats : kMaxFoldedIntegers);
}

static SmallVector<int64_t> padShape(ArrayRef<int64_t> shape, size_t rank) {
  SmallVector<int64_t> padded(rank - shape.size(), 1);
  llvm::append_range(padded, shape);
  return padded;
}

/// The shape, of `value`'s rank, in which a constant, an iota or a repetition of one holds its elements; nothing if
/// `value` is none of these.
static std::optional<SmallVector<int64_t>> storedShape(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Operation *op = value.getDefiningOp();
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
    std::optional<SmallVector<int64_t>> inner = storedShape(broadcast.getX());
    return inner ? std::optional(padShape(*inner, shape.size())) : std::nullopt;
  }
  SmallVector<int64_t> single(shape.size(), 1);
  if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    single[iota.getDim()] = shape[iota.getDim()];
    return single;
  }
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  if (!constant || !isa<DenseElementsAttr>(constant.getValue()))
    return std::nullopt;
  return isa<SplatElementsAttr>(constant.getValue()) && tensorType(value).getNumElements() > 0
             ? single
             : SmallVector<int64_t>(shape);
}

/// Whether `op` only moves elements.
static bool isMovement(Operation *op) { return isa<ReshapeOp, BroadcastOp, TransposeOp, SliceOp>(op); }

//===-- Values ---------------------------------------------------------------------------------------------------===//

/// Whether `value` depends on nothing but constants, none of its intermediate values being too large.
static bool isComputable(Value value, llvm::DenseMap<Value, bool> &known) {
  if (auto entry = known.find(value); entry != known.end())
    return entry->second;
  Operation *op = value.getDefiningOp();
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  bool computable = isa_and_nonnull<EvalOp>(op) && tensorType(value).getNumElements() <= kMaxFoldedIntegers &&
                    (!constant || isa<DenseElementsAttr>(constant.getValue())) &&
                    llvm::all_of(op->getOperands(), [&](Value operand) { return isComputable(operand, known); });
  return known[value] = computable;
}

/// Evaluates what isComputable allows; null where an op has failed after an error.
static const HostTensor *evaluateAll(Value value, llvm::DenseMap<Value, std::unique_ptr<HostTensor>> &known) {
  if (auto entry = known.find(value); entry != known.end())
    return entry->second.get();
  Operation *op = value.getDefiningOp();
  SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(evaluateAll(operand, known));
    if (!operands.back())
      return nullptr;
  }
  SmallVector<HostTensor> results;
  for (Type type : op->getResultTypes())
    results.emplace_back(cast<RankedTensorType>(type));
  if (failed(cast<EvalOp>(op).eval(operands, results)))
    return nullptr;
  for (auto [result, tensor] : llvm::zip(op->getResults(), results)) {
    tensor.roundToType();
    known[result] = std::make_unique<HostTensor>(std::move(tensor));
  }
  return known[value].get();
}

std::optional<HostTensor> onnx_import::constantOf(Value value) {
  llvm::DenseMap<Value, bool> computable;
  if (!value || !isComputable(value, computable))
    return std::nullopt;
  llvm::DenseMap<Value, std::unique_ptr<HostTensor>> known;
  const HostTensor *tensor = evaluateAll(value, known);
  return tensor ? std::optional(*tensor) : std::nullopt;
}

//===-- Compact constants ----------------------------------------------------------------------------------------===//

/// `value` with size 1 in every dimension along which it is constant.
static HostTensor withoutRepetition(const HostTensor &value) {
  HostTensor result = value;
  for (int64_t dim = 0, rank = value.getShape().size(); dim < rank; ++dim) {
    SmallVector<int64_t> shape(result.getShape());
    int64_t size = shape[dim], inner = 1;
    for (int64_t d : ArrayRef<int64_t>(shape).drop_front(dim + 1))
      inner *= d;
    if (size <= 1 || result.size() == 0)
      continue;
    int64_t block = inner * size, blocks = result.size() / block;
    auto repeats = [&](auto elements) { // bits: NaN equals itself
      for (int64_t i = 0; i < blocks; ++i)
        for (int64_t k = 1; k < size; ++k)
          if (std::memcmp(&elements[i * block], &elements[i * block + k * inner], inner * sizeof(elements[0])) != 0)
            return false;
      return true;
    };
    if (result.isFloat() ? !repeats(std::as_const(result).floats()) : !repeats(std::as_const(result).ints()))
      continue;
    shape[dim] = 1;
    HostTensor part(value.getType().clone(shape));
    for (int64_t i = 0; i < blocks; ++i)
      if (part.isFloat())
        llvm::copy(result.floats().slice(i * block, inner), part.floats().begin() + i * inner);
      else
        llvm::copy(result.ints().slice(i * block, inner), part.ints().begin() + i * inner);
    result = std::move(part);
  }
  return result;
}

/// An iota of these very elements, if they count along the only dimension that is not 1.
static Value countingAs(OpBuilder &builder, Location loc, const HostTensor &value) {
  if (value.size() <= kSmallConstant || value.getType().getElementType().isInteger(1))
    return {};
  std::optional<int64_t> dim;
  for (auto [d, size] : llvm::enumerate(value.getShape())) {
    if (size != 1 && dim)
      return {};
    if (size != 1)
      dim = d;
  }
  double start = value.asDouble(0), step = value.asDouble(1) - start;
  if (!std::isfinite(start) || !std::isfinite(step) || std::abs(start) > 0x1p52 ||
      std::abs(step) > 0x1p52 / value.size())
    return {};
  auto floatType = dyn_cast<FloatType>(value.getType().getElementType());
  for (int64_t i = 0; i < value.size(); ++i) {
    double counted = start + step * i;
    if (value.asDouble(i) != (floatType ? roundToFloatType(counted, floatType) : counted) ||
        std::signbit(counted) != std::signbit(value.asDouble(i)))
      return {};
  }
  return IotaOp::create(builder, loc, value.getType(), *dim, APFloat(start), APFloat(step));
}

Value GraphState::constant(Location loc, const HostTensor &value) { return constant(loc, value, value.getType()); }

Value GraphState::constant(Location loc, const HostTensor &value, RankedTensorType type) {
  auto dense = [&](const HostTensor &tensor) {
    return ConstantOp::create(builder, loc, cast<ElementsAttr>(tensor.toAttr())).getResult();
  };
  if (type.getNumElements() <= kSmallConstant && value.getType() == type)
    return dense(value);
  HostTensor part = withoutRepetition(value);
  if (part.size() == 1)
    return splatConstant(builder, loc, type, part.asDouble(0));
  Value result = countingAs(builder, loc, part);
  if (!result)
    result = dense(part);
  return broadcastTo(builder, loc, result, type.getShape());
}

//===-- Folding --------------------------------------------------------------------------------------------------===//

/// The operand in the shape in which it is stored.
static HostTensor storedValue(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getX();
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    auto elements = cast<DenseElementsAttr>(constant.getValue());
    if (elements.isSplat() && elements.getNumElements() > 0)
      return HostTensor::get(
          elements.resizeSplat(tensorType(value).clone(SmallVector<int64_t>(tensorType(value).getRank(), 1))));
    return HostTensor::get(elements);
  }
  auto iota = value.getDefiningOp<IotaOp>();
  SmallVector<int64_t> single(tensorType(value).getRank(), 1);
  single[iota.getDim()] = shapeOf(value)[iota.getDim()];
  HostTensor result(tensorType(value).clone(single));
  MutableArrayRef<HostTensor> results(result);
  (void)iota.eval({}, results);
  result.roundToType();
  return result;
}

/// `value` repeated to `shape`, to which it broadcasts.
static HostTensor spread(const HostTensor &value, ArrayRef<int64_t> shape) {
  if (value.getShape() == shape)
    return value;
  SmallVector<int64_t> from = padShape(value.getShape(), shape.size()), strides = rowMajorStrides(from);
  HostTensor result(value.getType().clone(shape));
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t at = 0;
    for (auto [n, size, stride] : llvm::zip(index, from, strides))
      at += size == 1 ? 0 : n * stride;
    if (value.isFloat())
      result.floats()[i] = value.floats()[at];
    else
      result.ints()[i] = value.ints()[at];
  });
  return result;
}

/// Folds an op that computes each element from those at the same index, without what repeats. Null where it stays: it
/// would hold more elements than each of its operands.
static Value foldPointwise(GraphState &graph, Operation *op) {
  RankedTensorType type = tensorType(op->getResult(0));
  SmallVector<int64_t> shape(type.getRank(), 1);
  int64_t most = kSmallConstant;
  for (Value operand : op->getOperands()) {
    SmallVector<int64_t> stored = *storedShape(operand);
    int64_t count = 1;
    for (auto [size, other] : llvm::zip(shape, stored)) {
      size = size == 1 ? other : size;
      count *= other;
    }
    most = std::max(most, count);
  }
  RankedTensorType narrow = type.clone(shape);
  bool outer = narrow.getNumElements() > most;
  if (outer && (!isFloatTensor(op->getResult(0)) || narrow.getNumElements() > kMaxFoldedFloats))
    return {};
  SmallVector<HostTensor> operands, results{HostTensor(narrow)};
  SmallVector<const HostTensor *> pointers;
  for (Value operand : op->getOperands())
    operands.push_back(spread(storedValue(operand), shape));
  for (const HostTensor &operand : operands)
    pointers.push_back(&operand);
  if (failed(cast<EvalOp>(op).eval(pointers, results)))
    return {};
  results[0].roundToType();
  return graph.constant(op->getLoc(), results[0], type);
}

/// The results of an op whose operands are known; fails where they are too large, or after an error that the op has
/// told.
static FailureOr<SmallVector<HostTensor>> evaluate(Operation *op) {
  if (llvm::any_of(op->getResults(), isTooLarge))
    return failure();
  SmallVector<HostTensor> operands, values;
  SmallVector<const HostTensor *> pointers;
  operands.reserve(op->getNumOperands());
  for (Value operand : op->getOperands()) {
    std::optional<HostTensor> value = constantOf(operand);
    if (!value)
      return failure();
    operands.push_back(std::move(*value));
    pointers.push_back(&operands.back());
  }
  for (Value result : op->getResults())
    values.emplace_back(tensorType(result));
  if (failed(cast<EvalOp>(op).eval(pointers, values)))
    return failure();
  for (HostTensor &value : values)
    value.roundToType();
  return values;
}

SmallVector<Value> GraphState::fold(Operation *op) {
  SmallVector<Value> results(op->getResults());
  if (!isa<EvalOp>(op) || op->getNumOperands() == 0)
    return results;
  bool stored = llvm::all_of(op->getOperands(), [](Value operand) { return storedShape(operand).has_value(); });
  if (!stored && !llvm::all_of(op->getOperands(), [&](Value operand) {
        return symbolic.contains(operand) || storedShape(operand).has_value();
      }))
    return results;
  if (!stored && (isMovement(op) || isPointwise(op))) {
    symbolic.insert_range(results);
    return results;
  }
  if (stored && isPointwise(op)) {
    if (Value folded = foldPointwise(*this, op)) {
      results[0] = folded;
      op->erase();
    } else {
      symbolic.insert(results[0]);
    }
    return results;
  }
  // A repetition costs nothing in a kernel.
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    auto constant = broadcast.getX().getDefiningOp<ConstantOp>();
    if (constant && isa<SplatElementsAttr>(constant.getValue())) {
      auto splat = cast<DenseElementsAttr>(constant.getValue()).resizeSplat(tensorType(results[0]));
      results[0] = ConstantOp::create(builder, op->getLoc(), cast<ElementsAttr>(splat));
      op->erase();
      return results;
    }
    if (tensorType(results[0]).getNumElements() > kSmallConstant) {
      if (auto inner = broadcast.getX().getDefiningOp<BroadcastOp>())
        broadcast.getXMutable().assign(inner.getX());
      return results;
    }
  }
  FailureOr<SmallVector<HostTensor>> values = evaluate(op);
  if (failed(values)) {
    symbolic.insert_range(results);
    return results;
  }
  for (auto [result, value] : llvm::zip(results, *values))
    result = constant(op->getLoc(), value);
  op->erase();
  return results;
}
