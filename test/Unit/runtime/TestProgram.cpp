// The program made by hand, and files for it.
#include "TestProgram.h"
#include "scrimp/runtime/Communicator.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace scrimp::runtime {

using namespace program;

namespace {

constexpr int64_t B = TestProgram::batch, D = TestProgram::features;

float predict(const float *x, const float *w, int64_t b) {
  float y = 0;
  for (int64_t d = 0; d < D; ++d)
    y += x[b * D + d] * w[d];
  return y;
}

// x, labels, w, loss, loss_sum, loss_count
void lossOf(char *const *buffers, int64_t samples) {
  auto *x = reinterpret_cast<const float *>(buffers[0]), *w = reinterpret_cast<const float *>(buffers[2]);
  auto *labels = reinterpret_cast<const int64_t *>(buffers[1]);
  float sum = 0, count = 0;
  for (int64_t b = 0; b < samples; ++b)
    if (labels[b] != -100) {
      float error = predict(x, w, b) - static_cast<float>(labels[b]);
      sum += error * error;
      count += 1;
    }
  *reinterpret_cast<float *>(buffers[3]) = sum / count;
  *reinterpret_cast<float *>(buffers[4]) = sum;
  *reinterpret_cast<float *>(buffers[5]) = count;
}

void lossKernel(char *const *buffers, int64_t, int64_t) { lossOf(buffers, B); }

// The same buffers, then valid_samples.
void evalKernel(char *const *buffers, int64_t, int64_t) {
  lossOf(buffers, *reinterpret_cast<const int64_t *>(buffers[6]));
}

// x, labels, w, grad, norm
void gradientKernel(char *const *buffers, int64_t, int64_t) {
  auto *x = reinterpret_cast<const float *>(buffers[0]), *w = reinterpret_cast<const float *>(buffers[2]);
  auto *labels = reinterpret_cast<const int64_t *>(buffers[1]);
  auto *grad = reinterpret_cast<float *>(buffers[3]);
  float squares = 0;
  for (int64_t d = 0; d < D; ++d) {
    grad[d] = 0;
    for (int64_t b = 0; b < B; ++b)
      grad[d] += 2 * (predict(x, w, b) - static_cast<float>(labels[b])) * x[b * D + d] / B;
    squares += grad[d] * grad[d];
  }
  *reinterpret_cast<float *>(buffers[4]) = std::sqrt(squares);
}

// w, grad, exp_avg, exp_avg_sq, then one scalar each
void adamKernel(char *const *buffers, int64_t begin, int64_t end) {
  auto buffer = [&](int i) { return reinterpret_cast<float *>(buffers[i]); };
  float *w = buffer(0), *grad = buffer(1), *m = buffer(2), *v = buffer(3);
  float decay = *buffer(4), step = *buffer(5), root = *buffer(6), beta2 = *buffer(7), oneMinus1 = *buffer(8),
        oneMinus2 = *buffer(9), eps = *buffer(10);
  for (int64_t i = begin; i < end; ++i) {
    w[i] *= decay;
    m[i] += oneMinus1 * (grad[i] - m[i]);
    v[i] = beta2 * v[i] + oneMinus2 * grad[i] * grad[i];
    w[i] -= step * (m[i] / (std::sqrt(v[i]) / root + eps));
  }
}

void countKernel(char *const *buffers, int64_t, int64_t) { ++*reinterpret_cast<int64_t *>(buffers[0]); }

// x, labels, w, loss_sum, loss_count, grad, valid_samples: sums over the samples of this rank
void sumsKernel(char *const *buffers, int64_t, int64_t) {
  auto *x = reinterpret_cast<const float *>(buffers[0]), *w = reinterpret_cast<const float *>(buffers[2]);
  auto *labels = reinterpret_cast<const int64_t *>(buffers[1]);
  auto *sum = reinterpret_cast<float *>(buffers[3]), *count = reinterpret_cast<float *>(buffers[4]);
  auto *grad = reinterpret_cast<float *>(buffers[5]);
  *sum = *count = 0;
  std::fill_n(grad, D, 0.0f);
  for (int64_t b = 0; b < *reinterpret_cast<const int64_t *>(buffers[6]); ++b) {
    float error = predict(x, w, b) - static_cast<float>(labels[b]);
    *sum += error * error;
    *count += 1;
    for (int64_t d = 0; d < D; ++d)
      grad[d] += 2 * error * x[b * D + d] / B;
  }
}

// loss_sum, loss_count, loss
void meanKernel(char *const *buffers, int64_t, int64_t) {
  *reinterpret_cast<float *>(buffers[2]) =
      *reinterpret_cast<const float *>(buffers[0]) / *reinterpret_cast<const float *>(buffers[1]);
}

// grad, norm
void normKernel(char *const *buffers, int64_t, int64_t) {
  float squares = 0;
  for (int64_t d = 0; d < D; ++d)
    squares += reinterpret_cast<const float *>(buffers[0])[d] * reinterpret_cast<const float *>(buffers[0])[d];
  *reinterpret_cast<float *>(buffers[1]) = std::sqrt(squares);
}

constexpr scrimp_kernel kernels[] = {lossKernel, gradientKernel, adamKernel, countKernel,
                                     evalKernel, sumsKernel,     meanKernel, normKernel};
constexpr std::pair<const char *, uint32_t> kernelTable[] = {{"loss", 6}, {"gradient", 5}, {"adam", 11}, {"count", 1},
                                                             {"eval", 7}, {"sums", 7},     {"mean", 3},  {"norm", 2}};

} // namespace

