#include "scrimp/Planner/Timeline.h"

#include "scrimp/Analysis/MemoryUse.h"

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;

/// Over all iterations of the loops around the op. What a body op itself takes is that of its ops.
static double secondsInAll(Operation *op, func::FuncOp function, const DeviceRates &rates) {
  if (isa<BodyOp>(op))
    return 0;
  double seconds = secondsAlone(op, rates);
  for (Operation *parent = op->getParentOp(); parent != function; parent = parent->getParentOp())
    seconds *= static_cast<double>(cast<BodyOp>(parent).getIterations());
  return seconds;
}

FailureOr<Array> mlir::scrimp::buildTimeline(func::FuncOp planned, const DeviceRates &rates) {
  FailureOr<Aliases> aliases = Aliases::compute(planned);
  if (failed(aliases))
    return failure();
  MemoryUse use = computeMemoryUse(planned, *aliases);
  int64_t persistent = 0;
  for (const PersistentBlock &block : use.persistent)
    persistent += block.bytes;
  std::vector<int64_t> change(use.ops.size() + 1, 0);
  for (const TransientBlock &block : use.transient) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  Array points;
  double seconds = 0;
  int64_t bytes = persistent, last = -1;
  for (auto [t, op] : llvm::enumerate(use.ops)) {
    bytes += change[t];
    if (bytes != last)
      points.push_back(Array{seconds, bytes});
    last = bytes;
    seconds += secondsInAll(op, planned, rates);
  }
  points.push_back(Array{seconds, bytes});
  return points;
}
