// scrimp-join-updates: kernels that update members of the same buckets become one kernel of several sections, as far as
// gradients may wait for each other without a higher peak.
#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <array>
#include <map>

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_JOINUPDATES
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// A thread holds the addresses of all buffers in registers: of AdamW in f64, which has 7 in each section, 8 sections
/// leave enough for what it computes.
static constexpr size_t kMostPointers = 64, kMostSections = 8;

namespace {
/// What is live at each op of a function, while some of them move down: all, and all but workspaces. The second is the
/// same for all devices, whatever their libraries ask, so that mostly they are given the same kernels.
class LiveBytes {
public:
  LiveBytes(func::FuncOp function, const Aliases &aliases) : aliases(aliases) {
    MemoryUse use = computeMemoryUse(function, aliases, /*tellRoles=*/false);
    for (auto [t, op] : llvm::enumerate(use.ops))
      position[op] = t;
    int64_t alignment = TargetAttr::of(function).getAlignment();
    for (std::vector<int64_t> &each : live)
      each.assign(use.ops.size(), 0);
    for (const TransientBlock &block : use.transient) {
      int64_t bytes = llvm::alignTo(block.bytes, alignment);
      add(live[0], bytes, block.first, block.last);
      if (!block.workspaceOf)
        add(live[1], bytes, block.first, block.last);
      for (const Tenant &tenant : block.tenants)
        tenants[aliases.getPlace(tenant.root).storage] = {blocks.size(), tenant.last, &tenant == &block.tenants.back()};
      blocks.push_back({bytes, block.last});
    }
    for (auto [each, most] : llvm::zip(live, peak))
      most = *llvm::max_element(each);
  }

  /// Has `op`, whose results are there in any case, run as late as `anchor`, and its operands live until then. False,
  /// and nothing has changed, if the peak would rise.
  bool moveDown(Operation *op, Operation *anchor) {
    int to = position.lookup(anchor);
    llvm::SmallSetVector<size_t, 4> extended;
    for (Value operand : op->getOperands()) {
      auto tenant = tenants.find(aliases.getPlace(operand).storage);
      if (tenant == tenants.end()) // it persists
        continue;
      auto [block, last, isFinal] = tenant->second;
      if (!isFinal && last < to)
        return false; // another value takes the bytes over
      if (isFinal && blocks[block].last < to)
        extended.insert(block);
    }
    std::array<std::vector<int64_t>, 2> raised = live;
    for (auto [each, most] : llvm::zip(raised, peak)) {
      for (size_t block : extended)
        add(each, blocks[block].bytes, blocks[block].last + 1, to);
      if (*llvm::max_element(each) > most)
        return false;
    }
    live = std::move(raised);
    for (size_t block : extended)
      blocks[block].last = to;
    return true;
  }

private:
  struct LiveBlock {
    int64_t bytes;
    int last;
  };
  struct LiveTenant {
    size_t block;
    int last;
    bool isFinal; // of its block
  };

  static void add(std::vector<int64_t> &live, int64_t bytes, int first, int last) {
    for (int t = first; t <= last; ++t)
      live[t] += bytes;
  }

  const Aliases &aliases;
  llvm::DenseMap<Operation *, int> position;
  std::array<std::vector<int64_t>, 2> live;
  std::vector<LiveBlock> blocks;
  llvm::DenseMap<unsigned, LiveTenant> tenants; // by storage
  std::array<int64_t, 2> peak;
};
} // namespace

/// The storages that the results lie in, if all are arguments of the function: what a kernel of maps updates.
static std::vector<unsigned> getUpdated(Operation &op, const Aliases &aliases) {
  auto kernel = dyn_cast<KernelRegionOp>(op);
  if (!kernel || llvm::any_of(kernel.getBody().front().without_terminator(), [](Operation &inner) {
        return cast<KernelOp>(inner).getKernelFamily() != KernelFamily::Map;
      }))
    return {};
  std::vector<unsigned> storages;
  for (Value result : op.getResults()) {
    if (!isa<BlockArgument>(aliases.getRoot(result)) || shapeOf(result) != shapeOf(op.getResult(0)))
      return {};
    storages.push_back(aliases.getPlace(result).storage);
  }
  return storages;
}

/// Whether `kernel` may run right before `anchor`, further down in its block: nothing between needs its results, or
/// overwrites what it reads.
static bool mayPass(KernelRegionOp kernel, Operation *anchor, const Aliases &aliases) {
  SmallVector<Place> reads, writes;
  for (Value operand : kernel.getOperands())
    reads.push_back(aliases.getPlace(operand));
  for (Value result : kernel.getResults())
    writes.push_back(aliases.getPlace(result));
  auto overlaps = [&](ArrayRef<Place> places, Value value) {
    return llvm::any_of(places, [place = aliases.getPlace(value)](Place each) { return each.overlaps(place); });
  };
  for (Operation *op = kernel->getNextNode(); op != anchor; op = op->getNextNode()) {
    if (isViewLike(op))
      continue;
    for (Value operand : getHeldOperands(op))
      if (overlaps(writes, operand))
        return false;
    for (Value result : op->getResults())
      if (overlaps(writes, result) || overlaps(reads, result))
        return false;
  }
  return true;
}

