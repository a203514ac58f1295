#include "IndexMath.h"
#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::scrimp;

/// y[index] = x[source(index)] for every index, in the interpreter. A negative source leaves y as it is.
static void copyElements(const HostTensor &x, HostTensor &y, function_ref<int64_t(ArrayRef<int64_t>)> source) {
  forEachIndex(y.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t from = source(index);
    if (from < 0)
      return;
    copyElement(x, from, y, i);
  });
}

//===-- constant, iota ---------------------------------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult ConstantOp::eval(ArrayRef<const HostTensor *>, MutableArrayRef<HostTensor> results) {
  results[0] = HostTensor::get(getValue());
  return success();
}

bool ConstantOp::isFreeInKernel() { return isa<SplatElementsAttr>(getValue()); }

SmallVector<Value> ConstantOp::emitElement(OpBuilder &builder, Location loc, ValueRange, LoadFn) {
  // Only splats are emitted; others become tensors of the program.
  auto splat = cast<SplatElementsAttr>(getValue());
  return {arith::ConstantOp::create(builder, loc, cast<TypedAttr>(splat.getSplatValue<Attribute>()))};
}

bool IotaOp::isFreeInKernel() { return true; }

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) >= tensorType(getY()).getRank())
    return emitOpError() << "dim " << getDim() << " is not below the rank " << tensorType(getY()).getRank();
  return success();
}

LogicalResult IotaOp::eval(ArrayRef<const HostTensor *>, MutableArrayRef<HostTensor> results) {
  double start = getStart().convertToDouble(), step = getStep().convertToDouble();
  HostTensor &y = results[0];
  forEachIndex(y.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    double value = start + step * index[getDim()];
    if (y.isFloat())
      y.floats()[i] = value;
    else
      y.ints()[i] = static_cast<int64_t>(value);
  });
  return success();
}

SmallVector<Value> IotaOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn) {
  // In f64, whose products of an index and a step are those of the interpreter.
  Type type = tensorType(getY()).getElementType(), wide = isa<FloatType>(type) ? builder.getF64Type() : type;
  ScalarExpr i(builder, loc, emitConvert(builder, loc, ivs[getDim()], wide));
  ScalarExpr value = like(i, getStart().convertToDouble()) + like(i, getStep().convertToDouble()) * i;
  return {roundToResult(builder, *this, 0, value.value)};
}

//===-- broadcast --------------------------------------------------------------------------------------------------===//

bool BroadcastOp::isFreeInKernel() { return true; }

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getY());
  bool fits = from.size() <= to.size() && tensorType(getX()).getElementType() == tensorType(getY()).getElementType();
  for (size_t d = 0; fits && d < from.size(); ++d)
    fits = from[d] == 1 || from[d] == to[to.size() - from.size() + d];
  if (!fits)
    return emitOpError() << getX().getType() << " does not broadcast to " << getY().getType();
  return success();
}

/// Whether `reshape` does no more than put dimensions of size 1 in front.
static bool addsLeadingOnes(ReshapeOp reshape) {
  ArrayRef<int64_t> from = shapeOf(reshape.getX()), to = shapeOf(reshape.getY());
  return to.size() > from.size() && to.take_back(from.size()) == from;
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  if (auto inner = getX().getDefiningOp<BroadcastOp>()) {
    getXMutable().assign(inner.getX());
    return getResult();
  }
  if (auto reshape = getX().getDefiningOp<ReshapeOp>(); reshape && addsLeadingOnes(reshape)) {
    getXMutable().assign(reshape.getX());
    return getResult();
  }
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(tensorType(getY()));
  return foldExactly(*this, adaptor.getOperands());
}

LogicalResult BroadcastOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(getX()));
  for (auto [stride, size] : llvm::zip(strides, shapeOf(getX())))
    if (size == 1)
      stride = 0;
  size_t leading = shapeOf(getY()).size() - strides.size();
  copyElements(*operands[0], results[0],
               [&](ArrayRef<int64_t> index) { return linearize(index.drop_front(leading), strides); });
  return success();
}

