// scrimp-widen-library-ops: the library computes f32 and f64; narrower floats are cast on their way in and out. Only
// the kernel family and types are looked at, so the pass knows no op.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_WIDENLIBRARYOPS
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// f32 of that shape for f16 and bf16; other types as they are.
static Type widened(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !isa<FloatType>(tensor.getElementType()))
    return type;
  return tensor.clone(getComputeType(tensor.getElementType()));
}

static bool isNarrow(Type type) { return widened(type) != type; }

namespace {
struct WidenLibraryOps : scrimp::impl::WidenLibraryOpsBase<WidenLibraryOps> {
  void runOnOperation() override {
    SmallVector<Operation *> narrow;
    getOperation()->walk([&](KernelOp kernel) {
      Operation *op = kernel;
      if (kernel.getKernelFamily() == KernelFamily::Library &&
          (llvm::any_of(op->getOperandTypes(), isNarrow) || llvm::any_of(op->getResultTypes(), isNarrow)))
        narrow.push_back(op);
    });
    for (Operation *op : narrow)
      widen(op);
  }

  void widen(Operation *op) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    for (OpOperand &operand : op->getOpOperands())
      if (Type type = operand.get().getType(); isNarrow(type))
        operand.set(CastOp::create(builder, loc, widened(type), operand.get()));
    builder.setInsertionPointAfter(op);
    for (OpResult result : op->getResults()) {
      Type type = result.getType();
      if (!isNarrow(type))
        continue;
      result.setType(widened(type));
      Value cast = CastOp::create(builder, loc, type, result);
      result.replaceAllUsesExcept(cast, cast.getDefiningOp());
    }
  }
};
} // namespace
