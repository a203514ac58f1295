// A step that is not finite: what is said of it, and where it comes from as far as the arena still shows.
#include "Trainer.h"
#include "scrimp/runtime/NonFinite.h"
#include "scrimp/runtime/TensorPart.h"
#include <cmath>

namespace scrimp::runtime {

using namespace program;

static const char *describeValue(double value) { return std::isnan(value) ? "nan" : "infinite"; }

/// Weights that a step may change: their values were finite, or the user's own choice.
static bool isLearned(const Tensor *tensor) {
  return tensor->role() == TensorRole::parameter || tensor->role() == TensorRole::buffer;
}

/// In what this rank holds of a tensor, the first number that is not finite, or that is NaN; null without one.
Result<const char *> Trainer::findNonFiniteIn(const Tensor *tensor, bool nanOnly) const {
  if (!isFloat(tensor->dtype()))
    return nullptr;
  TensorPart part = partOf(tensor, ranks.rank());
  HostBytes values(*arena, part.offset, part.count * elementBytes(tensor->dtype()));
  if (Status status = values.load(); status.failed())
    return status;
  int64_t at = findNonFinite(tensor->dtype(), values.data(), part.count, nanOnly);
  return at < 0 ? nullptr : nonFiniteText(loadElement(tensor->dtype(), values.data(), at));
}

Status Trainer::noteFiniteWeights() {
  finiteWeights.clear();
  for (const Tensor *tensor : items(program->tensors())) {
    if (!isLearned(tensor))
      continue;
    Result<const char *> value = findNonFiniteIn(tensor);
    if (value.failed())
      return value.status();
    if (!*value)
      finiteWeights.push_back(tensor);
  }
  return Status::ok();
}

Status Trainer::checkWeights() const {
  for (const Tensor *tensor : finiteWeights) {
    Result<const char *> value = findNonFiniteIn(tensor);
    if (value.failed())
      return value.status();
    if (*value)
      return Status::error("'%s' holds %s after step %lld, though loss and gradients were finite: the update itself is "
                           "too large; nothing more is saved: lower --lr",
                           tensor->name()->c_str(), *value, (long long)state.step);
  }
  return Status::ok();
}

/// Inputs keep what they were filled with until the next step; streamed ones are read again. A NaN is never meant; an
/// infinity may be, in a mask.
Trainer::Cause Trainer::findCauseInData() {
  for (bool nanOnly : {true, false})
    for (const Input *input : items(program->inputs())) {
      std::string what, where;
      if (input->batch_dim() < 0) {
        HostBytes values(*arena, input->offset(), byteCount(input));
        if (values.load().failed())
          continue; // the device is lost, which is told elsewhere
        int64_t at = findNonFinite(input->dtype(), values.data(), elementCount(input->shape()), nanOnly);
        if (at >= 0)
          what = nonFiniteText(loadElement(input->dtype(), values.data(), at));
      } else if (auto found = batch->findNonFinite(input, nanOnly, judged.slot)) {
        what = nonFiniteText(found->value);
        where = format(", sample %lld", (long long)found->sample);
      }
      if (!what.empty())
        return {format("input '%s' holds %s%s of '%s'", input->name()->c_str(), what.c_str(), where.c_str(),
                       data->pathOf(input).c_str()),
                "mend the data", true};
    }
  return {};
}

Trainer::Cause Trainer::findCauseInWeights() const {
  for (const Tensor *tensor : items(program->tensors())) {
    bool isWeight = isLearned(tensor) || tensor->role() == TensorRole::frozen_parameter;
    if (!isWeight)
      continue;
    Result<const char *> found = findNonFiniteIn(tensor, /*nanOnly=*/tensor->role() != TensorRole::parameter);
    const char *value = found.failed() ? nullptr : *found;
    if (!value)
      continue;
    const char *name = tensor->name()->c_str();
    if (std::find(finiteWeights.begin(), finiteWeights.end(), tensor) != finiteWeights.end())
      return {format("'%s' holds %s since the update of a step before", name, value), "lower --lr", false};
    std::string source = checkpoint                 ? "the checkpoint '" + checkpoint->folder + "'"
                         : options.initFrom.empty() ? "the model's initial weights"
                                                    : "'" + options.initFrom + "'";
    return {format("'%s' holds %s in %s", name, value, source.c_str()), "start from other weights", false};
  }
  return {};
}

Trainer::Cause Trainer::findCause() {
  Cause cause = findCauseInData();
  return cause.text.empty() ? findCauseInWeights() : cause;
}

/// What the rank that knows most has to say, of a step that all skip.
std::string Trainer::tellAll(const std::string &what) {
  if (ranks.size() == 1)
    return what;
  std::string told = ranks.agree(Status::errorText(what), pendingWeight).message();
  ranks.failAlone(); // the run goes on
  return told;
}

Status Trainer::nonFiniteLoss(double loss, int64_t step, bool applied) {
  Cause cause = findCause();
  pendingWeight = !cause.text.empty() ? 2 : !std::isfinite(loss);
  std::string what = format("loss is %s at step %lld", describeValue(loss), (long long)step);
  if (!cause.text.empty())
    what += ": " + cause.text;
  if (options.skipNan && !applied) {
    warn(tellAll(what) + "; the step is skipped");
    return Status::ok();
  }
  progress.finish();
  if (applied)
    return Status::error("%s; %s", what.c_str(),
                         options.skipNan ? "this program updates before the loss is known, so the step cannot be "
                                           "skipped: resume from a checkpoint with a lower --lr"
                                         : "lower --lr");
  if (cause.hint.empty() && state.updates == 0)
    cause.hint = "data and weights are finite, so a function of the model is outside its range there (a log or sqrt "
                 "below 0, a division by 0, an exp of a large number); mend the model";
  else if (cause.hint.empty())
    cause.hint = "lower --lr";
  return Status::error("%s; the step was not applied: %s%s", what.c_str(), cause.hint.c_str(),
                       cause.skipHelps ? ", or give --on-nan skip" : "");
}

/// A scaled gradient that is not finite is what loss scaling waits for, unless the scale has become so low that it is
/// not the cause.
Status Trainer::overflowedGradient(const CheckFinite *check, double loss, int64_t step) {
  if (state.lossScale.overflow(options.values))
    return Status::ok();
  return nonFiniteGradient(check, loss, step);
}

Status Trainer::nonFiniteGradient(const CheckFinite *check, double loss, int64_t step) {
  const char *name = check->name() ? check->name()->c_str() : "";
  Cause cause = findCause();
  pendingWeight = !cause.text.empty() ? 2 : !std::isfinite(trainGraph->checked(check));
  std::string what = format("the gradient of '%s' is %s at step %lld, though the loss is %.6g", name,
                            describeValue(trainGraph->checked(check)), (long long)step, loss);
  if (!cause.text.empty())
    what += ": " + cause.text;
  if (options.skipNan && updatesWait) {
    warn(tellAll(what) + "; the step is skipped");
    return Status::ok();
  }
  progress.finish();
  if (options.skipNan)
    return Status::error("%s; this program updates parameters before all gradients are known, so the step cannot be "
                         "skipped; nothing more is saved: recompile with --skip-nonfinite-grad for --on-nan skip",
                         what.c_str());
  if (cause.hint.empty())
    cause.hint =
        format("something between '%s' and the loss has an infinite slope there (a sqrt or norm of 0, a log or "
               "division near 0); keep it away from that point, say by an epsilon",
               name);
  return Status::error("%s; %s: %s%s", what.c_str(), updatesWait ? "the step was not applied" : "nothing more is saved",
                       cause.hint.c_str(),
                       !cause.skipHelps ? ""
                       : updatesWait    ? ", or give --on-nan skip"
                                        : ", or compile with --skip-nonfinite-grad and give --on-nan skip");
}

} // namespace scrimp::runtime