SmallVector<Value> BroadcastOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  SmallVector<Value> index(ivs.drop_front(ivs.size() - shapeOf(getX()).size()));
  for (auto [i, size] : llvm::zip(index, shapeOf(getX())))
    if (size == 1)
      i = emitIndex(builder, loc, 0);
  return {load(builder, 0, index)};
}

void BroadcastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = sumTo(builder, getLoc(), resultGrads[0], shapeOf(getX()));
}

//===-- reshape ----------------------------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getY());
  if (from.getNumElements() != to.getNumElements() || from.getElementType() != to.getElementType())
    return emitOpError() << from << " cannot be seen as " << to;
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(inner.getX());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getX()))
    return dense.reshape(tensorType(getY()));
  return {};
}

LogicalResult ReshapeOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = operands[0]->withType(results[0].getType());
  return success();
}

void ReshapeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                              MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = reshapeTo(builder, getLoc(), resultGrads[0], shapeOf(getX()));
}

//===-- transpose --------------------------------------------------------------------------------------------------===//

void TransposeOp::build(OpBuilder &builder, OperationState &state, Value x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t d : permutation)
    shape.push_back(shapeOf(x)[d]);
  build(builder, state, tensorType(x).clone(shape), x, permutation);
}

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> permutation = getPermutation(), from = shapeOf(getX()), to = shapeOf(getY());
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  for (auto [i, d] : llvm::enumerate(sorted))
    if (static_cast<int64_t>(i) != d)
      return emitOpError() << "not a permutation: [" << permutation << "]";
  if (permutation.size() != from.size() || to.size() != from.size())
    return emitOpError() << "the permutation has " << permutation.size() << " entries for rank " << from.size();
  for (auto [i, d] : llvm::enumerate(permutation))
    if (to[i] != from[d])
      return emitOpError() << "result dimension " << i << " must be " << from[d] << ", found " << to[i];
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getX();
  if (auto inner = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t d : getPermutation())
      composed.push_back(inner.getPermutation()[d]);
    setPermutation(composed);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(tensorType(getY()));
  return foldExactly(*this, adaptor.getOperands());
}

LogicalResult TransposeOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(getX())), permuted;
  for (int64_t d : getPermutation())
    permuted.push_back(strides[d]);
  copyElements(*operands[0], results[0], [&](ArrayRef<int64_t> index) { return linearize(index, permuted); });
  return success();
}

SmallVector<Value> TransposeOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  SmallVector<Value> index(ivs.size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    index[d] = ivs[i];
  return {load(builder, 0, index)};
}

bool TransposeOp::isFreeInKernel() { return getOperation()->hasAttr(ScrimpDialect::kInReaders); }

bool TransposeOp::keepsRows() {
  return !getPermutation().empty() && getPermutation().back() == static_cast<int64_t>(getPermutation().size()) - 1;
}

bool TransposeOp::placesOperands() { return keepsRows(); }

SmallVector<Value> TransposeOp::emitPlace(OpBuilder &, Location, unsigned, ValueRange ivs) {
  SmallVector<Value> index;
  for (int64_t d : getPermutation())
    index.push_back(ivs[d]);
  return index;
}

void TransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    inverse[d] = i;
  operandGrads[0] = TransposeOp::create(builder, getLoc(), resultGrads[0], inverse);
}

//===-- slice, pad -------------------------------------------------------------------------------------------------===//

/// Checks that starts + i * strides, i below `small`, stays inside `large`.
static LogicalResult verifyPlacement(Operation *op, RankedTensorType small, RankedTensorType large,
                                     ArrayRef<int64_t> starts, ArrayRef<int64_t> strides) {
  size_t rank = small.getRank();
  if (large.getRank() != small.getRank() || starts.size() != rank || strides.size() != rank)
    return op->emitOpError() << "operand, result, starts and strides must have one rank";
  if (small.getElementType() != large.getElementType())
    return op->emitOpError() << "element types differ";
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = small.getDimSize(d), last = starts[d] + (size - 1) * strides[d], bound = large.getDimSize(d);
    if (strides[d] == 0)
      return op->emitOpError() << "stride of dimension " << d << " is 0";
    if (size > 0 && (std::min(starts[d], last) < 0 || std::max(starts[d], last) >= bound))
      return op->emitOpError() << "dimension " << d << " runs from " << starts[d] << " to " << last
                               << ", outside [0, " << bound << ")";
  }
  return success();
}

