// The arena without contents: who wrote each byte last.
#ifndef SCRIMP_LIB_ANALYSIS_ABSTRACTARENA_H
#define SCRIMP_LIB_ANALYSIS_ABSTRACTARENA_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace mlir::scrimp {

/// Bytes [begin, end) of the arena.
struct Extent {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  bool overlaps(Extent other) const { return std::max(begin, other.begin) < std::min(end, other.end); }
  bool contains(Extent other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const Extent &) const = default;
};

/// Who wrote each byte last.
class AbstractArena {
public:
  void write(Extent extent, int writer) {
    if (extent.empty())
      return;
    split(extent.begin);
    split(extent.end);
    runs.erase(runs.lower_bound(extent.begin), runs.lower_bound(extent.end));
    runs[extent.begin] = {extent.end, writer};
  }

  /// The writer of the first byte of `extent` that is not from `writer`, if there is one; -1 for a byte nobody wrote.
  std::optional<int> findOther(Extent extent, int writer) const {
    auto it = runs.upper_bound(extent.begin);
    if (it != runs.begin() && std::prev(it)->second.first > extent.begin)
      --it;
    for (int64_t at = extent.begin; at < extent.end; ++it) {
      if (it == runs.end() || it->first > at)
        return -1;
      if (it->second.second != writer)
        return it->second.second;
      at = it->second.first;
    }
    return std::nullopt;
  }

private:
  void split(int64_t at) {
    auto it = runs.upper_bound(at);
    if (it == runs.begin())
      return;
    --it;
    if (it->first < at && at < it->second.first) {
      runs[at] = it->second;
      it->second.first = at;
    }
  }
  std::map<int64_t, std::pair<int64_t, int>> runs; // begin -> (end, writer)
};

} // namespace mlir::scrimp

#endif
