#include "ExpandUnits.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::scrimp;

/// The loops from the inside out, so that what is expanded holds no other.
static SmallVector<scf::ParallelOp> collectLoops(func::FuncOp kernel) {
  SmallVector<scf::ParallelOp> loops;
  kernel.walk([&](scf::ParallelOp loop) { loops.push_back(loop); });
  return loops;
}

/// Copies the loop's body at `iv`; gives what it reduces.
static SmallVector<Value> cloneBody(scf::ParallelOp loop, OpBuilder &builder, Value iv) {
  IRMapping mapping;
  mapping.map(loop.getInductionVars()[0], iv);
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value value : loop.getBody()->getTerminator()->getOperands())
    values.push_back(mapping.lookupOrDefault(value));
  return values;
}

/// How reduction `k` of the loop combines two values.
static Value cloneCombine(scf::ParallelOp loop, size_t k, OpBuilder &builder, Value a, Value b) {
  Block &block = cast<scf::ReduceOp>(loop.getBody()->getTerminator()).getReductions()[k].front();
  IRMapping mapping;
  mapping.map(block.getArgument(0), a);
  mapping.map(block.getArgument(1), b);
  for (Operation &op : block.without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(block.getTerminator()->getOperand(0));
}

//===-- A processor ----------------------------------------------------------------------------------------------===//

/// Lanes and block of a reduction. They are part of what it computes: changing one changes bits.
static constexpr int64_t kLanes = 16;
static constexpr int64_t kBlock = 4096;

/// Elements 0 to n - 1; n is constant.
static SmallVector<Value> expandReduce(scf::ParallelOp loop) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  int64_t n = *getConstantIntValue(loop.getUpperBound()[0]);
  SmallVector<Value> neutrals(loop.getInitVals());
  size_t count = neutrals.size();
  SmallVector<Value> lanes;
  for (Value neutral : neutrals)
    lanes.push_back(emitStackBuffer(builder, loc, {kLanes}, neutral.getType()));
  auto combine = [&](OpBuilder &b, size_t k, Value x, Value y) { return cloneCombine(loop, k, b, x, y); };
  auto emitParallel = [&](OpBuilder &b, int64_t size, llvm::function_ref<void(OpBuilder &, Value)> body) {
    auto lane = scf::ForOp::create(b, loc, emitIndex(b, loc, 0), emitIndex(b, loc, size), emitIndex(b, loc, 1));
    lane->setAttr(ScrimpDialect::kParallel, b.getUnitAttr());
    OpBuilder inside = OpBuilder::atBlockBegin(lane.getBody());
    body(inside, lane.getInductionVar());
  };
  auto accumulate = [&](OpBuilder &b, Value lane, Value j) {
    SmallVector<Value> values = cloneBody(loop, b, j);
    for (size_t k = 0; k < count; ++k) {
      Value old = memref::LoadOp::create(b, loc, lanes[k], lane);
      memref::StoreOp::create(b, loc, combine(b, k, old, values[k]), lanes[k], lane);
    }
  };
  // Elements [begin, begin + whole * 16 + rest), then the tree; gives one value per accumulator.
  auto emitBlock = [&](OpBuilder &b, Value begin, int64_t size) {
    emitParallel(b, kLanes, [&](OpBuilder &inner, Value lane) {
      for (size_t k = 0; k < count; ++k)
        memref::StoreOp::create(inner, loc, neutrals[k], lanes[k], lane);
    });
    emitLoop(b, loc, size / kLanes, [&](OpBuilder &outer, Value chunk) {
      Value offset = arith::MulIOp::create(outer, loc, chunk, emitIndex(outer, loc, kLanes));
      Value base = arith::AddIOp::create(outer, loc, begin, offset);
      emitParallel(outer, kLanes, [&](OpBuilder &inner, Value lane) {
        accumulate(inner, lane, arith::AddIOp::create(inner, loc, base, lane));
      });
    });
    Value base = arith::AddIOp::create(b, loc, begin, emitIndex(b, loc, size / kLanes * kLanes));
    emitLoop(b, loc, size % kLanes, [&](OpBuilder &inner, Value lane) {
      accumulate(inner, lane, arith::AddIOp::create(inner, loc, base, lane));
    });
    SmallVector<Value> totals;
    for (size_t k = 0; k < count; ++k) {
      SmallVector<Value> tree;
      for (int64_t lane = 0; lane < std::min(kLanes, size); ++lane)
        tree.push_back(memref::LoadOp::create(b, loc, lanes[k], emitIndex(b, loc, lane)));
      for (int64_t width = kLanes / 2; width >= 1; width /= 2)
        for (int64_t lane = 0; lane < width; ++lane)
          if (lane + width < static_cast<int64_t>(tree.size()))
            tree[lane] = combine(b, k, tree[lane], tree[lane + width]);
      totals.push_back(tree[0]);
    }
    return totals;
  };

  int64_t blocks = n / kBlock, rest = n % kBlock;
  if (blocks == 0)
    return emitBlock(builder, emitIndex(builder, loc, 0), n);
  auto ofBlocks = scf::ForOp::create(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, blocks),
                                     emitIndex(builder, loc, 1), neutrals);
  {
    OpBuilder inside = OpBuilder::atBlockBegin(ofBlocks.getBody());
    Value begin = arith::MulIOp::create(inside, loc, ofBlocks.getInductionVar(), emitIndex(inside, loc, kBlock));
    SmallVector<Value> totals = emitBlock(inside, begin, kBlock);
    for (size_t k = 0; k < count; ++k)
      totals[k] = combine(inside, k, ofBlocks.getRegionIterArgs()[k], totals[k]);
    scf::YieldOp::create(inside, loc, totals);
  }
  SmallVector<Value> results(ofBlocks.getResults());
  if (rest) {
    SmallVector<Value> totals = emitBlock(builder, emitIndex(builder, loc, blocks * kBlock), rest);
    for (size_t k = 0; k < count; ++k)
      results[k] = combine(builder, k, results[k], totals[k]);
  }
  return results;
}

