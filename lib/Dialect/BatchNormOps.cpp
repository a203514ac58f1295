#include "IndexMath.h"
#include "MapOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

/// Elements of a channel of x[N, C, ...].
static int64_t channelSize(Value x) { return tensorType(x).getNumElements() / std::max<int64_t>(shapeOf(x)[1], 1); }

/// Checks that every one of `vectors` has one element per channel of `x`, of x's compute type.
static LogicalResult verifyChannels(Operation *op, Value x, ArrayRef<Value> vectors) {
  RankedTensorType type = tensorType(x);
  if (type.getRank() < 2)
    return op->emitOpError() << "needs [N, C, ...], found " << type;
  auto expected = RankedTensorType::get(type.getDimSize(1), getComputeType(type.getElementType()));
  for (Value vector : vectors)
    if (vector.getType() != expected)
      return op->emitOpError() << "vectors must be " << expected << ", found " << vector.getType();
  if (type.getDimSize(1) > 0 && channelSize(x) < 2)
    return op->emitOpError() << "needs more than one value per channel in training, found " << type;
  return success();
}

/// Calls `fn(linear index)` for every element of channel `c`, in row-major order.
static void forEachInChannel(ArrayRef<int64_t> shape, int64_t c, function_ref<void(int64_t)> fn) {
  int64_t inner = productOf(shape.drop_front(2));
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t s = 0; s < inner; ++s)
      fn((n * shape[1] + c) * inner + s);
}

/// Sums `element(index)`, one value per sum, over the elements of channel `c`: samples in order, each sample's elements
/// by lanes where there are enough to fill them, else the whole channel by lanes.
static SmallVector<Value> emitChannelSums(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape, Value c,
                                          unsigned count, Type type,
                                          function_ref<SmallVector<Value>(OpBuilder &, ValueRange index)> element) {
  SmallVector<Combine> kinds(count, Combine::Add);
  SmallVector<Type> types(count, type);
  ArrayRef<int64_t> inner = shape.drop_front(2);
  auto reduceOver = [&](OpBuilder &builder, ArrayRef<int64_t> sizes, std::optional<Value> sample) {
    return emitReduce(builder, loc, productOf(sizes), kinds, types, [&](OpBuilder &b, Value j) {
      SmallVector<Value> parts = emitDelinearize(b, loc, j, sizes), index;
      if (sample)
        index.push_back(*sample);
      llvm::append_range(index, parts);
      index.insert(index.begin() + 1, c);
      return element(b, index);
    });
  };
  if (productOf(inner) < 16) {
    SmallVector<int64_t> sizes{shape[0]};
    llvm::append_range(sizes, inner);
    return reduceOver(builder, sizes, std::nullopt);
  }
  SmallVector<Value> zeros(count, emitConstant(builder, loc, type, 0));
  return emitFold(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, shape[0]), zeros,
                  [&](OpBuilder &b, Value n, ValueRange sums) {
                    SmallVector<Value> parts = reduceOver(b, inner, n);
                    for (auto [part, sum] : llvm::zip(parts, sums))
                      part = arith::AddFOp::create(b, loc, sum, part);
                    return parts;
                  });
}

/// Calls `body(index)` for every element of channel `c`; the elements are independent.
static void emitForChannel(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape, Value c,
                           function_ref<void(OpBuilder &, ValueRange index)> body) {
  SmallVector<int64_t> sizes{shape[0]};
  llvm::append_range(sizes, shape.drop_front(2));
  emitLoopNest(
      builder, loc, sizes,
      [&](OpBuilder &b, ValueRange at) {
        SmallVector<Value> index(at);
        index.insert(index.begin() + 1, c);
        body(b, index);
      },
      true);
}

/// A vector of channels repeated over the shape of x.
static GraphExpr spreadChannels(GraphExpr vector, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> withOnes(shape.size() - 1, 1);
  withOnes[0] = shape[1];
  Value column = reshapeTo(*vector.builder, vector.loc, vector.value, withOnes);
  return vector.with(broadcastTo(*vector.builder, vector.loc, column, shape));
}

/// The sum over each channel.
static Value sumChannels(OpBuilder &builder, Location loc, Value value) {
  SmallVector<int64_t> dims{0};
  for (int64_t dim = 2; dim < tensorType(value).getRank(); ++dim)
    dims.push_back(dim);
  return ReduceOp::create(builder, loc, ReduceKind::sum, value, dims);
}

//===-- batch_norm
//-------------------------------------------------------------------------------------------------===//

