// What ops that draw random numbers share: probabilities, and pieces of larger tensors.
#ifndef SCRIMP_LIB_DIALECT_RANDOMOPS_H
#define SCRIMP_LIB_DIALECT_RANDOMOPS_H

#include "scrimp/Codegen/Philox.h"
#include "scrimp/Dialect/Scrimp.h"

#include <cmath>

namespace mlir::scrimp {

/// An element is dropped with probability p where its 32 random bits are below this.
inline uint32_t dropBelow(double p) { return static_cast<uint32_t>(std::floor(p * 0x1p32)); }

inline LogicalResult verifyProbability(Operation *op, const APFloat &probability) {
  double p = probability.convertToDouble();
  if (!(p >= 0 && p < 1))
    return op->emitOpError() << "p must lie in [0, 1), found " << p;
  return success();
}

/// The 32 random bits (i32) of a draw in a kernel; all operands are i64, `key` is the seed XOR the op's mixed key.
Value emitDrawBits(OpBuilder &builder, Location loc, Value key, Value sample, Value step, Value element);

/// `origin` and `whole` come together, and a piece of `shape` fits into the whole.
template <typename Op> LogicalResult verifyPiece(Op op, ArrayRef<int64_t> shape) {
  std::optional<ArrayRef<int64_t>> whole = op.getWhole();
  if (bool(op.getOrigin()) != whole.has_value())
    return op.emitOpError() << "`origin` and `whole` come together";
  if (!whole)
    return success();
  bool fits = whole->size() == shape.size();
  for (auto [size, all] : llvm::zip(shape, *whole))
    fits &= size <= all;
  auto rank = static_cast<int64_t>(shape.size());
  if (!fits || shapeOf(op.getOrigin()) != ArrayRef<int64_t>{rank}) {
    InFlightDiagnostic diagnostic = op.emitOpError() << "a piece of [";
    llvm::interleaveComma(shape, diagnostic);
    diagnostic << "] needs an origin of " << rank << " elements in a whole that holds it, found "
               << op.getOrigin().getType() << " in [";
    llvm::interleaveComma(*whole, diagnostic);
    return diagnostic << "]";
  }
  return success();
}

} // namespace mlir::scrimp

#endif
