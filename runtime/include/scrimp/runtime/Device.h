// What runs the kernels and library calls of a program, and whose memory the arena lies in.
#ifndef SCRIMP_RUNTIME_DEVICE_H
#define SCRIMP_RUNTIME_DEVICE_H

#include "scrimp/runtime/Communicator.h"
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/abi.h"
#include <memory>

namespace scrimp::runtime {

/// A kernel over its units. Owns nothing.
struct LaunchCall {
  scrimp_kernel kernel = nullptr;  // where the host runs it
  uint32_t index = 0;              // in Program.kernels
  std::span<char *const> buffers;  // on a device two more, which may be null (program.fbs, Launch)
  std::span<const uint64_t> bytes; // the length of each
  int64_t units = 0, grain = 1;    // on a processor: ranges are multiples of grain long
  uint32_t grid = 0, block = 0;    // on a device: blocks, threads of each,
  uint32_t shared = 0;             // and bytes that they share beside those of the kernel itself
  std::string_view where;          // the user's name for what it computes
};

/// What a check on a device has found (program.fbs, CheckFinite).
struct CheckResult {
  int64_t number = 0; // of units of the check's launch; 0: all was finite
  double value = 0;
};

/// Runs what it is given in that order: what one call writes the next one reads. A device whose memory is not the
/// host's may do so later; then what went wrong is told by a later call, at the latest by synchronize().
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;

  /// Whether addresses of the device's memory are addresses of the host. Else nobody but the device uses them: `upload`
  /// and `download` copy, and checks and conditions are the device's to look at.
  virtual bool sharesMemory() const { return false; }
  /// Bytes of the device's memory, filled with zeros, which live as long as the device; `alignment` is a power of two
  /// no larger than a page.
  virtual Result<char *> allocate(uint64_t bytes, uint64_t alignment) = 0;
  /// Bytes of the host that live as long as the device, which copies fastest from and to these.
  virtual Result<char *> allocateHost(uint64_t bytes) = 0;
  /// Where checks tell what they have found, a CheckResult; null where the host looks itself.
  virtual char *checkResultAddress() { return nullptr; }
  /// From and to the host. When upload() returns, `source` may be changed, unless allocateHost() gave it: then only
  /// behind a mark that has been waited for.
  virtual Status upload(char *target, const void *source, int64_t bytes) = 0;
  virtual Status download(void *target, const char *source, int64_t bytes) = 0;
  /// To bytes of allocateHost(), there behind a mark that has been waited for.
  virtual Status downloadLater(char *target, const char *source, int64_t bytes) {
    return download(target, source, bytes);
  }
  /// An address as the communicator takes it that exchanges bytes of this device: `host`, or what connect() gave.
  virtual char *forCommunicator(char *address) { return address; }
  /// Connects the devices of ranks that `host` connects, on all of them together; null: `host` serves the device too.
  virtual Result<std::unique_ptr<Communicator>> connect(Communicator &) { return std::unique_ptr<Communicator>(); }

  /// Fails where there is no room for a program's arena and so many bytes for communication, which would only be met
  /// later.
  virtual Status checkMemory(const program::Program *program, uint64_t communicationBytes) = 0;
  /// What a program takes of a device of its own, for the summary of a run; nothing where that is the host's memory.
  virtual std::string describeMemory(const program::Program *) const { return ""; }
  /// Whether the library computes here what it should; said before the first call.
  virtual Status checkLibrary(const program::Program *program) = 0;
  /// --verify: compares library calls of the program with plain sums; `summary` says what was compared.
  virtual Status verifyLibrary(const program::Program *program, std::string &summary) = 0;

  /// Fails where the device finds that the kernel did what it may not.
  virtual Status launch(const LaunchCall &call) = 0;
  virtual Status call(const LibraryFunction &function, const LibraryArguments &arguments) = 0;
  /// Disjoint bytes of the arena.
  virtual Status copy(char *target, const char *source, int64_t bytes) = 0;
  /// Returns when all is done.
  virtual Status synchronize() { return Status::ok(); }
  /// wait(n) returns when all is done that came before the last mark(n).
  static constexpr int marks = 2;
  virtual Status mark(int) { return Status::ok(); }
  virtual Status wait(int) { return Status::ok(); }

  /// Whether it can record: between the two calls it only notes what it is given, which replay() then runs any number
  /// of times, with what is at the same addresses then, also those of the host that `upload` was given.
  virtual bool canRecord() const { return false; }
  virtual Status startRecording() { return Status::error("%s cannot record", name()); }
  /// The number of the record.
  virtual Result<int> stopRecording() { return Status::error("%s cannot record", name()); }
  virtual Status replay(int) { return Status::error("%s cannot record", name()); }
};

/// Kernels in ranges on the threads of the pool, which outlives the device.
std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool);

/// A CUDA device played on the threads of the pool (Emulated.h).
std::unique_ptr<Device> makeEmulatedDevice(ThreadPool &pool);

/// How the user wants a device.
struct DeviceOptions {
  std::string libraries;      // the folder of the vendor's libraries; empty: where they usually are
  bool checkLaunches = false; // wait for each, so that a failure names its op; nothing is recorded
};

/// That which a program was compiled for. Fails where this machine has none.
Result<std::unique_ptr<Device>> openDevice(const program::Program *program, ThreadPool &pool,
                                           const DeviceOptions &options = {});

/// Where the arena of a program is: in the memory of a device, or, without one, of the host.
struct ArenaRef {
  ArenaRef(char *base, Device *device = nullptr) : base(base), device(device) {}
  bool isHost() const { return !device || device->sharesMemory(); }

  char *base;
  Device *device;
};

/// Bytes of an arena as the host sees them: themselves, or where the host cannot, a copy.
class HostBytes {
public:
  HostBytes(ArenaRef arena, uint64_t offset, int64_t bytes)
      : arena(arena), offset(offset), length(bytes), copy(arena.isHost() ? 0 : static_cast<size_t>(bytes)) {}
  /// For bytes that are given again and again: the copy is of allocateHost().
  static Result<HostBytes> lasting(ArenaRef arena, uint64_t offset, int64_t bytes) {
    HostBytes result(arena, offset, arena.isHost() ? bytes : 0);
    result.length = bytes;
    if (arena.isHost())
      return result;
    Result<char *> memory = arena.device->allocateHost(static_cast<uint64_t>(bytes));
    if (memory.failed())
      return memory.status();
    result.staged = *memory;
    return result;
  }

  char *data() { return arena.isHost() ? arena.base + offset : copyData(); }
  int64_t bytes() const { return length; }
  /// The copy becomes what is there; before, it is zeros.
  Status load() {
    return arena.isHost() ? Status::ok() : arena.device->download(copyData(), arena.base + offset, length);
  }
  /// What is there becomes the copy.
  Status store() {
    return arena.isHost() ? Status::ok() : arena.device->upload(arena.base + offset, copyData(), length);
  }

private:
  char *copyData() { return staged ? staged : copy.data(); }

  ArenaRef arena;
  uint64_t offset;
  int64_t length;
  std::vector<char> copy;
  char *staged = nullptr; // instead of the copy
};

} // namespace scrimp::runtime

#endif
