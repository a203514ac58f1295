// Conversions without branches, which the compiler vectorises.
#include "NarrowRows.h"
#include "HostLoops.h"
#include <bit>

namespace scrimp::runtime {

namespace {

[[gnu::always_inline]] inline uint16_t roundToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

[[gnu::always_inline]] inline float halfAsFloat(uint16_t half) {
  // Exponent and mantissa in their places for f32 are too small by 2^112: one product mends normal and subnormal
  // numbers.
  uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13, sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  uint32_t special = magnitude | 0x7f800000;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000 ? special : scaled));
}

[[gnu::always_inline]] inline uint16_t roundToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
  // Below 2^-14: adding a half lines the mantissa up with units of 2^-24, and the sum rounds.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
  half = magnitude >= 0x477ff000 ? 0x7c00 : half; // 65520 and up
  half = magnitude > 0x7f800000 ? 0x7e00 : half;
  return static_cast<uint16_t>(sign | half);
}

} // namespace

SCRIMP_HOST_WIDTH void widenRow(DType type, const uint16_t *from, float *to, int64_t count) {
  if (type == DType::bf16)
    for (int64_t i = 0; i < count; ++i)
      to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = halfAsFloat(from[i]);
}

SCRIMP_HOST_WIDTH void narrowRow(DType type, const float *from, uint16_t *to, int64_t count) {
  if (type == DType::bf16)
    for (int64_t i = 0; i < count; ++i)
      to[i] = roundToBf16(from[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = roundToHalf(from[i]);
}

} // namespace scrimp::runtime
