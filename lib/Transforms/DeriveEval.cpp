// scrimp-derive-eval: the evaluation graph, cloned from the training graph's forward part. Only TrainModeOp knows what
// differs between the two.
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_DERIVEEVAL
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// Drops the results that update arguments.
static void eraseUpdates(func::FuncOp function) {
  llvm::BitVector erased(function.getNumResults());
  for (unsigned i = 0; i < erased.size(); ++i)
    if (function.getResultAttr(i, ScrimpDialect::kUpdates))
      erased.set(i);
  eraseResults(function, erased);
}

/// Drops the scalars and states that nothing reads any more.
static void eraseUnreadArguments(func::FuncOp function) {
  llvm::BitVector erased(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    bool internal =
        function.getArgAttr(index, ScrimpDialect::kScalar) || function.getArgAttr(index, ScrimpDialect::kState);
    if (internal && argument.use_empty())
      erased.set(index);
  }
  (void)function.eraseArguments(erased);
}

namespace {
struct DeriveEval : scrimp::impl::DeriveEvalBase<DeriveEval> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp main = lookupGraph(module, "main", "scrimp-derive-eval");
    if (!main)
      return signalPassFailure();
    if (Operation *existing = module.lookupSymbol("eval")) {
      existing->emitError() << "@eval exists already; it is derived from @main by scrimp-derive-eval";
      return signalPassFailure();
    }
    func::FuncOp eval = main.clone();
    eval.setName("eval");
    OpBuilder builder(main.getContext());
    builder.setInsertionPointAfter(main);
    builder.insert(eval);
    eraseUpdates(eval);
    IRRewriter rewriter(&getContext());
    eval.walk([&](TrainModeOp op) {
      rewriter.setInsertionPoint(op);
      rewriter.replaceOp(op, op.buildEvaluation(rewriter));
    });
    (void)simplifyRegions(rewriter, eval->getRegions());
    eraseUnreadArguments(eval);
  }
};
} // namespace
