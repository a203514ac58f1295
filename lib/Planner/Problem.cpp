// What every placement must satisfy: the check of the input, the lower bound, and the judge of solutions.
#include "scrimp/Planner/Problem.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;
using namespace mlir::scrimp::planner;

static Error error(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

Error mlir::scrimp::planner::checkProblem(const Problem &problem) {
  for (const Buffer &buffer : problem.buffers) {
    if (buffer.bytes < 0)
      return error("buffer '" + buffer.name + "' has " + Twine(buffer.bytes) + " bytes");
    if (buffer.alignment <= 0 || !isPowerOf2_64(buffer.alignment))
      return error("buffer '" + buffer.name + "' has alignment " + Twine(buffer.alignment) +
                   ", expected a power of two");
    if (buffer.first < 0 || buffer.last < buffer.first)
      return error("buffer '" + buffer.name + "' is live from step " + Twine(buffer.first) + " to " +
                   Twine(buffer.last));
  }
  return Error::success();
}

int64_t mlir::scrimp::planner::lowerBound(const Problem &problem, int *step) {
  std::map<int, int64_t> changes;
  for (const Buffer &buffer : problem.buffers) {
    int64_t bytes = alignTo(buffer.bytes, buffer.alignment);
    changes[buffer.first] += bytes;
    changes[buffer.last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  if (step)
    *step = 0;
  for (auto [at, change] : changes) {
    live += change;
    if (live <= most)
      continue;
    most = live;
    if (step)
      *step = at;
  }
  return most;
}

Error mlir::scrimp::planner::verify(const Problem &problem, const Solution &solution) {
  size_t count = problem.buffers.size();
  if (solution.offsets.size() != count)
    return error("expected " + Twine(count) + " offsets, found " + Twine(solution.offsets.size()));
  SmallVector<size_t> byStart;
  for (size_t i = 0; i < count; ++i) {
    const Buffer &buffer = problem.buffers[i];
    int64_t offset = solution.offsets[i];
    if (offset < 0 || offset % buffer.alignment != 0)
      return error("buffer '" + buffer.name + "' lies at " + Twine(offset) + ", expected a multiple of " +
                   Twine(buffer.alignment));
    if (offset + buffer.bytes > solution.bytes)
      return error("buffer '" + buffer.name + "' ends at " + Twine(offset + buffer.bytes) + " of " +
                   Twine(solution.bytes) + " bytes");
    byStart.push_back(i);
  }
  // Sweep over time; those that are live at once lie in an ordered map by offset, so neighbours tell of any overlap.
  llvm::sort(byStart, [&](size_t a, size_t b) { return problem.buffers[a].first < problem.buffers[b].first; });
  SmallVector<size_t> byEnd = byStart;
  llvm::sort(byEnd, [&](size_t a, size_t b) { return problem.buffers[a].last < problem.buffers[b].last; });
  std::map<int64_t, size_t> live;
  size_t ended = 0;
  for (size_t i : byStart) {
    const Buffer &buffer = problem.buffers[i];
    for (; ended < count && problem.buffers[byEnd[ended]].last < buffer.first; ++ended)
      if (auto it = live.find(solution.offsets[byEnd[ended]]); it != live.end() && it->second == byEnd[ended])
        live.erase(it);
    if (buffer.bytes == 0)
      continue;
    int64_t offset = solution.offsets[i];
    auto after = live.lower_bound(offset);
    for (auto it : {after, after == live.begin() ? live.end() : std::prev(after)}) {
      if (it == live.end())
        continue;
      const Buffer &other = problem.buffers[it->second];
      if (it->first < offset + buffer.bytes && offset < it->first + other.bytes)
        return error("buffers '" + buffer.name + "' and '" + other.name + "' overlap at " +
                     Twine(std::max(offset, it->first)) + " while both are live at step " + Twine(buffer.first));
    }
    live.emplace(offset, i);
  }
  return Error::success();
}
