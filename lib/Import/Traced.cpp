// What became of a program's parameters, where torch's metadata tell it exactly: the signature names them, the traced
// calls say which one each node reads, and the optimiser's notes say what a folded value was computed from.
#include "ParameterAnalysis.h"

#include "NodeBuilder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// 'a', 'b', 'c'
static std::string quoted(ArrayRef<std::string> list) {
  std::string text;
  for (const std::string &name : list)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

static int64_t integerOf(const Node &node, const char *attribute) {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? 0 : found->second.i;
}

void ParameterAnalysis::readSignature() {
  if (hasMetadata || model.signature.empty())
    return;
  std::string problem;
  signature = Signature::parse(model.signature, problem);
  if (!signature) {
    notes.push_back("warning: the graph signature in the file's metadata is not understood at '" + problem +
                    "'; what is trained is told from names and use");
    return;
  }
  // Tools that rename weights leave the metadata alone.
  bool fits = llvm::any_of(candidates, [&](const Candidate &candidate) {
    return signature->byTarget(candidate.value) || !foldedParameters(candidate.value).empty();
  });
  if (!fits) {
    signature.reset();
    if (!candidates.empty())
      notes.push_back("the graph signature in the file's metadata names none of its weights; what is trained is told "
                      "from names and use");
    return;
  }
  calls.resize(model.nodes.size());
  parsedCalls.resize(model.nodes.size());
  for (size_t n = 0; n < model.nodes.size(); ++n)
    if (const std::optional<TracedCall> &call = callOf(n))
      for (const std::string &value : call->values)
        calledWith.insert(value);
}

const std::optional<TracedCall> &ParameterAnalysis::callOf(size_t node) {
  if (!parsedCalls[node]) {
    parsedCalls[node] = true;
    calls[node] = parseTracedCall(model.nodes[node].call);
  }
  return calls[node];
}

/// How traced calls name a value of the graph.
std::string ParameterAnalysis::argumentName(StringRef value) const {
  const Signature::Entry *entry = signature->byTarget(value);
  return entry ? entry->argument : value.str();
}

std::vector<std::string> ParameterAnalysis::foldedParameters(StringRef value) const {
  std::vector<std::string> result;
  if (auto folded = model.foldedFrom.find(value.str()); signature && folded != model.foldedFrom.end())
    for (const std::string &name : folded->second)
      if (signature->isParameter(name))
        result.push_back(name);
  return result;
}

namespace {

/// At which positions an ATen call has its weight, bias and running statistics; -1: it has none.
struct Positions {
  int weight, bias = -1, mean = -1, variance = -1;
};

} // namespace

static std::optional<Positions> positionsOf(StringRef op) {
  if (op.starts_with("_native_batch_norm_legit") || op == "native_batch_norm" || op == "batch_norm")
    return Positions{1, 2, 3, 4};
  if (op.starts_with("conv"))
    return Positions{1, 2};
  return llvm::StringSwitch<std::optional<Positions>>(op)
      .Case("linear", Positions{1, 2})
      .Case("addmm", Positions{2, 0})
      .Cases({"layer_norm", "group_norm"}, Positions{2, 3})
      .Cases({"native_layer_norm", "native_group_norm"}, Positions{1, 2})
      .Cases({"rms_norm", "cross_entropy_loss", "nll_loss", "nll_loss_forward"}, Positions{2})
      .Cases({"prelu", "_prelu_kernel"}, Positions{1})
      .Case("embedding", Positions{0})
      .Default(std::nullopt);
}

/// The position in the call of what the node reads as `input`, for nodes that read a module's own weights.
static int positionOf(const Node &node, unsigned input, const Positions &at) {
  if (node.type == "Gather")
    return input == 0 ? at.weight : -1;
  if (node.type == "MatMul" || node.type == "PRelu" || node.type == "RMSNormalization")
    return input == 1 ? at.weight : -1;
  if (node.type == "SoftmaxCrossEntropyLoss" || node.type == "NegativeLogLikelihoodLoss")
    return input == 2 ? at.weight : -1;
  if (node.type == "Gemm" || node.type == "Conv" || node.type == "ConvTranspose" || node.type == "LayerNormalization" ||
      node.type == "GroupNormalization" || node.type == "BatchNormalization")
    return input == 1 ? at.weight : input == 2 ? at.bias : input == 3 ? at.mean : input == 4 ? at.variance : -1;
  // A product and its bias, or a norm and its scale, in nodes of their own.
  return node.type == "Add" ? at.bias : node.type == "Mul" ? at.weight : -1;
}

/// Whether an FX value hands on its operand's elements, so that a fold may have left the operand in its place.
static bool handsOn(StringRef value) {
  StringRef stem = value.rtrim("0123456789").rtrim('_');
  static const llvm::StringSet<> ops{
      "alias",  "detach",  "clone",     "_to_copy", "to",    "contiguous", "dropout",         "view",        "reshape",
      "expand", "squeeze", "unsqueeze", "permute",  "t",     "transpose",  "slice",           "select",      "getitem",
      "cat",    "repeat",  "flatten",   "type_as",  "split", "chunk",      "lift_fresh_copy", "_unsafe_view"};
  return ops.contains(stem);
}

/// The value that the node reads as `input`, as the call that it was traced from names it; "" if that is a number.
/// nullopt if the metadata do not tell.
std::optional<std::string> ParameterAnalysis::argumentOf(size_t index, unsigned input) {
  const Node &node = model.nodes[index];
  bool fused = !node.rules.empty() && !StringRef(node.rules).starts_with("RemoveOptionalBias");
  if (fused || StringRef(node.rules).contains("FuseBatchNorm"))
    return std::nullopt;
  const std::optional<TracedCall> &call = callOf(index);
  if (!call) {
    // The module that the node stands in names its own weights.
    std::string scope = node.moduleScope(), leaf = leafOf(node, input, "");
    std::string moduleClass = node.moduleClass();
    if (leaf.empty() && node.type == "MatMul" && input == 1 && StringRef(moduleClass).contains("Linear"))
      leaf = "weight";
    const Signature::Entry *entry = leaf.empty() ? nullptr : signature->byTarget(scope + "." + leaf);
    return entry ? std::optional(entry->argument) : std::nullopt;
  }
  if (std::optional<Positions> at = positionsOf(call->op)) {
    int position = positionOf(node, input, *at);
    if (position >= 0)
      return position < (int)call->arguments.size() && !call->arguments[position].empty()
                 ? std::optional(call->arguments[position])
                 : std::nullopt;
  }
  // The node that computes the call's result, of an op that stands for the call: operands by name, the others in order.
  if (node.outputs.empty() || node.outputs[0] != call->name || node.type == "LSTM" || node.type == "GRU" ||
      node.type == "RNN")
    return std::nullopt;
  std::vector<std::string> values = call->values;
  std::vector<unsigned> rest;
  for (auto [i, name] : llvm::enumerate(node.inputs)) {
    auto found = llvm::find(values, argumentName(name));
    if (found != values.end()) {
      if (i == input)
        return *found;
      values.erase(found);
    } else if (!name.empty()) {
      rest.push_back(i);
    }
  }
  if (values.empty())
    return "";
  if (values.size() != rest.size())
    return std::nullopt;
  return values[llvm::find(rest, input) - rest.begin()];
}

/// Gives every use of a weight the parameter that the traced program reads there: torch's exporter merges equal
/// initializers, and stores weights transposed under names of its own.
void ParameterAnalysis::partTraced() {
  std::vector<Candidate> added;
  llvm::StringSet<> computed;
  for (const Node &node : model.nodes)
    computed.insert(node.outputs.begin(), node.outputs.end());
  for (Candidate &candidate : candidates) {
    if (!isa<FloatType>(candidate.elementType))
      continue;
    std::string value = candidate.value, own = argumentName(value);
    bool anonymous = isAnonymous(value);
    std::vector<std::string> folded = foldedParameters(value);
    // `w.t()` in forward: computed from w alone, by what turns a matrix.
    StringRef stem = StringRef(value).rtrim("0123456789").rtrim('_');
    if (anonymous && folded.size() == 1 && model.foldedFrom[value].size() == 1 && candidate.shape.size() == 2 &&
        (stem == "permute" || stem == "transpose" || stem == "t")) {
      candidate.transposeOf = folded[0];
      candidate.origin = value;
      names.insert(folded[0]);
    }
    for (const Use &use : uses[value]) {
      std::optional<std::string> argument = argumentOf(use.node, use.input);
      if (!argument || *argument == own)
        continue;
      Node &node = model.nodes[use.node];
      const Signature::Entry *entry = signature->byArgument(*argument);
      Candidate part = candidate;
      part.origin = value;
      part.transposeOf.clear();
      // Without the call a name is a guess by the module: ties look the same as what was merged.
      bool guessed = !callOf(use.node);
      if (guessed &&
          (anonymous ? folded.size() == 1 && candidate.count() > kMergeLimit
                     : candidate.count() > kMergeLimit || (candidate.shape.size() > 1 && !isSplat(candidate))))
        entry = anonymous ? signature->byTarget(folded[0]) : nullptr;
      if (guessed && !entry)
        continue;
      if (argument->empty()) {
        if (anonymous || candidate.count() != 1)
          continue;
        part.value = value + "@" + node.displayName();
        notes.push_back("'" + node.displayName() + "' reads a number that the exporter merged with '" + value +
                        "', because they are equal; it is a constant");
      } else if (!entry || entry->target.empty()) {
        // What another value folded to, equal to this one.
        if (entry || computed.contains(*argument) || handsOn(*argument) || (anonymous && folded.empty()) ||
            model.initializers.count(*argument))
          continue;
        part.value = *argument;
      } else if (anonymous) {
        StringRef op = node.classes.empty() ? StringRef() : StringRef(node.classes.back());
        bool turned = candidate.shape.size() == 2 && use.input == 1 && op.contains("linear") &&
                      (node.type == "MatMul" || (node.type == "Gemm" && !integerOf(node, "transB")));
        if (turned) {
          part.value = entry->target + "^T";
          part.transposeOf = entry->target;
        } else if (!folded.empty() && !llvm::is_contained(folded, entry->target)) {
          part.value = value + "@" + node.displayName();
          model.foldedFrom[part.value] = {entry->target};
        } else {
          continue;
        }
      } else {
        if (names.contains(entry->target))
          continue;
        part.value = entry->target;
        notes.push_back("'" + part.value + "' was merged with '" + value +
                        "' by the exporter, because their values are equal; they are " +
                        (entry->kind == Signature::Entry::Parameter ? "trained apart" : "apart again"));
      }
      node.inputs[use.input] = part.value;
      if (llvm::none_of(added, [&](const Candidate &c) { return c.value == part.value; }))
        added.push_back(part);
    }
  }
  for (const Candidate &part : added) {
    names.insert(part.transposeOf.empty() ? part.value : part.transposeOf);
    candidates.push_back(part);
  }
  findUses();
}

/// Biases of zeros that torch's optimiser left out: their names, shapes and values are known.
void ParameterAnalysis::restoreBiases() {
  std::vector<std::string> restored;
  for (auto [n, node] : llvm::enumerate(model.nodes)) {
    StringRef rules = node.rules;
    if (!live[n] || !rules.starts_with("RemoveOptionalBias") || rules.contains("FuseBatchNorm") ||
        node.inputs.size() != 2)
      continue;
    node.inputs.push_back("");
    std::optional<std::string> argument = argumentOf(n, 2);
    node.inputs.pop_back();
    const Signature::Entry *entry = argument ? signature->byArgument(*argument) : nullptr;
    auto weight = llvm::find_if(candidates, [&](const Candidate &c) { return c.value == node.inputs[1]; });
    if (!entry || entry->kind != Signature::Entry::Parameter || weight == candidates.end() || weight->shape.size() < 2)
      continue;
    int64_t width = weight->shape[0];
    if (node.type == "Gemm" && !integerOf(node, "transB"))
      width = weight->shape[1];
    if (node.type == "ConvTranspose")
      width = weight->shape[1] * std::max<int64_t>(integerOf(node, "group"), 1);
    if (!names.contains(entry->target)) {
      Candidate bias{entry->target, std::nullopt, weight->elementType, {width}};
      // Without values in the file the name gives zeros too.
      if (weight->source) {
        auto zeros = std::make_shared<std::string>(width * (weight->elementType.getIntOrFloatBitWidth() / 8), '\0');
        bias.source = WeightSource();
        bias.source->elementType = weight->elementType;
        bias.source->shape = bias.shape;
        bias.source->bytes = *zeros;
        bias.source->owner = zeros;
      }
      names.insert(bias.value);
      restored.push_back(bias.value);
      candidates.push_back(std::move(bias));
    }
    node.inputs.push_back(entry->target);
  }
  if (restored.empty())
    return;
  notes.push_back("biases that were zero and that the exporter left out are put back: " + quoted(restored));
  findUses();
}

/// Which parameters of the signature the file does not hold.
void ParameterAnalysis::findLost() {
  lost.clear();
  for (const Signature::Entry &entry : signature->inputs())
    if (entry.kind == Signature::Entry::Parameter && !names.contains(entry.target))
      lost.push_back(entry.target);
}

/// The exporter merges equal nodes, weights and all: where a call reads a value that no node computes, and the node one
/// of the same op in its place, that one stands for both, and its weights get the gradients of both.
void ParameterAnalysis::tellMergedNodes() {
  std::map<std::string, size_t> producers;
  for (auto [n, node] : llvm::enumerate(model.nodes))
    for (const std::string &output : node.outputs)
      producers[output] = n;
  auto stem = [](StringRef value) { return value.rtrim("0123456789").rtrim('_'); };
  std::vector<std::string> shared;
  for (auto [n, node] : llvm::enumerate(model.nodes)) {
    const std::optional<TracedCall> &call = callOf(n);
    if (!live[n] || !call)
      continue;
    for (const std::string &input : node.inputs) {
      auto producer = producers.find(input);
      if (producer == producers.end() || llvm::is_contained(call->values, input))
        continue;
      bool standsForAnother = llvm::any_of(call->values, [&](const std::string &value) {
        return stem(value) == stem(input) && !handsOn(value) && !producers.count(value);
      });
      for (const std::string &weight :
           standsForAnother ? model.nodes[producer->second].inputs : std::vector<std::string>())
        if (signature->isParameter(weight) && !llvm::is_contained(shared, weight))
          shared.push_back(weight);
    }
  }
  if (!shared.empty() && !lost.empty())
    notes.push_back("warning: the exporter merged equal nodes: " + quoted(shared) +
                    " are trained in the place of others too, which are lost. scrimp-export keeps them apart");
}

/// One warning for each way in which parameters were lost.
void ParameterAnalysis::tellLost() {
  findLost();
  tellMergedNodes();
  std::vector<std::string> folded, holders, rest;
  std::string rule;
  for (auto [n, node] : llvm::enumerate(model.nodes)) {
    size_t at = node.rules.find("FuseBatchNorm");
    if (!live[n] || at == std::string::npos)
      continue;
    rule = StringRef(node.rules).substr(at).split(',').first.str();
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (names.contains(node.inputs[i]))
        holders.push_back(node.inputs[i]);
    auto isFolded = [&](const Signature::Entry *entry) {
      if (entry && llvm::is_contained(lost, entry->target) && explained.insert(entry->target).second)
        folded.push_back(entry->target);
    };
    for (StringRef leaf : {".weight", ".bias"})
      isFolded(signature->byTarget((node.moduleScope() + leaf).str()));
    if (const std::optional<TracedCall> &call = callOf(n))
      for (const std::string &value : call->values)
        isFolded(signature->byArgument(value));
  }
  if (!rule.empty())
    notes.push_back("warning: batch normalization was folded into what stands before it (" + rule + ")" +
                    (folded.empty() ? "" : ": " + quoted(folded) + " are not trained") + "; " + quoted(holders) +
                    " hold the product. scrimp-export keeps them apart");
  std::vector<std::string> unread;
  for (const std::string &name : lost)
    if (!explained.contains(name))
      (calledWith.contains(signature->byTarget(name)->argument) ? rest : unread).push_back(name);
  if (!rest.empty())
    notes.push_back("warning: the exporter folded " + quoted(rest) +
                    " away; they are not trained. scrimp-export keeps them");
  if (!unread.empty())
    notes.push_back("warning: nothing in the file reads " + quoted(unread) +
                    ", so they are not trained: second names of tied parameters, or folded away, or of no use to the "
                    "loss. scrimp-export tells");
}
