// scrimp-split-batch: micro-batches. What an op is for a part of the batch, the op knows (BatchSplitOp); where the
// batch is, BatchAnalysis. What is left for the pass: what runs before, in and after the loop, and building it.
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_SPLITBATCH
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

/// A value as the loop's body reads it: where there is `split` the samples of the iteration, otherwise whole (of a sum:
/// what the iteration adds to it).
using Form = std::pair<Value, std::pair<int64_t, int64_t>>;

Form formOf(Value value, std::optional<BatchPlacement> split) {
  return split ? Form{value, {split->dim, split->outer}} : Form{value, {-1, 1}};
}
bool isSplit(const Form &form) { return form.second.first >= 0; }
BatchPlacement placementOf(const Form &form) { return {BatchPlacement::Split, form.second.first, form.second.second}; }

/// Equal pieces of consecutive samples, which one loop runs over.
struct Run {
  int64_t begin, pieces, samples;
};

/// The loop over the micro-batches of one function.
class MicroBatchLoop {
public:
  MicroBatchLoop(func::FuncOp function, const BatchAnalysis &analysis, bool narrowSums)
      : function(function), block(function.getBody().front()), analysis(analysis), batch(analysis.getBatch()),
        narrowSums(narrowSums) {}

  /// Fails after an error at an output that is no sum.
  LogicalResult plan() {
    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      BatchPlacement::Kind kind = analysis.getPlacement(operand.get()).kind;
      unsigned result = operand.getOperandNumber();
      if (auto updates = function.getResultAttrOfType<IntegerAttr>(result, ScrimpDialect::kUpdates);
          updates && kind == BatchPlacement::Own) {
        states.push_back({function.getArgument(updates.getInt()), operand.get(), result});
        continue;
      }
      if (kind != BatchPlacement::Split && kind != BatchPlacement::Own)
        continue;
      auto output = function.getResultAttrOfType<StringAttr>(result, ScrimpDialect::kOutput);
      return emitError(operand.get().getLoc())
             << (output ? ("output '" + output.getValue() + "'").str() : "a result of @" + function.getName().str())
             << " has a value for every " << (kind == BatchPlacement::Own ? "micro-batch" : "sample")
             << ", which micro-batches do not keep; return a sum or a mean of it, or use --micro-batches 1";
    }
    chooseSums();
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (isPartial(operand) && !runsInLoop(op) && (!operand.getDefiningOp() || runsInLoop(*operand.getDefiningOp())))
          accumulated.insert(operand);
    for (Value value : accumulated)
      need(formOf(value, std::nullopt));
    for (const State &state : states)
      need(formOf(state.next, std::nullopt));
    for (Operation &op : llvm::reverse(block))
      for (std::optional<BatchCut> cut : instances.lookup(&op))
        for (auto [i, operand] : llvm::enumerate(op.getOperands()))
          need(formOf(operand, splitOfOperand(op, i, cut)));
    return success();
  }

  /// Builds one loop a run; what needs the sums comes after them.
  void build(ArrayRef<Run> runs) {
    if (accumulated.empty() && states.empty())
      return;
    Operation *terminator = block.getTerminator();
    OpBuilder builder(terminator);
    SmallVector<Value> carried;
    for (Value value : accumulated)
      carried.push_back(splatConstant(builder, value.getLoc(), accumulatorType(value), 0));
    for (const State &state : states)
      carried.push_back(state.argument);
    for (const Run &run : runs)
      carried = buildLoop(builder, run, carried);
    for (auto [state, value] : llvm::zip(states, ArrayRef(carried).drop_front(accumulated.size())))
      terminator->setOperand(state.result, value);
    for (auto [part, sum] : llvm::zip(accumulated, carried)) {
      Value value = part;
      Value typed =
          sum.getType() == value.getType() ? sum : CastOp::create(builder, value.getLoc(), value.getType(), sum);
      // What widens the sum takes it as it was added up, not rounded in between.
      for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
        if (isa<CastOp>(user) && user->getResult(0).getType() == sum.getType())
          user->getResult(0).replaceAllUsesWith(sum);
      value.replaceAllUsesWith(typed);
    }
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : ops)
      if (waiting.contains(op) || llvm::any_of(op->getResults(), [&](Value v) {
            return analysis.getPlacement(v).kind == BatchPlacement::Total;
          }))
        op->moveBefore(terminator);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }

