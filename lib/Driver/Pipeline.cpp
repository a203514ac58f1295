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
  buildGraphPipeline(manager, options);
  buildRematPipeline(manager, options);
  buildPlanPipeline(manager, options);
}

void mlir::scrimp::buildGraphPipeline(OpPassManager &manager, const TrainPipelineOptions &options) {
  manager.addPass(createAttachTarget({options.target, options.workers, options.tf32}));

  //===-- The forward graph ---------------------------------------------------------------------------------------===//
  // Mixed precision starts from f32: what a file of 16 bits rounds, and where, gives way to the rules of that pass.
  bool isMixed = options.precision == "bf16" || options.precision == "fp16", isScaled = options.precision == "fp16";
  if (options.precision == "fp64")
    manager.addPass(createConvertPrecision({"f64"}));
  else if (isMixed || options.precision == "fp32")
    manager.addPass(createConvertPrecision({"f32"}));
  // Raising needs the folded graph, before autodiff differentiates the pieces one by one.
  cleanUp(manager);
  manager.addPass(createRaiseIdioms());
  cleanUp(manager);

  //===-- The training graph --------------------------------------------------------------------------------------===//
  // Evaluation is cloned from the forward graph, so before the backward pass joins it.
  manager.addPass(createDeriveEval());
  manager.addPass(createMaskEval({options.world}));
  manager.addPass(createAutodiff({isScaled}));
  cleanUp(manager);

  //===-- Ranks ---------------------------------------------------------------------------------------------------===//
  // Of the whole graph, so that whatever follows works on what one rank has.
  if (options.world > 1) {
    PartitionOptions partition;
    partition.world = options.world;
    partition.batchStats = options.batchStats == "whole"             ? ""
                           : options.batchStats == "per-micro-batch" ? "per-rank"
                                                                     : options.batchStats.getValue();
    manager.addPass(createPartition(partition));
    cleanUp(manager);
  }

  //===-- Types ---------------------------------------------------------------------------------------------------===//
  // Behind autodiff, so that forward and backward are cast by the same rules, and gradients of parameters come out in
  // f32; before parameters are members of buckets, whose types are theirs.
  if (isMixed) {
    MixedPrecisionOptions mixed;
    mixed.to = isScaled ? "f16" : "bf16";
    mixed.keepFp32.assign(options.keepFp32.begin(), options.keepFp32.end());
    mixed.masters = options.master != "none";
    manager.addPass(createMixedPrecision(mixed));
    cleanUp(manager);
  }

  //===-- The update ----------------------------------------------------------------------------------------------===//
  OptimizerOptions optimizer;
  optimizer.kind = options.optimizer;
  optimizer.momentum = options.momentum;
  optimizer.nesterov = options.nesterov;
  optimizer.clipGradNorm = options.clipGradNorm;
  optimizer.waitForNorm = options.waitForNorm;
  optimizer.lossScale = isScaled;
  optimizer.states = options.moments == "bf16" ? "bf16" : "f32";
  optimizer.noDecay.assign(options.noDecay.begin(), options.noDecay.end());
  optimizer.blocks.assign(options.blocks.begin(), options.blocks.end());
  optimizer.world = options.world;
  optimizer.zero = options.zero;
  optimizer.sync = options.sync;
  optimizer.unshard.assign(options.unshard.begin(), options.unshard.end());
  optimizer.reduceDtype = options.reduceDtype == "bf16" ? "bf16" : options.reduceDtype == "fp16" ? "f16" : "f32";
  optimizer.layout = options.bucketLayout;
  optimizer.bucketBytes = options.bucketBytes;
  optimizer.persistBelow = options.persistBelow;
  manager.addPass(createOptimizer(optimizer));
  cleanUp(manager);

  //===-- Micro-batches -------------------------------------------------------------------------------------------===//
  // After the optimizer, so that norm, clipping and updates stand behind the loop; evaluation is split alike.
  if (options.microBatches > 1 || options.microBatchSize > 0) {
    SplitBatchOptions split;
    split.microBatches = options.microBatches;
    split.microBatchSize = options.microBatchSize;
    split.batchStats = options.batchStats == "per-micro-batch" ? "per-micro-batch" : "whole";
    split.accumulate = options.accumulate == "bf16" ? "bf16" : "f32";
    manager.addPass(createSplitBatch(split));
    cleanUp(manager);
  }

  if (!options.chunk.empty()) {
    ChunkOptions chunk;
    chunk.rules.assign(options.chunk.begin(), options.chunk.end());
    manager.addPass(createChunk(chunk));
    cleanUp(manager);
  }
  manager.addPass(createFormLinear());
  // Behind it, as biases become 16 bits there.
  manager.addPass(createCastBuckets());
  // Rematerialization is to know which moves cost nothing.
  manager.addPass(createArrangeMoves());
  // Bits are decided from here on: what follows only repeats, groups, orders and places.
}

