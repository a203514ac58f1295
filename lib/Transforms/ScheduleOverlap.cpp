#include "ScheduleOverlap.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class Overlap {
public:
  Overlap(Block &block, ArrayRef<Operation *> ops, ArrayRef<SmallVector<unsigned, 4>> successors,
          ArrayRef<unsigned> order, const MemoryUse &use, const Aliases &aliases, int64_t room)
      : ops(ops), successors(successors), order(order), predecessors(ops.size()), added(ops.size()), behind(ops.size()),
        end(ops.size()), startOf(ops.size()), index(ops.size()), deadline(ops.size()) {
    for (auto [i, list] : llvm::enumerate(successors))
      for (unsigned s : list)
        predecessors[s].push_back(i);
    llvm::DenseMap<Operation *, unsigned> number;
    for (auto [i, op] : llvm::enumerate(ops))
      number[op] = i;
    for (auto [i, op] : llvm::enumerate(ops))
      if (auto start = dyn_cast<AsyncOp>(op); start && start.getEnd())
        startOf[*(end[i] = number.lookup(start.getEnd()))] = i;
    readMemory(block, use, aliases);
    update();
    peak = load.empty() ? 0 : *llvm::max_element(load) + room;
    for (auto [i, to] : llvm::enumerate(end))
      if (to)
        deadline[i] = latestOf(i);
  }

  SmallVector<unsigned> run() {
    for (unsigned op : SmallVector<unsigned>(order))
      if (end[op]) {
        moveDown(op);
        moveUp(op);
      }
    return std::move(order);
  }

private:
  static constexpr size_t kMostAlong = 16; // ops that go down with a wait

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
    int64_t alignment = TargetAttr::of(block.getParentOp()).getAlignment();
    std::vector<int64_t> inside(use.ops.size() + 1); // what lives within one op, as differences
    for (const TransientBlock &memory : use.transient) {
      if (memory.last < begin || memory.first > finish)
        continue;
      int64_t bytes = llvm::alignTo(memory.bytes, alignment); // as the planner counts
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
    if (i == taker || end[taker] == i)
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

  /// Whether `op` computes, from what is there before all ops, what is started and no more: the cast of a part that is
  /// gathered in 16 bits, perhaps for several uses.
  bool isForStarts(unsigned op) const {
    return !isView(op) && !isa<BodyOp>(ops[op]) && getEndedOps(ops[op]).empty() && !ops[op]->use_empty() &&
           llvm::all_of(ops[op]->getUsers(), llvm::IsaPred<AsyncOp>) &&
           llvm::all_of(predecessors[op], [&](unsigned p) { return isView(p) && predecessors[p].empty(); });
  }

  /// What may move up with an op that starts something: views that it reads, and what computes for starts alone.
  llvm::SmallSetVector<unsigned, 4> comesAlong(unsigned op) const {
    llvm::SmallSetVector<unsigned, 4> seen;
    seen.insert(op);
    for (size_t i = 0; i < seen.size(); ++i)
      for (unsigned p : predecessors[seen[i]])
        if (isView(p) || isForStarts(p))
          seen.insert(p);
    return seen;
  }

  /// What ends `start` can go down with the few ops that read the result and have time too: an update, what it adds to
  /// a norm. The first op that must stay behind all these; the first reader, if that is many ops.
  unsigned latestOf(unsigned start) const {
    llvm::SmallSetVector<unsigned, 8> along;
    along.insert(*end[start]);
    std::optional<unsigned> first;
    for (unsigned at = index[*end[start]] + 1; at < order.size(); ++at) {
      if (!isBehind(order[at], along))
        continue;
      if (!first && !isView(order[at]))
        first = at;
      if (!mayGoAlong(order[at]))
        return at;
      if (along.size() > kMostAlong)
        return *first;
      along.insert(order[at]);
    }
    return order.size();
  }

  bool mayGoAlong(unsigned op) const { return !end[op] && !startOf[op] && !isa<BodyOp>(ops[op]); }

  /// Whether `op` must stay behind one of `others`.
  bool isBehind(unsigned op, const llvm::SmallSetVector<unsigned, 8> &others) const {
    return llvm::any_of(predecessors[op], [&](unsigned p) { return others.contains(p); });
  }

  /// What an exchange has on its way.
  int64_t getBytes(unsigned start) const {
    int64_t bytes = 0;
    for (Value value : llvm::concat<Value>(SmallVector<Value>(ops[start]->getOperands()), ops[start]->getResults()))
      bytes = std::max(bytes, bytesOf(value));
    return bytes;
  }

  /// Whether `other` starts the same as `start`, and it is not much shorter: exchanges go one after the other, so while
  /// that is under way nothing is won by a second one that takes memory too.
  bool isBusyWith(unsigned other, unsigned start) const {
    return other != start && end[other] && ops[other]->getName() == ops[start]->getName() &&
           getBytes(other) >= getBytes(start) / 4;
  }

  void moveUp(unsigned op) {
    unsigned from = index[op], lowest = 0, to = from;
    for (unsigned other = 0; other < ops.size(); ++other)
      if (isBusyWith(other, op) && index[other] < from && index[*end[other]] > from)
        return;
    llvm::SmallSetVector<unsigned, 4> along = comesAlong(op);
    for (unsigned moving : along)
      for (unsigned p : predecessors[moving])
        if (!along.contains(p))
          lowest = std::max(lowest, index[p] + 1);
    int64_t bytes = added[op].up;
    for (; to > lowest; --to) {
      unsigned passed = order[to - 1];
      if (along.contains(passed))
        bytes += added[passed].up;
      else if ((!isView(passed) && load[to - 1] + bytes > peak) || (end[passed] && deadline[passed] < deadline[op]) ||
               (startOf[passed] && isBusyWith(*startOf[passed], op)))
        break;
    }
    SmallVector<unsigned> moved;
    for (unsigned moving : along)
      if (index[moving] >= to)
        moved.push_back(moving);
    move(moved, to, from + 1, /*toFront=*/true);
  }

  void moveDown(unsigned start) {
    unsigned from = index[*end[start]], to = from + 1;
    llvm::SmallSetVector<unsigned, 8> along;
    along.insert(*end[start]);
    int64_t bytes = added[*end[start]].down;
    for (unsigned at = to; at < order.size(); ++at) {
      unsigned passed = order[at];
      if (isBehind(passed, along)) {
        if (!mayGoAlong(passed) || along.size() > kMostAlong)
          break;
        along.insert(passed);
        bytes += added[passed].down;
        continue;
      }
      if ((!isView(passed) && load[at] + bytes > peak) || isBusyWith(passed, start))
        break;
      to = at + 1;
    }
    SmallVector<unsigned> moved;
    for (unsigned op : along)
      if (index[op] < to)
        moved.push_back(op);
    move(moved, from, to, /*toFront=*/false);
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
  SmallVector<std::optional<unsigned>, 0> startOf; // by op that ends something: what starts it
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
                                                  const Aliases &aliases, int64_t room) {
  if (llvm::none_of(ops, [](Operation *op) { return isa<AsyncOp>(op); }))
    return SmallVector<unsigned>(order);
  return Overlap(block, ops, successors, order, use, aliases, room).run();
}
