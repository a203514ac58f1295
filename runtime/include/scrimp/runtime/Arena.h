// The one allocation of a run: a private anonymous mapping of exactly the planned size (rounded up to pages) between
// two guard pages. The arena ends where the upper guard begins, so that the first byte past the plan faults.
#ifndef SCRIMP_RUNTIME_ARENA_H
#define SCRIMP_RUNTIME_ARENA_H

#include "scrimp/runtime/Status.h"
#include <cstdint>

namespace scrimp::runtime {

class Arena {
public:
  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Maps `bytes` (a multiple of `alignment`, a power of two no larger than a page), filled with zeros.
  Status allocate(uint64_t bytes, uint64_t alignment);

  char *base() const { return start; }
  uint64_t bytes() const { return size; }

private:
  char *start = nullptr;
  uint64_t size = 0;
  void *mapping = nullptr;
  uint64_t mappingBytes = 0;
};

} // namespace scrimp::runtime

#endif
