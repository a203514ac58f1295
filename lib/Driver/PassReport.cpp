#include "scrimp/Driver/PassReport.h"

#include "scrimp/Analysis/StepTime.h"
#include "scrimp/Planner/Timeline.h"

#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace mlir::scrimp;
using llvm::json::Array;
using llvm::json::Object;

namespace {
/// An option, or some that belong together: what they are called, and what turns them on.
struct Step {
  StringRef pass;
  std::string flags;
  std::function<void(CompileOptions &options)> apply;
};
} // namespace

/// What makes `options` of `plain`, in the order of the pipeline; where it changes nothing, it is left out.
static std::vector<Step> findSteps(const CompileOptions &options, CompileOptions &plain) {
  std::vector<Step> steps;
  plain = options;
  plain.fuse = plain.schedule = false;
  if (options.fuse)
    steps.push_back({"kernels", "", [](CompileOptions &o) { o.fuse = true; }});
  if (options.schedule)
    steps.push_back({"schedule", "", [](CompileOptions &o) { o.schedule = true; }});
  bool isMixed = options.import.precision == "bf16" || options.import.precision == "fp16";
  if (isMixed || options.moments != "fp32") {
    plain.import.precision = isMixed ? "fp32" : options.import.precision;
    plain.keepFp32.clear();
    plain.master = plain.moments = "fp32";
    std::string flags = isMixed ? "--precision " + options.import.precision : "";
    flags += options.master != "fp32" ? " --master " + options.master : "";
    flags += options.moments != "fp32" ? " --moments " + options.moments : "";
    steps.push_back({"precision", StringRef(flags).trim().str(), [&options](CompileOptions &o) {
                       o.import.precision = options.import.precision;
                       std::tie(o.keepFp32, o.master, o.moments) =
                           std::tie(options.keepFp32, options.master, options.moments);
                     }});
  }
  if (options.microBatches > 1 || options.microBatchSize > 0) {
    plain.microBatches = plain.microBatchSize = 0;
    std::string flags = options.microBatches > 1 ? "--micro-batches " + std::to_string(options.microBatches)
                                                 : "--micro-batch-size " + std::to_string(options.microBatchSize);
    steps.push_back({"micro-batches", flags, [&options](CompileOptions &o) {
                       std::tie(o.microBatches, o.microBatchSize) =
                           std::tie(options.microBatches, options.microBatchSize);
                     }});
  }
  if (!options.chunk.empty()) {
    plain.chunk.clear();
    std::string flags;
    for (const std::string &rule : options.chunk)
      flags += (flags.empty() ? "--chunk '" : " --chunk '") + rule + "'";
    steps.push_back({"chunks", flags, [&options](CompileOptions &o) { o.chunk = options.chunk; }});
  }
  if (!options.remat.empty() && options.remat != "none") {
    plain.remat = "none";
    steps.push_back(
        {"rematerialization", "--remat " + options.remat, [&options](CompileOptions &o) { o.remat = options.remat; }});
  }
  return steps;
}

static FailureOr<OwningOpRef<ModuleOp>> plan(ModuleOp imported, const CompileOptions &options) {
  OwningOpRef<ModuleOp> module = imported.clone();
  PassManager manager(imported.getContext());
  buildPipeline(manager, options);
  if (failed(manager.run(*module)))
    return failure();
  return module;
}

LogicalResult mlir::scrimp::addPasses(Object &report, ModuleOp imported, const CompileOptions &options) {
  CompileOptions now;
  std::vector<Step> steps = findSteps(options, now);
  steps.insert(steps.begin(), {"plain", "", [](CompileOptions &) {}});
  std::vector<CompileOptions> optionsOf;
  for (const Step &step : steps) {
    step.apply(now);
    optionsOf.push_back(now);
  }
  std::vector<OwningOpRef<ModuleOp>> plans(steps.size());
  if (failed(failableParallelForEachN(imported.getContext(), 0, steps.size(), [&](size_t i) {
        FailureOr<OwningOpRef<ModuleOp>> planned = plan(imported, optionsOf[i]);
        if (succeeded(planned))
          plans[i] = std::move(*planned);
        return success(succeeded(planned));
      })))
    return failure();
  Array passes;
  Object timeline;
  int64_t lastBytes = 0;
  double lastSeconds = 0;
  for (auto [i, step] : llvm::enumerate(steps)) {
    OwningOpRef<ModuleOp> planned = std::move(plans[i]);
    auto train = planned->lookupSymbol<func::FuncOp>("train");
    int64_t bytes = (*planned)->getAttrOfType<DictionaryAttr>("scrimp.plan").getAs<IntegerAttr>("arena_bytes").getInt();
    double seconds = estimateStep(train, options.rates).getSeconds();
    passes.push_back(Object{{"pass", step.pass},
                            {"flags", step.flags},
                            {"arena_bytes", bytes},
                            {"seconds", seconds},
                            {"saved_bytes", i ? lastBytes - bytes : 0},
                            {"added_seconds", i ? seconds - lastSeconds : 0.0}});
    std::tie(lastBytes, lastSeconds) = std::tie(bytes, seconds);
    // Plain: what a compiler does for a program without flags, kernels and their order, belongs to both.
    bool isPlain = step.pass == "plain" || step.pass == "kernels" || step.pass == "schedule";
    if (!isPlain && i + 1 < steps.size())
      continue;
    FailureOr<Array> points = buildTimeline(train, options.rates);
    if (failed(points))
      return failure();
    if (i + 1 == steps.size())
      timeline["chosen"] = Array(*points);
    if (isPlain)
      timeline["plain"] = std::move(*points);
  }
  report["passes"] = std::move(passes);
  report["timeline"] = std::move(timeline);
  return success();
}
