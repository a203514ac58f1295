// scrimp-mask-eval: lets @eval sum over the first samples of its batch only, where BatchAnalysis proves that its loss
// is a sum over samples.
#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_MASKEVAL
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

static Value outputOf(func::FuncOp function, StringRef name) {
  int index = findOutput(function, name);
  return index < 0 ? Value() : function.getBody().front().getTerminator()->getOperand(index);
}

static bool isPartial(const BatchAnalysis &analysis, Value value) {
  return value && analysis.getPlacement(value).kind == BatchPlacement::Partial;
}

/// A loss that is one sum over samples divided by another is, over many batches, the quotient of their totals.
static void exposeQuotient(func::FuncOp eval, const BatchAnalysis &analysis) {
  Value loss = outputOf(eval, "loss");
  auto quotient = loss ? loss.getDefiningOp<DivOp>() : DivOp();
  if (!quotient || outputOf(eval, "loss_sum") || outputOf(eval, "loss_count") ||
      !isPartial(analysis, quotient.getA()) || !isPartial(analysis, quotient.getB()))
    return;
  Builder builder(eval.getContext());
  appendResult(eval, quotient.getA(), ScrimpDialect::kOutput, builder.getStringAttr("loss_sum"));
  appendResult(eval, quotient.getB(), ScrimpDialect::kOutput, builder.getStringAttr("loss_count"));
}

/// The operands whose elements add up over samples, one for each op that makes a sum of split values. None if the sums
/// are not proved to be sums over samples, each of a value of its sample alone.
static std::optional<SmallVector<OpOperand *>> findSummands(ArrayRef<Value> sums, const BatchAnalysis &analysis) {
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  for (Value sum : sums)
    if (!isPartial(analysis, sum) || failed(getBackwardSlice(sum, &slice, options)))
      return std::nullopt;
  SmallVector<OpOperand *> summands;
  for (Operation *op : slice) {
    // What samples share because it is computed from all of them would see the empty places too.
    if (analysis.isWhole(op))
      return std::nullopt;
    if (!llvm::any_of(op->getResults(), [&](Value result) { return isPartial(analysis, result); }))
      continue;
    OpOperand *summand = nullptr;
    bool readsSamples = false;
    for (OpOperand &operand : op->getOpOperands()) {
      if (analysis.getPlacement(operand.get()).kind != BatchPlacement::Split)
        continue;
      readsSamples = true;
      SmallVector<bool> alone(op->getNumOperands(), false);
      alone[operand.getOperandNumber()] = true;
      auto split = dyn_cast<BatchSplitOp>(op);
      if (split && split.isLinearIn(alone))
        summand = &operand;
    }
    if (readsSamples && !summand)
      return std::nullopt;
    if (summand)
      summands.push_back(summand);
  }
  return summands;
}

/// `value` with zeros in the places of samples from `valid` on.
static Value maskSamples(OpBuilder &builder, Value value, BatchPlacement split, int64_t batch, Value valid) {
  Location loc = value.getLoc();
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t extent = shape[split.dim], rest = extent / split.outer / batch;
  auto type = RankedTensorType::get({extent}, builder.getI64Type());
  GraphExpr index(builder, loc, IotaOp::create(builder, loc, type, 0, APFloat(0.0), APFloat(1.0)));
  if (rest != 1)
    index.value = (index / static_cast<double>(rest)).value;
  if (split.outer != 1)
    index.value =
        RemainderOp::create(builder, loc, index.value, like(index, static_cast<double>(batch)).value).getResult();
  GraphExpr inside = lt(index, index.with(broadcastTo(builder, loc, valid, {extent})));
  SmallVector<int64_t> aligned(shape.size(), 1);
  aligned[split.dim] = extent;
  Value condition = broadcastTo(builder, loc, reshapeTo(builder, loc, inside.value, aligned), shape);
  return SelectOp::create(builder, loc, condition, value, splatConstant(builder, loc, tensorType(value), 0));
}

namespace {
struct MaskEval : scrimp::impl::MaskEvalBase<MaskEval> {
  using MaskEvalBase::MaskEvalBase;

  void runOnOperation() override {
    if (auto eval = getOperation().lookupSymbol<func::FuncOp>("eval")) {
      BatchAnalysis analysis(eval);
      exposeQuotient(eval, analysis);
      SmallVector<Value> sums{outputOf(eval, "loss_sum"), outputOf(eval, "loss_count")};
      if (!sums[0] || !sums[1])
        sums = {outputOf(eval, "loss")};
      mask(eval, analysis, sums);
    }
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || world <= 1)
      return;
    BatchAnalysis analysis(main);
    if (analysis.getBatch() % world == 0)
      return;
    // The complete sums, whatever follows from them.
    llvm::SetVector<Value> sums;
    for (Operation &op : main.getBody().front()) {
      if (llvm::any_of(op.getResults(), [&](Value v) { return isPartial(analysis, v); }))
        continue;
      for (Value operand : op.getOperands())
        if (analysis.getPlacement(operand).kind != BatchPlacement::Invariant &&
            (isPartial(analysis, operand) || op.hasTrait<OpTrait::IsTerminator>()) &&
            analysis.getPlacement(operand).kind != BatchPlacement::Total)
          sums.insert(operand);
    }
    mask(main, analysis, sums.getArrayRef());
  }

  /// Has what is added up to `sums` be 0 from sample valid_samples on, if all of it is proved to be of single samples.
  void mask(func::FuncOp function, const BatchAnalysis &analysis, ArrayRef<Value> sums) {
    if (!analysis.getBatch())
      return;
    std::optional<SmallVector<OpOperand *>> summands = findSummands(sums, analysis);
    if (!summands || summands->empty())
      return;
    OpBuilder builder(&getContext());
    Value valid = getScalarArgument(function, "valid_samples", builder.getI64Type());
    for (OpOperand *summand : *summands) {
      builder.setInsertionPoint(summand->getOwner());
      summand->set(
          maskSamples(builder, summand->get(), analysis.getPlacement(summand->get()), analysis.getBatch(), valid));
    }
  }
};
} // namespace
