#include "scrimp/Analysis/PlanVerifier.h"

#include "AbstractArena.h"
#include "scrimp/Analysis/Aliases.h"
#include "llvm/Support/ErrorHandling.h"

#include <map>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

/// What lives across steps: the same in all functions.
struct Persistent {
  Extent extent;
  std::string name;
  int writer; // who its first contents are from
};

class PlanVerifier {
public:
  explicit PlanVerifier(ModuleOp module) : module(module) {}
  LogicalResult verify();

private:
  LogicalResult readModule();
  LogicalResult addPersistent(func::FuncOp function);
  LogicalResult addConstants(Block &block);
  LogicalResult addPersistent(Operation *at, const std::string &key, const std::string &name, Value value,
                              int64_t offset);

  ModuleOp module;
  int64_t arenaBytes = 0, alignment = 0;
  Extent transient;
  std::map<std::string, Persistent> persistent;
  SmallVector<const Persistent *> sorted; // those with bytes, by offset; disjoint

  /// What persists in some of these bytes; null for nothing.
  const Persistent *findPersistent(Extent extent) const {
    auto it = llvm::partition_point(sorted, [&](const Persistent *p) { return p->extent.end <= extent.begin; });
    return it != sorted.end() && (*it)->extent.overlaps(extent) ? *it : nullptr;
  }
  friend class FunctionVerifier;
};

/// Runs one function over the abstract arena of one rank.
class FunctionVerifier {
public:
  FunctionVerifier(PlanVerifier &plan, func::FuncOp function, int64_t rank)
      : plan(plan), function(function), rank(rank) {}
  LogicalResult verify();

private:
  LogicalResult placeBlock(Block &block);
  LogicalResult placeResults(Operation &op);
  LogicalResult placeTied(Operation &op, OpResult result, Tie tie);
  LogicalResult placeBody(BodyOp body, int64_t iteration);
  LogicalResult runBlock(Block &block);
  LogicalResult runBody(BodyOp body);
  LogicalResult run(Operation &op);
  LogicalResult runReturn(Operation &op);
  void carry(BodyOp body, const Twine &when);
  LogicalResult read(Operation &op, Value value);
  LogicalResult checkWrite(Operation &op, Extent extent, const Twine &what, bool isAligned);
  LogicalResult checkNotBusy(Operation &op, Extent extent, const Twine &what);
  bool isPacked(Value value) const;

  int64_t addressOf(Value value) const {
    auto address = addresses.find(value);
    if (address == addresses.end())
      llvm::reportFatalInternalError("'" + Twine(userNameOf(value)) + "' has not been placed");
    return address->second;
  }
  Extent extentOf(Value value) const {
    int64_t begin = addressOf(value);
    return {begin, begin + bytesOf(value)};
  }
  int initialWriter(Value value) const {
    Extent extent = extentOf(value);
    return initialWriters.at({extent.begin, extent.end});
  }
  int newWriter(std::string name) {
    writers.push_back(std::move(name));
    return writers.size() - 1;
  }

  /// A value that an op holds which has been started and not ended (AsyncOp).
  struct Held {
    Operation *by;
    Value value;
    Extent extent;
  };

  PlanVerifier &plan;
  func::FuncOp function;
  int64_t rank;
  AbstractArena arena;
  SmallVector<Held> inFlight;
  llvm::DenseMap<Value, int64_t> addresses; // in a body: of the iteration under way
  llvm::DenseMap<Value, int> writerOf;      // of arguments, constants, results of ops with code, carried values
  std::map<std::pair<int64_t, int64_t>, int> initialWriters; // by the extent of what persists
  std::vector<std::string> writers;
  std::vector<Extent> writable; // arguments that the function updates
  std::vector<Extent> outputs;  // what the host reads afterwards
};

} // namespace

