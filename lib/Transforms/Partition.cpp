// scrimp-partition: every rank has a share of the samples. The graph stays that of the whole batch in what it means;
// what of it a rank computes, and what ranks exchange so that the rest can be computed too, follows from where the
// batch is in every value.
#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_PARTITION
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
/// Rebuilds one function for a rank.
class RankFunction {
public:
  RankFunction(func::FuncOp function, const BatchAnalysis &analysis, int64_t world)
      : function(function), block(function.getBody().front()), analysis(analysis), world(world),
        samples(llvm::divideCeil(analysis.getBatch(), world)), full(analysis.getBatch() % world),
        builder(block.getTerminator()) {}

  void build() {
    SmallVector<Operation *> old;
    for (Operation &op : block.without_terminator())
      old.push_back(&op);
    takeScalars();
    takeInputs();
    // Outputs are exchanged as soon as they are there.
    llvm::DenseSet<Value> outputs;
    for (OpOperand &operand : block.getTerminator()->getOpOperands())
      if (!function.getResultAttr(operand.getOperandNumber(), ScrimpDialect::kGradient))
        outputs.insert(operand.get());
    for (Operation *op : old) {
      buildOp(*op);
      for (Value result : op->getResults())
        if (outputs.contains(result))
          (void)getWhole(result);
    }
    replaceResults();
    for (Operation *op : llvm::reverse(old))
      op->erase();
    giveInputsBack();
  }

private:
  /// Where the batch is in a value; a sum that is computed whole in the graph is one that ranks add up first.
  BatchPlacement placementOf(Value value) const {
    Operation *op = value.getDefiningOp();
    std::optional<BatchCut> cut = op ? analysis.getSumCut(op) : std::nullopt;
    if (!cut)
      return analysis.getPlacement(value);
    DimensionRule rule = cast<BatchSplitOp>(op).getDimensionRule();
    return splitBy(rule, rule.results[cast<OpResult>(value).getResultNumber()], *cut)
        .value_or(BatchPlacement{BatchPlacement::Partial});
  }

  std::optional<BatchCut> cutOfOp(Operation &op) const {
    std::optional<BatchCut> cut = analysis.getCut(&op);
    return cut && !analysis.isWhole(&op) ? cut : analysis.getSumCut(&op);
  }

  /// What the host says of a rank's samples: the first one's place in the batch, which is 0 in the whole, and how many
  /// there are, which the graph counts from the first of the whole.
  void takeScalars() {
    rank = getScalarArgument(function, "rank", builder.getI64Type());
    begin = getScalarArgument(function, "sample_base", builder.getI64Type());
    wholes[begin] = splatConstant(builder, function.getLoc(), tensorType(begin), 0);
    if (Value valid = findScalarArgument(function, "valid_samples"))
      wholes[valid] = AddOp::create(builder, valid.getLoc(), valid, begin);
  }

  /// Each input with samples gets a stand-in of the rank's samples, until the old ops are gone.
  void takeInputs() {
    for (BlockArgument argument : llvm::to_vector(function.getArguments())) {
      BatchPlacement placement = analysis.getPlacement(argument);
      if (placement.kind != BatchPlacement::Split)
        continue;
      (void)function.insertArgument(function.getNumArguments(),
                                    pieceType(tensorType(argument), placement, analysis.getBatch(), samples), {},
                                    argument.getLoc());
      splits[argument] = function.getArguments().back();
      inputs.push_back({argument, function.getArguments().back()});
    }
  }

  void giveInputsBack() {
    llvm::BitVector erased(function.getNumArguments());
    for (auto [argument, standIn] : inputs) {
      argument.setType(standIn.getType());
      standIn.replaceAllUsesWith(argument);
      erased.set(standIn.getArgNumber());
    }
    SmallVector<Type> types(function.getBody().getArgumentTypes());
    function.setType(FunctionType::get(function.getContext(), types, function.getResultTypes()));
    (void)function.eraseArguments(erased);
  }

  //===-- Values -------------------------------------------------------------------------------------------------===//

  /// What a value is in the graph; of statistics of single ranks, the rank's own.
  Value getWhole(Value value) {
    if (Value known = wholes.lookup(value))
      return known;
    BatchPlacement placement = placementOf(value);
    Value whole = value; // an argument
    if (placement.kind == BatchPlacement::Partial)
      whole = addUp(getPart(value), value.getLoc());
    else if (placement.kind == BatchPlacement::Split)
      whole = gather(getSplit(value, placement), value, placement);
    return wholes[value] = whole;
  }

