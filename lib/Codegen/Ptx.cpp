// Kernels of a device as PTX, in process.
#include "DeviceKernels.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Codegen/PtxGate.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The kernels that libdevice computes something in: it makes the functions of f64, and the rarer ones of f32, by way
/// of approximations that it mends.
static llvm::StringSet<> findUsersOfLibdevice(ModuleOp module) {
  llvm::StringSet<> users;
  module.walk([&](LLVM::CallOp call) {
    if (call.getCallee().value_or("").starts_with("__nv_"))
      users.insert(call->getParentOfType<LLVM::LLVMFuncOp>().getName());
  });
  return users;
}

/// Asked before LLVM, which would only warn.
static bool isKnownChip(StringRef chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<llvm::MCSubtargetInfo> known(target ? target->createMCSubtargetInfo(triple, "", "") : nullptr);
  return known && known->isCPUStringValid(chip);
}

FailureOr<std::string> mlir::scrimp::emitPtx(ModuleOp kernels, StringRef chip) {
  MLIRContext *context = kernels.getContext();
  if (!isKnownChip(chip))
    return emitError(UnknownLoc::get(context)) << "unknown GPU '" << chip << "'; expected one such as sm_80 or sm_90a",
           failure();
  FailureOr<OwningOpRef<ModuleOp>> module = lowerKernelsToDevice(kernels, chip);
  if (failed(module))
    return failure();
  llvm::StringSet<> approximate = findUsersOfLibdevice(**module);
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = "isa";
  const char *home = std::getenv("CUDA_HOME");
  std::string toolkit = home ? home : "/usr/local/cuda";
  binary.toolkitPath = toolkit;
  // Without it MLIR complains, and compiles: what asks nothing of libdevice needs none. What does the gate finds.
  std::optional<ScopedDiagnosticHandler> complaints;
  if (!llvm::sys::fs::exists(toolkit + "/nvvm/libdevice/libdevice.10.bc"))
    complaints.emplace(context, [](Diagnostic &diagnostic) {
      std::string text = diagnostic.str();
      return success(StringRef(text).starts_with("LibDevice path") || StringRef(text).starts_with("CUDA path"));
    });
  PassManager pm(context);
  pm.addPass(createGpuModuleToBinaryPass(binary));
  if (failed(pm.run(**module)))
    return failure();
  complaints.reset();
  std::string ptx;
  (*module)->walk([&](gpu::BinaryOp op) {
    for (Attribute object : op.getObjects())
      ptx = cast<gpu::ObjectAttr>(object).getObject().getValue().str();
  });
  if (StringRef(ptx).ends_with(StringRef("\0", 1)))
    ptx.pop_back();
  if (std::string fault = findPtxFault(ptx, approximate); !fault.empty())
    return kernels.emitError() << "the PTX " << fault << "; libdevice is linked from the CUDA toolkit, looked for in "
                               << toolkit << " (set CUDA_HOME)",
           failure();
  return ptx;
}
