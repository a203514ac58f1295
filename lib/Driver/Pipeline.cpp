// The pipeline, in the order in which a model goes through it. Read it with the design's section 2 at hand.
#include "scrimp/Driver/Compile.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Adds a registered pass by its textual form, so that the pipeline is what `scrimp-opt` would be told.
static LogicalResult add(PassManager &manager, const Twine &pass) {
  std::string text = pass.str();
  return parsePassPipeline(text, manager);
}

LogicalResult mlir::scrimp::buildPipeline(PassManager &manager, const CompileOptions &options) {
  auto flag = [](bool value) { return value ? "true" : "false"; };

  //===-- The forward graph ---------------------------------------------------------------------------------------===//
  if (options.import.precision == "fp64")
    if (failed(add(manager, "scrimp-convert-precision{to=f64}")))
      return failure();
  // Raising needs the folded graph, before autodiff differentiates the pieces one by one.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  if (failed(add(manager, "scrimp-raise-idioms")))
    return failure();
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());

  //===-- The training graph --------------------------------------------------------------------------------------===//
  // Evaluation is cloned from the forward graph, so before the backward pass joins it.
  if (failed(add(manager, "scrimp-derive-eval")) || failed(add(manager, "scrimp-mask-eval")) ||
      failed(add(manager, "scrimp-autodiff")))
    return failure();
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  std::string optimizer = "scrimp-optimizer{kind=" + options.optimizer;
  optimizer += (Twine(" momentum=") + flag(options.momentum)).str();
  optimizer += (Twine(" nesterov=") + flag(options.nesterov)).str();
  optimizer += (Twine(" clip-grad-norm=") + flag(options.clipGradNorm)).str();
  optimizer += (Twine(" wait-for-norm=") + flag(options.skipNonfiniteGrad)).str();
  if (!options.noDecay.empty())
    optimizer += " no-decay=" + llvm::join(options.noDecay, ",");
  if (failed(add(manager, optimizer + "}")))
    return failure();
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());

  //===-- The plan ------------------------------------------------------------------------------------------------===//
  if (failed(add(manager, "scrimp-widen-library-ops")))
    return failure();
  // Bits are decided from here on: what follows only groups, orders and places.
  if (failed(add(manager, Twine("scrimp-form-kernels{fuse=") + flag(options.fuse) + "}")))
    return failure();
  // Fusion may have carried an op past the update of what it reads; keep-order undoes that and no more.
  if (failed(add(manager, Twine("func.func(scrimp-schedule{keep-order=") + flag(!options.schedule) + "})")))
    return failure();
  return add(manager, "scrimp-plan-memory{workers=" + Twine(workersOf(options)) + "}");
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