  /// What the rank adds to the sum. A value that no sum is comes from the first rank alone.
  Value getPart(Value value) {
    if (Value known = parts.lookup(value))
      return known;
    Value whole = getWhole(value);
    Location loc = value.getLoc();
    if (matchPattern(whole, m_AnyZeroFloat()) || matchPattern(whole, m_Zero()))
      return parts[value] = whole;
    Value zeros = splatConstant(builder, loc, tensorType(whole), 0);
    GraphExpr number(builder, loc, rank);
    GraphExpr isFirst = eq(number, like(number, 0.0));
    Value condition = broadcastTo(builder, loc, isFirst.value, shapeOf(whole));
    return parts[value] = SelectOp::create(builder, loc, condition, whole, zeros);
  }

  /// The rank's samples of a value.
  Value getSplit(Value value, BatchPlacement split) {
    BatchPlacement placement = placementOf(value);
    if (placement == split)
      if (Value known = splits.lookup(value))
        return known;
    auto key = std::pair(value, std::pair(split.dim, split.outer));
    if (Value known = slices.lookup(key))
      return known;
    // The same on all ranks, but each takes its samples of it: made for them where that can be.
    Operation *op = value.getDefiningOp();
    auto splitOp = dyn_cast_or_null<BatchSplitOp>(op);
    if (splitOp && !analysis.isWhole(op) && placement.kind == BatchPlacement::Invariant) {
      DimensionRule rule = splitOp.getDimensionRule();
      unsigned result = cast<OpResult>(value).getResultNumber();
      if (std::optional<BatchCut> cut = cutOf(rule, rule.results[result], split, analysis.getBatch()))
        return slices[key] = buildCut(*op, *cut)[result];
    }
    return slices[key] = slice(getWhole(value), split);
  }

  //===-- Exchange -----------------------------------------------------------------------------------------------===//

  Value addUp(Value part, Location loc) {
    Value wide = castToCompute(builder, loc, part);
    Value sum = WaitOp::create(
        builder, loc,
        AllReduceOp::create(builder, loc, ReduceKind::sum, wide, world, /*wire=*/Type(), /*perStep=*/true));
    return castToType(builder, loc, sum, tensorType(part));
  }

  /// [outside, samples, inside] around the samples of a tensor split so, which has `count` of them.
  static std::array<int64_t, 3> aroundSamples(RankedTensorType type, BatchPlacement split, int64_t count) {
    ArrayRef<int64_t> shape = type.getShape();
    int64_t outside = split.outer * productOf(shape.take_front(split.dim));
    int64_t inside = shape[split.dim] / (split.outer * count) * productOf(shape.drop_front(split.dim + 1));
    return {outside, count, inside};
  }

  /// [outside, samples, inside] as [samples, outside * inside], or back.
  Value samplesFirst(Value value, std::array<int64_t, 3> around) {
    Location loc = value.getLoc();
    auto [outside, count, inside] = around;
    value = reshapeTo(builder, loc, value, {outside, count, inside});
    if (outside != 1)
      value = TransposeOp::create(builder, loc, value, ArrayRef<int64_t>{1, 0, 2});
    return reshapeTo(builder, loc, value, {count, outside * inside});
  }
  Value samplesBack(Value value, RankedTensorType type, std::array<int64_t, 3> around) {
    Location loc = value.getLoc();
    auto [outside, count, inside] = around;
    if (outside != 1) {
      value = reshapeTo(builder, loc, value, {count, outside, inside});
      value = TransposeOp::create(builder, loc, value, ArrayRef<int64_t>{1, 0, 2});
    }
    return reshapeTo(builder, loc, value, type.getShape());
  }

  /// All ranks' samples of `value`, of which there is `own`.
  Value gather(Value own, Value value, BatchPlacement split) {
    RankedTensorType type = tensorType(value);
    Value rows = samplesFirst(own, aroundSamples(tensorType(own), split, samples));
    Value all = WaitOp::create(builder, value.getLoc(), AllGatherOp::create(builder, value.getLoc(), rows, world));
    if (full)
      all = dropEmptyPlaces(all);
    return samplesBack(all, type, aroundSamples(type, split, analysis.getBatch()));
  }

  /// Rows [begin, begin + count).
  Value takeRows(Value rows, int64_t begin, int64_t count) {
    return SliceOp::create(builder, rows.getLoc(), tensorType(rows).clone({count, shapeOf(rows)[1]}), rows,
                           ArrayRef<int64_t>{begin, 0}, ArrayRef<int64_t>{1, 1});
  }
  Value concat(Value first, Value second) {
    int64_t count = shapeOf(first)[0] + shapeOf(second)[0];
    return ConcatOp::create(builder, first.getLoc(), tensorType(first).clone({count, shapeOf(first)[1]}),
                            ValueRange{first, second}, /*dim=*/0);
  }

