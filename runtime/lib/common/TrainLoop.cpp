// The loop: fill a batch, write the scalars, walk the command list, look at the loss.
#include "Trainer.h"
#include "scrimp/runtime/Clock.h"
#include "scrimp/runtime/Profile.h"
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace scrimp::runtime {

using namespace program;

static volatile sig_atomic_t signalRaised = 0;

// Ctrl-C and kill; what schedulers send ahead of a time limit (SLURM's --signal, PBS, LSF: USR1, USR2), of a limit on
// CPU time (XCPU), or when the terminal goes (HUP).
static constexpr int savingSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};

// Of the first of the guards that live at a time, and how many do: ranks may be threads.
static std::mutex guardMutex;
static int guards = 0;
static struct sigaction savedActions[std::size(savingSignals)];

SignalGuard::SignalGuard() {
  std::lock_guard lock(guardMutex);
  if (guards++)
    return;
  signalRaised = 0;
  for (size_t i = 0; i < std::size(savingSignals); ++i) {
    int number = savingSignals[i];
    struct sigaction action = {};
    action.sa_handler = [](int raised) { signalRaised = raised; };
    // Whoever asks twice by hand does not want to wait; a scheduler repeats itself, and must not break the save.
    if (number == SIGTERM || number == SIGINT)
      action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(number, nullptr, &savedActions[i]);
    if (savedActions[i].sa_handler != SIG_IGN) // nohup, or a background job's SIGINT
      sigaction(number, &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  std::lock_guard lock(guardMutex);
  if (--guards)
    return;
  for (size_t i = 0; i < std::size(savingSignals); ++i)
    sigaction(savingSignals[i], &savedActions[i], nullptr);
}

int SignalGuard::raised() { return signalRaised; }

void Trainer::warn(const std::string &text) {
  if (!ranks.isFirst())
    return;
  progress.finish();
  fprintf(stderr, "%s: warning: %s\n", programName.c_str(), text.c_str());
}

ScalarInputs Trainer::scalarInputs(int64_t step, int64_t t, int64_t validSamples) const {
  ScalarInputs inputs{options.values, options.seed, step, t};
  inputs.values.lr = scheduledRate(options.schedule, options.values.lr, t, totalSteps);
  if (hasLossScale)
    inputs.lossScale = state.lossScale.scale;
  inputs.validSamples = validSamples;
  inputs.sampleBase = share.begin;
  inputs.rank = ranks.rank();
  return inputs;
}

Status Trainer::writeScalars(const ScalarInputs &inputs, int slot) {
  Status status;
  for (PreparedScalar &scalar : scalars) {
    HostBytes &target = scalar.targets[static_cast<size_t>(slot)];
    writeScalar(scalar.index, scalar.type, target.data(), inputs);
    if (!status.failed())
      status = target.store();
  }
  return status;
}

/// A place without a sample of its own holds another's valid values; the graph leaves it out (valid_samples).
int64_t Trainer::sampleIn(int64_t place) const {
  return (*order)(batchPosition + (share.count ? share.begin + std::min(place, share.count - 1) : 0));
}

/// An output of a graph that has run, the same on all ranks.
Result<double> Trainer::valueOf(const Executor &graph, const Output *output) {
  Result<double> value = graph.output(output);
  if (!value.failed() && output->partial())
    return ranks.sum(*value);
  return value;
}

/// One, where nothing that the next step is given depends on how this one ends: then a device need not wait for the
/// host between steps. Where it ends badly the next one is switched off too, and the run ends.
size_t Trainer::depth() const {
  bool isApart = !device->sharesMemory();
  return isApart && !options.skipNan && !hasLossScale && !options.profile && options.trace.empty() ? 1 : 0;
}

/// Starts a step on the batch that has been filled. From here on the run stands behind it, as if it will end well.
Status Trainer::submitStep(bool isProfiled) {
  Flight flight;
  flight.slot = slot();
  flight.step = state.step + 1;
  flight.updates = state.updates;
  flight.position = state.position;
  flight.inputs = scalarInputs(flight.step, state.updates + 1, share.count);
  flight.start = batchStart;
  flight.isProfiled = isProfiled;
  Traffic before = exchange->traffic();
  Status status = writeScalars(flight.inputs, flight.slot);
  if (!status.failed())
    status = trainGraph->submit(flight.slot, /*goesOnAfterFailure=*/depth() == 0);
  const Traffic &after = exchange->traffic();
  flight.sent = {after.elements - before.elements, after.bytes - before.bytes, after.messages - before.messages,
                 after.waitedSeconds - before.waitedSeconds};
  flights.push_back(flight);
  state.step = flight.step;
  state.position += program->batch();
  ++state.updates;
  return status;
}

/// Waits for the first of the steps that are under way, and tells of it.
Status Trainer::judgeStep() {
  judged = flights.front();
  flights.erase(flights.begin());
  batchPosition = judged.position;
  StepReport report{};
  Status status = judge(judged, report);
  judgedAt = now();
  profiledSeconds += judged.isProfiled ? report.seconds : 0;
  int64_t steps = judged.step - firstStep, samples = steps * program->batch();
  if (!status.failed() && ranks.isFirst())
    progress.step(report, now() - runStart, steps, samples, samples * program->tokens_per_sample());
  if (image.hooks.end)
    image.hooks.end(image.hooks.context, judged.step);
  return status;
}

/// All that are under way. Ranks do so together, whatever one of them has met: they may add up what they find.
void Trainer::judgeSteps() {
  while (!flights.empty())
    if (Status status = judgeStep(); status.failed() && !pending.failed())
      pending = status;
}

/// A loss or a gradient that is not finite ends the run, or with --on-nan skip leaves everything but the step count and
/// the position in the data as it was; the step is in the metrics either way. Under loss scaling a gradient that is not
/// finite always does the latter, and lowers the scale.
Status Trainer::judge(const Flight &flight, StepReport &report) {
  Result<const CheckFinite *> ran = trainGraph->finish(flight.slot);
  if (ran.failed())
    return ran.status();
  const CheckFinite *failed = *ran;
  Result<double> loss = valueOf(*trainGraph, lossOutput);
  if (loss.failed())
    return loss.status();
  report.loss = *loss;
  Status status;
  // Only another rank may have met what is not finite.
  if (!std::isfinite(report.loss) || (failed && failed->kind() == CheckKind::loss)) {
    report.nonFinite = "loss";
    bool known = failed && (failed->kind() == CheckKind::loss || updatesWait);
    state.updates = flight.updates;
    status = nonFiniteLoss(report.loss, flight.step, /*applied=*/!known);
  } else if (failed) {
    report.nonFinite = failed->name() ? failed->name()->c_str() : "";
    state.updates = flight.updates;
    status = hasLossScale ? overflowedGradient(failed, report.loss, flight.step)
                          : nonFiniteGradient(failed, report.loss, flight.step);
  } else {
    if (hasLossScale)
      state.lossScale.succeed(options.values);
    lastLoss = report.loss;
  }
  report.skipped = report.nonFinite && !status.failed();
  skippedSteps += report.skipped;
  report.lossScale = hasLossScale ? flight.inputs.lossScale : 0;
  report.scaleSkips = state.lossScale.skippedSteps;
  report.step = flight.step;
  report.totalSteps = totalSteps;
  report.hasGradNorm = normOutput && !failed;
  report.gradNorm = 0;
  if (report.hasGradNorm) {
    Result<double> norm = valueOf(*trainGraph, normOutput);
    if (norm.failed())
      return norm.status();
    report.gradNorm = *norm;
  }
  report.lr = flight.inputs.values.lr;
  report.samples = flight.position + program->batch();
  report.tokens = report.samples * program->tokens_per_sample();
  report.arenaBytes = program->arena_bytes();
  report.hasRanks = ranks.size() > 1;
  report.sentElements = flight.sent.elements;
  report.sentBytes = flight.sent.bytes;
  report.waited = flight.sent.waitedSeconds;
  report.seconds = now() - std::max(flight.start, judgedAt);
  // All ranks have gone through the step alike; what this one has made up for what it could not read goes no further.
  if (batch->failure().failed()) {
    pendingWeight = 2;
    return batch->failure();
  }
  Status written = metrics.step(report, peak.bytes());
  return status.failed() ? status : written;
}

Status Trainer::save() {
  if (savedStep == state.step)
    return Status::ok();
  TraceSpan span(tracing, "save", "save");
  if (Status status = ranks.agree(checkWeights()); status.failed())
    return status;
  if (options.saveFolder.empty())
    return Status::ok();
  Status saved = saveCheckpoint(program, *arena, carried, state, options.saveFolder, options.keep, ranks);
  if (saved.failed())
    return Status::error("--save: %s", saved.message().c_str());
  savedStep = state.step;
  return Status::ok();
}

Status Trainer::afterStep(bool last) {
  bool evaluateNow = evalData && (last || isDue(options.evalEvery));
  if (evaluateNow) {
    if (Status status = evaluate(); status.failed())
      return status;
    if (!last && ranks.isFirst()) // the summary tells the last one
      progress.evaluation(state.step, lastEvalLoss);
  }
  if (last || isDue(options.saveEvery))
    return save();
  return Status::ok();
}

/// What all ranks do at a boundary between steps: the largest signal that any of them has met, or the failure of one.
Result<int> Trainer::agree() {
  TraceSpan span(tracing, "agree", "agree");
  Result<int> signal = ranks.agreeOnSignal(pending, pendingWeight, SignalGuard::raised());
  if (signal.failed())
    progress.finish();
  return signal;
}

Status Trainer::run() {
  SignalGuard signals;
  flights.reserve(2);
  runStart = now();
  firstStep = state.step;
  if (state.step >= totalSteps && checkpoint)
    warn(format("the checkpoint is at step %lld already, of %lld in all: nothing to train; give more --steps",
                (long long)state.step, (long long)totalSteps));
  int signal = 0;
  for (;;) {
    bool isLast = state.step >= totalSteps;
    if (Status status = switchTrace(isLast); status.failed())
      return status;
    TraceSpan span(tracing, "end", "end");
    batchStart = now();
    if (isLast)
      judgeSteps();
    if (!pending.failed() && !isLast && !(state.step > firstStep && SignalGuard::raised())) {
      TraceSpan data(tracing, "data", "batch");
      batchPosition = state.position;
      pending = batch->fill(slot());
    }
    Result<int> agreed = agree();
    if (agreed.failed())
      return agreed.status();
    // A run that is asked to end before its first step does one.
    if (state.step > firstStep)
      signal = *agreed;
    if (signal || isLast)
      break;
    span.rename("step", "step", state.step + 1);
    tracedSteps += tracing != nullptr;
    // The first step meets memory that has not been touched; it counts only where it is the last too.
    bool isProfiled = options.profile && (state.step > firstStep || state.step + 1 == totalSteps);
    if (isProfiled && ++profiledSteps == 1)
      trainGraph->startProfile();
    if (image.hooks.begin)
      image.hooks.begin(image.hooks.context, state.step + 1);
    pending = submitStep(isProfiled);
    if (!pending.failed() && flights.size() > depth())
      pending = judgeStep();
    if (state.step == totalSteps || !((evalData && isDue(options.evalEvery)) || isDue(options.saveEvery)))
      continue;
    judgeSteps();
    // A run that is asked to end does not evaluate first.
    if (agreed = agree(); agreed.failed())
      return agreed.status();
    if (signal = *agreed; signal)
      break;
    if (Status status = afterStep(/*last=*/false); status.failed()) {
      progress.finish();
      return status;
    }
  }
  if (depth()) { // the same on all ranks
    judgeSteps();
    if (Status status = ranks.agree(pending, pendingWeight); status.failed()) {
      progress.finish();
      return status;
    }
  }
  Status ended = signal ? save() : afterStep(/*last=*/true);
  progress.finish();
  if (ended.failed())
    return ended;
  if (signal)
    warn(format("stopped by a signal (%s) after step %lld%s", strsignal(signal), (long long)state.step,
                options.saveFolder.empty() ? "; without --save nothing is kept" : ", which is saved"));
  int64_t steps = state.step - firstStep;
  return summarise(now() - runStart, steps, steps * program->batch());
}

Status Trainer::summarise(double seconds, int64_t steps, int64_t samples) {
  Result<int64_t> mostMemory = ranks.largest(static_cast<int64_t>(peak.bytes()));
  if (mostMemory.failed() || !ranks.isFirst())
    return mostMemory.failed() ? mostMemory.status() : Status::ok();
  std::string text = format("%lld steps", (long long)steps);
  if (steps > skippedSteps)
    text += format(": loss %.6g", lastLoss);
  if (skippedSteps)
    text += format(", %lld skipped", (long long)skippedSteps);
  if (evaluatedStep >= 0)
    text += format(", eval loss %.6g", lastEvalLoss);
  int64_t tokens = samples * program->tokens_per_sample();
  if (steps > 0)
    text += format(", %.1f %s/s", static_cast<double>(tokens ? tokens : samples) / std::max(seconds, 1e-9),
                   tokens ? "tokens" : "samples");
  text += format(", arena %.1f MiB", static_cast<double>(program->arena_bytes()) / (1 << 20));
  if (ranks.size() > 1)
    text += format(" and %.1f MiB for communication on each of %d ranks",
                   static_cast<double>(exchange->bufferBytes()) / (1 << 20), ranks.size());
  text += format(", peak memory %.1f MiB", static_cast<double>(*mostMemory) / (1 << 20));
  if (std::string ofDevice = device->describeMemory(program); !ofDevice.empty())
    text += ", " + ofDevice;
  if (savedStep >= 0 && !options.saveFolder.empty())
    text += format(", saved %s/step-%06lld", options.saveFolder.c_str(), (long long)savedStep);
  printf("%s\n", text.c_str());
  if (profiledSteps)
    printf("\n%s", profileText(trainGraph->getProfile(), profiledSteps, profiledSeconds).c_str());
  fflush(stdout);
  return Status::ok();
}

} // namespace scrimp::runtime
