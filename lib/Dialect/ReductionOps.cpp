#include "ColumnSums.h"
#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::scrimp;

static SmallVector<int64_t> keptDims(ReduceOp op) {
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < tensorType(op.getX()).getRank(); ++d)
    if (!llvm::is_contained(op.getDims(), d))
      kept.push_back(d);
  return kept;
}

static SmallVector<int64_t> pick(ArrayRef<int64_t> values, ArrayRef<int64_t> positions) {
  SmallVector<int64_t> result;
  for (int64_t position : positions)
    result.push_back(values[position]);
  return result;
}

static Combine combineOf(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::sum:
    return Combine::Add;
  case ReduceKind::max:
    return Combine::Max;
  case ReduceKind::min:
    return Combine::Min;
  case ReduceKind::prod:
    return Combine::Mul;
  }
  llvm_unreachable("a kind");
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind, Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(shapeOf(x)))
    if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
      shape.push_back(size);
  SmallVector<int64_t> sorted(dims);
  llvm::sort(sorted);
  build(builder, state, tensorType(x).clone(shape), kind, x, sorted);
}

LogicalResult ReduceOp::verify() {
  int64_t rank = tensorType(getX()).getRank(), last = -1;
  for (int64_t d : getDims()) {
    if (d <= last || d >= rank)
      return emitOpError() << "dims must be increasing and lie in [0, " << rank << "), found " << d;
    last = d;
  }
  auto expected = tensorType(getX()).clone(pick(shapeOf(getX()), keptDims(*this)));
  if (expected != getY().getType() && expected.clone(getComputeType(expected.getElementType())) != getY().getType())
    return emitOpError() << "result type must be " << expected << ", found " << getY().getType();
  return success();
}

OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  if (getDims().empty())
    return getX();
  return foldExactly(*this, adaptor.getOperands());
}

LogicalResult ReduceOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  SmallVector<int64_t> kept = keptDims(*this), strides = rowMajorStrides(y.getShape());
  double infinity = std::numeric_limits<double>::infinity();
  double neutral = getKind() == ReduceKind::sum ? 0 : getKind() == ReduceKind::prod ? 1 : getKind() == ReduceKind::max ? -infinity : infinity;
  std::fill(y.floats().begin(), y.floats().end(), neutral);
  int64_t intNeutral = getKind() == ReduceKind::max   ? std::numeric_limits<int64_t>::min()
                       : getKind() == ReduceKind::min ? std::numeric_limits<int64_t>::max()
                                                      : static_cast<int64_t>(neutral);
  std::fill(y.ints().begin(), y.ints().end(), intNeutral);
  forEachIndex(x.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t target = 0;
    for (auto [d, stride] : llvm::zip(kept, strides))
      target += index[d] * stride;
    auto combine = [&](auto a, auto b) {
      switch (getKind()) {
      case ReduceKind::sum:
        return a + b;
      case ReduceKind::prod:
        return a * b;
      case ReduceKind::max:
        return maximum(a, b);
      case ReduceKind::min:
        return minimum(a, b);
      }
      llvm_unreachable("a kind");
    };
    if (x.isFloat())
      y.floats()[target] = combine(y.floats()[target], x.floats()[i]);
    else
      y.ints()[target] = combine(y.ints()[target], x.ints()[i]);
  });
  return success();
}

void ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  ArrayRef<int64_t> shape = shapeOf(getX());
  SmallVector<int64_t> withOnes(shape);
  for (int64_t d : getDims())
    withOnes[d] = 1;
  auto spread = [&](Value value) {
    return GraphExpr(builder, loc, broadcastTo(builder, loc, reshapeTo(builder, loc, value, withOnes), shape));
  };
  GraphExpr x(builder, loc, getX()), g = spread(resultGrads[0]);
  switch (getKind()) {
  case ReduceKind::sum:
    operandGrads[0] = g.value;
    return;
  case ReduceKind::prod: {
    // The product of the others: y / x, and where x is 0 the product of the elements that are not, if x is the only 0.
    GraphExpr isZero = eq(x, 0.0), one = like(x, 1.0), zero = like(x, 0.0);
    GraphExpr nonZero = select(isZero, one, x), zeros = select(isZero, one, zero);
    GraphExpr product = spread(ReduceOp::create(builder, loc, ReduceKind::prod, nonZero.value, getDims()));
    GraphExpr count = spread(ReduceOp::create(builder, loc, ReduceKind::sum, zeros.value, getDims()));
    GraphExpr others = select(eq(count, zeros), product / nonZero, zero);
    operandGrads[0] = (g * others).value;
    return;
  }
  case ReduceKind::max:
  case ReduceKind::min: {
    GraphExpr isBest = eq(x, spread(getY())), zero = like(x, 0.0);
    GraphExpr hit = select(isBest, like(x, 1.0), zero);
    GraphExpr count = spread(ReduceOp::create(builder, loc, ReduceKind::sum, hit.value, getDims()));
    operandGrads[0] = select(isBest, g / count, zero).value;
    return;
  }
  }
}

//===-- Code -------------------------------------------------------------------------------------------------------===//

