#include "IndexMath.h"
#include "MapOps.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

//===-- Lines along a dimension ------------------------------------------------------------------------------------===//

namespace {
/// The elements of a tensor that differ in dimension `dim` alone: the unit of work of most ops here.
struct Line {
  SmallVector<Value> others; // the index without `dim`
  int64_t dim;

  SmallVector<Value> at(Value i) const {
    SmallVector<Value> index(others);
    index.insert(index.begin() + dim, i);
    return index;
  }
};
} // namespace

static SmallVector<int64_t> without(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> others(shape);
  others.erase(others.begin() + dim);
  return others;
}

static Line emitLine(OpBuilder &builder, Location loc, Value unit, ArrayRef<int64_t> shape, int64_t dim) {
  return {emitDelinearize(builder, loc, unit, without(shape, dim)), dim};
}

/// Calls `fn(first, stride)` for every line: element i of it is at first + i * stride.
static void forEachLine(ArrayRef<int64_t> shape, int64_t dim, function_ref<void(int64_t first, int64_t stride)> fn) {
  int64_t stride = productOf(shape.drop_front(dim + 1)), outer = productOf(shape.take_front(dim));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < stride; ++i)
      fn(o * shape[dim] * stride + i, stride);
}

static LogicalResult verifyDim(Operation *op, Value x, int64_t dim) {
  int64_t rank = tensorType(x).getRank();
  if (dim < 0 || dim >= rank)
    return op->emitOpError() << "dim " << dim << " is not in [0, " << rank << ")";
  return success();
}

/// How elements are ranked: by value, a NaN above all.
static bool isGreater(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }
static bool isGreater(int64_t a, int64_t b) { return a > b; }

static Value emitIsNan(OpBuilder &b, Location loc, Value a) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, a, a);
}
static Value emitIsGreater(OpBuilder &b, Location loc, Value a, Value c) {
  if (!isa<FloatType>(a.getType()))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, a, c);
  // Unordered or greater, unless it is c that is NaN.
  Value greater = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, a, c);
  Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, c, c);
  return arith::AndIOp::create(b, loc, greater, isNumber);
}
static Value emitIsEqual(OpBuilder &b, Location loc, Value a, Value c) {
  if (!isa<FloatType>(a.getType()))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a, c);
  Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, a, c);
  Value nans = arith::AndIOp::create(b, loc, emitIsNan(b, loc, a), emitIsNan(b, loc, c));
  return arith::OrIOp::create(b, loc, equal, nans);
}

//===-- gather_elements, scatter_elements_add ----------------------------------------------------------------------===//

static LogicalResult verifyElements(Operation *op, RankedTensorType whole, Value indices, RankedTensorType taken,
                                    int64_t dim) {
  if (dim < 0 || dim >= whole.getRank())
    return op->emitOpError() << "dim " << dim << " is not in [0, " << whole.getRank() << ")";
  auto expected = whole.clone(shapeOf(indices));
  if (taken != expected)
    return op->emitOpError() << "expected " << expected << ", found " << taken;
  if (taken.getRank() != whole.getRank())
    return op->emitOpError() << "indices must have rank " << whole.getRank() << ", found " << taken.getRank();
  for (int64_t d = 0; d < whole.getRank(); ++d)
    if (d != dim && taken.getDimSize(d) > whole.getDimSize(d))
      return op->emitOpError() << "dimension " << d << " of the indices must be at most " << whole.getDimSize(d)
                               << ", found " << taken.getDimSize(d);
  if (whole.getDimSize(dim) == 0 && taken.getNumElements() > 0)
    return op->emitOpError() << "dimension " << dim << " has no elements to choose from";
  return success();
}

/// For every element of the taken tensor: its linear index, and that of the element of the whole it refers to.
static LogicalResult forEachElement(Operation *op, ArrayRef<int64_t> whole, const HostTensor &indices, int64_t dim,
                                    function_ref<void(int64_t taken, int64_t whole)> fn) {
  SmallVector<int64_t> strides = rowMajorStrides(whole);
  LogicalResult result = success();
  forEachIndex(indices.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    FailureOr<int64_t> at = failed(result) ? FailureOr<int64_t>() : wrapIndex(op, indices.ints()[i], whole[dim]);
    if (failed(at)) {
      result = failure();
      return;
    }
    fn(i, linearize(index, strides) + (*at - index[dim]) * strides[dim]);
  });
  return result;
}

