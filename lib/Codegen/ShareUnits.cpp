// Units of a kernel, shared out over the threads of a device.
#include "ExpandUnits.h"
#include "Lanes.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Lanes of a warp, and warps of a block where each has a unit of its own.
static constexpr int64_t kWarp = 32, kMostWarps = 8;
/// Of fewer units than this each multiprocessor should have a block.
static constexpr int64_t kFewBlocks = 256;
/// What is assumed of a loop whose length is not constant: they go over blocks of columns.
static constexpr int64_t kUsualLength = 64;
/// Loops up to this length are too short to share.
static constexpr int64_t kShortest = 17;
/// What begins of elements are multiples of.
static constexpr int64_t kMostWidth = 8;
/// Groups that a thread keeps of a row that several loops read; and the code that it may become.
static constexpr int64_t kMostGroups = 8, kMostCode = 6000;

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
/// A loop inside a unit.
struct UnitLoop {
  scf::ParallelOp loop;
  int64_t count = 0;     // iterations; 0: not constant
  int64_t most = 0;      // iterations, as far as is known
  bool isShared = false; // by the threads of the unit
  int64_t width = 1;     // iterations that a thread takes at once
  bool beginsInBarrier = false, endsInBarrier = false;
  /// A thread has all its elements of these loads, for loops behind this one. By group.
  SmallVector<memref::LoadOp> kept;
  SmallVector<llvm::DenseMap<Operation *, SmallVector<Value>>> keptValues;
  llvm::DenseMap<Operation *, std::pair<UnitLoop *, Operation *>> known; // loads that a loop before keeps
  bool isUnrolled = false;

  Value lower() { return loop.getLowerBound()[0]; }
  Value upper() { return loop.getUpperBound()[0]; }
  Value iv() { return loop.getInductionVars()[0]; }
  /// Whether element i of both is the same thread's.
  bool isAlike(UnitLoop &other) {
    return width == other.width && isSameExpression(lower(), other.lower()) && isSameExpression(upper(), other.upper());
  }
};

/// Whether an index changes with a loop in order inside the unit: then an element may go from thread to thread.
bool changesInUnit(Value index, Operation *units) {
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    Operation *owner = argument.getOwner()->getParentOp();
    return owner != units && !isa<scf::ParallelOp, func::FuncOp>(owner);
  }
  return llvm::any_of(index.getDefiningOp()->getOperands(), [&](Value v) { return changesInUnit(v, units); });
}

/// A load or store of a buffer.
struct Access {
  Operation *op;
  UnitLoop *loop; // the outermost; none: all threads do it
  bool isStore;
  Value index;

  /// Whether both are of one thread's own elements.
  bool isAlike(const Access &other) const {
    return loop && other.loop && index && other.index && loop->isAlike(*other.loop) &&
           isSameExpression(index, other.index, loop->iv(), other.loop->iv());
  }
};

class DeviceExpander {
public:
  DeviceExpander(func::FuncOp kernel, int64_t numUnits, const KernelBuffers &buffers)
      : kernel(kernel), loc(kernel.getLoc()), numUnits(numUnits), buffers(buffers) {}
  DeviceShape expand();

private:
  Operation *findUnits();
  void collectUnitLoops();
  void collectAccesses();
  void chooseThreads();
  void findOwnBuffers();
  void placeBarriers();
  void planKept();
  DeviceShape shareUnits();
  DeviceShape shareElements(scf::ParallelOp loop);
  void storeOnce();
  void expandLoop(UnitLoop &plan);
  void emitGroup(OpBuilder &b, UnitLoop &plan, const Lanes &lanes, Value first, Lanes::Context &context,
                 SmallVectorImpl<Value> &sums);
  void emitUnrolled(OpBuilder &b, UnitLoop &plan, const Lanes &lanes, Value start, SmallVectorImpl<Value> &sums);
  Value combineThreads(scf::ParallelOp loop, size_t k, OpBuilder &b, Value value);
  Value exchange(OpBuilder &b, Value value, int64_t distance);
  Value allocateShared(int64_t size, Type type);
  void emitBarrier(OpBuilder &b);

