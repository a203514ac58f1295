// What the module is compiled for, where every later pass finds it.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_ATTACHTARGET
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
struct AttachTarget : mlir::scrimp::impl::AttachTargetBase<AttachTarget> {
  using AttachTargetBase::AttachTargetBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<TargetKind> known = symbolizeTargetKind(kind);
    if (!known) {
      module.emitError() << "unknown target '" << kind << "'; there are cpu, emulated and cuda";
      return signalPassFailure();
    }
    auto refuse = [&] { return module.emitError() << "cannot be compiled: "; };
    auto target = TargetAttr::getChecked(refuse, &getContext(), *known, workers.getValue(), tf32.getValue());
    if (!target)
      return signalPassFailure();
    module->setAttr(ScrimpDialect::kTarget, target);
  }
};
} // namespace
