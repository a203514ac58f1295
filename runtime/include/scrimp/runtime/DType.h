// Element types as the arena holds them: sizes, names, and the conversions between the narrow floating point types
// and float, with rounding to nearest even. An i1 is one byte, 0 or 1.
#ifndef SCRIMP_RUNTIME_DTYPE_H
#define SCRIMP_RUNTIME_DTYPE_H

#include "scrimp/runtime/program_generated.h"
#include <cstdint>
#include <cstring>

namespace scrimp::runtime {

using program::DType;

constexpr int64_t elementBytes(DType type) {
  switch (type) {
  case DType::f32:
  case DType::i32:
    return 4;
  case DType::f64:
  case DType::i64:
    return 8;
  case DType::bf16:
  case DType::f16:
    return 2;
  case DType::i1:
  case DType::i8:
    return 1;
  }
  return 0;
}

constexpr bool isKnown(DType type) { return elementBytes(type) != 0; }

constexpr bool isFloat(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::bf16 || type == DType::f16;
}

/// Of 16 bits.
constexpr bool isNarrow(DType type) { return type == DType::bf16 || type == DType::f16; }

/// The type that sums of products of `type` are kept in.
constexpr DType sumType(DType type) { return isNarrow(type) ? DType::f32 : type; }

constexpr const char *dtypeName(DType type) {
  switch (type) {
  case DType::f32:
    return "f32";
  case DType::f64:
    return "f64";
  case DType::bf16:
    return "bf16";
  case DType::f16:
    return "f16";
  case DType::i1:
    return "i1";
  case DType::i8:
    return "i8";
  case DType::i32:
    return "i32";
  case DType::i64:
    return "i64";
  }
  return "unknown";
}

uint16_t floatToBf16(float value);
float bf16ToFloat(uint16_t bits);
uint16_t floatToHalf(float value);
float halfToFloat(uint16_t bits);

/// Stores `value`, rounded to `type` (integers: truncated toward zero), as element `index` of `data`.
void storeElement(DType type, char *data, int64_t index, double value);

/// Element `index` of `data` as a double. Integers above 2^53 lose their low bits.
double loadElement(DType type, const char *data, int64_t index);

} // namespace scrimp::runtime

#endif
