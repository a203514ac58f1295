// What holds of every model before it is compiled, wherever it came from.
#ifndef SCRIMP_DRIVER_CHECKMODEL_H
#define SCRIMP_DRIVER_CHECKMODEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// Checks the arguments of @main: a name and one role each, attributes of the right kind, and data that agree on a
/// batch of at least one sample. The importer makes no others; who writes a .mlir by hand may. Fails after errors at
/// the arguments, all of them in one run.
LogicalResult checkModel(func::FuncOp main);

} // namespace mlir::scrimp

#endif
