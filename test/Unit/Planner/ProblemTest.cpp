// The placement problem: its check, its judge, and the best-fit solver against an exhaustive one.
#include "scrimp/Planner/Problem.h"

#include "llvm/Support/MathExtras.h"

#include "gtest/gtest.h"

#include <ctime>
#include <limits>
#include <numeric>
#include <random>

using namespace mlir::scrimp::planner;

static std::string message(llvm::Error error) { return error ? llvm::toString(std::move(error)) : ""; }

static Problem randomProblem(unsigned seed, int count, int steps, int64_t mostBytes, int64_t alignment) {
  std::mt19937 random(seed);
  Problem problem;
  for (int i = 0; i < count; ++i) {
    int first = random() % steps, length = 1 + random() % (random() % 8 == 0 ? steps : 6);
    int64_t bytes = random() % 10 == 0 ? 0 : 1 + random() % mostBytes;
    problem.buffers.push_back({bytes, alignment, first, std::min(steps - 1, first + length), "b" + std::to_string(i)});
  }
  return problem;
}

/// The smallest arena of all: in some order of the buffers, putting each as low as it goes reaches the optimum.
static int64_t bruteForce(const Problem &problem) {
  std::vector<size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(order.size(), 0);
    int64_t arena = 0;
    for (size_t n = 0; n < order.size(); ++n) {
      const Buffer &buffer = problem.buffers[order[n]];
      if (buffer.bytes == 0)
        continue;
      for (int64_t offset = 0;; offset += buffer.alignment) {
        bool free = true;
        for (size_t m = 0; m < n; ++m)
          free &= !problem.conflict(order[n], order[m]) ||
                  offset + buffer.bytes <= offsets[order[m]] ||
                  offsets[order[m]] + problem.buffers[order[m]].bytes <= offset;
        if (!free)
          continue;
        offsets[order[n]] = offset;
        arena = std::max(arena, offset + buffer.bytes);
        break;
      }
    }
    best = std::min(best, arena);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Problem, RejectsBadInput) {
  auto check = [](Buffer buffer) { return message(checkProblem(Problem{{buffer}})); };
  EXPECT_EQ(check({8, 64, 0, 0, "x"}), "");
  EXPECT_EQ(check({-1, 64, 0, 0, "x"}), "buffer 'x' has -1 bytes");
  EXPECT_EQ(check({8, 48, 0, 0, "x"}), "buffer 'x' has alignment 48, expected a power of two");
  EXPECT_EQ(check({8, 64, 3, 2, "x"}), "buffer 'x' is live from step 3 to 2");
}

TEST(Problem, JudgeFindsEveryKindOfFault) {
  Problem problem{{{100, 64, 0, 1, "a"}, {100, 64, 1, 2, "b"}, {100, 64, 2, 3, "c"}}};
  EXPECT_EQ(message(verify(problem, {{0, 128, 0}, 228})), "");
  EXPECT_EQ(message(verify(problem, {{0, 128}, 228})), "expected 3 offsets, found 2");
  EXPECT_EQ(message(verify(problem, {{0, 100, 0}, 228})), "buffer 'b' lies at 100, expected a multiple of 64");
  EXPECT_EQ(message(verify(problem, {{0, -64, 0}, 228})), "buffer 'b' lies at -64, expected a multiple of 64");
  EXPECT_EQ(message(verify(problem, {{0, 128, 0}, 192})), "buffer 'b' ends at 228 of 192 bytes");
  EXPECT_EQ(message(verify(problem, {{0, 64, 192}, 292})),
            "buffers 'b' and 'a' overlap at 64 while both are live at step 1");
  EXPECT_EQ(message(verify(problem, {{0, 128, 64}, 228})),
            "buffers 'c' and 'b' overlap at 128 while both are live at step 2");
}

TEST(Problem, LowerBoundIsTheLargestLiveSet) {
  // Step 1: 64 + 128 (100 rounded up to a multiple of 64) + 0; step 2: 128 + 64.
  Problem problem{{{64, 64, 0, 1, "a"}, {100, 64, 1, 2, "b"}, {0, 64, 0, 2, "zero"}, {10, 64, 2, 2, "c"}}};
  int step = -1;
  EXPECT_EQ(lowerBound(problem, &step), 192);
  EXPECT_EQ(step, 1);
  EXPECT_EQ(lowerBound(Problem{}), 0);
}

TEST(BestFit, ReusesDeadBytes) {
  // 100 rounds up to 128, so b starts there. c is live only after a has died: offset 0 again.
  Problem problem{{{100, 64, 0, 1, "a"}, {100, 64, 1, 2, "b"}, {100, 64, 2, 3, "c"}}};
  Solution solution = solveBestFit(problem);
  EXPECT_EQ(message(verify(problem, solution)), "");
  EXPECT_EQ(solution.bytes, 228);
}

TEST(BestFit, ZeroSizesTakeNothing) {
  Problem problem{{{0, 64, 0, 5, "a"}, {64, 64, 0, 5, "b"}, {0, 64, 2, 3, "c"}}};
  Solution solution = solveBestFit(problem);
  EXPECT_EQ(message(verify(problem, solution)), "");
  EXPECT_EQ(solution.bytes, 64);
  EXPECT_EQ(solveBestFit(Problem{}).bytes, 0);
}

TEST(BestFit, RandomProblemsAreValidAndNearTheBound) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Problem problem = randomProblem(seed, 5 + seed % 120, 40, 100'000, 64);
    Solution solution = solveBestFit(problem);
    ASSERT_EQ(message(verify(problem, solution)), "") << seed;
    // The last buffer need not end on a multiple of the alignment.
    ASSERT_GE(llvm::alignTo(solution.bytes, 64), static_cast<uint64_t>(lowerBound(problem))) << seed;
    ASSERT_LE(solution.bytes, 1.2 * lowerBound(problem)) << seed;
  }
}

TEST(BestFit, TinyProblemsAgainstAllOrders) {
  int optimal = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Problem problem = randomProblem(seed, 7, 10, 12, seed % 2 ? 4 : 1);
    int64_t best = bruteForce(problem);
    Solution solution = solveBestFit(problem);
    ASSERT_EQ(message(verify(problem, solution)), "") << seed;
    ASSERT_GE(solution.bytes, best) << seed;
    optimal += solution.bytes == best;
  }
  EXPECT_GE(optimal, 57);
}

TEST(BestFit, FiveThousandBuffersUnderTwoSeconds) {
  Problem problem = randomProblem(1, 5000, 4000, 1'000'000, 64);
  std::clock_t start = std::clock(); // processor time: the machine may be busy
  Solution solution = solveBestFit(problem);
  double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(message(verify(problem, solution)), "");
  EXPECT_LT(seconds, 2);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LE(solution.bytes, 1.1 * lowerBound(problem));
}
