// Training by compiled code, in this process: kernels, commands and the runtime, on as many ranks as the program is
// for.
#include "Training.h"
#include "TrainingData.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Codegen/LoadedKernels.h"
#include "scrimp/Codegen/Verify.h"
#include "scrimp/Driver/Program.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/runtime/Arena.h"
#include "scrimp/runtime/Executor.h"
#include "scrimp/runtime/TensorPart.h"
#include "scrimp/runtime/program_generated.h"

#include "llvm/Support/Error.h"

#include <thread>

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

static Type typeOf(::scrimp::program::DType dtype, MLIRContext *context) {
  using ::scrimp::program::DType;
  Builder builder(context);
  switch (dtype) {
  case DType::f32:
    return builder.getF32Type();
  case DType::f64:
    return builder.getF64Type();
  case DType::bf16:
    return builder.getBF16Type();
  case DType::f16:
    return builder.getF16Type();
  case DType::i1:
    return builder.getI1Type();
  case DType::i8:
    return builder.getI8Type();
  case DType::i32:
    return builder.getI32Type();
  case DType::i64:
    return builder.getI64Type();
  }
  llvm_unreachable("a DType");
}

template <typename Table> static RankedTensorType tensorTypeOf(const Table *table, MLIRContext *context) {
  SmallVector<int64_t> shape;
  if (table->shape())
    shape.assign(table->shape()->begin(), table->shape()->end());
  return RankedTensorType::get(shape, typeOf(table->dtype(), context));
}

/// The first values of what lives across steps, by name.
static Learned firstValues(func::FuncOp train, const Program &program) {
  Learned first;
  for (unsigned i = 0; i < train.getNumArguments(); ++i) {
    bool isState = bool(train.getArgAttr(i, ScrimpDialect::kState));
    auto add = [&](StringRef name, RankedTensorType type, Attribute init) {
      HostTensor &value = first[name.str()] = HostTensor(type);
      initialize(name, type.getShape(), init, value.floats());
      value.roundToType();
    };
    Type element = tensorType(train.getArgument(i)).getElementType();
    if (!isState)
      for (Attribute attribute : membersOf(train, i)) {
        auto member = cast<MemberAttr>(attribute);
        add(member.getName(), RankedTensorType::get(member.getShape().asArrayRef(), element), member.getInit());
      }
    else if (!train.getArgAttr(i, ScrimpDialect::kBucket))
      add(argumentName(train, i), tensorType(train.getArgument(i)), train.getArgAttr(i, ScrimpDialect::kInit));
  }
  for (const StoredTensor &stored : program.stored)
    if (stored.constant)
      first[stored.name] = HostTensor::get(stored.constant);
  return first;
}

namespace {
/// A rank of a program, in an arena of its own. What needs the context is done by one thread; run() needs none.
class CompiledRank : rt::BatchSource {
public:
  CompiledRank(const ::scrimp::program::Program *image, const scrimp_kernel *kernels, int rank, int workers)
      : image(image), kernels(kernels), rank(rank), pool(workers) {}

  rt::Status open(const Learned &first) {
    rt::Result<std::unique_ptr<rt::Device>> opened = rt::openDevice(image, pool);
    if (opened.failed())
      return opened.status();
    device = std::move(*opened);
    rt::Result<char *> allocated = device->allocate(image->arena_bytes(), image->alignment());
    if (allocated.failed())
      return allocated.status();
    arena = *allocated;
    rt::Status copied;
    for (const auto *tensor : rt::items(image->tensors()))
      if (auto found = first.find(tensor->name()->str()); found != first.end() && !copied.failed()) {
        rt::TensorPart part = rt::partOf(tensor, rank);
        std::vector<char> bytes = encodeTensor(found->second);
        size_t each = found->second.size() ? bytes.size() / found->second.size() : 0;
        copied = device->upload(arena + part.offset, bytes.data() + part.begin * each, part.count * each);
      }
    return copied;
  }

