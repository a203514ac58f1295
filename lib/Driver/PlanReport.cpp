#include "scrimp/Driver/PlanReport.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Budget.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Planner/Report.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::scrimp;

static constexpr size_t kShownHolders = 12;

/// ROLE NAME [SHAPE] = ALIASES: REASON
static void printDecision(raw_ostream &os, StringRef role, StringRef name, RankedTensorType type, ArrayAttr aliases,
                          StringAttr reason) {
  os << llvm::left_justify(role, 10) << name << " [";
  llvm::interleave(type.getShape(), os, "x");
  os << "]";
  if (aliases) {
    os << " = ";
    llvm::interleave(
        aliases, os, [&](Attribute alias) { os << cast<StringAttr>(alias).getValue(); }, ", ");
  }
  if (reason)
    os << ": " << reason.getValue();
  os << "\n";
}

LogicalResult mlir::scrimp::printParameters(const CompileOptions &options, MLIRContext *context, raw_ostream &os) {
  CompileOptions listing = options;
  listing.import.mayTrainNothing = true;
  FailureOr<Compilation> compilation = loadModel(listing, context);
  if (failed(compilation))
    return failure();
  auto main = compilation->module->lookupSymbol<func::FuncOp>("main");
  int64_t trainable = 0;
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto param = main.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kParam);
    bool isState = bool(main.getArgAttr(index, ScrimpDialect::kState));
    if (!param && !isState)
      continue;
    auto type = cast<RankedTensorType>(argument.getType());
    StringRef role = isState ? "state" : param.getValue();
    if (role == "trainable")
      trainable += type.getNumElements();
    printDecision(os, role, main.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kName).getValue(), type,
                  main.getArgAttrOfType<ArrayAttr>(index, ScrimpDialect::kAliases),
                  main.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kReason));
  }
  // What is no argument of the graph: constants.
  if (auto buffers = (*compilation->module)->getAttrOfType<ArrayAttr>(ScrimpDialect::kBuffers))
    for (auto buffer : buffers.getAsRange<DictionaryAttr>())
      printDecision(os, "constant", buffer.getAs<StringAttr>("name").getValue(),
                    cast<RankedTensorType>(buffer.getAs<TypeAttr>("type").getValue()), nullptr,
                    buffer.getAs<StringAttr>("reason"));
  os << trainable << " trainable elements\n";
  return success();
}

LogicalResult mlir::scrimp::printCommands(const CompileOptions &options, MLIRContext *context, raw_ostream &os) {
  FailureOr<OwningOpRef<ModuleOp>> commands = buildCommands(options, context);
  if (failed(commands))
    return failure();
  commands->get().print(os);
  os << "\n";
  return success();
}

LogicalResult mlir::scrimp::printPareto(const CompileOptions &options, StringRef pareto, MLIRContext *context,
                                        raw_ostream &os) {
  FailureOr<Compilation> compilation = loadModel(options, context);
  if (failed(compilation))
    return failure();
  FailureOr<Device> device = findDevice(options, context);
  if (failed(device))
    return failure();
  CompileOptions family = options;
  family.rates = device->rates;
  if (failed(settlePrecision(family, compilation->module->lookupSymbol<func::FuncOp>("main"))))
    return failure();
  FailureOr<Family> candidates = planFamily(*compilation->module, family, *device);
  if (failed(candidates))
    return failure();
  printFamily(os, *candidates);
  return writeOutput(pareto, drawPareto(candidates->plans), context);
}

/// Bytes as a person reads them.
static std::string humanBytes(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (bytes < (1 << 20))
    os << llvm::format("%.1f KiB", bytes / 1024.0);
  else
    os << llvm::format("%.1f MiB", bytes / (1024.0 * 1024.0));
  return text;
}