RematerializeOptions mlir::scrimp::getRematOptions(const TrainPipelineOptions &options) {
  RematerializeOptions remat;
  remat.policy = options.remat;
  bool is16 = options.precision == "bf16" || options.precision == "fp16";
  remat.flopsPerSecond = options.precision == "fp64" ? options.rates.library64
                         : is16                      ? options.rates.library16
                                                     : options.rates.library32;
  remat.mapFlopsPerSecond = options.rates.kernelFlops;
  remat.bytesPerSecond = options.rates.bytes;
  remat.secondsPerLaunch = options.rates.launch;
  remat.blocks.assign(options.blocks.begin(), options.blocks.end());
  return remat;
}

void mlir::scrimp::buildRematPipeline(OpPassManager &manager, const TrainPipelineOptions &options) {
  manager.addPass(createRematerialize(getRematOptions(options)));
}

void mlir::scrimp::buildPlanPipeline(OpPassManager &manager, const TrainPipelineOptions &options) {
  manager.addPass(createExpandForTarget());
  manager.addPass(createFormKernels({options.fuse}));
  if (options.streamInputs)
    manager.addPass(createStreamInputs());
  // Fusion may have carried an op past the update of what it reads; keep-order undoes that and no more.
  ScheduleOptions schedule;
  schedule.keepOrder = !options.schedule;
  schedule.overlapBytes = options.overlapBytes;
  manager.addNestedPass<func::FuncOp>(createSchedule(schedule));
  // When it is known what may wait for what without a higher peak.
  if (options.fuse)
    manager.addNestedPass<func::FuncOp>(createJoinUpdates());
  manager.addPass(createPlanMemory());
  manager.addPass(createVerifyCollectives());
}

void mlir::scrimp::readOptions(TrainPipelineOptions &pipeline, const CompileOptions &options) {
  pipeline.precision = options.import.precision;
  pipeline.keepFp32 = ArrayRef(options.keepFp32);
  pipeline.master = options.master;
  pipeline.moments = options.moments;
  pipeline.optimizer = options.optimizer;
  pipeline.momentum = options.momentum;
  pipeline.nesterov = options.nesterov;
  pipeline.clipGradNorm = options.clipGradNorm;
  pipeline.waitForNorm = options.skipNonfiniteGrad;
  pipeline.noDecay = ArrayRef(options.noDecay);
  pipeline.microBatches = options.microBatches;
  pipeline.microBatchSize = options.microBatchSize;
  pipeline.batchStats = options.batchStats;
  pipeline.accumulate = options.accumulate;
  pipeline.world = options.world;
  pipeline.zero = options.zero.value_or(0);
  pipeline.sync = options.sync.empty() ? "auto" : options.sync;
  pipeline.unshard = ArrayRef(options.unshard);
  pipeline.reduceDtype = options.reduceDtype;
  pipeline.bucketLayout = options.layout;
  pipeline.bucketBytes = options.bucketBytes;
  pipeline.overlapBytes = options.overlapBytes;
  pipeline.persistBelow = options.persistBelow;
  pipeline.chunk = ArrayRef(options.chunk);
  pipeline.remat = options.remat.empty() ? "none" : options.remat;
  pipeline.rates = options.rates;
  pipeline.blocks = ArrayRef(options.blocks);
  pipeline.fuse = options.fuse;
  pipeline.schedule = options.schedule;
  pipeline.target = options.target;
  pipeline.tf32 = options.tf32;
  pipeline.streamInputs = options.streamInputs;
  pipeline.workers = workersOf(options);
}

void mlir::scrimp::buildPipeline(PassManager &manager, const CompileOptions &options) {
  TrainPipelineOptions pipeline;
  readOptions(pipeline, options);
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
  if (options.import.precision == "fp16") // of torch.amp.GradScaler
    defaults.insert(
        defaults.end(),
        {{"loss_scale", 65536.0}, {"scale_growth", 2.0}, {"scale_backoff", 0.5}, {"scale_interval", 2000.0}});
  return defaults;
}