  func::FuncOp kernel;
  Location loc;
  int64_t numUnits;
  const KernelBuffers &buffers;
  Operation *units = nullptr;
  std::vector<std::unique_ptr<UnitLoop>> loops;          // from the inside out, otherwise in order
  int64_t threads = 0;                                   // that share a unit; 0: each has one of its own
  int64_t warps = 1;                                     // of a block, each with a unit
  Value thread, inBlock;                                 // number among those of the unit, of the block
  llvm::MapVector<void *, SmallVector<Access>> accesses; // by what may be the same bytes
  llvm::MapVector<Value, SmallVector<Access>> ofBuffer;
  llvm::DenseMap<Value, Value> own; // buffers of a unit that are a thread's own
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

/// Loops that are alike take the width of the widest, so that each of their elements is one thread's.
void DeviceExpander::collectUnitLoops() {
  for (scf::ParallelOp loop : collectLoops(kernel)) {
    if (loop == units)
      continue;
    auto plan = std::make_unique<UnitLoop>();
    plan->loop = loop;
    std::optional<int64_t> lower = getConstantIntValue(plan->lower()), upper = getConstantIntValue(plan->upper());
    plan->count = lower && upper ? *upper - *lower : 0;
    plan->most = plan->count ? plan->count : kUsualLength;
    // A block of columns ends at min(begin + its length, all).
    if (auto least = plan->upper().getDefiningOp<arith::MinUIOp>())
      for (Value each : least->getOperands()) {
        auto sum = each.getDefiningOp<arith::AddIOp>();
        if (std::optional<int64_t> bound = lower == int64_t(0)                    ? getConstantIntValue(each)
                                           : sum && sum.getLhs() == plan->lower() ? getConstantIntValue(sum.getRhs())
                                                                                  : std::nullopt)
          plan->most = *bound;
      }
    loops.push_back(std::move(plan));
  }
  auto hasRegions = [](UnitLoop &plan) {
    return llvm::any_of(plan.loop.getBody()->without_terminator(),
                        [](Operation &op) { return op.getNumRegions() > 0; });
  };
  // Widths are part of the order of sums, so no address may decide them; it does decide what one access takes.
  KernelBuffers aligned = buffers;
  llvm::fill(aligned.alignments, kAlignment);
  SmallVector<int64_t> widths;
  for (auto &plan : loops)
    widths.push_back(
        getSharedLoop(plan->loop, units) ? 1 : chooseWidth(plan->loop, plan->most, factorOf(plan->lower()), aligned));
  for (auto &plan : loops) {
    int64_t widest = 1;
    bool canAll = true;
    for (auto [other, width] : llvm::zip(loops, widths))
      if (isSameExpression(plan->lower(), other->lower()) && isSameExpression(plan->upper(), other->upper()) &&
          !getSharedLoop(other->loop, units)) {
        widest = std::max(widest, width);
        canAll &= !hasRegions(*other);
      }
    if (canAll && !getSharedLoop(plan->loop, units))
      plan->width = widest;
  }
}

void DeviceExpander::collectAccesses() {
  kernel.walk([&](Operation *op) {
    auto load = dyn_cast<memref::LoadOp>(op);
    auto store = dyn_cast<memref::StoreOp>(op);
    if (!load && !store)
      return;
    Operation *outermost = getSharedLoop(op, units);
    auto plan = llvm::find_if(loops, [&](auto &each) { return outermost && each->loop == outermost; });
    ValueRange indices = load ? ValueRange(load.getIndices()) : ValueRange(store.getIndices());
    Value buffer = load ? load.getMemRef() : store.getMemRef();
    Access access{op, plan == loops.end() ? nullptr : plan->get(), store != nullptr,
                  indices.size() == 1 && !changesInUnit(indices[0], units) ? indices[0] : Value()};
    ofBuffer[buffer].push_back(access);
    auto argument = dyn_cast<BlockArgument>(buffer);
    void *bytes = argument ? kernel.getArgument(buffers.places[argument.getArgNumber()]).getAsOpaquePointer()
                           : buffer.getAsOpaquePointer();
    accesses[bytes].push_back(access);
  });
}

/// How many threads share a unit. What they do outside of its loops they all do alike, so nothing that is stored there
/// may be read again.
void DeviceExpander::chooseThreads() {
  int64_t longest = 0, groups = 0;
  for (auto &plan : loops) {
    longest = std::max(longest, plan->most);
    groups = std::max<int64_t>(groups, llvm::divideCeil(plan->most, plan->width));
  }
  if (isa<scf::ParallelOp>(units) || longest < kShortest)
    return;
  for (auto &[buffer, list] : ofBuffer)
    if (llvm::any_of(list, [](const Access &access) { return access.isStore && !access.loop; }) &&
        llvm::any_of(list, [](const Access &access) { return !access.isStore; }))
      return;
  // A warp needs no shared memory to combine what its lanes have; each thread has up to 8 groups of a row.
  threads = groups <= 256 ? kWarp : groups <= 1024 ? 128 : groups <= 2048 ? 256 : 512;
  for (auto &plan : loops)
    plan->isShared = !getSharedLoop(plan->loop, units);
}

/// Buffers of which each thread reads what it has stored itself, one group at most.
void DeviceExpander::findOwnBuffers() {
  if (!threads)
    return;
  for (auto &[buffer, list] : ofBuffer) {
    auto alloca = buffer.getDefiningOp<memref::AllocaOp>();
    if (!alloca)
      continue;
    const Access &first = list.front();
    if (!llvm::all_of(list,
                      [&](const Access &access) {
                        return access.isAlike(first) && access.index == access.loop->iv() &&
                               access.op->getParentOp() == access.loop->loop &&
                               getConstantIntValue(access.loop->lower()) == int64_t(0);
                      }) ||
        alloca.getType().getNumElements() > threads * first.loop->width)
      continue;
    // The groups' elements, and one behind the last whole group.
    OpBuilder b(alloca);
    own[buffer] =
        memref::AllocaOp::create(b, loc, MemRefType::get({first.loop->width + 1}, alloca.getType().getElementType()));
  }
}

/// Where other threads read what a thread stores, or store what it reads, they wait for each other.
void DeviceExpander::placeBarriers() {
  for (auto &[bytes, list] : accesses) {
    bool isWritten = llvm::any_of(list, [](const Access &access) { return access.isStore; });
    bool isRead = llvm::any_of(list, [](const Access &access) { return !access.isStore; });
    if (!threads || !isWritten || !isRead ||
        llvm::all_of(list, [&](const Access &access) { return access.isAlike(list.front()); }))
      continue;
    bool isReadByAll = llvm::any_of(list, [](const Access &access) { return !access.loop && !access.isStore; });
    for (const Access &access : list)
      if (access.loop) {
        access.loop->endsInBarrier = true;
        access.loop->beginsInBarrier |= isReadByAll && access.isStore;
      }
  }
}

/// Elements of a row that several loops read: a thread keeps its own from the first.
void DeviceExpander::planKept() {
  SmallVector<std::pair<UnitLoop *, memref::LoadOp>> reads;
  auto isSmall = [&](UnitLoop &plan) {
    int64_t groups = llvm::divideCeil(plan.count, threads * plan.width);
    return plan.count && groups <= kMostGroups && groups * plan.width * measureBody(plan.loop) <= kMostCode;
  };
  for (auto &plan : loops) {
    if (!plan->isShared || !isSmall(*plan))
      continue;
    for (auto load : plan->loop.getBody()->getOps<memref::LoadOp>()) {
      auto buffer = dyn_cast<BlockArgument>(load.getMemRef());
      if (!buffer || !buffers.isReadOnly[buffer.getArgNumber()] || load.getIndices().size() != 1)
        continue;
      Value index = load.getIndices()[0];
      auto before = llvm::find_if(reads, [&](auto &read) {
        auto [loop, earlier] = read;
        return earlier.getMemRef() == buffer && loop != plan.get() && loop->isAlike(*plan) &&
               loop->loop->getBlock() == plan->loop->getBlock() &&
               isSameExpression(earlier.getIndices()[0], index, loop->iv(), plan->iv());
      });
      if (before == reads.end()) {
        reads.push_back({plan.get(), load});
        continue;
      }
      auto [keeper, kept] = *before;
      plan->known[load] = {keeper, kept};
      if (!llvm::is_contained(keeper->kept, kept))
        keeper->kept.push_back(kept);
      keeper->isUnrolled = plan->isUnrolled = true;
    }
  }
}

/// One thread stores what all of them have, when all have read what may lie in the same bytes.
void DeviceExpander::storeOnce() {
  for (auto &[bytes, list] : accesses)
    for (const Access &access : list) {
      if (!threads || !access.isStore || access.loop)
        continue;
      OpBuilder b(access.op);
      if (llvm::any_of(list, [](const Access &other) { return !other.isStore; }))
        emitBarrier(b);
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, thread, emitIndex(b, loc, 0));
      auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
      access.op->moveBefore(branch.thenYield());
    }
}

