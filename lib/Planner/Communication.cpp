#include "scrimp/Planner/Communication.h"

#include <algorithm>
#include <cmath>

using namespace mlir::scrimp::planner;

/// Seconds among ranks that one kind of link joins.
static double secondsOver(Pattern pattern, double ranks, double bytes, const Link &link) {
  if (ranks <= 1)
    return 0;
  double levels = std::ceil(std::log2(ranks)), alpha = link.latency, beta = 1 / link.bandwidth;
  double whole = bytes * beta, others = (ranks - 1) / ranks * whole;
  switch (pattern) {
  case Pattern::ReduceScatter:
  case Pattern::AllGather:
    return std::min((ranks - 1) * alpha + others, levels * alpha + 2 * others);
  case Pattern::AllReduce:
    return 2 * std::min((ranks - 1) * alpha + others, levels * alpha + whole);
  case Pattern::Broadcast:
    return std::min((levels + ranks - 1) * alpha + 2 * others, levels * (alpha + whole));
  }
  return 0;
}

ExchangeCost mlir::scrimp::planner::estimateExchange(const Exchange &exchange, const Network &network) {
  double nodes = static_cast<double>(network.nodes), ranks = static_cast<double>(exchange.ranks);
  double local = ranks / nodes, bytes = static_cast<double>(exchange.bytes), part = bytes / local;
  auto inside = [&](Pattern pattern) { return secondsOver(pattern, local, bytes, network.inside); };
  auto between = [&](Pattern pattern, double size) { return secondsOver(pattern, nodes, size, network.between); };
  ExchangeCost cost;
  switch (exchange.pattern) {
  case Pattern::ReduceScatter:
  case Pattern::AllGather:
    cost.seconds = inside(exchange.pattern) + between(exchange.pattern, part);
    break;
  case Pattern::AllReduce:
    cost.seconds = network.nodes == 1 ? inside(Pattern::AllReduce)
                                      : inside(Pattern::ReduceScatter) + between(Pattern::AllReduce, part) +
                                            inside(Pattern::AllGather);
    break;
  case Pattern::Broadcast:
    cost.seconds = between(Pattern::Broadcast, bytes) + inside(Pattern::Broadcast);
    break;
  }
  // Of what every rank lacks, that which its node lacks comes from other nodes, once to each node.
  double times = exchange.pattern == Pattern::AllReduce ? 2 : 1, sent = times * bytes * (ranks - 1) / ranks;
  cost.betweenBytes = static_cast<int64_t>(times * bytes * (nodes - 1) / ranks);
  cost.insideBytes = static_cast<int64_t>(sent) - cost.betweenBytes;
  return cost;
}
