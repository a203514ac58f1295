// scrimp-schedule: list scheduling for a lower peak, each block by itself. Dependences are those of SSA plus, where
// bytes are shared (buckets, donated arguments, accumulators), that old contents are read before new ones are written.
#include "ScheduleOverlap.h"

#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_SCHEDULE
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

/// The ops of a block by their position in the given order, and what must come before what. An op with a body touches
/// what its operands and results are; the body is isolated.
class Dependences {
public:
  Dependences(Block &block, const Aliases &aliases) : block(block), aliases(aliases) {
    for (Operation &op : block.without_terminator()) {
      position[&op] = ops.size();
      ops.push_back(&op);
    }
    successors.resize(ops.size());
    for (auto [i, op] : llvm::enumerate(ops))
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          addEdge(position.lookup(producer), i);
    addStorageEdges();
    if (auto function = dyn_cast<func::FuncOp>(block.getParentOp()))
      addGateEdges(function);
  }

  Block &block;
  SmallVector<Operation *, 0> ops;
  SmallVector<SmallVector<unsigned, 4>, 0> successors; // with repetitions
  /// Whether the given order goes against an edge: it reads an argument that is updated by then, or has an update
  /// before a gate that can come after it.
  bool isOrderIllegal = false;

private:
  void addEdge(unsigned from, unsigned to) {
    if (from == to)
      return;
    successors[from].push_back(to);
    isOrderIllegal |= from > to;
  }

  /// Whether the byte at `at` of the storage that `value` lies in is, as `value` means it, still what an argument of
  /// the block had before the first op.
  bool meansOldContents(Value value, int64_t at) const {
    while (std::optional<Tie> tie = getViewTie(value)) {
      Operation *op = value.getDefiningOp();
      value = op->getOperand(tie->operand);
      if (!tie->placed)
        continue;
      Place piece = aliases.getPlace(op->getOperand(*tie->placed));
      if (piece.offset <= at && at < piece.offset + piece.bytes)
        value = op->getOperand(*tie->placed);
    }
    return isa<BlockArgument>(value);
  }

  /// In every storage: each write comes after the reads and the write of the same bytes that precede it. One sweep in
  /// order; an interval map knows for each byte the last writer and its readers since. An op that means an argument's
  /// old contents goes before their replacement even if the given order has it after.
  void addStorageEdges() {
    struct Run {
      int64_t end;
      int writer;
      SmallVector<unsigned, 2> readers;
    };
    std::vector<std::map<int64_t, Run>> storages(aliases.getStorages().size());
    for (auto [s, storage] : llvm::enumerate(aliases.getStorages()))
      storages[s][0] = {storage.bytes, -1, {}};
    auto cut = [](std::map<int64_t, Run> &runs, int64_t at) {
      auto it = std::prev(runs.upper_bound(at));
      if (it->first == at || at >= it->second.end)
        return;
      Run upper = it->second;
      it->second.end = at;
      runs[at] = std::move(upper);
    };
    for (auto [i, op] : llvm::enumerate(ops)) {
      if (isViewLike(op) || isProgramConstant(op))
        continue;
      for (Value operand : getHeldOperands(op)) {
        Place place = aliases.getPlace(operand);
        auto &runs = storages[place.storage];
        cut(runs, place.offset);
        cut(runs, place.getEnd());
        for (auto it = runs.lower_bound(place.offset); it != runs.end() && it->first < place.getEnd(); ++it) {
          if (it->second.writer >= 0 && meansOldContents(operand, it->first))
            addEdge(i, it->second.writer);
          else
            it->second.readers.push_back(i);
        }
      }
      for (Value result : op->getResults()) {
        Place place = aliases.getPlace(result);
        auto &runs = storages[place.storage];
        cut(runs, place.offset);
        cut(runs, place.offset + place.bytes);
        auto it = runs.lower_bound(place.offset);
        while (it != runs.end() && it->first < place.offset + place.bytes) {
          if (it->second.writer >= 0)
            addEdge(it->second.writer, i);
          for (unsigned reader : it->second.readers)
            addEdge(reader, i);
          it = runs.erase(it);
        }
        runs[place.offset] = {place.offset + place.bytes, static_cast<int>(i), {}};
      }
    }
  }

  /// Updates of arguments come after the loss and other gates, apart from those that the gate depends on.
  void addGateEdges(func::FuncOp function) {
    SmallVector<unsigned> gates;
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput);
      if (!(output && output.getValue() == "loss") && !function.getResultAttr(i, ScrimpDialect::kGate))
        continue;
      if (Operation *gate = getComputingOp(value))
        gates.push_back(position.lookup(gate));
    }
    SmallVector<SmallVector<unsigned, 4>, 0> predecessors(ops.size());
    for (auto [i, list] : llvm::enumerate(successors))
      for (unsigned s : list)
        predecessors[s].push_back(i);
    for (unsigned gate : gates)
      addEdgesFrom(gate, predecessors);
  }

  void addEdgesFrom(unsigned gate, ArrayRef<SmallVector<unsigned, 4>> predecessors) {
    llvm::BitVector before(ops.size()); // what the gate depends on
    SmallVector<unsigned> worklist{gate};
    while (!worklist.empty()) {
      unsigned i = worklist.pop_back_val();
      if (before.test(i))
        continue;
      before.set(i);
      llvm::append_range(worklist, predecessors[i]);
    }
    for (auto [i, op] : llvm::enumerate(ops)) {
      bool isUpdate = !isViewLike(op) && llvm::any_of(op->getResults(), [&](Value result) {
        return isa<BlockArgument>(aliases.getRoot(result));
      });
      if (isUpdate && !before.test(i))
        addEdge(gate, i);
    }
  }

  const Aliases &aliases;
  llvm::DenseMap<Operation *, unsigned> position;
};