DeviceShape DeviceExpander::expand() {
  units = findUnits();
  if (!units)
    return {};
  collectUnitLoops();
  collectAccesses();
  chooseThreads();
  OpBuilder builder(units);
  thread = inBlock = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  SmallVector<memref::AllocaOp> ofUnits(kernel.getBody().front().getOps<memref::AllocaOp>());
  findOwnBuffers();
  if (threads == kWarp && llvm::all_of(ofUnits, [&](Value buffer) { return own.contains(buffer); }))
    warps = std::clamp<int64_t>(llvm::bit_floor(static_cast<uint64_t>(numUnits / kFewBlocks)), 1, kMostWarps);
  if (warps > 1)
    thread = arith::RemUIOp::create(builder, loc, inBlock, emitIndex(builder, loc, kWarp));
  placeBarriers();
  if (threads)
    planKept();
  storeOnce();
  for (auto &plan : loops)
    expandLoop(*plan);
  for (memref::AllocaOp alloca : ofUnits) {
    if (!threads)
      break;
    if (!own.contains(alloca))
      alloca->replaceAllUsesWith(
          ValueRange{allocateShared(alloca.getType().getNumElements(), alloca.getType().getElementType())});
    alloca->erase();
  }
  if (auto elements = dyn_cast<scf::ParallelOp>(units))
    return shareElements(elements);
  return shareUnits();
}

