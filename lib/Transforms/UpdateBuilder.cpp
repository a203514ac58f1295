#include "UpdateBuilder.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The later of two ops of one block; null is before all.
static Operation *later(Operation *a, Operation *b) { return !a || (b && a->isBeforeInBlock(b)) ? b : a; }

/// The last op, the terminator apart, that reads bytes of `value`, through views too. Null if there is none.
static Operation *lastReader(Value value) {
  Operation *last = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>())
      continue;
    last = later(last, user);
    for (Value result : user->getResults())
      if (std::optional<Tie> tie = getViewTie(result); tie && tie->operand == use.getOperandNumber())
        last = later(last, lastReader(result));
  }
  return last;
}

static void setInsertionPointAfter(OpBuilder &builder, Operation *op, Block &block) {
  if (op)
    builder.setInsertionPointAfter(op);
  else
    builder.setInsertionPointToStart(&block);
}

static Value flat(OpBuilder &builder, Location loc, Value value) {
  return reshapeTo(builder, loc, value, {tensorType(value).getNumElements()});
}

/// FNV-1a: what tells the draws of one tensor from those of another, wherever they lie.
static int64_t keyOf(StringRef name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return static_cast<int64_t>(hash);
}

UpdateBuilder::UpdateBuilder(func::FuncOp function, const UpdateRule &rule, ArrayRef<Bucket> buckets,
                             ArrayRef<BlockArgument> whole, UpdateOptions options)
    : function(function), rule(rule), whole(whole), options(options), block(function.getBody().front()),
      buckets(buckets) {
  // Random ops of the model may have these already.
  for (BlockArgument argument : function.getArguments())
    if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ScrimpDialect::kScalar))
      scalars[name] = argument;
  for (const Bucket &bucket : buckets) {
    SmallVector<BlockArgument> &ofBucket = states.emplace_back();
    if (!bucket.isTrained())
      continue;
    // f16 and bf16 parameters keep their states, unless told otherwise, and compute their update, in f32.
    Type computeType = getComputeType(bucket.elementType);
    Type stateType = options.stateType ? options.stateType : computeType;
    for (StringRef name : rule.getStateNames())
      ofBucket.push_back(appendArgument(function, RankedTensorType::get({bucket.updatedSize()}, stateType),
                                        bucket.stateAttributes(function.getContext(), name), function.getLoc()));
    if (!scalarType || scalarType.getIntOrFloatBitWidth() < computeType.getIntOrFloatBitWidth())
      scalarType = computeType;
  }
}

Value UpdateBuilder::build(MutableArrayRef<Update> updates) {
  bool wait = options.wait || options.clip;
  // Updates come after the loss in any case (scrimp-schedule), and so do the checks.
  int lossIndex = findOutput(function, "loss");
  if (lossIndex >= 0)
    loss = block.getTerminator()->getOperand(lossIndex);
  for (Update &update : updates)
    update.after = later(earliestPlace(update), loss ? loss.getDefiningOp() : nullptr);
  // In the order in which gradients come, so that the norm's running sum follows them.
  llvm::sort(updates, [](const Update &a, const Update &b) {
    if (a.after == b.after)
      return a.position < b.position;
    return later(a.after, b.after) == b.after;
  });
  OpBuilder builder(function.getContext());
  Value squares, ofParts; // of gradients that the rank has whole, and of its parts of others
  for (auto [i, update] : llvm::enumerate(updates)) {
    // Gradients of one op share their place: the later update goes behind the earlier, whose sum it continues.
    if (i == 0 || updates[i - 1].after != update.after)
      setInsertionPointAfter(builder, update.after, block);
    Value &sum = update.bucket->updatesPart ? ofParts : squares;
    sum = addSquares(builder, update, sum);
    if (!wait)
      buildUpdate(builder, update, nullptr);
  }
  builder.setInsertionPoint(block.getTerminator());
  Location loc = function.getLoc();
  if (ofParts) {
    int64_t world = llvm::max_element(buckets, [](auto &a, auto &b) { return a.ranks < b.ranks; })->ranks;
    ofParts = WaitOp::create(
        builder, loc, AllReduceOp::create(builder, loc, ReduceKind::sum, ofParts, world, Type(), /*perStep=*/true));
    squares =
        check(builder, loc, squares ? Value(AddOp::create(builder, loc, squares, ofParts)) : ofParts, "the gradients");
  }
  if (!squares)
    squares = splatConstant(builder, loc, RankedTensorType::get({}, builder.getF64Type()), 0);
  // The sum of a scaled gradient that overflowed is no number, and ends the step before anything is updated.
  Value norm = SqrtOp::create(builder, loc, squares), unscale, coefficient;
  if (options.scaledLoss) {
    unscale = castToType(builder, loc, scalarArgument("unscale"), norm.getType());
    norm = MulOp::create(builder, loc, norm, unscale);
  }
  if (wait) {
    coefficient = options.clip ? clipCoefficient(builder, loc, norm) : nullptr;
    if (unscale)
      coefficient = coefficient ? Value(MulOp::create(builder, loc, coefficient, unscale)) : unscale;
    for (Update &update : updates) {
      update.gradient = AfterOp::create(builder, locationOf(update), update.gradient.getType(), update.gradient, norm);
      buildUpdate(builder, update, coefficient);
    }
  }
  return norm;
}

