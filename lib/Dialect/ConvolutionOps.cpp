#include "IndexMath.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/runtime/workspace.h"

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::Conv2dKind;
using ::scrimp::runtime::Conv2dShape;

namespace {
/// The parameters that all three ops carry.
struct Window {
  ArrayRef<int64_t> strides, pads, dilations;
  int64_t groups;
};
} // namespace

template <typename Op> static Window windowOf(Op op) {
  return {op.getStrides(), op.getPads(), op.getDilations(), static_cast<int64_t>(op.getGroups())};
}

static Conv2dShape shapeFrom(ArrayRef<int64_t> x, ArrayRef<int64_t> w, Window window) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          w[0],
          w[2],
          w[3],
          window.strides[0],
          window.strides[1],
          window.pads[0],
          window.pads[1],
          window.pads[2],
          window.pads[3],
          window.dilations[0],
          window.dilations[1],
          window.groups};
}

static Conv2dShape convShape(Conv2dOp op) { return shapeFrom(shapeOf(op.getX()), shapeOf(op.getW()), windowOf(op)); }
static Conv2dShape convShape(Conv2dInputGradOp op) {
  return shapeFrom(shapeOf(op.getDx()), shapeOf(op.getW()), windowOf(op));
}
static Conv2dShape convShape(Conv2dWeightGradOp op) {
  return shapeFrom(shapeOf(op.getX()), shapeOf(op.getDw()), windowOf(op));
}

/// Checks a convolution of `x` with `w` that gives `y`, whichever of them are operands.
static LogicalResult verifyConv2d(Operation *op, Value x, Value w, Value y, Window window) {
  Type element = tensorType(op->getOperand(0)).getElementType();
  for (Value value : {x, w, y}) {
    Type found = tensorType(value).getElementType();
    bool isSum = value == op->getResult(0) && found == getComputeType(element);
    if (tensorType(value).getRank() != 4 || (found != element && !isSum))
      return op->emitOpError() << "images and weights must have rank 4 and one element type, or the result that of "
                                  "sums, found "
                               << value.getType();
  }
  if (window.strides.size() != 2 || window.dilations.size() != 2 || window.pads.size() != 4)
    return op->emitOpError() << "needs 2 strides, 4 pads and 2 dilations, found " << window.strides.size() << ", "
                             << window.pads.size() << " and " << window.dilations.size();
  auto below = [](int64_t bound) { return [bound](int64_t value) { return value < bound; }; };
  if (llvm::any_of(window.strides, below(1)) || llvm::any_of(window.dilations, below(1)) ||
      llvm::any_of(window.pads, below(0)))
    return op->emitOpError() << "strides and dilations must be positive and pads not negative";
  int64_t channels = shapeOf(x)[1], filters = shapeOf(w)[0];
  if (window.groups < 1 || channels % window.groups != 0 || filters % window.groups != 0)
    return op->emitOpError() << window.groups << " groups do not divide " << channels << " channels and " << filters
                             << " filters";
  if (shapeOf(w)[1] != channels / window.groups)
    return op->emitOpError() << "weights must have " << channels / window.groups << " input channels, found "
                             << shapeOf(w)[1];
  Conv2dShape shape = shapeFrom(shapeOf(x), shapeOf(w), window);
  int64_t spanH = shape.dilH * (shape.KH - 1) + 1, spanW = shape.dilW * (shape.KW - 1) + 1;
  if (shape.KH < 1 || shape.KW < 1 || shape.H + shape.padTop + shape.padBottom < spanH ||
      shape.W + shape.padLeft + shape.padRight < spanW)
    return op->emitOpError() << "a window of " << spanH << " x " << spanW << " does not fit into the padded image of "
                             << shape.H + shape.padTop + shape.padBottom << " x "
                             << shape.W + shape.padLeft + shape.padRight;
  auto expected = tensorType(y).clone({shape.N, shape.O, shape.outH(), shape.outW()});
  if (y.getType() != expected)
    return op->emitOpError() << "the convolution's result must be " << expected << ", found " << y.getType();
  return success();
}

