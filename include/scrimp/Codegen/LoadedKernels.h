// Compiled kernels in this process.
#ifndef SCRIMP_CODEGEN_LOADEDKERNELS_H
#define SCRIMP_CODEGEN_LOADEDKERNELS_H

#include "scrimp/Codegen/Kernels.h"

#include "llvm/ADT/StringMap.h"

namespace llvm::orc {
class LLJIT;
}

namespace mlir::scrimp {

/// scrimp_kernel of runtime/abi.h.
using KernelFunction = void (*)(char *const *buffers, int64_t begin, int64_t end);

/// The very object file that compileToObject writes, loaded; functions live as long as this.
class LoadedKernels {
public:
  /// Compiles and loads what emitKernels gave. Fails after an error at the module.
  static FailureOr<LoadedKernels> load(ModuleOp kernels, const CpuOptions &options);

  LoadedKernels(LoadedKernels &&);
  LoadedKernels &operator=(LoadedKernels &&);
  ~LoadedKernels();

  KernelFunction lookup(StringRef symbol) const { return functions.lookup(symbol); }

private:
  LoadedKernels();
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<KernelFunction> functions;
};

} // namespace mlir::scrimp

#endif
