// Placement by best fit over several orders of the buffers. The orders are those of the literature on offline memory
// planning (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020: greedy by size).
#include "scrimp/Planner/Problem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace llvm;
using namespace mlir::scrimp::planner;

/// Places the buffers in `order`, each into the smallest gap that holds it, or above those it conflicts with. Gives up
/// once the arena reaches `limit` bytes.
static Solution place(const Problem &problem, ArrayRef<size_t> order, int64_t limit) {
  Solution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  // What is placed, sorted by offset. Kept flat: the inner loop is all there is.
  struct Placed {
    int64_t offset, end;
    int first, last;
  };
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (size_t i : order) {
    const Buffer &buffer = problem.buffers[i];
    if (buffer.bytes == 0)
      continue;
    int64_t best = -1, bestGap = std::numeric_limits<int64_t>::max(), end = 0;
    for (const Placed &other : placed) {
      if (other.last < buffer.first || buffer.last < other.first)
        continue;
      int64_t start = alignTo(end, buffer.alignment);
      if (int64_t gap = other.offset - start; gap >= buffer.bytes && gap < bestGap) {
        best = start;
        bestGap = gap;
      }
      end = std::max(end, other.end);
    }
    if (best < 0)
      best = alignTo(end, buffer.alignment);
    Placed entry{best, best + buffer.bytes, buffer.first, buffer.last};
    placed.insert(llvm::upper_bound(placed, entry, [](auto &a, auto &b) { return a.offset < b.offset; }), entry);
    solution.offsets[i] = best;
    solution.bytes = std::max(solution.bytes, entry.end);
    if (solution.bytes >= limit)
      break;
  }
  return solution;
}

Solution mlir::scrimp::planner::solveBestFit(const Problem &problem) {
  ArrayRef<Buffer> buffers = problem.buffers;
  // Doubles: a product of bytes and steps passes 64 bits, and only the order matters.
  auto size = [&](size_t i) { return static_cast<double>(buffers[i].bytes); };
  auto length = [&](size_t i) { return static_cast<double>(buffers[i].last) - buffers[i].first + 1; };
  using Key = std::pair<double, double>;
  // Equal keys keep the order of the input.
  auto sortBy = [](const std::function<Key(size_t)> &key, std::vector<size_t> &order) {
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](size_t a, size_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  };
  const std::function<Key(size_t)> keys[] = {
      [&](size_t i) -> Key { return {-size(i), -length(i)}; },
      [&](size_t i) -> Key { return {-size(i) * length(i), -size(i)}; },
      [&](size_t i) -> Key { return {buffers[i].first, -size(i)}; },
      [&](size_t i) -> Key { return {-buffers[i].last, -size(i)}; },
      [&](size_t i) -> Key { return {-length(i), -size(i)}; },
  };
  int64_t bound = 0;
  {
    // Without rounding: an arena need not end on a multiple of the alignment.
    Problem unrounded = problem;
    for (Buffer &buffer : unrounded.buffers)
      buffer.alignment = 1;
    bound = lowerBound(unrounded);
  }
  std::vector<size_t> order(buffers.size()), bestOrder;
  Solution best;
  best.bytes = std::numeric_limits<int64_t>::max();
  auto attempt = [&] {
    Solution solution = place(problem, order, best.bytes);
    if (solution.bytes >= best.bytes)
      return;
    best = std::move(solution);
    bestOrder = order;
  };
  for (const auto &key : keys) {
    sortBy(key, order);
    attempt();
    if (best.bytes <= bound)
      return best;
  }
  // A short local search: exchange two buffers of the best order. Bounded by work, not by time, so that the plan does
  // not depend on the machine.
  constexpr int64_t kWork = 40'000'000;
  int64_t count = buffers.size();
  std::mt19937 random(1);
  for (int64_t round = 0, rounds = std::min<int64_t>(500, kWork / (count * count + 1));
       round < rounds && best.bytes > bound; ++round) {
    order = bestOrder;
    std::swap(order[random() % count], order[random() % count]);
    attempt();
  }
  return best;
}
