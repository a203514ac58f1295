// The vocabulary of AliasOp and BodyOp (where results and the arguments of bodies lie), and the one place for sizes in
// bytes. Kept apart from the dialect so that interfaces need no more than this.
#ifndef SCRIMP_DIALECT_ALIASTYPES_H
#define SCRIMP_DIALECT_ALIASTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace mlir::scrimp {

/// Every buffer of the plan starts at a multiple of this: a cache line, and the widest vector.
constexpr int64_t kAlignment = 64;

/// Bytes of one element in memory; i1 takes one.
inline int64_t elementBytesOf(Type elementType) { return (elementType.getIntOrFloatBitWidth() + 7) / 8; }
inline int64_t bytesOf(RankedTensorType type) { return type.getNumElements() * elementBytesOf(type.getElementType()); }
inline int64_t bytesOf(Value value) { return bytesOf(cast<RankedTensorType>(value.getType())); }

inline int64_t productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// Where a result lies in bytes of an operand: `offset` bytes inside operand `operand`. Where there is `placed`, the
/// result is operand `operand` whole instead, and operand `placed` must have been computed at `offset` inside it. On
/// rank r of `ranks` the result lies r * `rankStride` bytes further on.
struct Tie {
  unsigned operand = 0;
  int64_t offset = 0;
  std::optional<unsigned> placed;
  int64_t rankStride = 0, ranks = 1;

  /// Where the result lies inside `operand`.
  int64_t getResultOffset() const { return placed ? 0 : offset; }
};

/// What an argument of a body stands for.
///
///   Index      the number of the iteration, in bytes of its own
///   Shared     operand `operand`, in its bytes
///   Piece      the part of operand `operand` that begins at iteration * `stride` bytes
///   Filled     the same in bytes of its own, which the host fills before each iteration
///   Carried    operand `operand` before the first iteration, later what the body yielded last as number `result`; all
///              in the operand's bytes, which are the op's result `result` in the end
struct BodyArgument {
  enum Kind { Index, Shared, Piece, Filled, Carried } kind = Index;
  unsigned operand = 0;
  int64_t stride = 0;
  unsigned result = 0;

  bool isPiece() const { return kind == Piece || kind == Filled; }
  bool hasOwnBytes() const { return kind == Index || kind == Filled; }
};

} // namespace mlir::scrimp

#endif