  /// All ranks' rows without the last place of ranks from `full` on, which is empty there.
  Value dropEmptyPlaces(Value rows) {
    Location loc = rows.getLoc();
    RankedTensorType type = tensorType(rows);
    int64_t ranks = world - full, inside = type.getDimSize(1);
    Value rest = takeRows(rows, full * samples, ranks * samples);
    rest = reshapeTo(builder, loc, rest, {ranks, samples * inside});
    rest = takeColumns(rest, (samples - 1) * inside);
    return concat(takeRows(rows, 0, full * samples), reshapeTo(builder, loc, rest, {ranks * (samples - 1), inside}));
  }
  Value takeColumns(Value rows, int64_t count) {
    return SliceOp::create(builder, rows.getLoc(), tensorType(rows).clone({shapeOf(rows)[0], count}), rows,
                           ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{1, 1});
  }

  /// The rank's samples, along dimension 0, with 0 in the last place where that is empty.
  Value clearEmptyPlaces(Value value) {
    if (!full)
      return value;
    Location loc = value.getLoc();
    ArrayRef<int64_t> shape = shapeOf(value);
    auto counts = RankedTensorType::get({samples}, builder.getI64Type());
    GraphExpr place(builder, loc, IotaOp::create(builder, loc, counts, 0, APFloat(0.0), APFloat(1.0)));
    GraphExpr number = place.with(broadcastTo(builder, loc, rank, {samples}));
    // Behind the first ranks, the last place is one too many.
    GraphExpr isLast = eq(place, static_cast<double>(samples - 1));
    GraphExpr last =
        select(isLast, like(number, static_cast<double>(full - 1)), like(number, static_cast<double>(world)));
    SmallVector<int64_t> column(shape.size(), 1);
    column[0] = samples;
    Value holds = reshapeTo(builder, loc, le(number, last).value, column);
    holds = broadcastTo(builder, loc, holds, shape);
    return SelectOp::create(builder, loc, holds, value, splatConstant(builder, loc, tensorType(value), 0));
  }

  /// The rank's samples of what all ranks have whole.
  Value slice(Value whole, BatchPlacement split) {
    RankedTensorType type = tensorType(whole);
    Value rows = samplesFirst(whole, aroundSamples(type, split, analysis.getBatch()));
    // An empty place gets the last sample.
    auto indices = RankedTensorType::get({samples}, builder.getI64Type());
    GraphExpr first(builder, whole.getLoc(), broadcastTo(builder, whole.getLoc(), begin, {samples}));
    GraphExpr place =
        first + first.with(IotaOp::create(builder, whole.getLoc(), indices, 0, APFloat(0.0), APFloat(1.0)));
    if (full)
      place = place.with(MinimumOp::create(builder, whole.getLoc(), place.value,
                                           like(place, static_cast<double>(analysis.getBatch() - 1)).value));
    Value own = GatherOp::create(builder, whole.getLoc(), rows, place.value, /*dim=*/0);
    RankedTensorType piece = pieceType(type, split, analysis.getBatch(), samples);
    return samplesBack(own, piece, aroundSamples(piece, split, samples));
  }

  //===-- Ops ----------------------------------------------------------------------------------------------------===//

  /// The op for the rank's samples.
  SmallVector<Value> buildCut(Operation &op, BatchCut cut) {
    auto split = cast<BatchSplitOp>(op);
    DimensionRule rule = split.getDimensionRule();
    SmallVector<Value> operands;
    for (auto [operand, factors] : llvm::zip(op.getOperands(), rule.operands)) {
      std::optional<BatchPlacement> where = splitBy(rule, factors, cut);
      operands.push_back(where ? getSplit(operand, *where) : getWhole(operand));
    }
    SmallVector<Type> types;
    for (auto [result, factors] : llvm::zip(op.getResults(), rule.results)) {
      std::optional<BatchPlacement> where = splitBy(rule, factors, cut);
      types.push_back(where ? pieceType(tensorType(result), *where, analysis.getBatch(), samples) : tensorType(result));
    }
    if (rule.factors[cut.factor].kind == FactorKind::Statistics && analysis.sharesStatistics())
      return split.buildSharedPiece(builder, operands,
                                    {[&](Value value) { return clearEmptyPlaces(value); },
                                     [&](Value value) { return addUp(value, value.getLoc()); }});
    int64_t perSample = rule.factors[cut.factor].size / (cut.outer * analysis.getBatch());
    return split.buildPiece(builder, operands, types, {cut.factor, perSample, begin});
  }

