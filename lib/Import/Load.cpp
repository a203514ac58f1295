// From a file to a checked Model: everything that can be wrong with an ONNX file before ops are looked at is found
// here. The only file that touches protobuf.
#include "Model.h"
#include "TorchMetadata.h"

#include "scrimp/Support/Messages.h"
#include "scrimp/runtime/StateDict.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma clang diagnostic pop

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace proto = ::onnx;

Location onnx_import::nameLoc(StringRef name, MLIRContext *context) {
  return NameLoc::get(StringAttr::get(context, name));
}

Type onnx_import::elementTypeOf(int dataType, MLIRContext *context) {
  Builder b(context);
  switch (dataType) {
  case proto::TensorProto::FLOAT:
    return b.getF32Type();
  case proto::TensorProto::DOUBLE:
    return b.getF64Type();
  case proto::TensorProto::FLOAT16:
    return b.getF16Type();
  case proto::TensorProto::BFLOAT16:
    return b.getBF16Type();
  case proto::TensorProto::BOOL:
    return b.getI1Type();
  case proto::TensorProto::INT8:
    return b.getI8Type();
  case proto::TensorProto::INT32:
    return b.getI32Type();
  case proto::TensorProto::INT64:
    return b.getI64Type();
  default:
    return nullptr;
  }
}

std::string onnx_import::dataTypeName(int dataType) {
  const std::string &name = proto::TensorProto::DataType_Name(static_cast<proto::TensorProto::DataType>(dataType));
  return name.empty() ? "type " + std::to_string(dataType) : StringRef(name).lower();
}

namespace {

/// Collects what loading needs; every method reports its own errors.
class Loader {
public:
  Loader(StringRef path, MLIRContext *context, bool raiseOpset = false, bool followLinks = false)
      : context(context), raiseOpset(raiseOpset), followLinks(followLinks) {
    model.path = path.str();
    model.folder = llvm::sys::path::parent_path(path).str();
    if (model.folder.empty())
      model.folder = ".";
  }
  FailureOr<Model> load();
  FailureOr<WeightSource> loadTensor();

private:
  InFlightDiagnostic error() { return emitError(nameLoc(model.path, context)) << "'" << model.path << "' "; }
  LogicalResult parse();
  LogicalResult opsets();
  LogicalResult initializers(const proto::GraphProto &graph);
  LogicalResult interface(const proto::GraphProto &graph);
  LogicalResult nodes(const proto::GraphProto &graph);
  LogicalResult convert(const proto::NodeProto &node, const std::map<std::string, int64_t> &versions,
                        const std::map<std::string, std::string> &rename, StringRef prefix,
                        const std::map<std::string, const proto::AttributeProto *> *arguments, unsigned depth);
  LogicalResult inlineFunction(const proto::NodeProto &call, const proto::FunctionProto &function,
                               const std::map<std::string, std::string> &rename, StringRef prefix,
                               const std::map<std::string, const proto::AttributeProto *> *arguments, unsigned depth);
  LogicalResult attribute(const proto::AttributeProto &source, AttributeValue &result, StringRef node);
  LogicalResult tensor(const proto::TensorProto &source, WeightSource &result, StringRef what);
  LogicalResult external(const proto::TensorProto &source, WeightSource &result, StringRef what);

  MLIRContext *context;
  bool raiseOpset, followLinks;
  Model model;
  std::shared_ptr<proto::ModelProto> file;
  std::map<std::string, int64_t> versions;
  unsigned calls = 0;
};

} // namespace

