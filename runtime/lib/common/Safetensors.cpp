// Headers of .safetensors files: eight bytes of length, a JSON object, then the data without holes.
#include "scrimp/runtime/Json.h"
#include "scrimp/runtime/StateDict.h"
#include "scrimp/runtime/TensorFile.h"
#include <algorithm>
#include <cstring>

namespace scrimp::runtime {

static constexpr std::pair<const char *, FileType> types[] = {
    {"F16", FileType::f16}, {"BF16", FileType::bf16}, {"F32", FileType::f32}, {"F64", FileType::f64},
    {"I8", FileType::i8},   {"I16", FileType::i16},   {"I32", FileType::i32}, {"I64", FileType::i64},
    {"U8", FileType::u8},   {"U16", FileType::u16},   {"U32", FileType::u32}, {"BOOL", FileType::b1}};

const char *safetensorsName(FileType type) {
  for (auto &[text, value] : types)
    if (type == value)
      return text;
  return "";
}

bool safetensorsType(const std::string &name, FileType &type) {
  for (auto &[text, value] : types)
    if (name == text) {
      type = value;
      return true;
    }
  return false;
}

Result<std::map<std::string, StoredTensor>> readSafetensorsHeader(const File &file) {
  const char *path = file.path().c_str();
  unsigned char start[8];
  if (file.bytes() < 8)
    return Status::error("'%s' is no .safetensors file: it has %llu bytes", path, (unsigned long long)file.bytes());
  if (Status status = file.read(0, start, 8); status.failed())
    return status;
  if (const char *what = whyNoSafetensors(start, sizeof(start)))
    return Status::error("'%s' %s", path, what);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | start[i];
  constexpr uint64_t longest = 100'000'000; // the format's own limit
  if (length > longest || length > file.bytes() - 8)
    return Status::error("'%s' is truncated or no .safetensors file: its header claims %llu bytes, the file has %llu",
                         path, (unsigned long long)length, (unsigned long long)file.bytes());
  std::string text(length, '\0');
  if (Status status = file.read(8, text.data(), length); status.failed())
    return status;
  std::string repeated;
  nlohmann::json header = parseJson(text, repeated);
  if (!header.is_object())
    return Status::error("'%s' has a malformed .safetensors header", path);
  if (!repeated.empty())
    return Status::error("'%s' holds '%s' twice; it is damaged, write it again", path, repeated.c_str());
  uint64_t dataStart = 8 + length;
  std::map<std::string, StoredTensor> tensors;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    auto bad = [&] { return Status::error("'%s' has a malformed entry '%s'", path, name.c_str()); };
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
        !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
        entry["data_offsets"].size() != 2)
      return bad();
    StoredTensor tensor;
    std::string type = entry["dtype"].get<std::string>();
    if (!safetensorsType(type, tensor.type))
      return Status::error("tensor '%s' of '%s' has type %s, which is not supported", name.c_str(), path, type.c_str());
    __int128 bytes = fileTypeBytes(tensor.type);
    for (auto &extent : entry["shape"]) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX)
        return bad();
      tensor.shape.push_back(extent.get<int64_t>());
      bytes = std::min<__int128>(bytes * tensor.shape.back(), __int128{1} << 62);
    }
    auto &offsets = entry["data_offsets"];
    if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      return bad();
    uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || static_cast<__int128>(end - begin) != bytes)
      return bad();
    if (end > file.bytes() - dataStart)
      return Status::error("'%s' is truncated: tensor '%s' ends at byte %llu of the data, the file has %llu", path,
                           name.c_str(), (unsigned long long)end, (unsigned long long)(file.bytes() - dataStart));
    tensor.offset = dataStart + begin;
    spans.emplace_back(begin, end);
    tensors.emplace(name, std::move(tensor));
  }
  std::sort(spans.begin(), spans.end());
  uint64_t last = 0;
  for (auto &[begin, end] : spans) {
    if (begin != last)
      return Status::error("'%s' has tensors that overlap or leave a hole at byte %llu of the data", path,
                           (unsigned long long)std::min(begin, last));
    last = end;
  }
  if (last != file.bytes() - dataStart)
    return Status::error("'%s' has %llu bytes after its last tensor", path,
                         (unsigned long long)(file.bytes() - dataStart - last));
  return tensors;
}

} // namespace scrimp::runtime