void mlir::scrimp::expandUnitsForCpu(func::FuncOp kernel) {
  for (scf::ParallelOp loop : collectLoops(kernel)) {
    if (!loop.getInitVals().empty()) {
      loop->replaceAllUsesWith(expandReduce(loop));
      loop->erase();
      continue;
    }
    OpBuilder builder(loop);
    auto inOrder =
        scf::ForOp::create(builder, loop.getLoc(), loop.getLowerBound()[0], loop.getUpperBound()[0], loop.getStep()[0]);
    inOrder->setAttr(ScrimpDialect::kParallel, builder.getUnitAttr());
    loop.getBody()->getTerminator()->erase();
    inOrder.getBody()->getOperations().splice(inOrder.getBody()->begin(), loop.getBody()->getOperations());
    loop.getInductionVars()[0].replaceAllUsesWith(inOrder.getInductionVar());
    loop->erase();
  }
}

//===-- A device -------------------------------------------------------------------------------------------------===//

/// Lanes of a warp.
static constexpr int64_t kWarp = 32;
/// What is assumed of a loop whose length is not constant: they go over blocks of columns.
static constexpr int64_t kUsualLength = 64;
/// Loops up to this length are too short to share.
static constexpr int64_t kShortest = 17;

/// The outermost parallel loop around an op inside the loop over units; null where all threads that share a unit come
/// there together.
static Operation *getSharedLoop(Operation *op, Operation *units) {
  Operation *outermost = nullptr;
  for (Operation *loop = op->getParentOp(); loop && loop != units; loop = loop->getParentOp())
    if (isa<scf::ParallelOp>(loop))
      outermost = loop;
  return outermost;
}

namespace {
/// A load or store of a buffer.
struct Access {
  Operation *op, *loop; // the loop of getSharedLoop
  bool isStore;
  bool isOwn; // iteration i of a loop from 0 on goes to element i, so that each thread has elements of its own
};

/// Shares the units of a kernel out, and a unit's loops where a block's threads work on one together.
class DeviceExpander {
public:
  explicit DeviceExpander(func::FuncOp kernel) : kernel(kernel), loc(kernel.getLoc()) {}
  DeviceShape expand();

private:
  Operation *findUnits();
  void collectAccesses();
  int64_t chooseThreads();
  bool needsBarrier(Operation *loop);
  void shareUnits();
  void expandLoop(scf::ParallelOp loop, bool isShared, bool endsInBarrier);
  Value combineThreads(scf::ParallelOp loop, size_t k, OpBuilder &b, Value value);
  Value exchange(OpBuilder &b, Value value, int64_t distance);
  Value allocateShared(int64_t size, Type type);

  func::FuncOp kernel;
  Location loc;
  Operation *units = nullptr;
  int64_t threads = 0; // that share a unit; 0: each has one of its own
  Value thread;
  llvm::MapVector<Value, SmallVector<Access>> accesses; // by buffer
};
} // namespace

/// The loop over units; of elements it is a parallel one.
Operation *DeviceExpander::findUnits() {
  Value begin = kernel.getArgument(kernel.getNumArguments() - 2);
  for (Operation &op : kernel.getBody().front()) {
    auto loop = dyn_cast<LoopLikeOpInterface>(op);
    if (!loop)
      continue;
    std::optional<SmallVector<OpFoldResult>> lower = loop.getLoopLowerBounds();
    if (lower && lower->size() == 1 && (*lower)[0] == OpFoldResult(begin))
      return &op;
  }
  return nullptr;
}