uint64_t TestProgram::place(const std::string &name, uint64_t bytes) {
  uint64_t offset = table.arena_bytes;
  offsets[name] = offset;
  table.arena_bytes += (bytes + 63) / 64 * 64;
  return offset;
}

RangeT TestProgram::range(const std::string &name, uint64_t bytes) const { return makeRange(offsets.at(name), bytes); }

RangeT makeRange(uint64_t offset, uint64_t bytes, std::vector<int64_t> strides) {
  RangeT range;
  range.offset = offset;
  range.bytes = bytes;
  range.strides = std::move(strides);
  return range;
}

std::vector<std::unique_ptr<RangeT>> makeRanges(const std::vector<RangeT> &ranges) {
  std::vector<std::unique_ptr<RangeT>> result;
  for (const RangeT &range : ranges)
    result.push_back(std::make_unique<RangeT>(range));
  return result;
}

void TestProgram::addTensor(const char *name, std::vector<int64_t> shape, TensorRole role, InitKind init, double a,
                            double b, DType dtype) {
  auto tensor = std::make_unique<TensorT>();
  int64_t bytes = elementBytes(dtype);
  for (int64_t extent : shape)
    bytes *= extent;
  tensor->name = name;
  tensor->dtype = dtype;
  tensor->shape = std::move(shape);
  tensor->offset = place(name, static_cast<uint64_t>(bytes));
  tensor->role = role;
  tensor->init = init;
  tensor->a = a;
  tensor->b = b;
  table.tensors.push_back(std::move(tensor));
}

void TestProgram::addScalar(const char *name, DType dtype) {
  auto scalar = std::make_unique<ScalarT>();
  scalar->name = name;
  scalar->dtype = dtype;
  scalar->offset = place(name, 8);
  table.scalars.push_back(std::move(scalar));
}

void TestProgram::addLaunch(GraphT &graph, uint32_t kernel, std::vector<RangeT> buffers, int64_t units) {
  LaunchT launch;
  launch.kernel = kernel;
  launch.buffers = makeRanges(buffers);
  launch.units = units;
  launch.grain = 1;
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(launch));
  graph.commands.push_back(std::move(command));
}

