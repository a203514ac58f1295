#include "scrimp/Analysis/BatchAnalysis.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

llvm::raw_ostream &mlir::scrimp::operator<<(llvm::raw_ostream &os, BatchPlacement placement) {
  switch (placement.kind) {
  case BatchPlacement::Invariant:
    return os << "invariant";
  case BatchPlacement::Split:
    os << "split(" << placement.dim;
    return (placement.outer == 1 ? os : os << ", outer " << placement.outer) << ")";
  case BatchPlacement::Own:
    return os << "own";
  case BatchPlacement::Partial:
    return os << "partial";
  case BatchPlacement::Total:
    return os << "total";
  case BatchPlacement::Mixed:
    return os << "mixed";
  }
  llvm_unreachable("a kind");
}

RankedTensorType mlir::scrimp::pieceType(RankedTensorType type, BatchPlacement split, int64_t batch, int64_t samples) {
  SmallVector<int64_t> shape(type.getShape());
  shape[split.dim] = shape[split.dim] / batch * samples;
  return type.clone(shape);
}

std::optional<BatchCut> mlir::scrimp::cutOf(const DimensionRule &rule, const DimensionFactors &tensor,
                                            BatchPlacement split, int64_t batch, bool cutsStatistics) {
  int64_t outer = split.outer;
  for (unsigned number : tensor[split.dim]) {
    const Factor &factor = rule.factors[number];
    // The samples lie in this factor, behind `outer` of its indices, or the factor lies wholly outside of them.
    if (factor.size % (outer * batch) == 0) {
      bool fits = factor.kind == FactorKind::Split || (factor.kind == FactorKind::InOrder && outer == 1) ||
                  (factor.kind == FactorKind::Statistics && cutsStatistics);
      return fits ? std::optional(BatchCut{number, outer}) : std::nullopt;
    }
    if (outer % factor.size != 0)
      return std::nullopt;
    outer /= factor.size;
  }
  return std::nullopt;
}

std::optional<BatchPlacement> mlir::scrimp::splitBy(const DimensionRule &rule, const DimensionFactors &tensor,
                                                    BatchCut cut) {
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    int64_t outer = cut.outer;
    for (unsigned number : factors) {
      if (number == cut.factor)
        return BatchPlacement{BatchPlacement::Split, static_cast<int64_t>(dim), outer};
      outer *= rule.factors[number].size;
    }
  }
  return std::nullopt;
}

BatchAnalysis::BatchAnalysis(func::FuncOp function, Statistics statistics, Pieces pieces)
    : function(function), statistics(statistics), pieces(pieces) {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto dim = function.getArgAttrOfType<IntegerAttr>(index, ScrimpDialect::kInput);
    if (dim && dim.getInt() >= 0) {
      batch = shapeOf(argument)[dim.getInt()];
      seeds[argument] = {BatchPlacement::Split, dim.getInt(), 1};
    }
    auto kind = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kParam);
    if (kind && kind.getValue() == "trainable")
      trained.insert(argument);
  }
  for (Operation &op : function.getBody().front().without_terminator()) {
    ops.push_back(&op);
    if (llvm::any_of(op.getOperands(), [&](Value v) { return trained.contains(v); }))
      trained.insert_range(op.getResults());
  }
  // Each round finds more of what is computed from the whole batch, or is moved by pieces.
  while (batch && !(run() && findOwnStates()))
    ;
}

BatchAnalysis::BatchAnalysis(ArrayRef<Operation *> region, Value seed, BatchPlacement placement, int64_t batch,
                             llvm::function_ref<bool(Value)> mayBeSplit)
    : ops(region), batch(batch) {
  seeds[seed] = placement;
  do {
    (void)run();
  } while (problems.empty() && !findSeeds(mayBeSplit));
}

