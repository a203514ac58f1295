// layer_norm, rms_norm and their gradients. The mean first, then the deviations' squares: no cancellation.
#include "ColumnSums.h"
#include "NeuralRows.h"

using namespace mlir;
using namespace mlir::scrimp;

//===-- Checks -----------------------------------------------------------------------------------------------------===//

static LogicalResult verifyNorm(Operation *op, Value x, int64_t axis, Value scale, Value bias, Value statistic) {
  RankedTensorType type = tensorType(x);
  if (axis < 0 || axis >= type.getRank())
    return op->emitOpError() << "axis " << axis << " must lie in [0, " << type.getRank() << "), the rank of x";
  auto expected = RankedTensorType::get(type.getShape().drop_front(axis), type.getElementType());
  RankedTensorType wideScale = expected.clone(getComputeType(type.getElementType()));
  for (auto [value, what] : {std::pair(scale, "scale"), std::pair(bias, "bias")})
    if (value && value.getType() != expected && value.getType() != wideScale)
      return op->emitOpError() << what << " must be " << expected << ", the normalized dimensions of x, found "
                               << value.getType();
  RankedTensorType wide = wideOuterType(type, axis);
  if (statistic.getType() != wide)
    return op->emitOpError() << "statistics must be " << wide << ", found " << statistic.getType();
  return success();
}

static LogicalResult verifyEpsilon(Operation *op, double epsilon) {
  if (!(epsilon >= 0))
    return op->emitOpError() << "epsilon must not be negative, found " << epsilon;
  return success();
}

static int64_t countRows(Value x, int64_t axis) { return productOf(shapeOf(x).take_front(axis)); }

/// A statistic or scale spread over x's shape: `value`'s dimensions are x's, from dimension `at` on.
static Value spread(OpBuilder &builder, Location loc, Value value, Value x, int64_t at) {
  SmallVector<int64_t> shape(shapeOf(x).size(), 1);
  llvm::copy(shapeOf(value), shape.begin() + at);
  Value result = broadcastTo(builder, loc, reshapeTo(builder, loc, value, shape), shapeOf(x));
  if (tensorType(result).getElementType() == tensorType(x).getElementType())
    return result;
  return CastOp::create(builder, loc, x.getType(), result);
}

static GraphExpr orZero(GraphExpr like, Value value) { return value ? like.with(value) : like.constant(0); }

//===-- layer_norm -------------------------------------------------------------------------------------------------===//

void LayerNormOp::build(OpBuilder &builder, OperationState &state, Value x, Value scale, Value bias, int64_t axis,
                        double epsilon) {
  Type statistic = wideOuterType(tensorType(x), axis);
  build(builder, state, x.getType(), statistic, statistic, x, scale, bias, axis, APFloat(epsilon));
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyEpsilon(*this, getEpsilon().convertToDouble())))
    return failure();
  return verifyNorm(*this, getX(), getAxis(), getScale(), getBias(), getMean());
}

int64_t LayerNormOp::getNumUnits() { return countRows(getX(), getAxis()); }
bool LayerNormOp::mayOverwrite(unsigned operand, unsigned result) { return operand == 0 && result == 0; }

LogicalResult LayerNormOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats(), scale, bias;
  if (getScale())
    scale = operands[1]->floats();
  if (getBias())
    bias = operands.back()->floats();
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    double mean = 0, squares = 0;
    for (int64_t j = 0; j < size; ++j)
      mean += x[row * size + j];
    mean /= size;
    for (int64_t j = 0; j < size; ++j)
      squares += (x[row * size + j] - mean) * (x[row * size + j] - mean);
    double rstd = 1 / std::sqrt(squares / size + getEpsilon().convertToDouble());
    results[1].floats()[row] = mean;
    results[2].floats()[row] = rstd;
    for (int64_t j = 0; j < size; ++j) {
      double y = (x[row * size + j] - mean) * rstd;
      y = scale.empty() ? y : y * scale[j];
      results[0].floats()[row * size + j] = bias.empty() ? y : y + bias[j];
    }
  }
  return success();
}

void LayerNormOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), getAxis());
  Type type = tensorType(getY()).getElementType(), compute = getComputeType(type);
  double size = row.getSize();
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  ScalarExpr mean = row.reduce(Combine::Add, compute, x) / size;
  ScalarExpr variance = row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) {
    ScalarExpr deviation = x(b, j) - in(b, mean);
    return deviation * deviation;
  }) / size;
  ScalarExpr rstd = 1.0 / sqrt(variance + getEpsilon().convertToDouble());
  store(builder, 1, row.getOuter(), mean.value);
  store(builder, 2, row.getOuter(), rstd.value);
  unsigned biasOperand = getScale() ? 2 : 1;
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) {
    ScalarExpr y = (x(b, j) - in(b, mean)) * in(b, rstd);
    if (getScale())
      y = y * loadCompute(b, loc, load, 1, row.within(b, j));
    if (getBias())
      y = y + loadCompute(b, loc, load, biasOperand, row.within(b, j));
    return y;
  });
}

void LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  int64_t axis = getAxis();
  Value g = resultGrads[0];
  auto normalized = [&] {
    GraphExpr x(builder, loc, getX());
    return (x - x.with(spread(builder, loc, getMean(), getX(), 0))) *
           x.with(spread(builder, loc, getRstd(), getX(), 0));
  };
  if (needed[0] && g)
    operandGrads[0] =
        LayerNormGradOp::create(builder, loc, getX(), getMean(), getRstd(), g, getScale(), getAxisAttr());
  if (needed[0] && (resultGrads[1] || resultGrads[2])) {
    // d mean / dx = 1 / n; d rstd / dx = -rstd^3 (x - mean) / n = -rstd^2 normalized / n.
    GraphExpr rstd(builder, loc, getRstd());
    GraphExpr ofMean = orZero(rstd, resultGrads[1]), ofRstd = orZero(rstd, resultGrads[2]);
    double size = productOf(shapeOf(getX()).drop_front(axis));
    GraphExpr slope = -(ofRstd * (rstd * rstd)) / size, n = normalized();
    GraphExpr dx = n.with(spread(builder, loc, (ofMean / size).value, getX(), 0)) +
                   n.with(spread(builder, loc, slope.value, getX(), 0)) * n;
    operandGrads[0] = operandGrads[0] ? (dx + dx.with(operandGrads[0])).value : dx.value;
  }
  unsigned biasOperand = getScale() ? 2 : 1;
  bool needsScale = g && getScale() && needed[1], needsBias = g && getBias() && needed[biasOperand];
  if (needsScale) {
    Type type = getScale().getType();
    auto grad = LayerNormParameterGradOp::create(builder, loc, type, type, getX(), getMean(), getRstd(), g,
                                                 getAxisAttr());
    operandGrads[1] = grad.getDscale();
    if (needsBias)
      operandGrads[2] = castToType(builder, loc, grad.getDbias(), getBias().getType());
  } else if (needsBias) {
    Value sum = ReduceOp::create(builder, loc, ReduceKind::sum, g, llvm::to_vector(llvm::seq<int64_t>(axis)));
    operandGrads[biasOperand] = castToType(builder, loc, sum, getBias().getType());
  }
}

LogicalResult LayerNormGradOp::verify() {
  return verifyNorm(*this, getX(), getAxis(), getScale(), {}, getMean());
}

int64_t LayerNormGradOp::getNumUnits() { return countRows(getX(), getAxis()); }
bool LayerNormGradOp::mayOverwrite(unsigned operand, unsigned) { return operand == 0 || operand == 3; }

LogicalResult LayerNormGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats(), g = operands[3]->floats();
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    double mean = operands[1]->floats()[row], rstd = operands[2]->floats()[row], sum = 0, product = 0;
    auto h = [&](int64_t j) { return getScale() ? g[row * size + j] * operands[4]->floats()[j] : g[row * size + j]; };
    auto n = [&](int64_t j) { return (x[row * size + j] - mean) * rstd; };
    for (int64_t j = 0; j < size; ++j) {
      sum += h(j);
      product += h(j) * n(j);
    }
    for (int64_t j = 0; j < size; ++j)
      results[0].floats()[row * size + j] = rstd * (h(j) - sum / size - n(j) * (product / size));
  }
  return success();
}

void LayerNormGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), getAxis());
  Type type = tensorType(getDx()).getElementType();
  double size = row.getSize();
  ScalarExpr mean = loadCompute(builder, loc, load, 1, row.getOuter());
  ScalarExpr rstd = loadCompute(builder, loc, load, 2, row.getOuter());
  auto h = [&](OpBuilder &b, Value j) {
    ScalarExpr g = loadCompute(b, loc, load, 3, row.at(b, j));
    return getScale() ? g * loadCompute(b, loc, load, 4, row.within(b, j)) : g;
  };
  auto n = [&](OpBuilder &b, Value j) {
    return (loadCompute(b, loc, load, 0, row.at(b, j)) - in(b, mean)) * in(b, rstd);
  };
  SmallVector<ScalarExpr> sums = row.reduce(Combine::Add, getComputeType(type), 2, [&](OpBuilder &b, Value j) {
    ScalarExpr hj = h(b, j);
    return SmallVector<ScalarExpr>{hj, hj * n(b, j)};
  });
  ScalarExpr meanOfH = sums[0] / size, meanOfProduct = sums[1] / size;
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) {
    return in(b, rstd) * ((h(b, j) - in(b, meanOfH)) - n(b, j) * in(b, meanOfProduct));
  });
}

