#include "scrimp/Driver/PlanReport.h"

#include "scrimp/Dialect/Scrimp.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::scrimp;

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
  auto plan = (*compilation->module)->getAttrOfType<DictionaryAttr>("scrimp.plan");
  int64_t arena = plan.getAs<IntegerAttr>("arena_bytes").getInt();
  int64_t bound = plan.getAs<IntegerAttr>("lower_bound_bytes").getInt();
  os << "arena            " << arena << " bytes (" << humanBytes(arena) << "), lower bound " << bound << "\n";
  for (Attribute entry : plan.getAs<ArrayAttr>("segments")) {
    auto segment = cast<DictionaryAttr>(entry);
    os << "  " << llvm::left_justify(segment.getAs<StringAttr>("name").getValue(), 16)
       << llvm::right_justify(humanBytes(segment.getAs<IntegerAttr>("bytes").getInt()), 12) << "\n";
  }
  return success();
}
