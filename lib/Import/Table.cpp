// Looking a node up in the op table.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

SmallVector<const OpEntry *> onnx_import::allOps() {
  SmallVector<const OpEntry *> result;
  for (ArrayRef<OpEntry> ops : {constantOps(), elementwiseOps(), shapeOps(), reductionOps(), neuralOps(),
                                convolutionOps(), indexingOps(), recurrentOps(), resizeOps()})
    for (const OpEntry &op : ops)
      result.push_back(&op);
  return result;
}

const OpEntry *onnx_import::findOp(const Node &node, std::string &reason) {
  static const std::multimap<std::pair<StringRef, StringRef>, const OpEntry *> table = [] {
    std::multimap<std::pair<StringRef, StringRef>, const OpEntry *> entries;
    for (const OpEntry *op : allOps())
      entries.insert({{op->domain, op->type}, op});
    return entries;
  }();
  std::string domain = node.domain.empty() ? "ai.onnx" : node.domain;
  auto [begin, end] = table.equal_range({node.domain, node.type});
  for (auto it = begin; it != end; ++it)
    if (node.opset >= it->second->since && (!it->second->until || node.opset <= it->second->until))
      return it->second;
  if (begin != end)
    reason = node.type + " of " + domain + " is not there in opset " + std::to_string(node.opset) + " (since " +
             std::to_string(begin->second->since) + ")";
  else if (node.opset == 0)
    reason = node.type + " of the domain " + domain + ", of which the model imports no opset, is not supported";
  else
    reason = node.type + " of the domain " + domain + ", opset " + std::to_string(node.opset) + ", is not supported";
  return nullptr;
}
