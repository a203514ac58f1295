#include "IndexMath.h"
#include "MapOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// The windows along one dimension: window o covers the elements o * stride - padBegin + k * dilation, k < kernel,
/// that lie in [0, size).
struct Windows {
  int64_t size, count, kernel, stride, padBegin, padEnd, dilation;

  int64_t at(int64_t o, int64_t k) const { return o * stride - padBegin + k * dilation; }
  /// Elements of [begin, end) in window o.
  int64_t countIn(int64_t o, int64_t begin, int64_t end) const {
    int64_t found = 0;
    for (int64_t k = 0; k < kernel; ++k)
      found += at(o, k) >= begin && at(o, k) < end;
    return found;
  }
  bool holds(int64_t o, int64_t i) const {
    int64_t distance = i + padBegin - o * stride;
    return distance >= 0 && distance % dilation == 0 && distance / dilation < kernel;
  }
  /// What the mean over window o divides by, along this dimension.
  int64_t divisor(int64_t o, bool includePad) const {
    return includePad ? countIn(o, -padBegin, size + padEnd) : countIn(o, 0, size);
  }
  bool divisorIsConstant(bool includePad) const {
    for (int64_t o = 1; o < count; ++o)
      if (divisor(o, includePad) != divisor(0, includePad))
        return false;
    return true;
  }
};
} // namespace

/// Dimension `d` (0: H, 1: W) of a pooling op from images like `x` to images like `y`.
template <typename Op>
static Windows windowsOf(Op op, Value x, Value y, unsigned d) {
  return {shapeOf(x)[2 + d], shapeOf(y)[2 + d],  op.getKernel()[d],   op.getStrides()[d],
          op.getPads()[d],   op.getPads()[2 + d], op.getDilations()[d]};
}

template <typename Op>
static LogicalResult verifyPooling(Op op, Value x, Value y) {
  RankedTensorType from = tensorType(x), to = tensorType(y);
  if (from.getRank() != 4 || to.getRank() != 4 || from.getElementType() != to.getElementType() ||
      from.getShape().take_front(2) != to.getShape().take_front(2))
    return op.emitOpError() << "images must have rank 4, one element type, and the same N and C, found " << from
                            << " and " << to;
  if (op.getKernel().size() != 2 || op.getStrides().size() != 2 || op.getDilations().size() != 2 ||
      op.getPads().size() != 4)
    return op.emitOpError() << "needs 2 kernel sizes, strides and dilations, and 4 pads";
  for (unsigned d = 0; d < 2; ++d) {
    Windows w = windowsOf(op, x, y, d);
    if (w.kernel < 1 || w.stride < 1 || w.dilation < 1 || w.padBegin < 0 || w.padEnd < 0)
      return op.emitOpError() << "kernel sizes, strides and dilations must be positive and pads not negative";
    int64_t room = w.size + w.padBegin + w.padEnd - w.dilation * (w.kernel - 1) - 1;
    int64_t least = room < 0 ? 0 : room / w.stride + 1, most = room < 0 ? 0 : llvm::divideCeil(room, w.stride) + 1;
    if (w.count != least && w.count != most)
      return op.emitOpError() << "result dimension " << 2 + d << " must be " << least << ", or " << most
                              << " rounded up, found " << w.count;
    for (int64_t o = 0; o < w.count; ++o)
      if (w.countIn(o, 0, w.size) == 0)
        return op.emitOpError() << "window " << o << " of dimension " << 2 + d << " holds nothing but padding";
  }
  return success();
}

/// The k that lie inside [0, size) for window `o`: [begin, end).
static std::pair<Value, Value> emitTaps(OpBuilder &b, Location loc, const Windows &w, Value o) {
  Value zero = emitIndex(b, loc, 0), kernel = emitIndex(b, loc, w.kernel);
  bool alwaysInside = w.count == 0 || (w.at(0, 0) >= 0 && w.at(w.count - 1, w.kernel - 1) < w.size);
  if (alwaysInside)
    return {zero, kernel};
  // k >= (padBegin - o * stride) / dilation, and k < (size + padBegin - o * stride) / dilation, both rounded up.
  Value start = arith::MulIOp::create(b, loc, o, emitIndex(b, loc, w.stride));
  auto bound = [&](int64_t from) {
    Value distance = arith::SubIOp::create(b, loc, emitIndex(b, loc, from + w.dilation - 1), start);
    Value positive = arith::MaxSIOp::create(b, loc, distance, zero);
    Value k = w.dilation == 1 ? positive
                              : Value(arith::DivUIOp::create(b, loc, positive, emitIndex(b, loc, w.dilation)));
    return Value(arith::MinSIOp::create(b, loc, k, kernel));
  };
  return {bound(w.padBegin), bound(w.size + w.padBegin)};
}