void GatherElementsOp::build(OpBuilder &builder, OperationState &state, Value x, Value indices, int64_t dim) {
  build(builder, state, tensorType(x).clone(shapeOf(indices)), x, indices, dim);
}

LogicalResult GatherElementsOp::verify() {
  return verifyElements(*this, tensorType(getX()), getIndices(), tensorType(getY()), getDim());
}

OpFoldResult GatherElementsOp::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }

LogicalResult GatherElementsOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  return forEachElement(*this, shapeOf(getX()), *operands[1], getDim(),
                        [&](int64_t to, int64_t from) { copyElement(*operands[0], from, results[0], to); });
}

SmallVector<Value> GatherElementsOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  int64_t dim = getDim();
  SmallVector<Value> index(ivs);
  index[dim] = emitWrapIndex(builder, loc, load(builder, 1, ivs), shapeOf(getX())[dim]);
  return {load(builder, 0, index)};
}

void GatherElementsOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                     MutableArrayRef<Value> operandGrads) {
  Value g = castToCompute(builder, getLoc(), resultGrads[0]);
  auto type = tensorType(getX()).clone(tensorType(g).getElementType());
  Value dx = ScatterElementsAddOp::create(builder, getLoc(), type, g, getIndices(), getDim());
  operandGrads[0] = castToType(builder, getLoc(), dx, getX().getType());
}

LogicalResult ScatterElementsAddOp::verify() {
  return verifyElements(*this, tensorType(getY()), getIndices(), tensorType(getUpdates()), getDim());
}

LogicalResult ScatterElementsAddOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  return forEachElement(*this, shapeOf(getY()), *operands[1], getDim(), [&](int64_t from, int64_t to) {
    results[0].floats()[to] += operands[0]->floats()[from];
  });
}

void ScatterElementsAddOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                         MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = GatherElementsOp::create(builder, getLoc(), resultGrads[0], getIndices(), getDim());
}

int64_t ScatterElementsAddOp::getNumUnits() { return productOf(without(shapeOf(getY()), getDim())); }

void ScatterElementsAddOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store,
                                    ValueRange) {
  int64_t dim = getDim(), size = shapeOf(getY())[dim];
  Line line = emitLine(builder, loc, unit, shapeOf(getY()), dim);
  Value zero = emitConstant(builder, loc, tensorType(getY()).getElementType(), 0);
  emitLoop(builder, loc, size, [&](OpBuilder &b, Value i) { store(b, 0, line.at(i), zero); }, true);
  if (tensorType(getUpdates()).getNumElements() == 0)
    return;
  // Lines beyond the indices in some other dimension receive nothing.
  Value count = emitIndex(builder, loc, shapeOf(getIndices())[dim]), none = emitIndex(builder, loc, 0);
  SmallVector<int64_t> whole = without(shapeOf(getY()), dim), part = without(shapeOf(getIndices()), dim);
  for (auto [i, larger, smaller] : llvm::zip(line.others, whole, part))
    if (smaller < larger) {
      Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, i,
                                           emitIndex(builder, loc, smaller));
      count = arith::SelectOp::create(builder, loc, inside, count, none);
    }
  emitLoop(builder, loc, none, count, [&](OpBuilder &b, Value i) {
    SmallVector<Value> from = line.at(i), to = line.at(emitWrapIndex(b, loc, load(b, 1, from), size));
    store(b, 0, to, arith::AddFOp::create(b, loc, load(b, /*result 0=*/2, to), load(b, 0, from)));
  });
}

//===-- cumsum -----------------------------------------------------------------------------------------------------===//

LogicalResult CumsumOp::verify() { return verifyDim(*this, getX(), getDim()); }

OpFoldResult CumsumOp::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }

template <typename E>
static void evalCumsum(CumsumOp op, ArrayRef<E> x, MutableArrayRef<E> y) {
  int64_t size = shapeOf(op.getX())[op.getDim()];
  forEachLine(shapeOf(op.getX()), op.getDim(), [&](int64_t first, int64_t stride) {
    E sum = 0;
    for (int64_t k = 0; k < size; ++k) {
      int64_t i = first + (op.getReverse() ? size - 1 - k : k) * stride;
      E next = sum + x[i];
      y[i] = op.getExclusive() ? sum : next;
      sum = next;
    }
  });
}

LogicalResult CumsumOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  if (operands[0]->isFloat())
    evalCumsum<double>(*this, operands[0]->floats(), results[0].floats());
  else
    evalCumsum<int64_t>(*this, operands[0]->ints(), results[0].ints());
  return success();
}

void CumsumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                             MutableArrayRef<Value> operandGrads) {
  operandGrads[0] =
      CumsumOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getDim(), getExclusive(), !getReverse());
}

int64_t CumsumOp::getNumUnits() { return productOf(without(shapeOf(getX()), getDim())); }

void CumsumOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  int64_t size = shapeOf(getX())[getDim()];
  Type type = tensorType(getX()).getElementType();
  Line line = emitLine(builder, loc, unit, shapeOf(getX()), getDim());
  emitFold(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, size),
           emitConstant(builder, loc, getComputeType(type), 0), [&](OpBuilder &b, Value k, ValueRange sum) {
             Value i = getReverse() ? Value(arith::SubIOp::create(b, loc, emitIndex(b, loc, size - 1), k)) : k;
             Value next =
                 emitCombine(b, loc, Combine::Add, sum[0], loadCompute(b, loc, load, 0, line.at(i)).value);
             store(b, 0, line.at(i), emitConvert(b, loc, getExclusive() ? sum[0] : next, type));
             return SmallVector<Value>{next};
           });
}

//===-- arg_max ----------------------------------------------------------------------------------------------------===//

void ArgMaxOp::build(OpBuilder &builder, OperationState &state, Value x, int64_t dim, bool last) {
  build(builder, state, RankedTensorType::get(without(shapeOf(x), dim), builder.getI64Type()), x, dim, last);
}

LogicalResult ArgMaxOp::verify() {
  if (failed(verifyDim(*this, getX(), getDim())))
    return failure();
  SmallVector<int64_t> expected = without(shapeOf(getX()), getDim());
  if (shapeOf(getY()) != ArrayRef(expected))
    return emitOpError() << "expected a result of shape [" << expected << "], found " << getY().getType();
  if (shapeOf(getX())[getDim()] == 0)
    return emitOpError() << "dimension " << getDim() << " has no elements to choose from";
  return success();
}

OpFoldResult ArgMaxOp::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }

template <typename E>
static void evalArgMax(ArgMaxOp op, ArrayRef<E> x, MutableArrayRef<int64_t> y) {
  int64_t size = shapeOf(op.getX())[op.getDim()], result = 0;
  forEachLine(shapeOf(op.getX()), op.getDim(), [&](int64_t first, int64_t stride) {
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
      E value = x[first + i * stride], old = x[first + best * stride];
      if (op.getLast() ? !isGreater(old, value) : isGreater(value, old))
        best = i;
    }
    y[result++] = best;
  });
}

LogicalResult ArgMaxOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  if (operands[0]->isFloat())
    evalArgMax<double>(*this, operands[0]->floats(), results[0].ints());
  else
    evalArgMax<int64_t>(*this, operands[0]->ints(), results[0].ints());
  return success();
}

int64_t ArgMaxOp::getNumUnits() { return tensorType(getY()).getNumElements(); }

void ArgMaxOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  int64_t size = shapeOf(getX())[getDim()];
  Line line = emitLine(builder, loc, unit, shapeOf(getX()), getDim());
  auto element = [&](OpBuilder &b, Value i) { return loadCompute(b, loc, load, 0, line.at(i)).value; };
  Value first = emitIndex(builder, loc, 0);
  SmallVector<Value> best = emitFold(
      builder, loc, emitIndex(builder, loc, 1), emitIndex(builder, loc, size), {element(builder, first), first},
      [&](OpBuilder &b, Value i, ValueRange old) {
        Value value = element(b, i), taken = emitIsGreater(b, loc, value, old[0]);
        if (getLast())
          taken = arith::OrIOp::create(b, loc, taken, emitIsEqual(b, loc, value, old[0]));
        return SmallVector<Value>{arith::SelectOp::create(b, loc, taken, value, old[0]),
                                  arith::SelectOp::create(b, loc, taken, i, old[1])};
      });
  store(builder, 0, line.others, emitConvert(builder, loc, best[1], tensorType(getY()).getElementType()));
}

//===-- top_k ------------------------------------------------------------------------------------------------------===//

void TopKOp::build(OpBuilder &builder, OperationState &state, Value x, int64_t dim, int64_t k) {
  SmallVector<int64_t> shape(shapeOf(x));
  shape[dim] = k;
  build(builder, state, tensorType(x).clone(shape), RankedTensorType::get(shape, builder.getI64Type()), x, dim);
}

