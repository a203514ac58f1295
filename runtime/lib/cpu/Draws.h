// The random bits of rows of scores: Philox4x32-10 (Salmon et al., SC 2011), many blocks at a time. The draws are those
// of scrimp.dropout (include/scrimp/Codegen/Philox.h says how they are keyed).
#ifndef SCRIMP_RUNTIME_LIB_CPU_DRAWS_H
#define SCRIMP_RUNTIME_LIB_CPU_DRAWS_H

#include <algorithm>
#include <cstdint>

namespace scrimp::runtime {

/// Consecutive draws of one sample, the first being that of element `first`.
struct DrawRow {
  uint64_t key;
  uint32_t sample, step;
  uint64_t first;
};

constexpr int drawBlocksAtOnce = 64;

/// The words of the blocks block, block + 1, ... of counter word 0.
void drawBlocks(const DrawRow &row, uint32_t block, uint32_t (&words)[4 * drawBlocksAtOnce]);

/// Calls use(j, n, bits) for stretches [j, j + n) that cover [0, count): bits[l] is the draw of element first + j + l.
template <typename Use> void forEachDraws(const DrawRow &row, int64_t count, Use use) {
  uint32_t words[4 * drawBlocksAtOnce];
  for (int64_t j = 0; j < count;) {
    uint64_t element = row.first + static_cast<uint64_t>(j);
    int64_t skipped = static_cast<int64_t>(element % 4),
            n = std::min<int64_t>(4 * drawBlocksAtOnce - skipped, count - j);
    drawBlocks(row, static_cast<uint32_t>(element / 4), words);
    use(j, n, words + skipped);
    j += n;
  }
}

} // namespace scrimp::runtime

#endif