TestProgram::TestProgram(int ranks) : ranks(ranks) {
  int64_t places = (B + ranks - 1) / ranks;
  char pattern[] = "/tmp/scrimp-runtime-XXXXXX";
  folder = mkdtemp(pattern);
  table.program_version = programVersion;
  table.model = "linear";
  table.optimizer = "adamw";
  table.fingerprint = 0x1234;
  table.alignment = 64;
  table.batch = B;
  table.workers = 4;
  table.world = static_cast<uint32_t>(ranks);

  addTensor("w", {D}, TensorRole::parameter, InitKind::normal, 0, 1);
  table.tensors.back()->aliases = {"tied.w"};
  addTensor("frozen", {3}, TensorRole::frozen_parameter, InitKind::uniform, -1, 1);
  addTensor("empty", {0, 5}, TensorRole::parameter, InitKind::zeros);
  addTensor("steps_seen", {}, TensorRole::buffer, InitKind::zeros, 0, 0, DType::i64);
  addTensor("flag", {3}, TensorRole::buffer, InitKind::ones, 0, 0, DType::i1);
  addTensor("constant", {2}, TensorRole::constant, InitKind::constant, 3);
  addTensor("w.exp_avg", {D}, TensorRole::optimizer_state, InitKind::zeros);
  addTensor("w.exp_avg_sq", {D}, TensorRole::optimizer_state, InitKind::zeros);
  for (const char *name : {"decay_factor", "step_size", "sqrt_bias_correction2", "beta2", "one_minus_beta1",
                           "one_minus_beta2", "eps", "lr"})
    addScalar(name);
  addScalar("seed", DType::i64);
  addScalar("step", DType::i64);
  addScalar("valid_samples", DType::i64);

  auto input = std::make_unique<InputT>();
  input->name = "x";
  input->dtype = DType::f32;
  input->shape = {places, D};
  input->offset = place("x", static_cast<uint64_t>(places * D * 4));
  table.inputs.push_back(std::move(input));
  input = std::make_unique<InputT>();
  input->name = "labels";
  input->dtype = DType::i64;
  input->shape = {places};
  input->offset = place("labels", static_cast<uint64_t>(places * 8));
  input->valid_end = 10;
  input->has_ignore = true;
  input->ignore = -100;
  table.inputs.push_back(std::move(input));
  for (const char *name : {"loss", "loss_sum", "loss_count", "grad_norm"})
    place(name, 4);
  place("grad", D * 4);
  place("grad_copy", D * 4);

  for (auto &[name, value] :
       {std::pair("lr", 0.05), {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}}) {
    auto parameter = std::make_unique<HyperparameterT>();
    parameter->name = name;
    parameter->value = value;
    table.hyperparameters.push_back(std::move(parameter));
  }
  for (auto &[symbol, buffers] : kernelTable) {
    auto kernel = std::make_unique<KernelT>();
    kernel->symbol = symbol;
    kernel->buffers = buffers;
    table.kernels.push_back(std::move(kernel));
  }
  auto segment = std::make_unique<SegmentT>();
  segment->bytes = table.arena_bytes;
  table.segments.push_back(std::move(segment));

  ranks > 1 ? addTrainOfRanks() : addTrain();
  addEval();
}

void TestProgram::addOutput(GraphT &graph, const char *name, bool partial) {
  auto output = std::make_unique<OutputT>();
  output->name = name;
  output->offset = offsets.at(name);
  output->partial = partial;
  graph.outputs.push_back(std::move(output));
}

void TestProgram::addCheck(GraphT &graph, CheckKind kind, const char *name, const char *at, bool agreed) {
  CheckFiniteT check;
  check.kind = kind;
  check.name = name;
  check.offset = offsets.at(at);
  check.agreed = agreed;
  add(graph, std::move(check));
}

