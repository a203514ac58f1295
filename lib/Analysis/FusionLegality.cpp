#include "scrimp/Analysis/FusionLegality.h"

using namespace mlir;
using namespace mlir::scrimp;

static bool isOf(Operation *op, KernelFamily family) {
  auto kernel = dyn_cast_or_null<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == family;
}

static bool isMap(Operation *op) { return isOf(op, KernelFamily::Map); }

bool mlir::scrimp::isFreeProducer(Operation *op) { return isMap(op) && cast<KernelOp>(op).isFreeInKernel(); }

bool mlir::scrimp::isStoredConstant(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() && !isFreeProducer(op);
}

/// The earliest op of `block` that writes the bytes in which `value` is made: seen through views and updates in place.
static Operation *findFirstWriter(Value value, Block &block, Operation *first) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block)
    return first;
  if (!isViewLike(op) && (!first || op->isBeforeInBlock(first)))
    first = op;
  auto alias = dyn_cast<AliasOp>(op);
  std::optional<Tie> tie = alias ? alias.getTie(cast<OpResult>(value).getResultNumber()) : std::nullopt;
  return tie ? findFirstWriter(op->getOperand(tie->operand), block, first) : first;
}

/// The op that puts another piece into the bucket `whole`; null: none does.
static Operation *findNextPack(Value whole) {
  for (OpOperand &use : whole.getUses())
    if (isViewLike(use.getOwner()))
      for (OpResult result : use.getOwner()->getResults())
        if (std::optional<Tie> tie = getViewTie(result); tie->placed && tie->operand == use.getOperandNumber())
          return use.getOwner();
  return nullptr;
}

/// Where the bucket that `pack` puts a piece into must be there: before any piece is made in it.
static Operation *findFirstPiece(Operation *pack) {
  Operation *first = pack;
  for (Operation *at = pack; at; at = findNextPack(at->getResult(0)))
    if (std::optional<Tie> tie = getViewTie(at->getResult(0)); tie && tie->placed)
      first = findFirstWriter(at->getOperand(*tie->placed), *pack->getBlock(), first);
  return first;
}

void mlir::scrimp::separateWrittenOperands(func::FuncOp function) {
  auto separate = [](Operation *op, unsigned operand, bool isBucket) {
    Operation *producer = op->getOperand(operand).getDefiningOp();
    if (!producer || !isFreeProducer(producer) || (producer->getResult(0).hasOneUse() && !isBucket))
      return;
    Operation *before = isBucket ? findFirstPiece(op) : op;
    op->setOperand(operand, OpBuilder(before).clone(*producer)->getResult(0));
    if (producer->use_empty())
      producer->erase();
  };
  function.walk([&](Operation *op) {
    auto alias = dyn_cast<AliasOp>(op);
    if (!alias)
      return;
    for (OpResult result : op->getResults())
      if (std::optional<Tie> tie = alias.getTie(result.getResultNumber()); tie && (alias.hasCode() || tie->placed)) {
        if (tie->placed)
          separate(op, *tie->placed, /*isBucket=*/false);
        separate(op, tie->operand, /*isBucket=*/tie->placed.has_value());
      }
  });
}

bool mlir::scrimp::becomesKernel(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && !isStoredConstant(op) &&
         (kernel.getKernelFamily() == KernelFamily::Map || kernel.getKernelFamily() == KernelFamily::Rows);
}

bool mlir::scrimp::mustBeStored(Operation *op) {
  return !isFreeProducer(op) || llvm::any_of(op->getUsers(), [](Operation *user) { return !becomesKernel(user); });
}

bool mlir::scrimp::isFusibleMap(Operation *op) {
  return op && isMap(op) && !isFreeProducer(op) && !isStoredConstant(op);
}

bool mlir::scrimp::isPointwiseUse(OpOperand &use) {
  Operation *producer = use.get().getDefiningOp(), *consumer = use.getOwner();
  return isFusibleMap(producer) && isFusibleMap(consumer) && producer->getBlock() == consumer->getBlock() &&
         shapeOf(use.get()) == shapeOf(consumer->getResult(0)) &&
         cast<KernelOp>(consumer).isPointwiseOperand(use.getOperandNumber());
}

Operation *mlir::scrimp::getPointwiseSource(OpOperand &use) {
  Operation *consumer = use.getOwner(), *source = use.get().getDefiningOp();
  if (!isFusibleMap(consumer) || shapeOf(use.get()) != shapeOf(consumer->getResult(0)) ||
      !cast<KernelOp>(consumer).isPointwiseOperand(use.getOperandNumber()))
    return nullptr;
  while (source && isFreeProducer(source) && source->getNumOperands() == 1 &&
         cast<KernelOp>(source).isPointwiseOperand(0))
    source = source->getOperand(0).getDefiningOp();
  return isFusibleMap(source) && source->getBlock() == consumer->getBlock() ? source : nullptr;
}

/// False if something reads `value` otherwise.
static bool collectFinishers(Value value, OpResult result, SmallVectorImpl<Operation *> &finishers) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *reader = use.getOwner();
    if (!isMap(reader) || reader->getBlock() != result.getOwner()->getBlock() ||
        !cast<KernelOp>(reader).isPointwiseOperand(use.getOperandNumber()) ||
        shapeOf(reader->getResult(0)) != shapeOf(result))
      return false;
    if (isFreeProducer(reader))
      return collectFinishers(reader->getResult(0), result, finishers);
    finishers.push_back(reader);
    return isFusibleMap(reader);
  });
}

