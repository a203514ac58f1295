// scrimp.cmd.*: what must hold of a program before it is serialised. The runtime checks the same again
// (runtime/lib/common/VerifyProgram.cpp), since it does not trust the file.
#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

/// How often each repeat around `op` runs, outermost first.
static SmallVector<int64_t> countsAround(Operation *op) {
  SmallVector<int64_t> counts;
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (auto repeat = dyn_cast<CmdRepeatOp>(parent))
      counts.push_back(repeat.getCount());
  std::reverse(counts.begin(), counts.end());
  return counts;
}

/// Whether the op's ranges stay inside the arena in all iterations. Fails after an error.
static LogicalResult verifyRanges(CommandOp op) {
  auto program = op->getParentOfType<CmdProgramOp>();
  if (!program)
    return op->emitOpError() << "stands outside of a scrimp.cmd.program";
  SmallVector<int64_t> counts = countsAround(op);
  for (auto [i, range] : llvm::enumerate(op.getRanges())) {
    ArrayRef<int64_t> strides = range.getStrides();
    if (!strides.empty() && strides.size() != counts.size())
      return op->emitOpError() << "range " << i << " has " << strides.size() << " strides inside " << counts.size()
                               << " repeats";
    __int128 begin = range.getOffset(), end = begin + range.getBytes();
    for (auto [stride, count] : llvm::zip(strides, counts))
      (stride < 0 ? begin : end) += static_cast<__int128>(stride) * (count - 1);
    int64_t perRank = range.getRankStride(), world = program.getWorld();
    (perRank < 0 ? begin : end) += static_cast<__int128>(perRank) * (world - 1);
    if (begin < 0 || end > static_cast<__int128>(program.getArenaBytes()))
      return op->emitOpError() << "range " << i << ", " << range << ", leaves the arena of " << program.getArenaBytes()
                               << " bytes";
  }
  return success();
}

static SmallVector<RangeAttr> rangesOf(ArrayAttr buffers) { return llvm::to_vector(buffers.getAsRange<RangeAttr>()); }

/// A tensor's place as a range.
static SmallVector<RangeAttr> placeOf(MLIRContext *context, Type type, int64_t offset) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return {RangeAttr::get(context, offset, tensor ? bytesOf(tensor) : elementBytesOf(type))};
}

//===-- Tables ---------------------------------------------------------------------------------------------------===//

LogicalResult CmdProgramOp::verify() {
  if (static_cast<int64_t>(getWorld()) < 1)
    return emitOpError() << "runs on at least one rank, found " << getWorld();
  if (static_cast<int64_t>(getArenaBytes()) < 0 || static_cast<int64_t>(getAlignment()) < 1)
    return emitOpError() << "has an arena of " << getArenaBytes() << " bytes with alignment " << getAlignment();
  for (Operation &op : getBody().front())
    if (!isa<CmdSegmentOp, CmdTensorOp, CmdCarriedOp, CmdInputOp, CmdScalarOp, CmdHyperparameterOp, CmdKernelOp,
             CmdGraphOp>(op))
      return op.emitOpError() << "is no table of a program";
  return success();
}

SmallVector<RangeAttr> CmdSegmentOp::getRanges() { return {getPlace()}; }
LogicalResult CmdSegmentOp::verify() { return verifyRanges(*this); }

SmallVector<RangeAttr> CmdTensorOp::getRanges() {
  auto type = cast<RankedTensorType>(getType());
  if (int64_t part = getPartElements(); part > 0)
    type = RankedTensorType::get({part}, type.getElementType());
  return placeOf(getContext(), type, getOffset());
}

LogicalResult CmdTensorOp::verify() {
  int64_t part = getPartElements(), begin = getBucketOffset();
  if (part < 0 || begin < 0 || (part == 0 && begin != 0))
    return emitOpError() << "'" << getName() << "' begins at element " << begin << " of a bucket of which ranks have "
                         << part;
  if (failed(verifyRanges(*this)))
    return failure();
  if (part == 0)
    return success();
  __int128 end = static_cast<__int128>(begin) + cast<RankedTensorType>(getType()).getNumElements();
  int64_t world = (*this)->getParentOfType<CmdProgramOp>().getWorld();
  if (end > static_cast<__int128>(part) * world)
    return emitOpError() << "'" << getName() << "' ends at element " << static_cast<int64_t>(end)
                         << " of a bucket of which " << world << " ranks have " << part << " each";
  return success();
}

