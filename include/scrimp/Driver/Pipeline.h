// The graph passes in their order, as scrimp-compile runs them and scrimp-opt --scrimp-train-pipeline too.
#ifndef SCRIMP_DRIVER_PIPELINE_H
#define SCRIMP_DRIVER_PIPELINE_H

#include "scrimp/Analysis/Cost.h"

#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace mlir::scrimp {
struct CompileOptions;
struct RematerializeOptions;

struct TrainPipelineOptions : PassPipelineOptions<TrainPipelineOptions> {
  DeviceRates rates; // has no text
  Option<std::string> precision{*this, "precision",
                                llvm::cl::desc("fp64 or fp32 (all of the model), bf16 or fp16 (activations); "
                                               "otherwise as the model says"),
                                llvm::cl::init("")};
  ListOption<std::string> keepFp32{*this, "keep-fp32",
                                   llvm::cl::desc("bf16, fp16: layers, modules or parameters that stay in f32")};
  Option<std::string> master{*this, "master", llvm::cl::desc("bf16, fp16: parameters are kept in fp32, or none"),
                             llvm::cl::init("fp32")};
  Option<std::string> moments{*this, "moments", llvm::cl::desc("States of the optimizer: fp32 or bf16"),
                              llvm::cl::init("fp32")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::desc("adamw, adam or sgd"), llvm::cl::init("adamw")};
  Option<bool> momentum{*this, "momentum", llvm::cl::desc("sgd: keep a momentum buffer"), llvm::cl::init(false)};
  Option<bool> nesterov{*this, "nesterov", llvm::cl::desc("sgd: Nesterov momentum"), llvm::cl::init(false)};
  Option<bool> clipGradNorm{*this, "clip-grad-norm", llvm::cl::desc("Clip by the global norm"), llvm::cl::init(false)};
  Option<bool> waitForNorm{*this, "wait-for-norm", llvm::cl::desc("No update comes before the norm of all gradients"),
                           llvm::cl::init(false)};
  ListOption<std::string> noDecay{*this, "no-decay",
                                  llvm::cl::desc("Parameters without weight decay: patterns, or 1d")};
  Option<int64_t> microBatches{*this, "micro-batches", llvm::cl::desc("Parts of the batch that make an update"),
                               llvm::cl::init(0)};
  Option<int64_t> microBatchSize{*this, "micro-batch-size", llvm::cl::desc("The most samples of a part"),
                                 llvm::cl::init(0)};
  Option<std::string> accumulate{*this, "accumulate", llvm::cl::desc("Accumulators of micro-batches: fp32 or bf16"),
                                 llvm::cl::init("fp32")};
  Option<std::string> batchStats{*this, "batch-stats", llvm::cl::desc("whole, per-micro-batch, global or per-rank"),
                                 llvm::cl::init("whole")};
  Option<int64_t> world{*this, "world", llvm::cl::desc("Ranks"), llvm::cl::init(1)};
  Option<int64_t> zero{*this, "zero", llvm::cl::desc("Stage of ZeRO, 0 to 3"), llvm::cl::init(0)};
  Option<std::string> sync{*this, "sync", llvm::cl::desc("auto, per-step or per-micro-batch"), llvm::cl::init("auto")};
  ListOption<std::string> unshard{*this, "unshard", llvm::cl::desc("Stage 3: blocks that are gathered once: patterns")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype", llvm::cl::desc("What gradients are sent as: fp32, bf16 or fp16"), llvm::cl::init("fp32")};
  Option<int64_t> overlapBytes{
      *this, "overlap-bytes", llvm::cl::desc("Bytes by which earlier exchanges may raise the peak"), llvm::cl::init(0)};
  Option<std::string> bucketLayout{*this, "bucket-layout", llvm::cl::desc("elements, or whole matrices"),
                                   llvm::cl::init("elements")};
  Option<int64_t> bucketBytes{*this, "bucket-bytes", llvm::cl::desc("Most bytes of a bucket; 0: a block's"),
                              llvm::cl::init(0)};
  Option<int64_t> persistBelow{*this, "persist-below", llvm::cl::desc("Elements of what is not shared out"),
                               llvm::cl::init(0)};
  ListOption<std::string> chunk{*this, "chunk", llvm::cl::desc("Rules of scrimp-chunk")};
  Option<std::string> remat{*this, "remat", llvm::cl::desc("The policy of scrimp-rematerialize"),
                            llvm::cl::init("none")};
  ListOption<std::string> blocks{*this, "block", llvm::cl::desc("Module scopes that are blocks: patterns")};
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("Let ops share kernels"), llvm::cl::init(true)};
  Option<bool> streamInputs{*this, "stream-inputs", llvm::cl::desc("Fill what only loops read piece by piece"),
                            llvm::cl::init(true)};
  Option<bool> schedule{*this, "schedule", llvm::cl::desc("Reorder for a lower peak"), llvm::cl::init(true)};
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu, emulated or cuda"), llvm::cl::init("cpu")};
  Option<bool> tf32{*this, "tf32", llvm::cl::desc("A device: products of f32 round their operands to TF32"),
                    llvm::cl::init(false)};
  Option<int64_t> workers{*this, "workers", llvm::cl::desc("The most threads that will run the program"),
                          llvm::cl::init(1)};
};

/// Adds the passes from the imported module to the plan (design, section 2): the three below.
void buildTrainPipeline(OpPassManager &manager, const TrainPipelineOptions &options);

/// From the imported module to the graph whose ops decide every bit.
void buildGraphPipeline(OpPassManager &manager, const TrainPipelineOptions &options);
/// What is computed again.
void buildRematPipeline(OpPassManager &manager, const TrainPipelineOptions &options);
/// Kernels, their order, and the plan.
void buildPlanPipeline(OpPassManager &manager, const TrainPipelineOptions &options);

/// What scrimp-rematerialize is given.
RematerializeOptions getRematOptions(const TrainPipelineOptions &options);

/// What the command line says of the passes.
void readOptions(TrainPipelineOptions &pipeline, const CompileOptions &options);

/// Makes it known as --scrimp-train-pipeline.
void registerTrainPipeline();

} // namespace mlir::scrimp

#endif
