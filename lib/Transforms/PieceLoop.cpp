#include "PieceLoop.h"

using namespace mlir;
using namespace mlir::scrimp;

SmallVector<PieceRun, 2> mlir::scrimp::makeRuns(int64_t batch, int64_t count) {
  int64_t samples = batch / count, larger = batch % count;
  SmallVector<PieceRun, 2> runs;
  if (larger)
    runs.push_back({0, larger, samples + 1});
  runs.push_back({larger * (samples + 1), count - larger, samples});
  return runs;
}

//===-- What it holds --------------------------------------------------------------------------------------------===//

void PieceLoop::close() {
  for (Value value : sums)
    need(formOf(value, std::nullopt));
  for (Value value : wholes)
    need(formOf(value, analysis.getPlacement(value)));
  for (const State &state : states)
    need(formOf(state.next, std::nullopt));
  for (Operation &op : llvm::reverse(block))
    for (std::optional<BatchCut> cut : instances.lookup(&op))
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        need(formOf(operand, splitOfOperand(op, i, cut)));
}

SmallVector<Value> PieceLoop::getInputs() const {
  SmallVector<Value> inputs;
  for (const auto &forms : {sharedInputs, splitInputs})
    for (const Form &form : forms)
      inputs.push_back(replaced.lookup_or(form.first, form.first));
  return inputs;
}

std::optional<BatchPlacement> PieceLoop::splitOfOperand(Operation &op, unsigned operand, std::optional<BatchCut> cut) {
  if (!cut)
    return std::nullopt;
  DimensionRule rule = cast<BatchSplitOp>(op).getDimensionRule();
  return splitBy(rule, rule.operands[operand], *cut);
}

/// The body shall have `form`: from an op that it then holds, or from outside.
void PieceLoop::need(const Form &form) {
  auto result = dyn_cast<OpResult>(form.first);
  if (!result)
    return needInput(form);
  Operation *op = result.getOwner();
  std::optional<BatchCut> cut;
  if (isInside(*op)) {
    cut = analysis.getCut(op);
  } else if (isSplit(form)) {
    // The same for all pieces, but each takes its samples of it (a mask of the whole batch, a broadcast along it):
    // made for the piece where it can be.
    auto split = dyn_cast<BatchSplitOp>(op);
    if (analysis.isWhole(op) || !split || !(remakesOutside || isFree(op)))
      return needInput(form);
    DimensionRule rule = split.getDimensionRule();
    cut = cutOf(rule, rule.results[result.getResultNumber()], placementOf(form), batch);
    if (!cut)
      return needInput(form);
  } else if (!(isFree(op) || isOfOneUse(op)) || analysis.isWhole(op)) {
    return needInput(form);
  }
  SmallVector<std::optional<BatchCut>> &ofOp = instances[op];
  if (!llvm::is_contained(ofOp, cut))
    ofOp.push_back(cut);
}

void PieceLoop::needInput(const Form &form) {
  // A state that the pieces move is carried, not read.
  if (!isOwn(form.first))
    (isSplit(form) ? splitInputs : sharedInputs).insert(form);
}

/// Whether the op computes from what is for one use (a part of a gathered parameter, a function of one): kept for all
/// iterations it would take that once more.
bool PieceLoop::isOfOneUse(Operation *op) {
  if (!remakesOutside || !isMemoryEffectFree(op))
    return false;
  if (auto known = ofOneUse.find(op); known != ofOneUse.end())
    return known->second;
  bool result = llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *source = operand.getDefiningOp();
    return source && !isInside(*source) && (isForOneUse(source) || isOfOneUse(source));
  });
  return ofOneUse[op] = result;
}

/// Whether making the value again in each iteration costs nothing, or is what it is there for.
bool PieceLoop::isFree(Operation *op) const {
  if (isForOneUse(op))
    return remakesOutside;
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && (kernel.getKernelFamily() == KernelFamily::View || kernel.isFreeInKernel());
}

//===-- Building -------------------------------------------------------------------------------------------------===//

/// [outside, samples, inside]: what lies before and behind the samples in a split tensor.
std::pair<int64_t, int64_t> PieceLoop::aroundSamples(const Form &form) const {
  auto [dim, outer] = form.second;
  ArrayRef<int64_t> shape = shapeOf(form.first);
  int64_t outside = outer, inside = shape[dim] / (outer * batch);
  for (auto [d, size] : llvm::enumerate(shape))
    (static_cast<int64_t>(d) < dim ? outside : inside) *= static_cast<int64_t>(d) == dim ? 1 : size;
  return {outside, inside};
}