LogicalResult PlanVerifier::readModule() {
  auto plan = module->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
  if (!plan)
    return module.emitError() << "has no plan; run scrimp-plan-memory";
  auto number = [&](StringRef name, int64_t &value) -> LogicalResult {
    auto attr = plan.getAs<IntegerAttr>(name);
    if (!attr)
      return module.emitError() << "the plan lacks " << name;
    value = attr.getInt();
    return success();
  };
  int64_t lowerBound;
  if (failed(number("arena_bytes", arenaBytes)) || failed(number("alignment", alignment)) ||
      failed(number("lower_bound_bytes", lowerBound)) || failed(number("transient_offset", transient.begin)))
    return failure();
  transient.end = arenaBytes;
  if (alignment <= 0 || arenaBytes % alignment != 0)
    return module.emitError() << "the arena has " << arenaBytes << " bytes, expected a multiple of " << alignment;
  if (lowerBound > arenaBytes)
    return module.emitError() << "the arena has " << arenaBytes << " bytes, less than the lower bound " << lowerBound;
  int64_t end = 0;
  auto segments = plan.getAs<ArrayAttr>("segments");
  for (Attribute entry : segments ? segments.getValue() : ArrayRef<Attribute>()) {
    auto segment = dyn_cast<DictionaryAttr>(entry);
    auto nameAttr = segment ? segment.getAs<StringAttr>("name") : StringAttr();
    auto offsetAttr = segment ? segment.getAs<IntegerAttr>("offset") : IntegerAttr();
    auto bytesAttr = segment ? segment.getAs<IntegerAttr>("bytes") : IntegerAttr();
    if (!nameAttr || !offsetAttr || !bytesAttr)
      return module.emitError() << "a segment needs name, offset and bytes, found " << entry;
    StringRef name = nameAttr.getValue();
    int64_t offset = offsetAttr.getInt(), bytes = bytesAttr.getInt();
    if (offset != end || bytes < 0)
      return module.emitError() << "segment '" << name << "' lies at " << offset << " with " << bytes
                                << " bytes, expected it at " << end;
    end += bytes;
  }
  if (end != arenaBytes)
    return module.emitError() << "the segments end at " << end << " of " << arenaBytes << " bytes";
  if (transient.begin < 0 || transient.begin > arenaBytes)
    return module.emitError() << "a step's own values begin at " << transient.begin << " of " << arenaBytes << " bytes";
  return success();
}

LogicalResult PlanVerifier::addPersistent(Operation *at, const std::string &key, const std::string &name, Value value,
                                          int64_t offset) {
  Extent extent{offset, offset + (isStreamed(value) ? 0 : bytesOf(value))};
  auto [it, isNew] = persistent.try_emplace(key, Persistent{extent, name, static_cast<int>(persistent.size())});
  if (!isNew && it->second.extent != extent)
    return at->emitError() << "'" << name << "' lies at " << offset << " with " << bytesOf(value)
                           << " bytes here, but at " << it->second.extent.begin << " with "
                           << it->second.extent.end - it->second.extent.begin << " bytes in another function";
  if (offset < 0 || extent.end > arenaBytes || offset % alignment != 0)
    return at->emitError() << "'" << name << "' lies at " << offset << " of " << arenaBytes
                           << " bytes, expected a multiple of " << alignment << " inside";
  return success();
}

LogicalResult PlanVerifier::addPersistent(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::string name = userNameOf(argument);
    auto offset = function.getArgAttrOfType<IntegerAttr>(index, ScrimpDialect::kOffset);
    if (!offset)
      return function.emitError() << "argument '" << name << "' has no place";
    std::string key = "argument " + name;
    if (auto scalar = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kScalar))
      key = "scalar " + scalar.str();
    else if (!function.getArgAttr(index, ScrimpDialect::kName))
      key += " of @" + function.getName().str();
    if (failed(addPersistent(function, key, name, argument, offset.getInt())))
      return failure();
  }
  return addConstants(function.getBody().front());
}

LogicalResult PlanVerifier::addConstants(Block &block) {
  for (Operation &op : block) {
    if (auto body = dyn_cast<BodyOp>(op); body && failed(addConstants(body.getBodyBlock())))
      return failure();
    if (!isProgramConstant(&op))
      continue;
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kOffsets);
    if (!offsets || offsets.size() != 1)
      return op.emitError() << "has no place";
    Attribute value;
    matchPattern(&op, m_Constant(&value));
    std::string key = "constant " + std::to_string(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer()));
    if (failed(addPersistent(&op, key, userNameOf(&op), op.getResult(0), offsets[0])))
      return failure();
  }
  return success();
}

