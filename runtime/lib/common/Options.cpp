// The command line, by CLI11.
#include "scrimp/runtime/Options.h"
#include "scrimp/runtime/Launch.h"
#include "scrimp/runtime/LossScaler.h"
#include <CLI/CLI.hpp>
#include <cmath>
#include <sched.h>
#include <unistd.h>

namespace scrimp::runtime {

/// Processors for this process: those that it is bound to; where it is not bound, its share among the ranks here.
static int availableProcessors() {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof(set), &set) ? 1 : std::max(CPU_COUNT(&set), 1);
  if (count >= sysconf(_SC_NPROCESSORS_ONLN))
    count /= Launch::fromEnvironment().sizeHere;
  return std::max(count, 1);
}

/// What a value should have been; null if it may be.
static const char *expectedInstead(ValueRange range, double value) {
  switch (range) {
  case ValueRange::nonNegative:
    return std::isfinite(value) && value >= 0 ? nullptr : "a finite number from 0 up";
  case ValueRange::belowOne:
    return value >= 0 && value < 1 ? nullptr : "a number from 0 to below 1";
  case ValueRange::positive:
    return value > 0 ? nullptr : "a number above 0 (inf: without a bound)";
  case ValueRange::scale:
    return value >= LossScale::least && value <= LossScale::most ? nullptr : "2^-24 to 2^126";
  case ValueRange::atLeastOne:
    return std::isfinite(value) && value >= 1 ? nullptr : "a finite number from 1 up";
  case ValueRange::fraction:
    return value > 0 && value < 1 ? nullptr : "a number between 0 and 1";
  }
  return nullptr;
}

/// The flags that the program understands, checked against PyTorch's ranges.
static Status checkHyperparameters(const program::Program *program, const Options &options) {
  for (size_t i = 0; i < std::size(hyperparameterTable); ++i) {
    const HyperparameterInfo &info = hyperparameterTable[i];
    if (!options.given[i])
      continue;
    std::string optimizer(textOf(program->optimizer()));
    if (!findHyperparameter(program, info.name))
      return Status::error("%s: this executable was compiled without %s (its optimizer is %s); recompile with %s",
                           info.flag, info.name, optimizer.empty() ? "unnamed" : optimizer.c_str(), info.recompile);
    double value = options.values.*info.value;
    if (const char *expected = expectedInstead(info.range, value))
      return Status::error("%s is %g, expected %s", info.flag, value, expected);
  }
  return Status::ok();
}

static Status parseSpecs(const std::vector<std::string> &texts, const char *flag, std::vector<DataSpec> &specs) {
  for (const std::string &text : texts) {
    Result<std::vector<DataSpec>> parsed = parseDataSpec(text);
    if (parsed.failed())
      return Status::error("%s: %s", flag, parsed.status().message().c_str());
    specs.insert(specs.end(), parsed->begin(), parsed->end());
  }
  return Status::ok();
}

static std::string describeInputs(const program::Program *program) {
  std::string text;
  for (const program::Input *input : items(program->inputs()))
    text += format("\n  %-24s %s %s%s", input->name()->c_str(), dtypeName(input->dtype()),
                   shapeText(input->shape()).c_str(),
                   input->batch_dim() < 0 ? "  (the same for every sample)"
                                          : format("  (batch: dimension %d)", input->batch_dim()).c_str());
  return text;
}