  void buildOp(Operation &op) {
    if (std::optional<BatchCut> cut = cutOfOp(op)) {
      for (auto [result, value] : llvm::zip(op.getResults(), buildCut(op, *cut))) {
        BatchPlacement::Kind kind = placementOf(result).kind;
        (kind == BatchPlacement::Split ? splits : kind == BatchPlacement::Partial ? parts : wholes)[result] = value;
      }
      return;
    }
    // An op that is linear in sums works on what the rank adds to each.
    bool isPart = llvm::any_of(op.getResults(),
                               [&](Value v) { return analysis.getPlacement(v).kind == BatchPlacement::Partial; });
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(isPart && analysis.getPlacement(operand).kind == BatchPlacement::Partial ? getPart(operand)
                                                                                                  : getWhole(operand));
    for (auto [result, value] : llvm::zip(op.getResults(), cloneForPiece(&op, builder, operands, op.getResultTypes())))
      (isPart ? parts : wholes)[result] = value;
  }

  void replaceResults() {
    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      Value value = operand.get();
      // The optimizer adds gradients up, in buckets.
      if (function.getResultAttr(index, ScrimpDialect::kGradient)) {
        operand.set(getPart(value));
        continue;
      }
      Value whole = getWhole(value);
      if (placementOf(value).kind == BatchPlacement::Own)
        whole = WaitOp::create(
            builder, value.getLoc(),
            CollectiveBroadcastOp::create(builder, value.getLoc(), whole.getType(), whole, /*root=*/0, world));
      operand.set(whole);
    }
  }

  func::FuncOp function;
  Block &block;
  const BatchAnalysis &analysis;
  int64_t world, samples; ///< the most that a rank has
  int64_t full;           ///< ranks that have so many, where not all have; 0: all have
  OpBuilder builder;
  Value rank, begin;
  SmallVector<std::pair<BlockArgument, BlockArgument>> inputs;
  llvm::DenseMap<Value, Value> wholes, splits, parts;
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, int64_t>>, Value> slices; // where a value lies another way
};

struct Partition : scrimp::impl::PartitionBase<Partition> {
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    if (world < 1) {
      getOperation().emitError() << "a world of " << world.getValue() << " ranks; expected at least 1";
      return signalPassFailure();
    }
    if (batchStats != "" && batchStats != "global" && batchStats != "per-rank") {
      getOperation().emitError() << "batch-stats is '" << batchStats.getValue() << "'; there are global and per-rank";
      return signalPassFailure();
    }
    if (world == 1)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(partition(function)))
        return signalPassFailure();
  }

  LogicalResult partition(func::FuncOp function) {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError() << "must have one block, found " << function.getBody().getBlocks().size();
    BatchAnalysis analysis(function,
                           batchStats == "per-rank" ? BatchAnalysis::OwnStatistics
                           : batchStats == "global" ? BatchAnalysis::SharedStatistics
                                                    : BatchAnalysis::WholeStatistics,
                           BatchAnalysis::InSpace);
    int64_t batch = analysis.getBatch();
    if (!batch)
      return function.emitError() << "has no input with a batch dimension, so nothing to share out to "
                                  << world.getValue() << " ranks; use --world 1";
    if (batch < world)
      return function.emitError() << "a batch of " << batch << " samples leaves nothing to some of " << world.getValue()
                                  << " ranks; use a larger one (--dim), or fewer ranks";
    if (batch % world != 0 && !findScalarArgument(function, "valid_samples")) // scrimp-mask-eval
      return function.emitError() << "a batch of " << batch << " samples does not divide into " << world.getValue()
                                  << " ranks, and the loss is not proved to be a sum over samples; use a multiple of "
                                  << world.getValue() << " (--dim)";
    for (const BatchAnalysis::Problem &problem : analysis.getProblems())
      return problem.op->emitOpError() << "cannot be shared out to ranks: " << problem.reason;
    if (batchStats.empty())
      for (Operation &op : function.getBody().front())
        if (analysis.isWhole(&op) && needsStatistics(op, analysis))
          return op.emitOpError()
                 << "takes statistics over the batch, which " << world.getValue()
                 << " ranks share: --batch-stats global takes those of all ranks, as one process does, "
                    "--batch-stats per-rank lets each have its own";
    RankFunction(function, analysis, world).build();
    function->setAttr(ScrimpDialect::kWholeBatch, Builder(&getContext()).getI64IntegerAttr(batch));
    return success();
  }

  static bool needsStatistics(Operation &op, const BatchAnalysis &analysis) {
    auto split = dyn_cast<BatchSplitOp>(op);
    if (!split)
      return false;
    DimensionRule rule = split.getDimensionRule();
    for (auto [operand, factors] : llvm::zip(op.getOperands(), rule.operands)) {
      BatchPlacement placement = analysis.getPlacement(operand);
      if (placement.kind == BatchPlacement::Split && !cutOf(rule, factors, placement, analysis.getBatch()) &&
          cutOf(rule, factors, placement, analysis.getBatch(), /*cutsStatistics=*/true))
        return true;
    }
    return false;
  }
};
} // namespace
