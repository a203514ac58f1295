// The scalars that the runtime computes before each step, by name. Shared with the compiler: no dependencies.
#ifndef SCRIMP_RUNTIME_SCALAR_NAMES_H
#define SCRIMP_RUNTIME_SCALAR_NAMES_H

namespace scrimp::runtime {

inline constexpr const char *scalarNames[] = {
    "seed", "step", "sample_base", "lr", "beta1", "beta2", "one_minus_beta1", "one_minus_beta2", "eps",
    "weight_decay", "decay_factor", "step_size", "sqrt_bias_correction2", "clip_norm", "momentum", "dampening",
    "one_minus_dampening", "nesterov", "valid_samples", "loss_scale", "unscale", "rank"};

} // namespace scrimp::runtime

#endif