/// The ranks that differ in where something lies: the first, the second and the last, whose parts lie farthest.
static SmallVector<int64_t, 3> getRanksToRun(func::FuncOp function) {
  int64_t last = 0;
  function.walk([&](AliasOp op) {
    for (unsigned r = 0; r < op->getNumResults(); ++r)
      if (std::optional<Tie> tie = op.getTie(r); tie && tie->rankStride)
        last = std::max(last, tie->ranks - 1);
  });
  SmallVector<int64_t, 3> ranks{0};
  for (int64_t rank : {std::min<int64_t>(1, last), last})
    if (rank > ranks.back())
      ranks.push_back(rank);
  return ranks;
}

LogicalResult PlanVerifier::verify() {
  if (failed(readModule()))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && failed(addPersistent(function)))
      return failure();
  for (auto &entry : persistent)
    if (!entry.second.extent.empty())
      sorted.push_back(&entry.second);
  llvm::sort(sorted, [](auto *a, auto *b) { return a->extent.begin < b->extent.begin; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->extent.overlaps(sorted[i]->extent))
      return module.emitError() << "'" << sorted[i - 1]->name << "' and '" << sorted[i]->name << "' overlap at "
                                << sorted[i]->extent.begin;
  if (!sorted.empty() && sorted.back()->extent.end > transient.begin)
    return module.emitError() << "'" << sorted.back()->name << "' ends at " << sorted.back()->extent.end
                              << ", inside the bytes of a step's own values, which begin at " << transient.begin;
  for (auto function : module.getOps<func::FuncOp>())
    for (int64_t rank : function.isExternal() ? SmallVector<int64_t, 3>() : getRanksToRun(function))
      if (failed(FunctionVerifier(*this, function, rank).verify()))
        return failure();
  return success();
}

LogicalResult FunctionVerifier::verify() {
  Block &block = function.getBody().front();
  // Everything persistent is in memory, also what only other functions read.
  for (auto &[key, entry] : plan.persistent) {
    int writer = newWriter(entry.name);
    arena.write(entry.extent, writer);
    initialWriters[{entry.extent.begin, entry.extent.end}] = writer;
  }
  for (BlockArgument argument : function.getArguments())
    addresses[argument] =
        function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kOffset).getInt();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates)) {
      if (updates.getInt() < 0 || updates.getInt() >= function.getNumArguments())
        return function.emitError() << "result " << i << " updates argument " << updates.getInt() << " of "
                                    << function.getNumArguments();
      writable.push_back(extentOf(function.getArgument(updates.getInt())));
    }
  if (failed(placeBlock(block)))
    return failure();
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
    if (function.getResultAttr(i, ScrimpDialect::kOutput))
      outputs.push_back(extentOf(value));
  for (BlockArgument argument : function.getArguments())
    if (!isStreamed(argument))
      writerOf[argument] = initialWriter(argument);
  if (failed(runBlock(block)))
    return failure();
  return runReturn(*block.getTerminator());
}

LogicalResult FunctionVerifier::placeBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(placeResults(op)))
      return failure();
  return success();
}

/// What the plan says of an op's results, and of what is inside of it in its first iteration.
LogicalResult FunctionVerifier::placeResults(Operation &op) {
  auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kOffsets);
  if (!isViewLike(&op) && (!offsets || static_cast<unsigned>(offsets.size()) != op.getNumResults()))
    return op.emitError() << "has " << (offsets ? offsets.size() : 0) << " places for " << op.getNumResults()
                          << " results";
  auto alias = dyn_cast<AliasOp>(op);
  for (OpResult result : op.getResults()) {
    if (!isViewLike(&op))
      addresses[result] = offsets[result.getResultNumber()];
    std::optional<Tie> tie = alias ? alias.getTie(result.getResultNumber()) : std::nullopt;
    if (tie && failed(placeTied(op, result, *tie)))
      return failure();
  }
  if (auto body = dyn_cast<BodyOp>(op))
    return placeBody(body, 0);
  return success();
}