/// False if a region reads more that is split than was known. Ops of the region that nothing split reaches yet, but
/// whose results are read split, are cut likewise, and what they read then is split too.
bool BatchAnalysis::findSeeds(llvm::function_ref<bool(Value)> mayBeSplit) {
  llvm::SmallDenseSet<Operation *> inside(ops.begin(), ops.end());
  size_t known = seeds.size();
  SmallVector<std::pair<Operation *, BatchCut>> worklist;
  llvm::SmallDenseSet<Operation *> seen;
  for (Operation *op : ops)
    if (std::optional<BatchCut> cut = getCut(op))
      worklist.push_back({op, *cut});
  while (!worklist.empty()) {
    auto [op, cut] = worklist.pop_back_val();
    DimensionRule rule = cast<BatchSplitOp>(op).getDimensionRule();
    for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands)) {
      std::optional<BatchPlacement> split = splitBy(rule, factors, cut);
      if (!split || seeds.contains(operand) || getPlacement(operand).kind != BatchPlacement::Invariant ||
          !mayBeSplit(operand))
        continue;
      Operation *source = operand.getDefiningOp();
      if (!inside.contains(source)) {
        seeds[operand] = *split;
        continue;
      }
      auto splitSource = dyn_cast<BatchSplitOp>(source);
      if (!splitSource || !seen.insert(source).second)
        continue;
      DimensionRule sourceRule = splitSource.getDimensionRule();
      const DimensionFactors &result = sourceRule.results[cast<OpResult>(operand).getResultNumber()];
      if (std::optional<BatchCut> sourceCut = cutOf(sourceRule, result, *split, batch))
        worklist.push_back({source, *sourceCut});
    }
  }
  return seeds.size() == known;
}

std::optional<BatchCut> BatchAnalysis::getCut(Operation *op) const {
  auto found = cuts.find(op);
  return found == cuts.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BatchCut> BatchAnalysis::getSumCut(Operation *op) const {
  auto found = sumCuts.find(op);
  return found == sumCuts.end() ? std::nullopt : std::optional(found->second);
}

/// False if an op turned out to be whole: what was computed so far then does not hold.
bool BatchAnalysis::run() {
  placements.clear();
  cuts.clear();
  problems.clear();
  for (auto [value, placement] : seeds)
    placements[value] = placement;
  for (Value state : ownStates)
    placements[state] = {BatchPlacement::Own};
  return llvm::all_of(ops, [&](Operation *op) { return visit(*op); });
}

/// False if there are more arguments that pieces update than were known.
bool BatchAnalysis::findOwnStates() {
  size_t known = ownStates.size();
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands()))
    if (auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates))
      if (getPlacement(value).kind == BatchPlacement::Own)
        ownStates.insert(function.getArgument(updates.getInt()));
  return ownStates.size() == known;
}

bool BatchAnalysis::visit(Operation &op) {
  if (whole.contains(&op))
    return true; // its results are invariant
  auto any = [&](auto fn) { return llvm::any_of(op.getOperands(), [&](Value v) { return fn(getPlacement(v)); }); };
  auto setAll = [&](BatchPlacement::Kind kind) {
    for (Value result : op.getResults())
      placements[result] = {kind};
    return true;
  };
  if (any([](BatchPlacement p) { return p.kind == BatchPlacement::Mixed; }))
    return setAll(BatchPlacement::Mixed);
  if (any([](BatchPlacement p) { return p.kind == BatchPlacement::Split; }))
    return visitPieces(op);
  bool readsSums = any([](BatchPlacement p) { return p.isSum(); });
  if (any([](BatchPlacement p) { return p.kind == BatchPlacement::Own; }))
    return readsSums ? needsWhole(op, "it reads sums over the whole batch beside the statistics of single parts")
                     : setAll(BatchPlacement::Own);
  if (!readsSums)
    return true;
  // Sums alone: the op can wait for them. Where it is linear, it need not. 0 is a sum of zeros.
  auto split = dyn_cast<BatchSplitOp>(op);
  SmallVector<bool> sums, sumsAndZeros;
  for (Value operand : op.getOperands()) {
    sums.push_back(getPlacement(operand).kind == BatchPlacement::Partial);
    sumsAndZeros.push_back(sums.back() || matchPattern(operand, m_AnyZeroFloat()) || matchPattern(operand, m_Zero()));
  }
  bool isPartial = split && !any([](BatchPlacement p) { return p.kind == BatchPlacement::Total; }) &&
                   (split.isLinearIn(sums) || split.isLinearIn(sumsAndZeros));
  return setAll(isPartial ? BatchPlacement::Partial : BatchPlacement::Total);
}