DeviceShape DeviceExpander::shareUnits() {
  DeviceShape shape;
  if (threads)
    shape = {threads * warps, warps};
  OpBuilder b(units);
  Value first = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value step = gpu::GridDimOp::create(b, loc, gpu::Dimension::x);
  if (shape.unitsOfBlock > 1) {
    Value count = gpu::BlockDimOp::create(b, loc, gpu::Dimension::x), inner = inBlock;
    if (threads) {
      count = emitIndex(b, loc, warps);
      inner = arith::DivUIOp::create(b, loc, inBlock, emitIndex(b, loc, kWarp));
    }
    first = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, first, count), inner);
    step = arith::MulIOp::create(b, loc, step, count);
  }
  auto loop = cast<scf::ForOp>(units);
  loop.setLowerBound(arith::AddIOp::create(b, loc, kernel.getArgument(kernel.getNumArguments() - 2), first));
  loop.setStep(step);
  return shape;
}

/// Each thread takes `width` elements; those behind the last whole group go to a thread each.
DeviceShape DeviceExpander::shareElements(scf::ParallelOp loop) {
  int64_t width = chooseWidth(loop, numUnits, kMostWidth, buffers);
  DeviceShape shape;
  shape.unitsOfBlock = shape.threads * width;
  OpBuilder b(loop);
  Value begin = loop.getLowerBound()[0], end = loop.getUpperBound()[0];
  Value size = gpu::BlockDimOp::create(b, loc, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value number = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, block, size), inBlock);
  Value count = arith::MulIOp::create(b, loc, gpu::GridDimOp::create(b, loc, gpu::Dimension::x), size);
  auto emit = [&](int64_t taken, Value from) {
    Value each = emitIndex(b, loc, taken);
    Value first = arith::AddIOp::create(b, loc, from, arith::MulIOp::create(b, loc, number, each));
    Value bound = arith::SubIOp::create(b, loc, end, emitIndex(b, loc, taken - 1));
    auto groups = scf::ForOp::create(b, loc, first, bound, arith::MulIOp::create(b, loc, count, each));
    OpBuilder inside = OpBuilder::atBlockBegin(groups.getBody());
    Lanes::Context context;
    Lanes(loop, taken, taken, buffers).emit(inside, groups.getInductionVar(), context);
  };
  emit(width, begin);
  if (numUnits % width) {
    Value rest = arith::RemUIOp::create(b, loc, arith::SubIOp::create(b, loc, end, begin), emitIndex(b, loc, width));
    emit(1, arith::SubIOp::create(b, loc, end, rest));
  }
  loop->erase();
  return shape;
}

