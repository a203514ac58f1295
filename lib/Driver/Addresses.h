// Where the plan has put each value.
#ifndef SCRIMP_LIB_DRIVER_ADDRESSES_H
#define SCRIMP_LIB_DRIVER_ADDRESSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::scrimp {

/// Byte offsets in the arena of all values of a planned function.
class Addresses {
public:
  /// Reads scrimp.offset and scrimp.offsets and follows views and packs. Fails at a value without a place.
  static FailureOr<Addresses> compute(func::FuncOp function);

  int64_t get(Value value) const { return offsets.lookup(value); }

private:
  llvm::DenseMap<Value, int64_t> offsets;
};

} // namespace mlir::scrimp

#endif
