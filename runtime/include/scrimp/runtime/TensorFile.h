// Tensors in files: where their bytes lie and what they are. Opening reads the header only.
#ifndef SCRIMP_RUNTIME_TENSORFILE_H
#define SCRIMP_RUNTIME_TENSORFILE_H

#include "scrimp/runtime/Convert.h"
#include "scrimp/runtime/File.h"
#include <map>
#include <vector>

namespace scrimp::runtime {

/// A row-major tensor at `offset` in a file.
struct StoredTensor {
  FileType type = FileType::f32;
  std::vector<int64_t> shape;
  uint64_t offset = 0;

  int64_t elements() const;
  std::string shapeText() const;
};

/// NumPy's .npy, versions 1 to 3: little endian, C order, types f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 b1.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
Result<StoredTensor> readNpyHeader(const File &file);

/// The tensors of a .safetensors file by name. https://github.com/huggingface/safetensors#format
Result<std::map<std::string, StoredTensor>> readSafetensorsHeader(const File &file);

/// The format's name for a type, and back: false if it has no such type.
const char *safetensorsName(FileType type);
bool safetensorsType(const std::string &name, FileType &type);

/// Reads elements [begin, begin + count) of a stored tensor as `to` into `target`, which has the room.
/// On a value that does not fit, the message names the file, the element and the value.
Status readElements(const File &file, const StoredTensor &tensor, int64_t begin, int64_t count, DType to, char *target,
                    std::vector<char> &buffer);

} // namespace scrimp::runtime

#endif
