// What the process of a planned program takes beside its arena: code, its own data, and the buffers of the BLAS
// library. Of a program for a GPU, what that holds beside the arena: the context, kernels and graphs; buffers for what ranks
// exchange; what cuBLASLt and NCCL take for themselves.
#ifndef SCRIMP_PLANNER_PROCESSMEMORY_H
#define SCRIMP_PLANNER_PROCESSMEMORY_H

#include "scrimp/runtime/blas_packs.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace mlir::scrimp {

struct ProcessMemory {
  int64_t code = 0;    // pages of the executable and of shared libraries that are touched
  int64_t data = 0;    // the runtime's: what it reads files through, prepared commands, stacks
  int64_t library = 0; // what OpenBLAS packs operands into, of all workers

  int64_t getBytes() const { return code + data + library; }
};

/// Kernels of OpenBLAS that may run on a processor with these instruction sets ("avx2"; Codegen/Kernels.h): those that
/// it takes where the processor has no others; without `isExact` also those for processors that have more.
llvm::SmallVector<::scrimp::runtime::BlasBlocks> findBlasKernels(llvm::ArrayRef<std::string> features, bool isExact);

/// At most, with any of these kernels. Measured on Debian 12, rounded up; products are counted (blas_packs.h).
ProcessMemory computeBesideArena(ModuleOp planned,
                                 llvm::ArrayRef<::scrimp::runtime::BlasBlocks> kernels);

} // namespace mlir::scrimp

#endif
