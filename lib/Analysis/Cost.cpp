#include "scrimp/Analysis/Cost.h"

using namespace mlir;
using namespace mlir::scrimp;

static bool isLibraryCall(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Library;
}

double mlir::scrimp::secondsInKernel(Operation *op, const DeviceRates &rates) {
  auto cost = dyn_cast<CostOp>(op);
  if (!cost)
    return 0;
  // The operands' type: a product of 16-bit operands may have a wide result.
  return cost.getFlops() / (isLibraryCall(op) ? rates.getLibraryFlops(tensorType(op->getOperand(0)).getElementType())
                                              : rates.kernelFlops);
}

double mlir::scrimp::secondsAlone(Operation *op, const DeviceRates &rates) {
  auto cost = dyn_cast<CostOp>(op);
  if (!cost || isViewLike(op))
    return 0;
  return rates.launch + std::max({secondsInKernel(op, rates), cost.getMovedBytes() / rates.bytes,
                                  cost.getLinkBytes() / rates.link});
}
