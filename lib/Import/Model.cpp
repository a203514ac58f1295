// What a node says of itself, and the order of nodes.
#include "Model.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// "/h.0/attn/MatMul_1" is how TorchScript writes the module path into a node's name.
static std::string torchScriptScope(StringRef name) {
  if (!name.starts_with("/"))
    return "";
  size_t last = name.rfind('/');
  std::string scope;
  SmallVector<StringRef> parts;
  name.substr(1, last > 1 ? last - 1 : 0).split(parts, '/', -1, false);
  // Each part is the child's path below its parent, but repeats a prefix for children of containers: "/h.0/ln_1".
  return llvm::join(parts, ".");
}

std::string Node::moduleScope() const {
  if (scopes.size() >= 2)
    return scopes[scopes.size() - 2];
  return scopes.empty() ? torchScriptScope(name) : "";
}

std::string Node::moduleClass() const { return classes.size() >= 2 ? classes[classes.size() - 2] : ""; }

std::string Node::displayName() const {
  if (!name.empty())
    return name;
  for (const std::string &output : outputs)
    if (!output.empty())
      return output;
  return type;
}

LogicalResult onnx_import::sortNodes(Model &model, MLIRContext *context) {
  auto error = [&] { return emitError(nameLoc(model.path, context)) << "'" << model.path << "' "; };
  std::map<std::string, size_t> producers; // node index + 1; 0: input or initializer
  for (const ValueInfo &input : model.inputs)
    producers[input.name] = 0;
  for (auto &[name, weight] : model.initializers)
    producers[name.str()] = 0;
  for (auto [index, node] : llvm::enumerate(model.nodes))
    for (const std::string &output : node.outputs)
      if (!output.empty() && !producers.insert({output, index + 1}).second)
        return error() << "defines the value '" << output << "' twice, the second time in node '" << node.displayName()
                       << "' (" << node.type << ")";
  for (const Node &node : model.nodes)
    for (const std::string &input : node.inputs)
      if (!input.empty() && !producers.count(input))
        return error() << "reads '" << input << "' in node '" << node.displayName() << "' (" << node.type
                       << "), but nothing defines it"
                       << (model.initializers.empty() && model.fromTorch
                               ? "; if the weights were left out, export with keep_initializers_as_inputs=True"
                               : "");
  for (const ValueInfo &output : model.outputs)
    if (!producers.count(output.name))
      return error() << "has an output '" << output.name << "' that nothing defines";

  // Depth first, in file order, so that a sorted file keeps its order. 1: under way, 2: done.
  std::vector<char> state(model.nodes.size());
  std::vector<Node> sorted;
  std::vector<std::pair<size_t, size_t>> stack;
  for (size_t root = 0; root < model.nodes.size(); ++root) {
    if (state[root])
      continue;
    state[root] = 1;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      auto &[current, next] = stack.back();
      if (next == model.nodes[current].inputs.size()) {
        state[current] = 2;
        sorted.push_back(model.nodes[current]);
        stack.pop_back();
        continue;
      }
      const std::string &input = model.nodes[current].inputs[next++];
      size_t producer = input.empty() ? 0 : producers[input];
      if (!producer || state[producer - 1] == 2)
        continue;
      if (state[producer - 1] == 1) {
        std::string names;
        bool inside = false;
        for (auto &[index, position] : stack) {
          inside |= index == producer - 1;
          if (inside)
            names += (names.empty() ? "'" : " -> '") + model.nodes[index].displayName() + "'";
        }
        return error() << "has a cycle: " << names << " -> '" << model.nodes[producer - 1].displayName() << "'";
      }
      state[producer - 1] = 1;
      stack.push_back({producer - 1, 0});
    }
  }
  model.nodes = std::move(sorted);
  return success();
}
