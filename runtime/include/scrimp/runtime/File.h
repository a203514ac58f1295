// Files by pread and write, never mapped: what is read lands in the arena or in one bounded buffer.
#ifndef SCRIMP_RUNTIME_FILE_H
#define SCRIMP_RUNTIME_FILE_H

#include "scrimp/runtime/Status.h"
#include <cstdint>
#include <string>

namespace scrimp::runtime {

/// The size of every bounded buffer for input and output.
inline constexpr uint64_t ioBufferBytes = 1 << 20;

/// An open file; closed when it goes. Move only.
class File {
public:
  File() = default;
  File(File &&other) noexcept { *this = std::move(other); }
  File &operator=(File &&other) noexcept;
  ~File();

  /// Opens a regular file (not a directory) for reading.
  static Result<File> open(const std::string &path);
  /// Creates or truncates a file for writing; `append` keeps what is there.
  static Result<File> create(const std::string &path, bool append = false);
  /// Holds a folder while the file is open; fails if another process holds it. Leaves nothing in the folder.
  static Result<File> lockFolder(const std::string &path);

  const std::string &path() const { return name; }
  uint64_t bytes() const { return size; } // when it was opened for reading

  /// Reads exactly `count` bytes at `offset`.
  Status read(uint64_t offset, void *target, uint64_t count) const;
  /// Reads at most `count` bytes; how many there were (0 on an error). For files of /proc, which have no size.
  uint64_t readSome(uint64_t offset, void *target, uint64_t count) const;
  /// Appends `count` bytes.
  Status write(const void *source, uint64_t count);
  /// Flushes to the disk and closes.
  Status sync();

private:
  int descriptor = -1;
  uint64_t size = 0;
  std::string name;
};

/// Makes the entries of a directory durable.
Status syncDirectory(const std::string &path);

/// Reads a small text file whole (at most `limit` bytes).
Result<std::string> readText(const std::string &path, uint64_t limit);

} // namespace scrimp::runtime

#endif
