// Losses given on the command line, all of the form N/D.
#include "Loss.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

FailureOr<LossSpec> onnx_import::parseLoss(StringRef text, MLIRContext *context) {
  LossSpec spec;
  auto error = [&]() {
    emitError(UnknownLoc::get(context)) << "--loss '" << text << "' is not understood; expected cross_entropy(LOGITS,"
                                        << "LABELS[,ignore_index=N]), mse(PREDICTION,TARGET), "
                                        << "bce_with_logits(PREDICTION,TARGET), or the name of an output that is one "
                                        << "number";
    return failure();
  };
  if (!text.contains('(') && !text.trim().empty()) {
    spec.kind = LossSpec::Given;
    spec.prediction = text.trim().str();
    return spec;
  }
  auto [name, rest] = text.trim().split('(');
  if (!rest.consume_back(")"))
    return error();
  if (name == "cross_entropy")
    spec.kind = LossSpec::CrossEntropy;
  else if (name == "mse")
    spec.kind = LossSpec::Mse;
  else if (name == "bce_with_logits")
    spec.kind = LossSpec::BceWithLogits;
  else
    return error();
  SmallVector<StringRef> arguments;
  rest.split(arguments, ',');
  if (arguments.size() < 2)
    return error();
  spec.prediction = arguments[0].trim().str();
  spec.target = arguments[1].trim().str();
  // PyTorch's default.
  if (spec.kind == LossSpec::CrossEntropy)
    spec.ignoreIndex = -100;
  for (StringRef argument : llvm::drop_begin(arguments, 2)) {
    auto [key, value] = argument.split('=');
    int64_t number;
    if (key.trim() != "ignore_index" || spec.kind != LossSpec::CrossEntropy || value.trim().getAsInteger(10, number))
      return error();
    spec.ignoreIndex = number;
  }
  if (spec.prediction.empty() || spec.target.empty())
    return error();
  return spec;
}

/// The labels' shape if the classes are dimension `dim`.
static SmallVector<int64_t> without(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> result(shape);
  result.erase(result.begin() + dim);
  return result;
}

RankedTensorType onnx_import::targetType(const LossSpec &spec, RankedTensorType type) {
  if (spec.kind != LossSpec::CrossEntropy || type.getRank() == 0)
    return type;
  int64_t classes = type.getRank() >= 4 ? 1 : type.getRank() - 1;
  return RankedTensorType::get(without(type.getShape(), classes), IntegerType::get(type.getContext(), 64));
}

/// The op that made `value`, looking through those that only move elements or change their type.
static Operation *maker(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isa<ReshapeOp, TransposeOp, SliceOp, CastOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

void onnx_import::tellNormalizedScores(GraphState &graph, Value scores, StringRef loss) {
  Operation *op = maker(scores);
  if (loss == "cross_entropy" && op && isa<LogSoftmaxOp>(op)) // which changes nothing, but what it was given may be
    op = maker(op->getOperand(0));
  bool twice = op && (loss == "cross_entropy" ? isa<SoftmaxOp>(op) : isa<SigmoidOp>(op));
  if (!twice)
    return;
  auto name = dyn_cast<NameLoc>(op->getLoc());
  graph.notes.push_back(("warning: " + loss + " applies a " + (loss == "cross_entropy" ? "softmax" : "sigmoid") +
                         ", but its scores are the result of one" + (name ? ", '" + name.getName().str() + "'" : "") +
                         "; give it what goes into that")
                            .str());
}

FailureOr<Value> onnx_import::buildLoss(NodeBuilder &b, const LossSpec &spec, Value prediction, Value target) {
  auto mismatch = [&]() {
    emitError(UnknownLoc::get(b.graph.context))
        << "--loss: '" << spec.prediction << "' is " << tensorType(prediction) << ", but '" << spec.target << "' is "
        << tensorType(target) << "; expected " << targetType(spec, tensorType(prediction));
    return failure();
  };
  ArrayRef<int64_t> shape = shapeOf(prediction);
  if (!isFloatTensor(prediction))
    return mismatch();
  if (spec.kind == LossSpec::BceWithLogits)
    tellNormalizedScores(b.graph, prediction, "bce_with_logits");
  if (spec.kind == LossSpec::CrossEntropy) {
    Type labels = tensorType(target).getElementType();
    if (shape.size() < 2 || !(labels.isInteger(32) || labels.isInteger(64)))
      return mismatch();
    // Where both readings fit, torch's: the classes are dimension 1.
    if (shapeOf(target) == ArrayRef<int64_t>(without(shape, 1))) {
      SmallVector<int64_t> permutation;
      for (size_t i = 0; i < shape.size(); ++i)
        if (i != 1)
          permutation.push_back(i);
      permutation.push_back(1);
      prediction = b.transpose(prediction, permutation);
    } else if (shapeOf(target) != shape.drop_back()) {
      return mismatch();
    }
    return crossEntropy(b, prediction, target, Value(), spec.ignoreIndex, "mean");
  }
  if (tensorType(target) != tensorType(prediction))
    return mismatch();
  Value losses;
  if (spec.kind == LossSpec::Mse) {
    Value difference = b.make<SubOp>(prediction, target);
    losses = b.make<MulOp>(difference, difference);
  } else {
    // -t log s(x) - (1 - t) log(1 - s(x)), without a difference of large numbers.
    Value complement = b.make<SubOp>(b.splat(tensorType(target), 1), target);
    losses = b.make<AddOp>(b.make<MulOp>(target, b.make<SoftplusOp>(b.make<NegOp>(prediction))),
                           b.make<MulOp>(complement, b.make<SoftplusOp>(prediction)));
  }
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    dims.push_back(i);
  Value sum = b.reduce(ReduceKind::sum, losses, dims);
  return quotientLoss(b, sum, b.splat(tensorType(sum), tensorType(losses).getNumElements()));
}
