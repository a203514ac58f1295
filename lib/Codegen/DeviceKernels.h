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
/// gave, whose threads share the units [begin, end). Before these it takes two pointers that may be null: an i64, with
/// anything but 0 in which the launch does nothing (what a check has found, Launch in program.fbs), and a byte, with 0 in
/// which it does nothing (the condition that it depends on).
FailureOr<OwningOpRef<ModuleOp>> lowerKernelsToDevice(ModuleOp kernels, llvm::StringRef chip);

/// The LLVM module of these entries, made for the processor of `target`: what a device provides are functions
/// scrimp_emulated_* of the runtime (Emulated.h), which checks every access too, and what libdevice does are libm's.
/// Optimised; each kernel is a scrimp_kernel of runtime/abi.h, the two pointers the last of its buffers.
FailureOr<std::unique_ptr<llvm::Module>> translateEmulatedKernels(ModuleOp kernels, llvm::TargetMachine &target,
                                                                  llvm::LLVMContext &context);

} // namespace mlir::scrimp

#endif