//===-- A loop of a unit -----------------------------------------------------------------------------------------===//

/// One group; what it reduces is combined as a tree and joins `sums`.
void DeviceExpander::emitGroup(OpBuilder &b, UnitLoop &plan, const Lanes &lanes, Value first, Lanes::Context &context,
                               SmallVectorImpl<Value> &sums) {
  context.own = &own;
  SmallVector<SmallVector<Value>> values = lanes.emit(b, first, context);
  for (size_t k = 0; k < sums.size(); ++k) {
    for (size_t distance = values.size() / 2; distance; distance /= 2)
      for (size_t lane = 0; lane < distance; ++lane)
        values[lane][k] = cloneCombine(plan.loop, k, b, values[lane][k], values[lane + distance][k]);
    sums[k] = cloneCombine(plan.loop, k, b, sums[k], values[0][k]);
  }
}

/// All groups of a thread one behind the other, so that what it keeps of them are values.
void DeviceExpander::emitUnrolled(OpBuilder &b, UnitLoop &plan, const Lanes &lanes, Value start,
                                  SmallVectorImpl<Value> &sums) {
  int64_t whole = plan.count / plan.width * plan.width, stride = threads * plan.width;
  for (int64_t begin = 0; begin < whole; begin += stride) {
    Value first = arith::AddIOp::create(b, loc, start, emitIndex(b, loc, begin));
    size_t number = begin / stride;
    Lanes::Context context;
    for (auto [load, from] : plan.known)
      context.known[load] = from.first->keptValues[number].lookup(from.second);
    if (begin + stride <= whole) {
      emitGroup(b, plan, lanes, first, context, sums);
      plan.keptValues.push_back(std::move(context.loaded));
      continue;
    }
    // Only some threads have such a group.
    SmallVector<Type> types(ValueRange(sums).getTypes());
    for (memref::LoadOp load : plan.kept)
      llvm::append_range(types, lanes.getLoadedTypes(load));
    Value end = arith::AddIOp::create(b, loc, plan.lower(), emitIndex(b, loc, whole));
    Value isThere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, first, end);
    auto branch = scf::IfOp::create(b, loc, types, isThere, /*withElseRegion=*/!types.empty());
    OpBuilder then = branch.getThenBodyBuilder();
    SmallVector<Value> yielded(sums.begin(), sums.end()), otherwise(yielded);
    emitGroup(then, plan, lanes, first, context, yielded);
    for (memref::LoadOp load : plan.kept)
      llvm::append_range(yielded, context.loaded[load]);
    if (!types.empty()) {
      scf::YieldOp::create(then, loc, yielded);
      OpBuilder other = branch.getElseBodyBuilder();
      for (Type type : ArrayRef(types).drop_front(sums.size()))
        otherwise.push_back(arith::ConstantOp::create(other, loc, other.getZeroAttr(type)));
      scf::YieldOp::create(other, loc, otherwise);
    }
    ValueRange results = branch.getResults();
    sums.assign(results.begin(), results.begin() + sums.size());
    results = results.drop_front(sums.size());
    auto &kept = plan.keptValues.emplace_back();
    for (memref::LoadOp load : plan.kept) {
      size_t count = lanes.getLoadedTypes(load).size();
      kept[load] = SmallVector<Value>(results.take_front(count));
      results = results.drop_front(count);
    }
  }
}

