// "gemm" against three loops, over odd shapes, types, transposes, batches and accumulation.
#include "LibraryTest.h"

using namespace scrimp::runtime;

namespace {

struct Case {
  int64_t batch, m, n, k, transA, transB;
  bool sharedA, sharedB, sharedC;
  int64_t accumulate;

  std::vector<int64_t> ints() const {
    return {batch, m, n, k, transA, transB, sharedA ? 0 : m * k, sharedB ? 0 : k * n, sharedC ? 0 : m * n, accumulate};
  }
};

template <typename T> struct Operands {
  std::vector<T> a, b, c;
  explicit Operands(const Case &s)
      : a(randomVector<T>((s.sharedA ? 1 : s.batch) * s.m * s.k, "a")),
        b(randomVector<T>((s.sharedB ? 1 : s.batch) * s.k * s.n, "b")),
        c(randomVector<T>((s.sharedC ? 1 : s.batch) * s.m * s.n, "c")) {}

  std::vector<T> expected(const Case &s) const {
    std::vector<double> sum(c.size());
    if (s.accumulate)
      sum.assign(c.begin(), c.end());
    for (int64_t i = 0; i < s.batch; ++i)
      for (int64_t r = 0; r < s.m; ++r)
        for (int64_t j = 0; j < s.n; ++j)
          for (int64_t x = 0; x < s.k; ++x) {
            int64_t at = (s.sharedA ? 0 : i * s.m * s.k) + (s.transA ? x * s.m + r : r * s.k + x);
            int64_t bt = (s.sharedB ? 0 : i * s.k * s.n) + (s.transB ? j * s.k + x : x * s.n + j);
            sum[(s.sharedC ? 0 : i * s.m * s.n) + r * s.n + j] += static_cast<double>(a[at]) * b[bt];
          }
    return std::vector<T>(sum.begin(), sum.end());
  }

  void run(const Case &s, int threads) {
    LibraryCall call;
    call.add(a).add(b).add(c);
    call.ints = s.ints();
    call.dtype = dtypeOf<T>;
    call.threads = threads;
    call.run("gemm");
  }
};

template <typename T> void check(const Case &s, double tolerance) {
  Operands<T> one(s), two(s);
  std::vector<T> expected = one.expected(s);
  one.run(s, 1);
  two.run(s, 3);
  EXPECT_LE(largestDifference(one.c, expected), tolerance) << s.m << "x" << s.n << "x" << s.k;
  EXPECT_TRUE(sameBits(one.c, two.c)) << s.m << "x" << s.n << "x" << s.k;
}

} // namespace

TEST(Gemm, AgreesWithLoops) {
  for (int64_t trans = 0; trans < 4; ++trans)
    for (const Case &shape : {Case{1, 1, 1, 1, 0, 0, false, false, false, 0},
                              {1, 3, 5, 7, 0, 0, false, false, false, 1},
                              {1, 129, 67, 33, 0, 0, false, false, false, 0},
                              {3, 5, 9, 4, 0, 0, false, true, false, 0},
                              {4, 7, 3, 8, 0, 0, true, false, true, 0},
                              {4, 7, 3, 8, 0, 0, false, false, true, 1},
                              {1, 2, 3, 0, 0, 0, false, false, false, 0},
                              {2, 0, 3, 4, 0, 0, false, false, false, 0}}) {
      Case s = shape;
      s.transA = trans & 1;
      s.transB = trans >> 1;
      check<double>(s, 1e-12);
      check<float>(s, 1e-4);
    }
}

// Large enough for several tiles, along n, along m, and along both; tile edges are not multiples of 16.
TEST(Gemm, TilesAgreeWithLoopsAndThreadsDoNotMatter) {
  check<float>({1, 130, 517, 301, 0, 1, false, false, false, 0}, 1e-3);
  check<float>({1, 517, 130, 301, 1, 0, false, false, false, 1}, 1e-3);
  check<double>({1, 333, 335, 301, 0, 0, false, false, false, 0}, 1e-11);
  check<double>({3, 200, 210, 120, 0, 0, false, false, true, 0}, 1e-11);
  check<float>({1, 40, 70, 9001, 1, 0, false, false, false, 0}, 5e-3);
}

TEST(Gemm, NoSumGivesZeros) {
  std::vector<float> a, b, c(6, 5.0f);
  LibraryCall call;
  call.add(a).add(b).add(c);
  call.ints = {1, 2, 3, 0, 0, 0, 0, 0, 0, 0};
  call.dtype = DType::f32;
  call.run("gemm");
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

TEST(Gemm, RejectsBadArguments) {
  std::vector<double> a(6), b(6), c(4);
  LibraryCall call;
  call.add(a).add(b).add(c);
  call.ints = {1, 2, 2, 3, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(call.verify("gemm"), "");
  call.ints[3] = 4;
  EXPECT_EQ(call.verify("gemm"), "gemm: A needs 64 bytes, found 48");
  call.ints = {2, 2, 2, 3, 0, 0, 6, 0, 0, 0};
  EXPECT_EQ(call.verify("gemm"), "gemm: A needs 96 bytes, found 48");
  call.ints = {1, 2, 2, -3, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(call.verify("gemm"), "gemm: k is -3, expected 0 to 2147483647");
  call.ints.pop_back();
  EXPECT_EQ(call.verify("gemm"), "gemm: takes 3 buffers, 10 integers and 0 floats, found 3, 9 and 0");
  call.dtype = DType::bf16;
  EXPECT_EQ(call.verify("gemm"), "gemm: takes f32 or f64");
}
