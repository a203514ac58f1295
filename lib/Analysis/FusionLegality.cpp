#include "scrimp/Analysis/FusionLegality.h"

using namespace mlir;
using namespace mlir::scrimp;

static bool isMap(Operation *op) {
  auto kernel = dyn_cast_or_null<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Map;
}

bool mlir::scrimp::isFreeProducer(Operation *op) { return isMap(op) && cast<KernelOp>(op).isFreeInKernel(); }

bool mlir::scrimp::isStoredConstant(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() && !isFreeProducer(op);
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

FusionGroups::FusionGroups(Block &block) : block(block) {
  for (Operation &op : block) {
    position[&op] = members.size();
    groupOf[&op] = members.size();
    members.push_back({&op});
  }
}

bool FusionGroups::mayFuse(Operation *producer, Operation *consumer) const {
  if (!isFusibleMap(producer) || !isFusibleMap(consumer) ||
      shapeOf(producer->getResult(0)) != shapeOf(consumer->getResult(0)))
    return false;
  unsigned from = groupOf.lookup(producer), to = groupOf.lookup(consumer);
  return from == to || (!pathLeavesAndReturns(from, to) && !pathLeavesAndReturns(to, from));
}

bool FusionGroups::pathLeavesAndReturns(unsigned from, unsigned to) const {
  unsigned last = position.lookup(members[to].back());
  SmallVector<unsigned> worklist;
  llvm::SmallDenseSet<unsigned> seen{from};
  auto follow = [&](unsigned group, bool mayReach) {
    for (Operation *member : members[group])
      for (Operation *user : member->getUsers()) {
        Operation *inBlock = block.findAncestorOpInBlock(*user);
        unsigned next = groupOf.lookup(inBlock);
        if (next == to && !mayReach)
          return true;
        // A group that begins after `to` ends cannot lead into it.
        if (next != to && position.lookup(members[next].front()) <= last && seen.insert(next).second)
          worklist.push_back(next);
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
  unsigned to = groupOf.lookup(a), from = groupOf.lookup(b);
  if (to == from)
    return;
  for (Operation *op : members[from])
    groupOf[op] = to;
  llvm::append_range(members[to], members[from]);
  members[from].clear();
  llvm::sort(members[to], [&](Operation *x, Operation *y) { return position.lookup(x) < position.lookup(y); });
}