void DeviceExpander::collectAccesses() {
  kernel.walk([&](Operation *op) {
    auto load = dyn_cast<memref::LoadOp>(op);
    auto store = dyn_cast<memref::StoreOp>(op);
    if (!load && !store)
      return;
    Operation *loop = getSharedLoop(op, units);
    ValueRange indices = load ? ValueRange(load.getIndices()) : ValueRange(store.getIndices());
    auto parallel = cast_or_null<scf::ParallelOp>(loop);
    bool isOwn = parallel && indices.size() == 1 && indices[0] == parallel.getInductionVars()[0] &&
                 getConstantIntValue(parallel.getLowerBound()[0]) == 0;
    accesses[load ? load.getMemRef() : store.getMemRef()].push_back({op, loop, store != nullptr, isOwn});
  });
}

/// How many threads share a unit. What they do outside of its loops they all do alike, so nothing that is stored there
/// may be read again.
int64_t DeviceExpander::chooseThreads() {
  int64_t longest = 0;
  units->walk([&](scf::ParallelOp loop) {
    std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound()[0]);
    std::optional<int64_t> upper = getConstantIntValue(loop.getUpperBound()[0]);
    longest = std::max(longest, lower && upper ? *upper - *lower : kUsualLength);
  });
  if (isa<scf::ParallelOp>(units) || longest < kShortest)
    return 0;
  for (auto &[buffer, list] : accesses)
    if (llvm::any_of(list, [](const Access &access) { return access.isStore && !access.loop; }) &&
        llvm::any_of(list, [](const Access &access) { return !access.isStore; }))
      return 0;
  // A warp needs no shared memory to combine what its lanes have.
  return longest <= 128 ? kWarp : longest <= 1024 ? 128 : 256;
}

/// Whether what the loop stores is read by other threads, or what it reads is stored by others.
bool DeviceExpander::needsBarrier(Operation *loop) {
  return llvm::any_of(accesses, [&](auto &entry) {
    const SmallVector<Access> &list = entry.second;
    return llvm::any_of(list, [&](const Access &access) { return access.loop == loop; }) &&
           llvm::any_of(list, [](const Access &access) { return !access.isStore; }) &&
           llvm::any_of(list, [](const Access &access) { return access.isStore; }) &&
           !llvm::all_of(list, [](const Access &access) { return access.isOwn; });
  });
}

DeviceShape DeviceExpander::expand() {
  units = findUnits();
  if (!units)
    return {};
  collectAccesses();
  threads = chooseThreads();
  OpBuilder builder(units);
  thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  SmallVector<memref::AllocaOp> ofUnits(kernel.getBody().front().getOps<memref::AllocaOp>());
  struct Plan {
    scf::ParallelOp loop;
    bool isShared, endsInBarrier;
  };
  SmallVector<Plan> plans; // before the first of them changes
  for (scf::ParallelOp loop : collectLoops(kernel))
    if (loop != units) {
      bool isShared = threads && !getSharedLoop(loop, units);
      plans.push_back({loop, isShared, isShared && needsBarrier(loop)});
    }
  // One thread stores what all of them have, when all have read what may lie in the same bytes.
  for (auto &[buffer, list] : accesses)
    for (const Access &access : list) {
      if (!threads || !access.isStore || access.loop)
        continue;
      OpBuilder b(access.op);
      gpu::BarrierOp::create(b, loc);
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, thread, emitIndex(b, loc, 0));
      auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
      access.op->moveBefore(branch.thenYield());
    }
  for (const Plan &plan : plans)
    expandLoop(plan.loop, plan.isShared, plan.endsInBarrier);
  if (threads)
    for (memref::AllocaOp alloca : ofUnits) {
      Value shared = allocateShared(alloca.getType().getNumElements(), alloca.getType().getElementType());
      alloca->replaceAllUsesWith(ValueRange{shared});
      alloca->erase();
    }
  shareUnits();
  return {threads ? threads : DeviceShape().threads, threads != 0};
}

void DeviceExpander::shareUnits() {
  OpBuilder b(units);
  Value first = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value step = gpu::GridDimOp::create(b, loc, gpu::Dimension::x);
  if (!threads) {
    Value size = gpu::BlockDimOp::create(b, loc, gpu::Dimension::x);
    first = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, first, size), thread);
    step = arith::MulIOp::create(b, loc, step, size);
  }
  unsigned arguments = kernel.getNumArguments();
  first = arith::AddIOp::create(b, loc, kernel.getArgument(arguments - 2), first);
  if (auto loop = dyn_cast<scf::ForOp>(units)) {
    loop.setLowerBound(first);
    loop.setStep(step);
    return;
  }
  auto ofElements = cast<scf::ParallelOp>(units);
  auto loop = scf::ForOp::create(b, loc, first, kernel.getArgument(arguments - 1), step);
  ofElements.getBody()->getTerminator()->erase();
  loop.getBody()->getOperations().splice(loop.getBody()->begin(), ofElements.getBody()->getOperations());
  ofElements.getInductionVars()[0].replaceAllUsesWith(loop.getInductionVar());
  ofElements->erase();
}

