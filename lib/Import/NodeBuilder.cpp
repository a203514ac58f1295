// Building blocks for the op table.
#include "NodeBuilder.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

Type GraphState::widen(Type elementType) const {
  return options.precision == "fp64" && isa<FloatType>(elementType) ? Float64Type::get(context) : elementType;
}

Value GraphState::scalarArgument(StringRef name, Type type) {
  Value &argument = scalarArguments[name];
  if (!argument) {
    unsigned index = function.getNumArguments();
    Builder b(context);
    DictionaryAttr attributes = b.getDictionaryAttr({b.getNamedAttr(ScrimpDialect::kScalar, b.getStringAttr(name)),
                                                     b.getNamedAttr(ScrimpDialect::kName, b.getStringAttr(name))});
    (void)function.insertArgument(index, RankedTensorType::get({}, type), attributes, function.getLoc());
    argument = function.getArgument(index);
  }
  return argument;
}

FailureOr<HostTensor> onnx_import::readTensor(const WeightSource &source, Type elementType, Location loc) {
  SmallVector<char> buffer;
  ArrayRef<char> bytes(source.bytes.data(), source.bytes.size());
  if (source.isExternal()) {
    buffer.resize(source.length);
    if (failed(readWeightBytes(source, 0, buffer, loc)))
      return failure();
    bytes = buffer;
  }
  auto stored = RankedTensorType::get(source.shape, source.elementType);
  HostTensor value(stored);
  int64_t count = value.size();
  auto read = [&](auto sample, auto &&store) {
    for (int64_t i = 0; i < count; ++i) {
      decltype(sample) element;
      std::memcpy(&element, bytes.data() + i * sizeof(element), sizeof(element));
      store(i, element);
    }
  };
  auto asInt = [&](int64_t i, auto element) { value.ints()[i] = element; };
  auto asFloat = [&](int64_t i, auto element) { value.floats()[i] = element; };
  if (stored.getElementType().isF32())
    read(float(), asFloat);
  else if (stored.getElementType().isF64())
    read(double(), asFloat);
  else if (auto type = dyn_cast<FloatType>(stored.getElementType()))
    read(uint16_t(), [&](int64_t i, uint16_t bits) {
      APFloat element(type.getFloatSemantics(), APInt(16, bits));
      bool lost;
      element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      value.floats()[i] = element.convertToDouble();
    });
  else if (stored.getElementType().isInteger(64))
    read(int64_t(), asInt);
  else if (stored.getElementType().isInteger(32))
    read(int32_t(), asInt);
  else if (stored.getElementType().isInteger(8))
    read(int8_t(), asInt);
  else
    read(uint8_t(), [&](int64_t i, uint8_t element) { value.ints()[i] = element != 0; });
  if (elementType != stored.getElementType()) {
    value = value.withType(stored.clone(elementType));
    value.roundToType();
  }
  return value;
}

Location NodeBuilder::locationOf(const Node &node, MLIRContext *context) {
  std::string name = node.displayName();
  std::string scope = node.scopes.size() >= 2 ? node.moduleScope() : "";
  return nameLoc(scope.empty() ? name : scope + "/" + name, context);
}

InFlightDiagnostic NodeBuilder::error() {
  return emitError(loc) << "node '" << cast<NameLoc>(loc).getName().getValue() << "' (" << node.type << "): ";
}

Value NodeBuilder::input(unsigned i) const {
  if (!has(i))
    return {};
  auto it = graph.values.find(node.inputs[i]);
  return it == graph.values.end() ? Value() : it->second;
}

LogicalResult NodeBuilder::require(unsigned first, unsigned count) {
  for (unsigned i = first; i < first + count; ++i)
    if (!input(i))
      return error() << (has(i) ? "input " + Twine(i) + " is '" + node.inputs[i] + "', which is not a tensor"
                                : "input " + Twine(i) + " is missing");
  return success();
}

LogicalResult NodeBuilder::requireFloat(unsigned i) {
  if (failed(require(i, 1)))
    return failure();
  if (!isFloatTensor(input(i)))
    return error() << "input " << i << " ('" << node.inputs[i] << "') is " << tensorType(input(i)).getElementType()
                   << ", expected a float type";
  return success();
}

LogicalResult NodeBuilder::requireRank(unsigned i, int64_t least) {
  if (failed(require(i, 1)))
    return failure();
  if (tensorType(input(i)).getRank() < least)
    return error() << "input " << i << " ('" << node.inputs[i] << "') has rank " << tensorType(input(i)).getRank()
                   << ", expected at least " << least;
  return success();
}

SmallVector<Value> NodeBuilder::allInputs() const {
  SmallVector<Value> values;
  for (unsigned i = 0; i < numInputs(); ++i)
    values.push_back(input(i));
  return values;
}

