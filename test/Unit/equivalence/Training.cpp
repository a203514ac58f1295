#include "Training.h"
#include "TrainingData.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

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
        arguments[i] = takeShare(function, i, seed, step, batch, share, arguments[i].getType());
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