void BatchNormOp::build(OpBuilder &builder, OperationState &state, Value x, Value scale, Value bias, Value runningMean,
                        Value runningVar, double epsilon) {
  Type vector = scale.getType();
  build(builder, state, TypeRange{x.getType(), vector, vector, vector}, x, scale, bias, runningMean, runningVar,
        llvm::APFloat(epsilon));
}

LogicalResult BatchNormOp::verify() {
  if (getY().getType() != getX().getType())
    return emitOpError() << "result type must be " << getX().getType() << ", found " << getY().getType();
  return verifyChannels(*this, getX(),
                        {getScale(), getBias(), getRunningMean(), getRunningVar(), getMean(), getRstd(), getVar()});
}

LogicalResult BatchNormOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  auto in = [&](unsigned i) { return operands[i]->floats(); };
  auto out = [&](unsigned i) { return results[i].floats(); };
  ArrayRef<int64_t> shape = shapeOf(getX());
  double count = static_cast<double>(channelSize(getX()));
  for (int64_t c = 0; c < shape[1]; ++c) {
    double mean = 0, var = 0;
    forEachInChannel(shape, c, [&](int64_t i) { mean += in(0)[i]; });
    mean /= count;
    forEachInChannel(shape, c, [&](int64_t i) { var += (in(0)[i] - mean) * (in(0)[i] - mean); });
    double rstd = 1 / std::sqrt(var / count + getEpsilon().convertToDouble());
    forEachInChannel(shape, c, [&](int64_t i) { out(0)[i] = (in(0)[i] - mean) * (rstd * in(1)[c]) + in(2)[c]; });
    out(1)[c] = mean;
    out(2)[c] = rstd;
    out(3)[c] = var / (count - 1);
  }
  return success();
}

void BatchNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  ArrayRef<int64_t> shape = shapeOf(getX());
  auto expr = [&](Value value) { return GraphExpr(builder, loc, castToCompute(builder, loc, value)); };
  auto deviations = [&] { return expr(getX()) - spreadChannels(expr(getMean()), shape); };
  double count = static_cast<double>(channelSize(getX()));

  if (Value dy = resultGrads[0]; dy && (needed[0] || needed[1] || needed[2])) {
    // One op, whatever is wanted of it, so that a gradient's bits do not depend on what else is frozen. Its sums need
    // both passes over dy and x anyway.
    auto grad = BatchNormGradOp::create(builder, loc, dy, getX(), getScale(), getMean(), getRstd());
    for (unsigned i : {0u, 1u, 2u})
      if (needed[i])
        operandGrads[i] = grad->getResult(i);
  }

  // The statistics are results too. With v the mean squared deviation: d mean / dx = 1/n, d v / dx = 2 (x - mean) / n,
  // d rstd = -rstd^3 / 2 d v, d var = n / (n - 1) d v. The running statistics are read in evaluation only.
  if (!needed[0])
    return;
  std::optional<GraphExpr> dMean, dVar, dx;
  auto add = [](std::optional<GraphExpr> &sum, GraphExpr term) { sum = sum ? *sum + term : term; };
  if (resultGrads[1])
    add(dMean, expr(resultGrads[1]));
  if (resultGrads[2]) {
    GraphExpr rstd = expr(getRstd());
    add(dVar, expr(resultGrads[2]) * (-0.5 * (rstd * rstd * rstd)));
  }
  if (resultGrads[3])
    add(dVar, expr(resultGrads[3]) * (count / (count - 1)));
  if (!dMean && !dVar)
    return;
  if (operandGrads[0])
    dx = expr(operandGrads[0]);
  if (dMean)
    add(dx, spreadChannels(*dMean * (1 / count), shape));
  if (dVar)
    add(dx, spreadChannels(*dVar * (2 / count), shape) * deviations());
  operandGrads[0] = castToType(builder, loc, dx->value, getX().getType());
}

SmallVector<Value> BatchNormOp::buildEvaluation(OpBuilder &builder) {
  Location loc = getLoc();
  ArrayRef<int64_t> shape = shapeOf(getX());
  auto expr = [&](Value value) { return GraphExpr(builder, loc, value); };
  GraphExpr variance = expr(getRunningVar()) + getEpsilon().convertToDouble();
  GraphExpr rstd = expr(RsqrtOp::create(builder, loc, variance.value.getType(), variance.value));
  GraphExpr x = expr(castToCompute(builder, loc, getX()));
  GraphExpr y = (x - spreadChannels(expr(getRunningMean()), shape)) * spreadChannels(rstd * expr(getScale()), shape) +
                spreadChannels(expr(getBias()), shape);
  return {castToType(builder, loc, y.value, getY().getType()), getRunningMean(), rstd.value, getRunningVar()};
}

