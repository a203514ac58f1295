// Element conversion between file types and arena types.
#include "scrimp/runtime/Convert.h"
#include <cmath>
#include <cstring>

namespace scrimp::runtime {

namespace {

struct FileTypeInfo {
  const char *name;
  int64_t bytes;
  bool isFloat;
};

constexpr FileTypeInfo fileTypes[] = {{"f16", 2, true}, {"bf16", 2, true}, {"f32", 4, true},  {"f64", 8, true},
                                      {"i8", 1, false}, {"i16", 2, false}, {"i32", 4, false}, {"i64", 8, false},
                                      {"u8", 1, false}, {"u16", 2, false}, {"u32", 4, false}, {"bool", 1, false}};

template <typename T> T loadAt(const char *source, int64_t index) {
  T value;
  memcpy(&value, source + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

int64_t loadInteger(FileType type, const char *source, int64_t i) {
  switch (type) {
  case FileType::i8:
    return loadAt<int8_t>(source, i);
  case FileType::i16:
    return loadAt<int16_t>(source, i);
  case FileType::i32:
    return loadAt<int32_t>(source, i);
  case FileType::i64:
    return loadAt<int64_t>(source, i);
  case FileType::u8:
    return loadAt<uint8_t>(source, i);
  case FileType::u16:
    return loadAt<uint16_t>(source, i);
  case FileType::u32:
    return loadAt<uint32_t>(source, i);
  default:
    return loadAt<uint8_t>(source, i) != 0;
  }
}

double loadFloat(FileType type, const char *source, int64_t i) {
  switch (type) {
  case FileType::f16:
    return halfToFloat(loadAt<uint16_t>(source, i));
  case FileType::bf16:
    return bf16ToFloat(loadAt<uint16_t>(source, i));
  case FileType::f32:
    return loadAt<float>(source, i);
  default:
    return loadAt<double>(source, i);
  }
}

/// Stores an integer if the type holds it exactly.
bool storeInteger(DType type, char *target, int64_t i, int64_t value) {
  int64_t low = 0, high = 1;
  switch (type) {
  case DType::i64:
    memcpy(target + 8 * i, &value, 8);
    return true;
  case DType::i32:
    low = INT32_MIN, high = INT32_MAX;
    break;
  case DType::i8:
    low = INT8_MIN, high = INT8_MAX;
    break;
  case DType::i1:
    break;
  default: {
    // A double holds 53 bits; what the store then rounds away, the load shows.
    if (value > (int64_t{1} << 53) || value < -(int64_t{1} << 53))
      return false;
    storeElement(type, target, i, static_cast<double>(value));
    return loadElement(type, target, i) == static_cast<double>(value);
  }
  }
  if (value < low || value > high)
    return false;
  storeElement(type, target, i, static_cast<double>(value));
  return true;
}

} // namespace

int64_t fileTypeBytes(FileType type) { return fileTypes[static_cast<int>(type)].bytes; }
const char *fileTypeName(FileType type) { return fileTypes[static_cast<int>(type)].name; }
bool fileTypeIsFloat(FileType type) { return fileTypes[static_cast<int>(type)].isFloat; }

FileType fileTypeOf(DType type) {
  switch (type) {
  case DType::f32:
    return FileType::f32;
  case DType::f64:
    return FileType::f64;
  case DType::bf16:
    return FileType::bf16;
  case DType::f16:
    return FileType::f16;
  case DType::i1:
    return FileType::b1;
  case DType::i8:
    return FileType::i8;
  case DType::i32:
    return FileType::i32;
  case DType::i64:
    return FileType::i64;
  }
  return FileType::f32;
}

bool sameRepresentation(FileType from, DType to) {
  switch (to) {
  case DType::f32:
    return from == FileType::f32;
  case DType::f64:
    return from == FileType::f64;
  case DType::bf16:
    return from == FileType::bf16;
  case DType::f16:
    return from == FileType::f16;
  case DType::i1:
    return false; // a byte other than 0 and 1 must be normalised
  case DType::i8:
    return from == FileType::i8;
  case DType::i32:
    return from == FileType::i32;
  case DType::i64:
    return from == FileType::i64;
  }
  return false;
}

bool canConvert(FileType from, DType to) { return !fileTypes[static_cast<int>(from)].isFloat || isFloat(to); }

int64_t convertElements(FileType from, const char *source, DType to, char *target, int64_t count) {
  if (sameRepresentation(from, to)) {
    if (count)
      memcpy(target, source, static_cast<size_t>(count * elementBytes(to)));
    return -1;
  }
  if (fileTypes[static_cast<int>(from)].isFloat) {
    for (int64_t i = 0; i < count; ++i) {
      double value = loadFloat(from, source, i);
      storeElement(to, target, i, value);
      if (std::isinf(loadElement(to, target, i)) && !std::isinf(value))
        return i;
    }
    return -1;
  }
  for (int64_t i = 0; i < count; ++i)
    if (!storeInteger(to, target, i, loadInteger(from, source, i)))
      return i;
  return -1;
}

std::string valueText(FileType type, const char *source, int64_t index) {
  if (fileTypes[static_cast<int>(type)].isFloat)
    return format("%g", loadFloat(type, source, index));
  return format("%lld", (long long)loadInteger(type, source, index));
}

} // namespace scrimp::runtime
