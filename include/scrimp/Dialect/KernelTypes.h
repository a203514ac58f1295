// The vocabulary of KernelOp: families, the callbacks between an op and the kernel it is emitted into, and library
// calls. Kept apart from the dialect so that interfaces need no more than this.
#ifndef SCRIMP_DIALECT_KERNELTYPES_H
#define SCRIMP_DIALECT_KERNELTYPES_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace mlir::scrimp {

enum class KernelFamily { View, Map, Rows, Library, Command };

/// The element of operand `operand` at `indices` (index values), emitted at the builder's insertion point. The value
/// has the operand's element type.
using LoadFn = llvm::function_ref<Value(OpBuilder &builder, unsigned operand, ValueRange indices)>;

/// Writes `value` (of result `result`'s element type) at `indices`.
using StoreFn = llvm::function_ref<void(OpBuilder &builder, unsigned result, ValueRange indices, Value value)>;

/// A call of the runtime's library (runtime/include/scrimp/runtime/Library.h). The element type is that of result 0.
struct LibraryCall {
  std::string function;
  llvm::SmallVector<int64_t> ints;
  llvm::SmallVector<double> floats;
};

} // namespace mlir::scrimp

#endif
