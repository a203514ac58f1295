// An ONNX file after loading: checked, functions inlined, nodes in topological order, constants as weight sources.
#ifndef SCRIMP_LIB_IMPORT_MODEL_H
#define SCRIMP_LIB_IMPORT_MODEL_H

#include "scrimp/Import/Onnx.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <optional>

namespace mlir::scrimp::onnx_import {

/// The value of a node's attribute; the member that fits `kind` is set.
struct AttributeValue {
  enum Kind { Float, Int, String, Tensor, Floats, Ints, Strings, Other } kind = Other;
  double f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  WeightSource tensor;
};

struct Node {
  std::string type, domain, name;
  std::vector<std::string> inputs, outputs; // "" where an optional one is left out
  std::map<std::string, AttributeValue> attributes;
  int64_t opset = 0;
  /// torch's module path, outermost first, the traced call last ("", "h.0", "h.0.ln_1", "layer_norm_1"); empty when the
  /// exporter did not write it.
  std::vector<std::string> scopes;
  /// torch's classes along that path, the ATen op last.
  std::vector<std::string> classes;
  /// The call that the node was traced from (see TracedCall), as text; "" when the exporter did not write it.
  std::string call;
  /// The rules of torch's optimiser that made the node, comma separated ("RemoveOptionalBiasFromGemm").
  std::string rules;
  /// A lookup's row that gets no gradient (PyTorch's padding_idx), as scrimp-export or torch's exporter tells it.
  std::optional<int64_t> padding;
  /// A bound that torch puts on a value under no_grad (cosine_similarity's norms): the gradient passes it.
  bool straightThrough = false;

  /// The module that the node was traced in ("h.0.ln_1"), from `scopes` or a TorchScript node name; "" for the root.
  std::string moduleScope() const;
  /// The class of that module, "" when unknown.
  std::string moduleClass() const;
  /// How messages and locations call the node.
  std::string displayName() const;
};

struct Dimension {
  std::optional<int64_t> size;
  std::string symbol; // set when size is not; may be "" (unknown)
};

struct ValueInfo {
  std::string name;
  Type elementType; // null: not a tensor of a supported type, see typeName
  std::string typeName;
  std::optional<std::vector<Dimension>> shape;
};

struct Model {
  std::string path, folder;
  std::shared_ptr<const void> owner; // the protobuf
  std::vector<ValueInfo> inputs, outputs;
  llvm::MapVector<StringRef, WeightSource> initializers; // by name; keys live in `owner`
  std::vector<Node> nodes;
  /// metadata_props under scrimp.*, parsed; null objects when absent.
  std::map<std::string, std::string> metadata;
  bool fromTorch = false;
  /// torch.export's signature of the program, as text (see Signature); "" when absent.
  std::string signature;
  /// By initializer: the values that torch's optimiser computed it from, parameters among them.
  std::map<std::string, std::vector<std::string>> foldedFrom;
};

/// Checks that every value is defined once and puts the nodes in an order in which definitions come first; a sorted
/// file keeps its order. Fails after an error.
LogicalResult sortNodes(Model &model, MLIRContext *context);

/// The scrimp element type of an ONNX TensorProto::DataType, null if there is none.
Type elementTypeOf(int dataType, MLIRContext *context);
/// Its name in messages ("uint8", "type 17").
std::string dataTypeName(int dataType);

/// Reads and checks the file. All errors are reported at NameLoc(path) or at the node. `raiseOpset`: opsets before 11
/// are read as 11 (node tests carry the opset in which their op last changed). `followLinks`: see ImportOptions.
FailureOr<Model> loadModel(StringRef path, MLIRContext *context, bool raiseOpset = false, bool followLinks = false);

/// Reads a file that holds one TensorProto (the data of the ONNX backend tests). Fails if it does not.
FailureOr<WeightSource> readTensorFile(StringRef path, MLIRContext *context);

/// A location that carries `name`.
Location nameLoc(StringRef name, MLIRContext *context);

} // namespace mlir::scrimp::onnx_import

#endif
