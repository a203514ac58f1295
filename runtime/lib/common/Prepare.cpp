// Everything before the first step.
#include "Trainer.h"
#include "scrimp/runtime/Weights.h"
#include <cmath>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace scrimp::runtime {

using namespace program;
namespace fs = std::filesystem;

Trainer::Trainer(const ProgramImage &image, const Program *program, Options options, std::string programName,
                 Communicator &communicator, Ranks &ranks)
    : image(image), program(program), options(std::move(options)), programName(std::move(programName)),
      communicator(communicator), exchange(&communicator), ranks(ranks),
      share(Share::of(program->batch(), ranks.rank(), ranks.size())) {}

/// A resumed run goes on as the saved one would have: its flags hold unless given anew, and what would silently change
/// the order of samples is refused.
Status Trainer::mergeResumedState(const RunState &saved) {
  std::string advice =
      format("to start anew with these weights, give --init-from %s instead of --resume", checkpoint->folder.c_str());
  if (checkpoint->optimizer != textOf(program->optimizer()))
    return Status::error("the checkpoint was made with the optimizer %s, this executable has %s; %s",
                         checkpoint->optimizer.c_str(), std::string(textOf(program->optimizer())).c_str(),
                         advice.c_str());
  if (options.seedGiven && options.seed != saved.seed)
    return Status::error("--seed is %llu, but the checkpoint was made with %llu; leave --seed out, or %s",
                         (unsigned long long)options.seed, (unsigned long long)saved.seed, advice.c_str());
  if (data->samples() != saved.samples)
    return Status::error("the data has %lld samples, but the checkpoint was made with %lld; %s",
                         (long long)data->samples(), (long long)saved.samples, advice.c_str());
  if (options.shuffle != saved.shuffle)
    return Status::error("the checkpoint was made %s --no-shuffle; %s it, or %s", saved.shuffle ? "without" : "with",
                         saved.shuffle ? "leave out" : "give", advice.c_str());
  for (size_t i = 0; i < std::size(hyperparameterTable); ++i) {
    double Hyperparameters::*value = hyperparameterTable[i].value;
    if (!options.given[i] && saved.hasValue[i])
      options.values.*value = saved.values.*value;
  }
  if (!options.scheduleGiven)
    options.schedule.kind = saved.schedule.kind;
  if (!options.warmupGiven)
    options.schedule.warmup = saved.schedule.warmup;
  if (!options.lrMinGiven)
    options.schedule.lrMin = saved.schedule.lrMin;
  options.seed = saved.seed;
  state.step = saved.step;
  state.updates = saved.updates;
  state.position = saved.position;
  if (hasLossScale && saved.lossScale.scale)
    state.lossScale = saved.lossScale;
  // Another folder gets a checkpoint even where no step is left.
  std::error_code ignored;
  if (fs::equivalent(fs::path(checkpoint->folder).parent_path(), options.saveFolder, ignored))
    savedStep = saved.step;
  return Status::ok();
}

Status Trainer::findTotalSteps() {
  if (options.steps) {
    totalSteps = *options.steps;
    return Status::ok();
  }
  if (!data->samples())
    return Status::error("the model has no input with a batch dimension, so an epoch has no length; give --steps N");
  int64_t epochs = options.epochs.value_or(1), samples;
  if (__builtin_mul_overflow(epochs, data->samples(), &samples))
    return Status::error("--epochs %lld over %lld samples are too many steps", (long long)epochs,
                         (long long)data->samples());
  totalSteps = samples / program->batch() + (samples % program->batch() != 0);
  return Status::ok();
}

/// A schedule that decays by the steps in all: other steps bend it where the run goes on, which may be meant.
void Trainer::tellScheduleJump(const RunState &saved) {
  const Schedule &schedule = options.schedule;
  double lr = options.values.lr;
  int64_t next = saved.updates + 1;
  double planned = scheduledRate(schedule, lr, next, saved.total), now = scheduledRate(schedule, lr, next, totalSteps);
  if (!saved.total || saved.total == totalSteps || saved.step >= totalSteps ||
      std::abs(now - planned) <= 1e-9 * std::abs(lr))
    return;
  warn(
      format("the checkpoint's run had %lld steps, this one has %lld: under --lr-schedule %s the learning rate jumps "
             "from %.6g, its last, to %.6g at step %lld, where %.6g was planned; give --steps %lld to go on as planned",
             (long long)saved.total, (long long)totalSteps, scheduleName(schedule.kind),
             scheduledRate(schedule, lr, std::max<int64_t>(saved.updates, 1), saved.total), now,
             (long long)saved.step + 1, planned, (long long)saved.total));
}

