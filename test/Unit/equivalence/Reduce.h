// Makes a failing graph small enough to be read.
#ifndef SCRIMP_TEST_UNIT_EQUIVALENCE_REDUCE_H
#define SCRIMP_TEST_UNIT_EQUIVALENCE_REDUCE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace mlir::scrimp {

/// Greedily replaces ops of @main by an operand of their type, or by a constant, as long as `fails` holds; what nothing
/// reads then goes. Stops after some seconds.
OwningOpRef<ModuleOp> reduceGraph(ModuleOp module, llvm::function_ref<bool(ModuleOp)> fails);

} // namespace mlir::scrimp

#endif
