// Rewrites to a canonical form that make other ops, where a folder can only return values. Like a folder, each keeps
// every bit of the value.
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::scrimp;

/// A transpose that only moves dimensions of size 1 moves no element.
LogicalResult TransposeOp::canonicalize(TransposeOp op, PatternRewriter &rewriter) {
  SmallVector<int64_t> moved;
  for (int64_t d : op.getPermutation())
    if (shapeOf(op.getX())[d] != 1)
      moved.push_back(d);
  if (!llvm::is_sorted(moved))
    return failure();
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getY().getType(), op.getX());
  return success();
}

/// A slice out of one operand of a concat is a slice of that operand.
LogicalResult SliceOp::canonicalize(SliceOp op, PatternRewriter &rewriter) {
  auto concat = op.getX().getDefiningOp<ConcatOp>();
  if (!concat || tensorType(op.getY()).getNumElements() == 0)
    return failure();
  int64_t dim = concat.getDim(), first = op.getStarts()[dim],
          last = first + (shapeOf(op.getY())[dim] - 1) * op.getStrides()[dim], begin = 0;
  for (Value x : concat.getXs()) {
    int64_t end = begin + shapeOf(x)[dim];
    if (std::min(first, last) >= begin && std::max(first, last) < end) {
      SmallVector<int64_t> starts(op.getStarts());
      starts[dim] -= begin;
      rewriter.replaceOpWithNewOp<SliceOp>(op, op.getY().getType(), x, starts, op.getStrides());
      return success();
    }
    begin = end;
  }
  return failure();
}

/// Empty operands add nothing; those of a concat along the same dimension join themselves.
LogicalResult ConcatOp::canonicalize(ConcatOp op, PatternRewriter &rewriter) {
  SmallVector<Value> parts;
  bool changed = false;
  for (Value x : op.getXs()) {
    auto inner = x.getDefiningOp<ConcatOp>();
    if (inner && inner.getDim() == op.getDim() && inner->hasOneUse()) {
      llvm::append_range(parts, inner.getXs());
      changed = true;
    } else if (shapeOf(x)[op.getDim()] == 0 && op.getXs().size() > 1) {
      changed = true;
    } else {
      parts.push_back(x);
    }
  }
  if (!changed || parts.empty())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getXsMutable().assign(parts); });
  return success();
}

/// Rows at constant indices, evenly spaced and each taken once (positions, a class token), are a slice; its gradient is
/// then a pad instead of sums.
LogicalResult GatherOp::canonicalize(GatherOp op, PatternRewriter &rewriter) {
  SmallVector<int64_t> shape(shapeOf(op.getX()));
  int64_t dim = op.getDim(), size = shape[dim], count = tensorType(op.getIndices()).getNumElements();
  int64_t first, stride = 1;
  DenseIntElementsAttr elements;
  if (count == 0)
    return failure();
  if (auto iota = op.getIndices().getDefiningOp<IotaOp>(); iota && shapeOf(op.getIndices())[iota.getDim()] == count) {
    first = static_cast<int64_t>(iota.getStart().convertToDouble());
    stride = static_cast<int64_t>(iota.getStep().convertToDouble());
    first += first < 0 ? size : 0;
  } else if (matchPattern(op.getIndices(), m_Constant(&elements))) {
    SmallVector<int64_t> indices;
    for (const APInt &index : elements.getValues<APInt>())
      indices.push_back(index.getSExtValue() + (index.isNegative() ? size : 0));
    first = indices[0];
    stride = count > 1 ? indices[1] - first : 1;
    for (int64_t i = 1; i < count; ++i)
      if (indices[i] - indices[i - 1] != stride)
        return failure();
  } else {
    return failure();
  }
  int64_t last = first + (count - 1) * stride;
  if (stride == 0 || std::min(first, last) < 0 || std::max(first, last) >= size)
    return failure();
  // A slice would give the padding a gradient.
  if (std::optional<int64_t> padding = op.getPadding(); padding && (*padding - first) % stride == 0 &&
                                                        *padding >= std::min(first, last) &&
                                                        *padding <= std::max(first, last))
    return failure();
  SmallVector<int64_t> starts(shape.size(), 0), strides(shape.size(), 1);
  starts[dim] = first;
  strides[dim] = stride;
  shape[dim] = count;
  Value slice = SliceOp::create(rewriter, op.getLoc(), tensorType(op.getX()).clone(shape), op.getX(), starts, strides);
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getY().getType(), slice);
  return success();
}