/// The result's gradient in the type of the operands.
static Value gradientOfProduct(Operation *op, OpBuilder &builder, Value g) {
  return castToType(builder, op->getLoc(), g, tensorType(g).clone(tensorType(op->getOperand(0)).getElementType()));
}

/// Calls `term(xIndex, wIndex, yIndex)` (linear indices) for every product that the convolution sums.
template <typename Term> static void forEachTerm(const Conv2dShape &s, Term term) {
  int64_t outH = s.outH(), outW = s.outW();
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t o = 0; o < s.O; ++o)
      for (int64_t i = 0; i < outH; ++i)
        for (int64_t j = 0; j < outW; ++j)
          for (int64_t c = 0; c < s.channels(); ++c)
            for (int64_t k = 0; k < s.KH; ++k) {
              int64_t h = i * s.strideH - s.padTop + k * s.dilH;
              if (h < 0 || h >= s.H)
                continue;
              for (int64_t l = 0; l < s.KW; ++l) {
                int64_t w = j * s.strideW - s.padLeft + l * s.dilW;
                if (w < 0 || w >= s.W)
                  continue;
                int64_t channel = o / s.filters() * s.channels() + c;
                term(((n * s.C + channel) * s.H + h) * s.W + w, ((o * s.channels() + c) * s.KH + k) * s.KW + l,
                     ((n * s.O + o) * outH + i) * outW + j);
              }
            }
}

static int64_t convFlops(const Conv2dShape &s) { return 2 * s.N * s.O * s.positions() * s.channels() * s.taps(); }

static LibraryCall convCall(StringRef function, const Conv2dShape &s) {
  return {function.str(),
          {s.N, s.C, s.H, s.W, s.O, s.KH, s.KW, s.strideH, s.strideW, s.padTop, s.padLeft, s.padBottom, s.padRight,
           s.dilH, s.dilW, s.groups},
          {}};
}

static SmallVector<RankedTensorType> convWorkspace(Operation *op, Conv2dKind kind, const Conv2dShape &shape,
                                                   int64_t workers) {
  Type operand = tensorType(op->getOperand(0)).getElementType(), result = tensorType(op->getResult(0)).getElementType();
  ::scrimp::runtime::ElementBytes each{elementBytesOf(operand), elementBytesOf(getComputeType(operand)),
                                       elementBytesOf(result)};
  int64_t bytes = ::scrimp::runtime::conv2dWorkspaceBytes(kind, shape, each, workers);
  return {RankedTensorType::get({bytes}, IntegerType::get(op->getContext(), 8))};
}

//===-- conv2d
//-----------------------------------------------------------------------------------------------------===//

void Conv2dOp::build(OpBuilder &builder, OperationState &state, Value x, Value w, ArrayRef<int64_t> strides,
                     ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations, int64_t groups) {
  Conv2dShape shape = shapeFrom(shapeOf(x), shapeOf(w), {strides, pads, dilations, groups});
  build(builder, state, tensorType(x).clone({shape.N, shape.O, shape.outH(), shape.outW()}), x, w, strides, pads,
        dilations, groups);
}

LogicalResult Conv2dOp::verify() { return verifyConv2d(*this, getX(), getW(), getY(), windowOf(*this)); }

int64_t Conv2dOp::getFlops() { return convFlops(convShape(*this)); }
LibraryCall Conv2dOp::getLibraryCall() { return convCall("conv2d", convShape(*this)); }
SmallVector<RankedTensorType> Conv2dOp::getWorkspaceTypes(int64_t workers) {
  return convWorkspace(*this, Conv2dKind::forward, convShape(*this), workers);
}

LogicalResult Conv2dOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats(), w = operands[1]->floats();
  MutableArrayRef<double> y = results[0].floats();
  forEachTerm(convShape(*this), [&](int64_t i, int64_t j, int64_t k) { y[k] += x[i] * w[j]; });
  return success();
}

