// "linear" against three loops in double: every epilogue, types, transposes, and what it refuses.
#include "LibraryTest.h"
#include "scrimp/runtime/workspace.h"
#include <cmath>

using namespace scrimp::runtime;

namespace {

double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double geluGradient(double x) {
  double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

struct Result {
  std::vector<char> y, kept, sums;
  bool operator==(const Result &) const = default;
};

/// Runs one call on `threads` threads. With `inside` a C of its own lies in Y's bytes.
Result run(LinearCall s, DType type, DType result, int threads, bool inside = false, bool isChecked = true) {
  bool narrow = type != DType::f32 && type != DType::f64;
  Stored a(type, randomVector<double>(s.m * s.k, "a")), b(type, randomVector<double>(s.k * s.n, "b")),
      c(result, randomVector<double>(s.m * s.n, "c")), bias(result, randomVector<double>(s.n, "bias")),
      x(result, randomVector<double>(s.m * s.n, "x")),
      y = c, kept = c, sums(result, std::vector<double>(static_cast<size_t>(s.sums == sumsOfA ? s.m : s.n)));
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspaceBytes(s.product(), 4)), '\xff');
  LibraryCall call;
  call.add(a).add(b);
  if (s.addend == ownAddend)
    call.add(inside ? y : c);
  if (s.bias)
    call.add(bias);
  if (s.epilogue == geluGradEpilogue)
    call.add(x);
  call.add(y);
  if (s.epilogue == geluKeepingEpilogue)
    call.add(kept);
  if (s.sums)
    call.add(sums);
  if (narrow)
    call.add(workspace);
  memcpy((call.ints.resize(linearCallInts), call.ints.data()), &s, sizeof(s));
  call.dtype = type == DType::f64 ? DType::f64 : DType::f32;
  call.threads = threads;
  call.run("linear");
  for (int64_t i = 0; isChecked && i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      int64_t at = i * s.n + j;
      double sum = s.addend ? c.at(at) : 0;
      for (int64_t l = 0; l < s.k; ++l)
        sum += a.at(s.transA ? l * s.m + i : i * s.k + l) * b.at(s.transB ? j * s.k + l : l * s.n + j);
      sum += s.bias ? bias.at(j) : 0;
      double expected = s.epilogue == noEpilogue         ? sum
                        : s.epilogue == reluEpilogue     ? std::max(sum, 0.0)
                        : s.epilogue == geluGradEpilogue ? sum * geluGradient(x.at(at))
                                                         : gelu(sum);
      // One rounding of the result, and sums of as many terms in f32.
      double each = epsilonOf(result) + epsilonOf(call.dtype) * static_cast<double>(s.k + 8), size = 1 + std::abs(sum);
      EXPECT_NEAR(y.at(at), expected, each * size) << i << ", " << j;
      if (s.epilogue == geluKeepingEpilogue)
        EXPECT_NEAR(kept.at(at), sum, each * size) << i << ", " << j;
    }
  for (int64_t line = 0; isChecked && s.sums && line < static_cast<int64_t>(sums.size()); ++line) {
    double sum = 0;
    for (int64_t l = 0; l < s.k; ++l)
      sum += s.sums == sumsOfA ? a.at(s.transA ? l * s.m + line : line * s.k + l)
                               : b.at(s.transB ? line * s.k + l : l * s.n + line);
    EXPECT_NEAR(sums.at(line), sum, epsilonOf(call.dtype) * static_cast<double>(s.k * s.k + 8)) << line;
  }
  return {y.bytes, kept.bytes, sums.bytes};
}

