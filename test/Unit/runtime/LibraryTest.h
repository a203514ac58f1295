// Calls a library function on vectors, as a command would: verified first, each buffer at its own aligned place.
#ifndef SCRIMP_TEST_UNIT_RUNTIME_LIBRARYTEST_H
#define SCRIMP_TEST_UNIT_RUNTIME_LIBRARYTEST_H

#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/Random.h"
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace scrimp::runtime {

template <typename T> constexpr DType dtypeOf = sizeof(T) == 4 ? DType::f32 : DType::f64;

/// Numbers in [-1, 1), another stream for each `name`.
template <typename T> std::vector<T> randomVector(int64_t count, const char *name) {
  InitialValues values(7, name);
  std::vector<T> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    result[static_cast<size_t>(i)] = values.uniform(static_cast<uint64_t>(i / 4), -1, 1)[static_cast<size_t>(i % 4)];
  return result;
}

/// Elements of any float type, with what they are worth.
struct Stored {
  DType type;
  std::vector<char> bytes;

  Stored(DType type, const std::vector<double> &values)
      : type(type), bytes(values.size() * static_cast<size_t>(elementBytes(type))) {
    for (size_t i = 0; i < values.size(); ++i)
      storeElement(type, bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  double at(int64_t i) const { return loadElement(type, bytes.data(), i); }
  size_t size() const { return bytes.size() / static_cast<size_t>(elementBytes(type)); }
};

/// The distance from 1 to the next number of the type.
inline double epsilonOf(DType type) {
  return type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : type == DType::f32 ? 0x1p-23 : 0x1p-52;
}

struct LibraryCall {
  std::vector<char *> pointers;
  std::vector<uint64_t> lengths;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  DType dtype = DType::f64;
  std::vector<DType> types;
  bool bf16Dot = false;
  int threads = 1;
  int64_t workers = 4;

  template <typename T> LibraryCall &add(std::vector<T> &buffer) {
    pointers.push_back(reinterpret_cast<char *>(buffer.data()));
    lengths.push_back(buffer.size() * sizeof(T));
    return *this;
  }
  LibraryCall &add(Stored &buffer) {
    types.push_back(buffer.type);
    return add(buffer.bytes);
  }
  LibraryArguments arguments() const {
    LibraryArguments result;
    result.buffers = pointers;
    result.bytes = lengths;
    result.ints = ints;
    result.floats = floats;
    result.dtype = dtype;
    result.types = types;
    result.bf16Dot = bf16Dot;
    result.workers = workers;
    return result;
  }
  std::string verify(const char *name) const {
    Status status = findLibraryFunction(name)->verify(arguments());
    return status.failed() ? status.message() : "";
  }
  void run(const char *name) const {
    ASSERT_EQ(verify(name), "");
    ThreadPool pool(threads);
    findLibraryFunction(name)->run(arguments(), pool);
  }
};

template <typename T> double largestDifference(const std::vector<T> &a, const std::vector<T> &b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = difference > most || difference != difference ? difference : most;
  }
  return most;
}

/// Bitwise, NaN and signed zeros included.
template <typename T> bool sameBits(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && (a.empty() || memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

} // namespace scrimp::runtime

#endif