SmallVector<Value> BatchNormOp::buildSharedPiece(OpBuilder &builder, ValueRange operands, const SharedBatch &batch) {
  Location loc = getLoc();
  ArrayRef<int64_t> shape = shapeOf(operands[0]);
  double count = static_cast<double>(channelSize(getX()));
  auto expr = [&](Value value) { return GraphExpr(builder, loc, value); };
  auto sumOf = [&](GraphExpr value) {
    return expr(batch.addUp(sumChannels(builder, loc, batch.clearEmptyPlaces(value.value))));
  };
  GraphExpr x = expr(castToCompute(builder, loc, operands[0]));
  GraphExpr mean = sumOf(x) / count;
  GraphExpr deviation = x - spreadChannels(mean, shape);
  GraphExpr squares = sumOf(deviation * deviation);
  GraphExpr rstd = 1.0 / sqrt(squares / count + getEpsilon().convertToDouble());
  GraphExpr y = deviation * spreadChannels(rstd * expr(operands[1]), shape) + spreadChannels(expr(operands[2]), shape);
  return {castToType(builder, loc, y.value, operands[0].getType()), mean.value, rstd.value,
          (squares / (count - 1)).value};
}

int64_t BatchNormOp::getNumUnits() { return shapeOf(getX())[1]; }

bool BatchNormOp::mayOverwrite(unsigned operand, unsigned result) {
  // A unit reads its channel of x whole before it writes y, element over element.
  return operand == 0 && result == 0;
}

void BatchNormOp::emitUnit(OpBuilder &builder, Location loc, Value c, LoadFn load, StoreFn store, ValueRange) {
  ArrayRef<int64_t> shape = shapeOf(getX());
  Type type = tensorType(getScale()).getElementType(), xType = tensorType(getX()).getElementType();
  auto expr = [&](OpBuilder &b, Value value) { return ScalarExpr(b, loc, value); };
  auto element = [&](OpBuilder &b, ValueRange index) { return loadCompute(b, loc, load, 0, index); };
  auto vector = [&](unsigned operand) { return expr(builder, load(builder, operand, c)); };
  double count = static_cast<double>(channelSize(getX()));

  ScalarExpr sum = expr(builder, emitChannelSums(builder, loc, shape, c, 1, type, [&](OpBuilder &b, ValueRange index) {
                          return SmallVector<Value>{element(b, index).value};
                        })[0]);
  ScalarExpr mean = sum / count;
  ScalarExpr squares =
      expr(builder, emitChannelSums(builder, loc, shape, c, 1, type, [&](OpBuilder &b, ValueRange index) {
             ScalarExpr deviation = element(b, index) - expr(b, mean.value);
             return SmallVector<Value>{(deviation * deviation).value};
           })[0]);
  ScalarExpr rstd = 1.0 / sqrt(squares / count + getEpsilon().convertToDouble());
  ScalarExpr factor = rstd * vector(1), bias = vector(2);
  emitForChannel(builder, loc, shape, c, [&](OpBuilder &b, ValueRange index) {
    ScalarExpr y = (element(b, index) - expr(b, mean.value)) * expr(b, factor.value) + expr(b, bias.value);
    store(b, 0, index, emitConvert(b, loc, y.value, xType));
  });
  store(builder, 1, c, mean.value);
  store(builder, 2, c, rstd.value);
  store(builder, 3, c, (squares / (count - 1)).value);
}

//===-- batch_norm_grad
//--------------------------------------------------------------------------------------------===//

void BatchNormGradOp::build(OpBuilder &builder, OperationState &state, Value dy, Value x, Value scale, Value mean,
                            Value rstd) {
  build(builder, state, TypeRange{x.getType(), scale.getType(), scale.getType()}, dy, x, scale, mean, rstd);
}

LogicalResult BatchNormGradOp::verify() {
  for (Value value : {getDy(), getDx()})
    if (value.getType() != getX().getType())
      return emitOpError() << "gradients of images must be " << getX().getType() << ", found " << value.getType();
  return verifyChannels(*this, getX(), {getScale(), getMean(), getRstd(), getDscale(), getDbias()});
}

