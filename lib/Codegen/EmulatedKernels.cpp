// The kernels of a device for this processor: the module that would become PTX, its intrinsics bound to functions of the
// runtime and its accesses checked by it.
#include "DeviceKernels.h"

#include "scrimp/Codegen/Kernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::scrimp;

/// llvm.nvvm.read.ptx.sreg.tid.x becomes scrimp_emulated_read_ptx_sreg_tid_x, and __nv_expf, libdevice's, libm's expf.
static void bindIntrinsics(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    StringRef name = function.getName();
    std::string bound;
    if (name.consume_front("llvm.nvvm."))
      bound = "scrimp_emulated_" + name.str();
    else if (name.consume_front("__nv_"))
      bound = name.str();
    if (bound.empty())
      continue;
    std::replace(bound.begin(), bound.end(), '.', '_');
    // Another function, for an intrinsic's name decides its attributes.
    llvm::FunctionCallee callee = module.getOrInsertFunction(bound, function.getFunctionType());
    function.replaceAllUsesWith(callee.getCallee());
    function.eraseFromParent();
  }
  for (llvm::Function &function : module) {
    function.setCallingConv(llvm::CallingConv::C);
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = dyn_cast<llvm::CallBase>(&instruction))
        call->setCallingConv(llvm::CallingConv::C);
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &target) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // A thread of a device has no lanes.
  tuning.LoopVectorization = tuning.SLPVectorization = false;
  llvm::PassBuilder passes(&target, tuning);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(sccs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, sccs, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(module, modules);
}

/// Every load and store goes where the runtime says: where it was to go, or, where that is no byte of a buffer of the
/// launch or not aligned, elsewhere, and the launch has failed. What a thread has of its own is left alone.
static void checkAccesses(llvm::Module &module) {
  llvm::LLVMContext &context = module.getContext();
  const llvm::DataLayout &layout = module.getDataLayout();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *i64 = llvm::Type::getInt64Ty(context), *i32 = llvm::Type::getInt32Ty(context);
  llvm::FunctionCallee check = module.getOrInsertFunction("scrimp_emulated_access", pointer, pointer, i64, i32, i32);
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      llvm::Value *address = llvm::getPointerOperand(&instruction);
      if (!address || !isa<llvm::LoadInst, llvm::StoreInst>(instruction))
        continue;
      llvm::Value *object = llvm::getUnderlyingObject(address, 0);
      if (isa<llvm::AllocaInst, llvm::GlobalVariable>(object))
        continue;
      auto *store = dyn_cast<llvm::StoreInst>(&instruction);
      llvm::Type *type = store ? store->getValueOperand()->getType() : instruction.getType();
      llvm::Align align = llvm::getLoadStoreAlignment(&instruction);
      llvm::IRBuilder<> builder(&instruction);
      auto bytes = static_cast<int64_t>(layout.getTypeStoreSize(type).getFixedValue());
      llvm::Value *checked = builder.CreateCall(
          check, {address, builder.getInt64(bytes), builder.getInt32(static_cast<uint32_t>(align.value())),
                  builder.getInt32(store != nullptr)});
      instruction.setOperand(store ? 1 : 0, checked);
    }
}

/// The form of scrimp_kernel around an entry of pointers, begin and end.
static void wrap(llvm::Function &body) {
  llvm::Module &module = *body.getParent();
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *i64 = llvm::Type::getInt64Ty(context);
  std::string symbol = body.getName().str();
  body.setName(symbol + ".body");
  body.setLinkage(llvm::GlobalValue::InternalLinkage);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64}, false);
  auto *wrapper = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", wrapper));
  SmallVector<llvm::Value *> arguments;
  for (unsigned i = 0; i + 2 < body.arg_size(); ++i)
    arguments.push_back(builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, wrapper->getArg(0), i)));
  arguments.append({wrapper->getArg(1), wrapper->getArg(2)});
  builder.CreateCall(&body, arguments);
  builder.CreateRetVoid();
}

FailureOr<std::unique_ptr<llvm::Module>> mlir::scrimp::translateEmulatedKernels(ModuleOp kernels,
                                                                                llvm::TargetMachine &target,
                                                                                llvm::LLVMContext &context) {
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerKernelsToDevice(kernels, "sm_80");
  if (failed(lowered))
    return failure();
  gpu::GPUModuleOp device = *(*lowered)->getOps<gpu::GPUModuleOp>().begin();
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(device, context, "scrimp_kernels");
  if (!module)
    return kernels.emitError() << "the kernels have no LLVM IR", failure();
  module->setTargetTriple(target.getTargetTriple());
  module->setDataLayout(target.createDataLayout());
  bindIntrinsics(*module);
  optimize(*module, target);
  checkAccesses(*module);
  for (auto function : kernels.getOps<func::FuncOp>())
    wrap(*module->getFunction(function.getName()));
  return module;
}
