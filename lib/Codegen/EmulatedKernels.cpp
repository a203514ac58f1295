// The kernels of a device for this processor: the module that would become PTX, its intrinsics bound to functions of
// the runtime and its accesses checked by it.
#include "DeviceKernels.h"
#include "LlvmPasses.h"

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
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::scrimp;

/// A call of llvm.nvvm.shfl.sync.bfly.*, which gives a value or a value and whether its lane is there.
static void bindShuffle(llvm::CallInst *call) {
  llvm::Module &module = *call->getModule();
  llvm::IRBuilder<> builder(call);
  auto *i32 = builder.getInt32Ty();
  llvm::FunctionCallee callee = module.getOrInsertFunction("scrimp_emulated_shuffle", i32, i32, i32, i32);
  llvm::Value *value = call->getArgOperand(1);
  llvm::Value *bits = builder.CreateBitCast(value, i32);
  llvm::Value *got = builder.CreateCall(callee, {call->getArgOperand(0), bits, call->getArgOperand(2)});
  got = builder.CreateBitCast(got, value->getType());
  if (call->getType()->isStructTy()) {
    llvm::Value *both = builder.CreateInsertValue(llvm::PoisonValue::get(call->getType()), got, 0);
    got = builder.CreateInsertValue(both, builder.getTrue(), 1);
  }
  call->replaceAllUsesWith(got);
  call->eraseFromParent();
}

/// llvm.nvvm.read.ptx.sreg.tid.x becomes scrimp_emulated_read_ptx_sreg_tid_x, any barrier of all threads the same one,
/// and
/// __nv_expf, libdevice's, libm's expf.
static void bindIntrinsics(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    StringRef name = function.getName();
    if (name.starts_with("llvm.nvvm.shfl.sync.bfly.") || name.starts_with("llvm.nvvm.barrier")) {
      for (llvm::User *user : llvm::make_early_inc_range(function.users())) {
        auto *call = cast<llvm::CallInst>(user);
        if (!name.starts_with("llvm.nvvm.barrier")) {
          bindShuffle(call);
          continue;
        }
        llvm::IRBuilder<> builder(call);
        builder.CreateCall(module.getOrInsertFunction("scrimp_emulated_barrier", builder.getVoidTy()));
        call->eraseFromParent();
      }
      function.eraseFromParent();
      continue;
    }
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

/// What the threads of a block share lies where the runtime says, one variable behind the other. LLVM may know nothing
/// of it, or it would carry values over barriers.
static void bindShared(llvm::Module &module) {
  constexpr unsigned sharedSpace = 3;
  constexpr uint64_t alignment = 16;
  const llvm::DataLayout &layout = module.getDataLayout();
  llvm::LLVMContext &context = module.getContext();
  llvm::FunctionCallee callee = module.getOrInsertFunction("scrimp_emulated_shared", llvm::PointerType::get(context, 0),
                                                           llvm::Type::getInt64Ty(context));
  SmallVector<llvm::GlobalVariable *> variables;
  for (llvm::GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == sharedSpace)
      variables.push_back(&variable);
  if (variables.empty())
    return;
  SmallVector<llvm::Constant *> constants(variables.begin(), variables.end());
  llvm::convertUsersOfConstantsToInstructions(constants);
  llvm::DenseMap<llvm::Function *, uint64_t> ends; // each kernel has the whole
  for (llvm::GlobalVariable *variable : variables) {
    llvm::DenseMap<llvm::Function *, llvm::Value *> places;
    for (llvm::Use &use : llvm::make_early_inc_range(variable->uses())) {
      auto *instruction = cast<llvm::Instruction>(use.getUser());
      llvm::Value *&place = places[instruction->getFunction()];
      if (!place) {
        uint64_t &end = ends[instruction->getFunction()];
        llvm::IRBuilder<> builder(&*instruction->getFunction()->getEntryBlock().getFirstInsertionPt());
        place = builder.CreateAddrSpaceCast(builder.CreateCall(callee, builder.getInt64(end)), variable->getType());
        end = llvm::alignTo(end + layout.getTypeAllocSize(variable->getValueType()).getFixedValue(), alignment);
      }
      use.set(place);
    }
    variable->eraseFromParent();
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &target) {
  llvm::PipelineTuningOptions tuning;
  // A thread of a device has no lanes.
  tuning.LoopVectorization = tuning.SLPVectorization = false;
  LlvmPasses passes(&target, tuning);
  passes.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(module, passes.modules);
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
      llvm::Type *place = address->getType();
      address = builder.CreateAddrSpaceCast(address, pointer);
      llvm::Value *checked = builder.CreateCall(check, {address, builder.getInt64(bytes),
                                                        builder.getInt32(static_cast<uint32_t>(align.value())),
                                                        builder.getInt32(store != nullptr)});
      instruction.setOperand(store ? 1 : 0, builder.CreateAddrSpaceCast(checked, place));
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

FailureOr<std::unique_ptr<llvm::Module>>
mlir::scrimp::translateEmulatedKernels(ModuleOp kernels, llvm::TargetMachine &target, llvm::LLVMContext &context) {
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
  bindShared(*module);
  optimize(*module, target);
  checkAccesses(*module);
  for (auto function : kernels.getOps<func::FuncOp>())
    wrap(*module->getFunction(function.getName()));
  return module;
}
