// scrimp-form-kernels: decides what one kernel computes. Fusion is greedy and asks FusionGroups for what is legal; an
// op that is free to compute again is copied into every kernel that reads it.
#include "scrimp/Analysis/FusionLegality.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <queue>

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_FORMKERNELS
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

static bool isRows(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Rows;
}

/// An op whose only readers are one group joins it: its value is never stored. Legal without a check, since every path
/// out of the op enters that group at once, unless an update waits for the op.
static void fuseIntoOnlyReader(FusionGroups &groups, Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    if (!isFusibleMap(&op) || op.use_empty())
      continue;
    Operation *reader = *op.user_begin();
    bool onlyOne = llvm::all_of(
        op.getUses(), [&](OpOperand &use) { return isPointwiseUse(use) && groups.sameGroup(use.getOwner(), reader); });
    if (onlyOne && (!groups.isReadBeforeUpdate(&op) || groups.mayFuse(&op, reader)))
      groups.fuse(reader, &op);
  }
}

/// A value that is stored anyway need not be read again by a reader that can share its kernel.
static void fuseWithReaders(FusionGroups &groups, Block &block) {
  for (Operation &op : block)
    for (OpOperand &use : op.getOpOperands())
      if (Operation *source = getPointwiseSource(use); source && groups.mayFuse(source, &op))
        groups.fuse(source, &op);
}

/// Whether the value lies in bytes of an operand.
static bool isTied(OpResult value) {
  auto alias = dyn_cast<AliasOp>(value.getOwner());
  return alias && alias.getTie(value.getResultNumber());
}

/// Moves of all that an op computes, read by nothing else, join it: it stores its results where they go. Legal without
/// a check, since a move depends on that op alone, unless it must wait until others have read what it overwrites.
static void fuseIntoProducer(FusionGroups &groups, Block &block) {
  for (Operation &op : block) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!isFusibleMap(&op) || !kernel.placesOperands() || groups.getMembers(&op).size() > 1 ||
        !groups.getReadersBefore(&op).empty())
      continue;
    Operation *producer = op.getOperand(0).getDefiningOp();
    bool storesAll = llvm::all_of(op.getOperands(), [&](Value value) {
      Operation *source = value.getDefiningOp();
      return source && value.hasOneUse() && !isTied(cast<OpResult>(value)) && groups.sameGroup(source, producer) &&
             (isRows(source) || (isRows(groups.getMembers(source)[0]) && cast<KernelOp>(source).placesOperands()));
    });
    if (storesAll)
      groups.fuse(producer, &op);
  }
}

/// What only maps of one group read of a rows op, element by element, they compute where it would be stored.
static void fuseWithFinishers(FusionGroups &groups, Block &block) {
  for (Operation &op : llvm::reverse(block))
    for (OpResult result : op.getResults()) {
      SmallVector<Operation *> finishers = getFinishers(result);
      bool isOneGroup = llvm::all_of(finishers, [&](Operation *f) { return groups.sameGroup(f, finishers.front()); });
      if (!finishers.empty() && isOneGroup && groups.mayFinish(result, finishers.front())) {
        groups.fuse(finishers.front(), &op);
        break;
      }
    }
}

namespace {
/// What stays one op after the pass: a group, or an op that is no kernel. `last` orders nodes that do not depend on
/// each other as their last ops were.
struct Node {
  SmallVector<Operation *> ops;
  unsigned last = 0, waitsFor = 0;
  SmallVector<unsigned> readers;
};
} // namespace

/// The nodes that define what `op` reads. A kernel copies free producers, stored or not, so it waits for what these
/// read: waiting for a stored one, it might wait for itself.
static void collectSources(Operation *op, const DenseMap<Operation *, unsigned> &nodeOf,
                           llvm::SetVector<unsigned> &out) {
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    if (!source)
      continue;
    auto node = nodeOf.find(source);
    if (node != nodeOf.end() && !(becomesKernel(op) && isFreeProducer(source)))
      out.insert(node->second);
    else
      collectSources(source, nodeOf, out);
  }
}

static std::vector<Node> sortedNodes(FusionGroups &groups, Block &block) {
  std::vector<Node> nodes;
  DenseMap<Operation *, unsigned> nodeOf;
  unsigned position = 0;
  for (Operation &op : block.without_terminator()) {
    ++position;
    if (!mustBeStored(&op))
      continue;
    auto known = nodeOf.find(groups.getMembers(&op).front());
    if (known == nodeOf.end()) {
      for (Operation *member : groups.getMembers(&op))
        nodeOf[member] = nodes.size();
      nodes.push_back({SmallVector<Operation *>(groups.getMembers(&op)), 0, 0, {}});
    }
    nodes[nodeOf.lookup(&op)].last = position;
  }
  for (unsigned n = 0; n < nodes.size(); ++n) {
    llvm::SetVector<unsigned> sources;
    for (Operation *op : nodes[n].ops) {
      collectSources(op, nodeOf, sources);
      for (Operation *reader : groups.getReadersBefore(op))
        if (auto node = nodeOf.find(reader); node != nodeOf.end())
          sources.insert(node->second);
    }
    sources.remove(n);
    nodes[n].waitsFor = sources.size();
    for (unsigned source : sources)
      nodes[source].readers.push_back(n);
  }
  auto later = [&](unsigned a, unsigned b) { return nodes[a].last > nodes[b].last; };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned n = 0; n < nodes.size(); ++n)
    if (nodes[n].waitsFor == 0)
      ready.push(n);
  std::vector<Node> sorted;
  while (!ready.empty()) {
    unsigned n = ready.top();
    ready.pop();
    sorted.push_back(nodes[n]);
    for (unsigned reader : nodes[n].readers)
      if (--nodes[reader].waitsFor == 0)
        ready.push(reader);
  }
  assert(sorted.size() == nodes.size() && "a group is not convex");
  return sorted;
}

