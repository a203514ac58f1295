// scrimp-verify-collectives: the proof that no rank waits for another in vain, in every compile.
#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_VERIFYCOLLECTIVES
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
struct VerifyCollectives : scrimp::impl::VerifyCollectivesBase<VerifyCollectives> {
  using VerifyCollectivesBase::VerifyCollectivesBase;

  void runOnOperation() override {
    if (failed(verifyCollectives(getOperation())))
      signalPassFailure();
  }
};
} // namespace
