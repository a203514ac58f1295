// Conversions of single elements.
#include "scrimp/runtime/DType.h"
#include <cmath>

namespace scrimp::runtime {

template <typename To, typename From> static To bitsOf(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

uint16_t floatToBf16(float value) {
  uint32_t bits = bitsOf<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float bf16ToFloat(uint16_t bits) { return bitsOf<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t floatToHalf(float value) {
  uint32_t bits = bitsOf<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (std::isnan(value))
    return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;
  if (magnitude < 0x1p-14f) // subnormal: the unit is 2^-24, and nearbyint rounds to even
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  uint32_t rebased = bitsOf<uint32_t>(magnitude) - (112u << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13);
}

float halfToFloat(uint16_t bits) {
  uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  float magnitude;
  if (exponent == 0)
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  else if (exponent == 31)
    magnitude = mantissa ? NAN : INFINITY;
  else
    magnitude = bitsOf<float>((exponent + 112) << 23 | mantissa << 13);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <typename T> static void store(char *data, int64_t index, T value) {
  memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename T> static T load(const char *data, int64_t index) {
  T value;
  memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void storeElement(DType type, char *data, int64_t index, double value) {
  switch (type) {
  case DType::f32:
    return store(data, index, static_cast<float>(value));
  case DType::f64:
    return store(data, index, value);
  case DType::bf16:
    return store(data, index, floatToBf16(static_cast<float>(value)));
  case DType::f16:
    return store(data, index, floatToHalf(static_cast<float>(value)));
  case DType::i1:
    return store(data, index, static_cast<uint8_t>(value != 0));
  case DType::i8:
    return store(data, index, static_cast<int8_t>(value));
  case DType::i32:
    return store(data, index, static_cast<int32_t>(value));
  case DType::i64:
    return store(data, index, static_cast<int64_t>(value));
  }
}

double loadElement(DType type, const char *data, int64_t index) {
  switch (type) {
  case DType::f32:
    return load<float>(data, index);
  case DType::f64:
    return load<double>(data, index);
  case DType::bf16:
    return bf16ToFloat(load<uint16_t>(data, index));
  case DType::f16:
    return halfToFloat(load<uint16_t>(data, index));
  case DType::i1:
    return load<uint8_t>(data, index) != 0;
  case DType::i8:
    return load<int8_t>(data, index);
  case DType::i32:
    return load<int32_t>(data, index);
  case DType::i64:
    return static_cast<double>(load<int64_t>(data, index));
  }
  return 0;
}

} // namespace scrimp::runtime
