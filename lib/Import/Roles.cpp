// The role of one weight and the reason for it. In this order: --frozen and --trainable; running statistics; what
// scrimp-export wrote, or torch.export's signature; names of well-known buffers; use and values; what is left is
// trained.
#include "ParameterAnalysis.h"

#include "NodeBuilder.h"
#include "Patterns.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// Through which ops a value may pass on its way into scores.
bool ParameterAnalysis::feedsSoftmax(const Candidate &candidate) {
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
bool ParameterAnalysis::countsBatches(StringRef name) {
  auto [scope, leaf] = name.rsplit('.');
  if (leaf != "num_batches_tracked" && name != "num_batches_tracked")
    return false;
  std::string mean = leaf.empty() ? "running_mean" : (scope + ".running_mean").str();
  return llvm::any_of(uses[mean], [&](const Use &use) { return trainsBatchNorm(model.nodes[use.node], options); });
}

/// 0, 1, -inf or so negative that it stands for it, on the way to a softmax.
bool ParameterAnalysis::isMask(const Candidate &candidate) {
  if (candidate.shape.size() < 2 || !feedsSoftmax(candidate))
    return false;
  const std::vector<double> *elements = values(candidate);
  return elements && llvm::all_of(*elements, [](double v) { return v == 0 || v == 1 || v <= -1e4; });
}

/// One of two tables of a shape that are only multiplied with, with a^2 + b^2 the same everywhere.
bool ParameterAnalysis::isRotaryTable(const Candidate &candidate) {
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

/// Positions as sines and cosines of one angle each, in any order: every row, but for one of zeros, has the square sum
/// of half its width.
bool ParameterAnalysis::isSinusoidTable(const Candidate &candidate, StringRef name) {
  if (candidate.shape.size() != 2 || candidate.shape[0] < 2 || candidate.shape[1] < 2 || candidate.shape[1] % 2 ||
      !name.contains("pos") || !candidate.source)
    return false;
  const std::vector<double> &elements = *values(candidate);
  size_t width = candidate.shape[1], zeros = 0;
  for (size_t row = 0; row < elements.size(); row += width) {
    double sum = 0;
    for (size_t i = row; i < row + width; ++i)
      sum += elements[i] * elements[i];
    if (sum != 0 && std::abs(sum - width / 2.0) > 1e-4 * width)
      return false;
    zeros += sum == 0;
  }
  return !elements.empty() && zeros <= 1;
}

/// ALiBi's slopes for n heads, n a power of two: 2^(-8/n), 2^(-16/n), ...
static bool areSlopes(const std::vector<double> &elements) {
  size_t heads = elements.size();
  if (heads < 2 || !llvm::isPowerOf2_64(heads))
    return false;
  for (size_t i = 0; i < heads; ++i)
    if (std::abs(elements[i] - std::exp2(-8.0 * (i + 1) / heads)) > 1e-6 * elements[i])
      return false;
  return true;
}

/// Constants that their one use or their values give away; learnt states and tables have names.
std::optional<std::string> ParameterAnalysis::useReason(const Candidate &candidate, bool anonymous) {
  const std::vector<Use> &all = uses[candidate.value];
  auto onlyReadBy = [&](auto condition) {
    return !all.empty() &&
           llvm::all_of(all, [&](const Use &use) { return condition(model.nodes[use.node], use.input); });
  };
  bool weighsClasses = onlyReadBy([](const Node &node, unsigned input) {
    return input == 2 && (node.type == "SoftmaxCrossEntropyLoss" || node.type == "NegativeLogLikelihoodLoss");
  });
  if (weighsClasses)
    return "a buffer by its use: the class weights of '" + model.nodes[all[0].node].displayName() + "'";
  // Values are read where the use asks for it: weights may be large.
  bool startsState = anonymous && onlyReadBy([](const Node &node, unsigned input) {
                       return input >= 5 && (node.type == "LSTM" || node.type == "GRU" || node.type == "RNN");
                     });
  if (startsState && isSplat(candidate) && (*values(candidate))[0] == 0)
    return std::string("a constant by its use: an initial state of zeros");
  bool isScatteredInto = anonymous && onlyReadBy([](const Node &node, unsigned input) {
                           return input == 0 && (node.type == "ScatterND" || node.type == "ScatterElements");
                         });
  if (isScatteredInto && isSplat(candidate))
    return std::string("a constant by its use: one number everywhere, which others are scattered into");
  if (candidate.count() <= 128 && feedsSoftmax(candidate) && candidate.source && areSlopes(*values(candidate)))
    return std::string("a buffer by its values: ALiBi's slopes, on the way to a softmax");
  return std::nullopt;
}

std::optional<std::string> ParameterAnalysis::bufferReason(const Candidate &candidate, StringRef name) {
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
                                         "pos_weight",
                                         "cos_cached",
                                         "sin_cached",
                                         "cos",
                                         "sin",
                                         "freqs_cis",
                                         "freqs",
                                         "relative_position_index",
                                         "relative_coords_table",
                                         "anchors"};
  if (buffers.contains(leaf) || leaf.ends_with("mask") || name.contains("rotary"))
    return ("a buffer by its name, '*" + leaf + "'").str();
  if (name.ends_with(".attn.bias") && candidate.shape.size() >= 3)
    return std::string("a buffer by its name: a causal mask, '*.attn.bias'");
  bool anonymous = isAnonymous(name);
  if (anonymous && candidate.count() == 1)
    return std::string("a constant: a single number without a name");
  // TorchScript writes scalars as it writes other parameters, and constants as Constant nodes.
  if (!anonymous && candidate.shape.empty() && !hasMetadata && candidate.source && !name.contains('.') &&
      !model.fromTorch)
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
  if (std::optional<std::string> reason = useReason(candidate, anonymous))
    return reason;
  if (isMask(candidate))
    return std::string("a buffer by its use: a mask added to scores");
  if (anonymous && isRotaryTable(candidate))
    return std::string("a buffer by its values: a table of cosines or sines");
  return std::nullopt;
}

bool onnx_import::matchesAny(ArrayRef<std::string> patterns, StringRef name, std::string &which) {
  for (const std::string &pattern : patterns) {
    which = pattern;
    if (llvm::cantFail(llvm::GlobPattern::create(pattern)).match(name)) // run() has looked at them
      return true;
  }
  return false;
}

/// What torch.export's signature says, or what follows from it: the parameters of the program are all known.
std::optional<ParameterAnalysis::Decision> ParameterAnalysis::signatureRole(const Candidate &candidate,
                                                                            StringRef name) {
  Parameter::Role constant = candidate.source ? Parameter::Constant : Parameter::Frozen;
  if (!isa<FloatType>(candidate.elementType))
    return std::nullopt;
  if (const Signature::Entry *entry = signature->byTarget(name)) {
    if (entry->kind != Signature::Entry::Parameter)
      return Decision{constant, entry->kind == Signature::Entry::Buffer
                                    ? "a buffer, says the file's graph signature"
                                    : "a tensor made in forward, says the file's graph signature"};
    if (isSinusoidTable(candidate, name)) {
      notes.push_back("warning: '" + name.str() + "' is a table of sines and cosines, which modules hold with " +
                      "requires_grad false, as the file does not say; it is not trained. --trainable '" + name.str() +
                      "' trains it");
      return Decision{Parameter::Frozen,
                      "a parameter, says the file's graph signature, but a table of sines and cosines"};
    }
    return uses[candidate.value].empty()
               ? Decision{Parameter::Frozen, "the loss does not depend on it"}
               : Decision{Parameter::Trainable, "a parameter, says the file's graph signature"};
  }
  std::vector<std::string> origins = foldedParameters(name);
  if (!origins.empty())
    return Decision{Parameter::Trainable, "computed by the exporter from '" + llvm::join(origins, "', '") + "'"};
  if (model.foldedFrom.count(name.str()))
    return Decision{constant, "computed by the exporter from no parameter"};
  if (lost.empty())
    return Decision{constant, "no parameter, by the file's graph signature, and none is missing"};
  return std::nullopt;
}

ParameterAnalysis::Decision ParameterAnalysis::role(const Candidate &candidate, StringRef name) {
  bool isFloat = isa<FloatType>(candidate.elementType);
  PatternChoice choice = isFloat ? choosePattern(options, name) : PatternChoice();
  if (choice.kind == PatternChoice::Frozen)
    return {Parameter::Frozen, "--frozen " + choice.frozen};
  if (choice.kind == PatternChoice::Trainable)
    return {Parameter::Trainable, "--trainable " + choice.trainable};
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
  if (signature)
    if (std::optional<Decision> decision = signatureRole(candidate, name))
      return *decision;
  if (std::optional<std::string> reason = bufferReason(candidate, name))
    return {candidate.source ? Parameter::Constant : Parameter::Frozen, *reason};
  if (uses[candidate.value].empty())
    return {Parameter::Frozen, "the loss does not depend on it"};
  if (isAnonymous(name))
    return {Parameter::Trainable, "a float that the exporter made from parameters"};
  if (candidate.shape.empty() && candidate.source && model.fromTorch && !hasMetadata)
    notes.push_back("warning: '" + name.str() +
                    "' is one number, and the file does not say whether it is a parameter "
                    "or a buffer; it is trained. --frozen '" +
                    name.str() + "' keeps it as it is");
  return {Parameter::Trainable, candidate.source ? "a float initializer" : "a graph input that is not data"};
}
