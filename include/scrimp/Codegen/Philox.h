// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), written once for numbers at
// hand and for code emitted into a kernel, and the layout of the draws of a training graph.
//
// A draw is keyed by (seed, step, the op's key, global sample index, element within the sample):
//   key      the 64 bits seed XOR mix64(op key), as (lo32, hi32)
//   counter  (lo32(element / 4), lo32(sample), lo32(step), 2); word element % 4 of the block is the draw
// The last counter word tells these streams from the runtime's (runtime/include/scrimp/runtime/Random.h uses 1 for
// initial values). A sample has at most 2^34 elements, and samples and steps repeat after 2^32.
#ifndef SCRIMP_CODEGEN_PHILOX_H
#define SCRIMP_CODEGEN_PHILOX_H

#include <array>
#include <cstdint>

namespace mlir::scrimp {

/// 32-bit words at hand. The other kind of word is PhiloxValue of NeuralRandom.cpp.
struct PhiloxWord {
  uint32_t value;
  friend PhiloxWord operator^(PhiloxWord a, PhiloxWord b) { return {a.value ^ b.value}; }
  friend PhiloxWord operator+(PhiloxWord a, uint32_t b) { return {a.value + b}; }
  /// The high and the low half of the product.
  std::array<PhiloxWord, 2> multiply(uint32_t factor) const {
    uint64_t product = uint64_t{value} * factor;
    return {PhiloxWord{static_cast<uint32_t>(product >> 32)}, PhiloxWord{static_cast<uint32_t>(product)}};
  }
};

template <typename W>
std::array<W, 4> philox4x32(std::array<W, 4> counter, std::array<W, 2> key) {
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = counter[0].multiply(0xD2511F53);
    auto [high1, low1] = counter[2].multiply(0xCD9E8D57);
    counter = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// The finalizer of SplitMix64 (Steele et al., OOPSLA 2014): keys that differ in one bit differ in about 32.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The 32 random bits of one draw.
inline uint32_t drawBits(uint64_t seed, uint64_t step, uint64_t opKey, uint64_t sample, uint64_t element) {
  uint64_t key = seed ^ mix64(opKey);
  auto word = [](uint64_t value) { return PhiloxWord{static_cast<uint32_t>(value)}; };
  return philox4x32<PhiloxWord>({word(element / 4), word(sample), word(step), word(2)},
                                {word(key), word(key >> 32)})[element % 4]
      .value;
}

} // namespace mlir::scrimp

#endif