LogicalResult Loader::parse() {
  if (std::string problem = whyNotReadable(model.path); !problem.empty())
    return error() << problem << (problem.starts_with("is") ? "; expected an ONNX model file" : "");
  auto buffer = llvm::MemoryBuffer::getFile(model.path, false, false);
  if (!buffer)
    return error() << "cannot be read: " << buffer.getError().message();
  StringRef bytes = (*buffer)->getBuffer();
  if (bytes.empty())
    return error() << "is empty; expected an ONNX model";
  if (::scrimp::runtime::whyNoSafetensors(bytes.data(), bytes.size()))
    return error() << "is a PyTorch pickle (torch.save), which holds weights but no graph; export the module with "
                   << "scrimp-export, and give weights to --init-from as safetensors";
  if (bytes.size() > static_cast<size_t>(INT32_MAX))
    return error() << "has " << bytes.size() << " bytes, more than a protobuf may; keep the weights in external data";
  file = std::make_shared<proto::ModelProto>();
  google::protobuf::SetLogHandler(nullptr);
  if (!file->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return error() << "is not an ONNX model, or is cut off: its " << bytes.size() << " bytes do not parse as one";
  if (!file->has_graph() || file->graph().node_size() + file->graph().output_size() == 0)
    return error() << "has no graph; it is not an ONNX model, or is cut off";
  model.owner = file;
  for (const auto &entry : file->metadata_props())
    model.metadata[entry.key()] = entry.value();
  model.fromTorch = StringRef(file->producer_name()).contains("pytorch");
  return success();
}

LogicalResult Loader::opsets() {
  for (const auto &import : file->opset_import()) {
    std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    versions[domain] = import.version();
  }
  if (!versions.count(""))
    return error() << "imports no opset of the domain ai.onnx; it is not an ONNX model, or is cut off";
  int64_t &version = versions[""];
  if (raiseOpset)
    version = std::max<int64_t>(version, 11);
  if (version < 11 || version > 23)
    return error() << "uses opset " << version << " of ai.onnx; supported are 11 to 23 (export it again with another "
                   << "opset_version)";
  return success();
}

LogicalResult Loader::external(const proto::TensorProto &source, WeightSource &result, StringRef what) {
  StringRef location;
  int64_t offset = 0, length = -1;
  for (const auto &entry : source.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" && StringRef(entry.value()).getAsInteger(10, offset))
      return error() << what << " has external data at offset '" << entry.value() << "', expected a number";
    else if (entry.key() == "length" && StringRef(entry.value()).getAsInteger(10, length))
      return error() << what << " has external data of length '" << entry.value() << "', expected a number";
  }
  if (location.empty())
    return error() << what << " has external data without a location";
  bool escapes = llvm::sys::path::is_absolute(location);
  for (StringRef part : llvm::make_range(llvm::sys::path::begin(location), llvm::sys::path::end(location)))
    escapes |= part == "..";
  SmallString<256> path(model.folder);
  llvm::sys::path::append(path, location);
  // A link may point anywhere: what counts is where it ends.
  if (std::string problem = whyOutside(path, model.folder, followLinks); !escapes && !problem.empty())
    return error() << what << " has external data in '" << path << "', which " << problem;
  if (escapes)
    return error() << what << " has external data in '" << location << "', which is outside the model's folder '"
                   << model.folder << "'";
  uint64_t size = 0;
  if (std::string problem = whyNotReadable(path); !problem.empty())
    return error() << what << " has its data in '" << path << "', which " << problem;
  if (std::error_code code = llvm::sys::fs::file_size(path, size))
    return error() << what << " has its data in '" << path << "', which cannot be read: " << code.message();
  uint64_t elements = 1;
  for (int64_t dim : result.shape)
    elements *= static_cast<uint64_t>(dim);
  uint64_t needed = elements * std::max(result.elementType.getIntOrFloatBitWidth() / 8, 1u);
  if (offset < 0 || (length >= 0 && static_cast<uint64_t>(length) != needed))
    return error() << what << " has external data of " << length << " bytes at offset " << offset << ", expected "
                   << needed << " bytes";
  if (static_cast<uint64_t>(offset) > size || size - offset < needed)
    return error() << what << " needs bytes " << offset << " to " << offset + needed << " of '" << path
                   << "', which has only " << size;
  result.path = path.str().str();
  result.offset = offset;
  result.length = needed;
  return success();
}

LogicalResult Loader::tensor(const proto::TensorProto &source, WeightSource &result, StringRef what) {
  result.elementType = elementTypeOf(source.data_type(), context);
  if (!result.elementType)
    return error() << what << " has elements of " << dataTypeName(source.data_type())
                   << "; supported are float16, bfloat16, float, double, bool, int8, int32 and int64";
  uint64_t elements = 1;
  for (int64_t dim : source.dims()) {
    if (dim < 0 || (dim > 0 && elements > (uint64_t(1) << 40) / static_cast<uint64_t>(dim)))
      return error() << what << " has a dimension of " << dim;
    elements *= static_cast<uint64_t>(dim);
    result.shape.push_back(dim);
  }
  if (source.data_location() == proto::TensorProto::EXTERNAL)
    return external(source, result, what);
  unsigned width = std::max(result.elementType.getIntOrFloatBitWidth() / 8, 1u);
  result.owner = file;
  auto typed = [&](const auto &field) -> StringRef {
    return StringRef(reinterpret_cast<const char *>(field.data()), field.size() * sizeof(*field.data()));
  };
  if (source.has_raw_data())
    result.bytes = source.raw_data();
  else if (source.data_type() == proto::TensorProto::FLOAT)
    result.bytes = typed(source.float_data());
  else if (source.data_type() == proto::TensorProto::DOUBLE)
    result.bytes = typed(source.double_data());
  else if (source.data_type() == proto::TensorProto::INT64)
    result.bytes = typed(source.int64_data());
  else if (width == 4)
    result.bytes = typed(source.int32_data());
  else {
    // Narrow types are stored one to an int32.
    auto narrow = std::make_shared<std::string>();
    for (int32_t value : source.int32_data())
      for (unsigned byte = 0; byte < width; ++byte)
        narrow->push_back(static_cast<char>(static_cast<uint32_t>(value) >> (8 * byte)));
    result.bytes = *narrow;
    result.owner = narrow;
  }
  if (result.bytes.size() != elements * width)
    return error() << what << " holds " << result.bytes.size() << " bytes, expected " << elements * width;
  return success();
}

LogicalResult Loader::attribute(const proto::AttributeProto &source, AttributeValue &result, StringRef node) {
  switch (source.type()) {
  case proto::AttributeProto::FLOAT:
    result.kind = AttributeValue::Float;
    result.f = source.f();
    return success();
  case proto::AttributeProto::INT:
    result.kind = AttributeValue::Int;
    result.i = source.i();
    return success();
  case proto::AttributeProto::STRING:
    result.kind = AttributeValue::String;
    result.s = source.s();
    return success();
  case proto::AttributeProto::TENSOR:
    result.kind = AttributeValue::Tensor;
    return tensor(source.t(), result.tensor, ("attribute '" + source.name() + "' of node '" + node + "'").str());
  case proto::AttributeProto::FLOATS:
    result.kind = AttributeValue::Floats;
    result.floats.assign(source.floats().begin(), source.floats().end());
    return success();
  case proto::AttributeProto::INTS:
    result.kind = AttributeValue::Ints;
    result.ints.assign(source.ints().begin(), source.ints().end());
    return success();
  case proto::AttributeProto::STRINGS:
    result.kind = AttributeValue::Strings;
    result.strings.assign(source.strings().begin(), source.strings().end());
    return success();
  default:
    return success();
  }
}

/// metadata_props came after the protobuf classes that Debian ships: they keep them as an unknown field, `number`.
template <typename Message, typename Action>
static void eachMetadata(const Message &message, int number, Action action) {
  const auto &fields = message.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto &field = fields.field(i);
    proto::StringStringEntryProto entry;
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited()))
      action(entry.key(), entry.value());
  }
}

