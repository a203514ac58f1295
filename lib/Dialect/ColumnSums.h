// Reductions over the rows of a matrix: a unit takes a block of neighbouring columns and goes over rows; on a device
// rows are cut into slices, whose sums are combined by another launch.
#ifndef SCRIMP_LIB_DIALECT_COLUMNSUMS_H
#define SCRIMP_LIB_DIALECT_COLUMNSUMS_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// How columns are shared out over units.
struct ColumnBlocks {
  /// Of `op`, which reads elements of `type`: what one access of each thread of a warp covers, on a CPU 32.
  ColumnBlocks(Operation *op, int64_t columns, Type type);

  int64_t columns, width;
  int64_t getCount() const { return llvm::divideCeil(columns, width); }
};

/// What a row gives: one value per sum for each of its columns, of the compute type.
using ColumnFn = std::function<SmallVector<Value>(OpBuilder &, Value column)>;

/// Emits block `block` (an index value): combines rows 0..rows-1 in order and hands each column's results to `store`.
/// `row` emits what a row needs once.
void emitColumnBlock(OpBuilder &builder, Location loc, const ColumnBlocks &blocks, Value block, int64_t rows,
                     Combine kind, Type compute, unsigned count,
                     llvm::function_ref<ColumnFn(OpBuilder &, Value row)> row,
                     llvm::function_ref<void(OpBuilder &, Value column, ValueRange sums)> store);

/// Into how many equal slices a device cuts that many rows; 1: it leaves them whole. A function of the number alone.
int64_t countSlices(int64_t rows);

/// Combines tensor<slices x columns...> over the slices, by one launch where they are few; the result has `type`.
Value combineSlices(OpBuilder &builder, Location loc, ReduceKind kind, Value slices, RankedTensorType type);

} // namespace mlir::scrimp

#endif
