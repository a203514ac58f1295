// Kernels of a device as PTX, in process.
#include "DeviceKernels.h"

#include "scrimp/Codegen/Kernels.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The functions that PTX would call and does not define: what nobody linked.
static SmallVector<StringRef> findExternals(StringRef ptx) {
  SmallVector<StringRef> lines, found;
  ptx.split(lines, '\n');
  for (StringRef line : lines)
    if (line.trim().starts_with(".extern"))
      found.push_back(line.trim());
  return found;
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
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = "isa";
  if (const char *home = std::getenv("CUDA_HOME"))
    binary.toolkitPath = home;
  else
    binary.toolkitPath = "/usr/local/cuda";
  PassManager pm(context);
  pm.addPass(createGpuModuleToBinaryPass(binary));
  if (failed(pm.run(**module)))
    return failure();
  std::string ptx;
  (*module)->walk([&](gpu::BinaryOp op) {
    for (Attribute object : op.getObjects())
      ptx = cast<gpu::ObjectAttr>(object).getObject().getValue().str();
  });
  if (StringRef(ptx).ends_with(StringRef("\0", 1)))
    ptx.pop_back();
  SmallVector<StringRef> externals = findExternals(ptx);
  if (!externals.empty())
    return kernels.emitError() << "the PTX calls functions it does not define, such as '" << externals.front()
                               << "'; libdevice is linked from the CUDA toolkit, looked for in " << binary.toolkitPath
                               << " (set CUDA_HOME)",
           failure();
  return ptx;
}
