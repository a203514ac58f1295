// Each op knows what computes it where there is neither a kernel nor a library function for it.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_EXPANDFORTARGET
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
struct ExpandForTarget : mlir::scrimp::impl::ExpandForTargetBase<ExpandForTarget> {
  using ExpandForTargetBase::ExpandForTargetBase;

  void runOnOperation() override {
    TargetAttr target = TargetAttr::of(getOperation());
    OpBuilder builder(&getContext());
    getOperation().walk([&](KernelOp op) {
      builder.setInsertionPoint(op);
      SmallVector<Value> results = op.buildExpansion(builder, target);
      if (results.empty())
        return;
      op->replaceAllUsesWith(results);
      op->erase();
    });
  }
};
} // namespace
