#include "scrimp/runtime/SafetensorsWriter.h"
#include "scrimp/runtime/TensorFile.h"
#include <algorithm>

namespace scrimp::runtime {

SafetensorsWriter::SafetensorsWriter() : header(nlohmann::ordered_json::object()) {
  header["__metadata__"] = {{"format", "pt"}};
}

void SafetensorsWriter::add(const std::string &name, FileType type, const std::vector<int64_t> &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  uint64_t bytes = static_cast<uint64_t>(elements * fileTypeBytes(type));
  header[name] = {{"dtype", safetensorsName(type)}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}};
  offset += bytes;
}

Status SafetensorsWriter::create(const std::string &path) {
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  Result<File> created = File::create(path);
  if (created.failed())
    return created.status();
  file = std::move(*created);
  uint64_t length = text.size();
  if (Status status = write(&length, 8); status.failed())
    return status;
  return write(text.data(), text.size());
}

Status SafetensorsWriter::write(const void *data, uint64_t bytes) {
  const char *at = static_cast<const char *>(data);
  // In pieces, so that each is hashed while it is in the cache.
  for (uint64_t done = 0; done < bytes; done += ioBufferBytes) {
    uint64_t part = std::min(ioBufferBytes, bytes - done);
    hash.update(at + done, part);
    if (Status status = file.write(at + done, part); status.failed())
      return status;
  }
  written += bytes;
  return Status::ok();
}

Result<FileDigest> SafetensorsWriter::finish() {
  if (Status status = file.sync(); status.failed())
    return status;
  return FileDigest{written, hash.digest()};
}

} // namespace scrimp::runtime