/// The element that tap `k` of window `o` meets.
static Value emitPosition(OpBuilder &b, Location loc, const Windows &w, Value o, Value k) {
  Value position = arith::MulIOp::create(b, loc, o, emitIndex(b, loc, w.stride));
  Value tap = w.dilation == 1 ? k : Value(arith::MulIOp::create(b, loc, k, emitIndex(b, loc, w.dilation)));
  position = arith::AddIOp::create(b, loc, position, tap);
  return w.padBegin == 0 ? position
                         : Value(arith::SubIOp::create(b, loc, position, emitIndex(b, loc, w.padBegin)));
}

/// Folds `body(h, w, values)` over the elements of window (oh, ow), in row-major order.
static SmallVector<Value>
emitWindowFold(OpBuilder &builder, Location loc, const Windows &wh, const Windows &ww, Value oh, Value ow,
               ValueRange initial,
               function_ref<SmallVector<Value>(OpBuilder &, Value h, Value w, ValueRange values)> body) {
  auto [rowBegin, rowEnd] = emitTaps(builder, loc, wh, oh);
  auto [columnBegin, columnEnd] = emitTaps(builder, loc, ww, ow);
  return emitFold(builder, loc, rowBegin, rowEnd, initial, [&](OpBuilder &rows, Value k, ValueRange outer) {
    Value h = emitPosition(rows, loc, wh, oh, k);
    return emitFold(rows, loc, columnBegin, columnEnd, outer, [&](OpBuilder &b, Value l, ValueRange values) {
      return body(b, h, emitPosition(b, loc, ww, ow, l), values);
    });
  });
}

/// The divisor of the mean over window (oh, ow), in `type`.
static Value emitDivisor(OpBuilder &b, Location loc, const Windows &wh, const Windows &ww, Value oh, Value ow,
                         bool includePad, Type type) {
  auto along = [&](Windows w, Value o) {
    if (w.divisorIsConstant(includePad))
      return emitIndex(b, loc, w.count == 0 ? 1 : w.divisor(0, includePad));
    if (includePad) {
      w.size += w.padBegin + w.padEnd;
      w.padBegin = 0;
    }
    auto [begin, end] = emitTaps(b, loc, w, o);
    return Value(arith::SubIOp::create(b, loc, end, begin));
  };
  return emitConvert(b, loc, arith::MulIOp::create(b, loc, along(wh, oh), along(ww, ow)), type);
}

/// The sample and channel of a unit: a unit is a plane.
static SmallVector<Value> emitPlane(OpBuilder &builder, Location loc, Value unit, Value image) {
  return emitDelinearize(builder, loc, unit, shapeOf(image).take_front(2));
}
static SmallVector<Value> inPlane(ArrayRef<Value> plane, Value h, Value w) { return {plane[0], plane[1], h, w}; }

/// Of the windows that hold element `i` the first, and one behind the last. With dilation some between them do not.
static std::pair<Value, Value> emitAround(OpBuilder &b, Location loc, const Windows &w, Value i) {
  Value reach = emitIndex(b, loc, w.stride - 1 + w.padBegin - w.dilation * (w.kernel - 1));
  Value from = arith::MaxSIOp::create(b, loc, arith::AddIOp::create(b, loc, i, reach), emitIndex(b, loc, 0));
  Value to = arith::AddIOp::create(b, loc, i, emitIndex(b, loc, w.padBegin + w.stride));
  Value stride = emitIndex(b, loc, w.stride);
  Value end = arith::MinSIOp::create(b, loc, arith::DivUIOp::create(b, loc, to, stride), emitIndex(b, loc, w.count));
  return {arith::DivUIOp::create(b, loc, from, stride), end};
}