const AttributeValue *NodeBuilder::find(StringRef name, AttributeValue::Kind kind) const {
  read.insert(name);
  auto it = node.attributes.find(name.str());
  if (it == node.attributes.end())
    return nullptr;
  if (it->second.kind == kind)
    return &it->second;
  mistyped = name.str();
  return nullptr;
}

LogicalResult NodeBuilder::checkAllRead() {
  if (!mistyped.empty())
    return error() << "attribute '" << mistyped << "' is of another kind than the op's";
  auto tell = [&](const std::string &what, const std::string &key) {
    if (graph.ignored.insert(node.type + "." + key).second)
      graph.notes.push_back(what + " of " + node.type + " nodes is not looked at (first in '" + node.displayName() +
                            "')");
  };
  // Left behind by converters from opsets before 7; without a meaning since.
  static const llvm::StringSet<> legacy{"consumed_inputs", "broadcast"};
  for (const auto &[name, value] : node.attributes)
    if (!read.contains(name) && !legacy.contains(name))
      tell("attribute '" + name + "'", name);
  for (unsigned i = 0; i < node.inputs.size(); ++i)
    if (!node.inputs[i].empty() && !readInputs.contains(i))
      tell("input " + std::to_string(i), std::to_string(i));
  return success();
}

int64_t NodeBuilder::intAttr(StringRef name, int64_t fallback) const {
  const AttributeValue *value = find(name, AttributeValue::Int);
  return value ? value->i : fallback;
}

double NodeBuilder::floatAttr(StringRef name, double fallback) const {
  auto exact = graph.scalars.find(node.name + ":" + name.str());
  if (exact != graph.scalars.end()) {
    read.insert(name);
    return exact->second;
  }
  const AttributeValue *value = find(name, AttributeValue::Float);
  return value ? value->f : fallback;
}

std::string NodeBuilder::stringAttr(StringRef name, StringRef fallback) const {
  const AttributeValue *value = find(name, AttributeValue::String);
  return value ? value->s : fallback.str();
}

std::optional<SmallVector<int64_t>> NodeBuilder::intsAttr(StringRef name) const {
  const AttributeValue *value = find(name, AttributeValue::Ints);
  return value ? std::optional(SmallVector<int64_t>(value->ints.begin(), value->ints.end())) : std::nullopt;
}

FailureOr<SmallVector<int64_t>> NodeBuilder::constantInts(unsigned i, StringRef what) {
  if (failed(require(i, 1)))
    return failure();
  std::optional<HostTensor> value = constantOf(input(i));
  if (!value || value->isFloat()) {
    error() << what << " ('" << node.inputs[i] << "') "
            << (value ? "is not of integers" : "depends on the data; Scrimp needs it when it compiles");
    return failure();
  }
  return SmallVector<int64_t>(value->ints());
}

FailureOr<double> NodeBuilder::constantScalar(unsigned i, StringRef what) {
  if (failed(require(i, 1)))
    return failure();
  std::optional<HostTensor> value = constantOf(input(i));
  if (!value || value->size() != 1) {
    error() << what << " ('" << node.inputs[i] << "') "
            << (value ? "is not one number" : "depends on the data; Scrimp needs it when it compiles");
    return failure();
  }
  auto exact = graph.scalars.find(node.inputs[i]);
  return exact != graph.scalars.end() && value->isFloat() ? exact->second : value->asDouble(0);
}

FailureOr<std::optional<SmallVector<int64_t>>> NodeBuilder::axes(StringRef name, unsigned i) {
  if (std::optional<SmallVector<int64_t>> fromAttribute = intsAttr(name))
    return fromAttribute;
  if (!has(i))
    return std::optional<SmallVector<int64_t>>();
  FailureOr<SmallVector<int64_t>> values = constantInts(i, name);
  if (failed(values))
    return failure();
  return std::optional<SmallVector<int64_t>>(*values);
}

FailureOr<int64_t> NodeBuilder::normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= std::max<int64_t>(rank, 0)) {
    error() << "axis " << axis << " is outside a tensor of rank " << rank;
    return failure();
  }
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> NodeBuilder::normalizeAxes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    FailureOr<int64_t> normalized = normalizeAxis(axis, rank);
    if (failed(normalized))
      return failure();
    if (llvm::is_contained(result, *normalized)) {
      error() << "axis " << axis << " is named twice";
      return failure();
    }
    result.push_back(*normalized);
  }
  llvm::sort(result);
  return result;
}

Value NodeBuilder::intConstant(ArrayRef<int64_t> values, ArrayRef<int64_t> shape, Type elementType) {
  HostTensor tensor(RankedTensorType::get(shape, elementType ? elementType : builder.getI64Type()));
  llvm::copy(values, tensor.ints().begin());
  return graph.constant(loc, tensor);
}