void Conv2dOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  Value g = gradientOfProduct(*this, builder, resultGrads[0]);
  if (needed[0])
    operandGrads[0] = Conv2dInputGradOp::create(builder, getLoc(), getX().getType(), g, getW(), getStrides(), getPads(),
                                                getDilations(), getGroups());
  if (needed[1])
    operandGrads[1] = Conv2dWeightGradOp::create(builder, getLoc(), getW().getType(), getX(), g, getStrides(),
                                                 getPads(), getDilations(), getGroups());
}

//===-- conv2d_input_grad
//------------------------------------------------------------------------------------------===//

LogicalResult Conv2dInputGradOp::verify() { return verifyConv2d(*this, getDx(), getW(), getDy(), windowOf(*this)); }

int64_t Conv2dInputGradOp::getFlops() { return convFlops(convShape(*this)); }
LibraryCall Conv2dInputGradOp::getLibraryCall() { return convCall("conv2d_input_grad", convShape(*this)); }
SmallVector<RankedTensorType> Conv2dInputGradOp::getWorkspaceTypes(int64_t workers) {
  return convWorkspace(*this, Conv2dKind::inputGrad, convShape(*this), workers);
}

LogicalResult Conv2dInputGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> dy = operands[0]->floats(), w = operands[1]->floats();
  MutableArrayRef<double> dx = results[0].floats();
  forEachTerm(convShape(*this), [&](int64_t i, int64_t j, int64_t k) { dx[i] += dy[k] * w[j]; });
  return success();
}

void Conv2dInputGradOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                      MutableArrayRef<Value> operandGrads) {
  Value g = gradientOfProduct(*this, builder, resultGrads[0]);
  if (needed[0])
    operandGrads[0] = Conv2dOp::create(builder, getLoc(), getDy().getType(), g, getW(), getStrides(), getPads(),
                                       getDilations(), getGroups());
  if (needed[1])
    operandGrads[1] = Conv2dWeightGradOp::create(builder, getLoc(), getW().getType(), g, getDy(), getStrides(),
                                                 getPads(), getDilations(), getGroups());
}

//===-- conv2d_weight_grad
//-----------------------------------------------------------------------------------------===//

LogicalResult Conv2dWeightGradOp::verify() { return verifyConv2d(*this, getX(), getDw(), getDy(), windowOf(*this)); }

int64_t Conv2dWeightGradOp::getFlops() { return convFlops(convShape(*this)); }
LibraryCall Conv2dWeightGradOp::getLibraryCall() { return convCall("conv2d_weight_grad", convShape(*this)); }
SmallVector<RankedTensorType> Conv2dWeightGradOp::getWorkspaceTypes(int64_t workers) {
  return convWorkspace(*this, Conv2dKind::weightGrad, convShape(*this), workers);
}

LogicalResult Conv2dWeightGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats(), dy = operands[1]->floats();
  MutableArrayRef<double> dw = results[0].floats();
  forEachTerm(convShape(*this), [&](int64_t i, int64_t j, int64_t k) { dw[j] += dy[k] * x[i]; });
  return success();
}

void Conv2dWeightGradOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                       MutableArrayRef<Value> operandGrads) {
  Value g = gradientOfProduct(*this, builder, resultGrads[0]);
  if (needed[0])
    operandGrads[0] = Conv2dInputGradOp::create(builder, getLoc(), getX().getType(), getDy(), g, getStrides(),
                                                getPads(), getDilations(), getGroups());
  if (needed[1])
    operandGrads[1] = Conv2dOp::create(builder, getLoc(), getDy().getType(), getX(), g, getStrides(), getPads(),
                                       getDilations(), getGroups());
}

//===-- As products of matrices
//------------------------------------------------------------------------------------===//