/// One kernel in the place of the last of them.
static void join(ArrayRef<KernelRegionOp> kernels) {
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs;
  SmallVector<Location> locations;
  SmallVector<int64_t> sections;
  for (KernelRegionOp kernel : kernels) {
    inputs.insert(kernel->operand_begin(), kernel->operand_end());
    llvm::append_range(outputs, kernel.getResults());
    locations.push_back(kernel.getLoc());
    llvm::append_range(sections, kernel.getResultCounts());
  }
  // Views of results, and what has been put together of them, come behind.
  SmallVector<Operation *> views;
  llvm::SmallDenseSet<Value> moved(outputs.begin(), outputs.end());
  Operation *last = kernels.back();
  for (Operation *op = kernels.front()->getNextNode(); op != last; op = op->getNextNode())
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return moved.contains(operand); })) {
      views.push_back(op);
      moved.insert(op->result_begin(), op->result_end());
    }

  OpBuilder builder(last);
  Location loc = builder.getFusedLoc(locations);
  auto joined = KernelRegionOp::create(builder, loc, TypeRange(ValueRange(outputs)), inputs.getArrayRef(),
                                       builder.getDenseI64ArrayAttr(sections));
  Block &body = joined.getBody().emplaceBlock();
  IRMapping mapping;
  llvm::DenseMap<Value, Value> arguments;
  for (Value input : inputs)
    arguments[input] = body.addArgument(input.getType(), input.getLoc());
  builder.setInsertionPointToEnd(&body);
  SmallVector<Value> yielded;
  for (KernelRegionOp kernel : kernels) {
    Block &own = kernel.getBody().front();
    for (auto [operand, argument] : llvm::zip(kernel.getOperands(), own.getArguments()))
      mapping.map(argument, arguments.lookup(operand));
    for (Operation &op : own.without_terminator())
      builder.clone(op, mapping);
    for (Value value : own.getTerminator()->getOperands())
      yielded.push_back(mapping.lookup(value));
  }
  YieldOp::create(builder, loc, yielded);
  for (auto [old, result] : llvm::zip_equal(outputs, joined.getResults()))
    old.replaceAllUsesWith(result);
  for (KernelRegionOp kernel : kernels)
    kernel.erase();
  Operation *behind = joined;
  for (Operation *view : views) {
    view->moveAfter(behind);
    behind = view;
  }
}

namespace {
struct JoinUpdates : scrimp::impl::JoinUpdatesBase<JoinUpdates> {
  using JoinUpdatesBase::JoinUpdatesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !TargetAttr::of(function).isDevice())
      return;
    FailureOr<Aliases> aliases = Aliases::compute(function);
    if (failed(aliases))
      return signalPassFailure();
    std::map<std::vector<unsigned>, SmallVector<KernelRegionOp>> updates; // by what they update, in order
    for (Operation &op : function.getBody().front())
      if (std::vector<unsigned> storages = getUpdated(op, *aliases); !storages.empty())
        updates[storages].push_back(cast<KernelRegionOp>(op));
    // Places do not depend on the order, so the alias model stays good until the kernels change.
    LiveBytes live(function, *aliases);
    SmallVector<SmallVector<KernelRegionOp>> groups;
    for (auto &[storages, kernels] : updates)
      while (!kernels.empty())
        groups.push_back(takeGroup(kernels, live, *aliases));
    for (ArrayRef<KernelRegionOp> group : groups)
      if (group.size() > 1)
        join(group);
  }

  /// The last of `kernels` and those before it that may run as late; they are taken out.
  static SmallVector<KernelRegionOp> takeGroup(SmallVector<KernelRegionOp> &kernels, LiveBytes &live,
                                               const Aliases &aliases) {
    KernelRegionOp anchor = kernels.back();
    SmallVector<KernelRegionOp> group, left;
    llvm::SmallDenseSet<Value> inputs;
    size_t sections = 0, results = 0;
    for (KernelRegionOp kernel : llvm::reverse(kernels)) {
      llvm::SmallDenseSet<Value> all = inputs;
      all.insert(kernel->operand_begin(), kernel->operand_end());
      size_t allResults = results + kernel->getNumResults(), allSections = sections + kernel.getResultCounts().size();
      bool isSmall = all.size() + allResults <= kMostPointers && allSections <= kMostSections;
      if (kernel != anchor && (!isSmall || !mayPass(kernel, anchor, aliases) || !live.moveDown(kernel, anchor))) {
        left.push_back(kernel);
        continue;
      }
      inputs = std::move(all);
      results = allResults;
      sections = allSections;
      group.push_back(kernel);
    }
    std::reverse(group.begin(), group.end());
    kernels.assign(left.rbegin(), left.rend());
    return group;
  }
};
} // namespace
