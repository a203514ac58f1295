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

template <typename Op>
static Window windowOf(Op op) {
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
  return castToType(builder, op->getLoc(), g,
                    tensorType(g).clone(tensorType(op->getOperand(0)).getElementType()));
}

/// Calls `term(xIndex, wIndex, yIndex)` (linear indices) for every product that the convolution sums.
template <typename Term>
static void forEachTerm(const Conv2dShape &s, Term term) {
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

static int64_t convFlops(const Conv2dShape &s) {
  return 2 * s.N * s.O * s.positions() * s.channels() * s.taps();
}

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

//===-- conv2d -----------------------------------------------------------------------------------------------------===//

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
    operandGrads[0] = Conv2dInputGradOp::create(builder, getLoc(), getX().getType(), g, getW(), getStrides(),
                                                getPads(), getDilations(), getGroups());
  if (needed[1])
    operandGrads[1] = Conv2dWeightGradOp::create(builder, getLoc(), getW().getType(), getX(), g, getStrides(),
                                                 getPads(), getDilations(), getGroups());
}

//===-- conv2d_input_grad ------------------------------------------------------------------------------------------===//

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
    operandGrads[0] =
        Conv2dOp::create(builder, getLoc(), getDy().getType(), g, getW(), getStrides(), getPads(), getDilations(),
                         getGroups());
  if (needed[1])
    operandGrads[1] = Conv2dWeightGradOp::create(builder, getLoc(), getW().getType(), g, getDy(), getStrides(),
                                                 getPads(), getDilations(), getGroups());
}

//===-- conv2d_weight_grad -----------------------------------------------------------------------------------------===//

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
    operandGrads[1] =
        Conv2dOp::create(builder, getLoc(), getDy().getType(), getX(), g, getStrides(), getPads(), getDilations(),
                         getGroups());
}
