// Formulas of the host's scalars: torch/optim/{adam,adamw,sgd}.py, single-tensor path.
#include "scrimp/runtime/Scalars.h"
#include "scrimp/runtime/scalar_names.h"
#include <cmath>
#include <iterator>
#include <numbers>

namespace scrimp::runtime {

const char *scheduleName(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::constant:
    return "constant";
  case ScheduleKind::linear:
    return "linear";
  case ScheduleKind::cosine:
    return "cosine";
  }
  return "";
}

double scheduledRate(const Schedule &schedule, double lr, int64_t t, int64_t total) {
  if (t <= schedule.warmup)
    return lr * (static_cast<double>(t) / static_cast<double>(schedule.warmup));
  if (schedule.kind == ScheduleKind::constant)
    return lr;
  int64_t length = total - schedule.warmup;
  double p = length > 0 ? static_cast<double>(t - 1 - schedule.warmup) / static_cast<double>(length) : 1.0;
  p = p < 1.0 ? p : 1.0;
  double share = schedule.kind == ScheduleKind::linear ? 1.0 - p : 0.5 * (1.0 + std::cos(std::numbers::pi * p));
  return schedule.lrMin + (lr - schedule.lrMin) * share;
}

namespace {

struct ScalarInfo {
  const char *name;
  double (*real)(const ScalarInputs &);
  int64_t (*integer)(const ScalarInputs &) = nullptr; // exact, where a double is not
};

using In = const ScalarInputs &;

constexpr ScalarInfo scalarTable[] = {
    {"seed", nullptr, [](In in) { return static_cast<int64_t>(in.seed); }},
    {"step", nullptr, [](In in) { return in.step; }},
    {"sample_base", nullptr, [](In in) { return in.sampleBase; }},
    {"lr", [](In in) { return in.values.lr; }},
    {"beta1", [](In in) { return in.values.beta1; }},
    {"beta2", [](In in) { return in.values.beta2; }},
    {"one_minus_beta1", [](In in) { return 1 - in.values.beta1; }},
    {"one_minus_beta2", [](In in) { return 1 - in.values.beta2; }},
    {"eps", [](In in) { return in.values.eps; }},
    {"weight_decay", [](In in) { return in.values.weightDecay; }},
    {"decay_factor", [](In in) { return 1 - in.values.lr * in.values.weightDecay; }},
    {"step_size", [](In in) { return in.values.lr / (1 - std::pow(in.values.beta1, static_cast<double>(in.t))); }},
    {"sqrt_bias_correction2",
     [](In in) { return std::pow(1 - std::pow(in.values.beta2, static_cast<double>(in.t)), 0.5); }},
    {"clip_norm", [](In in) { return in.values.clipNorm; }},
    {"momentum", [](In in) { return in.values.momentum; }},
    {"dampening", [](In in) { return in.values.dampening; }},
    {"one_minus_dampening", [](In in) { return in.t == 1 ? 1.0 : 1 - in.values.dampening; }},
    {"nesterov", [](In in) { return in.values.nesterov; }},
    {"valid_samples", nullptr, [](In in) { return in.validSamples; }},
    {"loss_scale", [](In in) { return in.lossScale; }},
    {"unscale", [](In in) { return 1 / in.lossScale; }},
    {"rank", nullptr, [](In in) { return in.rank; }},
};

constexpr bool isNamedAsPublished() {
  for (size_t i = 0; i < std::size(scalarTable); ++i)
    if (std::string_view(scalarTable[i].name) != scalarNames[i])
      return false;
  return true;
}
static_assert(std::size(scalarTable) == std::size(scalarNames) && isNamedAsPublished());

} // namespace

int scalarIndex(std::string_view name) {
  int index = 0;
  for (const ScalarInfo &info : scalarTable) {
    if (name == info.name)
      return index;
    ++index;
  }
  return -1;
}

bool isKnownScalar(std::string_view name) { return scalarIndex(name) >= 0; }

std::string knownScalarNames() {
  std::string names;
  for (const ScalarInfo &info : scalarTable)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

void writeScalar(int index, DType type, char *target, const ScalarInputs &inputs) {
  const ScalarInfo &info = scalarTable[index];
  if (!info.integer)
    return storeElement(type, target, 0, info.real(inputs));
  int64_t value = info.integer(inputs);
  if (type == DType::i64)
    memcpy(target, &value, sizeof(value));
  else if (type == DType::i32) {
    auto low = static_cast<int32_t>(value);
    memcpy(target, &low, sizeof(low));
  } else
    storeElement(type, target, 0, static_cast<double>(value));
}

} // namespace scrimp::runtime