Result<Options> parseOptions(int argc, const char *const *argv, const program::Program *program,
                             std::string &helpText) {
  Options options;
  std::string model(textOf(program->model()));
  CLI::App app("Trains " + (model.empty() ? std::string("the compiled model") : model) +
               ".\nInputs:" + describeInputs(program));
  std::vector<std::string> data, evalData;
  std::string schedule = "constant", onNan = "stop", seed = "0", initRename, traceSteps;
  bool noShuffle = false;
  int64_t steps = 0, epochs = 0;
  int mostThreads = static_cast<int>(program->workers());
  options.threads = std::min(availableProcessors(), mostThreads);
  int threads = options.threads;

  app.add_option("--data", data, "an input's file: .npy, .safetensors, token .bin (.bin:+1 shifts by a token); repeat")
      ->type_name("NAME=FILE")
      ->take_all();
  app.add_option("--eval-data", evalData, "the same for evaluation")->type_name("NAME=FILE")->take_all();
  auto *tokenBytesFlag = app.add_option("--token-bytes", options.tokenBytes,
                                        "bytes of a token in raw .bin files, 2 (default) or 4; llm.c's say themselves");
  auto *stepsFlag = app.add_option("--steps", steps, "steps in all, those before a resume included");
  auto *epochsFlag = app.add_option("--epochs", epochs, "passes over the data instead (default 1)");
  for (size_t i = 0; i < std::size(hyperparameterTable); ++i) {
    const HyperparameterInfo &info = hyperparameterTable[i];
    const program::Hyperparameter *parameter = findHyperparameter(program, info.name);
    if (parameter)
      options.values.*info.value = parameter->value();
    std::string help = parameter ? format("%s (default %g)", info.help, parameter->value()) : "";
    // Unknown to this program: still parsed, so that the message can say how to get it; not shown by --help.
    app.add_option(info.flag, options.values.*info.value, help)->group(parameter ? "Options" : "");
  }
  auto *scheduleFlag = app.add_option("--lr-schedule", schedule, "constant (default), linear or cosine");
  auto *warmupFlag = app.add_option("--warmup", options.schedule.warmup, "updates over which the rate rises to --lr");
  auto *lrMinFlag =
      app.add_option("--lr-min", options.schedule.lrMin, "rate at the end of linear and cosine (default 0)");
  auto *seedFlag = app.add_option("--seed", seed, "of initial values, random ops and the order of samples (default 0)");
  app.add_option("--threads", threads, format("threads (default %d, at most %d)", options.threads, mostThreads));
  app.add_flag("--no-shuffle", noShuffle, "take samples in the order of the file");
  app.add_option("--eval-every", options.evalEvery, "evaluate every N steps and at the end");
  app.add_option("--save", options.saveFolder,
                 "folder for checkpoints; saved at the end and on SIGTERM, SIGINT, SIGUSR1 and their like")
      ->type_name("DIR");
  app.add_option("--save-every", options.saveEvery, "save every N steps too");
  app.add_option("--keep", options.keep, "checkpoints to keep (default all)");
  app.add_option("--resume", options.resume, "checkpoint, or folder of checkpoints, to continue from")
      ->type_name("DIR");
  app.add_option(
         "--init-from", options.initFrom,
         "initial weights: w.safetensors, model.safetensors.index.json, or a checkpoint's folder, whoever saved it")
      ->type_name("PATH");
  app.add_option("--init-rename", initRename, "names in --init-from's files that begin with FROM begin with TO instead")
      ->type_name("FROM=TO");
  app.add_option("--metrics", options.metrics,
                 "file of JSON lines, one object a step; {rank} in its name: one of each rank")
      ->type_name("FILE");
  app.add_option("--on-nan", onNan, "stop (default) or skip a step whose loss or gradient is not finite");

  app.add_option("--comm-timeout", options.commTimeout,
                 "seconds after which ranks stop waiting for one that is dead or stuck (default 600)");
  if (program->target() == program::Target::cuda) {
    app.add_option("--cuda-libs", options.device.libraries,
                   "folder of cuBLASLt and NCCL (default: where the loader looks, then pip's packages)")
        ->type_name("DIR");
    app.add_flag("--check-launches", options.device.checkLaunches,
                 "wait for each kernel and product, so that one that fails is named; slow");
  }
  app.add_flag("--profile", options.profile, "tell at the end where the time of the steps went, by the model's names");
  app.add_option(
         "--trace", options.trace,
         "file that shows when all ranks did what, for chrome://tracing or ui.perfetto.dev; takes up to 200 MiB "
         "of memory beside the plan")
      ->type_name("FILE");
  app.add_option("--trace-steps", traceSteps,
                 "steps that --trace shows, of 1000000 events at most (default: the second to the fourth of this run)")
      ->type_name("FIRST-LAST");
  app.add_flag("--verify", options.verify,
               "compare the matrix products of all shapes that this program has with plain sums, and end");

  // As a variable leaves it that was never set: not the same as leaving out the flag.
  for (const char *flag : {"--save", "--resume", "--init-from", "--metrics", "--trace"})
    app.get_option(flag)->check(
        [](const std::string &text) { return text.empty() ? std::string("the name is empty") : std::string(); }, "");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    helpText = app.help();
    return options;
  } catch (const CLI::ParseError &error) {
    return Status::error("%s; see --help", error.what());
  }

  for (size_t i = 0; i < std::size(hyperparameterTable); ++i)
    options.given[i] = app.count(hyperparameterTable[i].flag) > 0;
  if (Status status = checkHyperparameters(program, options); status.failed())
    return status;
  if (Status status = parseSpecs(data, "--data", options.data); status.failed())
    return status;
  if (Status status = parseSpecs(evalData, "--eval-data", options.evalData); status.failed())
    return status;

  if (stepsFlag->count() && epochsFlag->count())
    return Status::error("--steps and --epochs are both given; give one");
  if (stepsFlag->count())
    options.steps = steps;
  if (epochsFlag->count())
    options.epochs = epochs;
  struct Bound {
    const char *flag;
    int64_t value, least, most;
  };
  constexpr int64_t any = INT64_C(1) << 48;
  const Bound bounds[] = {{"--steps", steps, 0, any},
                          {"--epochs", epochs, 0, 1 << 24},
                          {"--warmup", options.schedule.warmup, 0, any},
                          {"--threads", threads, 1, mostThreads},
                          {"--eval-every", options.evalEvery, 0, any},
                          {"--save-every", options.saveEvery, 0, any},
                          {"--keep", options.keep, 0, any}};
  for (const Bound &bound : bounds)
    if (bound.value < bound.least || bound.value > bound.most)
      return Status::error("%s is %lld, expected %lld to %lld", bound.flag, (long long)bound.value,
                           (long long)bound.least, (long long)bound.most);
  options.threads = threads;
  options.shuffle = !noShuffle;
  if (tokenBytesFlag->count() && options.tokenBytes != 2 && options.tokenBytes != 4)
    return Status::error("--token-bytes is %d, expected 2 or 4", options.tokenBytes);

  bool knownSchedule = false;
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine})
    if (schedule == scheduleName(kind)) {
      options.schedule.kind = kind;
      knownSchedule = true;
    }
  if (!knownSchedule)
    return Status::error("--lr-schedule is '%s', expected constant, linear or cosine", schedule.c_str());
  options.scheduleGiven = scheduleFlag->count();
  options.warmupGiven = warmupFlag->count();
  options.lrMinGiven = lrMinFlag->count();
  if (const char *expected = expectedInstead(ValueRange::nonNegative, options.schedule.lrMin))
    return Status::error("--lr-min is %g, expected %s", options.schedule.lrMin, expected);
  if (onNan != "stop" && onNan != "skip")
    return Status::error("--on-nan is '%s', expected stop or skip", onNan.c_str());
  options.skipNan = onNan == "skip";

  char *end = nullptr;
  errno = 0;
  options.seed = strtoull(seed.c_str(), &end, 10);
  options.seedGiven = seedFlag->count();
  if (errno || seed.empty() || *end || seed[0] == '-' || seed[0] == ' ')
    return Status::error("--seed is '%s', expected 0 to 18446744073709551615", seed.c_str());

  if (!(options.commTimeout > 0))
    return Status::error("--comm-timeout is %g, expected a number above 0", options.commTimeout);

  if (!traceSteps.empty()) {
    long long first = 0, last = 0;
    int length = 0;
    bool isRange = sscanf(traceSteps.c_str(), "%lld-%lld%n", &first, &last, &length) == 2;
    if (!isRange) {
      isRange = sscanf(traceSteps.c_str(), "%lld%n", &first, &length) == 1;
      last = first;
    }
    if (!isRange || static_cast<size_t>(length) != traceSteps.size() || first < 1 || last < first || last > any)
      return Status::error("--trace-steps is '%s', expected a step or FIRST-LAST, counted from 1", traceSteps.c_str());
    options.traceSteps.emplace(first, last);
    if (options.trace.empty())
      return Status::error("--trace-steps needs --trace FILE");
  }
  if (options.saveFolder.empty() && (options.saveEvery || options.keep))
    return Status::error("%s needs --save DIR", options.saveEvery ? "--save-every" : "--keep");
  if (options.evalData.empty() && options.evalEvery)
    return Status::error("--eval-every needs --eval-data name=FILE");
  if (!initRename.empty() && !options.initRename.parse(initRename))
    return Status::error("--init-rename is '%s', expected FROM=TO, one of which may be empty", initRename.c_str());
  if (!initRename.empty() && options.initFrom.empty())
    return Status::error("--init-rename needs --init-from PATH");
  if (!options.resume.empty() && !options.initFrom.empty())
    return Status::error("--resume and --init-from both give the weights; give one");
  return options;
}

} // namespace scrimp::runtime
