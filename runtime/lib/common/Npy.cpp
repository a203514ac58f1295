// Headers of .npy files, and reading elements of any stored tensor.
#include "scrimp/runtime/TensorFile.h"
#include <algorithm>
#include <cstring>

namespace scrimp::runtime {

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::string StoredTensor::shapeText() const {
  std::string text = "[";
  for (int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

namespace {

/// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyHeader {
public:
  explicit NpyHeader(std::string_view text) : text(text) {}

  bool parse() {
    if (!eat('{'))
      return false;
    while (!eat('}')) {
      std::string_view key;
      if (!quoted(key) || !eat(':'))
        return false;
      bool ok = key == "descr" ? quoted(descr) : key == "fortran_order" ? boolean() : key == "shape" && tuple();
      if (!ok)
        return false;
      (void)eat(',');
    }
    skip();
    return at == text.size() && !descr.empty() && hasShape;
  }

  std::string_view descr;
  bool fortran = false;
  std::vector<int64_t> shape;

private:
  std::string_view text;
  size_t at = 0;
  bool hasShape = false;

  void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n'))
      ++at;
  }
  bool eat(char c) {
    skip();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool word(std::string_view expected) {
    skip();
    if (text.substr(at, expected.size()) != expected)
      return false;
    at += expected.size();
    return true;
  }
  bool quoted(std::string_view &value) {
    if (!eat('\''))
      return false;
    size_t end = text.find('\'', at);
    if (end == std::string_view::npos)
      return false;
    value = text.substr(at, end - at);
    at = end + 1;
    return true;
  }
  bool boolean() {
    if (word("True"))
      return fortran = true;
    return word("False");
  }
  bool tuple() {
    hasShape = true;
    if (!eat('('))
      return false;
    while (!eat(')')) {
      skip();
      int64_t value = 0;
      size_t first = at;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
        if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
            __builtin_add_overflow(value, int64_t{text[at] - '0'}, &value))
          return false;
      if (at == first || shape.size() == 32)
        return false;
      shape.push_back(value);
      (void)eat(',');
    }
    return true;
  }
};

bool npyType(std::string_view descr, FileType &type) {
  static constexpr std::pair<const char *, FileType> types[] = {
      {"<f2", FileType::f16}, {"<f4", FileType::f32}, {"<f8", FileType::f64}, {"|i1", FileType::i8},
      {"<i2", FileType::i16}, {"<i4", FileType::i32}, {"<i8", FileType::i64}, {"|u1", FileType::u8},
      {"<u2", FileType::u16}, {"<u4", FileType::u32}, {"|b1", FileType::b1}};
  for (auto &[name, value] : types)
    if (descr == name) {
      type = value;
      return true;
    }
  return false;
}

} // namespace

Result<StoredTensor> readNpyHeader(const File &file) {
  const char *path = file.path().c_str();
  unsigned char start[12] = {};
  uint64_t prefix = 10;
  if (file.bytes() < prefix)
    return Status::error("'%s' is no .npy file: it has %llu bytes", path, (unsigned long long)file.bytes());
  if (Status status = file.read(0, start, std::min<uint64_t>(12, file.bytes())); status.failed())
    return status;
  if (memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3)
    return Status::error("'%s' is no .npy file of version 1 to 3", path);
  uint64_t length = start[8] | start[9] << 8;
  if (start[6] > 1) {
    prefix = 12;
    length |= static_cast<uint64_t>(start[10]) << 16 | static_cast<uint64_t>(start[11]) << 24;
  }
  if (length > ioBufferBytes || length > file.bytes() - std::min(prefix, file.bytes()))
    return Status::error("'%s' is truncated: its header has %llu bytes, the file %llu", path,
                         (unsigned long long)length, (unsigned long long)file.bytes());
  std::string text(length, '\0');
  if (Status status = file.read(prefix, text.data(), length); status.failed())
    return status;
  NpyHeader header(text);
  if (!header.parse())
    return Status::error("'%s' has a malformed .npy header", path);
  StoredTensor tensor;
  if (!npyType(header.descr, tensor.type))
    return Status::error("'%s' has type '%s', expected little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 or b1; "
                         "convert it with numpy's astype",
                         path, std::string(header.descr).c_str());
  if (header.fortran)
    return Status::error("'%s' is in Fortran order, expected C order; save numpy.ascontiguousarray of it", path);
  tensor.shape = header.shape;
  tensor.offset = prefix + length;
  __int128 bytes = fileTypeBytes(tensor.type);
  for (int64_t extent : tensor.shape)
    bytes = std::min<__int128>(bytes * extent, __int128{1} << 62);
  if (bytes != file.bytes() - tensor.offset)
    return Status::error("'%s' is %s: %s elements of %s need %lld bytes, found %llu", path,
                         bytes > file.bytes() - tensor.offset ? "truncated" : "too long", tensor.shapeText().c_str(),
                         fileTypeName(tensor.type), (long long)bytes,
                         (unsigned long long)(file.bytes() - tensor.offset));
  return tensor;
}

Status readElements(const File &file, const StoredTensor &tensor, int64_t begin, int64_t count, DType to, char *target,
                    std::vector<char> &buffer) {
  int64_t each = fileTypeBytes(tensor.type);
  uint64_t offset = tensor.offset + static_cast<uint64_t>(begin * each);
  if (sameRepresentation(tensor.type, to))
    return file.read(offset, target, static_cast<uint64_t>(count * each));
  if (buffer.size() < ioBufferBytes)
    buffer.resize(ioBufferBytes);
  int64_t chunk = static_cast<int64_t>(ioBufferBytes) / each;
  for (int64_t done = 0; done < count; done += chunk) {
    int64_t part = std::min(chunk, count - done);
    if (Status status =
            file.read(offset + static_cast<uint64_t>(done * each), buffer.data(), static_cast<uint64_t>(part * each));
        status.failed())
      return status;
    int64_t bad = convertElements(tensor.type, buffer.data(), to, target + done * elementBytes(to), part);
    if (bad >= 0)
      return Status::error("'%s': element %lld is %s, which %s does not hold%s", file.path().c_str(),
                           (long long)(begin + done + bad), valueText(tensor.type, buffer.data(), bad).c_str(),
                           dtypeName(to), fileTypeIsFloat(tensor.type) ? "" : " exactly");
  }
  return Status::ok();
}

} // namespace scrimp::runtime