/// AdamW with this gradient, and the count of steps.
void TestProgram::addUpdate(GraphT &graph, const char *gradient) {
  std::vector<RangeT> adam = {range("w", D * 4), range(gradient, D * 4), range("w.exp_avg", D * 4),
                              range("w.exp_avg_sq", D * 4)};
  for (const char *name :
       {"decay_factor", "step_size", "sqrt_bias_correction2", "beta2", "one_minus_beta1", "one_minus_beta2", "eps"})
    adam.push_back(range(name, 4));
  addLaunch(graph, 2, adam, D);
  addLaunch(graph, 3, {range("steps_seen", 8)}, 1);
  addOutput(graph, "loss");
  addOutput(graph, "grad_norm");
}

void TestProgram::addTrain() {
  auto train = std::make_unique<GraphT>();
  train->name = "train";
  train->updates_wait = true;
  addLaunch(*train, 0,
            {range("x", B * D * 4), range("labels", B * 8), range("w", D * 4), range("loss", 4), range("loss_sum", 4),
             range("loss_count", 4)},
            1);
  addCheck(*train, CheckKind::loss, "loss", "loss", false);
  addLaunch(
      *train, 1,
      {range("x", B * D * 4), range("labels", B * 8), range("w", D * 4), range("grad", D * 4), range("grad_norm", 4)},
      1);
  addCheck(*train, CheckKind::gradient, "w", "grad_norm", false);
  CopyT copy;
  copy.source = std::make_unique<RangeT>(range("grad", D * 4));
  copy.target = std::make_unique<RangeT>(range("grad_copy", D * 4));
  add(*train, std::move(copy));
  addUpdate(*train, "grad_copy");
  table.graphs.push_back(std::move(train));
}

void TestProgram::addAllReduce(GraphT &graph, const char *name, uint64_t bytes, uint32_t event) {
  CollectiveT body;
  body.source = std::make_unique<RangeT>(range(name, bytes));
  body.target = std::make_unique<RangeT>(range(name, bytes));
  body.event = event;
  body.location = name;
  add(graph, std::move(body));
}

void TestProgram::addTrainOfRanks() {
  auto train = std::make_unique<GraphT>();
  train->name = "train";
  train->updates_wait = true;
  auto waitFor = [&](uint32_t event) {
    WaitT wait;
    wait.event = event;
    add(*train, wait);
  };
  addLaunch(*train, 5,
            {range("x", 4), range("labels", 8), range("w", D * 4), range("loss_sum", 4), range("loss_count", 4),
             range("grad", D * 4), range("valid_samples", 8)},
            1);
  addAllReduce(*train, "grad", D * 4, 0);
  addAllReduce(*train, "loss_sum", 4, 1);
  addAllReduce(*train, "loss_count", 4, 2);
  waitFor(2);
  waitFor(1);
  addLaunch(*train, 6, {range("loss_sum", 4), range("loss_count", 4), range("loss", 4)}, 1);
  addCheck(*train, CheckKind::loss, "loss", "loss", true);
  waitFor(0);
  addLaunch(*train, 7, {range("grad", D * 4), range("grad_norm", 4)}, 1);
  addCheck(*train, CheckKind::gradient, "w", "grad_norm", false);
  addUpdate(*train, "grad");
  table.graphs.push_back(std::move(train));
}

void TestProgram::shareOutStates() {
  auto part = static_cast<uint64_t>(D / ranks);
  for (auto &tensor : table.tensors)
    if (tensor->role == TensorRole::optimizer_state)
      tensor->part_elements = part;
  auto &commands = table.graphs[0]->commands;
  auto isUpdate = [](auto &command) { return command->body.AsLaunch() && command->body.AsLaunch()->kernel == 2; };
  auto update = std::find_if(commands.begin(), commands.end(), isUpdate);
  LaunchT &launch = *(*update)->body.AsLaunch();
  launch.units = D / ranks;
  for (size_t i = 0; i < 4; ++i) // w, its gradient and its states
    launch.buffers[i]->bytes = part * 4;
  for (size_t i = 0; i < 2; ++i)
    launch.buffers[i]->rank_stride = static_cast<int64_t>(part * 4);
  CollectiveT gather;
  gather.kind = CollectiveKind::all_gather;
  gather.source = std::make_unique<RangeT>(*launch.buffers[0]);
  gather.target = std::make_unique<RangeT>(range("w", D * 4));
  auto start = std::make_unique<CommandT>(), wait = std::make_unique<CommandT>();
  start->body.Set(std::move(gather));
  wait->body.Set(WaitT());
  update = commands.insert(update + 1, std::move(start));
  commands.insert(update + 1, std::move(wait));
}

