// From the weights of a file to parameters with roles (Roles.cpp). Exporters other than scrimp-export also merge,
// transpose and fold weights: what can be told apart is mended first (Traced.cpp, Mends.cpp).
#include "ParameterAnalysis.h"

#include "NodeBuilder.h"
#include "Patterns.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

bool onnx_import::trainsBatchNorm(const Node &node, const ImportOptions &options) {
  if (node.type != "BatchNormalization")
    return false;
  auto mode = node.attributes.find("training_mode");
  return options.trainingMode || (mode != node.attributes.end() && mode->second.i) ||
         (node.opset < 14 && llvm::count_if(node.outputs, [](auto &o) { return !o.empty(); }) > 1);
}

/// Parses an entry of the metadata that is a JSON object.
static LogicalResult parseObject(Model &model, StringRef key, llvm::json::Object &result, MLIRContext *context) {
  auto entry = model.metadata.find(key.str());
  if (entry == model.metadata.end())
    return success();
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(entry->second);
  if (!parsed || !parsed->getAsObject()) {
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    return emitError(nameLoc(model.path, context))
           << "'" << model.path << "' has metadata '" << key << "' that is not a JSON object; export it again";
  }
  result = std::move(*parsed->getAsObject());
  return success();
}

LogicalResult ParameterAnalysis::readMetadata() {
  hasMetadata = model.metadata.count("scrimp.parameters");
  if (failed(parseObject(model, "scrimp.parameters", kinds, context)) ||
      failed(parseObject(model, "scrimp.ties", ties, context)))
    return failure();
  return success();
}

LogicalResult ParameterAnalysis::collect() {
  for (auto &[name, source] : model.initializers)
    if (!dataInputs.contains(name))
      candidates.push_back({name.str(), source, source.elementType, source.shape});
  for (const ValueInfo &input : model.inputs) {
    if (dataInputs.contains(input.name) || model.initializers.count(input.name))
      continue;
    if (!input.elementType && uses[input.name].empty() && isPersistentBuffer(input.name)) {
      opaque.push_back(input.name);
      continue;
    }
    if (!input.elementType)
      return error() << "has an input '" << input.name << "' of " << input.typeName
                     << "; supported are float16, bfloat16, float, double, bool, int8, int32 and int64";
    Candidate candidate{input.name, std::nullopt, input.elementType, {}};
    if (!input.shape)
      return error() << "has a parameter '" << input.name << "' without a shape";
    for (const Dimension &dim : *input.shape) {
      if (!dim.size)
        return error() << "has a parameter '" << input.name << "' with the symbolic dimension '" << dim.symbol
                       << "'; if it is data, name it with --data " << input.name << "=FILE";
      candidate.shape.push_back(*dim.size);
    }
    candidates.push_back(candidate);
  }
  return attachWeightsFile();
}

LogicalResult ParameterAnalysis::attachWeightsFile() {
  auto entry = model.metadata.find("scrimp.weights");
  if (entry == model.metadata.end())
    return success();
  StringRef file = entry->second;
  if (file.empty() || file.contains('/') || file == "..")
    return error() << "names the weights file '" << file << "', which is not a file beside it";
  SmallString<256> path(model.folder);
  llvm::sys::path::append(path, file);
  if (!llvm::sys::fs::exists(path))
    return error() << "has its weights in '" << path << "', which does not exist; put it beside the model, or export with "
                   << "--no-weights";
  if (std::string problem = whyOutside(path, model.folder, options.followLinks); !problem.empty())
    return error() << "has its weights in '" << path << "', which " << problem;
  FailureOr<llvm::StringMap<WeightSource>> tensors = openSafetensors(path, context);
  if (failed(tensors))
    return failure();
  for (Candidate &candidate : candidates) {
    auto tensor = tensors->find(candidate.value);
    if (candidate.source || tensor == tensors->end())
      continue;
    if (tensor->second.shape != candidate.shape) {
      auto text = [](ArrayRef<int64_t> shape) {
        std::string result = "[";
        llvm::raw_string_ostream os(result);
        llvm::interleaveComma(shape, os);
        return result + "]";
      };
      return error() << "has '" << candidate.value << "' of shape " << text(candidate.shape) << ", but '" << path
                     << "' holds " << text(tensor->second.shape);
    }
    if (!tensor->second.elementType)
      return error() << "has '" << candidate.value << "', but '" << path << "' holds " << tensor->second.typeName
                     << ", which does not convert";
    candidate.source = tensor->second;
  }
  for (const std::string &name : opaque)
    if (auto tensor = tensors->find(name); tensor != tensors->end())
      carry(name, tensor->second);
  return success();
}

bool ParameterAnalysis::isPersistentBuffer(StringRef name) const {
  if (const Signature::Entry *entry = signature ? signature->byTarget(name) : nullptr)
    return entry->kind == Signature::Entry::Buffer && entry->persistent;
  const llvm::json::Object *entry = kinds.getObject(name);
  return entry && entry->getString("kind") == StringRef("buffer") &&
         entry->getBoolean("persistent").value_or(!model.initializers.count(name));
}

