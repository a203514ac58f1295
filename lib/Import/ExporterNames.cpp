// How torch's exporters name values, and how torch names the parameters of its modules.
#include "Parameters.h"

#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

/// How torch's FX graph names values: an ATen op, perhaps with a number. Module paths never look so.
bool onnx_import::isExporterName(StringRef name, bool fromTorch) {
  static llvm::Regex pattern(
      "^(onnx::[A-Za-z]+_[0-9]+|_?(val|getitem|embedding|add|mul|sub|rsub|div|expand|cos|sin|cat|view|_unsafe_view|"
      "reshape|unsqueeze|squeeze|permute|transpose|t|clone|slice|select|index|where|masked_fill|full|zeros|ones|"
      "arange|exp|log|sqrt|rsqrt|pow|neg|to|_to_copy|bitwise_and|convert_element_type_default|stack|repeat|split|"
      "mean|sum|tanh|sigmoid|softplus|var|addmm|mm|bmm|matmul|detach|alias|copy|roll|gather|fill|norm|softmax|"
      "linear|flatten|triu|tril|new_ones|new_zeros|zeros_like|ones_like|full_like|lift_fresh_copy|scalar_tensor|"
      "clamp|abs|reciprocal|maximum|minimum|einsum|outer|polar|max|min)(_[0-9]+)?)$");
  return name.starts_with("/") || (fromTorch && pattern.match(name));
}

/// The leaf of the name that a use has in its module.
std::string onnx_import::leafOf(const Node &node, unsigned input, StringRef fallback) {
  if (node.type == "BatchNormalization" && input >= 3)
    return input == 3 ? "running_mean" : "running_var";
  if (node.type == "LayerNormalization" || node.type == "BatchNormalization" || node.type == "Conv" ||
      node.type == "Gemm" || node.type == "InstanceNormalization" || node.type == "GroupNormalization")
    return input == 1 ? "weight" : input == 2 ? "bias" : fallback.str();
  if (node.type == "RMSNormalization")
    return "weight";
  if (node.type == "Add")
    return "bias";
  return fallback.str();
}