/// Whether window `o`, one of those around element `i`, holds it; null: they all do.
static Value emitHolds(OpBuilder &b, Location loc, const Windows &w, Value o, Value i) {
  if (w.dilation == 1)
    return nullptr;
  Value start = arith::MulIOp::create(b, loc, o, emitIndex(b, loc, w.stride));
  Value distance =
      arith::SubIOp::create(b, loc, arith::AddIOp::create(b, loc, i, emitIndex(b, loc, w.padBegin)), start);
  Value rest = arith::RemUIOp::create(b, loc, distance, emitIndex(b, loc, w.dilation));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rest, emitIndex(b, loc, 0));
}

/// Emits a plane of dx: each element is the sum of `term(b, oh, ow, h, w)` over the windows around it, in row-major
/// order. `term` gives a value and on what it depends whether it counts (null: it does).
static void
emitGradientPlane(OpBuilder &builder, Location loc, const Windows &wh, const Windows &ww, Value dx,
                  ArrayRef<Value> plane, StoreFn store,
                  function_ref<std::pair<Value, Value>(OpBuilder &, Value oh, Value ow, Value h, Value w)> term) {
  Type type = tensorType(dx).getElementType(), computeType = getComputeType(type);
  emitLoopNest(builder, loc, {wh.size, ww.size}, [&](OpBuilder &body, ValueRange at) {
    auto [rowBegin, rowEnd] = emitAround(body, loc, wh, at[0]);
    auto [columnBegin, columnEnd] = emitAround(body, loc, ww, at[1]);
    Value zero = emitConstant(body, loc, computeType, 0);
    Value sum = emitFold(body, loc, rowBegin, rowEnd, zero, [&](OpBuilder &rows, Value oh, ValueRange outer) {
      return emitFold(rows, loc, columnBegin, columnEnd, outer, [&](OpBuilder &b, Value ow, ValueRange old) {
        auto [value, counts] = term(b, oh, ow, at[0], at[1]);
        Value sum = arith::AddFOp::create(b, loc, old[0], value);
        return SmallVector<Value>{counts ? Value(arith::SelectOp::create(b, loc, counts, sum, old[0])) : sum};
      });
    })[0];
    store(body, 0, inPlane(plane, at[0], at[1]), emitConvert(body, loc, sum, type));
  });
}

static int64_t planesOf(Value image) { return shapeOf(image)[0] * shapeOf(image)[1]; }

//===-- max_pool2d -------------------------------------------------------------------------------------------------===//

void MaxPool2dOp::build(OpBuilder &builder, OperationState &state, Type y, Value x, ArrayRef<int64_t> kernel,
                        ArrayRef<int64_t> strides, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  build(builder, state, y, cast<RankedTensorType>(y).clone(builder.getI32Type()), x, kernel, strides, pads, dilations);
}

LogicalResult MaxPool2dOp::verify() {
  if (shapeOf(getIndices()) != shapeOf(getY()))
    return emitOpError() << "indices must have the result's shape";
  return verifyPooling(*this, getX(), getY());
}

LogicalResult MaxPool2dOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats();
  Windows wh = windowsOf(*this, getX(), getY(), 0), ww = windowsOf(*this, getX(), getY(), 1);
  forEachIndex(shapeOf(getY()), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t plane = (index[0] * shapeOf(getX())[1] + index[1]) * wh.size * ww.size, best = -1;
    for (int64_t k = 0; k < wh.kernel; ++k)
      for (int64_t l = 0; l < ww.kernel; ++l) {
        int64_t h = wh.at(index[2], k), w = ww.at(index[3], l), at = h * ww.size + w;
        if (h < 0 || h >= wh.size || w < 0 || w >= ww.size)
          continue;
        if (best < 0 || x[plane + at] > x[plane + best] || std::isnan(x[plane + at]))
          best = at;
      }
    results[0].floats()[i] = x[plane + best];
    results[1].ints()[i] = best;
  });
  return success();
}

void MaxPool2dOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = MaxPool2dGradOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getIndices(),
                                            getKernel(), getStrides(), getPads(), getDilations());
}

int64_t MaxPool2dOp::getNumUnits() { return planesOf(getY()); }

