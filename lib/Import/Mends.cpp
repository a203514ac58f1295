// What exporters did to the names of parameters, and can be told from names, modules and bits: equal ones merged,
// weights stored transposed, ties under one name. Where torch's metadata tell, Traced.cpp has been here before.
#include "ParameterAnalysis.h"

#include "NodeBuilder.h"

#include <set>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

void ParameterAnalysis::partCandidate(Candidate &candidate, std::vector<Candidate> &added) {
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
    // Where the traced call is there, it has told already.
    if (!scope.empty() && scope != owner && !node.scopes.empty() && !(signature && callOf(use.node)))
      others[scope].push_back(use);
  }
  for (auto &[scope, scopeUses] : others) {
    const Node &node = model.nodes[scopeUses[0].node];
    bool sameClass = !ownerClass.empty() && ownerClass == node.moduleClass();
    bool merged = candidate.count() <= kMergeLimit && (isSplat(candidate) || candidate.shape.size() == 1 || sameClass);
    std::string partLeaf = sameClass ? leaf.str() : leafOf(node, scopeUses[0].input, leaf);
    std::string partName = scope + "." + partLeaf;
    if (!merged || names.contains(partName) || (signature && !signature->isParameter(partName)))
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

void ParameterAnalysis::part() {
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
  // Zeros and ones of a norm, merged with its running statistics.
  for (Candidate &candidate : candidates)
    for (const Use &use : std::vector<Use>(uses[candidate.value])) {
      Node &node = model.nodes[use.node];
      bool isStatistic = node.type == "BatchNormalization" && use.input >= 3;
      std::string name = node.moduleScope() + "." + leafOf(node, use.input, "");
      if (!isStatistic || name == candidate.value || names.contains(name) ||
          llvm::all_of(uses[candidate.value], [&](const Use &other) { return other.input >= 3; }))
        continue;
      names.insert(name);
      Candidate part = candidate;
      part.value = node.inputs[use.input] = name;
      notes.push_back("'" + name + "' was merged with '" + candidate.value +
                      "' by the exporter, because their values are equal; they are apart again");
      added.push_back(part);
    }
  llvm::append_range(candidates, added);
  findUses();
  partByModules();
}

void ParameterAnalysis::partByModules() {
  std::vector<Candidate> added;
  for (Candidate &candidate : candidates)
    partCandidate(candidate, added);
  llvm::append_range(candidates, added);
  findUses();
}

/// The bytes of a weight, read into `buffer` when they lie in another file.
static StringRef weightBytesOf(const WeightSource &source, std::string &buffer, Location loc) {
  if (!source.isExternal())
    return source.bytes;
  buffer.resize(source.length);
  return succeeded(readWeightBytes(source, 0, MutableArrayRef<char>(buffer.data(), buffer.size()), loc))
             ? StringRef(buffer)
             : StringRef();
}

/// A named parameter (the one called `name`, if that is not empty) whose transpose has these very bits.
std::optional<size_t> ParameterAnalysis::equalTranspose(const Candidate &candidate, StringRef name) {
  std::string mineBuffer;
  StringRef mine;
  size_t width = candidate.elementType.getIntOrFloatBitWidth() / 8;
  Location loc = UnknownLoc::get(context);
  for (auto [i, parameter] : llvm::enumerate(result.list)) {
    if ((!name.empty() && parameter.name != name && !llvm::is_contained(parameter.aliases, name)) ||
        parameter.shape.size() != 2 || parameter.elementType != candidate.elementType || !parameter.source ||
        parameter.source->transposed || parameter.shape[0] != candidate.shape[1] ||
        parameter.shape[1] != candidate.shape[0])
      continue;
    mine = mine.empty() ? weightBytesOf(*candidate.source, mineBuffer, loc) : mine;
    std::string otherBuffer;
    StringRef other = weightBytesOf(*parameter.source, otherBuffer, loc);
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
bool ParameterAnalysis::nameTransposed(const Candidate &candidate) {
  std::string name = candidate.transposeOf;
  bool traced = !name.empty();
  if (candidate.shape.size() != 2 || !isa<FloatType>(candidate.elementType) || !candidate.source ||
      (signature && !traced))
    return false;
  for (const Use &use : uses[candidate.value]) {
    const Node &node = model.nodes[use.node];
    if (!traced && (use.input != 1 || (node.type != "MatMul" && node.type != "Gemm")))
      return false;
    std::string className = node.moduleClass(), scope = node.moduleScope();
    if (name.empty() && !scope.empty() && (className.empty() || StringRef(className).contains("Linear")))
      name = scope + ".weight";
  }
  if (std::optional<size_t> twin = equalTranspose(candidate, candidate.transposeOf)) {
    Parameter &parameter = result.list[*twin];
    bool isNew = !name.empty() && name != parameter.name && !llvm::is_contained(parameter.aliases, name);
    // Two whose elements are all one number are merged after the transposition, not tied.
    bool apart = isNew && !traced && isSplat(candidate);
    if (!apart) {
      result.bindings.push_back({candidate.value, *twin, true});
      if (isNew)
        parameter.aliases.push_back(name);
      notes.push_back("'" + (traced ? candidate.origin : candidate.value) + "' has the bits of '" + parameter.name +
                      "' transposed; " + (isNew ? "'" + name + "' is tied to it again" : "it is that again"));
      return true;
    }
  }
  if (name.empty() || (!traced && names.contains(name)) ||
      llvm::any_of(result.list, [&](const Parameter &parameter) { return parameter.name == name; }))
    return false;
  names.insert(name);
  Parameter parameter;
  parameter.name = name;
  parameter.source = candidate.source;
  parameter.source->transposed = true;
  parameter.elementType = candidate.elementType;
  parameter.shape.assign(candidate.shape.rbegin(), candidate.shape.rend());
  std::tie(parameter.role, parameter.reason) = role(candidate, name);
  if (parameter.role != Parameter::Constant)
    addHiddenTies(candidate, parameter);
  result.bindings.push_back({candidate.value, result.list.size(), true});
  result.list.push_back(std::move(parameter));
  notes.push_back("'" + (traced ? candidate.origin : candidate.value) +
                  "' was stored transposed and without its name; it is '" + name + "'");
  return true;
}

/// Names that a tie hides: an embedding that reads the head's weight, or the other way round.
void ParameterAnalysis::addHiddenTies(const Candidate &candidate, Parameter &parameter) {
  if (isAnonymous(parameter.name))
    return;
  auto [owner, leaf] = StringRef(parameter.name).rsplit('.');
  for (const Use &use : uses[candidate.value]) {
    const Node &node = model.nodes[use.node];
    std::string scope = node.moduleScope(), moduleClass = node.moduleClass();
    StringRef className = moduleClass;
    if (scope.empty() || scope == owner)
      continue;
    std::string alias = scope + ".weight";
    bool embedding = node.type == "Gather" && use.input == 0 && (className.empty() || className.contains("Embedding"));
    // TorchScript names modules but no classes; a Linear transposes its weight, or Gemm does.
    bool linear = className.contains("Linear") ||
                  (node.scopes.empty() && (node.type == "Transpose" || (node.type == "Gemm" && use.input == 1)));
    bool tied = leaf == "weight" && candidate.shape.size() == 2 && (embedding || linear);
    if (signature && !calledWith.empty()) {
      // A tied parameter has one name in all calls; the signature lists the others too.
      alias = scope + "." + leafOf(node, use.input, leaf);
      const Signature::Entry *entry = signature->byTarget(alias);
      tied = entry && !calledWith.contains(entry->argument);
    }
    if (!tied || names.contains(alias) || (signature && !signature->byTarget(alias)))
      continue;
    names.insert(alias);
    parameter.aliases.push_back(alias);
    notes.push_back("'" + alias + "' and '" + parameter.name + "' are one parameter in the file; it keeps both names");
  }
}

/// A weight of no name trains in the place of those that it was computed from.
void ParameterAnalysis::tellComputed(const Candidate &candidate) {
  std::vector<std::string> origins = foldedParameters(candidate.value);
  for (const std::string &name : origins)
    explained.insert(name);
  std::string from = "parameters";
  for (const std::string &name : origins)
    from = (&name == &origins.front() ? "'" : from + ", '") + name + "'";
  notes.push_back("warning: '" + candidate.value + "' (read by '" +
                  model.nodes[uses[candidate.value][0].node].displayName() + "') was computed from " + from +
                  " by the exporter" + (signature ? "" : ", which are lost") +
                  "; it is trained as it stands. scrimp-export keeps them apart");
}

/// What a file without a signature leaves to guess: biases and norms that the optimiser took out.
void ParameterAnalysis::tellDropped() {
  std::set<std::string> folded;
  for (auto [n, node] : llvm::enumerate(model.nodes)) {
    StringRef op = node.classes.empty() ? StringRef() : StringRef(node.classes.back());
    if (live[n] && node.type == "Gemm" && node.inputs.size() == 2 &&
        (op == "aten.addmm.default" || op == "aten.linear.default"))
      notes.push_back("warning: the bias of '" + node.moduleScope() +
                      "' was zero and was left out by the exporter; it is not trained. scrimp-export keeps it");
    if (live[n] && node.type == "Conv" && op.contains("batch_norm"))
      folded.insert(node.displayName());
  }
  if (!folded.empty())
    notes.push_back("warning: batch normalization was folded into " + std::to_string(folded.size()) +
                    " convolutions (the first is '" + *folded.begin() +
                    "'); it is not trained. scrimp-export keeps it");
}
