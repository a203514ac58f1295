// Which tensors of an ONNX file are trained: the rule is in Parameters.cpp and in README.md.
#ifndef SCRIMP_LIB_IMPORT_PARAMETERS_H
#define SCRIMP_LIB_IMPORT_PARAMETERS_H

#include "Model.h"

namespace mlir::scrimp::onnx_import {

struct Parameter {
  enum Role { Trainable, Frozen, State, Constant } role = Trainable;
  std::string name, reason;
  std::vector<std::string> aliases;
  std::optional<WeightSource> source; // none: initialised by default
  Type elementType;                   // as in the file
  SmallVector<int64_t> shape;
  bool made = false; // by the exporter, which named it
};

/// A value of the graph that is a parameter, or the transpose of one.
struct Binding {
  std::string value;
  size_t parameter;
  bool transposed = false;
};

struct Parameters {
  std::vector<Parameter> list;
  std::vector<CarriedTensor> carried; // of state_dict, but no arguments
  std::vector<Binding> bindings;
};

/// Decides the role of every initializer and of every graph input that is not data, and mends what exporters did to
/// names; may give nodes of the model other inputs. `live[i]` says whether the loss depends on node i.
FailureOr<Parameters> analyzeParameters(Model &model, ArrayRef<bool> live, const llvm::StringSet<> &dataInputs,
                                        const ImportOptions &options, MLIRContext *context,
                                        std::vector<std::string> &notes);

/// Whether BatchNormalization updates its running statistics.
bool trainsBatchNorm(const Node &node, const ImportOptions &options);

/// Whether the exporter made the name up (`val_32`, `onnx::MatMul_7`, in torch's files also `embedding_1`).
bool isExporterName(StringRef name, bool fromTorch);

/// The last part of the name of the parameter that `node` reads as input `input`; `fallback` if the op does not say.
std::string leafOf(const Node &node, unsigned input, StringRef fallback);

} // namespace mlir::scrimp::onnx_import

#endif
