// "gemm" against three loops, over odd shapes, types, transposes, batches and accumulation.
#include "../../../runtime/lib/cpu/Bf16Dot.h"
#include "LibraryTest.h"
#include "scrimp/runtime/workspace.h"

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

/// Operands of 16 bits against exact products of what they hold, summed in double.
static void checkNarrow(const Case &s, DType type, DType result, bool bf16Dot) {
  SCOPED_TRACE(std::string(dtypeName(type)) + " to " + dtypeName(result) + (bf16Dot ? " natively" : ""));
  Stored a(type, randomVector<double>((s.sharedA ? 1 : s.batch) * s.m * s.k, "a")),
      b(type, randomVector<double>((s.sharedB ? 1 : s.batch) * s.k * s.n, "b")),
      start(result, randomVector<double>((s.sharedC ? 1 : s.batch) * s.m * s.n, "c"));
  std::vector<int64_t> ints = s.ints();
  GemmCall call;
  memcpy(&call, ints.data(), sizeof(call));
  std::vector<char> results[2];
  for (int threads : {1, 2}) {
    Stored c = start;
    std::vector<char> workspace(static_cast<size_t>(gemmWorkspaceBytes(call, 4)), '\xff');
    LibraryCall run;
    run.add(a).add(b).add(c).add(workspace);
    run.ints = ints;
    run.dtype = DType::f32;
    run.bf16Dot = bf16Dot;
    run.threads = threads;
    run.run("gemm");
    results[threads - 1] = c.bytes;
    if (threads == 2)
      continue;
    for (int64_t i = 0; i < s.batch; ++i)
      for (int64_t r = 0; r < s.m; ++r)
        for (int64_t j = 0; j < s.n; ++j) {
          int64_t at = (s.sharedC ? 0 : i * s.m * s.n) + r * s.n + j;
          double sum = s.accumulate ? start.at(at) : 0, magnitude = std::abs(sum);
          for (int64_t member = s.sharedC ? 0 : i; member < (s.sharedC ? s.batch : i + 1); ++member)
            for (int64_t x = 0; x < s.k; ++x) {
              double term = a.at((s.sharedA ? 0 : member * s.m * s.k) + (s.transA ? x * s.m + r : r * s.k + x)) *
                            b.at((s.sharedB ? 0 : member * s.k * s.n) + (s.transB ? j * s.k + x : x * s.n + j));
              sum += term;
              magnitude += std::abs(term);
            }
          double bound = static_cast<double>(s.k * s.batch + 4) * 0x1p-23 * magnitude +
                         (result == DType::f32 ? 0 : epsilonOf(result) / 2 * std::abs(sum));
          ASSERT_LE(std::abs(c.at(at) - sum), bound)
              << i << ", " << r << ", " << j << " of " << s.m << "x" << s.n << "x" << s.k;
        }
  }
  EXPECT_EQ(results[0], results[1]);
}

static void checkNarrow(const Case &s) {
  for (DType type : {DType::bf16, DType::f16})
    for (DType result : {type, DType::f32})
      checkNarrow(s, type, result, /*bf16Dot=*/false);
  if (hasBf16Dot())
    for (DType result : {DType::bf16, DType::f32})
      checkNarrow(s, DType::bf16, result, /*bf16Dot=*/true);
}

// Extents below, at and above a packed panel, odd sums, sums of several panels, batches that add up.
TEST(Gemm, NarrowOperandsAreSummedInFloat) {
  for (int64_t trans = 0; trans < 4; ++trans)
    for (const Case &shape : {Case{1, 1, 1, 1, 0, 0, false, false, false, 0},
                              {1, 3, 5, 7, 0, 0, false, false, false, 1},
                              {1, 16, 32, 64, 0, 0, false, false, false, 0},
                              {1, 33, 67, 35, 0, 0, false, false, false, 0},
                              {1, 2, 300, 1, 0, 0, false, false, false, 0},
                              {1, 300, 2, 3, 0, 0, false, false, false, 1},
                              {1, 17, 19, 801, 0, 0, false, false, false, 1},
                              {3, 5, 9, 4, 0, 0, false, true, false, 0},
                              {4, 7, 3, 8, 0, 0, true, false, true, 0},
                              {4, 7, 3, 8, 0, 0, false, false, true, 1},
                              {1, 2, 3, 0, 0, 0, false, false, false, 0},
                              {1, 2, 3, 0, 0, 0, false, false, false, 1},
                              {2, 0, 3, 4, 0, 0, false, false, false, 0}}) {
      Case s = shape;
      s.transA = trans & 1;
      s.transB = trans >> 1;
      checkNarrow(s);
    }
  checkNarrow({1, 150, 517, 130, 0, 1, false, false, false, 0});
  checkNarrow({1, 40, 70, 1201, 1, 0, false, false, false, 0});
}

// 1 + 2^-8 is no bf16: products are not rounded before they are summed, and the sum is not before it is added to C.
TEST(Gemm, NarrowProductsAreExact) {
  for (bool bf16Dot : {false, true}) {
    if (bf16Dot && !hasBf16Dot())
      continue;
    // (1 + 2^-4)^2 = 1 + 2^-3 + 2^-8; minus 1, minus 2^-3.
    Stored a(DType::bf16, {1.0625, -1, -0.125}), b(DType::bf16, {1.0625, 1, 1}), c(DType::f32, {256});
    std::vector<char> workspace(static_cast<size_t>(gemmWorkspaceBytes({1, 1, 1, 3, 0, 0, 0, 0, 0, 0}, 4)));
    LibraryCall call;
    call.add(a).add(b).add(c).add(workspace);
    call.ints = {1, 1, 1, 3, 0, 0, 0, 0, 0, 1};
    call.dtype = DType::f32;
    call.bf16Dot = bf16Dot;
    call.run("gemm");
    EXPECT_EQ(c.at(0), 256 + 0x1p-8);
  }
}

TEST(Gemm, RejectsMixedTypes) {
  Stored a(DType::bf16, std::vector<double>(6)), b(DType::f16, std::vector<double>(6)),
      c(DType::f32, std::vector<double>(4));
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspaceBytes({1, 2, 2, 3, 0, 0, 0, 0, 0, 0}, 4)));
  LibraryCall call;
  call.add(a).add(b).add(c).add(workspace);
  call.ints = {1, 2, 2, 3, 0, 0, 0, 0, 0, 0};
  call.dtype = DType::f32;
  EXPECT_EQ(call.verify("gemm"), "gemm: A and B differ in type");
  call.types[1] = DType::bf16;
  EXPECT_EQ(call.verify("gemm"), "");
  call.types[2] = DType::f16;
  EXPECT_EQ(call.verify("gemm"), "gemm: C has neither the operands' type nor that of the sums");
  call.types[2] = DType::bf16;
  call.lengths[3] -= 1;
  EXPECT_NE(call.verify("gemm").find("gemm: workspace needs"), std::string::npos);
  call.dtype = DType::f64;
  EXPECT_EQ(call.verify("gemm"),
            "gemm: its buffers have elements of the sums' type, or f16 or bf16 beside sums in f32");
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
