// scrimp-autodiff: reverse-mode differentiation of @main. What an op's derivative is, the op knows (DifferentiableOp);
// the pass decides which values need a gradient and adds up the contributions.
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_AUTODIFF
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// Whether a change of operand `operand` can change the op's float results smoothly. An op without a derivative counts
/// as if it could: such an op on the path is an error, not a zero.
static bool carriesGradient(OpOperand &operand) {
  if (!isa<RankedTensorType>(operand.get().getType()) || !isFloatTensor(operand.get()))
    return false;
  auto differentiable = dyn_cast<DifferentiableOp>(operand.getOwner());
  return !differentiable || differentiable.isDifferentiableOperand(operand.getOperandNumber());
}

static bool isFloatResult(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

namespace {
/// Marks every op that is built for an op's gradient with that op's location, under the metadata "gradient": messages
/// and reports then speak of the user's layer, and can tell backward from forward.
struct GradientLocations : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setLoc(FusedLoc::get({op->getLoc()}, StringAttr::get(op->getContext(), "gradient"), op->getContext()));
  }
};

/// Differentiates one block with respect to some of its arguments.
class ReverseMode {
public:
  ReverseMode(Block &block, Value loss) : block(block), loss(loss) {}

  /// Finds the values that depend on `parameters` and matter to the loss. Fails at an op between them that has no
  /// derivative.
  LogicalResult analyse(ArrayRef<BlockArgument> parameters) {
    for (BlockArgument parameter : parameters)
      active.insert(parameter);
    for (Operation &op : block.without_terminator())
      if (llvm::any_of(op.getOpOperands(),
                       [&](OpOperand &o) { return active.contains(o.get()) && carriesGradient(o); }))
        for (Value result : op.getResults())
          if (isFloatResult(result))
            active.insert(result);
    DenseSet<Value> matters{loss};
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      if (llvm::none_of(op.getResults(), [&](Value v) { return active.contains(v) && matters.contains(v); }))
        continue;
      if (!isa<DifferentiableOp>(op))
        return op.emitOpError() << "has no gradient but lies between trainable parameters and the loss; freeze what "
                                   "comes before it, or compute it by differentiable ops";
      for (OpOperand &operand : op.getOpOperands())
        if (carriesGradient(operand))
          matters.insert(operand.get());
    }
    active.remove_if([&](Value v) { return !matters.contains(v); });
    return success();
  }

  /// Builds the gradients at `builder`'s insertion point, of the loss times `scale` (null: 1). Contributions to one
  /// value are added from its last use to its first, operands of one op in their order, each as soon as it is there.
  void build(OpBuilder &builder, Value scale) {
    if (!active.contains(loss))
      return;
    SmallVector<Operation *> forward;
    for (Operation &op : block.without_terminator())
      forward.push_back(&op);
    gradients[loss] = scale ? scale : splatConstant(builder, loss.getLoc(), tensorType(loss), 1);
    for (Operation *op : llvm::reverse(forward))
      differentiate(*op, builder);
    for (BlockArgument argument : block.getArguments())
      (void)completeGradient(argument, builder);
  }

  /// The gradient of an argument, null if the loss does not depend on it.
  Value gradientOf(Value value) const { return gradients.lookup(value); }

private:
  void differentiate(Operation &op, OpBuilder &builder) {
    SmallVector<Value> resultGradients;
    for (Value result : op.getResults())
      resultGradients.push_back(completeGradient(result, builder));
    if (llvm::none_of(resultGradients, [](Value v) { return static_cast<bool>(v); }))
      return;
    SmallVector<bool> needed;
    for (OpOperand &operand : op.getOpOperands())
      needed.push_back(active.contains(operand.get()) && carriesGradient(operand));
    if (llvm::none_of(needed, [](bool b) { return b; }))
      return;
    SmallVector<Value> operandGradients(op.getNumOperands());
    cast<DifferentiableOp>(op).buildGradient(builder, resultGradients, needed, operandGradients);
    for (auto [operand, isNeeded, gradient] : llvm::zip(op.getOperands(), needed, operandGradients)) {
      if (!isNeeded || !gradient)
        continue;
      assert(gradient.getType() == operand.getType() && "a gradient has its operand's type");
      Value &sum = gradients[operand];
      if (!sum) {
        sum = gradient;
        continue;
      }
      sum = AddOp::create(builder, op.getLoc(), sum, gradient);
      sums.insert(sum);
    }
  }

  /// The contributions that a sum is made of, in no order.
  void collectParts(Value value, SmallVectorImpl<PadOp> &parts) {
    if (sums.contains(value)) {
      for (Value operand : value.getDefiningOp()->getOperands())
        collectParts(operand, parts);
      return;
    }
    parts.push_back(value.getDefiningOp<PadOp>());
  }

  /// The gradient of a value, all of whose contributions are there; null if there are none.
  Value completeGradient(Value value, OpBuilder &builder) {
    auto gradient = gradients.find(value);
    return gradient == gradients.end() ? Value() : gradient->second = joinSlices(gradient->second, builder);
  }

  /// The gradients of slices that together are the whole are joined, not added: x + 0 is x but for the sign of a zero.
  Value joinSlices(Value sum, OpBuilder &builder) {
    SmallVector<PadOp> parts;
    collectParts(sum, parts);
    ArrayRef<int64_t> whole = shapeOf(sum);
    std::optional<size_t> dim;
    for (PadOp part : parts) {
      if (parts.size() < 2 || !part || !part.getValue().isZero())
        return sum;
      for (size_t d = 0; d < whole.size(); ++d) {
        if (part.getStrides()[d] != 1 || (shapeOf(part.getX())[d] != whole[d] && dim.value_or(d) != d))
          return sum;
        if (shapeOf(part.getX())[d] != whole[d])
          dim = d;
      }
    }
    if (!dim)
      return sum;
    llvm::sort(parts, [&](PadOp a, PadOp b) { return a.getStarts()[*dim] < b.getStarts()[*dim]; });
    SmallVector<Value> values;
    int64_t end = 0;
    for (PadOp part : parts) {
      if (part.getStarts()[*dim] != end)
        return sum;
      end += shapeOf(part.getX())[*dim];
      values.push_back(part.getX());
    }
    if (end != whole[*dim])
      return sum;
    return ConcatOp::create(builder, sum.getLoc(), sum.getType(), values, static_cast<int64_t>(*dim));
  }

  Block &block;
  Value loss;
  llvm::SetVector<Value> active;
  DenseMap<Value, Value> gradients;
  DenseSet<Value> sums; ///< of contributions
};