/// Which ready op comes next. KeepOrder: the first in the given order. The others: what frees most; of those that add
/// to what is live the first in the given order, or that which is needed first.
enum class Preference { KeepOrder, GivenOrder, EarliestNeed };

class ListScheduler {
public:
  ListScheduler(const Dependences &graph, const Aliases &aliases, const MemoryUse &use)
      : graph(graph), storages(aliases.getStorages().size()) {
    // What comes from outside of the block lives on whatever the order, and so does what persists.
    for (auto [s, storage] : llvm::enumerate(aliases.getStorages()))
      if (Value root = storage.root; root.getParentBlock() == &graph.block && !isa<BlockArgument>(root))
        storages[s].bytes = storage.bytes;
    for (const PersistentBlock &block : use.persistent)
      storages[aliases.getPlace(block.root).storage].bytes = 0;
    // What the block gives is never freed.
    for (Value value : graph.block.getTerminator()->getOperands())
      ++storages[aliases.getPlace(value).storage].remaining;
    accesses.resize(graph.ops.size());
    for (auto [i, op] : llvm::enumerate(graph.ops)) {
      if (isViewLike(op))
        continue;
      for (Value value : getHeldOperands(op))
        addAccess(i, aliases.getPlace(value).storage);
      for (Value value : op->getResults())
        addAccess(i, aliases.getPlace(value).storage);
    }
  }

  /// Leaves ops out if dependences are cyclic. To be called once.
  SmallVector<unsigned> schedule(Preference preference) {
    size_t count = graph.ops.size();
    SmallVector<unsigned> waitsFor(count, 0), need(count), order;
    for (auto &list : graph.successors)
      for (unsigned s : list)
        ++waitsFor[s];
    for (unsigned i = count; i-- > 0;) {
      need[i] = i;
      if (preference != Preference::EarliestNeed || graph.successors[i].empty())
        continue;
      need[i] = count;
      for (unsigned s : graph.successors[i])
        need[i] = std::min(need[i], isViewLike(graph.ops[s]) ? need[s] : s);
    }
    auto makeKey = [&](unsigned i) -> Key {
      int64_t delta = preference == Preference::KeepOrder ? 1 : getDelta(i);
      return delta <= 0 ? Key{delta, need[i], i} : Key{1, need[i], i};
    };
    std::set<Key> ready;
    SmallVector<Key> keys(count);
    auto enter = [&](unsigned i) { ready.insert(keys[i] = makeKey(i)); };
    for (unsigned i = 0; i < count; ++i)
      if (waitsFor[i] == 0)
        enter(i);
    SmallVector<bool> isDone(count, false);
    while (!ready.empty()) {
      unsigned i = std::get<2>(*ready.begin());
      ready.erase(ready.begin());
      isDone[i] = true;
      order.push_back(i);
      for (unsigned s : accesses[i]) {
        Access &storage = storages[s];
        bool isFirst = !std::exchange(storage.isAllocated, true);
        if (--storage.remaining > 1 && !isFirst)
          continue;
        for (unsigned other : storage.users)
          if (!isDone[other] && waitsFor[other] == 0) {
            ready.erase(keys[other]);
            enter(other);
          }
      }
      for (unsigned s : graph.successors[i])
        if (--waitsFor[s] == 0)
          enter(s);
    }
    return order;
  }

private:
  using Key = std::tuple<int64_t, unsigned, unsigned>;
  struct Access {
    int64_t bytes = 0;
    unsigned remaining = 0; // ops that have yet to touch it
    bool isAllocated = false;
    SmallVector<unsigned, 4> users;
  };

  void addAccess(unsigned op, unsigned storage) {
    if (storages[storage].bytes == 0 || llvm::is_contained(accesses[op], storage))
      return;
    accesses[op].push_back(storage);
    storages[storage].users.push_back(op);
    ++storages[storage].remaining;
  }

  /// How many more bytes are live after the op than before.
  int64_t getDelta(unsigned op) const {
    int64_t delta = 0;
    for (unsigned s : accesses[op]) {
      const Access &storage = storages[s];
      delta += (storage.isAllocated ? 0 : storage.bytes) - (storage.remaining == 1 ? storage.bytes : 0);
    }
    return delta;
  }

  const Dependences &graph;
  SmallVector<Access, 0> storages;
  SmallVector<SmallVector<unsigned, 4>, 0> accesses; // by op
};

