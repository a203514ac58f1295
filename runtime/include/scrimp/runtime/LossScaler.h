// Dynamic loss scaling (arXiv:1710.03740, section 3.2), by the rules of torch.amp.GradScaler: gradients are those of
// the loss times a scale, so that they do not vanish in fp16; a step whose gradients overflow is left out and lowers
// the scale, a long time without one raises it.
#ifndef SCRIMP_RUNTIME_LOSSSCALER_H
#define SCRIMP_RUNTIME_LOSSSCALER_H

#include "scrimp/runtime/Scalars.h"
#include <algorithm>

namespace scrimp::runtime {

/// The scale and what it depends on: part of the state of a run.
struct LossScale {
  double scale = 0;         // 0: no scaling yet
  int64_t updates = 0;      // since the scale last changed
  int64_t skippedSteps = 0; // of the whole run

  /// Both it and its reciprocal are normal f32 numbers.
  static constexpr double most = 0x1p126;
  /// Gradients that overflow even so are no matter of the scale.
  static constexpr double least = 0x1p-24;

  /// After a step whose gradients were finite.
  void succeed(const Hyperparameters &values) {
    if (static_cast<double>(++updates) < values.scaleInterval)
      return;
    scale = std::min(scale * values.scaleGrowth, most);
    updates = 0;
  }

  /// After one whose gradients were not. False where a lower scale is not likely to help.
  bool overflow(const Hyperparameters &values) {
    ++skippedSteps;
    scale *= values.scaleBackoff;
    updates = 0;
    return scale >= least;
  }
};

} // namespace scrimp::runtime

#endif
