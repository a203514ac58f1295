// --loss: a loss that the graph does not have itself.
#ifndef SCRIMP_LIB_IMPORT_LOSS_H
#define SCRIMP_LIB_IMPORT_LOSS_H

#include "NodeBuilder.h"

namespace mlir::scrimp::onnx_import {

struct LossSpec {
  enum Kind { Given, CrossEntropy, Mse, BceWithLogits } kind; // Given: `prediction` is the loss
  std::string prediction, target;
  std::optional<int64_t> ignoreIndex;
};

/// Parses `cross_entropy(logits,labels,ignore_index=-100)`, `mse(a,b)`, `bce_with_logits(a,b)`, or the name of
/// a value that is the loss. Fails after an error.
FailureOr<LossSpec> parseLoss(StringRef text, MLIRContext *context);

/// The type that the target must have for a prediction of `type`. Cross entropy: integers for the classes of the last
/// dimension of logits of rank 2 and 3, of dimension 1 of images (rank 4 and up), as torch and language models have
/// them.
RankedTensorType targetType(const LossSpec &spec, RankedTensorType type);

/// Builds the loss; fails after an error that gives both types.
FailureOr<Value> buildLoss(NodeBuilder &b, const LossSpec &spec, Value prediction, Value target);

} // namespace mlir::scrimp::onnx_import

#endif
