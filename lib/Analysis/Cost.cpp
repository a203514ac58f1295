#include "scrimp/Analysis/Cost.h"

#include "scrimp/Analysis/LibraryWork.h"

using namespace mlir;
using namespace mlir::scrimp;

double mlir::scrimp::secondsInKernel(Operation *op, const DeviceRates &rates) {
  auto cost = dyn_cast<CostOp>(op);
  if (!cost)
    return 0;
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel || kernel.getKernelFamily() != KernelFamily::Library)
    return cost.getFlops() / rates.kernelFlops;
  LibraryWork work = computeLibraryWork(kernel);
  // The operands' type: a product of 16-bit operands may have a wide result.
  return work.productFlops / rates.getLibraryFlops(tensorType(op->getOperand(0)).getElementType()) +
         work.otherFlops / rates.kernelFlops;
}

double mlir::scrimp::secondsAlone(Operation *op, const DeviceRates &rates) {
  auto cost = dyn_cast<CostOp>(op);
  if (!cost || isViewLike(op))
    return 0;
  double seconds = std::max(secondsInKernel(op, rates), cost.getMovedBytes() / rates.bytes);
  if (auto collective = dyn_cast<CollectiveOp>(op))
    seconds = std::max(seconds, planner::estimateExchange(collective.getExchange(), rates.network).seconds);
  return rates.launch + seconds;
}
