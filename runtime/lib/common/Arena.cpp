// The mapping and its guard pages.
#include "scrimp/runtime/Arena.h"
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace scrimp::runtime {

Arena::~Arena() {
  if (mapping)
    munmap(mapping, mappingBytes);
}

Status Arena::allocate(uint64_t bytes, uint64_t alignment) {
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (alignment == 0 || (alignment & (alignment - 1)) || alignment > page || bytes % alignment)
    return Status::error("an arena of %llu bytes cannot be aligned to %llu", (unsigned long long)bytes,
                         (unsigned long long)alignment);
  uint64_t rounded = (bytes + page - 1) / page * page;
  if (rounded < bytes || rounded + 2 * page < rounded)
    return Status::error("an arena of %llu bytes does not fit the address space", (unsigned long long)bytes);
  mappingBytes = rounded + 2 * page;
  void *address = mmap(nullptr, mappingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *inner = static_cast<char *>(address) + page;
  if (address == MAP_FAILED || (rounded && mprotect(inner, rounded, PROT_READ | PROT_WRITE))) {
    int code = errno;
    if (address != MAP_FAILED)
      munmap(address, mappingBytes);
    return Status::error("cannot map the arena of %llu bytes: %s; free memory or recompile with a smaller "
                         "batch",
                         (unsigned long long)bytes, strerror(code));
  }
  mapping = address;
  // Fewer page faults and TLB misses; refused where huge pages are off, which only costs time.
  if (rounded)
    (void)madvise(inner, rounded, MADV_HUGEPAGE);
  start = inner + rounded - bytes;
  size = bytes;
  return Status::ok();
}

} // namespace scrimp::runtime