void MaxPool2dOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Windows wh = windowsOf(*this, getX(), getY(), 0), ww = windowsOf(*this, getX(), getY(), 1);
  SmallVector<Value> plane = emitPlane(builder, loc, unit, getY());
  Type type = tensorType(getX()).getElementType(), computeType = getComputeType(type), i32 = builder.getI32Type();
  emitLoopNest(builder, loc, {wh.count, ww.count}, [&](OpBuilder &body, ValueRange at) {
    Value lowest = emitNeutral(body, loc, Combine::Max, computeType), none = emitConstant(body, loc, i32, -1);
    SmallVector<Value> best = emitWindowFold(
        body, loc, wh, ww, at[0], at[1], {lowest, none}, [&](OpBuilder &b, Value h, Value w, ValueRange old) {
          Value value = emitConvert(b, loc, load(b, 0, inPlane(plane, h, w)), computeType);
          Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, value, old[0]);
          Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
          Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, old[1],
                                                emitConstant(b, loc, i32, 0));
          Value taken = arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, larger, isNan), isFirst);
          Value position = arith::AddIOp::create(
              b, loc, arith::MulIOp::create(b, loc, h, emitIndex(b, loc, ww.size)), w);
          return SmallVector<Value>{
              arith::SelectOp::create(b, loc, taken, value, old[0]),
              arith::SelectOp::create(b, loc, taken, emitConvert(b, loc, position, i32), old[1])};
        });
    SmallVector<Value> index = inPlane(plane, at[0], at[1]);
    store(body, 0, index, emitConvert(body, loc, best[0], type));
    store(body, 1, index, best[1]);
  });
}

//===-- max_pool2d_grad --------------------------------------------------------------------------------------------===//

LogicalResult MaxPool2dGradOp::verify() {
  if (shapeOf(getDy()) != shapeOf(getIndices()))
    return emitOpError() << "indices must have the gradient's shape";
  return verifyPooling(*this, getDx(), getDy());
}

LogicalResult MaxPool2dGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  Windows wh = windowsOf(*this, getDx(), getDy(), 0), ww = windowsOf(*this, getDx(), getDy(), 1);
  forEachIndex(shapeOf(getDy()), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t plane = index[0] * shapeOf(getDx())[1] + index[1], at = operands[1]->ints()[i];
    if (at >= 0 && at < wh.size * ww.size && wh.holds(index[2], at / ww.size) && ww.holds(index[3], at % ww.size))
      results[0].floats()[plane * wh.size * ww.size + at] += operands[0]->floats()[i];
  });
  return success();
}

void MaxPool2dGradOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                    MutableArrayRef<Value> operandGrads) {
  auto asRows = [&](Value image) {
    ArrayRef<int64_t> shape = shapeOf(image);
    return reshapeTo(builder, getLoc(), image, {shape[0] * shape[1], shape[2] * shape[3]});
  };
  Value chosen = GatherElementsOp::create(builder, getLoc(), asRows(resultGrads[0]), asRows(getIndices()), 1);
  operandGrads[0] = reshapeTo(builder, getLoc(), chosen, shapeOf(getDy()));
}

int64_t MaxPool2dGradOp::getNumUnits() { return planesOf(getDx()); }

void MaxPool2dGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Windows wh = windowsOf(*this, getDx(), getDy(), 0), ww = windowsOf(*this, getDx(), getDy(), 1);
  SmallVector<Value> plane = emitPlane(builder, loc, unit, getDx());
  Type computeType = getComputeType(tensorType(getDx()).getElementType()), i32 = builder.getI32Type();
  auto term = [&](OpBuilder &b, Value oh, Value ow, Value h, Value w) -> std::pair<Value, Value> {
    SmallVector<Value> from = inPlane(plane, oh, ow);
    Value here = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, h, emitIndex(b, loc, ww.size)), w);
    Value isChosen =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, load(b, 1, from), emitConvert(b, loc, here, i32));
    for (Value holds : {emitHolds(b, loc, wh, oh, h), emitHolds(b, loc, ww, ow, w)})
      if (holds)
        isChosen = arith::AndIOp::create(b, loc, isChosen, holds);
    return {emitConvert(b, loc, load(b, 0, from), computeType), isChosen};
  };
  emitGradientPlane(builder, loc, wh, ww, getDx(), plane, store, term);
}

//===-- avg_pool2d -------------------------------------------------------------------------------------------------===//

LogicalResult AvgPool2dOp::verify() { return verifyPooling(*this, getX(), getY()); }

