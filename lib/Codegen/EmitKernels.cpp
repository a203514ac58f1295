// Loops for scrimp.kernel regions. A map kernel is one loop nest around the composition of its ops' element functions;
// a rows kernel is a loop over its op's units.
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Codegen/Kernels.h"

#include "ExpandUnits.h"
#include "KernelEmitter.h"
#include "RuntimeKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What one thread should take at a time at least: handing out a range costs about a microsecond.
static constexpr int64_t kGrainWork = 32768;

/// On a device: of more units each block takes several. Some waves of blocks on the largest of them.
static constexpr int64_t kMostBlocks = 8192;

/// Two kernels with one key share code: the body without locations and discardable attributes, the workspaces, and what
/// is known of buffers' addresses.
static std::string keyOf(KernelRegionOp kernel, ArrayRef<int64_t> alignments) {
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
  llvm::interleaveComma(clone->getResultCounts(), os);
  for (Operation &op : clone->getBody().front())
    op.print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
  for (Type type : kernel.getInputs().getTypes())
    os << type << ";";
  for (RankedTensorType type : getWorkspaceTypes(kernel))
    os << type << ";";
  llvm::interleaveComma(alignments, os);
  return key;
}

/// What a device's kernel may know of its buffers. Alignments are those of the plan, or would be: every storage begins
/// at a multiple of kAlignment.
static KernelBuffers getBuffers(KernelRegionOp kernel, const Aliases &aliases) {
  constexpr int64_t widest = 16; // what no access asks more of
  KernelBuffers buffers;
  auto add = [&](int64_t alignment, bool isReadOnly) {
    buffers.places.push_back(buffers.places.size());
    buffers.alignments.push_back(std::min(alignment, widest));
    buffers.isReadOnly.push_back(isReadOnly);
  };
  unsigned operands = kernel->getNumOperands();
  for (Value operand : kernel->getOperands())
    add(aliases.getPlace(operand).getAlignment(), true);
  for (OpResult result : kernel->getResults()) {
    unsigned number = result.getResultNumber(), place = buffers.places.size();
    add(aliases.getPlace(result).getAlignment(), false);
    std::optional<Tie> tie = kernel.getTie(number);
    for (unsigned i = 0; i < operands; ++i) {
      bool isTied = tie && tie->operand == i;
      if (isTied)
        buffers.isReadOnly[i] = false;
      if (unsigned shared = buffers.places[i]; isTied || mayOverwrite(kernel, i, number))
        llvm::replace(buffers.places, shared, place);
    }
  }
  for (unsigned i = 0, count = getWorkspaceTypes(kernel).size(); i < count; ++i)
    add(kAlignment, false);
  return buffers;
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

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::emitKernels(ModuleOp module) {
  MLIRContext *context = module.getContext();
  context->loadDialect<func::FuncDialect, arith::ArithDialect, math::MathDialect, memref::MemRefDialect,
                       scf::SCFDialect, gpu::GPUDialect, vector::VectorDialect, NVVM::NVVMDialect>();
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
  std::optional<Aliases> aliases; // of the function under way
  func::FuncOp aliased;
  auto result = module.walk([&](KernelRegionOp kernel) {
    KernelBuffers buffers;
    if (isDevice) {
      auto function = kernel->getParentOfType<func::FuncOp>();
      if (function != aliased) {
        FailureOr<Aliases> computed = Aliases::compute(function);
        if (failed(computed))
          return WalkResult::interrupt();
        aliases = std::move(*computed);
        aliased = function;
      }
      buffers = getBuffers(kernel, *aliases);
    }
    auto [entry, isNew] = known.try_emplace(keyOf(kernel, buffers.alignments));
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
        emitted.ofDevice = expandUnitsForDevice(function, shape->units, buffers);
      else
        expandUnitsForCpu(function);
    }
    kernel->setAttr(ScrimpDialect::kSymbol, builder.getStringAttr(emitted.symbol));
    kernel->setAttr(ScrimpDialect::kUnits, builder.getI64IntegerAttr(emitted.shape.units));
    kernel->setAttr(ScrimpDialect::kGrain,
                    builder.getI64IntegerAttr(getGrain(kernel, emitted.shape.units, emitted.shape.unitIsElement)));
    if (isDevice) {
      auto [threads, unitsOfBlock] = emitted.ofDevice;
      int64_t blocks = llvm::divideCeil(emitted.shape.units, unitsOfBlock);
      blocks = std::clamp<int64_t>(blocks, 1, kMostBlocks);
      kernel->setAttr(ScrimpDialect::kLaunch, builder.getDenseI64ArrayAttr({blocks, threads, 0}));
    }
    return WalkResult::skip();
  });
  if (result.wasInterrupted())
    return failure();
  builder.setInsertionPointToEnd(kernels->getBody());
  if (isDevice)
    emitRuntimeKernels(builder, module);
  PassManager cleanUp(context);
  cleanUp.addPass(createCanonicalizerPass());
  cleanUp.addPass(createCSEPass());
  if (failed(cleanUp.run(*kernels)))
    return failure();
  return kernels;
}
