#include "ScheduleOverlap.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class Overlap {
public:
  Overlap(Block &block, ArrayRef<Operation *> ops, ArrayRef<SmallVector<unsigned, 4>> successors,
          ArrayRef<unsigned> order, const MemoryUse &use, const Aliases &aliases)
      : ops(ops), successors(successors), order(order), predecessors(ops.size()), added(ops.size()), behind(ops.size()),
        end(ops.size()), index(ops.size()), deadline(ops.size()) {
    for (auto [i, list] : llvm::enumerate(successors))
      for (unsigned s : list)
        predecessors[s].push_back(i);
    llvm::DenseMap<Operation *, unsigned> number;
    for (auto [i, op] : llvm::enumerate(ops))
      number[op] = i;
    for (auto [i, op] : llvm::enumerate(ops))
      if (auto start = dyn_cast<AsyncOp>(op); start && start.getEnd())
        end[i] = number.lookup(start.getEnd());
    readMemory(block, use, aliases);
    update();
    peak = load.empty() ? 0 : *llvm::max_element(load);
    for (auto [i, to] : llvm::enumerate(end))
      if (to)
        deadline[i] = latestOf(*to);
  }

  SmallVector<unsigned> run() {
    for (unsigned op : SmallVector<unsigned>(order))
      if (end[op]) {
        moveDown(*end[op]);
        moveUp(op);
      }
    return std::move(order);
  }

