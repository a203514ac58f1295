#include "Training.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Codegen/LoadedKernels.h"
#include "scrimp/Codegen/Verify.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Program.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"
#include "scrimp/runtime/Arena.h"
#include "scrimp/runtime/Executor.h"
#include "scrimp/runtime/program_generated.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

//===-- Passes ---------------------------------------------------------------------------------------------------===//

std::unique_ptr<TrainPipelineOptions> mlir::scrimp::parsePipeline(const std::string &text) {
  return TrainPipelineOptions::createFromString(text);
}

static OwningOpRef<ModuleOp> run(ModuleOp module, std::string *why, function_ref<void(PassManager &)> build) {
  OwningOpRef<ModuleOp> copy = module.clone();
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (why && diagnostic.getSeverity() == DiagnosticSeverity::Error && why->empty())
      *why = diagnostic.str();
    return success();
  });
  PassManager manager(module.getContext());
  build(manager);
  return succeeded(manager.run(*copy)) ? std::move(copy) : nullptr;
}

/// Whether something is rounded to fewer bits. Gradients are then rounded too, each on its way: so how often a cast is
/// written decides what is learned.
static bool hasNarrowCasts(ModuleOp module) {
  bool found = false;
  module.walk([&](CastOp cast) {
    auto from = dyn_cast<FloatType>(tensorType(cast.getX()).getElementType());
    auto to = dyn_cast<FloatType>(tensorType(cast.getY()).getElementType());
    found |= from && to && to.getWidth() < from.getWidth();
  });
  return found;
}

OwningOpRef<ModuleOp> mlir::scrimp::runPasses(ModuleOp module, const std::string &options, Stage stage,
                                              std::string *why) {
  std::unique_ptr<TrainPipelineOptions> parsed = parsePipeline(options);
  return run(module, why, [&](PassManager &manager) {
    if (stage == Stage::Plan)
      return buildTrainPipeline(manager, *parsed);
    if (stage == Stage::Graph)
      return buildGraphPipeline(manager, *parsed);
    if (hasNarrowCasts(module)) {
      manager.addPass(createCanonicalizerPass());
      manager.addPass(createCSEPass());
    }
    manager.addPass(createDeriveEval());
    manager.addPass(createAutodiff());
    OptimizerOptions optimizer;
    optimizer.kind = parsed->optimizer;
    optimizer.momentum = parsed->momentum;
    optimizer.nesterov = parsed->nesterov;
    optimizer.clipGradNorm = parsed->clipGradNorm;
    optimizer.noDecay.assign(parsed->noDecay.begin(), parsed->noDecay.end());
    manager.addPass(createOptimizer(optimizer));
  });
}

OwningOpRef<ModuleOp> mlir::scrimp::runPlanPasses(ModuleOp graph, const std::string &options, std::string *why) {
  std::unique_ptr<TrainPipelineOptions> parsed = parsePipeline(options);
  return run(graph, why, [&](PassManager &manager) {
    buildRematPipeline(manager, *parsed);
    buildPlanPipeline(manager, *parsed);
  });
}

//===-- Values ---------------------------------------------------------------------------------------------------===//

static std::mt19937_64 randomFor(StringRef name, uint64_t seed) {
  return std::mt19937_64(llvm::xxh3_64bits(name) ^ (seed * 0x9E3779B97F4A7C15u));
}

