// Philox4x32-10 and the streams drawn from it.
#include "scrimp/runtime/Random.h"
#include <bit>
#include <cmath>
#include <numbers>

namespace scrimp::runtime {

PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53} * c[0], product1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(product0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

static PhiloxKey splitKey(uint64_t key) { return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}; }

InitialValues::InitialValues(uint64_t seed, std::string_view name) : key(splitKey(seed ^ fnv1a64(name))) {}

static PhiloxCounter initialCounter(uint64_t block) {
  return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 1};
}

std::array<float, 4> InitialValues::uniform(uint64_t block, double a, double b) const {
  PhiloxCounter words = philox4x32(initialCounter(block), key);
  std::array<float, 4> result;
  for (int i = 0; i < 4; ++i)
    result[i] = static_cast<float>(a + (b - a) * ((words[i] >> 8) * 0x1p-24));
  return result;
}

std::array<float, 4> InitialValues::normal(uint64_t block, double mean, double deviation) const {
  PhiloxCounter words = philox4x32(initialCounter(block), key);
  std::array<float, 4> result;
  for (int pair = 0; pair < 2; ++pair) {
    double u1 = ((words[2 * pair] >> 8) + 1) * 0x1p-24, u2 = (words[2 * pair + 1] >> 8) * 0x1p-24;
    double radius = std::sqrt(-2.0 * std::log(u1)), angle = 2.0 * std::numbers::pi * u2;
    result[2 * pair] = static_cast<float>(mean + deviation * (radius * std::cos(angle)));
    result[2 * pair + 1] = static_cast<float>(mean + deviation * (radius * std::sin(angle)));
  }
  return result;
}

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t epoch)
    : size(size), epoch(epoch), key(splitKey(seed ^ fnv1a64("shuffle"))) {
  unsigned bits = size > 1 ? 64 - std::countl_zero(size - 1) : 1;
  halfBits = (bits + 1) / 2;
}

uint64_t Permutation::encrypt(uint64_t value) const {
  uint32_t mask = static_cast<uint32_t>((uint64_t{1} << halfBits) - 1);
  uint32_t left = static_cast<uint32_t>(value >> halfBits) & mask, right = static_cast<uint32_t>(value) & mask;
  for (uint32_t round = 0; round < 6; ++round) {
    uint32_t mixed =
        philox4x32({right, round, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)}, key)[0];
    uint32_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return static_cast<uint64_t>(left) << halfBits | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  // The network permutes a power of four below 4 * size, so the walk returns inside after 4 steps on average.
  do
    index = encrypt(index);
  while (index >= size);
  return index;
}

} // namespace scrimp::runtime
