// ONNX import: a model file becomes a module in the scrimp dialect whose @main computes the loss.
#ifndef SCRIMP_IMPORT_ONNX_H
#define SCRIMP_IMPORT_ONNX_H

#include "scrimp/Import/Weights.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace mlir::scrimp {

struct ImportOptions {
  /// Sizes of symbolic dimensions (--dim NAME=SIZE).
  llvm::StringMap<int64_t> dims;
  /// --loss: `cross_entropy(LOGITS,LABELS[,ignore_index=-100])`, `mse(PREDICTION,TARGET)` or
  /// `bce_with_logits(PREDICTION,TARGET)`. The first names a value of the graph, the second an input, which is made
  /// when the graph has none of that name. Empty: the graph's own loss.
  std::string loss;
  /// --trainable, --frozen: glob patterns over parameter names; they overrule every other rule. Of those that match a
  /// name the one with the most literal characters decides; a tie between the flags is an error.
  std::vector<std::string> trainable, frozen;
  /// --training-mode: BatchNormalization and Dropout nodes that are still in the graph train, whatever it says.
  bool trainingMode = false;
  /// The inputs that data files will feed (--data NAME=...). Graph inputs without a value that are not among them are
  /// parameters. Empty: every graph input without a value is data, unless the file's metadata says otherwise.
  std::vector<std::string> dataNames;
  /// A graph in which nothing is trainable is no error (scrimp-plan --parameters tells why it is none).
  bool mayTrainNothing = false;
  /// "fp64": every float is a double. Anything else: as the file says, and left to the passes.
  std::string precision;
  /// --follow-links: weights may lie outside the model's folder, where a symbolic link in it leads.
  bool followLinks = false;
};

/// An entry of the model's state_dict that the graph does not compute with: checkpoints hold it as it is.
struct CarriedTensor {
  std::vector<std::string> names;
  WeightSource source;
};

struct ImportedModel {
  /// @main of stage 1: arguments and results carry their roles.
  OwningOpRef<ModuleOp> module;
  /// Where the values of parameters, frozen parameters and state come from, by their scrimp.name. Those that are
  /// missing here are initialised by their `scrimp.init` (kind "file" means: in this map).
  llvm::StringMap<WeightSource> weights;
  /// What checkpoints hold besides.
  std::vector<CarriedTensor> carried;
  /// What was mended, assumed or could not be mended, each in one line.
  std::vector<std::string> notes;
};

/// Imports opsets 11 to 23. Fails after errors (all unsupported nodes are named in one run).
FailureOr<ImportedModel> importOnnx(llvm::StringRef path, const ImportOptions &options, MLIRContext *context);

/// The graph alone, for tests of ops: @main maps the inputs to all outputs (`scrimp.output` is the output's name);
/// nothing need be trainable. Inputs in `constants` have that value: shapes and axes must be known.
FailureOr<ImportedModel> importOnnxGraph(llvm::StringRef path, const llvm::StringMap<WeightSource> &constants,
                                         const ImportOptions &options, MLIRContext *context);

} // namespace mlir::scrimp

#endif