static double draw(std::mt19937_64 &random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

/// The samples of a batch that a rank has; the first ranks have one more where they do not divide it.
struct Share {
  int64_t rank = 0, world = 1, begin = 0, count = 0;

  static Share of(int64_t batch, int64_t rank, int64_t world) {
    int64_t samples = batch / world, larger = batch % world;
    return {rank, world, rank * samples + std::min(rank, larger), samples + (rank < larger)};
  }
};

/// `valid`: samples of the batch, from the first on.
static double scalarValue(StringRef name, int step, int64_t valid, const Share &share = {}) {
  const double lr = .05, beta1 = .9, beta2 = .99, decay = .1, scale = 1024;
  return llvm::StringSwitch<double>(name)
      .Case("seed", 41)
      .Case("step", step)
      .Case("sample_base", static_cast<double>(share.begin))
      .Case("rank", static_cast<double>(share.rank))
      .Case("lr", lr)
      .Case("beta1", beta1)
      .Case("beta2", beta2)
      .Case("one_minus_beta1", 1 - beta1)
      .Case("one_minus_beta2", 1 - beta2)
      .Case("eps", 1e-3) // gradients that are exactly 0 are noise that Adam would amplify
      .Case("weight_decay", decay)
      .Case("decay_factor", 1 - lr * decay)
      .Case("step_size", lr / (1 - std::pow(beta1, step)))
      .Case("sqrt_bias_correction2", std::sqrt(1 - std::pow(beta2, step)))
      .Case("clip_norm", .5)
      .Case("momentum", .9)
      .Case("dampening", .3)
      .Case("one_minus_dampening", step == 1 ? 1 : .7)
      .Case("nesterov", 1)
      .Case("loss_scale", scale)
      .Case("unscale", 1 / scale)
      .Case("valid_samples", static_cast<double>(std::clamp<int64_t>(valid - share.begin, 0, share.count)))
      .Default(std::nan(""));
}

/// The first value of a parameter or state.
static void initialize(StringRef name, ArrayRef<int64_t> shape, Attribute init, MutableArrayRef<double> elements) {
  if (auto kind = dyn_cast_or_null<DictionaryAttr>(init))
    if (StringRef text = kind.getAs<StringAttr>("kind").getValue(); text == "ones" || text == "zeros") {
      llvm::fill(elements, text == "ones" ? 1.0 : 0.0);
      return;
    }
  std::mt19937_64 random = randomFor(name, 1);
  double bound = 1.5 / std::sqrt(std::max<int64_t>(1, shape.empty() ? 1 : productOf(shape) / shape.back()));
  for (double &element : elements)
    element = draw(random, -std::max(bound, .3), std::max(bound, .3));
}

static void fillInput(func::FuncOp function, unsigned i, uint64_t seed, int step, HostTensor &value) {
  std::mt19937_64 random = randomFor(argumentName(function, i), seed * 1000 + step);
  for (double &element : value.floats())
    element = draw(random, -2, 2);
  auto valid = function.getArgAttrOfType<DenseI64ArrayAttr>(i, "scrimp.valid");
  auto ignore = function.getArgAttrOfType<IntegerAttr>(i, "scrimp.ignore");
  int64_t size = value.size();
  for (auto [k, element] : llvm::enumerate(value.ints())) {
    element = valid ? valid[0] + static_cast<int64_t>(random() % static_cast<uint64_t>(valid[1] - valid[0])) : 0;
    bool isIgnored = draw(random, 0, 1) < .2 || seed % 7 == 3 || (seed % 3 == 1 && static_cast<int64_t>(k) * 2 >= size);
    if (ignore && isIgnored)
      element = ignore.getInt();
  }
}

/// The tensors of a bucket; none of another argument.
static ArrayRef<Attribute> membersOf(func::FuncOp function, unsigned argument) {
  auto bucket = function.getArgAttrOfType<BucketAttr>(argument, ScrimpDialect::kBucket);
  return bucket ? bucket.getMembers().getValue() : ArrayRef<Attribute>();
}

//===-- The interpreter ------------------------------------------------------------------------------------------===//

namespace {
/// A function on one rank, its arguments from step to step.
class Interpretation {
public:
  /// `batch`: samples of all ranks.
  Interpretation(func::FuncOp function, uint64_t seed, int64_t batch, int64_t rank, int64_t world)
      : function(function), seed(seed), batch(batch), share(Share::of(batch, rank, world)) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      HostTensor &value = arguments.emplace_back(tensorType(argument));
      if (function.getArgAttr(i, ScrimpDialect::kScalar) || function.getArgAttr(i, ScrimpDialect::kInput))
        continue;
      auto bucket = function.getArgAttrOfType<BucketAttr>(i, ScrimpDialect::kBucket);
      if (!bucket)
        initialize(argumentName(function, i), value.getShape(), function.getArgAttr(i, ScrimpDialect::kInit),
                   value.floats());
      // States of the optimizer begin at 0.
      else if (!function.getArgAttr(i, ScrimpDialect::kState)) {
        HostTensor whole(value.getType().clone({bucket.getElements()}));
        for (MemberAttr member : bucket.getTensors())
          initialize(member.getName(), member.getShape(), member.getInit(),
                     whole.floats().slice(member.getOffset(), member.getNumElements()));
        bool isPart = value.size() < whole.size();
        llvm::copy(whole.floats().slice(isPart ? rank * value.size() : 0, value.size()), value.floats().begin());
      }
      value.roundToType();
    }
  }

  LogicalResult step(int step, int64_t missing = 0) {
    for (unsigned i = 0; i < arguments.size(); ++i)
      if (auto dim = function.getArgAttrOfType<IntegerAttr>(i, ScrimpDialect::kInput))
        arguments[i] = takeShare(i, step, dim.getInt());
      else if (auto scalar = function.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar)) {
        arguments[i] =
            HostTensor::splat(arguments[i].getType(), scalarValue(scalar.getValue(), step, batch - missing, share));
        arguments[i].roundToType();
      }
    if (failed(evalFunction(function, arguments, results, Rounding::Typed)))
      return failure();
    for (unsigned i = 0; i < results.size(); ++i)
      if (auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates))
        arguments[updates.getInt()] = results[i];
    return success();
  }

  void addOutputs(const std::string &prefix, const std::string &suffix, Learned &learned) {
    for (unsigned i = 0; i < results.size(); ++i)
      if (auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
        learned[prefix + output.str() + suffix] = results[i];
  }

  /// What is stored, by `arguments` of all ranks.
  static void addStored(func::FuncOp function, ArrayRef<SmallVector<HostTensor>> ofRanks, Learned &learned) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto bucket = function.getArgAttrOfType<BucketAttr>(i, ScrimpDialect::kBucket);
      if (!bucket) {
        if (function.getArgAttr(i, ScrimpDialect::kState))
          learned[argumentName(function, i)] = ofRanks[0][i];
        continue;
      }
      std::vector<double> whole;
      for (const SmallVector<HostTensor> &arguments : ofRanks)
        if (static_cast<int64_t>(whole.size()) < bucket.getElements())
          llvm::append_range(whole, arguments[i].floats());
      for (MemberAttr member : bucket.getTensors()) {
        HostTensor part(ofRanks[0][i].getType().clone(member.getShape().asArrayRef()));
        llvm::copy(ArrayRef(whole).slice(member.getOffset(), part.size()), part.floats().begin());
        learned[member.getName().str()] = part;
      }
    }
  }

  SmallVector<HostTensor> arguments;