static bool isSameFile(const std::string &a, const std::string &b) {
  struct stat left, right;
  return stat(a.c_str(), &left) == 0 && stat(b.c_str(), &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

/// A mistyped --metrics must not cost the user the data.
Status Trainer::checkOutputFiles() {
  std::vector<std::string> read{options.initFrom, image.weightsPath};
  for (const std::vector<DataSpec> *specs : {&options.data, &options.evalData})
    for (const DataSpec &spec : *specs)
      read.push_back(spec.path);
  const std::pair<const char *, const std::string &> outputs[] = {{"--metrics", options.metrics},
                                                                  {"--trace", options.trace}};
  for (auto &[flag, output] : outputs)
    for (const std::string &path : read)
      if (!output.empty() && isSameFile(output, path))
        return Status::error("%s: '%s' is a file that this run reads; name another", flag, output.c_str());
  if (!options.trace.empty() && (options.trace == options.metrics || isSameFile(options.trace, options.metrics)))
    return Status::error("--trace and --metrics are both '%s'; name another", options.trace.c_str());
  return Status::ok();
}

/// What must not differ between ranks, lest they end after different steps or update different things.
std::vector<Fact> Trainer::facts() const {
  std::vector<Fact> facts = {
      {"the number of training samples", data->samples()},
      {"the number of evaluation samples", evalData ? evalData->samples() : 0},
      {"--eval-data", evalData.has_value(), Fact::Kind::flag},
      {"the number of steps", totalSteps},
      {"the step that the run starts at", state.step},
      {"the update that the run starts at", state.updates},
      {"--seed", static_cast<int64_t>(options.seed)},
      {"--no-shuffle", !options.shuffle, Fact::Kind::flag},
      {"--on-nan skip", options.skipNan, Fact::Kind::flag},
      {"--save", !options.saveFolder.empty(), Fact::Kind::flag},
      {"--save-every", options.saveEvery},
      {"--eval-every", options.evalEvery},
      {"--trace", !options.trace.empty(), Fact::Kind::flag},
      {"the first step of --trace", firstTraced},
      {"the last step of --trace", lastTraced},
      {"--lr-schedule (0 constant, 1 linear, 2 cosine)", static_cast<int64_t>(options.schedule.kind)},
      {"--warmup", options.schedule.warmup},
      Fact::real("--lr-min", options.schedule.lrMin),
      Fact::real("the loss scale", state.lossScale.scale)};
  for (const HyperparameterInfo &info : hyperparameterTable)
    facts.push_back(Fact::real(info.flag, options.values.*info.value));
  return facts;
}

Status Trainer::prepare() {
  communicator.setTimeout(options.commTimeout);
  if (size_t at = options.metrics.find("{rank}"); at != std::string::npos)
    options.metrics.replace(at, 6, std::to_string(ranks.rank()));
  else if (!ranks.isFirst())
    options.metrics.clear();
  if (Status status = ranks.agree(openInputs()); status.failed())
    return status;
  if (Status status = ranks.requireEqual(facts(), "give all ranks the same flags and the same data"); status.failed())
    return status;
  if (checkpoint)
    tellScheduleJump(checkpoint->state);
  if (Status status = ranks.agree(openDevice()); status.failed())
    return status;
  if (ranks.size() > 1) {
    Result<std::unique_ptr<Communicator>> connected = device->connect(communicator);
    if (Status status = ranks.agree(connected.failed() ? connected.status() : Status::ok()); status.failed())
      return status;
    deviceCommunicator = std::move(*connected);
    if (deviceCommunicator) {
      exchange = deviceCommunicator.get();
      exchange->setTimeout(options.commTimeout);
    }
  }
  if (Status status = ranks.agree(allocate()); status.failed())
    return status;
  return ranks.agree(openOutputs());
}

Status Trainer::openInputs() {
  if (Status status = checkOutputFiles(); status.failed())
    return status;
  Result<Dataset> opened = Dataset::open(program, options.data, options.tokenBytes, "--data");
  if (opened.failed())
    return opened.status();
  data = std::move(*opened);

  evalProgram = findGraph(program, "eval");
  if (!options.evalData.empty()) {
    if (!evalProgram)
      return Status::error("--eval-data: this executable was compiled without an evaluation graph");
    Result<Dataset> evaluation = Dataset::open(program, options.evalData, options.tokenBytes, "--eval-data", &*data);
    if (evaluation.failed())
      return evaluation.status();
    evalData = std::move(*evaluation);
    if (evalData->samples() < program->batch() && evalData->hasBatchedInputs() && program->eval_drops_partial())
      return Status::error("--eval-data: %lld samples make no whole batch of %lld, and this model cannot evaluate a "
                           "part of one; give more, or recompile with a smaller batch",
                           (long long)evalData->samples(), (long long)program->batch());
  }

  hasLossScale = findHyperparameter(program, "loss_scale") != nullptr;
  if (!options.resume.empty()) {
    Result<CheckpointOnDisk> found = openCheckpoint(options.resume);
    if (found.failed())
      return Status::error("--resume: %s", found.status().message().c_str());
    checkpoint = std::move(*found);
    if (Status status = mergeResumedState(checkpoint->state); status.failed())
      return Status::error("--resume: %s", status.message().c_str());
  }
  if (Status status = findTotalSteps(); status.failed())
    return status;
  if (Status status = findTracedSteps(); status.failed())
    return status;
  state.seed = options.seed;
  // Who gives a scale means it, after a resume too.
  if (hasLossScale && (!state.lossScale.scale || options.isGiven(&Hyperparameters::lossScale)))
    state.lossScale.scale = options.values.lossScale;
  state.total = totalSteps;
  state.samples = data->samples();
  state.shuffle = options.shuffle;
  state.schedule = options.schedule;
  state.values = options.values;
  order.emplace(std::max<int64_t>(data->samples(), 1), options.seed, options.shuffle);
  return Status::ok();
}

Status Trainer::openDevice() {
  pool.emplace(options.threads);
  Result<std::unique_ptr<Device>> opened = scrimp::runtime::openDevice(program, *pool, options.device);
  if (opened.failed())
    return opened.status();
  device = std::move(*opened);
  return Status::ok();
}

Status Trainer::allocate() {
  // First, so that what they take is known to be there.
  if (Status status = exchange->reserve(collectivesOf(program)); status.failed())
    return status;
  if (Status status = device->checkMemory(program, exchange->bufferBytes()); status.failed())
    return status;
  if (Status status = device->checkLibrary(program); status.failed())
    return status;
  Result<char *> base = device->allocate(program->arena_bytes(), program->alignment());
  if (base.failed())
    return base.status();
  arena.emplace(*base, &*device);
  InitialTensors which = checkpoint                 ? InitialTensors::constants
                         : options.initFrom.empty() ? InitialTensors::all
                                                    : InitialTensors::statesAndConstants;
  if (Status status = initializeTensors(program, image.weightsPath, which, options.seed, ranks.rank(), *arena, *pool);
      status.failed())
    return status;
  Result<CarriedTensors> inTrailer = CarriedTensors::inTrailer(program, image.weightsPath);
  if (inTrailer.failed())
    return inTrailer.status();
  carried = std::move(*inTrailer);
  if (checkpoint)
    if (Status status = loadCheckpoint(program, *checkpoint, ranks.rank(), *arena, carried); status.failed())
      return Status::error("--resume: %s", status.message().c_str());
  if (!options.initFrom.empty())
    if (Status status = initializeFrom(program, options.initFrom, options.initRename, ranks.rank(), *arena, carried);
        status.failed())
      return status;
  if (Status status = data->fillFixed(*arena); status.failed())
    return Status::error("--data: %s", status.message().c_str());

  const Graph *train = findGraph(program, "train");
  auto slots = static_cast<int>(depth()) + 1;
  batch.emplace(*data, "--data", [this](int64_t place) { return sampleIn(place); });
  if (Status status = batch->reserve(*arena, slots); status.failed())
    return status;
  trainGraph.emplace(program, train, image.kernels, arena->base, *device, *exchange, &*batch);
  lossOutput = findOutput(train, "loss");
  normOutput = findOutput(train, "grad_norm");
  updatesWait = train->updates_wait();
  if (Status status = noteFiniteWeights(); status.failed())
    return status;
  if (evalData) {
    evalBatch.emplace(*evalData, "--eval-data", [this](int64_t place) { return evalSampleIn(place); });
    if (Status status = evalBatch->reserve(*arena, /*slots=*/1); status.failed())
      return status;
    evalGraph.emplace(program, evalProgram, image.kernels, arena->base, *device, *exchange, &*evalBatch);
  }
  for (const Scalar *scalar : items(program->scalars())) {
    PreparedScalar &prepared = scalars.emplace_back();
    prepared.index = scalarIndex(textOf(scalar->name()));
    prepared.type = scalar->dtype();
    for (int slot = 0; slot < slots; ++slot) {
      Result<HostBytes> bytes = HostBytes::lasting(*arena, scalar->offset(), elementBytes(scalar->dtype()));
      if (bytes.failed())
        return bytes.status();
      prepared.targets.push_back(std::move(*bytes));
    }
  }

  return Status::ok();
}

Status Trainer::openOutputs() {
  bool saves = ranks.isFirst() && !options.saveFolder.empty();
  madeFolder = saves && access(options.saveFolder.c_str(), F_OK);
  if (saves)
    if (Status status = prepareCheckpointFolder(options.saveFolder, saveLock); status.failed())
      return Status::error("--save: %s", status.message().c_str());
  if (!options.metrics.empty())
    if (Status status = metrics.open(options.metrics, checkpoint.has_value()); status.failed())
      return status;
  return openTrace();
}

void Trainer::removeLeftovers() {
  if (madeFolder)
    rmdir(options.saveFolder.c_str()); // which spares a folder with something in it
  struct stat info;
  if (traceIsPartial && stat(options.trace.c_str(), &info) == 0 && S_ISREG(info.st_mode))
    unlink(options.trace.c_str());
}

} // namespace scrimp::runtime