private:
  /// A block of memory from one op to another, both included; none: from before or until after all of them.
  struct Interval {
    int64_t bytes;
    std::optional<unsigned> first, last;
  };

  bool isView(unsigned op) const { return isViewLike(ops[op]); }

  void readMemory(Block &block, const MemoryUse &use, const Aliases &aliases) {
    // Positions to ops: those of a body are its op's.
    llvm::DenseMap<Operation *, unsigned> number;
    for (auto [i, op] : llvm::enumerate(ops))
      number[op] = i;
    std::vector<std::optional<unsigned>> opAt(use.ops.size());
    int begin = -1, finish = -1;
    std::optional<unsigned> current;
    for (auto [t, op] : llvm::enumerate(use.ops)) {
      if (op->getBlock() == &block) {
        begin = begin < 0 ? t : begin;
        finish = t;
        auto known = number.find(op);
        current = known == number.end() ? std::nullopt : std::optional(known->second); // none: the terminator
      } else if (op == block.getParentOp() || begin < 0 || !block.getParent()->isAncestor(op->getParentRegion())) {
        current = std::nullopt;
      }
      opAt[t] = current;
    }
    llvm::DenseMap<unsigned, SmallVector<unsigned>> touching; // by storage
    for (auto [i, op] : llvm::enumerate(ops)) {
      if (isView(i))
        continue;
      llvm::SmallDenseSet<unsigned> storages;
      for (Value value : llvm::concat<Value>(getHeldOperands(op), SmallVector<Value>(op->getResults())))
        storages.insert(aliases.getPlace(value).storage);
      for (unsigned storage : storages)
        touching[storage].push_back(i);
    }
    std::vector<int64_t> inside(use.ops.size() + 1); // what lives within one op, as differences
    for (const TransientBlock &memory : use.transient) {
      if (memory.last < begin || memory.first > finish)
        continue;
      int64_t bytes = llvm::alignTo(memory.bytes, kAlignment); // as the planner counts
      std::optional<unsigned> first = memory.first < begin ? std::nullopt : opAt[memory.first],
                              last = memory.last > finish ? std::nullopt : opAt[memory.last];
      if (first && first == last) {
        inside[memory.first] += bytes;
        inside[memory.last + 1] -= bytes;
        continue;
      }
      intervals.push_back({bytes, first, last});
      if (first)
        added[*first].up += bytes;
      if (last)
        added[*last].down += bytes;
      // A result in the bytes of an operand that dies: the order of the two holds.
      for (auto [before, after] :
           llvm::zip(ArrayRef(memory.tenants).drop_back(), ArrayRef(memory.tenants).drop_front()))
        if (std::optional<unsigned> taker =
                after.first < begin || after.first > finish ? std::nullopt : opAt[after.first])
          for (unsigned i : touching.lookup(aliases.getPlace(before.root).storage))
            keepBefore(i, *taker);
    }
    inner.resize(ops.size());
    int64_t live = 0;
    for (auto [t, op] : llvm::enumerate(use.ops)) {
      live += inside[t];
      if (opAt[t])
        inner[*opAt[t]] = std::max(inner[*opAt[t]], live);
    }
  }

  /// `taker` writes over what op `i` needs, unless that is the op which ends the taker itself.
  void keepBefore(unsigned i, unsigned taker) {
    if (i == taker || end[taker] == i || !(end[taker] || !getEndedOps(ops[i]).empty()))
      return;
    predecessors[taker].push_back(i);
    behind[i].push_back(taker);
  }

  /// The largest live set at each op of the order.
  void update() {
    for (auto [k, op] : llvm::enumerate(order))
      index[op] = k;
    std::vector<int64_t> differences(order.size() + 1);
    for (const Interval &interval : intervals) {
      differences[interval.first ? index[*interval.first] : 0] += interval.bytes;
      if (interval.last)
        differences[index[*interval.last] + 1] -= interval.bytes;
    }
    load.assign(order.size(), 0);
    int64_t live = 0;
    for (auto [k, op] : llvm::enumerate(order)) {
      live += differences[k];
      load[k] = live + inner[op];
    }
  }

  /// The first place that an op can have, if the views that it reads move with it.
  unsigned earliestOf(unsigned op) const {
    unsigned earliest = 0;
    llvm::SmallSetVector<unsigned, 4> seen;
    seen.insert(op);
    for (size_t i = 0; i < seen.size(); ++i)
      for (unsigned p : predecessors[seen[i]]) {
        if (isView(p))
          seen.insert(p);
        else
          earliest = std::max(earliest, index[p] + 1);
      }
    return earliest;
  }

  /// The first op that must stay behind `op`, seen through views, which can move with it.
  unsigned latestOf(unsigned op) const {
    unsigned latest = order.size();
    llvm::SmallSetVector<unsigned, 4> seen;
    seen.insert(op);
    for (size_t i = 0; i < seen.size(); ++i)
      for (ArrayRef<unsigned> list : {ArrayRef<unsigned>(successors[seen[i]]), ArrayRef<unsigned>(behind[seen[i]])})
        for (unsigned s : list) {
          if (isView(s))
            seen.insert(s);
          else
            latest = std::min(latest, index[s]);
        }
    return latest;
  }

  void moveUp(unsigned op) {
    unsigned from = index[op], lowest = earliestOf(op), to = from;
    int64_t bytes = added[op].up;
    while (to > lowest && (isView(order[to - 1]) || load[to - 1] + bytes <= peak) &&
           !(end[order[to - 1]] && deadline[order[to - 1]] < deadline[op]))
      --to;
    llvm::SmallSetVector<unsigned, 4> moved;
    moved.insert(op);
    for (size_t i = 0; i < moved.size(); ++i)
      for (unsigned p : predecessors[moved[i]])
        if (isView(p) && index[p] >= to)
          moved.insert(p);
    move(moved.takeVector(), to, from + 1, /*toFront=*/true);
  }

  void moveDown(unsigned op) {
    unsigned from = index[op], limit = latestOf(op), to = from + 1;
    int64_t bytes = added[op].down;
    while (to < limit && (isView(order[to]) || load[to] + bytes <= peak))
      ++to;
    llvm::SmallSetVector<unsigned, 4> moved;
    moved.insert(op);
    for (size_t i = 0; i < moved.size(); ++i)
      for (unsigned s : successors[moved[i]])
        if (isView(s) && index[s] < to)
          moved.insert(s);
    move(moved.takeVector(), from, to, /*toFront=*/false);
  }

  /// Brings some of what stands at [begin, end) to the front or the back of that.
  void move(ArrayRef<unsigned> moved, unsigned begin, unsigned last, bool toFront) {
    auto isMoved = [&](unsigned op) { return llvm::is_contained(moved, op); };
    SmallVector<unsigned> front, back;
    bool passesCode = false; // past views alone nothing is won
    for (unsigned op : ArrayRef(order).slice(begin, last - begin)) {
      (isMoved(op) == toFront ? front : back).push_back(op);
      passesCode |= !isMoved(op) && !isView(op);
    }
    if (!passesCode)
      return;
    llvm::append_range(front, back);
    llvm::copy(front, order.begin() + begin);
    update();
  }

  ArrayRef<Operation *> ops;
  ArrayRef<SmallVector<unsigned, 4>> successors;
  SmallVector<unsigned> order;
  SmallVector<SmallVector<unsigned, 4>, 0> predecessors;
  /// Bytes that live longer if the op moves up or down.
  struct Moved {
    int64_t up = 0, down = 0;
  };
  SmallVector<Moved, 0> added;
  SmallVector<SmallVector<unsigned, 1>, 0> behind; // further ops that must stay behind an op
  SmallVector<std::optional<unsigned>, 0> end;     // by op that starts something: what ends it
  SmallVector<unsigned, 0> index;                  // by op: its place in the order
  SmallVector<unsigned, 0> deadline;               // by op that starts something: where that is needed
  SmallVector<Interval, 0> intervals;
  SmallVector<int64_t, 0> inner, load; // by op: within it; by place: in all
  int64_t peak = 0;
};
} // namespace

SmallVector<unsigned> mlir::scrimp::overlapStarts(Block &block, ArrayRef<Operation *> ops,
                                                  ArrayRef<SmallVector<unsigned, 4>> successors,
                                                  ArrayRef<unsigned> order, const MemoryUse &use,
                                                  const Aliases &aliases) {
  if (llvm::none_of(ops, [](Operation *op) { return isa<AsyncOp>(op); }))
    return SmallVector<unsigned>(order);
  return Overlap(block, ops, successors, order, use, aliases).run();
}
