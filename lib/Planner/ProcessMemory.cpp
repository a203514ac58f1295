#include "scrimp/Planner/ProcessMemory.h"

#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Analysis/LibraryWork.h"

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::BlasBlocks;
using ::scrimp::runtime::BlasPacks;
using ::scrimp::runtime::BlasProduct;

namespace {
struct BlasKernels {
  StringLiteral needs;
  BlasBlocks blocks;
};
} // namespace

/// Of OpenBLAS 0.3.21 (param.h; found again by what its buffers hold after products of known shapes), best first.
static constexpr BlasKernels kBlasKernels[] = {
    {"avx512bf16", {640, 320, 192, 384}}, // Cooperlake
    {"avx512f", {448, 448, 192, 384}},    // SkylakeX
    {"avx2", {320, 320, 512, 256}},       // Haswell, Zen
    {"avx", {768, 384, 512, 256}},        // Sandybridge
    {"", {504, 512, 504, 256}},           // Nehalem
};

SmallVector<BlasBlocks> mlir::scrimp::findBlasKernels(ArrayRef<std::string> features, bool isExact) {
  SmallVector<BlasBlocks> found;
  for (const BlasKernels &kernels : kBlasKernels) {
    bool isBest = kernels.needs.empty() || llvm::is_contained(features, kernels.needs);
    if (isBest || !isExact)
      found.push_back(kernels.blocks);
    if (isBest)
      break;
  }
  return found;
}

/// Reserved, not measured: the program measures what there is, before its first step.
static ProcessMemory reserveOnGpu(ModuleOp planned) {
  constexpr int64_t MiB = 1 << 20, context = 512 * MiB, images = 16 * MiB, node = 2 << 10, products = 64 * MiB,
                    channels = 384 * MiB, exchanged = 2 * 64 * MiB; // NCCL's; what reductions receive and send
  int64_t commands = 0;
  planned.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool isCommand = isa<KernelOp, KernelRegionOp>(op) && !isViewLike(op);
    commands += isCommand;
    return isCommand ? WalkResult::skip() : WalkResult::advance();
  });
  bool hasRanks = getNumRanks(planned) > 1;
  ProcessMemory memory;
  memory.code = context + images + commands * node;
  memory.data = hasRanks ? exchanged : 0;
  memory.library = products + (hasRanks ? channels : 0);
  return memory;
}

ProcessMemory mlir::scrimp::computeBesideArena(ModuleOp planned, ArrayRef<BlasBlocks> kernels) {
  if (TargetAttr::of(planned).getKind() == TargetKind::cuda)
    return reserveOnGpu(planned);
  int64_t workers = TargetAttr::of(planned).getWorkers();
  constexpr int64_t KiB = 1 << 10, libraries = 8128 * KiB, runtime = 2304 * KiB, stack = 160 * KiB, command = KiB;
  int64_t commands = 0;
  SmallVector<BlasProduct> products;
  planned.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto kernel = dyn_cast<KernelOp>(op);
    if ((!kernel && !isa<KernelRegionOp>(op)) || isViewLike(op))
      return WalkResult::advance();
    ++commands;
    if (kernel && kernel.getKernelFamily() == KernelFamily::Library)
      llvm::append_range(products, computeLibraryWork(kernel).products);
    return WalkResult::skip(); // what a kernel holds is not a command
  });
  ProcessMemory memory;
  memory.code = libraries + commands * command / 2;
  memory.data = runtime + workers * stack + commands * command / 2;
  for (const BlasBlocks &blocks : kernels) {
    BlasPacks most{0, 0};
    for (const BlasProduct &product : products) {
      BlasPacks packs = blasPacks(product, blocks);
      most = {std::max(most.columns, packs.columns), std::max(most.rows, packs.rows)};
    }
    constexpr int64_t pages = 16 * KiB; // that the two begin and end in
    memory.library = std::max(memory.library, workers * (most.columns + most.rows + pages));
  }
  return memory;
}
