// Index arithmetic that the ops which move or choose elements share, for the interpreter and for kernels.
#ifndef SCRIMP_LIB_DIALECT_INDEXMATH_H
#define SCRIMP_LIB_DIALECT_INDEXMATH_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::scrimp {

inline int64_t linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t linear = 0;
  for (auto [i, stride] : llvm::zip(index, strides))
    linear += i * stride;
  return linear;
}

/// Index `value` into a dimension of `size`, negative ones counted from the end. Fails after an error at `op`.
inline FailureOr<int64_t> wrapIndex(Operation *op, int64_t value, int64_t size) {
  int64_t wrapped = value < 0 ? value + size : value;
  if (wrapped < 0 || wrapped >= size)
    return op->emitOpError() << "index " << value << " is outside [" << -size << ", " << size << ")";
  return wrapped;
}

/// The same in code, clamped.
inline Value emitWrapIndex(OpBuilder &builder, Location loc, Value value, int64_t size) {
  Value index = emitConvert(builder, loc, value, builder.getIndexType());
  Value zero = emitIndex(builder, loc, 0), bound = emitIndex(builder, loc, size);
  Value isNegative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index, zero);
  Value shifted = arith::AddIOp::create(builder, loc, index, bound);
  Value wrapped = arith::SelectOp::create(builder, loc, isNegative, shifted, index);
  Value last = emitIndex(builder, loc, std::max<int64_t>(size - 1, 0));
  return arith::MinSIOp::create(builder, loc, arith::MaxSIOp::create(builder, loc, wrapped, zero), last);
}

/// Columns and rows of what a unit of a scatter owns on a device: so few that there are many units.
constexpr int64_t kOwnColumns = 128, kOwnRows = 64;

/// Emits `body(j)` for each j below `count` with `isOwn(j)`, in order. Most are others': the threads of a device look
/// at many at once, and only where one is the unit's own, at each.
void emitForOwn(OpBuilder &builder, Location loc, int64_t count, llvm::function_ref<Value(OpBuilder &, Value j)> isOwn,
                llvm::function_ref<void(OpBuilder &, Value j)> body);

/// first <= index < end.
inline Value emitIsWithin(OpBuilder &builder, Location loc, Value index, Value first, Value end) {
  Value isBehind = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, index, first);
  Value isBefore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, end);
  return arith::AndIOp::create(builder, loc, isBehind, isBefore);
}

/// The elements [first, end) that block `block` of `size` has of all `whole`.
inline std::pair<Value, Value> emitBlockRange(OpBuilder &builder, Location loc, Value block, int64_t size,
                                              int64_t whole) {
  Value width = emitIndex(builder, loc, size), first = arith::MulIOp::create(builder, loc, block, width);
  Value end = arith::AddIOp::create(builder, loc, first, width);
  return {first, arith::MinUIOp::create(builder, loc, emitIndex(builder, loc, whole), end)};
}

/// y[to] = x[from], whatever the kind of the elements.
inline void copyElement(const HostTensor &x, int64_t from, HostTensor &y, int64_t to) {
  if (x.isFloat())
    y.floats()[to] = x.floats()[from];
  else
    y.ints()[to] = x.ints()[from];
}

/// `for (iv = begin; iv < end; ++iv) values = body(iv, values)`; gives the last values.
inline SmallVector<Value> emitFold(OpBuilder &builder, Location loc, Value begin, Value end, ValueRange initial,
                                   function_ref<SmallVector<Value>(OpBuilder &, Value iv, ValueRange values)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, emitIndex(builder, loc, 1), initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = body(builder, loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty()) // else the loop has its terminator already
    scf::YieldOp::create(builder, loc, next);
  return SmallVector<Value>(loop.getResults());
}

} // namespace mlir::scrimp

#endif