/// A piece of a bucket that is computed before the rest of the bucket would be overwritten by that: moves it, and what
/// reads it, behind. (A loop over samples that gives the one lets everything stand before it that has no samples.) Gives
/// whether anything was moved.
bool movePiecesBehindBuckets(Block &block) {
  SmallVector<std::pair<Operation *, Operation *>> pairs;
  for (Operation &op : block.without_terminator()) {
    std::optional<Tie> tie = isViewLike(&op) ? getViewTie(op.getResult(0)) : std::nullopt;
    if (!tie || !tie->placed)
      continue;
    Operation *piece = getComputingOp(op.getOperand(*tie->placed)),
              *bucket = getComputingOp(op.getOperand(tie->operand));
    if (piece && bucket && piece->getBlock() == &block && bucket->getBlock() == &block)
      pairs.emplace_back(piece, bucket);
  }
  bool any = false;
  for (auto [piece, bucket] : pairs) {
    if (!piece->isBeforeInBlock(bucket))
      continue;
    llvm::SmallSetVector<Operation *, 8> moved;
    moved.insert(piece);
    for (Operation *op = piece->getNextNode(); op != bucket->getNextNode(); op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value v) { return moved.contains(v.getDefiningOp()); }))
        moved.insert(op);
    if (moved.contains(bucket)) // the plan's verifier will say so
      continue;
    for (Operation *op : llvm::reverse(moved))
      op->moveAfter(bucket);
    any = true;
  }
  return any;
}

struct Schedule : scrimp::impl::ScheduleBase<Schedule> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    FailureOr<Aliases> aliases = Aliases::compute(function);
    if (failed(aliases))
      return signalPassFailure();
    risen = 0;
    use = computeUse(*aliases);
    // Bodies first: what one needs at most is then known to the block around it.
    function.walk([&](BodyOp body) { scheduleBlock(body.getBodyBlock(), *aliases); });
    scheduleBlock(function.getBody().front(), *aliases);
  }

  void scheduleBlock(Block &block, const Aliases &aliases) {
    if (movePiecesBehindBuckets(block))
      use = computeUse(aliases);
    Dependences graph(block, aliases);
    SmallVector<unsigned> best = llvm::to_vector(llvm::seq<unsigned>(0, graph.ops.size()));
    int64_t bestPeak = graph.isOrderIllegal ? std::numeric_limits<int64_t>::max() : getPeak(block);
    for (Preference preference : {Preference::KeepOrder, Preference::GivenOrder, Preference::EarliestNeed}) {
      if (keepOrder && preference != Preference::KeepOrder)
        break;
      SmallVector<unsigned> order = ListScheduler(graph, aliases, use).schedule(preference);
      // An op that reads both the old and the new contents of the same bytes: the plan's verifier will say so.
      if (order.size() != graph.ops.size() || order == best)
        continue;
      apply(graph, order);
      MemoryUse other = std::exchange(use, computeUse(aliases));
      if (int64_t peak = getPeak(block); peak < bestPeak) {
        bestPeak = peak;
        best = std::move(order);
      } else {
        use = std::move(other);
      }
    }
    apply(graph, best);
    if (overlap && !keepOrder)
      overlapBlock(graph, best, aliases);
  }

  void overlapBlock(const Dependences &graph, ArrayRef<unsigned> order, const Aliases &aliases) {
    if (llvm::none_of(graph.ops, llvm::IsaPred<AsyncOp>))
      return;
    int64_t peak = getPeak(graph.block), room = std::max<int64_t>(0, overlapBytes - risen);
    apply(graph, overlapStarts(graph.block, graph.ops, graph.successors, order, use, aliases, room));
    MemoryUse before = std::exchange(use, computeUse(aliases));
    int64_t reached = getPeak(graph.block);
    if (reached <= peak + room) {
      risen = std::max(risen, reached - peak);
      return;
    }
    apply(graph, order); // another value had found room in an operand that now is held
    use = std::move(before);
  }

  void apply(const Dependences &graph, ArrayRef<unsigned> order) {
    Operation *terminator = graph.block.getTerminator();
    for (unsigned i : order)
      graph.ops[i]->moveBefore(terminator);
  }

  /// What it is for does not matter here, only where it lies and for how long.
  MemoryUse computeUse(const Aliases &aliases) { return computeMemoryUse(getOperation(), aliases, /*tellRoles=*/false); }

  int64_t risen = 0; // by how much bodies have raised their peaks
  MemoryUse use;     // of the function as its ops stand

  /// The largest live set while the block runs. Places do not depend on the order, so the alias model stays good.
  int64_t getPeak(Block &block) const {
    auto positionOf = [&](Operation &op) { return static_cast<int>(llvm::find(use.ops, &op) - use.ops.begin()); };
    int first = positionOf(block.front()), last = positionOf(block.back());
    int64_t alignment = TargetAttr::of(block.getParentOp()).getAlignment();
    planner::Problem problem;
    for (const TransientBlock &buffer : use.transient)
      if (buffer.last >= first && buffer.first <= last)
        problem.buffers.push_back(
            {buffer.bytes, alignment, std::max(buffer.first, first), std::min(buffer.last, last), ""});
    return planner::lowerBound(problem);
  }
};
} // namespace