/// A view has its place from its operand; what else is tied must have been planned there.
LogicalResult FunctionVerifier::placeTied(Operation &op, OpResult result, Tie tie) {
  int64_t whole = addressOf(op.getOperand(tie.operand)),
          expected = whole + tie.getResultOffset() + rank * tie.rankStride;
  if (isViewLike(&op))
    addresses[result] = expected;
  else if (addresses[result] != expected && bytesOf(result) > 0)
    return op.emitError() << "result " << result.getResultNumber() << " lies at " << addresses[result]
                          << ", but what it updates lies at " << expected;
  if (!tie.placed)
    return success();
  Value piece = op.getOperand(*tie.placed);
  if (int64_t wanted = whole + tie.offset; bytesOf(piece) > 0 && addressOf(piece) != wanted)
    return op.emitError() << "'" << userNameOf(piece) << "' lies at " << addressOf(piece)
                          << ", but its place in the bucket is " << wanted;
  return success();
}

/// Where a body's arguments and values lie in that iteration, and whether it yields into the bytes that it carries.
LogicalResult FunctionVerifier::placeBody(BodyOp body, int64_t iteration) {
  Block &block = body.getBodyBlock();
  auto own = body->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kBodyOffsets);
  SmallVector<BlockArgument> arguments = getOwnArguments(body);
  if (!own || static_cast<size_t>(own.size()) != arguments.size())
    return body.emitError() << "has " << (own ? own.size() : 0) << " places for " << arguments.size()
                            << " arguments of its body that have bytes of their own";
  for (auto [argument, offset] : llvm::zip(arguments, own.asArrayRef()))
    addresses[argument] = offset;
  for (BlockArgument argument : block.getArguments()) {
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (!means.hasOwnBytes())
      addresses[argument] = addressOf(body->getOperand(means.operand)) + iteration * means.stride;
  }
  if (failed(placeBlock(block)))
    return failure();
  for (BlockArgument argument : block.getArguments()) {
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (means.kind != BodyArgument::Carried || bytesOf(argument) == 0)
      continue;
    Value yielded = block.getTerminator()->getOperand(means.result);
    if (addressOf(yielded) != addressOf(argument))
      return block.getTerminator()->emitError()
             << "the new value of accumulator " << means.result << " lies at " << addressOf(yielded)
             << ", but the accumulator at " << addressOf(argument);
  }
  return success();
}

LogicalResult FunctionVerifier::runBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isViewLike(&op))
      continue;
    if (isProgramConstant(&op))
      writerOf[op.getResult(0)] = initialWriter(op.getResult(0));
    else if (auto body = dyn_cast<BodyOp>(op); failed(body ? runBody(body) : run(op)))
      return failure();
  }
  return success();
}

/// The accumulators of a body count as one writer each from now on: an iteration may read only what the one before has
/// left there.
void FunctionVerifier::carry(BodyOp body, const Twine &when) {
  for (BlockArgument argument : body.getBodyBlock().getArguments()) {
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (means.kind != BodyArgument::Carried)
      continue;
    int writer = newWriter(("accumulator " + Twine(means.result) + " of " + userNameOf(body) + " " + when).str());
    arena.write(extentOf(argument), writer);
    writerOf[argument] = writer;
    writerOf[body->getResult(means.result)] = writer;
  }
}

/// The first iteration, the second, which finds what the first has spoilt, and the last, whose pieces lie farthest.
LogicalResult FunctionVerifier::runBody(BodyOp body) {
  Block &block = body.getBodyBlock();
  Operation &yield = *block.getTerminator();
  llvm::SmallDenseSet<unsigned> filled;
  for (BlockArgument argument : getOwnArguments(body))
    if (BodyArgument means = body.getBodyArgument(argument.getArgNumber()); means.kind == BodyArgument::Filled)
      filled.insert(means.operand);
  for (auto [i, operand] : llvm::enumerate(body->getOperands()))
    if (!filled.contains(i) && failed(read(*body, operand)))
      return failure();
  for (OpResult result : body->getResults())
    if (failed(checkWrite(*body, extentOf(result), "'" + userNameOf(result) + "'", false)))
      return failure();
  carry(body, "at first");
  int64_t last = body.getIterations() - 1;
  SmallVector<int64_t, 3> iterations{0};
  for (int64_t iteration : {std::min<int64_t>(1, last), last})
    if (iteration > iterations.back())
      iterations.push_back(iteration);
  for (int64_t iteration : iterations) {
    if (failed(placeBody(body, iteration)))
      return failure();
    for (BlockArgument argument : getOwnArguments(body)) {
      std::string name = userNameOf(argument);
      if (failed(checkWrite(*body, extentOf(argument), "'" + name + "'", true)))
        return failure();
      writerOf[argument] = newWriter(name);
      arena.write(extentOf(argument), writerOf[argument]);
    }
    if (failed(runBlock(block)))
      return failure();
    for (Value yielded : yield.getOperands())
      if (failed(read(yield, yielded)))
        return failure();
    carry(body, "after iteration " + Twine(iteration));
  }
  return success();
}