template <typename Op> static Conv2dShape columnsShape(Op op, Value image, Value columns) {
  Window window{op.getStrides(), op.getPads(), op.getDilations(), static_cast<int64_t>(op.getGroups())};
  ArrayRef<int64_t> x = shapeOf(image), kernel = op.getKernel();
  // As many filters as groups: there may be any number.
  return shapeFrom(x, {window.groups, x[1] / window.groups, kernel[0], kernel[1]}, window);
}
static Conv2dShape columnsShape(Im2ColOp op) { return columnsShape(op, op.getX(), op.getY()); }
static Conv2dShape columnsShape(Col2ImOp op) { return columnsShape(op, op.getY(), op.getX()); }

static SmallVector<int64_t> shapeOfColumns(const Conv2dShape &s) {
  return {s.groups, s.channels() * s.taps(), s.N * s.positions()};
}

template <typename Op> static LogicalResult verifyColumns(Op op, Value image, Value columns) {
  if (tensorType(image).getRank() != 4 || op.getKernel().size() != 2 || op.getStrides().size() != 2 ||
      op.getPads().size() != 4 || op.getDilations().size() != 2 || op.getGroups() < 1 ||
      shapeOf(image)[1] % op.getGroups())
    return op.emitOpError() << "needs images of rank 4 whose channels the groups divide, 2 kernel sizes, strides and "
                               "dilations, and 4 pads, found "
                            << image.getType();
  if (SmallVector<int64_t> expected = shapeOfColumns(columnsShape(op)); shapeOf(columns) != ArrayRef(expected))
    return op.emitOpError() << "columns must be [" << expected[0] << ", " << expected[1] << ", " << expected[2]
                            << "], found " << columns.getType();
  return success();
}

LogicalResult Im2ColOp::verify() {
  if (tensorType(getX()).getElementType() != tensorType(getY()).getElementType())
    return emitOpError() << "moves elements, found " << getX().getType() << " and " << getY().getType();
  return verifyColumns(*this, getX(), getY());
}
LogicalResult Col2ImOp::verify() { return verifyColumns(*this, getY(), getX()); }

/// Calls `visit(image element, column element)` for each pair, windows in order.
template <typename Visit> static void forEachColumn(const Conv2dShape &s, Visit visit) {
  SmallVector<int64_t> columns = shapeOfColumns(s);
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t c = 0; c < s.C; ++c)
      for (int64_t k = 0; k < s.taps(); ++k)
        for (int64_t p = 0; p < s.positions(); ++p) {
          int64_t h = p / s.outW() * s.strideH - s.padTop + k / s.KW * s.dilH;
          int64_t w = p % s.outW() * s.strideW - s.padLeft + k % s.KW * s.dilW;
          if (h >= 0 && h < s.H && w >= 0 && w < s.W)
            visit(((n * s.C + c) * s.H + h) * s.W + w, (c * s.taps() + k) * columns[2] + n * s.positions() + p);
        }
}

LogicalResult Im2ColOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  forEachColumn(columnsShape(*this), [&](int64_t i, int64_t j) { results[0].floats()[j] = operands[0]->floats()[i]; });
  return success();
}

LogicalResult Col2ImOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  forEachColumn(columnsShape(*this), [&](int64_t i, int64_t j) { results[0].floats()[i] += operands[0]->floats()[j]; });
  return success();
}

// Made behind all passes that would cut them.
DimensionRule Im2ColOp::getDimensionRule() { return DimensionRule(*this); }
DimensionRule Col2ImOp::getDimensionRule() { return DimensionRule(*this); }

int64_t Im2ColOp::getNumUnits() { return tensorType(getY()).getNumElements(); }
int64_t Col2ImOp::getNumUnits() { return tensorType(getY()).getNumElements(); }