  /// Inputs and scalars of the next step.
  void addStep(func::FuncOp train, uint64_t seed, int64_t batch) {
    Share share = Share::of(batch, rank, image->world());
    StepData &data = steps.emplace_back();
    auto step = static_cast<int>(steps.size());
    llvm::StringMap<unsigned> inputs;
    for (unsigned i = 0; i < train.getNumArguments(); ++i)
      if (train.getArgAttr(i, ScrimpDialect::kInput))
        inputs[argumentName(train, i)] = i;
    for (const auto *input : rt::items(image->inputs())) {
      auto found = inputs.find(input->name()->str());
      if (found == inputs.end())
        continue;
      HostTensor value =
          takeShare(train, found->second, seed, step, batch, share, tensorTypeOf(input, train.getContext()));
      std::vector<char> bytes = encodeTensor(value);
      if (input->streamed())
        data.streamed[input->name()->str()] = std::move(bytes);
      else
        data.written.push_back({input->offset(), std::move(bytes)});
    }
    for (const auto *scalar : rt::items(image->scalars())) {
      HostTensor value = HostTensor::splat(RankedTensorType::get({}, typeOf(scalar->dtype(), train.getContext())),
                                           scalarValue(scalar->name()->str(), step, batch, share));
      value.roundToType();
      data.written.push_back({scalar->offset(), encodeTensor(value)});
    }
  }

  /// All steps; `outputs` has their outputs, one after the other.
  rt::Status run(rt::Communicator &communicator) {
    if (rt::Status status = communicator.reserve(rt::collectivesOf(image)); status.failed())
      return status;
    const ::scrimp::program::Graph *graph = rt::findGraph(image, "train");
    rt::Executor executor(image, graph, kernels, arena, *device, communicator, this);
    for (StepData &data : steps) {
      current = &data;
      for (auto &[offset, bytes] : data.written)
        if (rt::Status status = device->upload(arena + offset, bytes.data(), bytes.size()); status.failed())
          return status;
      auto check = executor.run();
      if (check.failed())
        return check.status();
      if (*check)
        return rt::Status::error("a step met a number that is not finite");
      for (const auto *output : rt::items(graph->outputs())) {
        rt::Result<double> value = executor.output(output);
        if (value.failed())
          return value.status();
        outputs.push_back(*value);
      }
    }
    communicator.finish();
    return rt::Status::ok();
  }

  /// Copies what the rank has of `tensor` to its place in `whole`.
  rt::Status read(const ::scrimp::program::Tensor *tensor, std::vector<char> &whole) {
    rt::TensorPart part = rt::partOf(tensor, rank);
    int64_t elements = rt::elementCount(tensor->shape());
    size_t each = elements ? whole.size() / elements : 0;
    return device->download(whole.data() + part.begin * each, arena + part.offset, part.count * each);
  }

  std::vector<double> outputs;

private:
  struct StepData {
    std::vector<std::pair<uint64_t, std::vector<char>>> written; // at these offsets
    std::map<std::string, std::vector<char>> streamed;
  };

  void read(const ::scrimp::program::Input *input, int64_t first, int64_t count, char *target) override {
    const std::vector<char> &whole = current->streamed.at(input->name()->str());
    size_t each = whole.size() / rt::placesPerRank(image);
    std::copy_n(whole.begin() + first * each, count * each, target);
  }

  const ::scrimp::program::Program *image;
  const scrimp_kernel *kernels;
  int rank;
  rt::ThreadPool pool;
  std::unique_ptr<rt::Device> device;
  char *arena = nullptr;
  std::vector<StepData> steps;
  const StepData *current = nullptr; // of the step under way
};
} // namespace

