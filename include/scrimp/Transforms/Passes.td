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

#endif
