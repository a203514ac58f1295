// What values an integer input may have, from the tables and classes that it indexes.
#include "NodeBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {
/// The values of an integer input that its uses allow.
struct ValidRange {
  int64_t end = INT64_MAX;
  std::optional<int64_t> ignore;
};
} // namespace

static bool isTrue(Value value) {
  std::optional<HostTensor> constant = constantOf(value);
  return constant && !constant->isFloat() && llvm::all_of(constant->ints(), [](int64_t element) { return element; });
}

/// `c` if `select` passes `value` on only where it is not c, whether that is written as `!=`, as the negation of `==`,
/// or by the other branch.
static std::optional<int64_t> excludedBy(SelectOp select, Value value) {
  bool isPassed = select.getA() == value; // where the condition, as far as it has been followed, is true
  if (isPassed == (select.getB() == value))
    return std::nullopt;
  Value condition = select.getCondition();
  for (auto negation = condition.getDefiningOp<XorOp>(); negation && isTrue(negation.getB());
       negation = condition.getDefiningOp<XorOp>()) {
    condition = negation.getA();
    isPassed = !isPassed;
  }
  auto compare = condition.getDefiningOp<CompareOp>();
  if (!compare || compare.getPredicate() != (isPassed ? Predicate::ne : Predicate::eq) || compare.getA() != value)
    return std::nullopt;
  std::optional<HostTensor> constant = constantOf(compare.getB());
  if (!constant || constant->isFloat() || constant->size() == 0 || !llvm::all_equal(constant->ints()))
    return std::nullopt;
  return constant->ints()[0];
}

/// The largest dimension that a tuple of indices into `x` chooses from.
static int64_t mostOfTuple(Value x, Value indices, int64_t batchDims) {
  int64_t most = 0;
  for (int64_t dim : shapeOf(x).slice(batchDims, shapeOf(indices).back()))
    most = std::max(most, dim);
  return most;
}

/// Follows an input through ops that only move its elements, to the tables and classes that it indexes.
static void findRange(Value value, ValidRange &range, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    if (auto gather = dyn_cast<GatherOp>(op); gather && gather.getIndices() == value)
      range.end = std::min(range.end, shapeOf(gather.getX())[gather.getDim()]);
    else if (auto loss = dyn_cast<CrossEntropyOp>(op); loss && loss.getLabels() == value) {
      range.end = std::min(range.end, shapeOf(loss.getLogits()).back());
      if (loss.getIgnoreIndex())
        range.ignore = *loss.getIgnoreIndex();
    } else if (auto elements = dyn_cast<GatherElementsOp>(op); elements && elements.getIndices() == value)
      range.end = std::min(range.end, shapeOf(elements.getX())[elements.getDim()]);
    else if (auto tuples = dyn_cast<GatherNdOp>(op); tuples && tuples.getIndices() == value)
      range.end = std::min(range.end, mostOfTuple(tuples.getX(), value, tuples.getBatchDims()));
    else if (auto scatter = dyn_cast<ScatterNdOp>(op); scatter && scatter.getIndices() == value)
      range.end = std::min(range.end, mostOfTuple(scatter.getX(), value, scatter.getBatchDims()));
    else if (isa<ReshapeOp, BroadcastOp, TransposeOp, SliceOp, ConcatOp, PadOp, GatherOp>(op) ||
             (isa<CastOp>(op) && !isFloatTensor(op->getResult(0)) &&
              tensorType(op->getResult(0)).getElementTypeBitWidth() >= 32) ||
             (isa<SelectOp>(op) && use.getOperandNumber() > 0)) {
      if (auto select = dyn_cast<SelectOp>(op))
        if (std::optional<int64_t> ignored = excludedBy(select, value))
          range.ignore = ignored;
      findRange(op->getResult(0), range, seen);
    }
  }
}

void onnx_import::markValidRanges(func::FuncOp function) {
  MLIRContext *context = function.getContext();
  for (BlockArgument argument : function.getArguments()) {
    if (!function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kInput) || isFloatTensor(argument))
      continue;
    ValidRange range;
    llvm::DenseSet<Value> seen;
    findRange(argument, range, seen);
    if (range.end != INT64_MAX)
      function.setArgAttr(argument.getArgNumber(), ScrimpDialect::kValid,
                          DenseI64ArrayAttr::get(context, {0, range.end}));
    if (range.ignore)
      function.setArgAttr(argument.getArgNumber(), ScrimpDialect::kIgnore,
                          IntegerAttr::get(IntegerType::get(context, 64), *range.ignore));
  }
}
