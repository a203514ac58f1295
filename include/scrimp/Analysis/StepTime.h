// How long a step takes: the scheduled program, run on a clock.
#ifndef SCRIMP_ANALYSIS_STEPTIME_H
#define SCRIMP_ANALYSIS_STEPTIME_H

#include "scrimp/Analysis/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// Seconds of a step.
struct StepTime {
  double computing = 0;     // all that computes, and launches
  double communicating = 0; // all that is started and waited for (AsyncOp), one after the other
  double exposed = 0;       // of that, what computing waits for
  double products = 0;      // of products and convolutions at the peak of their type, what is computed again apart

  double getSeconds() const { return computing + exposed; }
  double getOverlapped() const { return communicating - exposed; }
  /// Model FLOPs utilization (Chowdhery et al., "PaLM", 2022): the share of the peak that the model's own products
  /// take.
  double getUtilization() const { return getSeconds() > 0 ? products / getSeconds() : 0; }
};

/// Runs `function` on two streams, one that computes and one that communicates: each runs its commands in the order in
/// which the program comes to them; an op that starts something puts it on the second stream, and the op that ends it
/// waits. A model, whose order of candidates counts more than its values: streams take nothing from each other, and a
/// kernel goes on at the device's rates. `each` is told what an op takes in computing and waiting, in parts that add up
/// over all iterations.
StepTime estimateStep(func::FuncOp function, const DeviceRates &rates,
                      llvm::function_ref<void(Operation *op, double seconds)> each = nullptr);

/// What a step learns from: samples of the whole update, 1 where no input has any, and tokens of each, 0 where none
/// reads ids, an integer for every position.
struct BatchSize {
  int64_t samples = 1, tokensPerSample = 0;
};
BatchSize getBatchSize(func::FuncOp function);

} // namespace mlir::scrimp

#endif