LogicalResult BatchNormGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> dy = operands[0]->floats(), x = operands[1]->floats(), scale = operands[2]->floats(),
                   mean = operands[3]->floats(), rstd = operands[4]->floats();
  ArrayRef<int64_t> shape = shapeOf(getX());
  double count = static_cast<double>(channelSize(getX()));
  for (int64_t c = 0; c < shape[1]; ++c) {
    double dBias = 0, dScale = 0;
    forEachInChannel(shape, c, [&](int64_t i) {
      dBias += dy[i];
      dScale += dy[i] * ((x[i] - mean[c]) * rstd[c]);
    });
    forEachInChannel(shape, c, [&](int64_t i) {
      results[0].floats()[i] =
          (dy[i] - dBias / count - (x[i] - mean[c]) * rstd[c] * (dScale / count)) * (scale[c] * rstd[c]);
    });
    results[1].floats()[c] = dScale;
    results[2].floats()[c] = dBias;
  }
  return success();
}

SmallVector<Value> BatchNormGradOp::buildSharedPiece(OpBuilder &builder, ValueRange operands,
                                                     const SharedBatch &batch) {
  Location loc = getLoc();
  ArrayRef<int64_t> shape = shapeOf(operands[1]);
  int64_t channels = shape[1];
  double count = static_cast<double>(channelSize(getX()));
  auto expr = [&](Value value) { return GraphExpr(builder, loc, castToCompute(builder, loc, value)); };
  auto sumOf = [&](GraphExpr value) { return sumChannels(builder, loc, batch.clearEmptyPlaces(value.value)); };
  GraphExpr dy = expr(operands[0]), scale = expr(operands[2]), rstd = expr(operands[4]);
  GraphExpr h = (expr(operands[1]) - spreadChannels(expr(operands[3]), shape)) * spreadChannels(rstd, shape);
  Value dScale = sumOf(dy * h), dBias = sumOf(dy);
  // Both sums are exchanged at once.
  RankedTensorType type = tensorType(dScale);
  Value all =
      batch.addUp(ConcatOp::create(builder, loc, type.clone({2 * channels}), ValueRange{dScale, dBias}, /*dim=*/0));
  auto mean = [&](int64_t begin) {
    return expr(SliceOp::create(builder, loc, type, all, ArrayRef<int64_t>{begin}, ArrayRef<int64_t>{1})) / count;
  };
  GraphExpr dx = (dy - spreadChannels(mean(channels), shape) - h * spreadChannels(mean(0), shape)) *
                 spreadChannels(scale * rstd, shape);
  Value result = batch.clearEmptyPlaces(dx.value);
  return {castToType(builder, loc, result, operands[1].getType()), dScale, dBias};
}

int64_t BatchNormGradOp::getNumUnits() { return shapeOf(getX())[1]; }

bool BatchNormGradOp::mayOverwrite(unsigned operand, unsigned result) {
  // Channels are read whole before dx is written, element over element.
  return result == 0 && operand <= 1;
}

void BatchNormGradOp::emitUnit(OpBuilder &builder, Location loc, Value c, LoadFn load, StoreFn store, ValueRange) {
  ArrayRef<int64_t> shape = shapeOf(getX());
  Type type = tensorType(getScale()).getElementType(), xType = tensorType(getX()).getElementType();
  auto vector = [&](unsigned operand) { return ScalarExpr(builder, loc, load(builder, operand, c)); };
  ScalarExpr scale = vector(2), mean = vector(3), rstd = vector(4);
  auto in = [&](OpBuilder &b, ScalarExpr e) { return ScalarExpr(b, loc, e.value); };
  auto dyAt = [&](OpBuilder &b, ValueRange index) { return loadCompute(b, loc, load, 0, index); };
  auto normalised = [&](OpBuilder &b, ValueRange index) {
    return (loadCompute(b, loc, load, 1, index) - in(b, mean)) * in(b, rstd);
  };
  double count = static_cast<double>(channelSize(getX()));
  SmallVector<Value> sums = emitChannelSums(builder, loc, shape, c, 2, type, [&](OpBuilder &b, ValueRange index) {
    ScalarExpr dy = dyAt(b, index);
    return SmallVector<Value>{(dy * normalised(b, index)).value, dy.value};
  });
  ScalarExpr dScale(builder, loc, sums[0]), dBias(builder, loc, sums[1]);
  ScalarExpr meanScale = dScale / count, meanBias = dBias / count, factor = scale * rstd;
  emitForChannel(builder, loc, shape, c, [&](OpBuilder &b, ValueRange index) {
    ScalarExpr dx = (dyAt(b, index) - in(b, meanBias) - normalised(b, index) * in(b, meanScale)) * in(b, factor);
    store(b, 0, index, emitConvert(b, loc, dx.value, xType));
  });
  store(builder, 1, c, dScale.value);
  store(builder, 2, c, dBias.value);
}
