#include "HostLoops.h"
#include "Exp.h"
#include <limits>

namespace scrimp::runtime {

namespace {

/// Eight interleaved partial sums, then a tree: the order is a function of the length.
template <typename T> [[gnu::always_inline]] inline T sumOf(const T *row, int64_t count) {
  T lanes[8] = {};
  int64_t j = 0;
  for (; j + 8 <= count; j += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += row[j + l];
  for (; j < count; ++j)
    lanes[j % 8] += row[j];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// The largest element, NaN apart. Lanes, because the compiler may not reorder comparisons of floats by itself.
template <typename T> [[gnu::always_inline]] inline T largestOf(const T *row, int64_t count) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T lanes[16];
  for (T &lane : lanes)
    lane = lowest;
  int64_t j = 0;
  for (; j + 16 <= count; j += 16)
    for (int l = 0; l < 16; ++l)
      lanes[l] = row[j + l] > lanes[l] ? row[j + l] : lanes[l];
  T most = lowest;
  for (; j < count; ++j)
    most = row[j] > most ? row[j] : most;
  for (T lane : lanes)
    most = lane > most ? lane : most;
  return most;
}

template <typename T> [[gnu::always_inline]] inline T softmax(T *row, int64_t count) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T most = largestOf(row, count);
  if (most == lowest) {
    bool anyNan = false;
    for (int64_t j = 0; j < count; ++j)
      anyNan |= row[j] != row[j];
    if (!anyNan) {
      for (int64_t j = 0; j < count; ++j)
        row[j] = T(0);
      return T(0);
    }
  }
  for (int64_t j = 0; j < count; ++j)
    row[j] = exponential(row[j] - most);
  T sum = sumOf(row, count);
  for (int64_t j = 0; j < count; ++j)
    row[j] /= sum;
  return most + std::log(sum);
}

template <typename T> [[gnu::always_inline]] inline void probability(T *row, int64_t count, T logSum) {
  for (int64_t j = 0; j < count; ++j)
    row[j] = exponential(row[j] - logSum);
}

template <typename T> [[gnu::always_inline]] inline void gradient(const T *p, T *g, int64_t count, T delta) {
  for (int64_t j = 0; j < count; ++j)
    g[j] = p[j] * (g[j] - delta);
}

template <typename T> [[gnu::always_inline]] inline void add(const T *from, T *to, int64_t count, int64_t stride) {
  if (stride == 1)
    for (int64_t j = 0; j < count; ++j)
      to[j] += from[j];
  else
    for (int64_t j = 0; j < count; ++j)
      to[j * stride] += from[j];
}

} // namespace

SCRIMP_HOST_WIDTH float softmaxRow(float *row, int64_t count) { return softmax(row, count); }
SCRIMP_HOST_WIDTH double softmaxRow(double *row, int64_t count) { return softmax(row, count); }
SCRIMP_HOST_WIDTH void probabilityRow(float *row, int64_t count, float logSum) { probability(row, count, logSum); }
SCRIMP_HOST_WIDTH void probabilityRow(double *row, int64_t count, double logSum) { probability(row, count, logSum); }
SCRIMP_HOST_WIDTH void softmaxGradientRow(const float *p, float *g, int64_t count, float delta) {
  gradient(p, g, count, delta);
}
SCRIMP_HOST_WIDTH void softmaxGradientRow(const double *p, double *g, int64_t count, double delta) {
  gradient(p, g, count, delta);
}
SCRIMP_HOST_WIDTH void addRow(const float *from, float *to, int64_t count, int64_t stride) {
  add(from, to, count, stride);
}
SCRIMP_HOST_WIDTH void addRow(const double *from, double *to, int64_t count, int64_t stride) {
  add(from, to, count, stride);
}

} // namespace scrimp::runtime