void UpdateBuilder::pack() {
  OpBuilder builder(block.getTerminator());
  for (auto &[argument, argumentPieces] : pieces) {
    Value bucket = argument;
    llvm::sort(argumentPieces, [](auto &a, auto &b) { return a.first < b.first; });
    for (auto &[offset, piece] : argumentPieces)
      bucket = PackOp::create(builder, piece.getLoc(), bucket, piece, offset);
    appendResult(function, bucket, ScrimpDialect::kUpdates,
                 builder.getI64IntegerAttr(cast<BlockArgument>(argument).getArgNumber()));
  }
}

/// The update may not come before the gradient is there, nor before the last reader of the old parameter.
Operation *UpdateBuilder::earliestPlace(const Update &update) {
  Operation *after = update.gradient.getDefiningOp();
  for (Operation *user : whole[update.bucketIndex].getUsers())
    if (auto view = dyn_cast<ViewOp>(user)) {
      int64_t offset = view.getOffset(), end = offset + tensorType(view.getY()).getNumElements();
      if (update.bucket->updatesPart || (offset < update.begin + update.size && update.begin < end))
        after = later(later(after, view), lastReader(view));
    } else if (update.bucket->holdsPart) {
      // What gathers the parts reads this one until it has arrived everywhere.
      after = later(later(after, user), lastReader(whole[update.bucketIndex]));
    }
  return after;
}

/// Layers are named after their parameter, so that reports of updates are too.
Location UpdateBuilder::locationOf(const Update &update) {
  MLIRContext *context = function.getContext();
  Location name = NameLoc::get(StringAttr::get(context, update.name));
  return FusedLoc::get({name}, StringAttr::get(context, "update"), context);
}

/// squares + |gradient|^2 (null: 0), checked.
Value UpdateBuilder::addSquares(OpBuilder &builder, const Update &update, Value squares) {
  if (update.size == 0)
    return squares;
  Location loc = locationOf(update);
  Value sums = SumSquaresOp::create(builder, loc, flat(builder, loc, update.gradient));
  Value sum = tensorType(sums).getNumElements() == 1 ? reshapeTo(builder, loc, sums, {})
                                                     : ReduceOp::create(builder, loc, ReduceKind::sum, sums, {0});
  // A loss that is not finite is told before what follows from it.
  if (squares)
    sum = AddOp::create(builder, loc, squares, sum);
  else if (loss)
    sum = AfterOp::create(builder, loc, sum.getType(), sum, loss);
  // The first parameter after which the sum is not finite is the first whose gradient is not. Of a sum that other ranks
  // do not have too, they would not hear.
  return update.bucket->updatesPart ? sum : check(builder, loc, sum, update.name);
}

Value UpdateBuilder::check(OpBuilder &builder, Location loc, Value squares, StringRef name) {
  return CheckFiniteOp::create(builder, loc, squares.getType(), squares, name);
}

/// min(clip_norm / (norm + 1e-6), 1) of torch.nn.utils.clip_grad_norm_; a NaN stays one.
Value UpdateBuilder::clipCoefficient(OpBuilder &builder, Location loc, Value norm) {
  GraphExpr total(builder, loc, norm);
  GraphExpr limit = total.with(castToType(builder, loc, scalarArgument("clip_norm"), norm.getType()));
  GraphExpr coefficient = limit / (total + 1e-6);
  return select(gt(coefficient, 1.0), like(coefficient, 1.0), coefficient).value;
}

