#include "PrecisionPlan.h"

#include "scrimp/Analysis/FusionLegality.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace mlir::scrimp;

bool mlir::scrimp::isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

std::optional<PrecisionRule> mlir::scrimp::precisionRuleOf(Operation *op) {
  auto precision = dyn_cast<PrecisionOp>(op);
  return precision ? std::optional(precision.getPrecisionRule()) : std::nullopt;
}

static bool movesOrFollows(const std::optional<PrecisionRule> &rule) {
  return rule && (rule->precision == Precision::Follow || rule->precision == Precision::Exact);
}

PrecisionPlan::PrecisionPlan(func::FuncOp function, function_ref<bool(Operation *)> isKept) {
  Block &block = function.getBody().front();
  findWanted(block);
  findInternal(block);
  findLate(function);
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    bool isParameter = function.getArgAttr(i, ScrimpDialect::kParam) || function.getArgAttr(i, ScrimpDialect::kState);
    sources[argument] = {bool(function.getArgAttr(i, ScrimpDialect::kInput)), isParameter};
  }
  for (Operation &op : block.without_terminator())
    classify(&op, isKept(&op));
}

/// From the results of the function back to what is nothing but a part of them.
void PrecisionPlan::findWanted(Block &block) {
  auto isWanted = [&](Value value) { return wanted.contains(value); };
  for (Operation &op : llvm::reverse(block))
    for (Value result : op.getResults())
      if (!result.use_empty() && llvm::all_of(result.getUsers(), [&](Operation *user) {
            return user->hasTrait<OpTrait::IsTerminator>() ||
                   (movesOrFollows(precisionRuleOf(user)) && llvm::all_of(user->getResults(), isWanted));
          }))
        wanted.insert(result);
}

void PrecisionPlan::findInternal(Block &block) {
  llvm::EquivalenceClasses<Operation *> kernels;
  for (Operation &op : llvm::reverse(block)) {
    if (!isFusibleMap(&op) || op.getNumResults() != 1 || op.use_empty())
      continue;
    Operation *reader = *op.user_begin();
    if (llvm::all_of(op.getUses(), [&](OpOperand &use) {
          return isPointwiseUse(use) && kernels.isEquivalent(use.getOwner(), reader);
        })) {
      kernels.unionSets(reader, &op);
      internal.insert(&op);
    }
  }
}

/// What no contraction follows on the way to what the function gives: the loss, and gradients of parameters. The
/// contractions of the backward pass do not count for what is before it.
void PrecisionPlan::findLate(func::FuncOp function) {
  Block &block = function.getBody().front();
  DenseSet<Operation *> beforeContraction;
  for (OpOperand &operand : block.getTerminator()->getOpOperands())
    if (!function.getResultAttr(operand.getOperandNumber(), ScrimpDialect::kGradient))
      if (Operation *producer = operand.get().getDefiningOp())
        forward.insert(producer);
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (forward.contains(&op))
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          forward.insert(producer);
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    std::optional<PrecisionRule> rule = precisionRuleOf(&op);
    if (!beforeContraction.contains(&op))
      late.insert(&op);
    if (late.contains(&op) && !(rule && rule->precision == Precision::Low))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (forward.contains(&op) || !forward.contains(producer))
          beforeContraction.insert(producer);
  }
}

/// Once the op and its operands are known.
bool PrecisionPlan::addsMask(Operation *op) {
  auto isOf = [](Operation *each, Precision precision) {
    std::optional<PrecisionRule> rule = precisionRuleOf(each);
    return rule && rule->precision == precision;
  };
  auto split = dyn_cast<BatchSplitOp>(op);
  bool isSum = split && split.isLinearIn(SmallVector<bool>(op->getNumOperands(), true));
  return isSum && forward.contains(op) && isOf(op, Precision::Follow) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return isActivation(operand); }) &&
         llvm::any_of(op->getUsers(), [&](Operation *user) { return isOf(user, Precision::Inside); }) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           Operation *producer = operand.getDefiningOp();
           bool isSplat = producer && isProgramConstant(producer) && isFreeProducer(producer);
           return isF32(operand) && !isActivation(operand) && !sources.lookup(operand).parameters && !isSplat;
         });
}

void PrecisionPlan::classify(Operation *op, bool isKept) {
  Sources all;
  bool anyBoth = false;
  for (Value operand : op->getOperands()) {
    Sources of = sources.lookup(operand);
    all.data |= of.data;
    all.parameters |= of.parameters;
    anyBoth |= of.areBoth();
  }
  for (Value result : op->getResults())
    sources[result] = all;
  std::optional<PrecisionRule> rule = precisionRuleOf(op);
  if (!rule)
    return;
  // What an op makes of data and parameters where no operand was made of both, or of no floats at all (a mask).
  bool isNew = all.areBoth() && (!anyBoth || !llvm::any_of(op->getOperands(), isFloatTensor));
  // What the operands of kind Data are: activations, or what takes any type.
  bool anyLow = false, allLow = true;
  for (auto [operand, kind] : llvm::zip(op->getOperands(), rule->operands)) {
    if (kind != ElementKind::Data || !isF32(operand))
      continue;
    Operation *producer = operand.getDefiningOp();
    bool isStored = isActivation(operand) && !(producer && isInternal(producer));
    bool isSplat = producer && isProgramConstant(producer) && isFreeProducer(producer);
    anyLow |= isActivation(operand);
    allLow &= isStored || isSplat;
  }
  bool isLate = late.contains(op), isLastGradient = isLate && !forward.contains(op);
  bool keepsResult = isKept || rule->givesStatistics, hasDataResult = false;
  for (auto [result, kind] : llvm::zip(op->getResults(), rule->results))
    if (kind == ElementKind::Data && isF32(result)) {
      hasDataResult = true;
      keepsResult |= wanted.contains(result);
    }
  bool storesLow = false;
  switch (rule->precision) {
  case Precision::Low:
    storesLow = all.areBoth() && !isKept;
    if (storesLow)
      low.insert(op);
    break;
  case Precision::Inside:
    storesLow = anyLow && !(hasDataResult ? keepsResult || isLastGradient : isKept);
    if (storesLow)
      low.insert(op);
    break;
  case Precision::Exact:
    storesLow = isLate ? anyLow && allLow : anyLow || isNew;
    if (anyLow && allLow && !isInternal(op) && !keepsResult)
      low.insert(op);
    storesLow &= !keepsResult;
    break;
  case Precision::Follow:
    storesLow = !keepsResult && !isLate && (anyLow || isNew);
    break;
  }
  if (storesLow && addsMask(op))
    masking.insert(op);
  // Sums of a product are stored as they are where that is all that is read of them.
  for (auto [result, kind] : llvm::zip(op->getResults(), rule->results))
    if (storesLow && isF32(result) && kind != ElementKind::Wide &&
        !(kind == ElementKind::Own && (isLastGradient || wanted.contains(result))))
      activations.insert(result);
}
