// The roles of weights. In this order: --frozen and --trainable; what scrimp-export wrote (scrimp.parameters); running
// statistics; names of well-known buffers; how the value is used (masks, rotary tables); what is left is trained.
// Exporters other than scrimp-export also merge, transpose and fold weights: what can be told apart is mended first.
#include "Parameters.h"

#include "NodeBuilder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/GlobPattern.h"
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

namespace {

struct Use {
  size_t node;
  unsigned input;
};

/// Above this many elements torch's exporter never merges equal initializers.
constexpr int64_t kMergeLimit = 1024;

class Analysis {
public:
  Analysis(Model &model, ArrayRef<bool> live, const llvm::StringSet<> &dataInputs, const ImportOptions &options,
           MLIRContext *context, std::vector<std::string> &notes)
      : model(model), live(live), dataInputs(dataInputs), options(options), context(context), notes(notes) {}
  FailureOr<Parameters> run();

private:
  struct Candidate {
    std::string value;
    std::optional<WeightSource> source;
    Type elementType;
    SmallVector<int64_t> shape;
  };

  InFlightDiagnostic error() { return emitError(nameLoc(model.path, context)) << "'" << model.path << "' "; }
  LogicalResult readMetadata();
  LogicalResult collect();
  LogicalResult attachWeightsFile();
  void findUses();
  void part();
  void partCandidate(Candidate &candidate, std::vector<Candidate> &added);
  bool nameTransposed(const Candidate &candidate);
  std::optional<size_t> equalTranspose(const Candidate &candidate);
  void add(const Candidate &candidate);
  std::pair<Parameter::Role, std::string> role(const Candidate &candidate, StringRef name);
  std::optional<std::string> bufferReason(const Candidate &candidate, StringRef name);
  bool isAnonymous(StringRef name) const { return isExporterName(name, model.fromTorch); }
  bool countsBatches(StringRef name);
  bool isMask(const Candidate &candidate);
  bool isRotaryTable(const Candidate &candidate);
  bool feedsSoftmax(const Candidate &candidate);
  const std::vector<double> *values(const Candidate &candidate);
  bool isSplat(const Candidate &candidate);
  int64_t count(const Candidate &candidate) const {
    int64_t n = 1;
    for (int64_t dim : candidate.shape)
      n *= dim;
    return n;
  }

  Model &model;
  ArrayRef<bool> live;
  const llvm::StringSet<> &dataInputs;
  const ImportOptions &options;
  MLIRContext *context;
  std::vector<std::string> &notes;
  bool hasMetadata = false;
  llvm::json::Object kinds, ties;
  std::vector<Candidate> candidates;
  std::map<std::string, std::vector<Use>> uses;
  std::map<std::string, std::vector<double>> cache;
  llvm::StringSet<> names; // values and parameters that exist
  Parameters result;
};

} // namespace

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

LogicalResult Analysis::readMetadata() {
  hasMetadata = model.metadata.count("scrimp.parameters");
  if (failed(parseObject(model, "scrimp.parameters", kinds, context)) ||
      failed(parseObject(model, "scrimp.ties", ties, context)))
    return failure();
  return success();
}

