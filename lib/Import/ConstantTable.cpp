// The op table: constants, shapes as values, and what is made from them.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

LogicalResult constant(NodeBuilder &b) {
  if (b.node.attributes.size() != 1)
    return b.error() << "found " << b.node.attributes.size() << " attributes, expected exactly one value";
  const auto &[name, value] = *b.node.attributes.begin();
  b.pass(name);
  Type f32 = b.graph.widen(b.builder.getF32Type()), i64 = b.builder.getI64Type();
  auto exact = b.node.outputs.empty() ? b.graph.scalars.end() : b.graph.scalars.find(b.node.outputs[0]);
  HostTensor tensor;
  switch (value.kind) {
  case AttributeValue::Tensor: {
    Type type = b.graph.widen(value.tensor.elementType);
    if (exact == b.graph.scalars.end()) {
      FailureOr<Value> stored = b.graph.stored(value.tensor, type, b.loc);
      return failed(stored) ? failure() : b.result(*stored);
    }
    FailureOr<HostTensor> read = readTensor(value.tensor, type, b.loc);
    if (failed(read))
      return failure();
    tensor = *read;
    break;
  }
  case AttributeValue::Float:
    tensor = HostTensor::splat(RankedTensorType::get({}, f32), value.f);
    break;
  case AttributeValue::Int:
    tensor = HostTensor(RankedTensorType::get({}, i64));
    tensor.ints()[0] = value.i;
    break;
  case AttributeValue::Floats:
    tensor = HostTensor(RankedTensorType::get({(int64_t)value.floats.size()}, f32));
    llvm::copy(value.floats, tensor.floats().begin());
    break;
  case AttributeValue::Ints:
    tensor = HostTensor(RankedTensorType::get({(int64_t)value.ints.size()}, i64));
    llvm::copy(value.ints, tensor.ints().begin());
    break;
  default:
    return b.error() << "a constant given by '" << name << "' is not supported";
  }
  if (exact != b.graph.scalars.end() && tensor.isFloat()) {
    tensor = HostTensor::splat(tensor.getType(), exact->second);
    tensor.roundToType();
  }
  return b.result(b.graph.constant(b.loc, tensor));
}

LogicalResult constantOfShape(NodeBuilder &b) {
  FailureOr<SmallVector<int64_t>> shape = b.constantInts(0, "the shape");
  if (failed(shape))
    return failure();
  Type type = b.graph.widen(b.builder.getF32Type());
  double value = 0;
  if (const AttributeValue *attribute = b.find("value", AttributeValue::Tensor)) {
    type = b.graph.widen(attribute->tensor.elementType);
    FailureOr<HostTensor> read = readTensor(attribute->tensor, type, b.loc);
    if (failed(read))
      return failure();
    if (read->size() != 1)
      return b.error() << "the value has " << read->size() << " elements, expected one";
    value = read->asDouble(0);
  }
  for (int64_t dim : *shape)
    if (dim < 0)
      return b.error() << "the shape has a dimension of " << dim;
  return b.result(b.splat(RankedTensorType::get(*shape, type), value));
}

LogicalResult shape(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  ArrayRef<int64_t> dims = shapeOf(b.input(0));
  int64_t rank = dims.size();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamp(b.intAttr("start", 0)), end = clamp(b.intAttr("end", rank));
  dims = dims.slice(start, std::max<int64_t>(end - start, 0));
  return b.result(b.intConstant(dims, {(int64_t)dims.size()}));
}

LogicalResult size(NodeBuilder &b) {
  if (failed(b.require(0, 1)))
    return failure();
  return b.result(b.intConstant({tensorType(b.input(0)).getNumElements()}, {}));
}

LogicalResult range(NodeBuilder &b) {
  double values[3];
  for (unsigned i = 0; i < 3; ++i) {
    FailureOr<double> value = b.constantScalar(i, i == 0 ? "start" : i == 1 ? "limit" : "delta");
    if (failed(value))
      return failure();
    values[i] = *value;
  }
  if (values[2] == 0)
    return b.error() << "delta is 0";
  double length = std::ceil((values[1] - values[0]) / values[2]);
  if (!(length <= 1 << 24))
    return b.error() << "from " << values[0] << " to " << values[1] << " by " << values[2]
                     << " are too many numbers, expected at most " << (1 << 24);
  int64_t count = std::max(length, 0.0);
  HostTensor result(RankedTensorType::get({count}, tensorType(b.input(0)).getElementType()));
  for (int64_t i = 0; i < count; ++i)
    if (result.isFloat())
      result.floats()[i] = values[0] + i * values[2];
    else
      result.ints()[i] = static_cast<int64_t>(values[0]) + i * static_cast<int64_t>(values[2]);
  result.roundToType();
  return b.result(b.graph.constant(b.loc, result));
}

LogicalResult trilu(NodeBuilder &b) {
  if (failed(b.requireRank(0, 2)))
    return failure();
  int64_t k = 0;
  if (b.has(1)) {
    FailureOr<double> given = b.constantScalar(1, "k");
    if (failed(given))
      return failure();
    k = *given;
  }
  Value x = b.input(0);
  int64_t rank = shapeOf(x).size();
  Value keep = b.make<CompareOp>(b.intAttr("upper", 1) ? Predicate::ge : Predicate::le,
                                 b.positions(shapeOf(x), rank - 1), b.positions(shapeOf(x), rank - 2, k));
  return b.result(b.make<SelectOp>(keep, x, b.splat(tensorType(x), 0)));
}

LogicalResult eyeLike(NodeBuilder &b) {
  if (failed(b.requireRank(0, 2)))
    return failure();
  Value x = b.input(0);
  Type type =
      b.hasAttr("dtype") ? elementTypeOf(b.intAttr("dtype", 0), b.graph.context) : tensorType(x).getElementType();
  if (!type || shapeOf(x).size() != 2)
    return b.error() << "expected a rank of 2 and a supported type";
  Value diagonal =
      b.make<CompareOp>(Predicate::eq, b.positions(shapeOf(x), 1), b.positions(shapeOf(x), 0, b.intAttr("k", 0)));
  return b.result(b.cast(diagonal, b.graph.widen(type)));
}

const OpEntry kOps[] = {
    {"Constant", "", 1, 0, constant}, {"ConstantOfShape", "", 9, 0, constantOfShape},
    {"Shape", "", 1, 0, shape},       {"Size", "", 1, 0, size},
    {"Range", "", 11, 0, range},      {"Trilu", "", 14, 0, trilu},
    {"EyeLike", "", 9, 0, eyeLike},
};

} // namespace

ArrayRef<OpEntry> onnx_import::constantOps() { return kOps; }
