// Machine code from kernels, by LLVM's own pipeline at -O3. Nothing here lets LLVM contract or reassociate.
#include "DeviceKernels.h"
#include "LlvmPasses.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"

#include <mutex>

using namespace mlir;
using namespace mlir::scrimp;

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> mlir::scrimp::createTargetMachine(const CpuOptions &options) {
  static std::once_flag initialised;
  std::call_once(initialised, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  std::string cpu = options.cpu;
  llvm::SubtargetFeatures features;
  if (cpu == "host") {
    cpu = llvm::sys::getHostCPUName().str();
    for (auto &[name, has] : llvm::sys::getHostCPUFeatures())
      features.AddFeature(name, has);
  } else if (cpu == "baseline") {
    cpu = triple.getArch() == llvm::Triple::x86_64 ? "x86-64-v2" : "generic";
  }
  for (StringRef feature : llvm::split(options.features, ","))
    if (!feature.empty())
      features.AddFeature(feature.drop_front(feature.starts_with("+") || feature.starts_with("-")),
                          !feature.starts_with("-"));
  // Asked before the machine is made, which would only warn.
  std::unique_ptr<llvm::MCSubtargetInfo> known(target->createMCSubtargetInfo(triple, "", ""));
  if (!known->isCPUStringValid(cpu))
    return llvm::createStringError("unknown processor '" + options.cpu + "' for " + triple.str() +
                                   "; 'host' and 'baseline' are always known");
  llvm::TargetOptions targetOptions;
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, cpu, features.getString(), targetOptions, llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
  return machine;
}

llvm::Expected<Processor> mlir::scrimp::describeProcessor(const CpuOptions &options) {
  auto machine = createTargetMachine(options);
  if (!machine)
    return machine.takeError();
  Processor processor{(*machine)->getTargetCPU().str(), {}};
  if ((*machine)->getTargetTriple().getArch() != llvm::Triple::x86_64)
    return processor;
  // What the runtime can ask a processor for (runtime/lib/common/Processor.cpp).
  for (StringRef feature : {"sse4.2", "popcnt", "avx", "f16c", "avx2", "fma", "bmi", "bmi2", "avx512f", "avx512cd",
                            "avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni",
                            "avx512bitalg", "avx512vpopcntdq", "avx512bf16", "avx512fp16"})
    if ((*machine)->getMCSubtargetInfo()->checkFeatures(("+" + feature).str()))
      processor.features.push_back(feature.str());
  return processor;
}

FailureOr<std::unique_ptr<llvm::Module>> mlir::scrimp::translateKernels(ModuleOp kernels, llvm::TargetMachine &target,
                                                                        llvm::LLVMContext &context) {
  if (TargetAttr::of(kernels).isDevice())
    return translateEmulatedKernels(kernels, target, context);
  bool hasFma =
      target.getMCSubtargetInfo()->checkFeatures("+fma") || target.getTargetTriple().getArch() != llvm::Triple::x86_64;
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerKernelsToLLVM(kernels, hasFma);
  if (failed(lowered))
    return failure();
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(**lowered, context, "scrimp_kernels");
  if (!module)
    return kernels.emitError() << "the kernels have no LLVM IR", failure();
  module->setTargetTriple(target.getTargetTriple());
  module->setDataLayout(target.createDataLayout());
  // Remarks on loops that were not vectorised are no concern of the user's.
  context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo *info, void *) {
    if (info->getSeverity() != llvm::DS_Error)
      return;
    llvm::DiagnosticPrinterRawOStream printer(llvm::errs());
    info->print(printer);
    llvm::errs() << "\n";
  });
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = tuning.LoopUnrolling = true;
  LlvmPasses passes(&target, tuning);
  passes.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(*module, passes.modules);
  return module;
}

#ifdef SCRIMP_SANITIZE
/// Checks the addresses of optimised kernels as the compiler checks its own: --verify and the kernels' tests keep every
/// buffer in a heap block of its own. Globals stay as they are, for nobody would register those of loaded code.
static void instrument(llvm::Module &module) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.addFnAttr(llvm::Attribute::SanitizeAddress);
  LlvmPasses passes;
  llvm::AddressSanitizerOptions options;
  options.UseAfterReturn = llvm::AsanDetectStackUseAfterReturnMode::Never;
  options.InsertVersionCheck = false;
  // By calls, for checks in line cut blocks, and a bf16 value that crosses blocks is narrowed by a function of
  // compiler-rt that libgcc lacks.
  options.InstrumentationWithCallsThreshold = 0;
  llvm::AddressSanitizerPass(options, /*UseGlobalGC=*/false, /*UseOdrIndicator=*/false, llvm::AsanDtorKind::None,
                             llvm::AsanCtorKind::None)
      .run(module, passes.modules);
}
#endif

FailureOr<std::string> mlir::scrimp::compileKernels(ModuleOp kernels, const CpuOptions &options, CodeKind kind) {
  auto target = createTargetMachine(options);
  if (!target)
    return kernels.emitError() << llvm::toString(target.takeError()), failure();
  llvm::LLVMContext context;
  FailureOr<std::unique_ptr<llvm::Module>> module = translateKernels(kernels, **target, context);
  if (failed(module))
    return failure();
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream os(code);
  if (kind == CodeKind::LLVM) {
    (*module)->print(os, nullptr);
    return code.str().str();
  }
#ifdef SCRIMP_SANITIZE
  if (kind == CodeKind::Object)
    instrument(**module);
#endif
  llvm::legacy::PassManager emit;
  auto fileType = kind == CodeKind::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if ((*target)->addPassesToEmitFile(emit, os, nullptr, fileType))
    return kernels.emitError() << "this target emits no such file", failure();
  emit.run(**module);
  return code.str().str();
}

LogicalResult mlir::scrimp::compileToObject(ModuleOp kernels, const CpuOptions &options, llvm::StringRef path) {
  FailureOr<std::string> object = compileKernels(kernels, options, CodeKind::Object);
  if (failed(object))
    return failure();
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << *object;
    return llvm::Error::success();
  });
  if (error)
    return emitError(UnknownLoc::get(kernels.getContext())) << "cannot write " << llvm::toString(std::move(error));
  return success();
}
