// The alpha-beta model, by its formulae.
#include "scrimp/Planner/Communication.h"

#include <gtest/gtest.h>

using namespace mlir::scrimp::planner;

namespace {
constexpr Link fast{1e-6, 1e9}, slow{1e-5, 1e8};

double secondsOf(Pattern pattern, int64_t ranks, int64_t bytes, int64_t nodes = 1) {
  return estimateExchange({pattern, ranks, bytes}, {fast, slow, nodes}).seconds;
}

TEST(Communication, OneRankSendsNothing) {
  for (Pattern pattern : {Pattern::AllReduce, Pattern::ReduceScatter, Pattern::AllGather, Pattern::Broadcast}) {
    ExchangeCost cost = estimateExchange({pattern, 1, 1000}, {fast, slow, 1});
    EXPECT_EQ(cost.seconds, 0);
    EXPECT_EQ(cost.insideBytes + cost.betweenBytes, 0);
  }
}

// Large messages: (p-1)/p m beta and p-1 latencies; twice for all_reduce.
TEST(Communication, RingForLargeMessages) {
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllGather, 8, 8'000'000), 7e-6 + 7e-3);
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::ReduceScatter, 8, 8'000'000), 7e-6 + 7e-3);
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllReduce, 8, 8'000'000), 2 * (7e-6 + 7e-3));
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::Broadcast, 8, 8'000'000), 10e-6 + 14e-3);
}

// Small ones: lg p latencies, whatever the number of ranks.
TEST(Communication, TreeForSmallMessages) {
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllGather, 8, 800), 3e-6 + 1.4e-6);
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllReduce, 8, 800), 2 * (3e-6 + 0.8e-6));
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::Broadcast, 8, 800), 3 * (1e-6 + 0.8e-6));
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllReduce, 5, 0), 6e-6); // lg 5 is rounded up
}

// 4 nodes of 2 ranks: halves inside a node, then what is left between the nodes.
TEST(Communication, NodesExchangeTheirShare) {
  int64_t bytes = 8'000'000;
  double inside = 1e-6 + 4e-3, between = 3 * 1e-5 + 0.75 * 4e6 / 1e8;
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::ReduceScatter, 8, bytes, 4), inside + between);
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllGather, 8, bytes, 4), inside + between);
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllReduce, 8, bytes, 4), 2 * (inside + between));
  // Ranks alone in their nodes have one kind of link.
  EXPECT_DOUBLE_EQ(secondsOf(Pattern::AllReduce, 4, bytes, 4), 2 * (3e-5 + 0.75 * 8e6 / 1e8));
}

// Whatever the nodes, a rank sends (p-1)/p m in all, twice for all_reduce.
TEST(Communication, BytesByLinkAddUp) {
  for (Pattern pattern : {Pattern::AllReduce, Pattern::ReduceScatter, Pattern::AllGather, Pattern::Broadcast})
    for (int64_t nodes : {1, 2, 4, 8}) {
      ExchangeCost cost = estimateExchange({pattern, 8, 8000}, {fast, slow, nodes});
      int64_t times = pattern == Pattern::AllReduce ? 2 : 1;
      EXPECT_EQ(cost.insideBytes + cost.betweenBytes, times * 7000);
      EXPECT_EQ(cost.betweenBytes, times * 1000 * (nodes - 1));
    }
}
} // namespace
