// Kernels of a device of many threads, from loops to the NVVM dialect: what becomes PTX, and what an emulated device
// runs.
#ifndef SCRIMP_LIB_CODEGEN_DEVICEKERNELS_H
#define SCRIMP_LIB_CODEGEN_DEVICEKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::scrimp {

/// A module that holds one gpu.module for `chip` ("sm_80"): an entry k<N> for each of the kernels that emitKernels
/// gave, with the same parameters, whose threads share the units [begin, end).
FailureOr<OwningOpRef<ModuleOp>> lowerKernelsToDevice(ModuleOp kernels, llvm::StringRef chip);

/// The LLVM module of these entries, made for the processor of `target`: what a device provides are functions
/// scrimp_emulated_* of the runtime (Emulated.h), which checks every access too, and what libdevice does are libm's.
/// Optimised; each kernel is a scrimp_kernel of runtime/abi.h.
FailureOr<std::unique_ptr<llvm::Module>> translateEmulatedKernels(ModuleOp kernels, llvm::TargetMachine &target,
                                                                  llvm::LLVMContext &context);

} // namespace mlir::scrimp

#endif
