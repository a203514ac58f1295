// What a communicator needs beside the arena, for compiler (budget) and runtime alike: no dependencies.
#ifndef SCRIMP_RUNTIME_COMMUNICATION_H
#define SCRIMP_RUNTIME_COMMUNICATION_H

#include <algorithm>
#include <cstdint>

namespace scrimp::runtime {

/// Bytes for what a rank receives in a round of reductions, at least and at most.
inline constexpr int64_t leastReceivedBytes = 512 /* from each other rank */, mostReceivedBytes = 2 << 20;

/// Bytes of the buffers for what is received in a reduction of `elements` in all, sent as `wireBytes` each. A program
/// has the largest of its reductions, twice that of those that round what they send (wire).
inline int64_t receivedBytes(int64_t ranks, int64_t elements, int64_t wireBytes) {
  int64_t piece = elements / ranks + (elements % ranks != 0);
  __int128 whole = static_cast<__int128>(piece) * wireBytes * (ranks - 1);
  return std::max(static_cast<int64_t>(std::min<__int128>(whole, mostReceivedBytes)), leastReceivedBytes * (ranks - 1));
}

} // namespace scrimp::runtime

#endif
