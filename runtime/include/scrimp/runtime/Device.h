// What runs the kernels and library calls of a program. The arena lies in the device's memory; a CPU's and an emulated
// device's is the host's.
#ifndef SCRIMP_RUNTIME_DEVICE_H
#define SCRIMP_RUNTIME_DEVICE_H

#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/abi.h"
#include <memory>

namespace scrimp::runtime {

/// A kernel over its units. Owns nothing.
struct LaunchCall {
  scrimp_kernel kernel = nullptr;
  std::span<char *const> buffers;
  std::span<const uint64_t> bytes; // the length of each
  int64_t units = 0, grain = 1;    // on a processor: ranges are multiples of grain long
  uint32_t grid = 0, block = 0;    // on a device: blocks, and threads of each
  std::string_view where;          // the user's name for what it computes
};

/// Runs what it is given in that order. What one call writes the next one reads.
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;
  /// Fails where the device finds that the kernel did what it may not.
  virtual Status launch(const LaunchCall &call) = 0;
  virtual void call(const LibraryFunction &function, const LibraryArguments &arguments) = 0;
  /// Disjoint bytes of the arena.
  virtual void copy(char *target, const char *source, int64_t bytes) = 0;
};

/// Kernels in ranges on the threads of the pool, which outlives the device.
std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool);

/// A CUDA device played on the threads of the pool (Emulated.h).
std::unique_ptr<Device> makeEmulatedDevice(ThreadPool &pool);

/// That which a program was compiled for. Fails where this machine has none.
Result<std::unique_ptr<Device>> openDevice(const program::Program *program, ThreadPool &pool);

} // namespace scrimp::runtime

#endif