/// Calls `term(xIndex, yIndex, divisor)` for every element of every window.
template <typename Op>
static void forEachAverageTerm(Op op, Value x, Value y, function_ref<void(int64_t, int64_t, double)> term) {
  Windows wh = windowsOf(op, x, y, 0), ww = windowsOf(op, x, y, 1);
  bool includePad = op.getCountIncludePad();
  forEachIndex(shapeOf(y), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t plane = (index[0] * shapeOf(x)[1] + index[1]) * wh.size * ww.size;
    double divisor = static_cast<double>(wh.divisor(index[2], includePad) * ww.divisor(index[3], includePad));
    for (int64_t k = 0; k < wh.kernel; ++k)
      for (int64_t l = 0; l < ww.kernel; ++l) {
        int64_t h = wh.at(index[2], k), w = ww.at(index[3], l);
        if (h >= 0 && h < wh.size && w >= 0 && w < ww.size)
          term(plane + h * ww.size + w, i, divisor);
      }
  });
}

LogicalResult AvgPool2dOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  // The sum first, then one division, as in the kernel.
  SmallVector<double> divisors(results[0].size(), 1);
  forEachAverageTerm(*this, getX(), getY(), [&](int64_t from, int64_t to, double divisor) {
    results[0].floats()[to] += operands[0]->floats()[from];
    divisors[to] = divisor;
  });
  for (auto [value, divisor] : llvm::zip(results[0].floats(), divisors))
    value /= divisor;
  return success();
}

void AvgPool2dOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = AvgPool2dGradOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getKernel(),
                                            getStrides(), getPads(), getDilations(), getCountIncludePad());
}

int64_t AvgPool2dOp::getNumUnits() { return planesOf(getY()); }

void AvgPool2dOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Windows wh = windowsOf(*this, getX(), getY(), 0), ww = windowsOf(*this, getX(), getY(), 1);
  SmallVector<Value> plane = emitPlane(builder, loc, unit, getY());
  Type type = tensorType(getX()).getElementType(), computeType = getComputeType(type);
  emitLoopNest(builder, loc, {wh.count, ww.count}, [&](OpBuilder &body, ValueRange at) {
    Value sum = emitWindowFold(body, loc, wh, ww, at[0], at[1], emitConstant(body, loc, computeType, 0),
                               [&](OpBuilder &b, Value h, Value w, ValueRange old) {
                                 Value value = emitConvert(b, loc, load(b, 0, inPlane(plane, h, w)), computeType);
                                 return SmallVector<Value>{arith::AddFOp::create(b, loc, old[0], value)};
                               })[0];
    Value divisor = emitDivisor(body, loc, wh, ww, at[0], at[1], getCountIncludePad(), computeType);
    store(body, 0, inPlane(plane, at[0], at[1]),
          emitConvert(body, loc, arith::DivFOp::create(body, loc, sum, divisor), type));
  });
}

//===-- avg_pool2d_grad --------------------------------------------------------------------------------------------===//

LogicalResult AvgPool2dGradOp::verify() { return verifyPooling(*this, getDx(), getDy()); }

LogicalResult AvgPool2dGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  forEachAverageTerm(*this, getDx(), getDy(), [&](int64_t to, int64_t from, double divisor) {
    results[0].floats()[to] += operands[0]->floats()[from] / divisor;
  });
  return success();
}

void AvgPool2dGradOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                    MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = AvgPool2dOp::create(builder, getLoc(), getDy().getType(), resultGrads[0], getKernel(),
                                        getStrides(), getPads(), getDilations(), getCountIncludePad());
}

int64_t AvgPool2dGradOp::getNumUnits() { return planesOf(getDx()); }

void AvgPool2dGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  Windows wh = windowsOf(*this, getDx(), getDy(), 0), ww = windowsOf(*this, getDx(), getDy(), 1);
  SmallVector<Value> plane = emitPlane(builder, loc, unit, getDx());
  Type computeType = getComputeType(tensorType(getDx()).getElementType());
  auto term = [&](OpBuilder &b, Value oh, Value ow, Value h, Value w) -> std::pair<Value, Value> {
    Value divisor = emitDivisor(b, loc, wh, ww, oh, ow, getCountIncludePad(), computeType);
    Value dy = emitConvert(b, loc, load(b, 0, inPlane(plane, oh, ow)), computeType);
    Value holdsH = emitHolds(b, loc, wh, oh, h), holdsW = emitHolds(b, loc, ww, ow, w);
    Value holds = holdsH && holdsW ? Value(arith::AndIOp::create(b, loc, holdsH, holdsW)) : holdsH ? holdsH : holdsW;
    return {arith::DivFOp::create(b, loc, dy, divisor), holds};
  };
  emitGradientPlane(builder, loc, wh, ww, getDx(), plane, store, term);
}
