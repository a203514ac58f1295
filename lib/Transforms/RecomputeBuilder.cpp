#include "RecomputeBuilder.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/FusionLegality.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What the backward pass gathers of what `op` gathers. Before anything is built: then its operand is a clone, perhaps.
static Operation *findOtherStart(Operation *op, const TrainingParts &parts) {
  for (Operation *user : op->getOperand(0).getUsers())
    if (user != op && user->getName() == op->getName() && parts.isBackward(user) &&
        user->getBlock() == op->getBlock() && isForOneUse(user))
      return user;
  return nullptr;
}

RecomputeBuilder::RecomputeBuilder(const ResidualGraph &graph, const planner::RematChoice &choice,
                                   const DeviceRates &rates)
    : graph(graph), choice(choice), rates(rates), builder(graph.getBlock().getParentOp()->getContext()) {
  for (auto [i, op] : llvm::enumerate(graph.getBlock()))
    position[&op] = i;
  for (Operation *op : graph.getOps())
    if (isa<AsyncOp>(op) && isForOneUse(op))
      otherStarts[op] = findOtherStart(op, graph.getParts());
  findArrivals();
}

/// What computes the value, seen through transparent ops with one source. Null for arguments.
Operation *RecomputeBuilder::computes(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && graph.isTransparent(op)) {
    SmallVector<OpOperand *, 1> sources = getSources(op);
    if (sources.size() != 1)
      return nullptr;
    op = sources[0]->get().getDefiningOp();
  }
  return op;
}

/// A backward op's arrival is the latest gradient that it needs and that no kernel can compute together with it: seen
/// through pointwise ops, whose kernel it may share. (A clone that waited for an op of its reader's own kernel would
/// keep the two apart.) An op that needs none, a factor made from forward values alone, takes that of its readers;
/// where there is none either, the backward pass begins: the forward op before it.
void RecomputeBuilder::findArrivals() {
  auto later = [&](Value a, Value b) {
    if (!a || !b)
      return a ? a : b;
    return position.lookup(a.getDefiningOp()) < position.lookup(b.getDefiningOp()) ? b : a;
  };
  const TrainingParts &parts = graph.getParts();
  DenseMap<Operation *, Value> forwardBefore;
  Value lastForward;
  for (Operation &op : graph.getBlock().without_terminator()) {
    if (!parts.isBackward(&op)) {
      if (graph.isNode(&op))
        lastForward = op.getResult(0);
      continue;
    }
    forwardBefore[&op] = lastForward;
    Value latest;
    for (Value operand : op.getOperands()) {
      Operation *source = computes(operand);
      if (!source || source->getBlock() != &graph.getBlock())
        continue;
      // A loop that holds both passes of a part of the model gives gradients too.
      if (parts.isBackward(source) || isa<BodyOp>(source))
        latest = later(latest, isFusibleMap(source) ? arrival.lookup(source) : source->getResult(0));
    }
    arrival[&op] = latest;
  }
  for (Operation &op : llvm::reverse(graph.getBlock().without_terminator())) {
    auto found = arrival.find(&op);
    if (found == arrival.end() || found->second)
      continue;
    Value latest;
    for (Operation *user : op.getUsers())
      if (Value of = arrival.lookup(user); of && position.lookup(of.getDefiningOp()) < position.lookup(&op))
        latest = later(latest, of);
    found->second = latest;
  }
  for (auto &[op, event] : arrival)
    if (!event)
      event = forwardBefore.lookup(op);
}

/// Whether readers in the backward pass get another value in the place of this one.
bool RecomputeBuilder::isRepeated(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &graph.getBlock())
    return false;
  if (graph.isNode(op))
    return choice.repeated.test(graph.getNumber(op));
  auto known = repeated.find(value);
  if (known != repeated.end())
    return known->second;
  bool result = graph.isTransparent(op) &&
                llvm::any_of(getSources(op), [&](OpOperand *source) { return isRepeated(source->get()); });
  return repeated[value] = result;
}