private:
  /// The rank's samples of an input; places that are too many hold the first of the batch.
  HostTensor takeShare(unsigned i, int step, int64_t dim) {
    RankedTensorType type = arguments[i].getType();
    SmallVector<int64_t> shape(type.getShape());
    if (dim >= 0)
      shape[dim] = batch;
    HostTensor whole(type.clone(shape)), part(type);
    fillInput(function, i, seed, step, whole);
    whole.roundToType();
    if (dim < 0 || share.world == 1)
      return whole;
    SmallVector<int64_t> strides = rowMajorStrides(shape);
    forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
      int64_t from = 0;
      for (auto [d, at] : llvm::enumerate(index)) {
        int64_t place = static_cast<int64_t>(d) != dim ? at : at < share.count ? share.begin + at : 0;
        from += place * strides[d];
      }
      if (part.isFloat())
        part.floats()[linear] = whole.floats()[from];
      else
        part.ints()[linear] = whole.ints()[from];
    });
    return part;
  }

  func::FuncOp function;
  uint64_t seed;
  int64_t batch;
  Share share;
  SmallVector<HostTensor> results;
};
} // namespace

/// Samples of a function's inputs; 1 without any.
static int64_t batchOf(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kInput);
        dim && dim.getInt() >= 0)
      return shapeOf(argument)[dim.getInt()];
  return 1;
}

