// cross_entropy and its gradient. The gradient is element by element, so that it may overwrite the logits and be fused.
#include "NeuralRows.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::scrimp;

static LogicalResult verifyLogits(Operation *op, Value logits, Value labels, Value statistic) {
  RankedTensorType type = tensorType(logits);
  int64_t rank = type.getRank();
  if (rank == 0 || type.getShape().back() == 0)
    return op->emitOpError() << "the last dimension of the logits holds the classes, found " << type;
  if (shapeOf(labels) != type.getShape().drop_back())
    return op->emitOpError() << "labels must have the logits' shape without the classes, found " << type << " and "
                             << labels.getType();
  RankedTensorType wide = wideOuterType(type, rank - 1);
  if (statistic.getType() != wide)
    return op->emitOpError() << "losses must be " << wide << ", found " << statistic.getType();
  return success();
}

/// The label of row `row`; -1 if it is ignored. Fails if it is no class.
static FailureOr<int64_t> labelAt(Operation *op, const HostTensor &labels, int64_t row, int64_t classes,
                                  std::optional<int64_t> ignore) {
  int64_t label = labels.ints()[row];
  if (ignore && label == *ignore)
    return -1;
  if (label >= 0 && label < classes)
    return label;
  InFlightDiagnostic error = op->emitOpError()
                             << "label " << label << " of row " << row << " is not in [0, " << classes << ")";
  if (ignore)
    error << " and not the ignored " << *ignore;
  return failure();
}

/// Whether `label` is ignored (null: never) and, clamped to the classes, which it is.
static std::pair<Value, Value> emitLabel(OpBuilder &builder, Location loc, Value label, int64_t classes,
                                         std::optional<int64_t> ignore) {
  Value ignored, wide = emitConvert(builder, loc, label, builder.getI64Type());
  auto constant = [&](int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 64); };
  if (ignore)
    ignored = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, wide, constant(*ignore));
  Value clamped = arith::MaxSIOp::create(builder, loc, wide, constant(0));
  return {ignored, arith::MinSIOp::create(builder, loc, clamped, constant(classes - 1))};
}

//===-- cross_entropy
//----------------------------------------------------------------------------------------------===//

void CrossEntropyOp::build(OpBuilder &builder, OperationState &state, Value logits, Value labels,
                           std::optional<int64_t> ignoreIndex) {
  Type statistic = wideOuterType(tensorType(logits), tensorType(logits).getRank() - 1);
  IntegerAttr ignore = ignoreIndex ? builder.getI64IntegerAttr(*ignoreIndex) : IntegerAttr();
  build(builder, state, statistic, statistic, logits, labels, ignore);
}

LogicalResult CrossEntropyOp::verify() { return verifyLogits(*this, getLogits(), getLabels(), getLoss()); }

int64_t CrossEntropyOp::getNumUnits() { return tensorType(getLoss()).getNumElements(); }
bool CrossEntropyOp::mayOverwrite(unsigned, unsigned) { return false; }

LogicalResult CrossEntropyOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t classes = shapeOf(getLogits()).back();
  for (int64_t row = 0; row < getNumUnits(); ++row) {
    ArrayRef<double> x = operands[0]->floats().slice(row * classes, classes);
    FailureOr<int64_t> label = labelAt(*this, *operands[1], row, classes, getIgnoreIndex());
    if (failed(label))
      return failure();
    double most = x[0], sum = 0;
    for (double value : x)
      most = maximum(most, value);
    for (double value : x)
      sum += std::exp(value - most);
    results[0].floats()[row] = *label < 0 ? 0 : std::log(sum) - (x[*label] - most);
    results[1].floats()[row] = most + std::log(sum);
  }
  return success();
}

/// The largest of a row's elements and the sum of exponentials of the distances to it, in one pass (online softmax,
/// Milakov and Gimelshein 2018): of two parts, that with the smaller maximum is scaled. One exponential per element, as
/// two passes take.
static std::pair<ScalarExpr, ScalarExpr> emitOnlineSum(OpBuilder &builder, Location loc, int64_t size, Type compute,
                                                       llvm::function_ref<ScalarExpr(OpBuilder &, Value)> x) {
  auto pair = VectorType::get({2}, compute);
  auto join = [&](OpBuilder &b, ScalarExpr most, ScalarExpr sum) -> Value {
    return vector::FromElementsOp::create(b, loc, pair, ValueRange{most.value, sum.value});
  };
  auto part = [&](OpBuilder &b, Value both, int64_t k) {
    return ScalarExpr(b, loc, vector::ExtractOp::create(b, loc, both, k));
  };
  ScalarExpr nothing(builder, loc, emitNeutral(builder, loc, Combine::Max, compute));
  auto loop = scf::ParallelOp::create(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, size),
                                      emitIndex(builder, loc, 1), join(builder, nothing, like(nothing, 0)));
  OpBuilder inside = OpBuilder::atBlockEnd(loop.getBody());
  ScalarExpr element = x(inside, loop.getInductionVars()[0]);
  auto reduce = scf::ReduceOp::create(inside, loc, join(inside, element, like(element, 1)));
  Block &block = reduce.getReductions()[0].front();
  OpBuilder b = OpBuilder::atBlockEnd(&block);
  ScalarExpr most = part(b, block.getArgument(0), 0), other = part(b, block.getArgument(1), 0);
  ScalarExpr sum = part(b, block.getArgument(0), 1), otherSum = part(b, block.getArgument(1), 1);
  ScalarExpr isLess = lt(most, other);
  // Equal ones may be infinite.
  ScalarExpr factor = select(eq(most, other), like(most, 1), exp(like(most, 0) - abs(most - other)));
  ScalarExpr total = select(isLess, otherSum, sum) + select(isLess, sum, otherSum) * factor;
  scf::ReduceReturnOp::create(b, loc, join(b, maximum(most, other), total));
  return {part(builder, loop.getResult(0), 0), part(builder, loop.getResult(0), 1)};
}

void CrossEntropyOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  ArrayRef<int64_t> shape = shapeOf(getLogits());
  RowEmitter row(builder, loc, unit, shape, shape.size() - 1);
  Type compute = getComputeType(tensorType(getLogits()).getElementType());
  auto x = [&](OpBuilder &b, Value j) { return loadCompute(b, loc, load, 0, row.at(b, j)); };
  std::optional<ScalarExpr> most, sum;
  if (TargetAttr::of(*this).isDevice()) {
    std::tie(most, sum) = emitOnlineSum(builder, loc, row.getSize(), compute, x);
  } else {
    most = row.reduce(Combine::Max, compute, x);
    sum = row.reduce(Combine::Add, compute, [&](OpBuilder &b, Value j) { return exp(x(b, j) - in(b, *most)); });
  }
  ScalarExpr logSum = log(*sum);
  auto [ignored, label] = emitLabel(builder, loc, load(builder, 1, row.getOuter()), row.getSize(), getIgnoreIndex());
  ScalarExpr loss = logSum - (x(builder, emitConvert(builder, loc, label, builder.getIndexType())) - *most);
  if (ignored)
    loss = select(loss.with(ignored), like(loss, 0), loss);
  store(builder, 0, row.getOuter(), loss.value);
  store(builder, 1, row.getOuter(), (*most + logSum).value);
}

void CrossEntropyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                   MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  if (resultGrads[0])
    operandGrads[0] = CrossEntropyGradOp::create(builder, loc, getLogits().getType(), getLogits(), getLabels(),
                                                 getLse(), resultGrads[0], getIgnoreIndexAttr());
  if (!resultGrads[1])
    return;
  // d lse / d logits = softmax.
  SmallVector<int64_t> column(shapeOf(getLse()));
  column.push_back(1);
  GraphExpr x(builder, loc, getLogits());
  auto spread = [&](Value value) {
    Value wide = broadcastTo(builder, loc, reshapeTo(builder, loc, value, column), shapeOf(getLogits()));
    return x.with(wide.getType() == getLogits().getType()
                      ? wide
                      : CastOp::create(builder, loc, getLogits().getType(), wide).getResult());
  };
  GraphExpr dx = spread(resultGrads[1]) * exp(x - spread(getLse()));
  operandGrads[0] = operandGrads[0] ? (dx + dx.with(operandGrads[0])).value : dx.value;
}

//===-- cross_entropy_grad
//-----------------------------------------------------------------------------------------===//

LogicalResult CrossEntropyGradOp::verify() { return verifyLogits(*this, getLogits(), getLabels(), getLse()); }

bool CrossEntropyGradOp::isPointwiseOperand(unsigned operand) { return operand == 0; }

LogicalResult CrossEntropyGradOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t classes = shapeOf(getLogits()).back();
  for (int64_t row = 0; row < tensorType(getLse()).getNumElements(); ++row) {
    FailureOr<int64_t> label = labelAt(*this, *operands[1], row, classes, getIgnoreIndex());
    if (failed(label))
      return failure();
    double lse = operands[2]->floats()[row], g = operands[3]->floats()[row];
    for (int64_t j = 0; *label >= 0 && g != 0 && j < classes; ++j)
      results[0].floats()[row * classes + j] =
          g * (std::exp(operands[0]->floats()[row * classes + j] - lse) - (j == *label));
  }
  return success();
}

SmallVector<Value> CrossEntropyGradOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  ValueRange row = ivs.drop_back();
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs), lse = loadCompute(builder, loc, load, 2, row),
             g = loadCompute(builder, loc, load, 3, row);
  auto [ignored, label] = emitLabel(builder, loc, load(builder, 1, row), shapeOf(getLogits()).back(), getIgnoreIndex());
  ScalarExpr j(builder, loc, emitConvert(builder, loc, ivs.back(), builder.getI64Type()));
  ScalarExpr target = select(eq(j, j.with(label)), like(x, 1), like(x, 0));
  // Where nothing flows in, nothing flows out, whatever the logits are.
  ScalarExpr nothing = eq(g, like(g, 0));
  if (ignored)
    nothing = nothing.with(arith::OrIOp::create(builder, loc, nothing.value, ignored));
  ScalarExpr dx = select(nothing, like(x, 0), g * (exp(x - lse) - target));
  return {roundToResult(builder, *this, 0, dx.value)};
}
