// Training a graph for some steps, by the interpreter or by compiled code in an arena, under any options of the
// pipeline: what is learned, by the model's names, so that runs of different graphs can be compared.
#ifndef SCRIMP_TEST_UNIT_EQUIVALENCE_TRAINING_H
#define SCRIMP_TEST_UNIT_EQUIVALENCE_TRAINING_H

#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Eval/HostTensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>

namespace mlir::scrimp {

/// Options of scrimp-train-pipeline ("micro-batches=2 remat=full"), so that a failure can be repeated by scrimp-opt.
std::unique_ptr<TrainPipelineOptions> parsePipeline(const std::string &text);

enum class Stage {
  Plain, ///< autodiff and optimizer alone, without any rewrite of the forward graph
  Graph, ///< the graph whose ops decide every bit
  Plan   ///< what is computed again, kernels, order and plan: all
};

/// Runs passes on a copy of `module`; null if one of them fails, `*why` then being what it says.
OwningOpRef<ModuleOp> runPasses(ModuleOp module, const std::string &options, Stage stage, std::string *why);
/// The rest of the way from Graph to Plan.
OwningOpRef<ModuleOp> runPlanPasses(ModuleOp graph, const std::string &options, std::string *why);

/// Losses and norms ("loss@1"), parameters and states after the last step, and those of an evaluation before the first
/// ("eval.loss", of a whole batch and of one that lacks its last sample).
using Learned = std::map<std::string, HostTensor>;

/// Values of inputs, parameters and scalars are functions of names, shapes and `seed`. In some seeds all labels of the
/// second part of a batch are ignored, or all there are. Fails where an op cannot be evaluated.
FailureOr<Learned> interpret(ModuleOp module, uint64_t seed, int steps);

/// The same of a program for `world` ranks, which share out `batch` samples: all of them in this process. What each has
/// a part of is put together. Fails too where ranks differ in what they all have.
FailureOr<Learned> interpretOnRanks(ModuleOp module, uint64_t seed, int steps, int64_t world, int64_t batch);

/// The same by the kernels that codegen makes and the runtime's commands, in an arena as large as the plan says; of a
/// program for several ranks in one for each, which are threads (ThreadWorld). Modifies `module`, which must be at
/// Stage::Plan. No evaluation.
FailureOr<Learned> execute(ModuleOp module, const std::string &options, uint64_t seed, int steps, int64_t batch);

/// How `found` differs from `expected`, empty if it does not. `bound`: of the distance, in units of max(1, largest
/// element); 0: to the bit. Only what both have is compared.
std::string compareLearned(const Learned &found, const Learned &expected, double bound);

} // namespace mlir::scrimp

#endif