/// The padding row that `text` tells of: the number itself, or the third argument of a lookup as torch prints its
/// calls,
/// "... torch.ops.aten.embedding.default](args = (%weight, %ids, 0), kwargs = {})", which is negative without one.
static std::optional<int64_t> paddingOf(StringRef text) {
  static llvm::Regex call(R"(aten\.embedding\.default\]\(args = \(%[^,]*, %[^,]*, ([0-9]+)[,)])");
  SmallVector<StringRef> groups;
  int64_t index;
  if (call.match(text, &groups))
    text = groups[1];
  if (text.getAsInteger(10, index) || index < 0)
    return std::nullopt;
  return index;
}

/// Whether `text` is the call by which torch's cosine_similarity bounds its norms.
static bool isStraightThrough(StringRef text) {
  static llvm::Regex call(R"(aten\.clamp_min\.Tensor\]\(args = \(%clone(_[0-9]+)?, %scalar_tensor(_[0-9]+)?\))");
  return call.match(text);
}

static void readNodeMetadata(const proto::NodeProto &source, Node &node) {
  eachMetadata(source, 9, [&](StringRef key, StringRef value) {
    if (key == "pkg.torch.onnx.name_scopes")
      node.scopes = parsePythonList(value);
    else if (key == "pkg.torch.onnx.class_hierarchy")
      node.classes = parsePythonList(value);
    else if (key == "scrimp.padding_idx")
      node.padding = paddingOf(value);
    else if (key == "scrimp.straight_through")
      node.straightThrough = true;
    else if (key == "pkg.torch.onnx.fx_node") {
      node.call = value.str();
      node.padding = paddingOf(value);
      node.straightThrough = isStraightThrough(value);
    } else if (key == "pkg.onnxscript.rewriter.rule_name")
      node.rules = value.str();
  });
}

