#include "ColumnSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Columns of a unit on a CPU; threads of a warp and bytes of an access of a device.
static constexpr int64_t kColumns = 32, kWarp = 32, kAccessBytes = 16;
/// Rows that are too few to cut; the least and the usual rows of a slice, and those that one launch should go over.
static constexpr int64_t kFewRows = 128, kFewestRows = 16, kSliceRows = 32, kMostRows = 256;

ColumnBlocks::ColumnBlocks(Operation *op, int64_t columns, Type type) : columns(columns), width(kColumns) {
  int64_t wide = kWarp * std::max<int64_t>(1, kAccessBytes / elementBytesOf(type));
  if (TargetAttr::of(op).isDevice() && columns % (wide / kWarp) == 0)
    width = wide;
}

void mlir::scrimp::emitColumnBlock(OpBuilder &builder, Location loc, const ColumnBlocks &blocks, Value block,
                                   int64_t rows, Combine kind, Type compute, unsigned count,
                                   llvm::function_ref<ColumnFn(OpBuilder &, Value row)> row,
                                   llvm::function_ref<void(OpBuilder &, Value column, ValueRange sums)> store) {
  Value zero = emitIndex(builder, loc, 0), width = emitIndex(builder, loc, blocks.width);
  Value first = arith::MulIOp::create(builder, loc, block, width);
  Value size = arith::MinUIOp::create(
      builder, loc, width, arith::SubIOp::create(builder, loc, emitIndex(builder, loc, blocks.columns), first));
  SmallVector<Value> sums;
  for (unsigned r = 0; r < count; ++r)
    sums.push_back(emitStackBuffer(builder, loc, {blocks.width}, compute));
  Value neutral = emitNeutral(builder, loc, kind, compute);
  auto forEachLane = [&](OpBuilder &outside, function_ref<void(OpBuilder &, Value)> body) {
    emitLoop(outside, loc, zero, size, body, /*parallel=*/true);
  };
  forEachLane(builder, [&](OpBuilder &b, Value lane) {
    for (Value sum : sums)
      memref::StoreOp::create(b, loc, neutral, sum, lane);
  });
  emitLoop(builder, loc, zero, emitIndex(builder, loc, rows), [&](OpBuilder &ofRow, Value number) {
    ColumnFn element = row(ofRow, number);
    forEachLane(ofRow, [&](OpBuilder &b, Value lane) {
      SmallVector<Value> values = element(b, arith::AddIOp::create(b, loc, first, lane));
      for (auto [sum, value] : llvm::zip_equal(sums, values)) {
        Value old = memref::LoadOp::create(b, loc, sum, lane);
        memref::StoreOp::create(b, loc, emitCombine(b, loc, kind, old, value), sum, lane);
      }
    });
  });
  forEachLane(builder, [&](OpBuilder &b, Value lane) {
    SmallVector<Value> values;
    for (Value sum : sums)
      values.push_back(memref::LoadOp::create(b, loc, sum, lane));
    store(b, arith::AddIOp::create(b, loc, first, lane), values);
  });
}

int64_t mlir::scrimp::countSlices(int64_t rows) {
  if (rows <= kFewRows)
    return 1;
  // So few that one more launch combines them; where that would take long, two more.
  int64_t least = std::clamp<int64_t>(llvm::divideCeil(rows, kFewRows), kFewestRows, kMostRows);
  int64_t usual = std::max(kSliceRows, least);
  for (int64_t distance = 0; distance < kMostRows; ++distance)
    for (int64_t length : {usual + distance, usual - distance})
      if (length >= least && rows % length == 0)
        return rows / length;
  return 1;
}

Value mlir::scrimp::combineSlices(OpBuilder &builder, Location loc, ReduceKind kind, Value slices,
                                  RankedTensorType type) {
  int64_t columns = type.getNumElements();
  for (;;) {
    int64_t rows = tensorType(slices).getNumElements() / std::max<int64_t>(columns, 1), count = countSlices(rows);
    slices = reshapeTo(builder, loc, slices, {count, rows / count, columns});
    slices = ReduceOp::create(builder, loc, kind, slices, ArrayRef<int64_t>{1});
    if (count == 1)
      return castToType(builder, loc, reshapeTo(builder, loc, slices, type.getShape()), type);
  }
}
