// System calls, with short reads and writes, EINTR and errors looked after.
#include "scrimp/runtime/File.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace scrimp::runtime {

File &File::operator=(File &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(size, other.size);
  std::swap(name, other.name);
  return *this;
}

File::~File() {
  if (descriptor >= 0)
    close(descriptor);
}

Result<File> File::open(const std::string &path) {
  File file;
  file.name = path;
  // Without O_NONBLOCK a pipe that nobody writes to would be waited for; it is refused below.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0)
    return Status::error("cannot open '%s': %s", path.c_str(), strerror(errno));
  struct stat info;
  if (fstat(file.descriptor, &info))
    return Status::error("cannot read '%s': %s", path.c_str(), strerror(errno));
  if (!S_ISREG(info.st_mode))
    return Status::error("'%s' is %s, expected a file", path.c_str(),
                         S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
  file.size = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<File> File::create(const std::string &path, bool append) {
  File file;
  file.name = path;
  file.descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
  if (file.descriptor < 0)
    return Status::error("cannot write '%s': %s", path.c_str(), strerror(errno));
  return file;
}

Result<File> File::lockFolder(const std::string &path) {
  File file;
  file.name = path;
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file.descriptor < 0)
    return Status::error("cannot open '%s': %s", path.c_str(), strerror(errno));
  // Some network file systems have no locks; there it is left to the user.
  if (flock(file.descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
    return Status::error("another run is saving to '%s'; give each run its own folder", path.c_str());
  return file;
}

Status File::read(uint64_t offset, void *target, uint64_t count) const {
  char *at = static_cast<char *>(target);
  while (count > 0) {
    ssize_t got = pread(descriptor, at, std::min<uint64_t>(count, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return Status::error("cannot read '%s': %s", name.c_str(), strerror(errno));
    if (got == 0)
      return Status::error("'%s' ends at byte %llu, %llu more were expected", name.c_str(), (unsigned long long)offset,
                           (unsigned long long)count);
    at += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
  return Status::ok();
}

uint64_t File::readSome(uint64_t offset, void *target, uint64_t count) const {
  ssize_t got = pread(descriptor, target, count, static_cast<off_t>(offset));
  return got > 0 ? static_cast<uint64_t>(got) : 0;
}

Status File::write(const void *source, uint64_t count) {
  const char *at = static_cast<const char *>(source);
  while (count > 0) {
    ssize_t put = ::write(descriptor, at, std::min<uint64_t>(count, 1 << 30));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return Status::error("cannot write '%s': %s", name.c_str(), strerror(errno));
    at += put;
    count -= static_cast<uint64_t>(put);
  }
  return Status::ok();
}

Status File::sync() {
  int failed = fsync(descriptor) ? errno : 0;
  if (close(descriptor) && !failed)
    failed = errno;
  descriptor = -1;
  return failed ? Status::error("cannot write '%s': %s", name.c_str(), strerror(failed)) : Status::ok();
}

Status syncDirectory(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool failed = descriptor < 0 || fsync(descriptor);
  int code = errno;
  if (descriptor >= 0)
    close(descriptor);
  // Some file systems cannot sync a directory; they have nothing to wait for.
  if (failed && code != EINVAL)
    return Status::error("cannot write '%s': %s", path.c_str(), strerror(code));
  return Status::ok();
}

Result<std::string> readText(const std::string &path, uint64_t limit) {
  Result<File> file = File::open(path);
  if (file.failed())
    return file.status();
  if (file->bytes() > limit)
    return Status::error("'%s' has %llu bytes, expected at most %llu", path.c_str(), (unsigned long long)file->bytes(),
                         (unsigned long long)limit);
  std::string text(file->bytes(), '\0');
  if (Status status = file->read(0, text.data(), text.size()); status.failed())
    return status;
  return text;
}

} // namespace scrimp::runtime