static void readGraphMetadata(const proto::GraphProto &source, Model &model) {
  constexpr StringLiteral signature = "pkg.torch.export.ExportedProgram.graph_signature";
  eachMetadata(source, 16, [&](StringRef key, StringRef value) {
    if (key == signature)
      model.signature = value.str();
  });
  if (auto entry = model.metadata.find(signature.str()); entry != model.metadata.end() && model.signature.empty())
    model.signature = entry->second;
  for (const auto &value : source.value_info())
    eachMetadata(value, 4, [&](StringRef key, StringRef text) {
      if (key == "pkg.onnxscript.optimizer.folded_from")
        model.foldedFrom[value.name()] = parsePythonList(text);
    });
}

LogicalResult Loader::inlineFunction(const proto::NodeProto &call, const proto::FunctionProto &function,
                                     const std::map<std::string, std::string> &rename, StringRef prefix,
                                     const std::map<std::string, const proto::AttributeProto *> *arguments,
                                     unsigned depth) {
  if (depth > 32)
    return error() << "has a local function '" << function.name() << "' that calls itself";
  // Functions that call others twice each grow without bound in a file of a few hundred bytes.
  constexpr unsigned mostCalls = 1 << 14;
  if (calls >= mostCalls)
    return error() << "calls local functions more than " << mostCalls << " times, in the end '" << function.name()
                   << "'";
  std::string inner =
      (prefix + (call.name().empty() ? function.name() : call.name()) + "#" + Twine(calls++) + "/").str();
  auto renamed = [&](const std::string &name) {
    auto it = rename.find(name);
    return it == rename.end() ? name : it->second;
  };
  std::map<std::string, std::string> names;
  for (int i = 0; i < function.input_size(); ++i)
    names[function.input(i)] = i < call.input_size() ? renamed(call.input(i)) : "";
  for (const auto &node : function.node())
    for (const std::string &output : node.output())
      if (!output.empty())
        names[output] = inner + output;
  for (int i = 0; i < std::min(function.output_size(), call.output_size()); ++i)
    if (!call.output(i).empty()) {
      if (llvm::is_contained(function.input(), function.output(i)))
        return error() << "has a local function '" << function.name() << "' that returns its input '"
                       << function.output(i) << "' unchanged; put an Identity node between";
      names[function.output(i)] = renamed(call.output(i));
    }
  std::map<std::string, const proto::AttributeProto *> values;
  for (const auto &attribute : call.attribute()) {
    const proto::AttributeProto *value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (!arguments || !arguments->count(attribute.ref_attr_name()))
        continue;
      value = arguments->at(attribute.ref_attr_name());
    }
    values[attribute.name()] = value;
  }
  // Default values (field 11) came after the protobuf classes that Debian ships.
  std::vector<std::unique_ptr<proto::AttributeProto>> defaults;
  const auto &fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == 11 &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      auto value = std::make_unique<proto::AttributeProto>();
      if (value->ParseFromString(fields.field(i).length_delimited()) && !values.count(value->name())) {
        values[value->name()] = value.get();
        defaults.push_back(std::move(value));
      }
    }
  std::map<std::string, int64_t> functionVersions = versions;
  for (const auto &import : function.opset_import())
    functionVersions[import.domain() == "ai.onnx" ? "" : import.domain()] = import.version();
  for (const auto &node : function.node())
    if (failed(convert(node, functionVersions, names, inner, &values, depth + 1)))
      return failure();
  return success();
}

