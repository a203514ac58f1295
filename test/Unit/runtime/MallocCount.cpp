// Counts allocations of the whole process while asked to (Train.StepsDoNotAllocate).
#include <atomic>
#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define SCRIMP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define SCRIMP_SANITIZED 1
#endif
#endif

namespace scrimp::runtime {
extern std::atomic<bool> countingAllocations;
extern std::atomic<int64_t> allocationCount;
extern const bool allocationsAreCounted;
std::atomic<bool> countingAllocations{false};
std::atomic<int64_t> allocationCount{0};

#ifdef SCRIMP_SANITIZED
const bool allocationsAreCounted = false;
#else
const bool allocationsAreCounted = true;

static void count() {
  if (countingAllocations.load(std::memory_order_relaxed))
    ++allocationCount;
}
#endif
} // namespace scrimp::runtime

#ifndef SCRIMP_SANITIZED
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

void *malloc(size_t bytes) {
  scrimp::runtime::count();
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  scrimp::runtime::count();
  return __libc_calloc(count, bytes);
}
void *realloc(void *pointer, size_t bytes) {
  scrimp::runtime::count();
  return __libc_realloc(pointer, bytes);
}
}
#endif