void ParameterAnalysis::carry(StringRef name, WeightSource source) {
  if (source.typeName.empty())
    source.typeName = safetensorsName(source.elementType).str();
  CarriedTensor carried{{name.str()}, std::move(source)};
  for (const auto &[alias, target] : ties)
    if (target.getAsString() == name)
      carried.names.push_back(alias.str());
  result.carried.push_back(std::move(carried));
}

void ParameterAnalysis::findUses() {
  uses.clear();
  for (auto [n, node] : llvm::enumerate(model.nodes))
    if (live[n])
      for (auto [i, input] : llvm::enumerate(node.inputs))
        uses[input].push_back({n, static_cast<unsigned>(i)});
}

const std::vector<double> *ParameterAnalysis::values(const Candidate &candidate) {
  if (!candidate.source)
    return nullptr;
  auto [entry, isNew] = cache.insert({candidate.value, {}});
  if (isNew) {
    FailureOr<HostTensor> tensor = readTensor(*candidate.source, candidate.elementType, UnknownLoc::get(context));
    if (succeeded(tensor))
      for (int64_t i = 0; i < tensor->size(); ++i)
        entry->second.push_back(tensor->asDouble(i));
  }
  return &entry->second;
}

InFlightDiagnostic ParameterAnalysis::error() {
  return emitError(nameLoc(model.path, context)) << "'" << model.path << "' ";
}

bool ParameterAnalysis::isSplat(const Candidate &candidate) {
  const std::vector<double> *elements = values(candidate);
  return elements && !elements->empty() && llvm::all_equal(*elements);
}

void ParameterAnalysis::add(const Candidate &candidate) {
  Parameter parameter;
  parameter.name = candidate.value;
  parameter.source = candidate.source;
  parameter.elementType = candidate.elementType;
  parameter.shape = candidate.shape;
  parameter.made = isAnonymous(candidate.value);
  std::tie(parameter.role, parameter.reason) = role(candidate, candidate.value);
  if (!hasMetadata && parameter.role != Parameter::Constant)
    addHiddenTies(candidate, parameter);
  for (const auto &[alias, target] : ties)
    if (target.getAsString() == StringRef(candidate.value))
      parameter.aliases.push_back(alias.str());
  llvm::sort(parameter.aliases);
  if (parameter.role == Parameter::Trainable && !hasMetadata && isAnonymous(candidate.value))
    tellComputed(candidate);
  result.bindings.push_back({candidate.value, result.list.size(), false});
  result.list.push_back(std::move(parameter));
}

FailureOr<Parameters> ParameterAnalysis::run() {
  findUses();
  if (failed(checkPatterns(options, context)) || failed(readMetadata()) || failed(collect()))
    return failure();
  for (const Candidate &candidate : candidates)
    names.insert(candidate.value);
  readSignature();
  if (signature) {
    partTraced();
    // Files whose nodes lost the calls that they were traced from.
    partByModules();
    restoreBiases();
  } else if (!hasMetadata) {
    part();
  }
  std::vector<const Candidate *> later;
  for (const Candidate &candidate : candidates) {
    bool unused = uses[candidate.value].empty();
    if (unused && !countsBatches(candidate.value) &&
        (!isa<FloatType>(candidate.elementType) || isAnonymous(candidate.value))) {
      if (candidate.source && isPersistentBuffer(candidate.value))
        carry(candidate.value, *candidate.source);
      continue;
    }
    if (!hasMetadata && (isAnonymous(candidate.value) || !candidate.transposeOf.empty()))
      later.push_back(&candidate);
    else
      add(candidate);
    if (!result.list.empty() && result.list.back().name == candidate.value &&
        result.list.back().role == Parameter::Constant && isPersistentBuffer(candidate.value))
      carry(candidate.value, *candidate.source);
  }
  // What has no name comes last: is there a parameter left that it may have been computed from?
  llvm::erase_if(later, [&](const Candidate *candidate) { return nameTransposed(*candidate); });
  if (signature)
    findLost();
  for (const Candidate *candidate : later)
    add(*candidate);
  for (const Parameter &parameter : result.list)
    if (!isa<FloatType>(parameter.elementType) && !parameter.source && parameter.role != Parameter::State)
      return error() << "has an input '" << parameter.name << "' of integers without a value; if it is data, name it "
                     << "with --data " << parameter.name << "=FILE";
  for (const Parameter &parameter : result.list)
    if (isa<FloatType>(parameter.elementType) && failed(checkNoTie(options, parameter.name, context)))
      return failure();
  for (const auto &[flag, patterns] : {std::pair{"--frozen", &options.frozen}, {"--trainable", &options.trainable}})
    for (const std::string &pattern : *patterns) {
      std::string which;
      if (llvm::none_of(result.list, [&](const Parameter &p) { return matchesAny({pattern}, p.name, which); }))
        return error() << "has no parameter that " << flag << " '" << pattern << "' matches; scrimp-plan --parameters "
                       << "lists them";
    }
  if (signature)
    tellLost();
  else if (!hasMetadata)
    tellDropped();
  return std::move(result);
}

FailureOr<Parameters> onnx_import::analyzeParameters(Model &model, ArrayRef<bool> live,
                                                     const llvm::StringSet<> &dataInputs, const ImportOptions &options,
                                                     MLIRContext *context, std::vector<std::string> &notes) {
  return ParameterAnalysis(model, live, dataInputs, options, context, notes).run();
}