LogicalResult TopKOp::verify() {
  RankedTensorType x = tensorType(getX()), values = tensorType(getValues());
  if (failed(verifyDim(*this, getX(), getDim())))
    return failure();
  if (values.getRank() != x.getRank() || values.getElementType() != x.getElementType() ||
      without(values.getShape(), getDim()) != without(x.getShape(), getDim()))
    return emitOpError() << "values must differ from " << x << " in dimension " << getDim() << " alone, found "
                         << values;
  if (values.getDimSize(getDim()) > x.getDimSize(getDim()))
    return emitOpError() << "cannot choose " << values.getDimSize(getDim()) << " of " << x.getDimSize(getDim())
                         << " elements";
  if (shapeOf(getIndices()) != values.getShape())
    return emitOpError() << "indices must have the values' shape";
  return success();
}

template <typename E>
static void evalTopK(TopKOp op, ArrayRef<E> x, MutableArrayRef<E> values, MutableArrayRef<int64_t> indices) {
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  int64_t dim = op.getDim(), k = shapeOf(op.getValues())[dim], line = 0;
  SmallVector<int64_t> order(shape[dim]);
  forEachLine(shape, dim, [&](int64_t first, int64_t stride) {
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int64_t a, int64_t b) {
      E left = x[first + a * stride], right = x[first + b * stride];
      return isGreater(left, right) || (!isGreater(right, left) && a < b);
    });
    int64_t target = line / stride * k * stride + line % stride;
    for (int64_t r = 0; r < k; ++r) {
      values[target + r * stride] = x[first + order[r] * stride];
      indices[target + r * stride] = order[r];
    }
    ++line;
  });
}

LogicalResult TopKOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  if (operands[0]->isFloat())
    evalTopK<double>(*this, operands[0]->floats(), results[0].floats(), results[1].ints());
  else
    evalTopK<int64_t>(*this, operands[0]->ints(), results[0].ints(), results[1].ints());
  return success();
}

void TopKOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                           MutableArrayRef<Value> operandGrads) {
  Value g = castToCompute(builder, getLoc(), resultGrads[0]);
  auto type = tensorType(getX()).clone(tensorType(g).getElementType());
  Value dx = ScatterElementsAddOp::create(builder, getLoc(), type, g, getIndices(), getDim());
  operandGrads[0] = castToType(builder, getLoc(), dx, getX().getType());
}

int64_t TopKOp::getNumUnits() { return productOf(without(shapeOf(getX()), getDim())); }

void TopKOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  int64_t size = shapeOf(getX())[getDim()], k = shapeOf(getValues())[getDim()];
  Type type = tensorType(getX()).getElementType(), computeType = getComputeType(type);
  Line line = emitLine(builder, loc, unit, shapeOf(getX()), getDim());
  Value zero = emitIndex(builder, loc, 0), none = emitIndex(builder, loc, -1);
  Value nothing = emitConstant(builder, loc, computeType, 0);
  auto isNone = [&](OpBuilder &b, Value i) {
    return Value(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, i, zero));
  };
  // Each round looks for the best element that comes after the last one chosen.
  emitFold(
      builder, loc, zero, emitIndex(builder, loc, k), {nothing, none},
      [&](OpBuilder &round, Value r, ValueRange last) {
        SmallVector<Value> chosen = emitFold(
            round, loc, zero, emitIndex(round, loc, size), {nothing, none},
            [&](OpBuilder &b, Value i, ValueRange best) {
              Value value = loadCompute(b, loc, load, 0, line.at(i)).value;
              Value later = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, i, last[1]);
              Value tied = arith::AndIOp::create(b, loc, emitIsEqual(b, loc, value, last[0]), later);
              Value after = arith::OrIOp::create(b, loc, emitIsGreater(b, loc, last[0], value), tied);
              after = arith::OrIOp::create(b, loc, after, isNone(b, last[1]));
              Value better =
                  arith::OrIOp::create(b, loc, emitIsGreater(b, loc, value, best[0]), isNone(b, best[1]));
              Value taken = arith::AndIOp::create(b, loc, after, better);
              return SmallVector<Value>{arith::SelectOp::create(b, loc, taken, value, best[0]),
                                        arith::SelectOp::create(b, loc, taken, i, best[1])};
            });
        store(round, 0, line.at(r), emitConvert(round, loc, chosen[0], type));
        store(round, 1, line.at(r), emitConvert(round, loc, chosen[1], round.getI64Type()));
        return chosen;
      });
}