SmallVector<RangeAttr> CmdInputOp::getRanges() {
  return getStreamed() ? SmallVector<RangeAttr>() : placeOf(getContext(), getType(), getOffset());
}
LogicalResult CmdInputOp::verify() {
  if (getValid() && getValid()->size() != 2)
    return emitOpError() << "'valid' is where valid values begin and end, found " << getValid()->size() << " numbers";
  return verifyRanges(*this);
}

SmallVector<RangeAttr> CmdScalarOp::getRanges() { return placeOf(getContext(), getType(), getOffset()); }
LogicalResult CmdScalarOp::verify() { return verifyRanges(*this); }

SmallVector<RangeAttr> CmdOutputOp::getRanges() { return placeOf(getContext(), getType(), getOffset()); }
LogicalResult CmdOutputOp::verify() { return verifyRanges(*this); }

/// Checks that every event that is started is waited for once, in the same list, and has one meaning at a time.
static LogicalResult verifyEvents(Block &block, llvm::SmallDenseMap<int64_t, Operation *> &busy) {
  llvm::SmallDenseSet<int64_t> started;
  for (Operation &op : block) {
    if (auto start = dyn_cast<CmdCollectiveOp>(op)) {
      int64_t event = start.getEvent();
      if (!busy.try_emplace(event, start).second)
        return start.emitOpError() << "event " << event << " has been started and not been waited for";
      started.insert(event);
    } else if (auto wait = dyn_cast<CmdWaitOp>(op)) {
      int64_t event = wait.getEvent();
      if (!started.erase(event))
        return wait.emitOpError() << "event " << event << " has not been started in this list";
      busy.erase(event);
    }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        if (failed(verifyEvents(inner, busy)))
          return failure();
  }
  for (int64_t event : started)
    return busy.lookup(event)->emitOpError() << "nothing waits for event " << event;
  return success();
}

LogicalResult CmdGraphOp::verify() {
  for (Operation &op : getBody().front())
    if (!isa<CommandOp>(op))
      return op.emitOpError() << "is no command";
  llvm::SmallDenseMap<int64_t, Operation *> busy;
  return verifyEvents(getBody().front(), busy);
}

//===-- Commands -------------------------------------------------------------------------------------------------===//

static LogicalResult verifyReads(Operation *op, int64_t reads, ArrayAttr buffers) {
  if (reads < 0 || reads > static_cast<int64_t>(buffers.size()))
    return op->emitOpError() << "only reads " << reads << " of " << buffers.size() << " buffers";
  return success();
}

SmallVector<RangeAttr> CmdLaunchOp::getRanges() { return rangesOf(getBuffers()); }

LogicalResult CmdLaunchOp::verify() {
  if (static_cast<int64_t>(getUnits()) < 0 || static_cast<int64_t>(getGrain()) < 1)
    return emitOpError() << "is launched for " << getUnits() << " units in steps of " << getGrain();
  if (failed(verifyReads(*this, getReads(), getBuffers())))
    return failure();
  constexpr uint64_t mostBlocks = 0x7fffffff, mostThreads = 1024, mostShared = 99 << 10; // of every CUDA device
  auto program = (*this)->getParentOfType<CmdProgramOp>();
  bool isDevice = program && program.getTarget() != "cpu";
  bool fits = isDevice ? getGrid() >= 1 && getGrid() <= mostBlocks && getBlock() >= 1 && getBlock() <= mostThreads &&
                             getShared() <= mostShared
                       : getGrid() == 0 && getBlock() == 0 && getShared() == 0;
  if (program && !fits)
    return emitOpError() << "is launched on " << program.getTarget() << " as " << getGrid() << " blocks of "
                         << getBlock() << " threads with " << getShared() << " shared bytes";
  return verifyRanges(*this);
}

LogicalResult CmdLaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<CmdKernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "there is no kernel " << getKernelAttr();
  if (kernel.getBuffers() != getBuffers().size())
    return emitOpError() << "kernel " << getKernelAttr() << " takes " << kernel.getBuffers() << " buffers, found "
                         << getBuffers().size();
  return success();
}

SmallVector<RangeAttr> CmdCallOp::getRanges() { return rangesOf(getBuffers()); }
LogicalResult CmdCallOp::verify() {
  return failure(failed(verifyReads(*this, getReads(), getBuffers())) || failed(verifyRanges(*this)));
}

SmallVector<RangeAttr> CmdCopyOp::getRanges() { return {getSource(), getTarget()}; }

