// Maximum flow by Dinic's algorithm ("Algorithm for solution of a problem of maximum flow", 1970), and the minimum cut
// that is nearest to the source.
#ifndef SCRIMP_LIB_PLANNER_MAXFLOW_H
#define SCRIMP_LIB_PLANNER_MAXFLOW_H

#include "llvm/ADT/BitVector.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::scrimp::planner {

class MaxFlow {
public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;

  explicit MaxFlow(unsigned nodes) : arcsOf(nodes), level(nodes), next(nodes) {}

  void addArc(unsigned from, unsigned to, int64_t capacity) {
    if (capacity <= 0)
      return;
    arcsOf[from].push_back(arcs.size());
    arcs.push_back({to, capacity});
    arcsOf[to].push_back(arcs.size());
    arcs.push_back({from, 0});
  }

  /// The nodes on the source's side of the minimum cut that is nearest to the source: those that it reaches once the
  /// flow is at its maximum.
  llvm::BitVector cut(unsigned source, unsigned sink);

private:
  struct Arc {
    unsigned to;
    int64_t rest; // capacity that is left; arc i ^ 1 is the reverse
  };
  bool computeLevels(unsigned source, unsigned sink);
  void augment(unsigned source, unsigned sink);

  std::vector<Arc> arcs;
  std::vector<std::vector<unsigned>> arcsOf;
  std::vector<int> level;
  std::vector<size_t> next; // the first arc of a node that may still lead on
};

} // namespace mlir::scrimp::planner

#endif