/// Whether the last dimension is kept, so that neighbouring results come from neighbouring elements.
static bool isColumnReduction(ReduceOp op) {
  int64_t rank = tensorType(op.getX()).getRank();
  return rank > 0 && !llvm::is_contained(op.getDims(), rank - 1) && shapeOf(op.getX())[rank - 1] > 1;
}

int64_t ReduceOp::getNumUnits() {
  int64_t results = tensorType(getY()).getNumElements();
  if (!isColumnReduction(*this) || results == 0)
    return results;
  ColumnBlocks blocks(*this, shapeOf(getX()).back(), tensorType(getX()).getElementType());
  return results / blocks.columns * blocks.getCount();
}

void ReduceOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  ArrayRef<int64_t> shape = shapeOf(getX());
  SmallVector<int64_t> kept = keptDims(*this), keptShape = pick(shape, kept), reducedShape = pick(shape, getDims());
  int64_t count = productOf(reducedShape);
  Type resultType = tensorType(getY()).getElementType(), computeType = getComputeType(resultType);
  Combine kind = combineOf(getKind());
  auto element = [&](OpBuilder &b, ValueRange keptIndex, Value reducedLinear) {
    SmallVector<Value> index(shape.size()), reduced = emitDelinearize(b, loc, reducedLinear, reducedShape);
    for (auto [d, value] : llvm::zip(kept, keptIndex))
      index[d] = value;
    for (auto [d, value] : llvm::zip(getDims(), reduced))
      index[d] = value;
    return emitConvert(b, loc, load(b, 0, index), computeType);
  };
  if (!isColumnReduction(*this)) {
    SmallVector<Value> keptIndex = emitDelinearize(builder, loc, unit, keptShape);
    Value total = emitReduce(builder, loc, count, kind, computeType, [&](OpBuilder &b, Value j) {
      return SmallVector<Value>{element(b, keptIndex, j)};
    })[0];
    store(builder, 0, keptIndex, emitConvert(builder, loc, total, resultType));
    return;
  }
  ColumnBlocks blocks(*this, shape.back(), tensorType(getX()).getElementType());
  Value blockCount = emitIndex(builder, loc, blocks.getCount());
  SmallVector<Value> outer = emitDelinearize(builder, loc, arith::DivUIOp::create(builder, loc, unit, blockCount),
                                             ArrayRef(keptShape).drop_back());
  Value block = arith::RemUIOp::create(builder, loc, unit, blockCount);
  auto indexOf = [&](Value column) {
    SmallVector<Value> index(outer);
    index.push_back(column);
    return index;
  };
  emitColumnBlock(
      builder, loc, blocks, block, count, kind, computeType, 1,
      [&](OpBuilder &, Value row) -> ColumnFn {
        return [&, row](OpBuilder &b, Value column) { return SmallVector<Value>{element(b, indexOf(column), row)}; };
      },
      [&](OpBuilder &b, Value column, ValueRange sums) {
        store(b, 0, indexOf(column), emitConvert(b, loc, sums[0], resultType));
      });
}

/// Rows that are a device's whole work for few results are cut into pieces of about this length.
static constexpr int64_t kLongRow = 1 << 16, kPieceOfRow = 1 << 13, kFewResults = 64;

SmallVector<Value> ReduceOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  ArrayRef<int64_t> shape = shapeOf(getX()), dims = getDims();
  int64_t results = tensorType(getY()).getNumElements();
  if (!target.isDevice() || results == 0 || dims.empty())
    return {};
  int64_t rows = productOf(pick(shape, dims));
  auto wide = RankedTensorType::get({}, getComputeType(tensorType(getY()).getElementType()));
  bool isLeading = llvm::equal(dims, llvm::seq<int64_t>(0, dims.size()));
  if (isLeading && isColumnReduction(*this)) {
    int64_t slices = countSlices(rows);
    if (slices == 1)
      return {};
    Value x = reshapeTo(builder, getLoc(), getX(), {slices, rows / slices, results});
    Value sums = ReduceOp::create(builder, getLoc(), wide.clone({slices, results}), getKind(), x, ArrayRef<int64_t>{1});
    return {combineSlices(builder, getLoc(), getKind(), sums, tensorType(getY()))};
  }
  bool isTrailing = llvm::equal(dims, llvm::seq<int64_t>(shape.size() - dims.size(), shape.size()));
  if (!isTrailing || rows < kLongRow || results > kFewResults)
    return {};
  for (int64_t length = kPieceOfRow; length < rows; ++length)
    if (rows % length == 0) {
      Value x = reshapeTo(builder, getLoc(), getX(), {results * (rows / length), length});
      Value sums = ReduceOp::create(builder, getLoc(), wide.clone({results * (rows / length)}), getKind(), x,
                                    ArrayRef<int64_t>{1});
      sums = reshapeTo(builder, getLoc(), sums, {results, rows / length});
      Value y = ReduceOp::create(builder, getLoc(), getKind(), sums, ArrayRef<int64_t>{1});
      return {castToType(builder, getLoc(), reshapeTo(builder, getLoc(), y, shapeOf(getY())), getY().getType())};
    }
  return {};
}