void check(LinearCall s) {
  for (int64_t trans = 0; trans < 4; ++trans)
    for (auto [type, result] : {std::pair{DType::f64, DType::f64},
                                {DType::f32, DType::f32},
                                {DType::bf16, DType::bf16},
                                {DType::bf16, DType::f32},
                                {DType::f16, DType::f16}}) {
      if (s.sums && result != DType::f32 && result != DType::f64)
        continue;
      SCOPED_TRACE(std::string(dtypeName(type)) + " to " + dtypeName(result));
      s.transA = trans & 1;
      s.transB = trans >> 1;
      Result one = run(s, type, result, 1);
      EXPECT_EQ(one, run(s, type, result, 3));
      if (s.addend != ownAddend)
        continue;
      // Where C lies changes no bit.
      EXPECT_EQ(one, run(s, type, result, 1, /*inside=*/true));
      LinearCall inPlace = s;
      inPlace.addend = addendInPlace;
      EXPECT_EQ(one, run(inPlace, type, result, 1));
    }
}

} // namespace

// Extents that are no multiples of tiles or panels; sums of several panels.
TEST(Linear, AgreesWithLoops) {
  for (int64_t epilogue = noEpilogue; epilogue <= geluGradEpilogue; ++epilogue)
    for (int64_t addend : {noAddend, ownAddend})
      for (int64_t bias : {0, 1})
        check({5, 24, 7, 0, 0, addend, bias, epilogue, noSums});
  check({3, 7, 300, 0, 0, ownAddend, 1, geluEpilogue, noSums});
  check({0, 8, 3, 0, 0, noAddend, 1, geluKeepingEpilogue, noSums});
  check({3, 8, 0, 0, 0, noAddend, 1, noEpilogue, noSums});
  for (int64_t sums : {sumsOfA, sumsOfB})
    check({5, 19, 33, 0, 0, noAddend, 0, noEpilogue, sums});
}

TEST(Linear, TilesAgreeWithThreads) {
  LinearCall s{300, 528, 260, 0, 1, ownAddend, 1, geluKeepingEpilogue, noSums};
  for (DType type : {DType::f32, DType::bf16})
    EXPECT_EQ(run(s, type, type, 1, false, false), run(s, type, type, 3, false, false));
}

// 256 + 1 is no bf16; with the bias it is again: nothing is rounded in between.
TEST(Linear, RoundsOnce) {
  Stored a(DType::bf16, {1}), b(DType::bf16, {1}), c(DType::bf16, {256}), bias(DType::bf16, {1}), y(DType::bf16, {0});
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspaceBytes({1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, 4)));
  LibraryCall call;
  call.add(a).add(b).add(c).add(bias).add(y).add(workspace);
  call.ints = {1, 1, 1, 0, 0, ownAddend, 1, noEpilogue, noSums};
  call.dtype = DType::f32;
  call.run("linear");
  EXPECT_EQ(y.at(0), 258);
}

TEST(Linear, RejectsBadArguments) {
  std::vector<float> a(6), b(24), bias(8), y(16), kept(16);
  LibraryCall call;
  call.dtype = DType::f32;
  call.add(a).add(b).add(bias).add(y).add(kept);
  call.ints = {2, 8, 3, 0, 0, 0, 1, geluKeepingEpilogue, 0};
  EXPECT_EQ(call.verify("linear"), "");
  call.ints[7] = 9;
  EXPECT_EQ(call.verify("linear"), "linear: epilogue is 9, expected 0 to 4");
  call.ints[7] = geluEpilogue;
  EXPECT_EQ(call.verify("linear"), "linear: takes 4 buffers, 9 integers and 0 floats, found 5, 9 and 0");
  call.ints = {2, 7, 3, 0, 0, 0, 1, geluKeepingEpilogue, 0};
  EXPECT_EQ(call.verify("linear"), "linear: an epilogue that reads or keeps a matrix needs an n that 8 divides");
  call.ints = {2, 8, 3, 0, 0, 0, 1, noEpilogue, sumsOfB};
  EXPECT_EQ(call.verify("linear"),
            "linear: sums of an operand go with neither a bias, nor an epilogue, nor a rounded Y");
  call.ints = {2, 8, 3, 0, 0, ownAddend, 0, noEpilogue, sumsOfB};
  EXPECT_EQ(call.verify("linear"), "linear: C needs 64 bytes, found 32");
  call.ints.pop_back();
  EXPECT_EQ(call.verify("linear"), "linear: takes 5 buffers, 9 integers and 0 floats, found 5, 8 and 0");
}
