// Writing .safetensors files: what they hold is told first, then its bytes come in that order, hashed as they go by.
#ifndef SCRIMP_RUNTIME_SAFETENSORSWRITER_H
#define SCRIMP_RUNTIME_SAFETENSORSWRITER_H

#include "scrimp/runtime/Convert.h"
#include "scrimp/runtime/File.h"
#include "scrimp/runtime/Hash.h"
#include <nlohmann/json.hpp>
#include <vector>

namespace scrimp::runtime {

/// The length of a file and the XXH64 of its bytes.
struct FileDigest {
  uint64_t bytes = 0, hash = 0;
};

class SafetensorsWriter {
public:
  SafetensorsWriter();
  /// Announces a tensor; names differ.
  void add(const std::string &name, FileType type, const std::vector<int64_t> &shape);
  /// Creates the file and writes the header; from here on nothing is announced.
  Status create(const std::string &path);
  /// The next bytes of the tensors.
  Status write(const void *data, uint64_t bytes);
  /// Flushes to the disk.
  Result<FileDigest> finish();

private:
  nlohmann::ordered_json header;
  uint64_t offset = 0; // of the next tensor in the data
  File file;
  Hash64 hash;
  uint64_t written = 0;
};

} // namespace scrimp::runtime

#endif
