// Counter-based random numbers (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
// and what the runtime draws from them: initial values and the order of samples. A number depends on its counter and
// key alone, so neither threads nor the order of evaluation can change it.
#ifndef SCRIMP_RUNTIME_RANDOM_H
#define SCRIMP_RUNTIME_RANDOM_H

#include <array>
#include <cstdint>
#include <string_view>

namespace scrimp::runtime {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

/// 64-bit FNV-1a.
uint64_t fnv1a64(std::string_view text);

/// The stream of initial values of the tensor `name` under `seed`. Element 4j+i comes from word i of the block whose
/// counter is (lo32(j), hi32(j), 0, 1) and whose key is seed XOR fnv1a64(name) as (lo32, hi32).
///
///   uniform: u = (w >> 8) 2^-24;  a + (b - a) u
///   normal:  word pairs (w0,w1), (w2,w3): u1 = ((w0 >> 8) + 1) 2^-24, u2 = (w1 >> 8) 2^-24,
///            r = sqrt(-2 ln u1); the pair gives a + b r cos(2 pi u2), a + b r sin(2 pi u2)
///
/// Computed in double, then rounded to float, so that programs compiled in fp64 and fp32 start from the same values.
class InitialValues {
public:
  InitialValues(uint64_t seed, std::string_view name);
  /// The four elements 4*block .. 4*block+3.
  std::array<float, 4> uniform(uint64_t block, double a, double b) const;
  std::array<float, 4> normal(uint64_t block, double mean, double deviation) const;

private:
  PhiloxKey key;
};

/// A permutation of [0, size) that needs no memory: a Feistel network over the smallest even number of bits that
/// holds size - 1, walked until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
/// Its round function is Philox with the key seed XOR fnv1a64("shuffle") and the counter
/// (half, round, lo32(epoch), hi32(epoch)).
class Permutation {
public:
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch);
  uint64_t operator()(uint64_t index) const;

private:
  uint64_t encrypt(uint64_t value) const;
  uint64_t size;
  uint64_t epoch;
  PhiloxKey key;
  unsigned halfBits;
};

} // namespace scrimp::runtime

#endif
