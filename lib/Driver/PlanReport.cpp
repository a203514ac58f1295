#include "scrimp/Driver/PlanReport.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Planner/Report.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::scrimp;

static constexpr size_t kShownHolders = 12;

LogicalResult mlir::scrimp::printParameters(const CompileOptions &options, MLIRContext *context, raw_ostream &os) {
  FailureOr<Compilation> compilation = loadModel(options, context);
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
    os << llvm::left_justify(role, 10) << main.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kName).getValue()
       << " [";
    llvm::interleave(type.getShape(), os, "x");
    os << "]";
    if (auto aliases = main.getArgAttrOfType<ArrayAttr>(index, "scrimp.aliases")) {
      os << " = ";
      llvm::interleave(aliases, os, [&](Attribute alias) { os << cast<StringAttr>(alias).getValue(); }, ", ");
    }
    if (auto reason = main.getArgAttrOfType<StringAttr>(index, "scrimp.reason"))
      os << ": " << reason.getValue();
    os << "\n";
  }
  os << trainable << " trainable elements\n";
  return success();
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

LogicalResult mlir::scrimp::printPlan(const CompileOptions &options, MLIRContext *context, raw_ostream &os) {
  FailureOr<Compilation> compilation = planModel(options, context);
  if (failed(compilation))
    return failure();
  FailureOr<llvm::json::Object> report = buildMemoryReport(*compilation->module);
  if (failed(report))
    return failure();
  int64_t arena = *report->getInteger("peak_bytes");
  os << "arena            " << arena << " bytes (" << humanBytes(arena) << "), lower bound "
     << *report->getInteger("lower_bound_bytes") << "\n";
  for (StringRef name : {"parameters", "optimizer_state", "inputs", "gradients", "activations", "workspace"})
    os << "  " << llvm::left_justify(name, 16)
       << llvm::right_justify(humanBytes(*report->getObject("segments")->getInteger(name)), 12) << "\n";
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
     << llvm::format("%.3f", *flops.getInteger("backward") / 1e9) << " backward and update\n";
  return success();
}
