// Philox in vectors of the host's width. Integers have the same bits at any width.
#include "Draws.h"

namespace scrimp::runtime {

/// The compiler vectorises it over blocks, once for each function that takes it in.
[[gnu::always_inline]] static inline void drawBlocksHere(const DrawRow &row, uint32_t block,
                                                         uint32_t (&words)[4 * drawBlocksAtOnce]) {
  // The low halves of 64-bit lanes hold the words; what is in the high halves does not count. So a round needs neither
  // conversions nor shuffles.
  auto low = [](uint64_t lane) { return lane & 0xffffffff; };
  for (uint32_t l = 0; l < drawBlocksAtOnce; ++l) {
    uint64_t c0 = uint64_t{block} + l, c1 = row.sample, c2 = row.step, c3 = 2, key0 = row.key, key1 = row.key >> 32;
    for (int round = 0; round < 10; ++round) {
      uint64_t product0 = 0xD2511F53 * low(c0), product1 = 0xCD9E8D57 * low(c2);
      c0 = (product1 >> 32) ^ c1 ^ key0;
      c1 = product1;
      c2 = (product0 >> 32) ^ c3 ^ key1;
      c3 = product0;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    words[4 * l] = static_cast<uint32_t>(c0);
    words[4 * l + 1] = static_cast<uint32_t>(c1);
    words[4 * l + 2] = static_cast<uint32_t>(c2);
    words[4 * l + 3] = static_cast<uint32_t>(c3);
  }
}

using Words = uint32_t[4 * drawBlocksAtOnce];

static void drawBlocksPortable(const DrawRow &row, uint32_t block, Words &words) { drawBlocksHere(row, block, words); }

#ifdef __x86_64__
[[gnu::target("avx2")]] static void drawBlocksAvx2(const DrawRow &row, uint32_t block, Words &words) {
  drawBlocksHere(row, block, words);
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] static void drawBlocksAvx512(const DrawRow &row, uint32_t block,
                                                                                   Words &words) {
  drawBlocksHere(row, block, words);
}

static auto fastest() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return drawBlocksAvx512;
  return __builtin_cpu_supports("avx2") ? drawBlocksAvx2 : drawBlocksPortable;
}
#else
static auto fastest() { return drawBlocksPortable; }
#endif

void drawBlocks(const DrawRow &row, uint32_t block, Words &words) {
  static const auto function = fastest();
  function(row, block, words);
}

} // namespace scrimp::runtime
