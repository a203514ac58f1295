// Where the plan has put each value.
#ifndef SCRIMP_LIB_DRIVER_ADDRESSES_H
#define SCRIMP_LIB_DRIVER_ADDRESSES_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::scrimp {

/// Byte offsets in the arena of all values of a planned function, its bodies included.
class Addresses {
public:
  /// Reads scrimp.offset, scrimp.offsets and scrimp.body_offsets and follows views, packs and the arguments of bodies.
  /// Fails at a value without a place.
  static FailureOr<Addresses> compute(func::FuncOp function);

  /// The bytes of a value for a command inside `loops` loops. The value is one of the function; any other ends the
  /// program.
  RangeAttr get(Value value, unsigned loops) const;
  /// Where a value lies that no loop and no rank moves.
  int64_t getOffset(Value value) const { return lookUp(value).offset; }

private:
  /// `strides`: bytes per iteration of each loop around the value, outermost first; where it is shorter than there are
  /// loops, the inner ones do not move it. `rankStride`: bytes per rank.
  struct Address {
    int64_t offset = 0;
    SmallVector<int64_t, 2> strides = {};
    int64_t rankStride = 0;
  };

  LogicalResult addBlock(Block &block, unsigned loops);
  LogicalResult addBody(BodyOp body, unsigned loops);
  const Address &lookUp(Value value) const;

  llvm::DenseMap<Value, Address> addresses;
};

} // namespace mlir::scrimp

#endif