//===-- Gradients of scale and bias ------------------------------------------------------------------------------===//

/// The slices of rows that the sums of a parameter's gradient are of.
static int64_t slicesOf(Value x, int64_t axis, Value gradient) {
  return productOf(shapeOf(gradient)) / std::max<int64_t>(1, productOf(shapeOf(x).drop_front(axis)));
}

static LogicalResult verifyParameterGrad(Operation *op, Value x, int64_t axis, Value gradient, Value statistic) {
  if (failed(verifyNorm(op, x, axis, {}, {}, statistic)))
    return failure();
  RankedTensorType type = tensorType(gradient);
  ArrayRef<int64_t> inner = shapeOf(x).drop_front(axis);
  Type element = tensorType(x).getElementType();
  bool isSliced = type.getRank() == static_cast<int64_t>(inner.size()) + 1 && type.getShape().drop_front() == inner &&
                  type.getDimSize(0) > 0 && countRows(x, axis) % type.getDimSize(0) == 0;
  if ((type.getShape() != inner && !isSliced) ||
      (type.getElementType() != element && type.getElementType() != getComputeType(element)))
    return op->emitOpError() << "gradients must be " << RankedTensorType::get(inner, element)
                             << ", the normalized dimensions of x, found " << type;
  return success();
}

static ColumnBlocks blocksOf(Operation *op, Value x, int64_t axis) {
  return ColumnBlocks(op, productOf(shapeOf(x).drop_front(axis)), tensorType(x).getElementType());
}

/// Emits unit `unit`, a block of columns of a slice: stores in result r the sums over the slice's rows of value r of
/// `element(row, index)`, where `row` is the index of a statistic and `index` one of x.
static void
emitColumnSums(OpBuilder &builder, Operation *op, Value unit, Value x, int64_t axis, StoreFn store,
               function_ref<SmallVector<ScalarExpr>(OpBuilder &, ValueRange row, ValueRange index)> element) {
  Location loc = op->getLoc();
  ArrayRef<int64_t> outer = shapeOf(x).take_front(axis), inner = shapeOf(x).drop_front(axis);
  Type type = tensorType(op->getResult(0)).getElementType();
  ColumnBlocks blocks = blocksOf(op, x, axis);
  int64_t slices = slicesOf(x, axis, op->getResult(0)), rows = productOf(outer) / slices;
  Value block = unit, slice, begin;
  if (slices > 1) {
    Value count = emitIndex(builder, loc, blocks.getCount());
    slice = arith::DivUIOp::create(builder, loc, unit, count);
    block = arith::RemUIOp::create(builder, loc, unit, count);
    begin = arith::MulIOp::create(builder, loc, slice, emitIndex(builder, loc, rows));
  }
  emitColumnBlock(
      builder, loc, blocks, block, rows, Combine::Add, getComputeType(type), op->getNumResults(),
      [&](OpBuilder &ofRow, Value number) -> ColumnFn {
        Value linear = begin ? Value(arith::AddIOp::create(ofRow, loc, begin, number)) : number;
        SmallVector<Value> row = emitDelinearize(ofRow, loc, linear, outer);
        return [&, row](OpBuilder &b, Value column) {
          SmallVector<Value> index(row), values;
          llvm::append_range(index, emitDelinearize(b, loc, column, inner));
          for (ScalarExpr value : element(b, row, index))
            values.push_back(value.value);
          return values;
        };
      },
      [&](OpBuilder &b, Value column, ValueRange sums) {
        SmallVector<Value> index = emitDelinearize(b, loc, column, inner);
        if (slice)
          index.insert(index.begin(), slice);
        for (auto [r, sum] : llvm::enumerate(sums))
          store(b, r, index, emitConvert(b, loc, sum, type));
      });
}