/// What a rank sends, and how long a step takes with that.
static void printCommunication(raw_ostream &os, const llvm::json::Object &report, const CompileOptions &options) {
  int64_t sent = 0, between = 0;
  for (const llvm::json::Value &entry : *report.getArray("communication")) {
    const llvm::json::Object &traffic = *entry.getAsObject();
    int64_t bytes = *traffic.getInteger("bytes");
    os << (sent ? "                 " : "sends            ") << humanBytes(bytes) << " in "
       << *traffic.getInteger("count") << " " << *traffic.getString("collective");
    if (std::optional<double> seconds = traffic.getNumber("seconds"))
      os << llvm::format(", %.3g s", *seconds);
    os << "\n";
    sent += bytes;
    between += traffic.getInteger("between_nodes_bytes").value_or(0);
  }
  const llvm::json::Object *step = report.getObject("step");
  if (sent)
    os << "                 " << humanBytes(sent) << " a step and rank";
  if (int64_t nodes = step ? *step->getInteger("nodes") : 1; sent && nodes > 1)
    os << ", " << humanBytes(between) << " of it between " << nodes << " nodes of " << options.world / nodes
       << " ranks";
  if (sent)
    os << "\n";
  if (!step)
    return;
  auto number = [&](StringRef name) { return *step->getNumber(name); };
  double tokens = number("tokens_per_second");
  os << llvm::format("step             %.3g s", number("seconds")) << " on "
     << (options.device.empty() ? "cpu" : options.device);
  if (sent)
    os << llvm::format(": %.3g computing, %.3g waiting for others, %.3g exchanged meanwhile",
                       number("computing_seconds"), number("exposed_seconds"), number("overlapped_seconds"));
  os << llvm::format("; MFU %.1f%%, %.4g ", 100 * number("mfu"), tokens > 0 ? tokens : number("samples_per_second"))
     << (tokens > 0 ? "tokens/s\n" : "samples/s\n");
}

LogicalResult mlir::scrimp::printPlan(const CompileOptions &options, MLIRContext *context, raw_ostream &os) {
  FailureOr<Compilation> compilation = planModel(options, context);
  if (failed(compilation))
    return failure();
  FailureOr<SmallVector<::scrimp::runtime::BlasBlocks>> kernels = findBlasKernels(options, context);
  if (failed(kernels))
    return failure();
  FailureOr<llvm::json::Object> report = buildMemoryReport(*compilation->module, *kernels, compilation->rates);
  if (failed(report))
    return failure();
  int64_t arena = *report->getInteger("peak_bytes");
  os << "arena            " << arena << " bytes (" << humanBytes(arena) << "), lower bound "
     << *report->getInteger("lower_bound_bytes") << "\n";
  for (StringRef name : {"parameters", "optimizer_state", "inputs", "gradients", "activations", "workspace"})
    os << "  " << llvm::left_justify(name, 16)
       << llvm::right_justify(humanBytes(*report->getObject("segments")->getInteger(name)), 12) << "\n";
  const llvm::json::Object &beside = *report->getObject("beside_arena");
  os << "process          " << humanBytes(*report->getInteger("process_bytes")) << ", beside the arena code "
     << humanBytes(*beside.getInteger("code")) << ", the runtime's data " << humanBytes(*beside.getInteger("data"))
     << ", the BLAS library's buffers " << humanBytes(*beside.getInteger("library")) << "\n";
  // A module whose functions need nothing for a step alone has no peak.
  if (const llvm::json::Object &peak = *report->getObject("peak"); !peak.empty())
    os << "peak             at '" << *peak.getString("op") << "' of @" << *peak.getString("graph") << "\n";
  const llvm::json::Array &holders = *report->getArray("holders");
  auto shown = holders.begin() + std::min(holders.size(), kShownHolders);
  for (const llvm::json::Value &entry : llvm::make_range(holders.begin(), shown)) {
    const llvm::json::Object &holder = *entry.getAsObject();
    os << "  " << llvm::left_justify(*holder.getString("kind"), 16)
       << llvm::right_justify(humanBytes(*holder.getInteger("bytes")), 12) << "  " << *holder.getString("name") << "\n";
  }
  if (holders.size() > kShownHolders)
    os << "  and " << holders.size() - kShownHolders << " more\n";
  const llvm::json::Object &flops = *report->getObject("flops");
  os << "work             " << llvm::format("%.3f", *flops.getInteger("forward") / 1e9) << " GFLOP forward, "
     << llvm::format("%.3f", *flops.getInteger("backward") / 1e9) << " backward and update";
  if (int64_t repeated = *flops.getInteger("recompute"))
    os << ", " << llvm::format("%.3f", repeated / 1e9) << " computed again";
  os << "\n";
  printCommunication(os, *report, compilation->options);
  FailureOr<std::string> products = describeNarrowProducts(*compilation->module, options);
  if (failed(products))
    return failure();
  if (!products->empty())
    os << "16-bit products  " << *products << "\n";
  if (options.tf32)
    os << "fp32 products    operands rounded to TF32 (--tf32)\n";
  return success();
}
