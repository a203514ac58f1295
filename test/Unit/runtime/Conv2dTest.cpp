// The convolutions against loops, in the three directions, over strides, pads, dilations and groups.
#include "../../../runtime/lib/cpu/Bf16Dot.h"
#include "LibraryTest.h"
#include "scrimp/runtime/workspace.h"

using namespace scrimp::runtime;

namespace {

std::vector<int64_t> intsOf(const Conv2dShape &s) {
  return {s.N,       s.C,      s.H,       s.W,         s.O,        s.KH,   s.KW,   s.strideH,
          s.strideW, s.padTop, s.padLeft, s.padBottom, s.padRight, s.dilH, s.dilW, s.groups};
}

/// Calls visit(x index, w index, y index) for every product of the convolution.
template <typename Visit> void forEachProduct(const Conv2dShape &s, Visit visit) {
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t o = 0; o < s.O; ++o)
      for (int64_t oh = 0; oh < s.outH(); ++oh)
        for (int64_t ow = 0; ow < s.outW(); ++ow)
          for (int64_t c = 0; c < s.channels(); ++c)
            for (int64_t kh = 0; kh < s.KH; ++kh)
              for (int64_t kw = 0; kw < s.KW; ++kw) {
                int64_t ih = oh * s.strideH - s.padTop + kh * s.dilH, iw = ow * s.strideW - s.padLeft + kw * s.dilW;
                if (ih < 0 || ih >= s.H || iw < 0 || iw >= s.W)
                  continue;
                int64_t channel = o / s.filters() * s.channels() + c;
                visit(((n * s.C + channel) * s.H + ih) * s.W + iw, ((o * s.channels() + c) * s.KH + kh) * s.KW + kw,
                      ((n * s.O + o) * s.outH() + oh) * s.outW() + ow);
              }
}

template <typename T>
std::vector<T> call(const char *name, Conv2dKind kind, const Conv2dShape &s, std::vector<T> a, std::vector<T> b,
                    int64_t size, int threads) {
  std::vector<T> result(static_cast<size_t>(size), T(99));
  std::vector<char> workspace(static_cast<size_t>(conv2dWorkspaceBytes(kind, s, {sizeof(T), sizeof(T), sizeof(T)}, 4)));
  LibraryCall library;
  library.add(a).add(b).add(result).add(workspace);
  library.ints = intsOf(s);
  library.dtype = dtypeOf<T>;
  library.threads = threads;
  library.run(name);
  return result;
}

template <typename T> void check(const Conv2dShape &s, double tolerance) {
  int64_t xs = s.N * s.C * s.H * s.W, ws = s.O * s.channels() * s.taps(), ys = s.N * s.O * s.positions();
  auto x = randomVector<T>(xs, "x"), w = randomVector<T>(ws, "w"), dy = randomVector<T>(ys, "dy");
  std::vector<double> y(ys), dx(xs), dw(ws);
  forEachProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
    y[yi] += static_cast<double>(x[xi]) * w[wi];
    dx[xi] += static_cast<double>(dy[yi]) * w[wi];
    dw[wi] += static_cast<double>(dy[yi]) * x[xi];
  });
  auto compare = [&](const char *name, Conv2dKind kind, auto &a, auto &b, const std::vector<double> &expected) {
    std::vector<T> one = call<T>(name, kind, s, a, b, static_cast<int64_t>(expected.size()), 1);
    std::vector<T> three = call<T>(name, kind, s, a, b, static_cast<int64_t>(expected.size()), 3);
    EXPECT_LE(largestDifference(one, std::vector<T>(expected.begin(), expected.end())), tolerance) << name;
    EXPECT_TRUE(sameBits(one, three)) << name;
  };
  compare("conv2d", Conv2dKind::forward, x, w, y);
  compare("conv2d_input_grad", Conv2dKind::inputGrad, dy, w, dx);
  compare("conv2d_weight_grad", Conv2dKind::weightGrad, x, dy, dw);
}

//   N, C, H, W, O, KH, KW, strides, padTop, padLeft, padBottom, padRight, dilations, groups
constexpr Conv2dShape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1}, {2, 3, 8, 9, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {3, 4, 9, 7, 6, 3, 2, 2, 3, 0, 1, 2, 0, 1, 1, 2}, {2, 2, 11, 10, 2, 3, 3, 1, 2, 2, 2, 2, 2, 2, 3, 1},
    {2, 6, 7, 7, 6, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 6}, {2, 5, 6, 6, 7, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1},
    {2, 4, 6, 6, 4, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 2}, {5, 3, 4, 4, 2, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1},
    {1, 2, 5, 5, 3, 2, 2, 1, 1, 4, 0, 0, 5, 1, 1, 1},
};

} // namespace

TEST(Conv2d, AgreesWithLoops) {
  for (const Conv2dShape &s : shapes) {
    check<double>(s, 1e-12);
    check<float>(s, 1e-4);
  }
}

