// What a CUDA device loads: PTX, and an image for each architecture that the toolkit's assembler makes of it.
#ifndef SCRIMP_CODEGEN_DEVICECODE_H
#define SCRIMP_CODEGEN_DEVICECODE_H

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace mlir::scrimp {

/// What a kernel takes of a multiprocessor, as ptxas says.
struct KernelResources {
  std::string symbol;
  int64_t registers = 0;                  // of a thread
  int64_t sharedBytes = 0;                // of a block
  int64_t stackBytes = 0, spillBytes = 0; // of a thread; spills: stores and loads
};

struct DeviceImage {
  std::string chip; // "sm_80"
  std::string cubin;
  std::vector<KernelResources> kernels;
};

/// The instructions of a kernel that load and store in the arena, by the bits that each moves.
struct KernelAccesses {
  std::map<int64_t, int64_t> loads, stores;
};

/// What PTX says of each of its entries.
std::map<std::string, KernelAccesses> countAccesses(llvm::StringRef ptx);

struct DeviceCode {
  std::string ptx;                 // for the oldest of the architectures: what later ones compile
  std::vector<DeviceImage> images; // none where ptxas is not found
};

/// The architectures: every card from compute capability 8.0 on runs one of the images, or the PTX.
llvm::ArrayRef<llvm::StringLiteral> deviceChips();

/// Compiles what emitKernels gave for a device. ptxas is looked for in PATH, $CUDA_HOME and /usr/local/cuda. Fails
/// after an error where it refuses the PTX, or a kernel takes more shared memory than every card has.
FailureOr<DeviceCode> compileDeviceCode(ModuleOp kernels);

/// The part of a multiprocessor's threads that run where blocks of `threads` are all there is, between 0 and 1 ("CUDA
/// C++ Programming Guide", compute capabilities).
double computeOccupancy(llvm::StringRef chip, int64_t threads, const KernelResources &resources);

} // namespace mlir::scrimp

#endif