/// Whether the reader's kernel had better compute the value itself, with all that is computed again for it alone, than
/// read it from memory.
bool RecomputeBuilder::fitsReader(Operation *op, OpOperand &use) const {
  if (getPointwiseSource(use) != op)
    return false;
  // Kernels that compute ever more would take compile time too.
  constexpr size_t kMostOps = 32;
  double limit = secondsAlone(op, rates), seconds = 0;
  llvm::SmallSetVector<Operation *, 8> chain;
  chain.insert(op);
  for (size_t i = 0; i < chain.size(); ++i) {
    seconds += secondsInKernel(chain[i], rates);
    if (seconds > limit || chain.size() > kMostOps)
      return false;
    for (OpOperand &operand : chain[i]->getOpOperands()) {
      Operation *source = getPointwiseSource(operand);
      if (graph.isNode(source) && choice.repeated.test(graph.getNumber(source)) && !shared.contains(source))
        chain.insert(source);
    }
  }
  return true;
}

/// `value` as the backward pass is to read it.
Value RecomputeBuilder::rebuild(Value value, const Demand &demand) {
  if (!isRepeated(value))
    return value;
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner(), *made = nullptr;
  if (!graph.isNode(op)) {
    // Seen through what the reader's kernel computes for itself; a view reads as it stands.
    IRMapping mapping;
    for (OpOperand *source : getSources(op))
      mapping.map(source->get(),
                  rebuild(source->get(), {isViewLike(op) ? source : demand.use, demand.before, demand.event}));
    builder.setInsertionPoint(demand.before);
    made = builder.clone(*op, mapping);
  } else if ((made = shared.lookup(op))) {
  } else if ((made = findOtherUse(op, demand))) {
    shared[op] = made;
  } else if (fitsReader(op, *demand.use)) {
    made = inKernel.lookup({op, demand.event});
    if (!made)
      inKernel[{op, demand.event}] = made = clone(op, demand);
  } else {
    made = inKernel.lookup({op, demand.event});
    if (!made)
      made = clone(op, demand);
    shared[op] = made;
  }
  return made->getResult(result.getResultNumber());
}

/// Moves `op`, and what it reads, before `point`.
static void moveUp(Operation *op, Operation *point) {
  if (op->getBlock() != point->getBlock() || op->isBeforeInBlock(point))
    return;
  op->moveBefore(point);
  for (Value operand : op->getOperands())
    if (Operation *source = operand.getDefiningOp())
      moveUp(source, op);
}

/// What the backward pass gathers for itself (CollectiveOp::isForOneUse) serves clones too; where they need it earlier,
/// it is gathered earlier.
Operation *RecomputeBuilder::findOtherUse(Operation *op, const Demand &demand) {
  if (!isForOneUse(op))
    return nullptr;
  Operation *found = otherStarts.lookup(op);
  if (!isa<AsyncOp>(op))
    if (Operation *start = findOtherUse(op->getOperand(0).getDefiningOp(), demand))
      found = cast<AsyncOp>(start).getEnd();
  if (found)
    moveUp(found, demand.before);
  return found;
}

/// An op that reads no clone reads what is kept after the event; others wait with the clone that they read.
Operation *RecomputeBuilder::clone(Operation *op, const Demand &demand) {
  IRMapping mapping;
  bool waits = false;
  for (OpOperand &operand : op->getOpOperands())
    if (isRepeated(operand.get())) {
      mapping.map(operand.get(), rebuild(operand.get(), {&operand, demand.before, demand.event}));
      waits = true;
    }
  if (!waits)
    for (Value operand : op->getOperands())
      mapping.map(operand, tie(operand, demand));
  builder.setInsertionPoint(demand.before);
  Operation *made = builder.clone(*op, mapping);
  made->setLoc(FusedLoc::get({op->getLoc()}, builder.getStringAttr(kRecomputed), builder.getContext()));
  return made;
}