/// The argument of a hyperparameter, or of another scalar of `type`, added at its first use.
BlockArgument UpdateBuilder::scalarArgument(StringRef name, Type type) {
  BlockArgument &argument = scalars[name];
  if (!argument)
    argument = getScalarArgument(function, name, type ? type : scalarType);
  return argument;
}

/// `value` as what is kept of it until the next step: in bf16, where a step may be far less than half of the last
/// digit, rounded by chance. The draws are those of the tensor's name and of the element's place in it, wherever it
/// lies.
Value UpdateBuilder::store(OpBuilder &builder, const Update &update, Value value, RankedTensorType type,
                           StringRef state) {
  Location loc = locationOf(update);
  if (!type.getElementType().isBF16() || !tensorType(value).getElementType().isF32())
    return castToType(builder, loc, value, type);
  Type integer = builder.getI64Type();
  SmallVector<int64_t> begins, keys;
  for (const BucketMember &member : update.members) {
    begins.push_back(member.offset - update.begin);
    keys.push_back(keyOf(member.name + (state.empty() ? "" : "." + state.str())));
  }
  bool isSeveral = keys.size() > 1;
  Value origin;
  DenseI64ArrayAttr wholeShape;
  if (update.bucket->updatesPart) {
    GraphExpr rank(builder, loc, scalarArgument("rank", integer));
    origin = reshapeTo(builder, loc, (rank * static_cast<double>(update.size)).value, {1});
    wholeShape = builder.getDenseI64ArrayAttr(update.bucket->size());
  }
  return StochasticRoundOp::create(builder, loc, type, value, scalarArgument("seed", integer),
                                   scalarArgument("step", integer), scalarArgument("sample_base", integer), origin,
                                   keys.front(), /*batch_dim=*/-1, /*samples=*/1, wholeShape,
                                   isSeveral ? builder.getDenseI64ArrayAttr(begins) : nullptr,
                                   isSeveral ? builder.getDenseI64ArrayAttr(keys) : nullptr);
}

/// `coefficient` (rank 0) scales the gradient; null: 1.
void UpdateBuilder::buildUpdate(OpBuilder &builder, const Update &update, Value coefficient) {
  Location loc = locationOf(update);
  int64_t offset = update.begin;
  auto flatType = RankedTensorType::get({update.size}, update.bucket->elementType);
  auto computeType = flatType.clone(getComputeType(flatType.getElementType()));
  auto spread = [&](Value scalar) {
    Value typed = castToType(builder, loc, scalar, computeType.clone(ArrayRef<int64_t>()));
    return GraphExpr(builder, loc, broadcastTo(builder, loc, typed, computeType.getShape()));
  };
  auto compute = [&](Value value) { return GraphExpr(builder, loc, castToType(builder, loc, value, computeType)); };
  GraphExpr gradient = compute(flat(builder, loc, update.gradient));
  if (coefficient)
    gradient.value = (gradient * spread(coefficient)).value;
  BlockArgument bucket = whole[update.bucketIndex];
  bool isPartOfWhole = update.bucket->updatesPart && !update.bucket->holdsPart;
  int64_t ranks = update.bucket->ranks;
  Value old = isPartOfWhole
                  ? Value(ShardOp::create(builder, loc, bucket, scalarArgument("rank", builder.getI64Type()), ranks))
                  : Value(ViewOp::create(builder, loc, flatType, bucket, offset));
  GraphExpr parameter = compute(old);
  SmallVector<GraphExpr> newStates;
  for (BlockArgument state : states[update.bucketIndex])
    newStates.push_back(
        compute(ViewOp::create(builder, loc, computeType.clone(tensorType(state).getElementType()), state, offset)));
  GraphExpr newParameter = rule.build(parameter, gradient, newStates, update.bucket->decays(),
                                      [&](StringRef name) { return spread(scalarArgument(name)); });
  Value stored = store(builder, update, newParameter.value, flatType, "");
  if (isPartOfWhole)
    stored = WaitOp::create(builder, loc, AllGatherOp::create(builder, loc, stored, ranks));
  pieces[bucket].emplace_back(offset, stored);
  for (auto [state, value, name] : llvm::zip(states[update.bucketIndex], newStates, rule.getStateNames())) {
    RankedTensorType type = computeType.clone(tensorType(state).getElementType());
    pieces[state].emplace_back(offset, store(builder, update, value.value, type, name));
  }
}