// Blocks that span samples (deep, small images) and that part one (wide images), with many units.
TEST(Conv2d, BlocksAgreeWithLoops) {
  Conv2dShape deep{40, 96, 3, 3, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  ASSERT_GT(cutConv2d(Conv2dKind::forward, deep, 8).samples, 1);
  check<double>(deep, 1e-11);
  Conv2dShape wide{1, 8, 60, 70, 5, 7, 7, 1, 1, 3, 3, 3, 3, 1, 1, 1};
  ASSERT_LT(cutConv2d(Conv2dKind::forward, wide, 8).positions, wide.positions());
  check<double>(wide, 1e-11);
  Conv2dShape point{3, 64, 70, 70, 33, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1};
  ASSERT_LT(cutConv2d(Conv2dKind::weightGrad, point, 8).channels, point.channels());
  check<double>(point, 1e-10);
}

/// Operands of 16 bits against the f64 convolution of what they hold.
static void checkNarrow(const Conv2dShape &s, DType type, DType result, bool bf16Dot) {
  int64_t xs = s.N * s.C * s.H * s.W, ws = s.O * s.channels() * s.taps(), ys = s.N * s.O * s.positions();
  struct Direction {
    const char *name;
    Conv2dKind kind;
    int64_t a, b, result;
    int64_t terms; // of a sum
  };
  for (const Direction &d : {Direction{"conv2d", Conv2dKind::forward, xs, ws, ys, s.channels() * s.taps()},
                             {"conv2d_input_grad", Conv2dKind::inputGrad, ys, ws, xs, s.filters() * s.taps()},
                             {"conv2d_weight_grad", Conv2dKind::weightGrad, xs, ys, ws, s.N * s.positions()}}) {
    SCOPED_TRACE(std::string(d.name) + " of " + dtypeName(type) + " to " + dtypeName(result));
    Stored a(type, randomVector<double>(d.a, "a")), b(type, randomVector<double>(d.b, "b"));
    std::vector<double> exactA(a.size()), exactB(b.size());
    for (size_t i = 0; i < a.size(); ++i)
      exactA[i] = a.at(static_cast<int64_t>(i));
    for (size_t i = 0; i < b.size(); ++i)
      exactB[i] = b.at(static_cast<int64_t>(i));
    std::vector<double> expected = call<double>(d.name, d.kind, s, exactA, exactB, d.result, 1);
    std::vector<char> results[2];
    for (int threads : {1, 2}) {
      Stored found(result, std::vector<double>(static_cast<size_t>(d.result), 99));
      ElementBytes each{2, 4, elementBytes(result)};
      std::vector<char> workspace(static_cast<size_t>(conv2dWorkspaceBytes(d.kind, s, each, 4)), '\xff');
      LibraryCall library;
      library.add(a).add(b).add(found).add(workspace);
      library.ints = intsOf(s);
      library.dtype = DType::f32;
      library.bf16Dot = bf16Dot;
      library.threads = threads;
      library.run(d.name);
      results[threads - 1] = found.bytes;
      for (int64_t i = 0; i < d.result; ++i)
        ASSERT_LE(std::abs(found.at(i) - expected[static_cast<size_t>(i)]),
                  static_cast<double>(d.terms + 8) * 0x1p-22 +
                      (result == DType::f32 ? 0 : epsilonOf(result) / 2 * std::abs(expected[static_cast<size_t>(i)])))
            << i;
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(Conv2d, NarrowOperandsAreSummedInFloat) {
  std::vector<Conv2dShape> all(std::begin(shapes), std::end(shapes));
  all.push_back({40, 96, 3, 3, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1});  // blocks that span samples,
  all.push_back({1, 8, 60, 70, 5, 7, 7, 1, 1, 3, 3, 3, 3, 1, 1, 1});   // part one,
  all.push_back({3, 64, 70, 70, 33, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1}); // and part channels
  for (const Conv2dShape &s : all)
    for (DType type : {DType::bf16, DType::f16})
      for (DType result : {type, DType::f32}) {
        checkNarrow(s, type, result, /*bf16Dot=*/false);
        if (type == DType::bf16 && hasBf16Dot())
          checkNarrow(s, type, result, /*bf16Dot=*/true);
      }
}

TEST(Conv2d, RejectsBadArguments) {
  std::vector<double> x(9), w(4), y(4);
  std::vector<char> workspace(1 << 16);
  LibraryCall call;
  call.add(x).add(w).add(y).add(workspace);
  Conv2dShape s{1, 1, 3, 3, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, 1, 1};
  call.ints = intsOf(s);
  EXPECT_EQ(call.verify("conv2d"), "");
  call.ints[15] = 2;
  EXPECT_EQ(call.verify("conv2d"), "conv2d: groups do not divide the channels");
  call.ints = intsOf(s);
  call.ints[5] = 4;
  EXPECT_EQ(call.verify("conv2d"), "conv2d: the filter is larger than the padded image");
  call.ints[5] = 0;
  EXPECT_EQ(call.verify("conv2d"), "conv2d: KH is 0, expected 1 to 268435456");
  call.ints = intsOf(s);
  call.ints[0] = 2;
  EXPECT_EQ(call.verify("conv2d"), "conv2d: x needs 144 bytes, found 72");
  call.ints = intsOf(s);
  call.lengths[3] = 64;
  EXPECT_NE(call.verify("conv2d").find("conv2d: workspace needs "), std::string::npos);
}