SmallVector<Operation *> mlir::scrimp::getFinishers(OpResult result) {
  SmallVector<Operation *> finishers;
  bool isRows = isOf(result.getOwner(), KernelFamily::Rows);
  if (!isRows || !cast<KernelOp>(result.getOwner()).mayFinish(result.getResultNumber()) ||
      !collectFinishers(result, result, finishers))
    finishers.clear();
  return finishers;
}

OpResult mlir::scrimp::getFinishedResult(Operation *rows) {
  for (OpResult result : rows->getResults())
    if (!getFinishers(result).empty())
      return result;
  return {};
}

void FusionGroups::collectSuccessors(Operation *op, SmallVectorImpl<Operation *> &successors) const {
  if (auto updates = updatesAfter.find(op); updates != updatesAfter.end())
    llvm::append_range(successors, updates->second);
  // Kernels copy a free producer: they wait for what it reads.
  for (Operation *user : op->getUsers())
    if (isFreeProducer(user))
      collectSuccessors(user, successors);
    else
      successors.push_back(user);
}

FusionGroups::FusionGroups(Block &block, const Aliases &aliases) : block(block) {
  for (Operation &op : block) {
    position[&op] = members.size();
    groupAt.push_back(members.size());
    reach.push_back(members.size());
    members.push_back({&op});
  }
  collectUpdates(aliases);
  for (Operation &op : block) {
    SmallVector<Operation *> later;
    collectSuccessors(&op, later);
    SmallVector<unsigned, 4> &places = successors.emplace_back();
    for (Operation *user : later)
      places.push_back(position.lookup(block.findAncestorOpInBlock(*user)));
  }
}

static void collectReads(Operation *op, const Aliases &aliases, SmallVectorImpl<Place> &reads) {
  for (Value operand : getHeldOperands(op)) {
    Operation *source = operand.getDefiningOp();
    if (source && isFreeProducer(source)) {
      collectReads(source, aliases, reads);
      continue;
    }
    reads.push_back(aliases.getPlace(operand));
  }
}

SmallVector<Place> mlir::scrimp::getReads(Operation *op, const Aliases &aliases) {
  SmallVector<Place> reads;
  collectReads(op, aliases, reads);
  return reads;
}

void FusionGroups::collectUpdates(const Aliases &aliases) {
  // Every reader of what an op overwrites stands before it: the optimizer has placed updates so. A result in bytes of
  // its own has no readers yet.
  DenseMap<unsigned, SmallVector<std::pair<Place, Operation *>>> readers;
  for (Operation &op : block.without_terminator()) {
    if (isViewLike(&op))
      continue;
    for (Value result : op.getResults()) {
      Place place = aliases.getPlace(result);
      for (auto &[read, reader] : readers.lookup(place.storage)) {
        if (read.overlaps(place) && reader != &op) {
          readersBefore[&op].push_back(reader);
          updatesAfter[reader].push_back(&op);
        }
      }
    }
    for (Place place : getReads(&op, aliases))
      readers[place.storage].emplace_back(place, &op);
  }
}

bool FusionGroups::mayFuse(Operation *producer, Operation *consumer) const {
  if (!isFusibleMap(producer) || !isFusibleMap(consumer) ||
      shapeOf(producer->getResult(0)) != shapeOf(consumer->getResult(0)))
    return false;
  unsigned from = getGroup(producer), to = getGroup(consumer);
  return from == to || (!pathLeavesAndReturns(from, to) && !pathLeavesAndReturns(to, from));
}

bool FusionGroups::isReadBy(Value value, unsigned group) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isFreeProducer(user) ? isReadBy(user->getResult(0), group) : getGroup(user) == group;
  });
}

bool FusionGroups::mayFinish(OpResult result, Operation *finisher) const {
  Operation *rows = result.getOwner();
  unsigned from = getGroup(rows), to = getGroup(finisher);
  if (members[from].size() > 1 || llvm::any_of(members[to], [](Operation *op) { return isOf(op, KernelFamily::Rows); }))
    return false;
  // Statistics are not there yet where an element is.
  bool readsOthers = llvm::any_of(rows->getResults(), [&](OpResult r) { return r != result && isReadBy(r, to); });
  return !readsOthers && !pathLeavesAndReturns(from, to) && !pathLeavesAndReturns(to, from);
}

bool FusionGroups::pathLeavesAndReturns(unsigned from, unsigned to) const {
  // A path leads from an op to later ones, or back within a group that it enters. So what lies behind all groups that
  // reach over the end of `to`, one after the other, cannot lead into it.
  unsigned last = position.lookup(members[to].back());
  while (reach[last] > last)
    last = reach[last];
  SmallVector<unsigned> worklist;
  llvm::SmallDenseSet<unsigned> seen{from};
  auto follow = [&](unsigned group, bool mayReach) {
    for (Operation *member : members[group]) {
      for (unsigned user : successors[position.lookup(member)]) {
        unsigned next = groupAt[user];
        if (next == to && !mayReach)
          return true;
        if (next != to && position.lookup(members[next].front()) <= last && seen.insert(next).second)
          worklist.push_back(next);
      }
    }
    return false;
  };
  (void)follow(from, true);
  while (!worklist.empty())
    if (follow(worklist.pop_back_val(), false))
      return true;
  return false;
}

void FusionGroups::fuse(Operation *a, Operation *b) {
  unsigned to = getGroup(a), from = getGroup(b);
  if (to == from)
    return;
  for (Operation *op : members[from])
    groupAt[position.lookup(op)] = to;
  llvm::append_range(members[to], members[from]);
  members[from].clear();
  llvm::sort(members[to], [&](Operation *x, Operation *y) { return position.lookup(x) < position.lookup(y); });
  unsigned last = position.lookup(members[to].back());
  for (unsigned i = position.lookup(members[to].front()); reach[i] < last; ++i)
    reach[i] = last;
}
