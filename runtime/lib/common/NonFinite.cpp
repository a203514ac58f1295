#include "scrimp/runtime/NonFinite.h"
#include <algorithm>
#include <cmath>

namespace scrimp::runtime {

/// All exponent bits are set in NaN and infinity; without the sign, NaN is the larger.
template <typename Bits> static int64_t find(const char *data, int64_t count, Bits infinity, bool nanOnly) {
  const auto *bits = reinterpret_cast<const Bits *>(data);
  constexpr Bits magnitude = static_cast<Bits>(~Bits{0}) >> 1;
  Bits least = nanOnly ? infinity + 1 : infinity;
  constexpr int64_t block = 4096;
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t end = std::min(begin + block, count);
    Bits largest = 0;
    for (int64_t i = begin; i < end; ++i)
      largest = std::max<Bits>(largest, bits[i] & magnitude);
    if (largest < least)
      continue;
    while ((bits[begin] & magnitude) < least)
      ++begin;
    return begin;
  }
  return -1;
}

int64_t findNonFinite(DType type, const char *data, int64_t count, bool nanOnly) {
  switch (type) {
  case DType::f32:
    return find<uint32_t>(data, count, 0x7f800000, nanOnly);
  case DType::f64:
    return find<uint64_t>(data, count, 0x7ff0000000000000, nanOnly);
  case DType::f16:
    return find<uint16_t>(data, count, 0x7c00, nanOnly);
  case DType::bf16:
    return find<uint16_t>(data, count, 0x7f80, nanOnly);
  default:
    return -1;
  }
}

const char *nonFiniteText(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

} // namespace scrimp::runtime