LogicalResult Loader::convert(const proto::NodeProto &source, const std::map<std::string, int64_t> &nodeVersions,
                              const std::map<std::string, std::string> &rename, StringRef prefix,
                              const std::map<std::string, const proto::AttributeProto *> *arguments, unsigned depth) {
  std::string domain = source.domain() == "ai.onnx" ? "" : source.domain();
  for (const auto &function : file->functions())
    if (function.name() == source.op_type() && function.domain() == source.domain())
      return inlineFunction(source, function, rename, prefix, arguments, depth);
  Node node;
  node.type = source.op_type();
  node.domain = domain;
  node.name = source.name().empty() || prefix.empty() ? source.name() : (prefix + source.name()).str();
  auto version = nodeVersions.find(domain);
  node.opset = version == nodeVersions.end() ? 0 : version->second;
  auto renamed = [&](const std::string &name) {
    auto it = rename.find(name);
    return it == rename.end() ? name : it->second;
  };
  for (const std::string &input : source.input())
    node.inputs.push_back(renamed(input));
  for (const std::string &output : source.output())
    node.outputs.push_back(renamed(output));
  for (const auto &attribute : source.attribute()) {
    const proto::AttributeProto *value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      auto it = arguments ? arguments->find(attribute.ref_attr_name()) : decltype(arguments->end())();
      if (!arguments || it == arguments->end())
        continue;
      value = it->second;
    }
    if (failed(this->attribute(*value, node.attributes[attribute.name()], node.displayName())))
      return failure();
  }
  readNodeMetadata(source, node);
  model.nodes.push_back(std::move(node));
  return success();
}

LogicalResult Loader::initializers(const proto::GraphProto &graph) {
  if (graph.sparse_initializer_size())
    return error() << "has sparse initializers ('" << graph.sparse_initializer(0).values().name()
                   << "'), which are not supported";
  for (const auto &source : graph.initializer()) {
    WeightSource weight;
    if (failed(tensor(source, weight, "initializer '" + source.name() + "'")))
      return failure();
    if (!model.initializers.insert({StringRef(source.name()), std::move(weight)}).second)
      return error() << "defines the initializer '" << source.name() << "' twice";
  }
  return success();
}

static ValueInfo valueInfo(const proto::ValueInfoProto &source, MLIRContext *context) {
  ValueInfo result;
  result.name = source.name();
  if (!source.type().has_tensor_type()) {
    result.typeName = source.has_type() ? "not a tensor" : "unknown";
    return result;
  }
  const auto &type = source.type().tensor_type();
  result.elementType = elementTypeOf(type.elem_type(), context);
  result.typeName = dataTypeName(type.elem_type());
  if (type.has_shape()) {
    result.shape.emplace();
    for (const auto &dim : type.shape().dim()) {
      Dimension dimension;
      if (dim.has_dim_value())
        dimension.size = dim.dim_value();
      else
        dimension.symbol = dim.dim_param();
      result.shape->push_back(dimension);
    }
  }
  return result;
}

LogicalResult Loader::interface(const proto::GraphProto &graph) {
  llvm::StringSet<> names;
  for (const auto &input : graph.input()) {
    if (!names.insert(input.name()).second)
      return error() << "has two inputs named '" << input.name() << "'";
    model.inputs.push_back(valueInfo(input, context));
  }
  for (const auto &output : graph.output())
    model.outputs.push_back(valueInfo(output, context));
  return success();
}

LogicalResult Loader::nodes(const proto::GraphProto &graph) {
  for (const auto &node : graph.node())
    if (failed(convert(node, versions, {}, "", nullptr, 0)))
      return failure();
  return sortNodes(model, context);
}

FailureOr<Model> Loader::load() {
  if (failed(parse()) || failed(opsets()) || failed(initializers(file->graph())) || failed(interface(file->graph())) ||
      failed(nodes(file->graph())))
    return failure();
  readGraphMetadata(file->graph(), model);
  return std::move(model);
}

FailureOr<Model> onnx_import::loadModel(StringRef path, MLIRContext *context, bool raiseOpset, bool followLinks) {
  return Loader(path, context, raiseOpset, followLinks).load();
}

FailureOr<WeightSource> Loader::loadTensor() {
  auto buffer = llvm::MemoryBuffer::getFile(model.path, false, false);
  proto::TensorProto tensorProto;
  if (!buffer || !tensorProto.ParseFromArray((*buffer)->getBufferStart(), (*buffer)->getBufferSize()) ||
      !tensorProto.data_type()) {
    error() << "is not a tensor";
    return failure();
  }
  // The bytes lie in this protobuf, not in a model's.
  auto kept = std::make_shared<proto::TensorProto>(std::move(tensorProto));
  WeightSource weight;
  if (failed(tensor(*kept, weight, "the tensor")))
    return failure();
  if (!weight.owner)
    weight.owner = kept;
  return weight;
}

FailureOr<WeightSource> onnx_import::readTensorFile(StringRef path, MLIRContext *context) {
  return Loader(path, context).loadTensor();
}
