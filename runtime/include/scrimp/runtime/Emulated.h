// A CUDA device on a processor: the code that would become PTX, run thread by thread. Each access of a thread to memory
// that is not its own is checked against the buffers of the launch. Blocks of a launch run in any order and at once;
// threads of a block in the order that SCRIMP_EMULATED_ORDER says: forward, reverse, or shuffled.
//
// No dependencies, so that the compiler's tests run kernels so too.
#ifndef SCRIMP_RUNTIME_EMULATED_H
#define SCRIMP_RUNTIME_EMULATED_H

#include "scrimp/runtime/abi.h"
#include <span>
#include <string>

namespace scrimp::runtime {

struct EmulatedLaunch {
  scrimp_kernel kernel;
  std::span<char *const> buffers;
  std::span<const uint64_t> bytes; // the length of each
  int64_t units;
  uint32_t grid, block; // blocks, and threads of each
};

/// Runs blocks [first, end) of a launch. What is wrong with the first access that is ("writes 4 bytes 12 behind the end
/// of buffer 2"), or nothing; such an access reads zeros, and what it writes is lost.
std::string runEmulatedBlocks(const EmulatedLaunch &launch, uint32_t first, uint32_t end);

/// What kernels of an emulated device call, for whoever loads them into this process.
struct EmulatedFunction {
  const char *name;
  void *address;
};
std::span<const EmulatedFunction> emulatedFunctions();

} // namespace scrimp::runtime

#endif
