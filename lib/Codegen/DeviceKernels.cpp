// From kernels that have been expanded for a device to the NVVM dialect.
#include "DeviceKernels.h"
#include "LowerKernels.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Whether the launch is to do anything: neither has a check found what is not finite, nor is the condition false. A
/// launch that depends on neither gives null.
static Value buildGuard(OpBuilder &builder, Location loc, Value stop, Value condition) {
  Value null = LLVM::ZeroOp::create(builder, loc, stop.getType());
  auto test = [&](Value pointer, unsigned bits, LLVM::ICmpPredicate goesOn) {
    Value isFree = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, pointer, null);
    auto choice = scf::IfOp::create(builder, loc, builder.getI1Type(), isFree, /*withElseRegion=*/true);
    OpBuilder free = choice.getThenBodyBuilder(), asks = choice.getElseBodyBuilder();
    scf::YieldOp::create(free, loc, isFree);
    Type type = builder.getIntegerType(bits);
    Value value = LLVM::LoadOp::create(asks, loc, type, pointer, /*alignment=*/bits / 8);
    Value zero = LLVM::ZeroOp::create(asks, loc, type);
    scf::YieldOp::create(asks, loc, Value(LLVM::ICmpOp::create(asks, loc, goesOn, value, zero)));
    return choice.getResult(0);
  };
  Value goesOn = test(stop, 64, LLVM::ICmpPredicate::eq);
  return arith::AndIOp::create(builder, loc, goesOn, test(condition, 8, LLVM::ICmpPredicate::ne));
}

/// A kernel entry with `function`'s body, which a launch may skip. What the threads of a block share becomes the
/// entry's.
static void buildEntry(OpBuilder &builder, func::FuncOp function) {
  Location loc = function.getLoc();
  constexpr unsigned numUnits = 2; // begin and end
  auto types = llvm::to_vector(function.getArgumentTypes());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  types.insert(types.end() - numUnits, 2, pointer);
  auto entry = gpu::GPUFuncOp::create(builder, loc, function.getName(), builder.getFunctionType(types, {}));
  entry->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  auto arguments = ValueRange(entry.getArguments()).take_front(types.size());
  ValueRange guards = arguments.slice(types.size() - numUnits - 2, 2);
  IRMapping mapping;
  mapping.map(function.getArguments().drop_back(numUnits), arguments.drop_back(numUnits + 2));
  mapping.map(function.getArguments().take_back(numUnits), arguments.take_back(numUnits));
  OpBuilder body = OpBuilder::atBlockBegin(&entry.getBody().front());
  // What a thread has of its own is the entry's too: LLVM finds registers only for that.
  for (auto alloca : function.getBody().front().getOps<memref::AllocaOp>())
    if (alloca.getType().getMemorySpace())
      mapping.map(alloca.getResult(), entry.addWorkgroupAttribution(alloca.getType(), loc));
    else
      body.clone(*alloca, mapping);
  auto guarded = scf::IfOp::create(body, loc, buildGuard(body, loc, guards[0], guards[1]));
  gpu::ReturnOp::create(body, loc);
  body = guarded.getThenBodyBuilder();
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<memref::AllocaOp>(op))
      body.clone(op, mapping);
}

namespace {
/// What the device computes exactly by an instruction: by way of libdevice a square root would be approximate. As
/// calls, for upstream's conversion gives the intrinsics themselves to libdevice.
template <typename Math> struct ToIntrinsic : OpRewritePattern<Math> {
  ToIntrinsic(MLIRContext *context, StringRef name) : OpRewritePattern<Math>(context), name(name) {}

  LogicalResult matchAndRewrite(Math op, PatternRewriter &rewriter) const override {
    if (!isa<Float32Type, Float64Type>(op.getType()))
      return rewriter.notifyMatchFailure(op, "neither f32 nor f64");
    auto intrinsic = rewriter.getStringAttr("llvm." + name + (op.getType().isF32() ? ".f32" : ".f64"));
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(op, op.getType(), intrinsic, op->getOperands());
    return success();
  }

  StringRef name;
};

struct ExactMath : PassWrapper<ExactMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExactMath)

  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<LLVM::LLVMDialect>(); }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MLIRContext *context = &getContext();
    patterns.add<ToIntrinsic<math::SqrtOp>>(context, "sqrt");
    patterns.add<ToIntrinsic<math::AbsFOp>>(context, "fabs");
    patterns.add<ToIntrinsic<math::FloorOp>>(context, "floor");
    patterns.add<ToIntrinsic<math::CeilOp>>(context, "ceil");
    patterns.add<ToIntrinsic<math::RoundEvenOp>>(context, "roundeven");
    patterns.add<ToIntrinsic<math::CopySignOp>>(context, "copysign");
    patterns.add<ToIntrinsic<math::FmaOp>>(context, "fma");
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::lowerKernelsToDevice(ModuleOp kernels, StringRef chip) {
  MLIRContext *context = kernels.getContext();
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registry.insert<gpu::GPUDialect, NVVM::NVVMDialect, vector::VectorDialect>();
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
    buildEntry(builder, function);

  PassManager pm(context);
  GpuNVVMAttachTargetOptions target;
  target.chip = chip.str();
  target.optLevel = 3;
  pm.addPass(createGpuNVVMAttachTarget(target));
  OpPassManager &inside = pm.nest<gpu::GPUModuleOp>();
  inside.addPass(createExpandMathPass(/*hasFma=*/true, /*hasLibm=*/false));
  inside.addPass(createDeviceMathPass());
  inside.addPass(std::make_unique<ExactMath>());
  addFloatExpansion(inside);
  inside.addPass(createSCFToControlFlowPass());
  ConvertGpuOpsToNVVMOpsOptions convert;
  convert.useBarePtrCallConv = true;
  inside.addPass(createConvertGpuOpsToNVVMOps(convert));
  inside.addPass(createConvertToLLVMPass());
  inside.addPass(createCanonicalizerPass());
  inside.addPass(createCSEPass());
  inside.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(*module)))
    return failure();
  return module;
}