void TestProgram::addEval() {
  auto eval = std::make_unique<GraphT>();
  eval->name = "eval";
  addLaunch(*eval, 4,
            {range("x", 4), range("labels", 8), range("w", D * 4), range("loss", 4), range("loss_sum", 4),
             range("loss_count", 4), range("valid_samples", 8)},
            1);
  if (ranks == 1)
    addOutput(*eval, "loss");
  for (const char *name : {"loss_sum", "loss_count"})
    addOutput(*eval, name, ranks > 1);
  table.graphs.push_back(std::move(eval));
}

TestProgram::~TestProgram() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

ProgramImage TestProgram::image() {
  flatbuffers::FlatBufferBuilder builder;
  FinishProgramBuffer(builder, Program::Pack(builder, &table));
  packed.assign((builder.GetSize() + 7) / 8, 0);
  memcpy(packed.data(), builder.GetBufferPointer(), builder.GetSize());
  return {reinterpret_cast<const unsigned char *>(packed.data()),
          builder.GetSize(),
          kernels,
          std::size(kernels),
          weightsPath.c_str(),
          hooks,
          nullptr};
}

std::vector<std::string> TestProgram::words(const std::string &arguments) const {
  std::string text = "build/train " + arguments;
  for (size_t at; (at = text.find("{}")) != std::string::npos;)
    text.replace(at, 2, folder);
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

static int runWords(std::vector<std::string> words, const ProgramImage &image) {
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  return runMain(static_cast<int>(words.size()), argv.data(), image);
}

int TestProgram::run(const std::string &arguments) {
  ProgramImage current = image();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int status = runWords(words(arguments), current);
  err = testing::internal::GetCapturedStderr();
  out = testing::internal::GetCapturedStdout();
  return status;
}

std::vector<int> TestProgram::runRanks(const std::string &arguments, const std::vector<std::string> &changes) {
  ProgramImage current = image();
  std::vector<int> statuses(static_cast<size_t>(ranks));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ThreadWorld world(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < statuses.size(); ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = world.communicator(static_cast<int>(rank));
      ProgramImage mine = current;
      mine.communicator = communicator.get();
      statuses[rank] = runWords(words(arguments + (rank < changes.size() ? " " + changes[rank] : "")), mine);
    });
  for (std::thread &thread : threads)
    thread.join();
  err = testing::internal::GetCapturedStderr();
  out = testing::internal::GetCapturedStdout();
  return statuses;
}

void TestProgram::writeData(int64_t samples, const std::string &suffix) {
  std::vector<float> x;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) {
    for (int64_t d = 0; d < D; ++d)
      x.push_back(std::sin(static_cast<float>(i * D + d)));
    labels.push_back(i * 7 % 10);
  }
  writeNpy(path("x" + suffix + ".npy"), "<f4", {samples, D}, x.data(), x.size() * 4);
  writeNpy(path("labels" + suffix + ".npy"), "<i8", {samples}, labels.data(), labels.size() * 8);
}

void writeNpy(const std::string &path, const std::string &descr, const std::vector<int64_t> &shape, const void *data,
              uint64_t bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : shape)
    header += std::to_string(extent) + ", ";
  header += "), }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
                     static_cast<char>(header.size() >> 8) + header;
  writeBytes(path, text + std::string(static_cast<const char *>(data), bytes));
}

void writeBytes(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace scrimp::runtime