/// An op with operands that are split.
bool BatchAnalysis::visitPieces(Operation &op) {
  auto name = [](Value value) { return "'" + userNameOf(value) + "'"; };
  for (Value operand : op.getOperands())
    if (getPlacement(operand).isSum()) {
      if (function && (pieces == InSpace || !trained.contains(operand))) {
        markSumsWhole(operand);
        return false;
      }
      return needsWhole(op,
                        "it reads " + name(operand) +
                            ", which is a sum over the whole batch that depends on parameters, beside single samples");
    }
  auto split = dyn_cast<BatchSplitOp>(op);
  if (!split)
    return needsWhole(op, "the op does not say how it is split (BatchSplitOp)");
  DimensionRule rule = split.getDimensionRule();
  std::optional<BatchCut> cut;
  OpOperand *first = nullptr;
  for (OpOperand &operand : op.getOpOperands()) {
    BatchPlacement placement = getPlacement(operand.get());
    if (placement.kind != BatchPlacement::Split)
      continue;
    auto where = [&](OpOperand &o) {
      return ("dimension " + Twine(getPlacement(o.get()).dim) + " of " + name(o.get())).str();
    };
    const DimensionFactors &factors = rule.operands[operand.getOperandNumber()];
    std::optional<BatchCut> own = cutOf(rule, factors, placement, batch, statistics != WholeStatistics);
    if (!own) {
      bool couldOwn = cutOf(rule, factors, placement, batch, /*cutsStatistics=*/true).has_value();
      return needsWhole(op,
                        "it needs " + where(operand) + ", where the batch is, as a whole" +
                            (couldOwn ? " (--batch-stats per-micro-batch gives each part statistics of its own)" : ""));
    }
    if (cut && *cut != *own)
      return needsWhole(op, "it combines every sample with every other: the batch is " + where(*first) + " and " +
                                where(operand));
    cut = own;
    first = &operand;
  }
  cuts[&op] = *cut;
  bool givesStatistics = rule.givesStatistics && rule.factors[cut->factor].kind == FactorKind::Statistics;
  BatchPlacement otherwise{!givesStatistics              ? BatchPlacement::Partial
                           : statistics == OwnStatistics ? BatchPlacement::Own
                                                         : BatchPlacement::Invariant};
  for (auto [result, factors] : llvm::zip(op.getResults(), rule.results))
    placements[result] = splitBy(rule, factors, *cut).value_or(otherwise);
  return true;
}

/// The sums over samples that a sum is computed from.
void BatchAnalysis::markSumsWhole(Value sum) {
  Operation *op = sum.getDefiningOp();
  if (std::optional<BatchCut> cut = getCut(op)) {
    sumCuts.insert({op, *cut});
    whole.insert(op);
    return;
  }
  for (Value operand : op->getOperands())
    if (getPlacement(operand).isSum())
      markSumsWhole(operand);
}

/// The op cannot work on pieces. In time it is whole if it depends on data alone, in space unless it reads what only
/// one piece has; otherwise that is a problem.
bool BatchAnalysis::needsWhole(Operation &op, const Twine &reason) {
  bool mayBeWhole =
      pieces == InSpace
          ? llvm::none_of(op.getOperands(), [&](Value v) { return getPlacement(v).kind == BatchPlacement::Own; })
          : llvm::none_of(op.getOperands(), [&](Value v) { return trained.contains(v); });
  if (function && mayBeWhole) {
    whole.insert(&op);
    for (Value operand : op.getOperands())
      if (getPlacement(operand).isSum())
        markSumsWhole(operand);
    return false;
  }
  problems.push_back({&op, reason.str()});
  for (Value result : op.getResults())
    placements[result] = {BatchPlacement::Mixed};
  return true;
}