/// `value`, to be read after the event. What every kernel computes for itself is left free to be: its source is tied.
Value RecomputeBuilder::tie(Value value, const Demand &demand) {
  Operation *op = value.getDefiningOp();
  if (!demand.event || (op && op->hasTrait<OpTrait::ConstantLike>()))
    return value;
  Value &result = tied[{value, demand.event}];
  if (result)
    return result;
  Value made;
  if (op && isFreeProducer(op) && graph.isTransparent(op)) {
    IRMapping mapping;
    for (OpOperand *source : getSources(op))
      mapping.map(source->get(), tie(source->get(), demand));
    builder.setInsertionPoint(demand.before);
    made = builder.clone(*op, mapping)->getResult(cast<OpResult>(value).getResultNumber());
  } else {
    builder.setInsertionPoint(demand.before);
    Location loc = FusedLoc::get({value.getLoc()}, builder.getStringAttr(kRecomputed), builder.getContext());
    made = AfterOp::create(builder, loc, value.getType(), value, demand.event);
  }
  return tied[{value, demand.event}] = made;
}

void RecomputeBuilder::build() {
  SmallVector<Operation *> readers;
  for (Operation &op : graph.getBlock().without_terminator())
    if (graph.getParts().isBackward(&op) && !graph.isTransparent(&op))
      readers.push_back(&op);
  for (Operation *reader : readers)
    for (OpOperand &operand : reader->getOpOperands())
      if (isRepeated(operand.get())) {
        // What is gathered for one use may start early: no gradient tells when.
        Value event = isForOneUse(reader) ? Value() : arrival.lookup(reader);
        operand.set(rebuild(operand.get(), {&operand, reader, event}));
      }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.getBlock())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

//===-- Updates --------------------------------------------------------------------------------------------------===//

/// Whether an op of the block makes the storage; then the op that writes it first is no update.
static bool isMadeIn(Block &block, Value root) {
  Operation *op = root.getDefiningOp();
  return op && op->getBlock() == &block;
}

static void delayUpdates(Block &block, const Aliases &aliases) {
  // By storage: what is read again, and by which op last.
  DenseMap<unsigned, SmallVector<std::pair<Place, Operation *>>> reads;
  for (Operation &op : block.without_terminator())
    if (isRecomputed(&op) && !isViewLike(&op))
      for (Place place : getReads(&op, aliases))
        if (!isMadeIn(block, aliases.getStorages()[place.storage].root))
          reads[place.storage].push_back({place, &op});
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator()))) {
    if (isViewLike(&op))
      continue;
    Operation *last = nullptr;
    for (Value result : op.getResults()) {
      Place place = aliases.getPlace(result);
      for (auto [read, reader] : reads.lookup(place.storage))
        if (read.overlaps(place) && reader != &op && op.isBeforeInBlock(reader) &&
            (!last || last->isBeforeInBlock(reader)))
          last = reader;
    }
    if (!last)
      continue;
    // The op and all that reads it in between go behind the last reader of the old contents, in their order.
    SmallVector<Operation *> moved;
    llvm::SmallDenseSet<Operation *> seen{&op};
    for (Operation *at = &op; at != last; at = at->getNextNode())
      if (at == &op || llvm::any_of(at->getOperands(), [&](Value v) { return seen.contains(v.getDefiningOp()); })) {
        seen.insert(at);
        moved.push_back(at);
      }
    for (Operation *at : moved) {
      at->moveAfter(last);
      last = at;
    }
  }
}

LogicalResult mlir::scrimp::delayUpdates(func::FuncOp function) {
  separateWrittenOperands(function);
  FailureOr<Aliases> aliases = Aliases::compute(function);
  if (failed(aliases))
    return failure();
  ::delayUpdates(function.getBody().front(), *aliases);
  function.walk([&](BodyOp body) { ::delayUpdates(body.getBodyBlock(), *aliases); });
  return success();
}