/// Whether the value's place is that of something else, perhaps through views: it is put into a bucket, or becomes or
/// begins an accumulator. Then that place counts, not the alignment.
bool FunctionVerifier::isPacked(Value value) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>())
      return isa<BodyOp>(user->getParentOp());
    auto alias = dyn_cast<AliasOp>(user);
    return alias && llvm::any_of(user->getResults(), [&](OpResult result) {
             std::optional<Tie> tie = alias.getTie(result.getResultNumber());
             if (tie && tie->placed)
               return *tie->placed == use.getOperandNumber();
             return tie && tie->operand == use.getOperandNumber() && isPacked(result);
           });
  });
}

/// Checks that the bytes of `value` are still those that the graph means.
LogicalResult FunctionVerifier::read(Operation &op, Value value) {
  SmallVector<std::pair<Value, Extent>> worklist{{value, extentOf(value)}};
  while (!worklist.empty()) {
    auto [part, extent] = worklist.pop_back_val();
    if (extent.empty())
      continue;
    if (auto argument = dyn_cast<BlockArgument>(part))
      if (auto body = dyn_cast<BodyOp>(argument.getOwner()->getParentOp())) {
        BodyArgument means = body.getBodyArgument(argument.getArgNumber());
        if (means.kind == BodyArgument::Shared || means.kind == BodyArgument::Piece) {
          worklist.push_back({body->getOperand(means.operand), extent});
          continue;
        }
      }
    if (std::optional<Tie> tie = getViewTie(part)) {
      Value whole = part.getDefiningOp()->getOperand(tie->operand);
      Value piece = tie->placed ? part.getDefiningOp()->getOperand(*tie->placed) : Value();
      Extent inside = piece ? extentOf(piece) : Extent();
      if (!inside.overlaps(extent)) {
        worklist.push_back({whole, extent});
        continue;
      }
      worklist.push_back({piece, {std::max(extent.begin, inside.begin), std::min(extent.end, inside.end)}});
      worklist.push_back({whole, {extent.begin, inside.begin}});
      worklist.push_back({whole, {inside.end, extent.end}});
      continue;
    }
    if (isStreamed(part))
      return op.emitError() << "reads '" << userNameOf(value) << "', which is never whole in memory";
    auto writer = writerOf.find(part);
    if (writer == writerOf.end())
      llvm::reportFatalInternalError("'" + Twine(userNameOf(part)) + "' has no writer");
    std::optional<int> other = arena.findOther(extent, writer->second);
    if (!other)
      continue;
    InFlightDiagnostic diag = op.emitError() << "reads '" << userNameOf(value) << "'";
    if (*other < 0)
      diag << " outside of the arena";
    else
      diag << " after '" << writers[*other] << "' has been written over it";
    return diag;
  }
  return success();
}

/// Whether nothing that has been started still reads or writes there.
LogicalResult FunctionVerifier::checkNotBusy(Operation &op, Extent extent, const Twine &what) {
  for (const Held &held : inFlight) {
    if (!held.extent.overlaps(extent))
      continue;
    InFlightDiagnostic diag = op.emitError() << what << " is written over '" << userNameOf(held.value) << "', which '"
                                             << userNameOf(held.by) << "' holds until it has ended";
    diag.attachNote(held.by->getLoc()) << "it is started here";
    return diag;
  }
  return success();
}