/// A thread's part of a loop, in order, and then what all threads have together.
void DeviceExpander::expandLoop(UnitLoop &plan) {
  scf::ParallelOp loop = plan.loop;
  OpBuilder b(loop);
  if (plan.beginsInBarrier)
    emitBarrier(b);
  int64_t width = plan.isShared ? plan.width : 1, stride = plan.isShared ? threads * width : 1;
  Lanes lanes(loop, width, factorOf(plan.lower()), buffers);
  SmallVector<Value> sums(loop.getInitVals());
  auto emitLoop = [&](const Lanes &each, Value from, Value bound, int64_t step, int64_t slot) {
    auto groups = scf::ForOp::create(b, loc, from, bound, emitIndex(b, loc, step), sums);
    OpBuilder inside = OpBuilder::atBlockBegin(groups.getBody());
    SmallVector<Value> next(groups.getRegionIterArgs());
    Lanes::Context context;
    context.slot = slot;
    emitGroup(inside, plan, each, groups.getInductionVar(), context, next);
    if (!next.empty())
      scf::YieldOp::create(inside, loc, next);
    sums.assign(groups.getResults().begin(), groups.getResults().end());
  };
  Value start = plan.lower(), upper = plan.upper();
  if (plan.isShared)
    start = arith::AddIOp::create(b, loc, start, arith::MulIOp::create(b, loc, thread, emitIndex(b, loc, width)));
  if (plan.isUnrolled)
    emitUnrolled(b, plan, lanes, start, sums);
  else
    emitLoop(lanes, start, arith::SubIOp::create(b, loc, upper, emitIndex(b, loc, width - 1)), stride, 0);
  if (width > 1 && (!plan.count || plan.count % width)) {
    Value count = arith::SubIOp::create(b, loc, upper, plan.lower());
    Value rest = arith::RemUIOp::create(b, loc, count, emitIndex(b, loc, width));
    Value first = arith::AddIOp::create(b, loc, arith::SubIOp::create(b, loc, upper, rest), thread);
    emitLoop(Lanes(loop, 1, 1, buffers), first, upper, threads, width);
  }
  for (size_t k = 0; plan.isShared && k < sums.size(); ++k)
    sums[k] = combineThreads(loop, k, b, sums[k]);
  if (plan.endsInBarrier)
    emitBarrier(b);
  loop->replaceAllUsesWith(sums);
  loop->erase();
}

//===-- Threads together -----------------------------------------------------------------------------------------===//

/// Of those that share a unit.
void DeviceExpander::emitBarrier(OpBuilder &b) {
  if (threads == kWarp)
    NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
  else
    gpu::BarrierOp::create(b, loc);
}

/// What the lane has whose number differs in the bit `distance`.
Value DeviceExpander::exchange(OpBuilder &b, Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  if (auto vector = dyn_cast<VectorType>(type)) {
    SmallVector<Value> elements;
    for (int64_t k = 0; k < vector.getNumElements(); ++k)
      elements.push_back(exchange(b, vector::ExtractOp::create(b, loc, value, k), distance));
    return vector::FromElementsOp::create(b, loc, vector, elements);
  }
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

DeviceShape mlir::scrimp::expandUnitsForDevice(func::FuncOp kernel, int64_t units, const KernelBuffers &buffers) {
  return DeviceExpander(kernel, units, buffers).expand();
}