/// Runs all ranks, each in a thread, and tells what one of them said that failed.
static std::string runRanks(std::vector<std::unique_ptr<CompiledRank>> &ranks) {
  if (ranks.size() == 1) {
    rt::Status status = ranks[0]->run(*rt::makeSelfCommunicator());
    return status.failed() ? status.message() : "";
  }
  rt::ThreadWorld world(static_cast<int>(ranks.size()));
  std::vector<std::string> said(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] {
      std::unique_ptr<rt::Communicator> communicator = world.communicator(static_cast<int>(r));
      rt::Status status = ranks[r]->run(*communicator);
      if (!status.failed())
        return;
      said[r] = status.message();
      communicator->abort(said[r]);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : said)
    if (!text.empty())
      return text;
  return "";
}

FailureOr<Learned> mlir::scrimp::execute(ModuleOp module, const std::string &options, uint64_t seed, int steps,
                                         int64_t batch) {
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  auto workers = static_cast<int>(parsePipeline(options)->workers); // what scratch was planned for
  FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(module);
  if (failed(kernels))
    return failure();
  FailureOr<LoadedKernels> loaded = LoadedKernels::load(kernels->get(), CpuOptions());
  if (failed(loaded))
    return failure();
  ProgramOptions programOptions;
  programOptions.optimizer = parsePipeline(options)->optimizer;
  programOptions.world = parsePipeline(options)->world;
  programOptions.cpu = cantFail(describeProcessor(CpuOptions()));
  FailureOr<OwningOpRef<ModuleOp>> commands = lowerToCommands(module, programOptions);
  if (failed(commands))
    return failure();
  FailureOr<Program> program = buildProgram(commands->get(), {});
  if (failed(program))
    return failure();
  std::vector<scrimp_kernel> functions;
  for (const std::string &symbol : program->kernels)
    functions.push_back(loaded->lookup(symbol));
  auto verified = rt::verifyProgram({reinterpret_cast<const unsigned char *>(program->bytes.data()),
                                     program->bytes.size(),
                                     functions.data(),
                                     functions.size(),
                                     "",
                                     {}});
  if (verified.failed())
    return emitError(loc) << verified.status().message();
  const ::scrimp::program::Program *image = *verified;
  auto train = module.lookupSymbol<func::FuncOp>("train");
  Learned first = firstValues(train, *program);
  std::vector<std::unique_ptr<CompiledRank>> ranks;
  for (int rank = 0; rank < static_cast<int>(image->world()); ++rank) {
    auto &added = ranks.emplace_back(std::make_unique<CompiledRank>(image, functions.data(), rank, workers));
    if (rt::Status status = added->open(first); status.failed())
      return emitError(loc) << status.message();
    for (int step = 1; step <= steps; ++step)
      added->addStep(train, seed, batch);
  }
  if (std::string message = runRanks(ranks); !message.empty())
    return emitError(loc) << message;
  Learned learned;
  const ::scrimp::program::Graph *graph = rt::findGraph(image, "train");
  size_t next = 0;
  for (int step = 1; step <= steps; ++step)
    for (const auto *output : rt::items(graph->outputs())) {
      auto type = RankedTensorType::get({}, typeOf(output->dtype(), context));
      learned[output->name()->str() + "@" + std::to_string(step)] = HostTensor::splat(type, ranks[0]->outputs[next++]);
    }
  for (auto &rank : ranks)
    if (rank->outputs != ranks[0]->outputs)
      return emitError(loc) << "ranks are told different outputs";
  for (const auto *tensor : rt::items(image->tensors()))
    if (tensor->role() != ::scrimp::program::TensorRole::constant) {
      std::vector<char> bytes(rt::byteCount(tensor)), before;
      for (auto &rank : ranks) {
        if (rt::Status status = rank->read(tensor, bytes); status.failed())
          return emitError(loc) << status.message();
        if (tensor->part_elements() == 0 && rank != ranks[0] && bytes != before)
          return emitError(loc) << "ranks have different bits of '" << tensor->name()->str() << "'";
        before = bytes;
      }
      learned[tensor->name()->str()] = decodeTensor(tensorTypeOf(tensor, context), bytes);
    }
  return learned;
}