private:
  /// Rounding every addition to 16 bits loses what is less than half of a sum's last digit: only where that is asked for,
  /// and for no single number (a loss, a norm).
  RankedTensorType accumulatorType(Value value) const {
    RankedTensorType type = tensorType(value), wide = type.clone(getComputeType(type.getElementType()));
    bool isNarrow = narrowSums && wide.getElementType().isF32() && wide.getRank() > 0;
    return isNarrow ? wide.clone(BFloat16Type::get(type.getContext())) : wide;
  }

  bool isPartial(Value value) const { return analysis.getPlacement(value).kind == BatchPlacement::Partial; }
  bool isOwn(Value value) const { return analysis.getPlacement(value).kind == BatchPlacement::Own; }

  /// Whether the op works on pieces or on what they add to a sum.
  bool runsInLoop(Operation &op) const {
    return !analysis.isWhole(&op) && !waiting.contains(&op) &&
           (analysis.getCut(&op) || llvm::any_of(op.getResults(), [&](Value v) { return isPartial(v) || isOwn(v); }));
  }

  /// Which of the ops that are linear in sums wait for the complete sums. An op stays in the loop only where that makes
  /// the accumulators smaller: both gradients of a tied parameter are added up there, but not gradients scaled apart.
  void chooseSums() {
    auto bitsIfAccumulated = [this](Value value) {
      RankedTensorType type = accumulatorType(value);
      return type.getNumElements() * type.getElementTypeBitWidth();
    };
    auto hasWaitingUser = [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) { return !runsInLoop(*user); });
    };
    for (bool changed = true; std::exchange(changed, false);)
      for (Operation &op : llvm::reverse(block)) {
        if (!runsInLoop(op) || analysis.getCut(&op) || isOwn(op.getResult(0)) ||
            llvm::any_of(op.getUsers(), [&](Operation *user) { return runsInLoop(*user); }))
          continue;
        int64_t saved = 0, added = 0;
        for (Value result : op.getResults())
          saved += bitsIfAccumulated(result);
        llvm::SmallDenseSet<Value> operands;
        for (Value operand : op.getOperands())
          if (isPartial(operand) && operands.insert(operand).second && !hasWaitingUser(operand))
            added += bitsIfAccumulated(operand);
        if (added <= saved)
          changed = waiting.insert(&op).second;
      }
  }

  static std::optional<BatchPlacement> splitOfOperand(Operation &op, unsigned operand, std::optional<BatchCut> cut) {
    if (!cut)
      return std::nullopt;
    DimensionRule rule = cast<BatchSplitOp>(op).getDimensionRule();
    return splitBy(rule, rule.operands[operand], *cut);
  }

  /// The body shall have `form`: from an op that it then holds, or from outside.
  void need(const Form &form) {
    auto result = dyn_cast<OpResult>(form.first);
    if (!result)
      return needInput(form);
    Operation *op = result.getOwner();
    std::optional<BatchCut> cut;
    if (runsInLoop(*op)) {
      cut = analysis.getCut(op);
    } else if (isSplit(form)) {
      // The same for all pieces, but each takes its samples of it (a mask of the whole batch, a broadcast along it):
      // made for the piece where it can be.
      auto split = dyn_cast<BatchSplitOp>(op);
      if (analysis.isWhole(op) || !split)
        return needInput(form);
      DimensionRule rule = split.getDimensionRule();
      cut = cutOf(rule, rule.results[result.getResultNumber()], placementOf(form), batch);
      if (!cut)
        return needInput(form);
    } else if (!isFree(op)) {
      return needInput(form);
    }
    SmallVector<std::optional<BatchCut>> &ofOp = instances[op];
    if (!llvm::is_contained(ofOp, cut))
      ofOp.push_back(cut);
  }

  void needInput(const Form &form) {
    // A state that the pieces move is carried, not read.
    if (!isOwn(form.first))
      (isSplit(form) ? splitInputs : sharedInputs).insert(form);
  }

  /// Whether making the value again in each iteration costs nothing.
  bool isFree(Operation *op) {
    auto kernel = dyn_cast<KernelOp>(op);
    return kernel && !analysis.isWhole(op) &&
           (kernel.getKernelFamily() == KernelFamily::View || kernel.isFreeInKernel());
  }

  //===-- Building ------------------------------------------------------------------------------------------------===//

  /// [outside, samples, inside]: what lies before and behind the samples in a split tensor.
  std::pair<int64_t, int64_t> aroundSamples(const Form &form) const {
    auto [dim, outer] = form.second;
    ArrayRef<int64_t> shape = shapeOf(form.first);
    int64_t outside = outer, inside = shape[dim] / (outer * batch);
    for (auto [d, size] : llvm::enumerate(shape))
      (static_cast<int64_t>(d) < dim ? outside : inside) *= static_cast<int64_t>(d) == dim ? 1 : size;
    return {outside, inside};
  }

  /// The samples of a run, first dimensions of size 1 apart in front. A part of contiguous samples is no copy.
  std::pair<Value, int64_t> takeRun(OpBuilder &builder, const Form &form, const Run &run) {
    Value value = form.first;
    Location loc = value.getLoc();
    auto [outside, inside] = aroundSamples(form);
    int64_t dim = form.second.first;
    if (outside != 1) {
      value = reshapeTo(builder, loc, value, {outside, batch, inside});
      value = TransposeOp::create(builder, loc, value, ArrayRef<int64_t>{1, 0, 2});
      dim = 0;
    }
    int64_t samples = run.pieces * run.samples;
    if (samples == batch)
      return {value, dim};
    Value flat = reshapeTo(builder, loc, value, {tensorType(value).getNumElements()});
    RankedTensorType type = pieceType(tensorType(value), {BatchPlacement::Split, dim, 1}, batch, samples);
    return {ViewOp::create(builder, loc, type, flat, run.begin * outside * inside), dim};
  }

  /// The piece as the ops of the body know it.
  Value arrangePiece(OpBuilder &builder, const Form &form, Value piece, int64_t samples) {
    auto [outside, inside] = aroundSamples(form);
    if (outside == 1)
      return piece;
    Value turned = TransposeOp::create(builder, piece.getLoc(), piece, ArrayRef<int64_t>{1, 0, 2});
    return reshapeTo(builder, piece.getLoc(), turned,
                     pieceType(tensorType(form.first), placementOf(form), batch, samples).getShape());
  }

  SmallVector<Value> buildLoop(OpBuilder &builder, const Run &run, ValueRange carried) {
    SmallVector<Value> shared, split;
    SmallVector<int64_t> dims;
    for (const Form &form : sharedInputs)
      shared.push_back(form.first);
    for (const Form &form : splitInputs) {
      auto [value, dim] = takeRun(builder, form, run);
      split.push_back(value);
      dims.push_back(dim);
    }
    Location loc = function.getLoc();
    auto loop = AccumulateOp::create(builder, loc, run.pieces, shared, split, dims, carried);
    Block &body = loop.getBody().emplaceBlock();
    auto scalar = RankedTensorType::get({}, builder.getI64Type());
    body.addArgument(scalar, loc);
    llvm::DenseMap<Form, Value> forms;
    for (const Form &form : sharedInputs)
      forms[form] = body.addArgument(form.first.getType(), form.first.getLoc());
    for (auto [i, form] : llvm::enumerate(splitInputs))
      forms[form] = body.addArgument(loop.getPieceType(i), form.first.getLoc());
    for (Value value : carried)
      body.addArgument(value.getType(), value.getLoc());
    auto inBody = body.getArguments().take_back(carried.size());
    for (auto [state, argument] : llvm::zip(states, inBody.drop_front(accumulated.size())))
      forms[formOf(state.argument, std::nullopt)] = argument;

    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    for (const Form &form : splitInputs)
      forms[form] = arrangePiece(inside, form, forms[form], run.samples);
    GraphExpr index(inside, loc, body.getArgument(0));
    Value begin = (index * static_cast<double>(run.samples) + static_cast<double>(run.begin)).value;
    for (Operation &op : block)
      for (std::optional<BatchCut> cut : instances.lookup(&op))
        buildInstance(inside, op, cut, run.samples, begin, forms);
    SmallVector<Value> next;
    for (auto [value, sum] : llvm::zip(accumulated, inBody)) {
      Location at = value.getLoc();
      Value wide = castToCompute(inside, at, sum), summand = forms.at(formOf(value, std::nullopt));
      Value total = AddOp::create(inside, at, wide, castToType(inside, at, summand, wide.getType()));
      next.push_back(castToType(inside, at, total, sum.getType()));
    }
    for (const State &state : states)
      next.push_back(forms.at(formOf(state.next, std::nullopt)));
    YieldOp::create(inside, loc, next);
    return llvm::to_vector_of<Value>(loop.getResults());
  }

  void buildInstance(OpBuilder &builder, Operation &op, std::optional<BatchCut> cut, int64_t samples, Value begin,
                     llvm::DenseMap<Form, Value> &forms) {
    SmallVector<Value> operands, results;
    for (auto [i, operand] : llvm::enumerate(op.getOperands()))
      operands.push_back(forms.at(formOf(operand, splitOfOperand(op, i, cut))));
    if (!cut) {
      results = cloneForPiece(&op, builder, operands, op.getResultTypes());
      for (auto [result, value] : llvm::zip(op.getResults(), results))
        forms[formOf(result, std::nullopt)] = value;
      return;
    }
    auto split = cast<BatchSplitOp>(op);
    DimensionRule rule = split.getDimensionRule();
    SmallVector<Type> types;
    SmallVector<std::optional<BatchPlacement>> splits;
    for (auto [result, factors] : llvm::zip(op.getResults(), rule.results)) {
      splits.push_back(splitBy(rule, factors, *cut));
      types.push_back(splits.back() ? pieceType(tensorType(result), *splits.back(), batch, samples)
                                    : tensorType(result));
    }
    int64_t perSample = rule.factors[cut->factor].size / (cut->outer * batch);
    results = split.buildPiece(builder, operands, types, {cut->factor, perSample, begin});
    for (auto [result, value, where] : llvm::zip(op.getResults(), results, splits))
      forms[formOf(result, where)] = value;
  }

  func::FuncOp function;
  Block &block;
  const BatchAnalysis &analysis;
  int64_t batch;
  bool narrowSums; // accumulators are bf16
  /// Ops that are linear in sums and run after the loop nevertheless.
  llvm::DenseSet<Operation *> waiting;
  llvm::SetVector<Value> accumulated;
  /// Arguments that every piece updates by statistics of its own, by what, and as which result.
  struct State {
    BlockArgument argument;
    Value next;
    unsigned result;
  };
  SmallVector<State> states;
  llvm::SetVector<Form> sharedInputs, splitInputs;
  /// How often, and cut how, the body holds an op.
  llvm::DenseMap<Operation *, SmallVector<std::optional<BatchCut>>> instances;
};

