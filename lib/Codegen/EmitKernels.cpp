// Loops for scrimp.kernel regions. A map kernel is one loop nest around the composition of its ops' element functions;
// a rows kernel is a loop over its op's units.
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Codegen/Kernels.h"

#include "ExpandUnits.h"
#include "KernelEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What one thread should take at a time at least: handing out a range costs about a microsecond.
static constexpr int64_t kGrainWork = 32768;

/// On a device: of more units each block takes several.
static constexpr int64_t kMostBlocks = 65535;

/// Two kernels with one key share code: the body without locations and discardable attributes, and the workspaces.
static std::string keyOf(KernelRegionOp kernel) {
  OwningOpRef<KernelRegionOp> clone = kernel.clone();
  clone->walk([](Operation *op) {
    SmallVector<StringAttr> discardable;
    for (NamedAttribute attr : op->getDiscardableAttrs())
      discardable.push_back(attr.getName());
    for (StringAttr name : discardable)
      op->removeDiscardableAttr(name);
  });
  std::string key;
  llvm::raw_string_ostream os(key);
  clone->getBody().front().print(os);
  for (Operation &op : clone->getBody().front())
    op.print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
  for (Type type : kernel.getInputs().getTypes())
    os << type << ";";
  for (RankedTensorType type : getWorkspaceTypes(kernel))
    os << type << ";";
  return key;
}

static int64_t getBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    bytes += bytesOf(cast<RankedTensorType>(type));
  return bytes;
}

/// Units that make up kGrainWork bytes or operations. Elements go by whole cache lines.
static int64_t getGrain(KernelRegionOp kernel, int64_t units, bool unitIsElement) {
  int64_t work = std::max(getBytes(kernel.getOperandTypes()) + getBytes(kernel.getResultTypes()), kernel.getFlops());
  int64_t grain = std::max<int64_t>(1, llvm::divideCeil(kGrainWork * units, std::max<int64_t>(work, 1)));
  return unitIsElement ? llvm::alignTo(grain, 64) : grain;
}

std::string mlir::scrimp::checkSymbolOf(Type type) {
  std::string symbol = "check_";
  llvm::raw_string_ostream(symbol) << type;
  return symbol;
}

/// What looks at an element of `type` on a device (program.fbs, CheckFinite).
static void emitCheck(OpBuilder &builder, Location loc, Type type) {
  Type i64 = builder.getI64Type(), f64 = builder.getF64Type(), index = builder.getIndexType();
  Type types[] = {MemRefType::get({1}, type), MemRefType::get({2}, i64), index, index};
  auto function = func::FuncOp::create(builder, loc, checkSymbolOf(type), builder.getFunctionType(types, {}));
  OpBuilder b = OpBuilder::atBlockBegin(function.addEntryBlock());
  Value element = function.getArgument(0), found = function.getArgument(1), number = function.getArgument(3);
  Value zero = emitIndex(b, loc, 0), one = emitIndex(b, loc, 1);
  Value value = emitConvert(b, loc, memref::LoadOp::create(b, loc, element, zero), f64);
  Value most = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(std::numeric_limits<double>::infinity()));
  Value size = math::AbsFOp::create(b, loc, value);
  Value isBad = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGE, size, most);
  Value before = memref::LoadOp::create(b, loc, found, zero);
  Value none = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, before, none);
  auto tells = scf::IfOp::create(b, loc, Value(arith::AndIOp::create(b, loc, isBad, isFirst)));
  func::ReturnOp::create(b, loc);
  b = tells.getThenBodyBuilder();
  memref::StoreOp::create(b, loc, arith::IndexCastOp::create(b, loc, i64, number), found, zero);
  memref::StoreOp::create(b, loc, arith::BitcastOp::create(b, loc, i64, value), found, one);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::emitKernels(ModuleOp module) {
  MLIRContext *context = module.getContext();
  context->loadDialect<func::FuncDialect, arith::ArithDialect, math::MathDialect, memref::MemRefDialect,
                       scf::SCFDialect, gpu::GPUDialect>();
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  (*kernels)->setAttr(ScrimpDialect::kTarget, TargetAttr::of(module));
  struct Emitted {
    std::string symbol;
    KernelShape shape;
    DeviceShape ofDevice;
  };
  bool isDevice = TargetAttr::of(module).isDevice();
  llvm::StringMap<Emitted> known;
  OpBuilder builder(context);
  auto result = module.walk([&](KernelRegionOp kernel) {
    auto [entry, isNew] = known.try_emplace(keyOf(kernel));
    Emitted &emitted = entry->second;
    if (isNew) {
      emitted.symbol = "k" + std::to_string(known.size() - 1);
      builder.setInsertionPointToEnd(kernels->getBody());
      FailureOr<KernelShape> shape = emitKernelFunction(builder, kernel, emitted.symbol);
      if (failed(shape))
        return WalkResult::interrupt();
      emitted.shape = *shape;
      auto function = kernels->lookupSymbol<func::FuncOp>(emitted.symbol);
      if (isDevice)
        emitted.ofDevice = expandUnitsForDevice(function);
      else
        expandUnitsForCpu(function);
    }
    kernel->setAttr(ScrimpDialect::kSymbol, builder.getStringAttr(emitted.symbol));
    kernel->setAttr(ScrimpDialect::kUnits, builder.getI64IntegerAttr(emitted.shape.units));
    kernel->setAttr(ScrimpDialect::kGrain,
                    builder.getI64IntegerAttr(getGrain(kernel, emitted.shape.units, emitted.shape.unitIsElement)));
    if (isDevice) {
      auto [threads, isCooperative] = emitted.ofDevice;
      int64_t blocks = llvm::divideCeil(emitted.shape.units, isCooperative ? 1 : threads);
      blocks = std::clamp<int64_t>(blocks, 1, kMostBlocks);
      kernel->setAttr(ScrimpDialect::kLaunch, builder.getDenseI64ArrayAttr({blocks, threads, 0}));
    }
    return WalkResult::skip();
  });
  if (result.wasInterrupted())
    return failure();
  builder.setInsertionPointToEnd(kernels->getBody());
  if (isDevice)
    for (Type type : {Type(builder.getF32Type()), Type(builder.getF64Type()), Type(builder.getBF16Type()),
                      Type(builder.getF16Type())})
      emitCheck(builder, module.getLoc(), type);
  PassManager cleanUp(context);
  cleanUp.addPass(createCanonicalizerPass());
  cleanUp.addPass(createCSEPass());
  if (failed(cleanUp.run(*kernels)))
    return failure();
  return kernels;
}
