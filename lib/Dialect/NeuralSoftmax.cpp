// softmax, log_softmax, log_sum_exp and their gradients: two or three passes over a row that stays in the cache.
#include "NeuralRows.h"

using namespace mlir;
using namespace mlir::scrimp;

static LogicalResult verifyLastDimension(Operation *op) {
  if (tensorType(op->getOperand(0)).getRank() == 0)
    return op->emitOpError() << "needs a dimension to normalize over, found " << op->getOperand(0).getType();
  return success();
}

static int64_t countRows(Value x) { return productOf(shapeOf(x).drop_back()); }

/// Calls `fn(first, size)` for each row.
static void forEachRow(const HostTensor &x, function_ref<void(int64_t, int64_t)> fn) {
  int64_t size = x.getShape().back();
  for (int64_t first = 0; size && first < x.size(); first += size)
    fn(first, size);
}

static double maximumOf(ArrayRef<double> row) {
  double most = -std::numeric_limits<double>::infinity();
  for (double value : row)
    most = maximum(most, value);
  return most;
}

//===-- softmax ----------------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() { return verifyLastDimension(*this); }
int64_t SoftmaxOp::getNumUnits() { return countRows(getX()); }
bool SoftmaxOp::mayOverwrite(unsigned, unsigned) { return true; }

LogicalResult SoftmaxOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats();
  MutableArrayRef<double> y = results[0].floats();
  forEachRow(*operands[0], [&](int64_t first, int64_t size) {
    double most = maximumOf(x.slice(first, size)), sum = 0;
    for (int64_t i = first; i < first + size; ++i)
      sum += y[i] = std::exp(x[i] - most);
    for (int64_t i = first; i < first + size; ++i)
      y[i] /= sum;
  });
  return success();
}

void SoftmaxOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), tensorType(getX()).getRank() - 1);
  Type type = tensorType(getY()).getElementType(), compute = getComputeType(type);
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  ScalarExpr most = row.reduce(Combine::Max, compute, x);
  // The exponentials wait in the result, unless that would round them.
  bool keep = type == compute;
  ScalarExpr sum = row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) {
    ScalarExpr e = exp(x(b, j) - in(b, most));
    if (keep)
      store(b, 0, row.at(b, j), e.value);
    return e;
  });
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) {
    ScalarExpr e = keep ? loadCompute(b, loc, load, /*result 0=*/1, row.at(b, j)) : exp(x(b, j) - in(b, most));
    return e / in(b, sum);
  });
}

void SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                              MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = SoftmaxGradOp::create(builder, getLoc(), getY(), resultGrads[0]);
}

LogicalResult SoftmaxGradOp::verify() { return verifyLastDimension(*this); }
int64_t SoftmaxGradOp::getNumUnits() { return countRows(getY()); }
bool SoftmaxGradOp::mayOverwrite(unsigned, unsigned) { return true; }

LogicalResult SoftmaxGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> y = operands[0]->floats(), g = operands[1]->floats();
  forEachRow(*operands[0], [&](int64_t first, int64_t size) {
    double sum = 0;
    for (int64_t i = first; i < first + size; ++i)
      sum += y[i] * g[i];
    for (int64_t i = first; i < first + size; ++i)
      results[0].floats()[i] = y[i] * (g[i] - sum);
  });
  return success();
}

void SoftmaxGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getY()), tensorType(getY()).getRank() - 1);
  Type type = tensorType(getDx()).getElementType();
  auto y = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  auto g = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 1, row.at(b, j)); };
  ScalarExpr sum =
      row.reduce(Combine::Add, getComputeType(type), [&](OpBuilder &b, Value j) { return y(b, j) * g(b, j); });
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) { return y(b, j) * (g(b, j) - in(b, sum)); });
}

//===-- log_softmax ------------------------------------------------------------------------------------------------===//

LogicalResult LogSoftmaxOp::verify() { return verifyLastDimension(*this); }
int64_t LogSoftmaxOp::getNumUnits() { return countRows(getX()); }
bool LogSoftmaxOp::mayOverwrite(unsigned, unsigned) { return true; }

LogicalResult LogSoftmaxOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats();
  forEachRow(*operands[0], [&](int64_t first, int64_t size) {
    double most = maximumOf(x.slice(first, size)), sum = 0;
    for (int64_t i = first; i < first + size; ++i)
      sum += std::exp(x[i] - most);
    for (int64_t i = first; i < first + size; ++i)
      results[0].floats()[i] = (x[i] - most) - std::log(sum);
  });
  return success();
}

void LogSoftmaxOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), tensorType(getX()).getRank() - 1);
  Type type = tensorType(getY()).getElementType(), compute = getComputeType(type);
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  ScalarExpr most = row.reduce(Combine::Max, compute, x);
  ScalarExpr logSum =
      log(row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) { return exp(x(b, j) - in(b, most)); }));
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) { return (x(b, j) - in(b, most)) - in(b, logSum); });
}

void LogSoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                 MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = LogSoftmaxGradOp::create(builder, getLoc(), getY(), resultGrads[0]);
}

LogicalResult LogSoftmaxGradOp::verify() { return verifyLastDimension(*this); }
int64_t LogSoftmaxGradOp::getNumUnits() { return countRows(getY()); }
bool LogSoftmaxGradOp::mayOverwrite(unsigned, unsigned) { return true; }

LogicalResult LogSoftmaxGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> y = operands[0]->floats(), g = operands[1]->floats();
  forEachRow(*operands[0], [&](int64_t first, int64_t size) {
    double sum = 0;
    for (int64_t i = first; i < first + size; ++i)
      sum += g[i];
    for (int64_t i = first; i < first + size; ++i)
      results[0].floats()[i] = g[i] - std::exp(y[i]) * sum;
  });
  return success();
}

void LogSoftmaxGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getY()), tensorType(getY()).getRank() - 1);
  Type type = tensorType(getDx()).getElementType();
  auto g = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 1, row.at(b, j)); };
  ScalarExpr sum = row.reduce(Combine::Add, getComputeType(type), g);
  row.forEach(store, 0, type, [&](OpBuilder &b, Value j) {
    return g(b, j) - exp(loadCompute(b, loc, load, 0, row.at(b, j))) * in(b, sum);
  });
}

//===-- log_sum_exp ------------------------------------------------------------------------------------------------===//

void LogSumExpOp::build(OpBuilder &builder, OperationState &state, Value x) {
  build(builder, state, tensorType(x).clone(shapeOf(x).drop_back()), x);
}

LogicalResult LogSumExpOp::verify() {
  if (failed(verifyLastDimension(*this)))
    return failure();
  auto expected = tensorType(getX()).clone(shapeOf(getX()).drop_back());
  if (expected != getY().getType())
    return emitOpError() << "result type must be " << expected << ", found " << getY().getType();
  return success();
}

int64_t LogSumExpOp::getNumUnits() { return countRows(getX()); }
bool LogSumExpOp::mayOverwrite(unsigned, unsigned) { return false; }

/// What is subtracted from a row before its exponentials: its maximum, and 0 if that is infinite.
template <typename E> static E shiftOf(E most) {
  return select(lt(abs(most), like(most, std::numeric_limits<double>::infinity())), most, like(most, 0.0));
}

LogicalResult LogSumExpOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> x = operands[0]->floats();
  int64_t size = shapeOf(getX()).back();
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    ArrayRef<double> values = x.slice(row * size, size);
    double shift = shiftOf(maximumOf(values)), sum = 0;
    for (double value : values)
      sum += std::exp(value - shift);
    results[0].floats()[row] = shift + std::log(sum);
  }
  return success();
}

void LogSumExpOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  RowEmitter row(builder, loc, unit, shapeOf(getX()), tensorType(getX()).getRank() - 1);
  Type type = tensorType(getY()).getElementType(), compute = getComputeType(type);
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  ScalarExpr shift = shiftOf(row.reduce(Combine::Max, compute, x));
  ScalarExpr sum =
      row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) { return exp(x(b, j) - in(b, shift)); });
  store(builder, 0, row.getOuter(), emitConvert(builder, loc, (shift + log(sum)).value, type));
}

void LogSumExpOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                MutableArrayRef<Value> operandGrads) {
  // The softmax of x, from the result; shifted as above where that is infinite.
  Location loc = getLoc();
  GraphExpr x(builder, loc, getX()), y(builder, loc, getY());
  SmallVector<int64_t> column(shapeOf(getY()));
  column.push_back(1);
  auto spread = [&](GraphExpr e) {
    return e.with(broadcastTo(builder, loc, reshapeTo(builder, loc, e.value, column), shapeOf(getX())));
  };
  GraphExpr shift = select(lt(abs(y), std::numeric_limits<double>::infinity()), y, like(y, 0.0));
  operandGrads[0] = (spread(y.with(resultGrads[0])) * exp(x - spread(shift))).value;
}
