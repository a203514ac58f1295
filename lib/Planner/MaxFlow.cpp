#include "MaxFlow.h"

#include <algorithm>

using namespace mlir::scrimp::planner;

bool MaxFlow::computeLevels(unsigned source, unsigned sink) {
  std::fill(level.begin(), level.end(), -1);
  std::vector<unsigned> queue{source};
  level[source] = 0;
  for (size_t head = 0; head < queue.size(); ++head)
    for (unsigned i : arcsOf[queue[head]])
      if (arcs[i].rest > 0 && level[arcs[i].to] < 0) {
        level[arcs[i].to] = level[queue[head]] + 1;
        queue.push_back(arcs[i].to);
      }
  return level[sink] >= 0;
}

/// A blocking flow. Not recursive: paths are as long as the deepest model.
void MaxFlow::augment(unsigned source, unsigned sink) {
  std::fill(next.begin(), next.end(), 0);
  std::vector<unsigned> path; // arcs
  unsigned at = source;
  while (true) {
    if (at == sink) {
      int64_t flow = kUnbounded;
      for (unsigned i : path)
        flow = std::min(flow, arcs[i].rest);
      size_t saturated = 0;
      for (size_t n = path.size(); n-- > 0;) {
        arcs[path[n]].rest -= flow;
        arcs[path[n] ^ 1].rest += flow;
        if (arcs[path[n]].rest == 0)
          saturated = n;
      }
      at = arcs[path[saturated] ^ 1].to;
      path.resize(saturated);
      continue;
    }
    size_t &n = next[at];
    while (n < arcsOf[at].size() && (arcs[arcsOf[at][n]].rest <= 0 || level[arcs[arcsOf[at][n]].to] != level[at] + 1))
      ++n;
    if (n < arcsOf[at].size()) {
      path.push_back(arcsOf[at][n]);
      at = arcs[arcsOf[at][n]].to;
      continue;
    }
    if (path.empty())
      return;
    at = arcs[path.back() ^ 1].to;
    path.pop_back();
    ++next[at];
  }
}

llvm::BitVector MaxFlow::cut(unsigned source, unsigned sink) {
  while (computeLevels(source, sink))
    augment(source, sink);
  llvm::BitVector reached(arcsOf.size());
  for (size_t i = 0; i < level.size(); ++i)
    if (level[i] >= 0)
      reached.set(i);
  return reached;
}