LogicalResult Analysis::collect() {
  for (auto &[name, source] : model.initializers)
    if (!dataInputs.contains(name))
      candidates.push_back({name.str(), source, source.elementType, source.shape});
  for (const ValueInfo &input : model.inputs) {
    if (dataInputs.contains(input.name) || model.initializers.count(input.name))
      continue;
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

LogicalResult Analysis::attachWeightsFile() {
  auto entry = model.metadata.find("scrimp.weights");
  if (entry == model.metadata.end())
    return success();
  StringRef file = entry->second;
  if (file.empty() || file.contains('/') || file == "..")
    return error() << "names the weights file '" << file << "', which is not a file beside it";
  SmallString<256> path(model.folder);
  llvm::sys::path::append(path, file);
  if (!llvm::sys::fs::exists(path)) {
    notes.push_back("the weights file '" + path.str().str() + "' is not there; parameters start from default values");
    return success();
  }
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
    candidate.source = tensor->second;
  }
  return success();
}

void Analysis::findUses() {
  uses.clear();
  for (auto [n, node] : llvm::enumerate(model.nodes))
    if (live[n])
      for (auto [i, input] : llvm::enumerate(node.inputs))
        uses[input].push_back({n, static_cast<unsigned>(i)});
}

const std::vector<double> *Analysis::values(const Candidate &candidate) {
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

bool Analysis::isSplat(const Candidate &candidate) {
  const std::vector<double> *elements = values(candidate);
  return elements && !elements->empty() && llvm::all_equal(*elements);
}

void Analysis::partCandidate(Candidate &candidate, std::vector<Candidate> &added) {
  std::vector<Use> all = uses[candidate.value];
  if (all.size() < 2 || !isa<FloatType>(candidate.elementType) || candidate.shape.empty() ||
      isAnonymous(candidate.value))
    return;
  StringRef name = candidate.value;
  auto [owner, leaf] = name.rsplit('.');
  if (leaf.empty())
    return;
  std::string ownerClass;
  for (const Use &use : all)
    if (model.nodes[use.node].moduleScope() == owner)
      ownerClass = model.nodes[use.node].moduleClass();
  // One storage under two names (a tie) or two of equal value? Torch merges only small ones; vectors are hardly ever
  // tied; of matrices, those in modules of one class.
  std::map<std::string, std::vector<Use>> others;
  for (const Use &use : all) {
    const Node &node = model.nodes[use.node];
    std::string scope = node.moduleScope();
    if (!scope.empty() && scope != owner && !node.scopes.empty())
      others[scope].push_back(use);
  }
  for (auto &[scope, scopeUses] : others) {
    const Node &node = model.nodes[scopeUses[0].node];
    bool sameClass = !ownerClass.empty() && ownerClass == node.moduleClass();
    bool merged = count(candidate) <= kMergeLimit && (isSplat(candidate) || candidate.shape.size() == 1 || sameClass);
    std::string partLeaf = sameClass ? leaf.str() : leafOf(node, scopeUses[0].input, leaf);
    std::string partName = scope + "." + partLeaf;
    if (!merged || names.contains(partName))
      continue;
    names.insert(partName);
    Candidate part = candidate;
    part.value = partName;
    for (const Use &use : scopeUses)
      model.nodes[use.node].inputs[use.input] = partName;
    added.push_back(part);
    notes.push_back("'" + partName + "' was merged with '" + candidate.value +
                    "' by the exporter, because their values are equal; they are trained apart");
  }
}

void Analysis::part() {
  std::vector<Candidate> added;
  // TorchScript writes equal initializers once, and an Identity under the second name.
  for (auto [n, node] : llvm::enumerate(model.nodes)) {
    if (!live[n] || node.type != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1)
      continue;
    auto candidate = llvm::find_if(candidates, [&](Candidate &c) { return c.value == node.inputs[0]; });
    if (candidate == candidates.end() || !candidate->source || !isa<FloatType>(candidate->elementType) ||
        candidate->shape.empty() || isAnonymous(node.outputs[0]) || node.outputs[0].find('.') == std::string::npos)
      continue;
    if (!isSplat(*candidate) && candidate->shape.size() != 1)
      continue;
    Candidate part = *candidate;
    part.value = node.outputs[0];
    names.insert(part.value);
    // The node is left to define a value that nothing reads.
    node.outputs[0] += "/merged";
    notes.push_back("'" + part.value + "' was merged with '" + candidate->value +
                    "' by the exporter, because their values are equal; they are trained apart");
    added.push_back(part);
  }
  for (Candidate &candidate : candidates)
    partCandidate(candidate, added);
  llvm::append_range(candidates, added);
  findUses();
}

/// Through which ops a value may pass on its way into scores.
bool Analysis::feedsSoftmax(const Candidate &candidate) {
  SmallVector<std::pair<std::string, int>> work{{candidate.value, 0}};
  while (!work.empty()) {
    auto [value, depth] = work.pop_back_val();
    for (const Use &use : uses[value]) {
      const Node &node = model.nodes[use.node];
      if (node.type == "Softmax" || (node.type == "Attention" && use.input == 3))
        return true;
      static const llvm::StringSet<> through{"Add",   "Reshape", "Expand",    "Cast",     "Unsqueeze",
                                             "Slice", "Where",   "Transpose", "Identity", "Mul"};
      if (depth < 8 && through.contains(node.type))
        for (const std::string &output : node.outputs)
          work.push_back({output, depth + 1});
    }
  }
  return false;
}

/// PyTorch's counter beside running statistics that are updated: no node reads it, but a checkpoint holds it.
bool Analysis::countsBatches(StringRef name) {
  auto [scope, leaf] = name.rsplit('.');
  if (leaf != "num_batches_tracked" && name != "num_batches_tracked")
    return false;
  std::string mean = leaf.empty() ? "running_mean" : (scope + ".running_mean").str();
  return llvm::any_of(uses[mean], [&](const Use &use) { return trainsBatchNorm(model.nodes[use.node], options); });
}

/// 0, 1, -inf or so negative that it stands for it, on the way to a softmax.
bool Analysis::isMask(const Candidate &candidate) {
  if (candidate.shape.size() < 2 || !feedsSoftmax(candidate))
    return false;
  const std::vector<double> *elements = values(candidate);
  return elements && llvm::all_of(*elements, [](double v) { return v == 0 || v == 1 || v <= -1e4; });
}

/// One of two tables of a shape that are only multiplied with, with a^2 + b^2 the same everywhere.
bool Analysis::isRotaryTable(const Candidate &candidate) {
  auto multiplied = [&](const Candidate &c) {
    return !uses[c.value].empty() && llvm::all_of(uses[c.value], [&](const Use &use) {
      static const llvm::StringSet<> allowed{"Mul",    "Unsqueeze", "Reshape",        "Slice",
                                             "Gather", "Cast",      "RotaryEmbedding"};
      return allowed.contains(model.nodes[use.node].type);
    });
  };
  if (candidate.shape.size() < 2 || !multiplied(candidate))
    return false;
  const std::vector<double> *mine = values(candidate);
  for (const Candidate &other : candidates) {
    if (!mine || mine->size() < 2 || &other == &candidate || other.value == candidate.value ||
        other.shape != candidate.shape || other.elementType != candidate.elementType || !multiplied(other))
      continue;
    const std::vector<double> *theirs = values(other);
    if (!theirs || theirs->size() != mine->size())
      continue;
    double radius = (*mine)[0] * (*mine)[0] + (*theirs)[0] * (*theirs)[0];
    bool circle = radius > 0;
    for (size_t i = 0; circle && i < mine->size(); ++i) {
      double here = (*mine)[i] * (*mine)[i] + (*theirs)[i] * (*theirs)[i];
      circle = std::abs(here - radius) <= 1e-4 * radius;
    }
    if (circle)
      return true;
  }
  return false;
}

std::optional<std::string> Analysis::bufferReason(const Candidate &candidate, StringRef name) {
  if (!isa<FloatType>(candidate.elementType))
    return "a buffer: not a float";
  for (const Use &use : uses[candidate.value])
    if (model.nodes[use.node].type == "BatchNormalization" && use.input >= 3)
      return "a buffer: running statistics of '" + model.nodes[use.node].displayName() + "'";
  StringRef leaf = name.rsplit('.').second.empty() ? name : name.rsplit('.').second;
  static const llvm::StringSet<> buffers{"inv_freq",
                                         "original_inv_freq",
                                         "running_mean",
                                         "running_var",
                                         "num_batches_tracked",
                                         "position_ids",
                                         "token_type_ids",
                                         "masked_bias",
                                         "cos_cached",
                                         "sin_cached",
                                         "cos",
                                         "sin",
                                         "freqs_cis",
                                         "freqs",
                                         "relative_position_index",
                                         "relative_coords_table",
                                         "anchors"};
  if (buffers.contains(leaf) || leaf.contains("mask") || name.contains("rotary"))
    return ("a buffer by its name, '*" + leaf + "'").str();
  if (name.ends_with(".attn.bias") && candidate.shape.size() >= 3)
    return std::string("a buffer by its name: a causal mask, '*.attn.bias'");
  bool anonymous = isAnonymous(name);
  if (anonymous && count(candidate) == 1)
    return std::string("a constant: a single number without a name");
  if (!anonymous && candidate.shape.empty() && !hasMetadata && candidate.source && !name.contains('.'))
    return std::string("a constant: rank 0; --trainable makes it a parameter");
  auto hard = [&](const Use &use) {
    static const llvm::StringSet<> consumers{"Where", "Equal", "Less",     "LessOrEqual", "Greater", "GreaterOrEqual",
                                             "Shape", "Cast",  "CastLike", "Not",         "And",     "Or",
                                             "IsNaN"};
    const Node &node = model.nodes[use.node];
    return consumers.contains(node.type) && !(node.type == "Where" && !anonymous) &&
           !(StringRef(node.type).starts_with("Cast") && use.input == 0 && !anonymous);
  };
  if (!uses[candidate.value].empty() && llvm::all_of(uses[candidate.value], hard))
    return std::string("a buffer by its use: only selected from or compared");
  if (isMask(candidate))
    return std::string("a buffer by its use: a mask added to scores");
  if (anonymous && isRotaryTable(candidate))
    return std::string("a buffer by its values: a table of cosines or sines");
  return std::nullopt;
}

static bool matchesAny(ArrayRef<std::string> patterns, StringRef name, std::string &which) {
  for (const std::string &pattern : patterns) {
    which = pattern;
    if (llvm::cantFail(llvm::GlobPattern::create(pattern)).match(name)) // run() has looked at them
      return true;
  }
  return false;
}

std::pair<Parameter::Role, std::string> Analysis::role(const Candidate &candidate, StringRef name) {
  std::string pattern;
  bool isFloat = isa<FloatType>(candidate.elementType);
  if (isFloat && matchesAny(options.frozen, name, pattern))
    return {Parameter::Frozen, "--frozen " + pattern};
  if (isFloat && matchesAny(options.trainable, name, pattern))
    return {Parameter::Trainable, "--trainable " + pattern};
  for (const Use &use : uses[candidate.value])
    if (use.input >= 3 && trainsBatchNorm(model.nodes[use.node], options))
      return {Parameter::State, "running statistics of '" + model.nodes[use.node].displayName() + "'"};
  if (countsBatches(name))
    return {Parameter::State, "PyTorch's count of batches"};
  const llvm::json::Object *entry = kinds.getObject(name);
  if (entry) {
    StringRef kind = entry->getString("kind").value_or("");
    bool used = !uses[candidate.value].empty();
    if (kind == "parameter")
      return used ? std::pair{Parameter::Trainable, std::string("a parameter, says scrimp-export")}
                  : std::pair{Parameter::Frozen, std::string("a parameter that the loss does not depend on")};
    if (kind == "frozen")
      return {Parameter::Frozen, "requires_grad is false, says scrimp-export"};
    return {candidate.source ? Parameter::Constant : Parameter::Frozen, "a buffer, says scrimp-export"};
  }
  if (std::optional<std::string> reason = bufferReason(candidate, name))
    return {candidate.source ? Parameter::Constant : Parameter::Frozen, *reason};
  if (uses[candidate.value].empty())
    return {Parameter::Frozen, "the loss does not depend on it"};
  if (isAnonymous(name))
    return {Parameter::Trainable, "a float that the exporter made from parameters"};
  return {Parameter::Trainable, candidate.source ? "a float initializer" : "a graph input that is not data"};
}

/// The bytes of a weight, read into `buffer` when they lie in another file.
static StringRef bytesOf(const WeightSource &source, std::string &buffer, Location loc) {
  if (!source.isExternal())
    return source.bytes;
  buffer.resize(source.length);
  return succeeded(readWeightBytes(source, 0, MutableArrayRef<char>(buffer.data(), buffer.size()), loc))
             ? StringRef(buffer)
             : StringRef();
}

/// A named parameter whose transpose has these very bits.
std::optional<size_t> Analysis::equalTranspose(const Candidate &candidate) {
  std::string mineBuffer;
  StringRef mine;
  size_t width = candidate.elementType.getIntOrFloatBitWidth() / 8;
  Location loc = UnknownLoc::get(context);
  for (auto [i, parameter] : llvm::enumerate(result.list)) {
    if (parameter.shape.size() != 2 || parameter.elementType != candidate.elementType || !parameter.source ||
        parameter.source->transposed || parameter.shape[0] != candidate.shape[1] ||
        parameter.shape[1] != candidate.shape[0])
      continue;
    mine = mine.empty() ? bytesOf(*candidate.source, mineBuffer, loc) : mine;
    std::string otherBuffer;
    StringRef other = bytesOf(*parameter.source, otherBuffer, loc);
    int64_t rows = candidate.shape[0], columns = candidate.shape[1];
    bool equal = !mine.empty() && mine.size() == other.size();
    for (int64_t r = 0; equal && r < rows; ++r)
      for (int64_t c = 0; equal && c < columns; ++c)
        equal = mine.substr((r * columns + c) * width, width) == other.substr((c * rows + r) * width, width);
    if (equal)
      return i;
  }
  return std::nullopt;
}

/// `val_32` that a MatMul in the module `head` reads is `head.weight`, transposed. False if that does not apply.
bool Analysis::nameTransposed(const Candidate &candidate) {
  if (!isAnonymous(candidate.value) || candidate.shape.size() != 2 || !isa<FloatType>(candidate.elementType) ||
      !candidate.source)
    return false;
  std::string name;
  for (const Use &use : uses[candidate.value]) {
    const Node &node = model.nodes[use.node];
    if (use.input != 1 || (node.type != "MatMul" && node.type != "Gemm"))
      return false;
    std::string className = node.moduleClass(), scope = node.moduleScope();
    if (name.empty() && !scope.empty() && (className.empty() || StringRef(className).contains("Linear")))
      name = scope + ".weight";
  }
  if (std::optional<size_t> twin = equalTranspose(candidate)) {
    Parameter &parameter = result.list[*twin];
    result.bindings.push_back({candidate.value, *twin, true});
    if (!name.empty() && name != parameter.name && !llvm::is_contained(parameter.aliases, name)) {
      parameter.aliases.push_back(name);
      notes.push_back("'" + candidate.value + "' has the bits of '" + parameter.name + "' transposed; '" + name +
                      "' is tied to it again");
    } else {
      notes.push_back("'" + candidate.value + "' has the bits of '" + parameter.name +
                      "' transposed; it is that again");
    }
    return true;
  }
  if (name.empty() || names.contains(name))
    return false;
  names.insert(name);
  Parameter parameter;
  parameter.name = name;
  parameter.source = candidate.source;
  parameter.source->transposed = true;
  parameter.elementType = candidate.elementType;
  parameter.shape.assign(candidate.shape.rbegin(), candidate.shape.rend());
  std::tie(parameter.role, parameter.reason) = role(candidate, name);
  result.bindings.push_back({candidate.value, result.list.size(), true});
  result.list.push_back(std::move(parameter));
  notes.push_back("'" + candidate.value + "' was stored transposed and without its name; it is '" + name + "'");
  return true;
}

void Analysis::add(const Candidate &candidate) {
  Parameter parameter;
  parameter.name = candidate.value;
  parameter.source = candidate.source;
  parameter.elementType = candidate.elementType;
  parameter.shape = candidate.shape;
  std::tie(parameter.role, parameter.reason) = role(candidate, candidate.value);
  // Names that a tie hides: an embedding that reads the head's weight, or the other way round.
  auto [owner, leaf] = StringRef(candidate.value).rsplit('.');
  for (const Use &use : uses[candidate.value]) {
    const Node &node = model.nodes[use.node];
    std::string scope = node.moduleScope(), alias = scope + ".weight";
    std::string moduleClass = node.moduleClass();
    StringRef className = moduleClass;
    bool embedding = node.type == "Gather" && use.input == 0 && (className.empty() || className.contains("Embedding"));
    // TorchScript names modules but no classes; a Linear transposes its weight, or Gemm does.
    bool linear = className.contains("Linear") ||
                  (node.scopes.empty() && (node.type == "Transpose" || (node.type == "Gemm" && use.input == 1)));
    if (!hasMetadata && parameter.role != Parameter::Constant && leaf == "weight" && !scope.empty() && scope != owner &&
        (embedding || linear) && !names.contains(alias) && candidate.shape.size() == 2 &&
        !isAnonymous(candidate.value)) {
      names.insert(alias);
      parameter.aliases.push_back(alias);
      notes.push_back("'" + alias + "' and '" + candidate.value +
                      "' are one parameter in the file; it keeps both names");
    }
  }
  for (const auto &[alias, target] : ties)
    if (target.getAsString() == StringRef(candidate.value))
      parameter.aliases.push_back(alias.str());
  llvm::sort(parameter.aliases);
  if (parameter.role == Parameter::Trainable && !hasMetadata && isAnonymous(candidate.value)) {
    const Use &use = uses[candidate.value][0];
    notes.push_back("warning: '" + candidate.value + "' (read by '" + model.nodes[use.node].displayName() +
                    "') was computed from parameters by the exporter, which are lost; it is trained as it stands. " +
                    "scrimp-export keeps them apart");
  }
  result.bindings.push_back({candidate.value, result.list.size(), false});
  result.list.push_back(std::move(parameter));
}

FailureOr<Parameters> Analysis::run() {
  for (const auto &[flag, patterns] : {std::pair{"--frozen", &options.frozen}, {"--trainable", &options.trainable}})
    for (const std::string &pattern : *patterns)
      if (llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern); !glob)
        return emitError(UnknownLoc::get(context)) << flag << " '" << pattern << "': " << toString(glob.takeError());
  if (failed(readMetadata()) || failed(collect()))
    return failure();
  for (const Candidate &candidate : candidates)
    names.insert(candidate.value);
  findUses();
  if (!hasMetadata)
    part();
  std::vector<const Candidate *> later;
  for (const Candidate &candidate : candidates) {
    bool unused = uses[candidate.value].empty();
    if (unused && !countsBatches(candidate.value) &&
        (!isa<FloatType>(candidate.elementType) || isAnonymous(candidate.value)))
      continue;
    if (!hasMetadata && isAnonymous(candidate.value))
      later.push_back(&candidate);
    else
      add(candidate);
  }
  for (const Candidate *candidate : later)
    if (!nameTransposed(*candidate))
      add(*candidate);
  for (const Parameter &parameter : result.list)
    if (!isa<FloatType>(parameter.elementType) && !parameter.source && parameter.role != Parameter::State)
      return error() << "has an input '" << parameter.name << "' of integers without a value; if it is data, name it "
                     << "with --data " << parameter.name << "=FILE";
  for (const auto &[flag, patterns] : {std::pair{"--frozen", &options.frozen}, {"--trainable", &options.trainable}})
    for (const std::string &pattern : *patterns) {
      std::string which;
      if (llvm::none_of(result.list, [&](const Parameter &p) { return matchesAny({pattern}, p.name, which); }))
        return error() << "has no parameter that " << flag << " '" << pattern << "' matches; scrimp-plan --parameters "
                       << "lists them";
    }
  if (!hasMetadata)
    for (auto [n, node] : llvm::enumerate(model.nodes)) {
      bool linear = !node.classes.empty() &&
                    (node.classes.back() == "aten.addmm.default" || node.classes.back() == "aten.linear.default");
      if (live[n] && node.type == "Gemm" && node.inputs.size() == 2 && linear)
        notes.push_back("warning: the bias of '" + node.moduleScope() +
                        "' was zero and was left out by the exporter; it is not trained. scrimp-export keeps it");
    }
  return std::move(result);
}

FailureOr<Parameters> onnx_import::analyzeParameters(Model &model, ArrayRef<bool> live,
                                                     const llvm::StringSet<> &dataInputs, const ImportOptions &options,
                                                     MLIRContext *context, std::vector<std::string> &notes) {
  return Analysis(model, live, dataInputs, options, context, notes).run();
}
