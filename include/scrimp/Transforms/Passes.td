//===- Passes.td - the graph passes --------------------------------------------------------------------------------===//
#ifndef SCRIMP_TRANSFORMS_PASSES_TD
#define SCRIMP_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DeriveEval : Pass<"scrimp-derive-eval", "::mlir::ModuleOp"> {
  let summary = "Clone @main to @eval, with what behaves otherwise in training turned to evaluation";
  let description = [{
    Every op that implements TrainModeOp is replaced by what it is in evaluation (dropout by its operand, the batch's
    statistics by the running ones). Results that update state are dropped: evaluation changes nothing. Arguments keep
    their names and roles, so that @eval shares their storage with training; those that evaluation does not read (the
    seed of a dropout, say) are dropped, apart from inputs and parameters.

    Requires: a function @main.
    Ensures: a function @eval after it, without scrimp.updates and without a TrainModeOp.
    Fails: if there is no @main, or an @eval exists.
    Example: test/Transforms/derive-eval.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Autodiff : Pass<"scrimp-autodiff", "::mlir::ModuleOp"> {
  let summary = "Add the backward pass: @main becomes @train";
  let description = [{
    Reverse mode over DifferentiableOp. Only values on a path from a trainable parameter to the loss get a gradient:
    frozen parameters and data cost no op and no saved value. Contributions to one value are added from its last use to
    its first (operands of one op in their order), each as soon as it exists, so a tied parameter, being one argument,
    has one gradient. A trainable parameter that the loss does not depend on gets no gradient and no update, as in
    PyTorch, and a warning. Every new op carries its forward op's location under the metadata "gradient". The result is
    cleaned by the canonicalizer and CSE.

    Requires: @main with a result `scrimp.output = "loss"` and arguments `scrimp.param = "trainable"`.
    Ensures: @main is renamed @train; after the former results, one per differentiated parameter in the order of
    arguments, with `scrimp.gradient = "its name"` and its type.
    Fails: without a loss; if the loss is no scalar or no float; if nothing is trainable or the loss depends on nothing
    trainable; at an op on the path that has no gradient.
    Example: test/Transforms/autodiff.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

#endif