namespace {
/// Index arithmetic in a kernel.
struct IndexEmitter {
  OpBuilder &b;
  Location loc;
  Value constant(int64_t value) const { return emitIndex(b, loc, value); }
  Value affine(Value a, int64_t factor, Value c, int64_t scale, int64_t offset) const {
    Value first = arith::MulIOp::create(b, loc, a, constant(factor));
    Value second = arith::MulIOp::create(b, loc, c, constant(scale));
    return arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, first, second), constant(offset));
  }
  Value isWithin(Value value, int64_t size) const { // as if unsigned: negative ones are large
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, value, constant(size));
  }
  Value both(Value a, Value c) const { return arith::AndIOp::create(b, loc, a, c); }
  /// `value` where the condition holds, else 0: an index that may be read.
  Value orZero(Value condition, Value value) const {
    return arith::SelectOp::create(b, loc, condition, value, constant(0));
  }
};
} // namespace

void Im2ColOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Conv2dShape s = columnsShape(*this);
  IndexEmitter index{builder, loc};
  SmallVector<Value> at = emitDelinearize(builder, loc, unit, shapeOf(getY()));
  SmallVector<Value> tap = emitDelinearize(builder, loc, at[1], {s.channels(), s.KH, s.KW});
  SmallVector<Value> place = emitDelinearize(builder, loc, at[2], {s.N, s.outH(), s.outW()});
  Value h = index.affine(place[1], s.strideH, tap[1], s.dilH, -s.padTop);
  Value w = index.affine(place[2], s.strideW, tap[2], s.dilW, -s.padLeft);
  Value isInside = index.both(index.isWithin(h, s.H), index.isWithin(w, s.W));
  Value channel = index.affine(at[0], s.channels(), tap[0], 1, 0);
  Value element = load(builder, 0, {place[0], channel, index.orZero(isInside, h), index.orZero(isInside, w)});
  Value zero = emitConstant(builder, loc, element.getType(), 0);
  store(builder, 0, at, arith::SelectOp::create(builder, loc, isInside, element, zero));
}

void Col2ImOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Conv2dShape s = columnsShape(*this);
  SmallVector<Value> at = emitDelinearize(builder, loc, unit, shapeOf(getY()));
  Type compute = getComputeType(tensorType(getX()).getElementType());
  auto loop = scf::ForOp::create(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, s.taps()),
                                 emitIndex(builder, loc, 1), ValueRange{emitConstant(builder, loc, compute, 0)});
  {
    OpBuilder b = OpBuilder::atBlockBegin(loop.getBody());
    IndexEmitter index{b, loc};
    SmallVector<Value> tap = emitDelinearize(b, loc, loop.getInductionVar(), {s.KH, s.KW});
    Value isWindow;
    // The window's place along a dimension, where it stands on a multiple of the stride.
    auto placeOf = [&](Value i, Value k, int64_t stride, int64_t dilation, int64_t pad, int64_t count) -> Value {
      Value from = index.affine(i, 1, k, -dilation, pad);
      Value isFrom = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, from, index.constant(0));
      from = index.orZero(isFrom, from);
      Value place = arith::DivUIOp::create(b, loc, from, index.constant(stride));
      Value rest = arith::RemUIOp::create(b, loc, from, index.constant(stride));
      Value isMultiple = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rest, index.constant(0));
      Value fits = index.both(index.both(isFrom, isMultiple), index.isWithin(place, count));
      isWindow = isWindow ? index.both(isWindow, fits) : fits;
      return index.orZero(fits, place);
    };
    Value oh = placeOf(at[2], tap[0], s.strideH, s.dilH, s.padTop, s.outH());
    Value ow = placeOf(at[3], tap[1], s.strideW, s.dilW, s.padLeft, s.outW());
    Value group = arith::DivUIOp::create(b, loc, at[1], index.constant(s.channels()));
    Value inGroup = arith::RemUIOp::create(b, loc, at[1], index.constant(s.channels()));
    Value row = emitLinearize(b, loc, {inGroup, tap[0], tap[1]}, {s.channels(), s.KH, s.KW});
    Value column = emitLinearize(b, loc, {at[0], oh, ow}, {s.N, s.outH(), s.outW()});
    Value element = emitConvert(b, loc, load(b, 0, {group, row, column}), compute);
    element = arith::SelectOp::create(b, loc, isWindow, element, emitConstant(b, loc, compute, 0));
    scf::YieldOp::create(b, loc, emitCombine(b, loc, Combine::Add, loop.getRegionIterArgs()[0], element));
  }
  store(builder, 0, at, emitConvert(builder, loc, loop.getResult(0), tensorType(getY()).getElementType()));
}

