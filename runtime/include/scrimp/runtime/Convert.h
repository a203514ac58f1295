// Element types of files and their conversion to the arena's. Floats convert to any float type (rounding to nearest
// even where it is narrower); integers and booleans to any type that holds each value exactly; floats never to
// integers.
#ifndef SCRIMP_RUNTIME_CONVERT_H
#define SCRIMP_RUNTIME_CONVERT_H

#include "scrimp/runtime/DType.h"
#include "scrimp/runtime/Status.h"

namespace scrimp::runtime {

enum class FileType : uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, b1 };

int64_t fileTypeBytes(FileType type);
const char *fileTypeName(FileType type);
bool fileTypeIsFloat(FileType type);
/// As what elements of the arena are written.
FileType fileTypeOf(DType type);

/// Whether the two have the same representation, so that bytes may be copied.
bool sameRepresentation(FileType from, DType to);
/// Whether a conversion exists at all.
bool canConvert(FileType from, DType to);

/// Converts `count` elements. The first value that `to` cannot hold: its index, else -1.
int64_t convertElements(FileType from, const char *source, DType to, char *target, int64_t count);

/// A value of a file as text, for messages.
std::string valueText(FileType type, const char *source, int64_t index);

} // namespace scrimp::runtime

#endif
