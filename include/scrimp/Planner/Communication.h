// How long ranks take to exchange something, and over which links: the alpha-beta model of collectives.
#ifndef SCRIMP_PLANNER_COMMUNICATION_H
#define SCRIMP_PLANNER_COMMUNICATION_H

#include <cstdint>

namespace mlir::scrimp::planner {

/// What ranks do together.
enum class Pattern { AllReduce, ReduceScatter, AllGather, Broadcast };

/// One exchange. `bytes` are those of the whole as it is sent: of what is reduced on each rank, of what each has after
/// a gather, of what is broadcast.
struct Exchange {
  Pattern pattern;
  int64_t ranks, bytes;
};

/// Between two ranks: a message of n bytes takes `latency` + n / `bandwidth` seconds, and a rank sends and receives at
/// once (Hockney 1994).
struct Link {
  double latency;   // alpha, seconds
  double bandwidth; // 1 / beta, bytes a second that a rank sends
};

/// Ranks in `nodes` of equally many. Of two kinds of links one joins ranks of a node, the other those in different
/// nodes, where each rank has a network card, or its share of one.
struct Network {
  Link inside{2e-6, 1e10}, between{2e-5, 1.25e9};
  int64_t nodes = 1;
};

struct ExchangeCost {
  double seconds = 0;
  int64_t insideBytes = 0, betweenBytes = 0; // that a rank sends over each kind of link, on average over the ranks
};

/// Among p ranks that one kind of link joins, m bytes take, of a ring and a tree, the shorter:
///
///   reduce_scatter, all_gather   ring  (p-1) alpha + (p-1)/p m beta
///                                tree  lg p  alpha + 2 (p-1)/p m beta
///   all_reduce                   ring  2 (p-1) alpha + 2 (p-1)/p m beta
///                                tree  2 lg p  alpha + 2 m beta
///   broadcast                    ring  (lg p + p-1) alpha + 2 (p-1)/p m beta
///                                tree  lg p (alpha + m beta)
///
/// lg p is rounded up. Rings, and broadcast, are those of Thakur, Rabenseifner, Gropp, "Optimization of Collective
/// Communication Operations in MPICH" (IJHPCA 19(1), 2005); so are the trees of the first line (recursive halving and
/// doubling; Bruck's for any p), whose partners are far apart: the paper measures less than half the bandwidth of
/// neighbours, hence the 2. The tree of all_reduce is the pipelined double tree of Sanders, Speck, Traeff ("Two-tree
/// algorithms for full bandwidth broadcast, reduction and scan", 2009), as in NCCL.
///
/// Over n nodes of g ranks it is hierarchical: a node's ranks reduce and scatter m bytes, ranks of equal place in all
/// nodes exchange their m/g, and each node gathers; of a reduce_scatter the first two, of an all_gather the last two. A
/// broadcast reaches one rank of each node first. Each step waits for the one before. So a rank sends (g-1)/g m over
/// links inside, (n-1)/n m/g between nodes, together the (p-1)/p m of any of these algorithms; all_reduce twice that.
ExchangeCost estimateExchange(const Exchange &exchange, const Network &network);

} // namespace mlir::scrimp::planner

#endif
