// The one-element tensors that the host computes before each step (program.fbs, Scalar), in double and in PyTorch's
// order of operations, then rounded once to the scalar's type.
//
//   seed                    --seed
//   step                    1-based number of this step; skipped steps count, so a mask is never drawn twice
//   sample_base             place within the step's batch of the first sample that this rank has; 0 with one rank
//   lr                      scheduled learning rate
//   beta1 beta2 eps weight_decay clip_norm momentum dampening nesterov   the flags
//   one_minus_beta1         1 - beta1
//   one_minus_beta2         1 - beta2
//   decay_factor            1 - lr weight_decay                      (AdamW: param.mul_)
//   step_size               lr / (1 - beta1^t)                       (Adam)
//   sqrt_bias_correction2   (1 - beta2^t)^0.5                        (Adam)
//   one_minus_dampening     1 - dampening, but 1 at the first update: PyTorch's momentum buffer starts as the gradient
//   loss_scale              what gradients are scaled by (LossScaler.h)
//   unscale                 1 / loss_scale
//   valid_samples           how many places of this rank's inputs hold samples, from the first on: fewer than there are
//                           where ranks do not divide the batch, and at the end of evaluation data
//   rank                    of this process, from 0 on
//
// t counts applied updates, this one included: a skipped step moves neither it nor the schedule.
#ifndef SCRIMP_RUNTIME_SCALARS_H
#define SCRIMP_RUNTIME_SCALARS_H

#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

/// Values of the run-time flags; the defaults are PyTorch's.
struct Hyperparameters {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0, clipNorm = 0, momentum = 0, dampening = 0,
         nesterov = 0, lossScale = 65536, scaleGrowth = 2, scaleBackoff = 0.5, scaleInterval = 2000;
};

/// Which values of a flag are allowed: torch.optim's own checks, and nothing that makes every weight infinite.
enum class ValueRange { nonNegative, belowOne, positive, scale, atLeastOne, fraction };

/// One flag that a program may understand.
struct HyperparameterInfo {
  const char *name; // in Program.hyperparameters
  const char *flag; // on the command line
  double Hyperparameters::*value;
  ValueRange range;
  const char *recompile; // how to get a program that has it
  const char *help;
};

inline constexpr HyperparameterInfo hyperparameterTable[] = {
    {"lr", "--lr", &Hyperparameters::lr, ValueRange::nonNegative, "--optimizer sgd, adam or adamw", "learning rate"},
    {"beta1", "--beta1", &Hyperparameters::beta1, ValueRange::belowOne, "--optimizer adam or adamw",
     "decay of the first moment"},
    {"beta2", "--beta2", &Hyperparameters::beta2, ValueRange::belowOne, "--optimizer adam or adamw",
     "decay of the second moment"},
    {"eps", "--eps", &Hyperparameters::eps, ValueRange::nonNegative, "--optimizer adam or adamw",
     "added to the denominator"},
    {"weight_decay", "--weight-decay", &Hyperparameters::weightDecay, ValueRange::nonNegative, "--weight-decay",
     "weight decay"},
    {"clip_norm", "--clip-norm", &Hyperparameters::clipNorm, ValueRange::positive, "--clip-grad-norm",
     "greatest global norm of the gradient"},
    {"momentum", "--momentum", &Hyperparameters::momentum, ValueRange::nonNegative, "--optimizer sgd --momentum",
     "momentum"},
    {"dampening", "--dampening", &Hyperparameters::dampening, ValueRange::nonNegative,
     "--optimizer sgd --momentum, without --nesterov", "dampening of the momentum"},
    {"nesterov", "--nesterov", &Hyperparameters::nesterov, ValueRange::nonNegative,
     "--optimizer sgd --momentum --nesterov", "Nesterov momentum (0 or 1)"},
    {"loss_scale", "--loss-scale", &Hyperparameters::lossScale, ValueRange::scale, "--precision fp16",
     "first scale of the gradients"},
    {"scale_growth", "--scale-growth", &Hyperparameters::scaleGrowth, ValueRange::atLeastOne, "--precision fp16",
     "what the scale grows by; 1: never"},
    {"scale_backoff", "--scale-backoff", &Hyperparameters::scaleBackoff, ValueRange::fraction, "--precision fp16",
     "what the scale shrinks by when gradients overflow; that step is left out"},
    {"scale_interval", "--scale-interval", &Hyperparameters::scaleInterval, ValueRange::atLeastOne,
     "--precision fp16", "updates after which the scale grows"},
};

/// The learning rate as a multiple of --lr over applied updates.
enum class ScheduleKind { constant, linear, cosine };
const char *scheduleName(ScheduleKind kind);
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  int64_t warmup = 0;
  double lrMin = 0;
};

/// The rate of update t (1-based) of `total`. Warm-up: lr t / warmup for t <= warmup. Then, with
/// p = (t - 1 - warmup) / (total - warmup), linear: lrMin + (lr - lrMin)(1 - p);
/// cosine: lrMin + (lr - lrMin)(1 + cos(pi p)) / 2.
double scheduledRate(const Schedule &schedule, double lr, int64_t t, int64_t total);

/// What the scalars of one step are computed from. `values.lr` is the scheduled rate.
struct ScalarInputs {
  Hyperparameters values;
  uint64_t seed = 0;
  int64_t step = 1; // of the run
  int64_t t = 1;    // applied updates, this one included
  int64_t validSamples = 0;
  double lossScale = 1;
  int64_t sampleBase = 0, rank = 0;
};

bool isKnownScalar(std::string_view name);
std::string knownScalarNames();

/// The index of a known scalar for writeScalar (looked up once).
int scalarIndex(std::string_view name);
void writeScalar(int index, DType type, char *target, const ScalarInputs &inputs);

} // namespace scrimp::runtime

#endif
