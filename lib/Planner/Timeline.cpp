#include "scrimp/Planner/Timeline.h"

#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Analysis/StepTime.h"

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;

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
  llvm::DenseMap<Operation *, double> spent; // over all iterations of the loops around the op
  estimateStep(planned, rates, [&](Operation *op, double seconds) { spent[op] += seconds; });
  Array points;
  double seconds = 0;
  int64_t bytes = persistent, last = -1;
  for (auto [t, op] : llvm::enumerate(use.ops)) {
    bytes += change[t];
    if (bytes != last)
      points.push_back(Array{seconds, bytes});
    last = bytes;
    seconds += spent.lookup(op);
  }
  points.push_back(Array{seconds, bytes});
  return points;
}
