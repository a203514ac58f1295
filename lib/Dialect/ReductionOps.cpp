#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

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
  if (expected != getY().getType())
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

/// Columns that one unit of a column reduction handles.
static constexpr int64_t kColumns = 32;

/// Whether the last dimension is kept, so that neighbouring results come from neighbouring elements.
static bool isColumnReduction(ReduceOp op) {
  int64_t rank = tensorType(op.getX()).getRank();
  return rank > 0 && !llvm::is_contained(op.getDims(), rank - 1) && shapeOf(op.getX())[rank - 1] > 1;
}

int64_t ReduceOp::getNumUnits() {
  int64_t results = tensorType(getY()).getNumElements();
  if (!isColumnReduction(*this) || results == 0)
    return results;
  int64_t columns = shapeOf(getX()).back();
  return results / columns * llvm::divideCeil(columns, kColumns);
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
  int64_t columns = shape.back(), blocks = llvm::divideCeil(columns, kColumns);
  Value blockCount = emitIndex(builder, loc, blocks);
  SmallVector<Value> outer = emitDelinearize(builder, loc, arith::DivUIOp::create(builder, loc, unit, blockCount),
                                             ArrayRef(keptShape).drop_back());
  Value first = arith::MulIOp::create(builder, loc, arith::RemUIOp::create(builder, loc, unit, blockCount),
                                      emitIndex(builder, loc, kColumns));
  Value size = arith::MinUIOp::create(builder, loc, emitIndex(builder, loc, kColumns),
                                      arith::SubIOp::create(builder, loc, emitIndex(builder, loc, columns), first));
  Value zero = emitIndex(builder, loc, 0), sums = emitStackBuffer(builder, loc, {kColumns}, computeType);
  Value neutral = emitNeutral(builder, loc, kind, computeType);
  emitLoop(builder, loc, zero, size,
           [&](OpBuilder &b, Value lane) { memref::StoreOp::create(b, loc, neutral, sums, lane); }, true);
  auto columnIndex = [&](OpBuilder &b, Value lane) {
    SmallVector<Value> index(outer);
    index.push_back(arith::AddIOp::create(b, loc, first, lane));
    return index;
  };
  emitLoop(builder, loc, zero, emitIndex(builder, loc, count), [&](OpBuilder &rows, Value row) {
    emitLoop(
        rows, loc, zero, size,
        [&](OpBuilder &b, Value lane) {
          Value value = element(b, columnIndex(b, lane), row), old = memref::LoadOp::create(b, loc, sums, lane);
          memref::StoreOp::create(b, loc, emitCombine(b, loc, kind, old, value), sums, lane);
        },
        true);
  });
  emitLoop(
      builder, loc, zero, size,
      [&](OpBuilder &b, Value lane) {
        Value sum = memref::LoadOp::create(b, loc, sums, lane);
        store(b, 0, columnIndex(b, lane), emitConvert(b, loc, sum, resultType));
      },
      true);
}