LogicalResult SliceOp::verify() {
  return verifyPlacement(*this, tensorType(getY()), tensorType(getX()), getStarts(), getStrides());
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType() && llvm::all_of(getStrides(), [](int64_t s) { return s == 1; }))
    return getX();
  if (auto inner = getX().getDefiningOp<SliceOp>()) {
    SmallVector<int64_t> starts, strides;
    for (auto [start, stride, innerStart, innerStride] :
         llvm::zip(getStarts(), getStrides(), inner.getStarts(), inner.getStrides())) {
      starts.push_back(innerStart + start * innerStride);
      strides.push_back(stride * innerStride);
    }
    setStarts(starts);
    setStrides(strides);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(tensorType(getY()));
  return foldExactly(*this, adaptor.getOperands());
}

LogicalResult SliceOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(getX()));
  copyElements(*operands[0], results[0], [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d)
      from += (getStarts()[d] + index[d] * getStrides()[d]) * strides[d];
    return from;
  });
  return success();
}

SmallVector<Value> SliceOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  SmallVector<Value> index;
  for (auto [iv, start, stride] : llvm::zip(ivs, getStarts(), getStrides())) {
    Value scaled = stride == 1 ? iv : arith::MulIOp::create(builder, loc, iv, emitIndex(builder, loc, stride));
    index.push_back(start == 0 ? scaled
                               : arith::AddIOp::create(builder, loc, scaled, emitIndex(builder, loc, start)));
  }
  return {load(builder, 0, index)};
}

bool SliceOp::isFreeInKernel() { return getOperation()->hasAttr(ScrimpDialect::kInReaders); }

bool SliceOp::keepsRows() { return !getStrides().empty() && getStrides().back() == 1; }

void SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                            MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = PadOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getStarts(), getStrides(),
                                  llvm::APFloat(0.0));
}

LogicalResult PadOp::verify() {
  return verifyPlacement(*this, tensorType(getX()), tensorType(getY()), getStarts(), getStrides());
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  bool whole = getX().getType() == getY().getType() && llvm::all_of(getStrides(), [](int64_t s) { return s == 1; });
  return whole ? OpFoldResult(getX()) : OpFoldResult();
}

LogicalResult PadOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = HostTensor::splat(results[0].getType(), getValue().convertToDouble());
  ArrayRef<int64_t> sizes = shapeOf(getX());
  SmallVector<int64_t> strides = rowMajorStrides(sizes);
  copyElements(*operands[0], results[0], [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t distance = index[d] - getStarts()[d], i = distance / getStrides()[d];
      if (distance % getStrides()[d] != 0 || i < 0 || i >= sizes[d])
        return int64_t(-1);
      from += i * strides[d];
    }
    return from;
  });
  return success();
}

SmallVector<Value> PadOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  Type type = tensorType(getY()).getElementType();
  Value fill = emitConstant(builder, loc, type, getValue().convertToDouble());
  if (tensorType(getX()).getNumElements() == 0)
    return {fill};
  SmallVector<Value> index;
  Value zero = emitIndex(builder, loc, 0), inside;
  for (size_t d = 0; d < ivs.size(); ++d) {
    int64_t size = shapeOf(getX())[d], start = getStarts()[d], stride = getStrides()[d];
    if (size == shapeOf(getY())[d] && stride == 1) {
      index.push_back(ivs[d]);
      continue;
    }
    Value distance = arith::SubIOp::create(builder, loc, ivs[d], emitIndex(builder, loc, start)), i = distance;
    Value valid;
    if (stride != 1) {
      Value step = emitIndex(builder, loc, stride);
      i = arith::DivSIOp::create(builder, loc, distance, step);
      Value rest = arith::RemSIOp::create(builder, loc, distance, step);
      valid = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rest, zero);
    }
    // One unsigned comparison covers both ends.
    Value below = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, i, emitIndex(builder, loc, size));
    valid = valid ? Value(arith::AndIOp::create(builder, loc, valid, below)) : below;
    inside = inside ? Value(arith::AndIOp::create(builder, loc, inside, valid)) : valid;
    index.push_back(arith::SelectOp::create(builder, loc, below, i, zero));
  }
  Value element = load(builder, 0, index);
  return {inside ? Value(arith::SelectOp::create(builder, loc, inside, element, fill)) : element};
}

void PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                          MutableArrayRef<Value> operandGrads) {
  operandGrads[0] =
      SliceOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getStarts(), getStrides());
}

//===-- concat -----------------------------------------------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  RankedTensorType y = tensorType(getY());
  int64_t dim = getDim(), total = 0;
  if (getXs().empty() || dim < 0 || dim >= y.getRank())
    return emitOpError() << "needs an operand and a dimension below the rank " << y.getRank() << ", found " << dim;
  for (Value x : getXs()) {
    if (tensorType(x).getRank() != y.getRank())
      return emitOpError() << "operands must have rank " << y.getRank();
    SmallVector<int64_t> shape(shapeOf(x));
    total += shape[dim];
    shape[dim] = y.getDimSize(dim);
    if (y.clone(shape) != y || tensorType(x).getElementType() != y.getElementType())
      return emitOpError() << x.getType() << " does not fit into " << y << " along dimension " << dim;
  }
  if (total != y.getDimSize(dim))
    return emitOpError() << "operands add up to " << total << " along dimension " << dim << ", the result has "
                         << y.getDimSize(dim);
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  if (getXs().size() == 1)
    return getXs()[0];
  return foldExactly(*this, adaptor.getOperands());
}

LogicalResult ConcatOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t begin = 0, dim = getDim();
  for (const HostTensor *x : operands) {
    int64_t size = x->getShape()[dim];
    SmallVector<int64_t> strides = rowMajorStrides(x->getShape());
    copyElements(*x, results[0], [&](ArrayRef<int64_t> index) {
      if (index[dim] < begin || index[dim] >= begin + size)
        return int64_t(-1);
      return linearize(index, strides) - begin * strides[dim];
    });
    begin += size;
  }
  return success();
}

SmallVector<Value> ConcatOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  // Every operand is read at a clamped index and the right one chosen: no branches in the inner loop.
  Value result, zero = emitIndex(builder, loc, 0);
  int64_t begin = 0, dim = getDim();
  for (auto [k, x] : llvm::enumerate(getXs())) {
    int64_t size = shapeOf(x)[dim];
    if (size == 0)
      continue;
    Value first = emitIndex(builder, loc, begin), last = emitIndex(builder, loc, size - 1);
    Value distance = arith::SubIOp::create(builder, loc, ivs[dim], first);
    SmallVector<Value> index(ivs);
    index[dim] = arith::MinSIOp::create(builder, loc, arith::MaxSIOp::create(builder, loc, distance, zero), last);
    Value element = load(builder, k, index);
    Value here = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, ivs[dim], first);
    result = result ? Value(arith::SelectOp::create(builder, loc, here, element, result)) : element;
    begin += size;
  }
  return {result};
}

bool ConcatOp::placesOperands() { return true; }

SmallVector<Value> ConcatOp::emitPlace(OpBuilder &builder, Location loc, unsigned operand, ValueRange ivs) {
  int64_t begin = 0;
  for (Value before : getXs().take_front(operand))
    begin += shapeOf(before)[getDim()];
  SmallVector<Value> index(ivs);
  if (begin)
    index[getDim()] = arith::AddIOp::create(builder, loc, index[getDim()], emitIndex(builder, loc, begin));
  return index;
}

void ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> starts(tensorType(getY()).getRank(), 0), strides(starts.size(), 1);
  for (auto [k, x] : llvm::enumerate(getXs())) {
    if (needed[k])
      operandGrads[k] = SliceOp::create(builder, getLoc(), x.getType(), resultGrads[0], starts, strides);
    starts[getDim()] += shapeOf(x)[getDim()];
  }
}
