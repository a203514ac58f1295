#include "scrimp/Analysis/StepTime.h"

#include "scrimp/Analysis/LibraryWork.h"
#include "scrimp/Analysis/TrainingParts.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Seconds at the peak of what the op, or those of its kernel, multiply for the first time.
static double secondsAtPeak(Operation *op, const DeviceRates &rates) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel || kernel.getKernelFamily() != KernelFamily::Library || isRecomputed(op))
    return 0;
  LibraryWork work = computeLibraryWork(kernel);
  double peak = rates.getLibraryFlops(tensorType(op->getOperand(0)).getElementType()) / rates.productShare;
  return static_cast<double>(work.productFlops - work.repeatedFlops) / peak;
}

namespace {
class Clock {
public:
  Clock(const DeviceRates &rates, llvm::function_ref<void(Operation *, double)> each) : rates(rates), each(each) {}

  /// What the ops take counts `times`.
  void run(Block &block, double times) {
    for (Operation &op : block.without_terminator()) {
      if (auto body = dyn_cast<BodyOp>(op))
        repeat(body, times);
      else
        runOne(&op, times);
    }
  }

  StepTime spent;

private:
  /// The second iteration begins as the first leaves the streams; what it takes, all further ones do.
  void repeat(BodyOp body, double times) {
    auto iterations = static_cast<double>(body.getIterations());
    run(body.getBodyBlock(), times);
    if (iterations < 2)
      return;
    double nowBefore = now, freeBefore = free;
    run(body.getBodyBlock(), times * (iterations - 1));
    now += (iterations - 2) * (now - nowBefore);
    free += (iterations - 2) * (free - freeBefore);
  }

  void runOne(Operation *op, double times) {
    double seconds = secondsAlone(op, rates), waited = 0;
    if (auto start = dyn_cast<AsyncOp>(op)) {
      free = std::max(now, free) + seconds;
      ends[start.getEnd()] = free;
      spent.communicating += times * seconds;
      seconds = rates.launch;
    } else if (auto end = ends.find(op); end != ends.end()) {
      waited = std::max(0.0, end->second - now - seconds);
    }
    now += seconds + waited;
    spent.computing += times * seconds;
    spent.exposed += times * waited;
    spent.products += times * secondsAtPeak(op, rates);
    if (each)
      each(op, times * (seconds + waited));
  }

  const DeviceRates &rates;
  llvm::function_ref<void(Operation *, double)> each;
  double now = 0, free = 0; // when each stream has run what it has been given
  llvm::DenseMap<Operation *, double> ends;
};
} // namespace

StepTime mlir::scrimp::estimateStep(func::FuncOp function, const DeviceRates &rates,
                                    llvm::function_ref<void(Operation *, double)> each) {
  Clock clock(rates, each);
  clock.run(function.getBody().front(), 1);
  return clock.spent;
}

BatchSize mlir::scrimp::getBatchSize(func::FuncOp function) {
  BatchSize size;
  for (BlockArgument argument : function.getArguments()) {
    auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kInput);
    RankedTensorType type = tensorType(argument);
    if (!dim || dim.getInt() < 0 || dim.getInt() >= type.getRank())
      continue;
    size.samples = std::max(size.samples, type.getDimSize(dim.getInt()));
    if (type.getElementType().isInteger() && type.getElementTypeBitWidth() >= 32 && type.getRank() == 2 &&
        dim.getInt() == 0 && type.getDimSize(1) > 1)
      size.tokensPerSample = std::max(size.tokensPerSample, type.getDimSize(1));
  }
  if (auto whole = function->getAttrOfType<IntegerAttr>(ScrimpDialect::kWholeBatch)) // inputs are a rank's share
    size.samples = whole.getInt();
  return size;
}