namespace {
/// A convolution's operands and results as matrices, one product for each group.
class MatrixForm {
public:
  MatrixForm(OpBuilder &builder, Location loc, const Conv2dShape &s, Window window)
      : builder(builder), loc(loc), s(s), window(window) {}

  /// [O, C / groups, KH, KW] by groups.
  Value weights(Value w) { return reshapeTo(builder, loc, w, {s.groups, s.filters(), s.channels() * s.taps()}); }
  Value columns(Value x) {
    return Im2ColOp::create(builder, loc, tensorType(x).clone(shapeOfColumns(s)), x, kernel(), window.strides,
                            window.pads, window.dilations, window.groups);
  }
  Value image(Value columns, RankedTensorType type) {
    return Col2ImOp::create(builder, loc, type, columns, kernel(), window.strides, window.pads, window.dilations,
                            window.groups);
  }
  /// Images like y by groups, samples and positions as one dimension; and back.
  Value outputs(Value y) {
    Value split = reshapeTo(builder, loc, y, {s.N, s.groups, s.filters(), s.positions()});
    return reshapeTo(builder, loc, transpose(split, {1, 2, 0, 3}), {s.groups, s.filters(), s.N * s.positions()});
  }
  Value fromOutputs(Value y) {
    Value split = reshapeTo(builder, loc, y, {s.groups, s.filters(), s.N, s.positions()});
    return reshapeTo(builder, loc, transpose(split, {2, 0, 1, 3}), {s.N, s.O, s.outH(), s.outW()});
  }
  Value product(Value a, Value b, bool transposeA, bool transposeB, Type element) {
    ArrayRef<int64_t> left = shapeOf(a), right = shapeOf(b);
    auto type = RankedTensorType::get({left[0], left[transposeA ? 2 : 1], right[transposeB ? 1 : 2]}, element);
    return MatmulOp::create(builder, loc, type, a, b, transposeA, transposeB, /*acc=*/Value());
  }

private:
  SmallVector<int64_t> kernel() { return {s.KH, s.KW}; }
  Value transpose(Value value, ArrayRef<int64_t> permutation) {
    return TransposeOp::create(builder, loc, value, permutation);
  }

  OpBuilder &builder;
  Location loc;
  const Conv2dShape s;
  Window window;
};
} // namespace

SmallVector<Value> Conv2dOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  if (!target.isDevice())
    return {};
  MatrixForm form(builder, getLoc(), convShape(*this), windowOf(*this));
  Type element = tensorType(getY()).getElementType();
  return {form.fromOutputs(form.product(form.weights(getW()), form.columns(getX()), false, false, element))};
}

SmallVector<Value> Conv2dInputGradOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  if (!target.isDevice())
    return {};
  MatrixForm form(builder, getLoc(), convShape(*this), windowOf(*this));
  Type sums = getComputeType(tensorType(getDy()).getElementType());
  Value columns = form.product(form.weights(getW()), form.outputs(getDy()), true, false, sums);
  return {form.image(columns, getDx().getType())};
}

SmallVector<Value> Conv2dWeightGradOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  if (!target.isDevice())
    return {};
  MatrixForm form(builder, getLoc(), convShape(*this), windowOf(*this));
  Value product =
      form.product(form.outputs(getDy()), form.columns(getX()), false, true, tensorType(getDw()).getElementType());
  return {reshapeTo(builder, getLoc(), product, shapeOf(getDw()))};
}
