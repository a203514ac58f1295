// Verification of what runs beside a command list: a collective's bytes belong to it from its start to its wait.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_VERIFYINFLIGHT_H
#define SCRIMP_RUNTIME_LIB_COMMON_VERIFYINFLIGHT_H

#include "scrimp/runtime/Program.h"
#include <vector>

namespace scrimp::runtime {

/// Bytes, and how they move.
struct Place {
  Place(const program::Range *range)
      : offset(range->offset()), bytes(range->bytes()), strides(range->strides()), rankStride(range->rank_stride()) {}
  Place(uint64_t offset, uint64_t bytes) : offset(offset), bytes(bytes) {}

  uint64_t offset, bytes;
  const flatbuffers::Vector<int64_t> *strides = nullptr;
  int64_t rankStride = 0;
};

/// Whether the two may have a byte in common on one rank. `counts` are the iterations of the repeats around; both are
/// in the same iteration of the first `shared`, `b` in any of the rest. Where the two move differently this looks at
/// all that lies between, and so errs on the safe side.
bool mayOverlap(const Place &a, const Place &b, size_t shared, const std::vector<int64_t> &counts, uint32_t world);

/// Checks each list of a program whose commands have been verified: every started event is waited for once, in the same
/// list, and in between no command touches the target or writes the source.
Status verifyInFlight(const program::Program *program);

} // namespace scrimp::runtime

#endif