struct Autodiff : scrimp::impl::AutodiffBase<Autodiff> {
  using AutodiffBase::AutodiffBase;

  void runOnOperation() override {
    func::FuncOp function = lookupGraph(getOperation(), "main", "scrimp-autodiff");
    if (!function || failed(differentiate(function)))
      return signalPassFailure();
    function.setName("train");
    OpPassManager cleanup(func::FuncOp::getOperationName());
    cleanup.addPass(createCanonicalizerPass());
    cleanup.addPass(createCSEPass());
    if (failed(runPipeline(cleanup, function)))
      signalPassFailure();
  }

  /// The loss, after the checks a user's graph may fail. Null after an error.
  Value findLoss(func::FuncOp function) {
    int index = findOutput(function, "loss");
    if (index < 0) {
      function.emitError() << "the graph has no loss: no result of @" << function.getName()
                           << " has scrimp.output = \"loss\"; name one with --loss";
      return nullptr;
    }
    Value loss = function.getBody().front().getTerminator()->getOperand(index);
    auto type = dyn_cast<RankedTensorType>(loss.getType());
    if (!type || type.getRank() != 0) {
      emitError(loss.getLoc()) << "the loss must be a scalar, found " << loss.getType()
                               << "; reduce it by a mean or a sum";
      return nullptr;
    }
    if (!isa<FloatType>(type.getElementType())) {
      emitError(loss.getLoc()) << "the loss must be of a float type, found " << loss.getType();
      return nullptr;
    }
    return loss;
  }

  Value addLossScale(func::FuncOp function, Type type) {
    Builder builder(&getContext());
    StringAttr name = builder.getStringAttr("loss_scale");
    DictionaryAttr attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(ScrimpDialect::kName, name), builder.getNamedAttr(ScrimpDialect::kScalar, name)});
    (void)function.insertArgument(function.getNumArguments(), type, attributes, function.getLoc());
    return function.getArguments().back();
  }

  LogicalResult differentiate(func::FuncOp function) {
    Value loss = findLoss(function);
    if (!loss)
      return failure();
    SmallVector<BlockArgument> parameters;
    for (BlockArgument argument : function.getArguments())
      if (isParameter(function, argument.getArgNumber(), "trainable"))
        parameters.push_back(argument);
    if (parameters.empty())
      return function.emitError() << "nothing to train: @" << function.getName()
                                  << " has no trainable parameter; choose some with --trainable PATTERN";
    Block &block = function.getBody().front();
    ReverseMode reverse(block, loss);
    if (failed(reverse.analyse(parameters)))
      return failure();
    GradientLocations locations;
    OpBuilder builder(block.getTerminator(), &locations);
    reverse.build(builder, lossScale ? addLossScale(function, tensorType(loss)) : nullptr);
    bool any = false;
    for (BlockArgument parameter : parameters) {
      StringAttr name = builder.getStringAttr(argumentName(function, parameter.getArgNumber()));
      if (Value gradient = reverse.gradientOf(parameter)) {
        appendResult(function, gradient, ScrimpDialect::kGradient, name);
        any = true;
        continue;
      }
      emitWarning(parameter.getLoc()) << "the loss does not depend on the trainable parameter '" << name.getValue()
                                      << "': it gets no gradient and is never updated";
    }
    if (!any)
      return emitError(loss.getLoc()) << "the loss depends on no trainable parameter";
    return success();
  }
};
} // namespace
