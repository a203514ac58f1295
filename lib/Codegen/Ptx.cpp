// Map kernels as PTX, in process: the same loops, shared out over a grid of threads. A thin thread through the CUDA
// target that keeps kernels free of what only a CPU can do.
#include "LowerKernels.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace mlir::scrimp;

/// A kernel entry with `function`'s body, in which thread t of n takes units begin + t, begin + t + n, ...
static void buildEntry(OpBuilder &builder, func::FuncOp function) {
  Location loc = function.getLoc();
  auto entry = gpu::GPUFuncOp::create(builder, loc, function.getName(), function.getFunctionType());
  entry->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  IRMapping mapping;
  mapping.map(function.getArguments(), entry.getArguments());
  OpBuilder body = OpBuilder::atBlockBegin(&entry.getBody().front());
  for (Operation &op : function.getBody().front().without_terminator())
    body.clone(op, mapping);
  gpu::ReturnOp::create(body, loc);
  Value begin = entry.getArgument(entry.getNumArguments() - 2);
  for (auto loop : llvm::make_early_inc_range(entry.getBody().front().getOps<scf::ForOp>())) {
    if (loop.getLowerBound() != begin)
      continue;
    body.setInsertionPoint(loop);
    Value size = gpu::BlockDimOp::create(body, loc, gpu::Dimension::x);
    Value block = gpu::BlockIdOp::create(body, loc, gpu::Dimension::x);
    Value thread = gpu::ThreadIdOp::create(body, loc, gpu::Dimension::x);
    Value blocks = gpu::GridDimOp::create(body, loc, gpu::Dimension::x);
    Value offset = arith::AddIOp::create(body, loc, arith::MulIOp::create(body, loc, block, size), thread);
    loop.setLowerBound(arith::AddIOp::create(body, loc, begin, offset));
    loop.setStep(arith::MulIOp::create(body, loc, blocks, size));
  }
}

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
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registry.insert<gpu::GPUDialect, NVVM::NVVMDialect>();
  registerAllExtensions(registry);
  registerAllGPUToLLVMIRTranslations(registry);
  NVVM::registerNVVMTargetInterfaceExternalModels(registry);
  context->appendDialectRegistry(registry);
  context->loadDialect<gpu::GPUDialect, NVVM::NVVMDialect, LLVM::LLVMDialect>();

  OwningOpRef<ModuleOp> module = ModuleOp::create(kernels.getLoc());
  (*module)->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), UnitAttr::get(context));
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  auto gpuModule = gpu::GPUModuleOp::create(builder, kernels.getLoc(), "scrimp_kernels");
  builder.setInsertionPointToStart(gpuModule.getBody());
  for (auto function : kernels.getOps<func::FuncOp>())
    if (function->hasAttr(ScrimpDialect::kMap))
      buildEntry(builder, function);

  PassManager pm(context);
  GpuNVVMAttachTargetOptions target;
  target.chip = chip.str();
  target.optLevel = 3;
  pm.addPass(createGpuNVVMAttachTarget(target));
  OpPassManager &inside = pm.nest<gpu::GPUModuleOp>();
  inside.addPass(createExpandMathPass(/*hasFma=*/true, /*hasLibm=*/false));
  inside.addPass(createExpandBFloat16Pass());
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16"};
  emulate.targetTypeStr = "f32";
  inside.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  inside.addPass(arith::createArithExpandOpsPass(expand));
  inside.addPass(createSCFToControlFlowPass());
  ConvertGpuOpsToNVVMOpsOptions convert;
  convert.useBarePtrCallConv = true;
  inside.addPass(createConvertGpuOpsToNVVMOps(convert));
  inside.addPass(createConvertToLLVMPass());
  inside.addPass(createCanonicalizerPass());
  inside.addPass(createCSEPass());
  inside.addPass(createReconcileUnrealizedCastsPass());
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = "isa";
  if (const char *home = std::getenv("CUDA_HOME"))
    binary.toolkitPath = home;
  else
    binary.toolkitPath = "/usr/local/cuda";
  pm.addPass(createGpuModuleToBinaryPass(binary));
  if (failed(pm.run(*module)))
    return failure();
  std::string ptx;
  module->walk([&](gpu::BinaryOp op) {
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
