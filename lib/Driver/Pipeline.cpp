// The pipeline, in the order in which a model goes through it. Read it with the design's section 2 at hand.
#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Driver/Compile.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Adds what cleans up after a pass that rewrites the graph.
static void cleanUp(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void mlir::scrimp::buildTrainPipeline(OpPassManager &manager, const TrainPipelineOptions &options) {
  //===-- The forward graph ---------------------------------------------------------------------------------------===//
  if (options.fp64)
    manager.addPass(createConvertPrecision({"f64"}));
  // Raising needs the folded graph, before autodiff differentiates the pieces one by one.
  cleanUp(manager);
  manager.addPass(createRaiseIdioms());
  cleanUp(manager);

  //===-- The training graph --------------------------------------------------------------------------------------===//
  // Evaluation is cloned from the forward graph, so before the backward pass joins it.
  manager.addPass(createDeriveEval());
  manager.addPass(createMaskEval());
  manager.addPass(createAutodiff());
  cleanUp(manager);
  OptimizerOptions optimizer;
  optimizer.kind = options.optimizer;
  optimizer.momentum = options.momentum;
  optimizer.nesterov = options.nesterov;
  optimizer.clipGradNorm = options.clipGradNorm;
  optimizer.waitForNorm = options.waitForNorm;
  optimizer.noDecay.assign(options.noDecay.begin(), options.noDecay.end());
  manager.addPass(createOptimizer(optimizer));
  cleanUp(manager);

  //===-- Micro-batches -------------------------------------------------------------------------------------------===//
  // After the optimizer, so that norm, clipping and updates stand behind the loop; evaluation is split alike.
  if (options.microBatches > 1 || options.microBatchSize > 0) {
    SplitBatchOptions split;
    split.microBatches = options.microBatches;
    split.microBatchSize = options.microBatchSize;
    split.batchStats = options.batchStats;
    manager.addPass(createSplitBatch(split));
    cleanUp(manager);
  }

  manager.addPass(createFormLinear());

  //===-- The plan ------------------------------------------------------------------------------------------------===//
  manager.addPass(createWidenLibraryOps());
  // Bits are decided from here on: what follows only groups, orders and places.
  manager.addPass(createFormKernels({options.fuse}));
  // Fusion may have carried an op past the update of what it reads; keep-order undoes that and no more.
  ScheduleOptions schedule;
  schedule.keepOrder = !options.schedule;
  schedule.workers = options.workers;
  manager.addNestedPass<func::FuncOp>(createSchedule(schedule));
  PlanMemoryOptions plan;
  plan.workers = options.workers;
  manager.addPass(createPlanMemory(plan));
}

void mlir::scrimp::buildPipeline(PassManager &manager, const CompileOptions &options) {
  TrainPipelineOptions pipeline;
  pipeline.fp64 = options.import.precision == "fp64";
  pipeline.optimizer = options.optimizer;
  pipeline.momentum = options.momentum;
  pipeline.nesterov = options.nesterov;
  pipeline.clipGradNorm = options.clipGradNorm;
  pipeline.waitForNorm = options.skipNonfiniteGrad;
  pipeline.noDecay = ArrayRef(options.noDecay);
  pipeline.microBatches = options.microBatches;
  pipeline.microBatchSize = options.microBatchSize;
  pipeline.batchStats = options.batchStats;
  pipeline.fuse = options.fuse;
  pipeline.schedule = options.schedule;
  pipeline.workers = workersOf(options);
  buildTrainPipeline(manager, pipeline);
}

void mlir::scrimp::registerTrainPipeline() {
  PassPipelineRegistration<TrainPipelineOptions>(
      "scrimp-train-pipeline",
      "From an imported model to the plan of its training: what scrimp-compile --emit mlir does", buildTrainPipeline);
}

std::vector<std::pair<std::string, double>> mlir::scrimp::hyperparameterDefaults(const CompileOptions &options) {
  std::vector<std::pair<std::string, double>> defaults{{"lr", 1e-3}};
  if (options.optimizer == "sgd") {
    if (options.momentum) {
      defaults.emplace_back("momentum", 0.9);
      if (!options.nesterov) // PyTorch's Nesterov momentum has none
        defaults.emplace_back("dampening", 0.0);
    }
    defaults.emplace_back("weight_decay", 0.0);
  } else {
    defaults.insert(defaults.end(), {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}});
    defaults.emplace_back("weight_decay", options.optimizer == "adamw" ? 0.01 : 0.0);
  }
  if (options.clipGradNorm)
    defaults.emplace_back("clip_norm", 1.0);
  return defaults;
}
