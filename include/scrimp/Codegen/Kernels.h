// From kernels of graph ops to code: loops (scf, memref, arith, math), then LLVM, then an object or PTX.
#ifndef SCRIMP_CODEGEN_KERNELS_H
#define SCRIMP_CODEGEN_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::scrimp {

/// Emits each distinct scrimp.kernel of `module` once, as
///
///   func.func @k<N>(%inputs..., %outputs..., %workspaces... : memref<SIZExT>, %begin: index, %end: index)
///
/// which computes units [begin, end); every buffer is flat, and i1 elements are stored as i8. Map kernels bear the unit
/// attribute `scrimp.map`: their outermost loop runs from %begin to %end, and its iterations are independent. Two
/// kernels are the same if they differ in locations, names and discardable attributes only. Sets on every kernel op
/// `scrimp.symbol`, `scrimp.units` (0: nothing to compute) and `scrimp.grain`, the units that one thread should take at
/// a time at least; on a device `scrimp.launch`. Fails after an error at the kernel.
FailureOr<OwningOpRef<ModuleOp>> emitKernels(ModuleOp module);

/// The kernel beside them that looks at an element of a float type on a device, where the host cannot (program.fbs,
/// CheckFinite).
std::string checkSymbolOf(Type type);

/// The processor to compile for. `cpu` is a name LLVM knows, "host", or "baseline": x86-64-v2 (or generic elsewhere).
/// `features` are added to the processor's ("+avx2,-fma").
struct CpuOptions {
  std::string cpu = "host";
  std::string features;
};

/// Fails with a message if the processor is not known.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const CpuOptions &options);

/// What code for a processor needs of the machine that runs it.
struct Processor {
  std::string name;                  // LLVM's
  std::vector<std::string> features; // instruction sets, as LLVM and GCC call them ("avx2", "avx512bf16")
};

/// Fails with a message if the processor is not known.
llvm::Expected<Processor> describeProcessor(const CpuOptions &options);

/// Lowers a clone of what emitKernels gave to the LLVM dialect. Each kernel becomes `void k<N>(ptr buffers, i64 begin,
/// i64 end)`, the scrimp_kernel of runtime/abi.h. Without `hasFma`, math functions are built from separately rounded
/// products and sums.
FailureOr<OwningOpRef<ModuleOp>> lowerKernelsToLLVM(ModuleOp kernels, bool hasFma);

/// The same as an optimised LLVM module for `target`; of kernels for a device the code of an emulated one.
FailureOr<std::unique_ptr<llvm::Module>> translateKernels(ModuleOp kernels, llvm::TargetMachine &target,
                                                          llvm::LLVMContext &context);

/// Compiles kernels to an object file's bytes, or to what `kind` says. Errors are reported at the module.
enum class CodeKind { Object, Assembly, LLVM };
FailureOr<std::string> compileKernels(ModuleOp kernels, const CpuOptions &options, CodeKind kind);

/// compileKernels into a file. Nothing is left at `path` on failure.
LogicalResult compileToObject(ModuleOp kernels, const CpuOptions &options, llvm::StringRef path);

/// PTX for a chip such as "sm_90a": for each kernel an entry k<N> with the same parameters, whose threads share the
/// units [begin, end). Fails after an error if code would call a function that PTX does not define: libdevice is linked
/// from the CUDA toolkit at $CUDA_HOME or /usr/local/cuda.
FailureOr<std::string> emitPtx(ModuleOp kernels, llvm::StringRef chip);

/// Registers what lowering needs. Call before the context is made, or append to it.
void registerCodegenDialects(DialectRegistry &registry);

} // namespace mlir::scrimp

#endif
