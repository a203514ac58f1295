// The workspace of a library's matrix products, by target.
#ifndef SCRIMP_LIB_DIALECT_PRODUCTWORKSPACE_H
#define SCRIMP_LIB_DIALECT_PRODUCTWORKSPACE_H

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/runtime/workspace.h"

namespace mlir::scrimp {

/// What KernelOp::getWorkspaceTypes of a product `op` answers: operand 0 has its operands' type, result 0 is the
/// matrix.
SmallVector<RankedTensorType> productWorkspace(Operation *op, const ::scrimp::runtime::GemmCall &call, int64_t workers);

} // namespace mlir::scrimp

#endif