/// The samples of a run, first dimensions of size 1 apart in front. A part of contiguous samples is no copy.
std::pair<Value, int64_t> PieceLoop::takeRun(OpBuilder &builder, const Form &form, const PieceRun &run) {
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
Value PieceLoop::arrangePiece(OpBuilder &builder, const Form &form, Value piece, int64_t samples) {
  auto [outside, inside] = aroundSamples(form);
  if (outside == 1)
    return piece;
  Value turned = TransposeOp::create(builder, piece.getLoc(), piece, ArrayRef<int64_t>{1, 0, 2});
  return reshapeTo(builder, piece.getLoc(), turned,
                   pieceType(tensorType(form.first), placementOf(form), batch, samples).getShape());
}

SmallVector<Value> PieceLoop::buildRun(OpBuilder &builder, const PieceRun &run, ValueRange carried) {
  SmallVector<Value> shared, split;
  SmallVector<int64_t> dims;
  for (const Form &form : sharedInputs)
    shared.push_back(replaced.lookup_or(form.first, form.first));
  for (const Form &form : splitInputs) {
    auto [value, dim] = takeRun(builder, form, run);
    split.push_back(value);
    dims.push_back(dim);
  }
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
  for (auto [state, argument] : llvm::zip(states, inBody.drop_front(sums.size() + wholes.size())))
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
  for (auto [value, sum] : llvm::zip(sums, inBody)) {
    Location at = value.getLoc();
    Value wide = castToCompute(inside, at, sum), summand = forms.at(formOf(value, std::nullopt));
    Value total = AddOp::create(inside, at, wide, castToType(inside, at, summand, wide.getType()));
    next.push_back(castToType(inside, at, total, sum.getType()));
  }
  for (auto [value, whole] : llvm::zip(wholes, inBody.drop_front(sums.size())))
    next.push_back(writePiece(inside, value, forms.at(formOf(value, analysis.getPlacement(value))), whole, begin));
  for (const State &state : states)
    next.push_back(forms.at(formOf(state.next, std::nullopt)));
  YieldOp::create(inside, loc, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void PieceLoop::buildInstance(OpBuilder &builder, Operation &op, std::optional<BatchCut> cut, int64_t samples,
                              Value begin, llvm::DenseMap<Form, Value> &forms) {
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
    types.push_back(splits.back() ? pieceType(tensorType(result), *splits.back(), batch, samples) : tensorType(result));
  }
  int64_t perSample = rule.factors[cut->factor].size / (cut->outer * batch);
  results = split.buildPiece(builder, operands, types, {cut->factor, perSample, begin});
  for (auto [result, value, where] : llvm::zip(op.getResults(), results, splits))
    forms[formOf(result, where)] = value;
}

/// The whole with the samples of the piece in it. Nothing else has been written there, so adding to 0 is storing.
Value PieceLoop::writePiece(OpBuilder &builder, Value value, Value piece, Value whole, Value begin) {
  BatchPlacement split = analysis.getPlacement(value);
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t dim = split.dim, perSample = shape[dim] / (split.outer * batch);
  Location where = value.getLoc();
  auto wide = tensorType(whole);
  if (piece.getType() != wide.clone(shapeOf(piece)))
    piece = CastOp::create(builder, where, wide.clone(shapeOf(piece)), piece);
  // [outside, samples, inside], of which whole samples are rows.
  SmallVector<int64_t> rows{split.outer * productOf(shape.take_front(dim)), batch * perSample,
                            productOf(shape.drop_front(dim + 1))},
      part(rows);
  part[1] = tensorType(piece).getNumElements() / std::max<int64_t>(rows[0] * rows[2], 1);
  auto indexType = RankedTensorType::get({part[1]}, builder.getI64Type());
  GraphExpr first(builder, where, begin);
  Value indices = IotaOp::create(builder, where, indexType, /*dim=*/0, APFloat(0.0), APFloat(1.0));
  indices =
      AddOp::create(builder, where, indices,
                    BroadcastOp::create(builder, where, indexType, (first * static_cast<double>(perSample)).value));
  whole = reshapeTo(builder, where, whole, rows);
  Value sum = ScatterAddOp::create(builder, where, whole.getType(), reshapeTo(builder, where, piece, part), indices, 1);
  cast<AccumulatingOp>(sum.getDefiningOp()).setBase(whole);
  return reshapeTo(builder, where, sum, wide.getShape());
}

SmallVector<Value> PieceLoop::build(OpBuilder &builder, ArrayRef<PieceRun> runs) {
  SmallVector<Value> carried;
  for (Value value : sums)
    carried.push_back(splatConstant(builder, value.getLoc(), sumTypes.lookup(value), 0));
  for (Value value : wholes)
    carried.push_back(splatConstant(builder, value.getLoc(), getWideType(value), 0));
  for (const State &state : states)
    carried.push_back(state.argument);
  for (const PieceRun &run : runs)
    carried = buildRun(builder, run, carried);
  return carried;
}

void mlir::scrimp::replaceByWide(OpBuilder &builder, Value value, Value wide) {
  Value typed =
      wide.getType() == value.getType() ? wide : CastOp::create(builder, value.getLoc(), value.getType(), wide);
  for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
    if (isa<CastOp>(user) && user->getResult(0).getType() == wide.getType())
      user->getResult(0).replaceAllUsesWith(wide);
  value.replaceAllUsesWith(typed);
}