FailureOr<Learned> mlir::scrimp::interpret(ModuleOp module, uint64_t seed, int steps) {
  return interpretOnRanks(module, seed, steps, 1, batchOf(module.lookupSymbol<func::FuncOp>("train")));
}

FailureOr<Learned> mlir::scrimp::interpretOnRanks(ModuleOp module, uint64_t seed, int steps, int64_t world,
                                                  int64_t batch) {
  auto eval = module.lookupSymbol<func::FuncOp>("eval"), train = module.lookupSymbol<func::FuncOp>("train");
  bool isMasked = false;
  for (unsigned i = 0; eval && i < eval.getNumArguments(); ++i)
    if (auto scalar = eval.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar))
      isMasked |= scalar.getValue() == "valid_samples";
  std::vector<Learned> outputs(world);
  std::vector<SmallVector<HostTensor>> stored(world);
  LogicalResult result = evalOnRanks(world, [&](int64_t rank) -> LogicalResult {
    for (int64_t missing = 0; eval && missing <= isMasked; ++missing) {
      Interpretation evaluation(eval, seed, batch, rank, world);
      if (failed(evaluation.step(1, missing)))
        return failure();
      evaluation.addOutputs("eval.", missing ? "@rest" : "@whole", outputs[rank]);
    }
    Interpretation training(train, seed, batch, rank, world);
    for (int step = 1; step <= steps; ++step) {
      if (failed(training.step(step)))
        return failure();
      training.addOutputs("", "@" + std::to_string(step), outputs[rank]);
    }
    stored[rank] = training.arguments;
    return success();
  });
  if (failed(result))
    return failure();
  for (int64_t rank = 1; rank < world; ++rank)
    if (std::string difference = compareLearned(outputs[rank], outputs[0], 0); !difference.empty())
      return emitError(module.getLoc()) << "rank " << rank << " is told something else: " << difference;
  Learned learned = outputs[0];
  Interpretation::addStored(train, stored, learned);
  return learned;
}

//===-- Compiled code --------------------------------------------------------------------------------------------===//

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

