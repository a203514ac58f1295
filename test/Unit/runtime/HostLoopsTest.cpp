// Loops at the host's vector width give the bits of the plain loops here, which are compiled for the oldest processor.
#include "../../../runtime/lib/cpu/HostLoops.h"
#include "../../../runtime/lib/cpu/Exp.h"
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace scrimp::runtime;

template <typename T> static std::vector<T> draw(int64_t count) {
  std::minstd_rand random(static_cast<uint32_t>(count));
  std::uniform_real_distribution<T> values(-9, 9);
  std::vector<T> row(static_cast<size_t>(count));
  for (T &x : row)
    x = values(random);
  return row;
}

template <typename T> class HostLoops : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(HostLoops, Types);

TYPED_TEST(HostLoops, BitsAreThoseOfPlainLoops) {
  using T = TypeParam;
  for (int64_t count : {1, 7, 8, 15, 16, 17, 31, 64, 100, 257}) {
    std::vector<T> x = draw<T>(count), y = x;
    T most = y[0], lanes[8] = {};
    for (T v : y)
      most = v > most ? v : most;
    for (int64_t j = 0; j < count; ++j) {
      y[j] = exponential(y[j] - most);
      lanes[j % 8] += y[j];
    }
    T sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    for (T &v : y)
      v /= sum;
    std::vector<T> found = x;
    EXPECT_EQ(softmaxRow(found.data(), count), most + std::log(sum)) << count;
    EXPECT_EQ(found, y) << count;

    found = x;
    probabilityRow(found.data(), count, T(3));
    std::vector<T> gradient = x;
    softmaxGradientRow(y.data(), gradient.data(), count, T(0.7));
    std::vector<T> sums(2 * static_cast<size_t>(count), T(0.1)), dense = x;
    addRow(x.data(), sums.data(), count, 2);
    addRow(y.data(), dense.data(), count, 1);
    for (int64_t j = 0; j < count; ++j) {
      EXPECT_EQ(found[j], exponential(x[j] - T(3)));
      EXPECT_EQ(gradient[j], y[j] * (x[j] - T(0.7)));
      EXPECT_EQ(sums[2 * j], T(0.1) + x[j]);
      EXPECT_EQ(sums[2 * j + 1], T(0.1));
      EXPECT_EQ(dense[j], x[j] + y[j]);
    }
  }
}

// Rows without a visible key, and rows with a NaN.
TYPED_TEST(HostLoops, SoftmaxOfNothingAndOfNan) {
  using T = TypeParam;
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  std::vector<T> row(20, hidden);
  EXPECT_EQ(softmaxRow(row.data(), 20), T(0));
  EXPECT_EQ(row, std::vector<T>(20, T(0)));
  EXPECT_EQ(softmaxRow(row.data(), 0), T(0));
  row.assign(20, hidden);
  row[18] = std::numeric_limits<T>::quiet_NaN();
  EXPECT_NE(softmaxRow(row.data(), 20), T(0));
  EXPECT_NE(row[18], row[18]);
}