Value NodeBuilder::positions(ArrayRef<int64_t> shape, int64_t dim, int64_t start) {
  SmallVector<int64_t> line(shape.size(), 1);
  line[dim] = shape[dim];
  HostTensor numbers(RankedTensorType::get(line, builder.getI64Type()));
  for (int64_t i = 0; i < shape[dim]; ++i)
    numbers.ints()[i] = start + i;
  return graph.constant(loc, numbers, numbers.getType().clone(shape));
}

Value NodeBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return make<ReshapeOp>(tensorType(value).clone(shape), value);
}

Value NodeBuilder::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return make<BroadcastOp>(tensorType(value).clone(shape), value);
}

Value NodeBuilder::cast(Value value, Type elementType) {
  if (tensorType(value).getElementType() == elementType)
    return value;
  return make<CastOp>(tensorType(value).clone(elementType), value);
}

Value NodeBuilder::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (llvm::all_of(llvm::enumerate(permutation), [](auto entry) { return (int64_t)entry.index() == entry.value(); }))
    return value;
  return make<TransposeOp>(value, permutation);
}

Value NodeBuilder::slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  if (shapeOf(value) == sizes && llvm::all_of(starts, [](int64_t s) { return s == 0; }) &&
      llvm::all_of(strides, [](int64_t s) { return s == 1; }))
    return value;
  return make<SliceOp>(tensorType(value).clone(sizes), value, builder.getDenseI64ArrayAttr(starts),
                       builder.getDenseI64ArrayAttr(strides));
}

Value NodeBuilder::sliceDim(Value value, int64_t dim, int64_t start, int64_t size) {
  SmallVector<int64_t> starts(shapeOf(value).size(), 0), strides(shapeOf(value).size(), 1), sizes(shapeOf(value));
  starts[dim] = start;
  sizes[dim] = size;
  return slice(value, starts, sizes, strides);
}

Value NodeBuilder::reduce(ReduceKind kind, Value value, ArrayRef<int64_t> dims) {
  return dims.empty() ? value : make<ReduceOp>(kind, value, dims);
}

Value NodeBuilder::rootOfSum(Value sum, llvm::function_ref<Value(Value)> root) {
  Value zero = splat(tensorType(sum), 0), isZero = make<CompareOp>(Predicate::eq, sum, zero);
  Value safe = make<SelectOp>(isZero, splat(tensorType(sum), 1), sum);
  return make<SelectOp>(isZero, zero, root(safe));
}

static bool startsWithAny(StringRef traced, ArrayRef<StringRef> ops) {
  return llvm::any_of(ops, [&](StringRef op) { return traced.starts_with(op); });
}

bool NodeBuilder::isFrom(ArrayRef<StringRef> ops) const {
  return !node.classes.empty() && startsWithAny(node.classes.back(), ops);
}

bool NodeBuilder::isInputFrom(unsigned i, ArrayRef<StringRef> ops) const {
  return i < node.inputs.size() && startsWithAny(graph.traced.lookup(node.inputs[i]), ops);
}

static std::string shapeText(Value value) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shapeOf(value), os);
  return text + "]";
}

FailureOr<SmallVector<int64_t>> NodeBuilder::commonShape(ValueRange values) {
  SmallVector<int64_t> shape;
  for (Value value : values) {
    ArrayRef<int64_t> other = shapeOf(value);
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t &dim = shape[shape.size() - 1 - i];
      int64_t mine = other[other.size() - 1 - i];
      if (dim != mine && dim != 1 && mine != 1) {
        InFlightDiagnostic diagnostic = error() << "the inputs' shapes do not broadcast together:";
        for (Value v : values)
          diagnostic << " " << shapeText(v);
        return failure();
      }
      dim = dim == 1 ? mine : dim;
    }
  }
  return shape;
}

FailureOr<SmallVector<Value>> NodeBuilder::broadcastTogether(ValueRange values) {
  for (Value value : values)
    if (tensorType(value).getElementType() != tensorType(values[0]).getElementType()) {
      error() << "the inputs' types differ: " << tensorType(values[0]).getElementType() << " and "
              << tensorType(value).getElementType();
      return failure();
    }
  FailureOr<SmallVector<int64_t>> shape = commonShape(values);
  if (failed(shape))
    return failure();
  SmallVector<Value> result;
  for (Value value : values)
    result.push_back(broadcast(value, *shape));
  return result;
}

LogicalResult NodeBuilder::set(unsigned output, Value value) {
  int64_t elements = 1;
  for (int64_t dim : shapeOf(value))
    if (llvm::MulOverflow(elements, dim, elements) || elements > (int64_t(1) << 40))
      return error() << "its result " << value.getType() << " is too large";
  if (output < node.outputs.size() && !node.outputs[output].empty()) {
    graph.values[node.outputs[output]] = value;
    if (!node.classes.empty())
      graph.traced[node.outputs[output]] = node.classes.back();
  }
  return success();
}

bool NodeBuilder::isUsed(unsigned output) const {
  return output < node.outputs.size() && !node.outputs[output].empty() && graph.used.contains(node.outputs[output]);
}
