// Checks of a library call's arguments when a program is verified. The first failure is kept.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_ARGUMENTCHECK_H
#define SCRIMP_RUNTIME_LIB_COMMON_ARGUMENTCHECK_H

#include "scrimp/runtime/Library.h"
#include <initializer_list>

namespace scrimp::runtime {

class ArgumentCheck {
public:
  ArgumentCheck(const char *function, const LibraryArguments &arguments) : function(function), arguments(arguments) {}

  bool failed() const { return status.failed(); }
  Status take() { return std::move(status); }
  void fail(const char *what) {
    if (!failed())
      status = Status::error("%s: %s", function, what);
  }

  /// Sums are in f32 or f64.
  void floatType() {
    if (arguments.dtype != DType::f32 && arguments.dtype != DType::f64)
      fail("takes f32 or f64");
  }

  /// Buffer `index` has elements of the sums' type, or of 16 bits where that is f32.
  void storedType(size_t index) {
    DType type = arguments.typeOf(index);
    if (type != arguments.dtype && !(arguments.dtype == DType::f32 && isNarrow(type)))
      fail("its buffers have elements of the sums' type, or f16 or bf16 beside sums in f32");
  }

  void counts(size_t buffers, size_t ints, size_t floats) {
    if (failed())
      return;
    if (arguments.buffers.size() != buffers || arguments.ints.size() != ints || arguments.floats.size() != floats)
      status =
          Status::error("%s: takes %zu buffers, %zu integers and %zu floats, found %zu, %zu and %zu", function, buffers,
                        ints, floats, arguments.buffers.size(), arguments.ints.size(), arguments.floats.size());
  }

  /// ints[index] in [low, high].
  void range(size_t index, const char *what, int64_t low, int64_t high) {
    if (failed())
      return;
    int64_t value = arguments.ints[index];
    if (value < low || value > high)
      status = Status::error("%s: %s is %lld, expected %lld to %lld", function, what, (long long)value, (long long)low,
                             (long long)high);
  }

  /// Buffer `index` holds at least the product of `extents` (none negative) elements of `bytesEach` bytes and is
  /// aligned to them by its place in the arena.
  void buffer(size_t index, const char *what, std::initializer_list<int64_t> extents, int64_t bytesEach) {
    if (failed())
      return;
    __int128 needed = bytesEach;
    for (int64_t extent : extents) {
      needed *= extent;
      if (needed > (__int128{1} << 62))
        needed = __int128{1} << 62;
      if (extent == 0) {
        needed = 0;
        break;
      }
    }
    if (needed > static_cast<__int128>(arguments.bytes[index]))
      status = Status::error("%s: %s needs %lld bytes, found %llu", function, what, (long long)needed,
                             (unsigned long long)arguments.bytes[index]);
  }

private:
  const char *function;
  const LibraryArguments &arguments;
  Status status;
};

/// The largest extent that OpenBLAS's 32-bit integers carry.
inline constexpr int64_t maxExtent = INT32_MAX;

} // namespace scrimp::runtime

#endif
