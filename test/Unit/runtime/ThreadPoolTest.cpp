// The pool covers every unit exactly once, at multiples of the grain, with distinct workers.
#include "scrimp/runtime/ThreadPool.h"
#include <atomic>
#include <gtest/gtest.h>
#include <vector>

using namespace scrimp::runtime;

static void expectCovered(ThreadPool &pool, int64_t units, int64_t grain) {
  std::vector<std::atomic<int>> hits(static_cast<size_t>(units));
  std::atomic<bool> aligned{true};
  auto body = [&](int64_t begin, int64_t end, int) {
    if (begin % grain || (end % grain && end != units))
      aligned = false;
    for (int64_t i = begin; i < end; ++i)
      ++hits[static_cast<size_t>(i)];
  };
  pool.parallelFor(units, grain, body);
  EXPECT_TRUE(aligned);
  for (auto &hit : hits)
    ASSERT_EQ(hit, 1);
}

TEST(ThreadPool, CoversEachUnitOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t units : {0, 1, 2, 7, 63, 1000})
      for (int64_t grain : {1, 3, 64})
        expectCovered(pool, units, grain);
  }
}

TEST(ThreadPool, WorkersAreDistinct) {
  ThreadPool pool(4);
  std::atomic<int> busy[4] = {};
  std::atomic<bool> shared{false};
  auto body = [&](int64_t, int64_t, int worker) {
    if (busy[worker]++)
      shared = true;
    for (volatile int i = 0; i < 1000; i = i + 1)
      ;
    --busy[worker];
  };
  for (int i = 0; i < 200; ++i)
    pool.parallelFor(32, 1, body);
  EXPECT_FALSE(shared);
}

// Many short jobs: a thread that comes late must not take part in the wrong one.
TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(3);
  for (int64_t job = 0; job < 20000; ++job) {
    std::atomic<int64_t> sum{0};
    int64_t units = 1 + job % 13;
    auto body = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        sum += i + job;
    };
    pool.parallelFor(units, 1, body);
    ASSERT_EQ(sum, units * (units - 1) / 2 + units * job);
  }
}