struct SplitBatch : scrimp::impl::SplitBatchBase<SplitBatch> {
  using SplitBatchBase::SplitBatchBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(split(function)))
        return signalPassFailure();
  }

  LogicalResult split(func::FuncOp function) {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError() << "must have one block, found " << function.getBody().getBlocks().size();
    if (batchStats != "whole" && batchStats != "per-micro-batch")
      return function.emitError() << "batch-stats is '" << batchStats << "'; there are whole and per-micro-batch";
    if (accumulate != "f32" && accumulate != "bf16")
      return function.emitError() << "accumulate is '" << accumulate << "'; there are f32 and bf16";
    BatchAnalysis analysis(function, /*ownStatistics=*/batchStats == "per-micro-batch");
    FailureOr<int64_t> count = countPieces(function, analysis.getBatch());
    if (failed(count))
      return failure();
    if (*count == 1)
      return success();
    for (const BatchAnalysis::Problem &problem : analysis.getProblems())
      return problem.op->emitOpError() << "cannot work on micro-batches: " << problem.reason
                                       << "; use --micro-batches 1, or compute it for each sample";
    MicroBatchLoop loop(function, analysis, accumulate == "bf16");
    if (failed(loop.plan()))
      return failure();
    // The first pieces have one sample more where the count does not divide the batch.
    int64_t batch = analysis.getBatch(), samples = batch / *count, larger = batch % *count;
    SmallVector<Run> runs;
    if (larger)
      runs.push_back({0, larger, samples + 1});
    runs.push_back({larger * (samples + 1), *count - larger, samples});
    loop.build(runs);
    return success();
  }

  /// How many micro-batches the options ask for. Fails after an error where they do not fit the batch.
  FailureOr<int64_t> countPieces(func::FuncOp function, int64_t batch) {
    int64_t count = microBatches, size = microBatchSize;
    if (count < 0 || size < 0)
      return function.emitError() << "micro-batches and their size must be positive, found " << count << " and "
                                  << size;
    if (count <= 1 && size == 0)
      return int64_t(1);
    if (batch == 0)
      return function.emitError() << "has no input with a batch dimension, so nothing to make micro-batches of; use "
                                     "--micro-batches 1";
    if (size > 0) {
      int64_t needed = llvm::divideCeil(batch, size);
      if (count > 0 && count != needed)
        return function.emitError() << "a batch of " << batch << " samples in micro-batches of at most " << size
                                    << " makes " << needed << " of them on 1 rank, but --micro-batches is " << count
                                    << "; leave out one of the two, or change --dim";
      count = needed;
    }
    if (count > batch)
      return function.emitError() << "a batch of " << batch << " samples cannot be split into " << count
                                  << " micro-batches; use " << batch << " at most";
    return count;
  }
};
} // namespace