LogicalResult FunctionVerifier::checkWrite(Operation &op, Extent extent, const Twine &what, bool isAligned) {
  if (failed(checkNotBusy(op, extent, what)))
    return failure();
  if (extent.begin < 0 || extent.end > plan.arenaBytes)
    return op.emitError() << what << " lies at " << extent.begin << " to " << extent.end << " of " << plan.arenaBytes
                          << " bytes";
  if (isAligned && extent.begin % plan.alignment != 0)
    return op.emitError() << what << " lies at " << extent.begin << ", expected a multiple of " << plan.alignment;
  if (llvm::any_of(writable, [&](Extent argument) { return argument.contains(extent); }))
    return success();
  if (const Persistent *entry = plan.findPersistent(extent))
    return op.emitError() << what << " is written over '" << entry->name << "', which this function does not update";
  if (!extent.empty() && !plan.transient.contains(extent) &&
      llvm::none_of(outputs, [&](Extent output) { return extent.contains(output); }))
    return op.emitError() << what << " lies at " << extent.begin << " to " << extent.end
                          << ", outside of the bytes of a step's own values, which begin at " << plan.transient.begin;
  return success();
}

LogicalResult FunctionVerifier::run(Operation &op) {
  for (Value operand : op.getOperands())
    if (failed(read(op, operand)))
      return failure();
  llvm::erase_if(inFlight, [&](const Held &held) { return cast<AsyncOp>(held.by).getEnd() == &op; });

  // What the op writes: its results, then its scratch.
  struct Write {
    Extent extent;
    std::string name;
  };
  SmallVector<Write> writes;
  for (OpResult result : op.getResults()) {
    std::string name = userNameOf(&op);
    if (op.getNumResults() > 1)
      name += ":" + std::to_string(result.getResultNumber());
    writes.push_back({extentOf(result), name});
    bool isInPlace = llvm::any_of(writable, [&](Extent e) { return e.contains(extentOf(result)); });
    if (failed(checkWrite(op, extentOf(result), "'" + name + "'", !isInPlace && !isPacked(result))))
      return failure();
  }
  SmallVector<RankedTensorType> scratch = getWorkspaceTypes(&op);
  auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kWorkspace);
  if ((offsets ? offsets.size() : 0) != static_cast<int64_t>(scratch.size()))
    return op.emitError() << "has " << (offsets ? offsets.size() : 0) << " places for " << scratch.size()
                          << " workspaces";
  for (size_t i = 0; i < scratch.size(); ++i) {
    writes.push_back({{offsets[i], offsets[i] + bytesOf(scratch[i])}, "workspace of " + userNameOf(&op)});
    if (failed(checkWrite(op, writes.back().extent, "a workspace", true)))
      return failure();
    if (llvm::any_of(writable, [&](Extent e) { return e.overlaps(writes.back().extent); }))
      return op.emitError() << "a workspace lies inside an argument";
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (writes[i].extent.overlaps(writes[j].extent))
        return op.emitError() << "'" << writes[j].name << "' and '" << writes[i].name << "' overlap at "
                              << std::max(writes[i].extent.begin, writes[j].extent.begin);
    for (OpOperand &operand : op.getOpOperands()) {
      Extent extent = extentOf(operand.get());
      if (!writes[i].extent.overlaps(extent))
        continue;
      if (i < op.getNumResults() && extent == writes[i].extent && mayOverwrite(&op, operand.getOperandNumber(), i))
        continue;
      return op.emitError() << "'" << writes[i].name << "' is written over the operand '" << userNameOf(operand.get())
                            << "' while it is read";
    }
  }
  for (auto [i, write] : llvm::enumerate(writes)) {
    int writer = newWriter(write.name);
    arena.write(write.extent, writer);
    if (i < op.getNumResults())
      writerOf[op.getResult(i)] = writer;
  }
  if (auto start = dyn_cast<AsyncOp>(op); start && start.getEnd())
    for (Value value :
         llvm::concat<Value>(llvm::to_vector_of<Value>(op.getOperands()), llvm::to_vector_of<Value>(op.getResults())))
      inFlight.push_back({&op, value, extentOf(value)});
  return success();
}

LogicalResult FunctionVerifier::runReturn(Operation &op) {
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    if (auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates)) {
      BlockArgument argument = function.getArgument(updates.getInt());
      if (extentOf(value) != extentOf(argument))
        return op.emitError() << "the new value of '" << userNameOf(argument) << "' lies at " << addressOf(value)
                              << ", expected it at " << addressOf(argument);
    }
    if (failed(read(op, value)))
      return failure();
  }
  return success();
}

LogicalResult mlir::scrimp::verifyPlan(ModuleOp module) { return PlanVerifier(module).verify(); }