LogicalResult CmdCopyOp::verify() {
  if (getSource().getBytes() != getTarget().getBytes())
    return emitOpError() << "the ranges have " << getSource().getBytes() << " and " << getTarget().getBytes()
                         << " bytes";
  return verifyRanges(*this);
}

SmallVector<RangeAttr> CmdCollectiveOp::getRanges() { return {getSource(), getTarget()}; }

LogicalResult CmdCollectiveOp::verify() {
  if (failed(verifyRanges(*this)))
    return failure();
  auto program = (*this)->getParentOfType<CmdProgramOp>();
  int64_t world = program.getWorld(), source = getSource().getBytes(), target = getTarget().getBytes();
  bool gathers = getKind() == "all_gather", scatters = getKind() == "reduce_scatter";
  if (target != (gathers ? source * world : scatters ? source / world : source) || (scatters && source % world))
    return emitOpError() << getKind() << " of " << source << " bytes on " << world << " ranks does not give " << target
                         << " bytes";
  if (std::optional<int64_t> root = getRoot(); (getKind() == "broadcast") != root.has_value())
    return emitOpError() << "a broadcast has a root, and nothing else";
  else if (root && (*root < 0 || *root >= world))
    return emitOpError() << "the root is rank " << *root << " of " << world;
  if (static_cast<int64_t>(getEvent()) < 0)
    return emitOpError() << "events are numbered from 0 on, found " << getEvent();
  return success();
}

SmallVector<RangeAttr> CmdWaitOp::getRanges() { return {}; }
LogicalResult CmdWaitOp::verify() { return success(); }

SmallVector<RangeAttr> CmdFillOp::getRanges() { return {getTarget()}; }

LogicalResult CmdFillOp::verify() {
  auto program = (*this)->getParentOfType<CmdProgramOp>();
  if (!program)
    return emitOpError() << "stands outside of a scrimp.cmd.program";
  auto inputs = program.getBody().front().getOps<CmdInputOp>();
  auto input = llvm::find_if(inputs, [&](CmdInputOp each) { return each.getName() == getInput(); });
  if (input == inputs.end() || !(*input).getStreamed())
    return emitOpError() << "there is no streamed input '" << getInput() << "'";
  int64_t places =
      llvm::divideCeil(static_cast<uint64_t>(program.getBatch()), static_cast<uint64_t>(program.getWorld()));
  int64_t first = getFirst(), samples = getSamples(), count = countsAround(*this).back();
  if (first < 0 || samples < 1 || first + samples * count > places)
    return emitOpError() << "reads " << count << " times " << samples << " samples from " << first << " on, of "
                         << places;
  int64_t bytes = bytesOf(cast<RankedTensorType>((*input).getType())) / places * samples;
  if (getTarget().getBytes() != bytes)
    return emitOpError() << samples << " samples take " << bytes << " bytes, found " << getTarget().getBytes();
  return verifyRanges(*this);
}

SmallVector<RangeAttr> CmdCheckFiniteOp::getRanges() { return placeOf(getContext(), getType(), getOffset()); }

LogicalResult CmdCheckFiniteOp::verify() {
  if (getKind() != "loss" && getKind() != "gradient")
    return emitOpError() << "checks '" << getKind() << "'; there are 'loss' and 'gradient'";
  if (!isa<FloatType>(getType()))
    return emitOpError() << "looks at one float, found " << getType();
  return verifyRanges(*this);
}

SmallVector<RangeAttr> CmdRepeatOp::getRanges() { return {getIndex()}; }

LogicalResult CmdRepeatOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1)
    return emitOpError() << "runs at least once, found " << getCount();
  if (getIndex().getBytes() != 8)
    return emitOpError() << "the number of the iteration takes 8 bytes, found " << getIndex().getBytes();
  for (Operation &op : getBody().front())
    if (!isa<CmdLaunchOp, CmdCallOp, CmdCopyOp, CmdFillOp, CmdRepeatOp, CmdConditionalOp, CmdCollectiveOp, CmdWaitOp>(
            op))
      return op.emitOpError() << "cannot be repeated";
  return verifyRanges(*this);
}

SmallVector<RangeAttr> CmdConditionalOp::getRanges() { return {getCondition()}; }

LogicalResult CmdConditionalOp::verify() {
  if (getCondition().getBytes() != 1)
    return emitOpError() << "the condition takes 1 byte, found " << getCondition().getBytes();
  for (Operation &op : getBody().front())
    if (!isa<CmdLaunchOp>(op))
      return op.emitOpError() << "cannot depend on a condition; only launches can";
  return verifyRanges(*this);
}
