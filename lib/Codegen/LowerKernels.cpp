// From emitted kernels to the LLVM dialect with upstream conversions, and the functions of the C ABI around them.
#include "LowerKernels.h"

#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Tells LLVM which innermost loops have independent iterations. The access group of a load or store travels in its
/// location, the only thing that conversions keep.
static void annotateParallelLoops(ModuleOp module) {
  MLIRContext *context = module.getContext();
  module.walk([&](scf::ForOp loop) {
    if (!loop->removeAttr(ScrimpDialect::kParallel))
      return;
    bool innermost = true;
    loop.getBody()->walk([&](LoopLikeOpInterface) { innermost = false; });
    if (!innermost)
      return;
    auto group = LLVM::AccessGroupAttr::get(context, DistinctAttr::create(UnitAttr::get(context)));
    loop.getBody()->walk([&](Operation *op) {
      if (isa<memref::LoadOp, memref::StoreOp>(op))
        op->setLoc(FusedLoc::get(context, op->getLoc(), group));
    });
    // Unrolled before it is vectorised, a loop over 16 lanes would become pairs; afterwards it should be unrolled, so
    // that lanes stay in registers. No vectorize.enable: it would allow LLVM to reorder floating-point sums.
    auto yes = BoolAttr::get(context, true);
    auto annotate = [&](LLVM::LoopVectorizeAttr vectorize, LLVM::LoopUnrollAttr unroll) {
      return LLVM::LoopAnnotationAttr::get(context, {}, vectorize, {}, unroll, {}, {}, {}, {}, {}, {}, yes, {}, {}, {},
                                           group);
    };
    auto vectorize = LLVM::LoopVectorizeAttr::get(context, {}, {}, {}, {}, annotate({}, {}), {}, {});
    auto keepRolled = LLVM::LoopUnrollAttr::get(context, yes, {}, {}, {}, {}, {}, {});
    loop->setAttr("llvm.loop_annotation", annotate(vectorize, keepRolled));
  });
}

/// Puts what annotateParallelLoops left on branches and in locations where the translation to LLVM looks for it.
static void attachAnnotations(ModuleOp module) {
  module.walk([](LLVM::BrOp branch) {
    if (auto annotation = branch->removeAttr("llvm.loop_annotation"))
      branch.setLoopAnnotationAttr(cast<LLVM::LoopAnnotationAttr>(annotation));
  });
  module.walk([](LLVM::AccessGroupOpInterface op) {
    auto loc = dyn_cast<FusedLoc>(op->getLoc());
    auto group = loc ? dyn_cast_or_null<LLVM::AccessGroupAttr>(loc.getMetadata()) : nullptr;
    if (!group)
      return;
    op.setAccessGroups(ArrayAttr::get(op->getContext(), {group}));
  });
}

/// Gives kernel @k the form of scrimp_kernel: the function that computes becomes @k.body.
static void wrapKernel(LLVM::LLVMFuncOp body) {
  OpBuilder builder(body);
  Location loc = body.getLoc();
  std::string symbol = body.getName().str();
  body.setName(symbol + ".body");
  body.setLinkage(LLVM::Linkage::Internal);
  body.setAlwaysInline(true);
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64, i64});
  auto wrapper = LLVM::LLVMFuncOp::create(builder, loc, symbol, type);
  Block *entry = wrapper.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  SmallVector<Value> arguments;
  for (unsigned i = 0; i + 2 < body.getNumArguments(); ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry->getArgument(0), LLVM::GEPArg(i));
    arguments.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
  }
  arguments.push_back(entry->getArgument(1));
  arguments.push_back(entry->getArgument(2));
  LLVM::CallOp::create(builder, loc, body, arguments);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

void mlir::scrimp::registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect>();
}

void mlir::scrimp::addFloatExpansion(OpPassManager &manager) {
  manager.addPass(createExpandBFloat16Pass());
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16"};
  emulate.targetTypeStr = "f32";
  manager.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  manager.addPass(arith::createArithExpandOpsPass(expand));
}

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::lowerKernelsToLLVM(ModuleOp kernels, bool hasFma) {
  MLIRContext *context = kernels.getContext();
  DialectRegistry registry;
  registerCodegenDialects(registry);
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = kernels.clone();
  SmallVector<std::string> symbols;
  for (auto function : module->getOps<func::FuncOp>())
    symbols.push_back(function.getName().str());
  annotateParallelLoops(*module);

  PassManager pm(context);
  pm.addPass(createExpandMathPass(hasFma, /*hasLibm=*/true));
  addFloatExpansion(pm);
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertFuncToLLVMPass(bare));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(*module)))
    return failure();
  attachAnnotations(*module);
  for (const std::string &symbol : symbols)
    wrapKernel(module->lookupSymbol<LLVM::LLVMFuncOp>(symbol));
  return module;
}