FailureOr<Learned> mlir::scrimp::execute(ModuleOp module, const std::string &options, uint64_t seed, int steps) {
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
  rt::ThreadPool pool(workers);
  rt::Result<std::unique_ptr<rt::Device>> device = rt::openDevice(image, pool);
  if (device.failed())
    return emitError(loc) << device.status().message();
  rt::Result<char *> arena = (*device)->allocate(image->arena_bytes(), image->alignment());
  if (arena.failed())
    return emitError(loc) << arena.status().message();
  rt::Status copied; // of the first copy that failed
  auto write = [&](uint64_t offset, ArrayRef<char> bytes) {
    rt::Status status = (*device)->upload(*arena + offset, bytes.data(), bytes.size());
    if (!copied.failed())
      copied = status;
  };
  // What lives across steps.
  auto train = module.lookupSymbol<func::FuncOp>("train");
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
  for (const StoredTensor &stored : program->stored)
    if (stored.constant)
      first[stored.name] = HostTensor::get(stored.constant);
  for (const auto *tensor : rt::items(image->tensors()))
    if (auto found = first.find(tensor->name()->str()); found != first.end())
      write(tensor->offset(), encodeTensor(found->second));
  const ::scrimp::program::Graph *graph = rt::findGraph(image, "train");
  std::unique_ptr<rt::Communicator> alone = rt::makeSelfCommunicator();
  /// Inputs of the step under way.
  struct Source : rt::BatchSource {
    llvm::StringMap<SmallVector<char, 0>> inputs;
    int64_t places = 1;
    void read(const ::scrimp::program::Input *input, int64_t first, int64_t count, char *target) override {
      ArrayRef<char> whole = inputs.find(input->name()->str())->second;
      size_t each = whole.size() / places;
      llvm::copy(whole.slice(first * each, count * each), target);
    }
  } source;
  source.places = rt::placesPerRank(image);
  rt::Executor executor(image, graph, functions.data(), *arena, **device, *alone, &source);
  Learned learned;
  for (int step = 1; step <= steps; ++step) {
    llvm::StringMap<unsigned> inputs;
    for (unsigned i = 0; i < train.getNumArguments(); ++i)
      if (train.getArgAttr(i, ScrimpDialect::kInput))
        inputs[argumentName(train, i)] = i;
    for (const auto *input : rt::items(image->inputs())) {
      HostTensor value(tensorTypeOf(input, context));
      auto found = inputs.find(input->name()->str());
      if (found == inputs.end())
        continue;
      fillInput(train, found->second, seed, step, value);
      value.roundToType();
      auto bytes = encodeTensor(value);
      if (input->streamed())
        source.inputs[input->name()->str()].assign(bytes.begin(), bytes.end());
      else
        write(input->offset(), bytes);
    }
    for (const auto *scalar : rt::items(image->scalars())) {
      HostTensor value = HostTensor::splat(RankedTensorType::get({}, typeOf(scalar->dtype(), context)),
                                           scalarValue(scalar->name()->str(), step, 0));
      value.roundToType();
      write(scalar->offset(), encodeTensor(value));
    }
    auto check = executor.run();
    if (check.failed())
      return emitError(loc) << check.status().message();
    if (*check)
      return emitError(loc) << "step " << step << " met a number that is not finite";
    for (const auto *output : rt::items(graph->outputs())) {
      auto type = RankedTensorType::get({}, typeOf(output->dtype(), context));
      rt::Result<double> value = executor.output(output);
      if (value.failed())
        return emitError(loc) << value.status().message();
      learned[output->name()->str() + "@" + std::to_string(step)] = HostTensor::splat(type, *value);
    }
  }
  for (const auto *tensor : rt::items(image->tensors()))
    if (tensor->role() != ::scrimp::program::TensorRole::constant) {
      std::vector<char> bytes(rt::byteCount(tensor));
      rt::Status status = (*device)->download(bytes.data(), *arena + tensor->offset(), bytes.size());
      if (status.failed() || copied.failed())
        return emitError(loc) << (status.failed() ? status : copied).message();
      learned[tensor->name()->str()] = decodeTensor(tensorTypeOf(tensor, context), bytes);
    }
  return learned;
}

//===-- Comparison -----------------------------------------------------------------------------------------------===//

std::string mlir::scrimp::compareLearned(const Learned &found, const Learned &expected, double bound) {
  for (const auto &[name, value] : expected) {
    auto other = found.find(name);
    if (other == found.end())
      continue;
    if (value.size() != other->second.size())
      return llvm::formatv("'{0}' has {1} elements, expected {2}", name, other->second.size(), value.size());
    double largest = 1;
    for (int64_t i = 0; i < value.size(); ++i)
      if (std::isfinite(value.asDouble(i)))
        largest = std::max(largest, std::abs(value.asDouble(i)));
    for (int64_t i = 0; i < value.size(); ++i) {
      double a = other->second.asDouble(i), b = value.asDouble(i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= bound * largest)
        continue;
      std::string text;
      llvm::raw_string_ostream(text) << "'" << name << "' has " << llvm::format("%.17g", a) << " at " << i
                                     << ", expected " << llvm::format("%.17g", b);
      return text;
    }
  }
  return "";
}
