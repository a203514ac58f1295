#include "scrimp/Analysis/Cost.h"

#include "scrimp/Analysis/LibraryWork.h"

using namespace mlir;
using namespace mlir::scrimp;

planner::Exchange mlir::scrimp::describeExchange(CollectiveOp op) {
  auto cost = cast<CostOp>(op.getOperation());
  int64_t ranks = op.getNumRanks(), taken = tensorType(op->getOperand(0)).getNumElements(),
          given = tensorType(op->getResult(0)).getNumElements();
  bool reduces = cost.getFlops() > 0;
  planner::Pattern pattern = reduces ? given < taken ? planner::Pattern::ReduceScatter : planner::Pattern::AllReduce
                             : given > taken ? planner::Pattern::AllGather
                                             : planner::Pattern::Broadcast;
  // Each sends (ranks - 1) / ranks of the whole, in its type on the way.
  int64_t times = pattern == planner::Pattern::AllReduce ? 2 : 1, others = std::max<int64_t>(1, ranks - 1);
  auto whole = static_cast<__int128>(cost.getLinkBytes()) * ranks / (others * times);
  return {pattern, ranks, static_cast<int64_t>(whole)};
}

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
    seconds = std::max(seconds, planner::estimateExchange(describeExchange(collective), rates.network).seconds);
  return rates.launch + seconds;
}