/// The sums of many slices, then of these; empty where the rows stay whole.
static SmallVector<Value> buildSlices(OpBuilder &builder, Operation *op, TargetAttr target, Value x, int64_t axis) {
  auto type = tensorType(op->getResult(0));
  int64_t slices = target.isDevice() ? countSlices(countRows(x, axis)) : 1;
  if (slices == 1 || type.getNumElements() == 0 || type.getShape() != shapeOf(x).drop_front(axis))
    return {};
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin(), slices);
  Operation *partial = builder.clone(*op);
  SmallVector<Value> results;
  for (OpResult result : partial->getResults())
    result.setType(RankedTensorType::get(shape, getComputeType(type.getElementType())));
  for (Value result : partial->getResults())
    results.push_back(combineSlices(builder, op->getLoc(), ReduceKind::sum, result, type));
  return results;
}

LogicalResult LayerNormParameterGradOp::verify() {
  return verifyParameterGrad(*this, getX(), getAxis(), getDscale(), getMean());
}

int64_t LayerNormParameterGradOp::getNumUnits() {
  return slicesOf(getX(), getAxis(), getDscale()) * blocksOf(*this, getX(), getAxis()).getCount();
}
SmallVector<Value> LayerNormParameterGradOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  return buildSlices(builder, *this, target, getX(), getAxis());
}
bool LayerNormParameterGradOp::mayOverwrite(unsigned, unsigned) { return false; }

LogicalResult LayerNormParameterGradOp::eval(ArrayRef<const HostTensor *> operands,
                                             MutableArrayRef<HostTensor> results) {
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  int64_t slice = operands[0]->size() / slicesOf(getX(), getAxis(), getDscale());
  for (int64_t i = 0; i < operands[0]->size(); ++i) {
    int64_t row = i / size, sum = i / slice * size + i % size;
    double g = operands[3]->floats()[i];
    results[0].floats()[sum] +=
        g * ((operands[0]->floats()[i] - operands[1]->floats()[row]) * operands[2]->floats()[row]);
    results[1].floats()[sum] += g;
  }
  return success();
}

void LayerNormParameterGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store,
                                        ValueRange) {
  emitColumnSums(builder, *this, unit, getX(), getAxis(), store, [&](OpBuilder &b, ValueRange row, ValueRange index) {
    ScalarExpr g = loadCompute(b, loc, load, 3, index);
    ScalarExpr deviation = loadCompute(b, loc, load, 0, index) - loadCompute(b, loc, load, 1, row);
    return SmallVector<ScalarExpr>{g * (deviation * loadCompute(b, loc, load, 2, row)), g};
  });
}

LogicalResult RmsNormParameterGradOp::verify() {
  return verifyParameterGrad(*this, getX(), getAxis(), getDscale(), getRstd());
}

int64_t RmsNormParameterGradOp::getNumUnits() {
  return slicesOf(getX(), getAxis(), getDscale()) * blocksOf(*this, getX(), getAxis()).getCount();
}
SmallVector<Value> RmsNormParameterGradOp::buildExpansion(OpBuilder &builder, TargetAttr target) {
  return buildSlices(builder, *this, target, getX(), getAxis());
}
bool RmsNormParameterGradOp::mayOverwrite(unsigned, unsigned) { return false; }

LogicalResult RmsNormParameterGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  int64_t slice = operands[0]->size() / slicesOf(getX(), getAxis(), getDscale());
  for (int64_t i = 0; i < operands[0]->size(); ++i)
    results[0].floats()[i / slice * size + i % size] +=
        operands[2]->floats()[i] * (operands[0]->floats()[i] * operands[1]->floats()[i / size]);
  return success();
}

void RmsNormParameterGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store,
                                      ValueRange) {
  emitColumnSums(builder, *this, unit, getX(), getAxis(), store, [&](OpBuilder &b, ValueRange row, ValueRange index) {
    ScalarExpr normalized = loadCompute(b, loc, load, 0, index) * loadCompute(b, loc, load, 1, row);
    return SmallVector<ScalarExpr>{loadCompute(b, loc, load, 2, index) * normalized};
  });
}

//===-- rms_norm ---------------------------------------------------------------------------------------------------===//

void RmsNormOp::build(OpBuilder &builder, OperationState &state, Value x, Value scale, int64_t axis, double epsilon) {
  build(builder, state, x.getType(), wideOuterType(tensorType(x), axis), x, scale, axis, APFloat(epsilon));
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyEpsilon(*this, getEpsilon().convertToDouble())))
    return failure();
  return verifyNorm(*this, getX(), getAxis(), getScale(), {}, getRstd());
}

