// Ranges for a profiler that listens to NVTX (Nsight Systems and its like; github.com/NVIDIA/NVTX, version 3). Such a
// profiler names its library in NVTX_INJECTION64_PATH, and that library tells what to call: nothing of NVIDIA's is
// needed.
#ifndef SCRIMP_RUNTIME_NVTX_H
#define SCRIMP_RUNTIME_NVTX_H

#include "scrimp/runtime/Status.h"
#include <cstdint>
#include <string_view>

namespace scrimp::runtime {

/// Numbers of NVTX's interface between a program and a profiler. A test compares them with NVIDIA's headers, where they
/// are.
enum NvtxNumber : int {
  nvtxCallbacks = 1,
  nvtxVersionInfo = 3,
  nvtxCore = 1,
  nvtxPushA = 9,
  nvtxPop = 11,
  nvtxFunctions = 16
};

/// Ranges of the thread that begins and ends them; they nest. Does nothing where nobody listens.
class Nvtx {
public:
  /// Loads the profiler's library, once in a process. Fails where it is named, but cannot be loaded or will not start.
  static Status open();

  /// Of `name`, and of `number` if there is one (not negative).
  static void begin(std::string_view name, int64_t number = -1);
  static void end();
};

} // namespace scrimp::runtime

#endif
