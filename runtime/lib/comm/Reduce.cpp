// Blocks of elements are widened to the type of the sum, added rank by rank, and rounded once.
#include "Reduce.h"
#include <algorithm>
#include <bit>

namespace scrimp::runtime {

using program::CollectiveKind;

static constexpr int64_t blockElements = 512;

// As floatToBf16 and bf16ToFloat, in a form that compilers vectorise.
static uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>(value != value ? quiet : rounded);
}

static float fromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void narrow(DType wire, const float *source, char *target, int64_t count) {
  auto *halves = reinterpret_cast<uint16_t *>(target);
  if (wire == DType::bf16)
    for (int64_t i = 0; i < count; ++i)
      halves[i] = toBf16(source[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      halves[i] = floatToHalf(source[i]);
}

void widen(DType wire, const char *source, float *target, int64_t count) {
  auto *halves = reinterpret_cast<const uint16_t *>(source);
  if (wire == DType::bf16)
    for (int64_t i = 0; i < count; ++i)
      target[i] = fromBf16(halves[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      target[i] = halfToFloat(halves[i]);
}

namespace {

/// How the elements of a type are read into, and written from, the type in which they are reduced: as they are, or
/// (16 bits) as floats.
template <typename Sum> struct Elements {
  DType type;

  int64_t bytes() const { return elementBytes(type); }
  bool isNarrow() const { return std::is_same_v<Sum, float> && type != DType::f32; }
  void load(const char *source, Sum *target, int64_t count) const {
    if constexpr (std::is_same_v<Sum, float>)
      if (isNarrow())
        return widen(type, source, target, count);
    memcpy(target, source, static_cast<size_t>(count) * sizeof(Sum));
  }
  void store(const Sum *source, char *target, int64_t count) const {
    if constexpr (std::is_same_v<Sum, float>)
      if (isNarrow())
        return narrow(type, source, target, count);
    memcpy(target, source, static_cast<size_t>(count) * sizeof(Sum));
  }
};

template <typename Sum> void addTo(Sum *total, const Sum *part, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    total[i] += part[i];
}

/// The larger; once NaN, it stays that NaN.
template <typename Sum> void maximumInto(Sum *total, const Sum *part, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (total[i] == total[i] && (part[i] > total[i] || part[i] != part[i]))
      total[i] = part[i];
}

template <typename Sum>
void reduceAs(const CollectiveCall &call, std::span<const char *const> parts, int own, char *target, int64_t count) {
  Elements<Sum> elements{call.dtype}, sent{call.wire};
  bool rounds = call.wire != call.dtype && parts.size() > 1;
  alignas(64) Sum total[blockElements], part[blockElements];
  alignas(64) char wire[blockElements * sizeof(Sum)];
  for (int64_t begin = 0; begin < count; begin += blockElements) {
    int64_t length = std::min(blockElements, count - begin);
    auto round = [&](Sum *values) {
      sent.store(values, wire, length);
      sent.load(wire, values, length);
    };
    for (size_t r = 0; r < parts.size(); ++r) {
      const Elements<Sum> &from = static_cast<int>(r) == own ? elements : sent;
      Sum *into = r ? part : total;
      from.load(parts[r] + begin * from.bytes(), into, length);
      if (static_cast<int>(r) == own && rounds)
        round(into);
      if (r)
        call.isSum() ? addTo(total, part, length) : maximumInto(total, part, length);
    }
    if (rounds && call.kind == CollectiveKind::all_reduce_sum)
      round(total);
    elements.store(total, target + begin * elements.bytes(), length);
  }
}

} // namespace

void reduceInOrder(const CollectiveCall &call, std::span<const char *const> parts, int own, char *target,
                   int64_t count) {
  switch (call.dtype) {
  case DType::f32:
  case DType::bf16:
  case DType::f16:
    return reduceAs<float>(call, parts, own, target, count);
  case DType::f64:
    return reduceAs<double>(call, parts, own, target, count);
  // Sums of integers wrap around, which only unsigned ones may.
  case DType::i32:
    return call.isSum() ? reduceAs<uint32_t>(call, parts, own, target, count)
                        : reduceAs<int32_t>(call, parts, own, target, count);
  case DType::i64:
    return call.isSum() ? reduceAs<uint64_t>(call, parts, own, target, count)
                        : reduceAs<int64_t>(call, parts, own, target, count);
  case DType::i1:
    return reduceAs<uint8_t>(call, parts, own, target, count);
  case DType::i8:
    return call.isSum() ? reduceAs<uint8_t>(call, parts, own, target, count)
                        : reduceAs<int8_t>(call, parts, own, target, count);
  }
}

} // namespace scrimp::runtime