int64_t RmsNormOp::getNumUnits() { return countRows(getX(), getAxis()); }
bool RmsNormOp::mayOverwrite(unsigned operand, unsigned result) { return operand == 0 && result == 0; }

LogicalResult RmsNormOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats();
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    double squares = 0;
    for (int64_t j = 0; j < size; ++j)
      squares += x[row * size + j] * x[row * size + j];
    double rstd = 1 / std::sqrt(squares / size + getEpsilon().convertToDouble());
    results[1].floats()[row] = rstd;
    for (int64_t j = 0; j < size; ++j)
      results[0].floats()[row * size + j] = x[row * size + j] * rstd * (getScale() ? operands[1]->floats()[j] : 1.0);
  }
  return success();
}

void RmsNormOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), getAxis());
  Type type = tensorType(getY()).getElementType(), compute = getComputeType(type);
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  ScalarExpr squares = row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) {
    ScalarExpr xj = x(b, j);
    return xj * xj;
  });
  ScalarExpr rstd = 1.0 / sqrt(squares / static_cast<double>(row.getSize()) + getEpsilon().convertToDouble());
  store(builder, 1, row.getOuter(), rstd.value);
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) {
    ScalarExpr y = x(b, j) * in(b, rstd);
    return getScale() ? y * loadCompute(b, loc, load, 1, row.within(b, j)) : y;
  });
}

void RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                              MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  Value g = resultGrads[0];
  auto normalized = [&] {
    return GraphExpr(builder, loc, getX()) * GraphExpr(builder, loc, spread(builder, loc, getRstd(), getX(), 0));
  };
  if (needed[0] && g)
    operandGrads[0] = RmsNormGradOp::create(builder, loc, getX(), getRstd(), g, getScale(), getAxisAttr());
  if (needed[0] && resultGrads[1]) {
    // d rstd / dx = -rstd^3 x / n = -rstd^2 normalized / n.
    GraphExpr rstd(builder, loc, getRstd());
    double size = productOf(shapeOf(getX()).drop_front(getAxis()));
    GraphExpr slope = -(rstd.with(resultGrads[1]) * (rstd * rstd)) / size, n = normalized();
    GraphExpr dx = n.with(spread(builder, loc, slope.value, getX(), 0)) * n;
    operandGrads[0] = operandGrads[0] ? (dx + dx.with(operandGrads[0])).value : dx.value;
  }
  if (g && getScale() && needed[1])
    operandGrads[1] = RmsNormParameterGradOp::create(builder, loc, getScale().getType(), getX(), getRstd(), g,
                                                     getAxisAttr());
}

LogicalResult RmsNormGradOp::verify() { return verifyNorm(*this, getX(), getAxis(), getScale(), {}, getRstd()); }

int64_t RmsNormGradOp::getNumUnits() { return countRows(getX(), getAxis()); }
bool RmsNormGradOp::mayOverwrite(unsigned operand, unsigned) { return operand == 0 || operand == 2; }

LogicalResult RmsNormGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats(), g = operands[2]->floats();
  int64_t size = productOf(shapeOf(getX()).drop_front(getAxis()));
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    double rstd = operands[1]->floats()[row], product = 0;
    auto h = [&](int64_t j) { return getScale() ? g[row * size + j] * operands[3]->floats()[j] : g[row * size + j]; };
    auto n = [&](int64_t j) { return x[row * size + j] * rstd; };
    for (int64_t j = 0; j < size; ++j)
      product += h(j) * n(j);
    for (int64_t j = 0; j < size; ++j)
      results[0].floats()[row * size + j] = rstd * (h(j) - n(j) * (product / size));
  }
  return success();
}

void RmsNormGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), getAxis());
  Type type = tensorType(getDx()).getElementType();
  ScalarExpr rstd = loadCompute(builder, loc, load, 1, row.getOuter());
  auto h = [&](OpBuilder &b, Value j) {
    ScalarExpr g = loadCompute(b, loc, load, 2, row.at(b, j));
    return getScale() ? g * loadCompute(b, loc, load, 3, row.within(b, j)) : g;
  };
  auto n = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)) * in(b, rstd); };
  ScalarExpr product =
      row.reduce(Combine::Add, getComputeType(type), [&](OpBuilder &b, Value j) { return h(b, j) * n(b, j); });
  ScalarExpr meanOfProduct = product / static_cast<double>(row.getSize());
  row.forEach(store, 0, type,
              [&](OpBuilder &b, Value j) { return in(b, rstd) * (h(b, j) - n(b, j) * in(b, meanOfProduct)); });
}