/// A thread's part of a loop, in order, and then what all threads have together.
void DeviceExpander::expandLoop(scf::ParallelOp loop, bool isShared, bool endsInBarrier) {
  OpBuilder b(loop);
  Value lower = loop.getLowerBound()[0], step = loop.getStep()[0];
  if (isShared) {
    lower = arith::AddIOp::create(b, loc, lower, thread);
    step = emitIndex(b, loc, threads);
  }
  SmallVector<Value> neutrals(loop.getInitVals());
  auto own = scf::ForOp::create(b, loc, lower, loop.getUpperBound()[0], step, neutrals);
  OpBuilder inside = OpBuilder::atBlockBegin(own.getBody());
  SmallVector<Value> values = cloneBody(loop, inside, own.getInductionVar());
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = cloneCombine(loop, k, inside, own.getRegionIterArgs()[k], values[k]);
  if (!values.empty())
    scf::YieldOp::create(inside, loc, values);
  SmallVector<Value> results(own.getResults());
  for (size_t k = 0; isShared && k < results.size(); ++k)
    results[k] = combineThreads(loop, k, b, results[k]);
  if (endsInBarrier)
    gpu::BarrierOp::create(b, loc);
  loop->replaceAllUsesWith(results);
  loop->erase();
}

/// What the lane has whose number differs in the bit `distance`.
Value DeviceExpander::exchange(OpBuilder &b, Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  if (bits < 32) // integers
    return arith::TruncIOp::create(b, loc, type, exchange(b, arith::ExtSIOp::create(b, loc, i32, value), distance));
  if (bits == 32) {
    auto number = [&](int64_t n) -> Value { return arith::ConstantIntOp::create(b, loc, n, 32); };
    return gpu::ShuffleOp::create(b, loc, value, number(distance), number(kWarp), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  }
  Value whole = type == i64 ? value : Value(arith::BitcastOp::create(b, loc, i64, value));
  Value shift = arith::ConstantIntOp::create(b, loc, 32, 64);
  Value low = exchange(b, arith::TruncIOp::create(b, loc, i32, whole), distance);
  Value high =
      exchange(b, arith::TruncIOp::create(b, loc, i32, arith::ShRUIOp::create(b, loc, whole, shift)), distance);
  Value upper = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i64, high), shift);
  whole = arith::OrIOp::create(b, loc, upper, arith::ExtUIOp::create(b, loc, i64, low));
  return type == i64 ? whole : Value(arith::BitcastOp::create(b, loc, type, whole));
}

Value DeviceExpander::allocateShared(int64_t size, Type type) {
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  return memref::AllocaOp::create(b, loc, MemRefType::get({size}, type, MemRefLayoutAttrInterface(), space));
}

/// The same value in all threads: lanes combine in pairs, then with the other pair, and so on; warps in order.
Value DeviceExpander::combineThreads(scf::ParallelOp loop, size_t k, OpBuilder &b, Value value) {
  for (int64_t distance = kWarp / 2; distance; distance /= 2)
    value = cloneCombine(loop, k, b, value, exchange(b, value, distance));
  if (threads == kWarp)
    return value;
  Value ofWarps = allocateShared(threads / kWarp, value.getType()), width = emitIndex(b, loc, kWarp);
  Value lane = arith::RemUIOp::create(b, loc, thread, width);
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, emitIndex(b, loc, 0));
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder then = branch.getThenBodyBuilder();
  memref::StoreOp::create(then, loc, value, ofWarps, Value(arith::DivUIOp::create(then, loc, thread, width)));
  gpu::BarrierOp::create(b, loc);
  Value total = memref::LoadOp::create(b, loc, ofWarps, emitIndex(b, loc, 0));
  for (int64_t warp = 1; warp < threads / kWarp; ++warp) {
    Value next = memref::LoadOp::create(b, loc, ofWarps, emitIndex(b, loc, warp));
    total = cloneCombine(loop, k, b, total, next);
  }
  // The next unit's warps write there.
  gpu::BarrierOp::create(b, loc);
  return total;
}

DeviceShape mlir::scrimp::expandUnitsForDevice(func::FuncOp kernel) { return DeviceExpander(kernel).expand(); }
