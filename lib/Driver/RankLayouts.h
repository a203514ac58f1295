// What ranks can share out, for --memory-budget to choose from.
#ifndef SCRIMP_LIB_DRIVER_RANKLAYOUTS_H
#define SCRIMP_LIB_DRIVER_RANKLAYOUTS_H

#include "scrimp/Driver/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// A stage of ZeRO, when gradients are added up, and what stays gathered; what is not there is as the options say.
struct RankLayout {
  std::optional<int64_t> zero;
  std::string sync, unshard;

  bool operator==(const RankLayout &) const = default;
  void apply(CompileOptions &options) const;
  /// To type: "--zero 3 --sync per-step --unshard '*' ".
  std::string getFlags() const;
};

/// The layouts of `options` that make different programs of `main` in so many micro-batches. Whatever is given stays;
/// on one rank nothing is left to choose.
std::vector<RankLayout> listLayouts(func::FuncOp main, const CompileOptions &options, int64_t microBatches);

/// Bytes that are alive at once in whatever plan of a graph: the arguments of @train, what its loops add up, and what
/// is gathered once for forward and backward pass.
int64_t computeFloor(ModuleOp graph);

} // namespace mlir::scrimp

#endif