/// Builds the kernel of `ops` at the builder's insertion point and redirects outside readers to its results.
static void buildKernel(OpBuilder &builder, ArrayRef<Operation *> ops) {
  SmallVector<Value> yielded;
  SmallVector<Location> locations;
  llvm::SmallDenseSet<Operation *> inside(ops.begin(), ops.end());
  for (Operation *op : ops) {
    locations.push_back(op->getLoc());
    // The op of a rows kernel stores all its results, unless moves take them elsewhere or maps finish them; of map ops
    // only what others read is stored.
    for (OpResult result : op->getResults()) {
      SmallVector<Operation *> finishers = getFinishers(result);
      bool isFinished = !finishers.empty() && inside.contains(finishers.front());
      bool isStored = (isRows(op) && result.use_empty()) ||
                      llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); });
      if (isStored && !isFinished)
        yielded.push_back(result);
    }
  }
  Location loc = builder.getFusedLoc(locations);
  auto body = std::make_unique<Block>();
  IRMapping mapping;
  SmallVector<Value> inputs;
  OpBuilder bodyBuilder(builder.getContext());
  bodyBuilder.setInsertionPointToEnd(body.get());
  auto copyIn = [&](auto &self, Operation *op) -> void {
    for (Value operand : op->getOperands()) {
      if (mapping.contains(operand))
        continue;
      Operation *source = operand.getDefiningOp();
      if (source && isFreeProducer(source) && !inside.contains(source)) {
        self(self, source);
        continue;
      }
      mapping.map(operand, body->addArgument(operand.getType(), operand.getLoc()));
      inputs.push_back(operand);
    }
    bodyBuilder.clone(*op, mapping);
  };
  for (Operation *op : ops)
    copyIn(copyIn, op);
  SmallVector<Value> results;
  for (Value value : yielded)
    results.push_back(mapping.lookup(value));
  YieldOp::create(bodyBuilder, loc, results);
  auto kernel = KernelRegionOp::create(builder, loc, TypeRange(ValueRange(yielded)), inputs);
  kernel.getBody().push_back(body.release());
  for (auto [value, result] : llvm::zip(yielded, kernel.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      // Kernels copy a free producer, stored or not.
      return !inside.contains(use.getOwner()) && !(isFreeProducer(ops[0]) && becomesKernel(use.getOwner()));
    });
}

/// Rejects what neither is a kernel nor needs none.
static LogicalResult checkOnlyKernels(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto kernel = dyn_cast<KernelOp>(op);
    bool isCommand = isViewLike(&op) || (kernel && (kernel.getKernelFamily() == KernelFamily::Library ||
                                                    kernel.getKernelFamily() == KernelFamily::Command));
    if (!isa<KernelRegionOp, BodyOp>(op) && !isCommand && !isStoredConstant(&op))
      return op.emitError() << "'" << op.getName() << "' has no kernel: it must implement KernelOp, or be lowered "
                            << "before scrimp-form-kernels";
  }
  return success();
}

namespace {
struct FormKernels : scrimp::impl::FormKernelsBase<FormKernels> {
  using FormKernelsBase::FormKernelsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(formKernels(function)))
        return signalPassFailure();
  }

  LogicalResult formKernels(func::FuncOp function) {
    if (!function.getBody().hasOneBlock())
      return function.emitError() << "a graph has one block, found " << function.getBody().getBlocks().size();
    if (!fuse)
      function.walk([](Operation *op) { op->removeAttr(ScrimpDialect::kInReaders); });
    separateWrittenOperands(function);
    return formKernels(function, function.getBody().front());
  }

  /// Bodies first: places depend on nothing that this changes.
  LogicalResult formKernels(func::FuncOp function, Block &block) {
    eraseDead(block);
    for (Operation &op : block)
      if (auto body = dyn_cast<BodyOp>(op); body && failed(formKernels(function, body.getBodyBlock())))
        return failure();
    FailureOr<Aliases> aliases = Aliases::compute(function);
    if (failed(aliases))
      return failure();
    FusionGroups groups(block, *aliases);
    if (fuse) {
      fuseIntoOnlyReader(groups, block);
      fuseWithReaders(groups, block);
      if (TargetAttr::of(function).isDevice())
        fuseIntoProducer(groups, block);
      fuseWithFinishers(groups, block);
    }
    OpBuilder builder(block.getTerminator());
    for (const Node &node : sortedNodes(groups, block)) {
      if (becomesKernel(node.ops[0]))
        buildKernel(builder, node.ops);
      else
        node.ops[0]->moveBefore(block.getTerminator());
    }
    eraseDead(block);
    return checkOnlyKernels(block);
  }

  static void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
