#include "scrimp/Analysis/Aliases.h"

#include "scrimp/Analysis/FusionLegality.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::scrimp;

std::string mlir::scrimp::userNameOf(Operation *op) {
  std::string name;
  op->getLoc()->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    return WalkResult::advance();
  });
  return name.empty() ? op->getName().getStringRef().str() : name;
}

std::string mlir::scrimp::userNameOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return userNameOf(value.getDefiningOp());
  unsigned index = argument.getArgNumber();
  if (auto body = dyn_cast<BodyOp>(argument.getOwner()->getParentOp())) {
    BodyArgument means = body.getBodyArgument(index);
    return means.kind == BodyArgument::Index ? "iteration of " + userNameOf(body)
                                             : userNameOf(body->getOperand(means.operand));
  }
  if (auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()))
    for (StringRef key : {ScrimpDialect::kName, ScrimpDialect::kScalar})
      if (auto name = function.getArgAttrOfType<StringAttr>(index, key))
        return name.str();
  return "argument " + std::to_string(index);
}

std::string mlir::scrimp::userLocation(Location loc) {
  std::string place, name;
  loc->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner); file && place.empty())
      place = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" + Twine(file.getColumn())).str();
    else if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    return WalkResult::advance();
  });
  return place.empty() ? name : place;
}

SmallVector<BlockArgument> mlir::scrimp::getOwnArguments(BodyOp body) {
  return llvm::filter_to_vector(body.getBodyBlock().getArguments(), [&](BlockArgument argument) {
    return body.getBodyArgument(argument.getArgNumber()).hasOwnBytes();
  });
}

SmallVector<Value> mlir::scrimp::getHeldOperands(Operation *op) {
  SmallVector<Value> held(op->getOperands());
  for (AsyncOp start : getEndedOps(op))
    llvm::append_range(held, start->getOperands());
  return held;
}

bool mlir::scrimp::isStreamed(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return function && function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kStreamed);
}

bool mlir::scrimp::isProgramConstant(Operation *op) { return op && op->hasTrait<OpTrait::ConstantLike>(); }

static Place lookUp(const llvm::DenseMap<Value, Place> &places, Value value) {
  auto place = places.find(value);
  if (place == places.end())
    llvm::reportFatalInternalError("'" + Twine(userNameOf(value)) + "' has no place in this alias model");
  return place->second;
}

namespace mlir::scrimp {
/// Lays the values out in order, merging storages into the buckets and arguments they are placed in.
class AliasBuilder {
public:
  explicit AliasBuilder(func::FuncOp function) : function(function) {}

  FailureOr<Aliases> build() {
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments())
      addStorage(argument);
    if (failed(addBlock(block)) || failed(placeUpdates(block.getTerminator())))
      return failure();
    return finish();
  }

private:
  LogicalResult addBlock(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto body = dyn_cast<BodyOp>(op); body && failed(addBody(body)))
        return failure();
      auto alias = dyn_cast<AliasOp>(op);
      for (OpResult result : op.getResults()) {
        std::optional<Tie> tie = alias ? alias.getTie(result.getResultNumber()) : std::nullopt;
        if (!tie) {
          addStorage(result);
          continue;
        }
        Place whole = resolve(op.getOperand(tie->operand));
        if (alias.hasCode() && failed(checkOverwritable(op, tie->operand, whole)))
          return failure();
        places[result] = {whole.storage, whole.offset + tie->getResultOffset(), bytesOf(result),
                          whole.span + tie->rankStride * (tie->ranks - 1), std::gcd(whole.step, tie->rankStride)};
        if (tie->placed && failed(placeAt(op.getOperand(*tie->placed),
                                          {whole.storage, whole.offset + tie->offset, 0, 0, whole.step}, &op)))
          return failure();
      }
    }
    return success();
  }

  /// The op writes the operand's bytes.
  LogicalResult checkOverwritable(Operation &op, unsigned operand, Place place) {
    Value root = nodes[place.storage].root;
    auto refuse = [&](StringRef why) {
      return op.emitError() << "'" << userNameOf(op.getOperand(operand)) << "' cannot be updated in place: " << why;
    };
    if (Operation *producer = root.getDefiningOp(); producer && isStoredConstant(producer))
      return refuse("it is a constant");
    if (place.span)
      return refuse("it is a piece of what the loop around reads, or a rank's part of what all hold");
    return success();
  }

  LogicalResult addBody(BodyOp body) {
    Block &block = body.getBodyBlock();
    for (BlockArgument argument : block.getArguments()) {
      BodyArgument means = body.getBodyArgument(argument.getArgNumber());
      if (means.hasOwnBytes()) {
        addStorage(argument);
        continue;
      }
      Place place = resolve(body->getOperand(means.operand));
      place.bytes = bytesOf(argument);
      place.span += means.stride * (body.getIterations() - 1);
      place.step = std::gcd(place.step, means.stride);
      places[argument] = place;
    }
    if (failed(addBlock(block)))
      return failure();
    Operation *yield = block.getTerminator();
    for (BlockArgument argument : block.getArguments()) {
      BodyArgument means = body.getBodyArgument(argument.getArgNumber());
      if (means.kind == BodyArgument::Carried &&
          failed(placeAt(yield->getOperand(means.result), resolve(body->getOperand(means.operand)), yield,
                         "the new value of accumulator " + std::to_string(means.result) + ",")))
        return failure();
    }
    return success();
  }

  void addStorage(Value value) {
    places[value] = {static_cast<unsigned>(nodes.size()), 0, bytesOf(value)};
    nodes.push_back({value, static_cast<unsigned>(nodes.size()), 0, 0});
  }

  /// The place in terms of storages that have not been merged into others.
  Place resolve(Value value) {
    Place place = lookUp(places, value);
    while (nodes[place.storage].parent != place.storage) {
      place.offset += nodes[place.storage].offset;
      place.step = std::gcd(place.step, nodes[place.storage].step);
      place.storage = nodes[place.storage].parent;
    }
    return place;
  }

  /// Has `value` computed at `target`; `user` is the op or function that wants it there.
  LogicalResult placeAt(Value value, Place target, Operation *user, const std::string &what = "the piece") {
    Place place = resolve(value);
    if (place.storage == target.storage && place.offset == target.offset)
      return success();
    if (place.bytes == 0)
      return success();
    Node &node = nodes[place.storage];
    auto refuse = [&](const Twine &why) {
      InFlightDiagnostic diag = user->emitError() << what << " '" << userNameOf(value)
                                                  << "' cannot be computed in the bytes it replaces: " << why;
      Operation *producer = value.getDefiningOp();
      if (producer || (producer = node.root.getDefiningOp()))
        diag.attachNote(producer->getLoc()) << "it is computed here";
      return diag;
    };
    if (place.storage == target.storage)
      return refuse("it has its place already, " + Twine(place.offset) + " bytes into the same storage instead of " +
                    Twine(target.offset));
    if (isa<BlockArgument>(node.root))
      return refuse("it lies inside argument '" + Twine(userNameOf(node.root)) + "'");
    if (!user->getParentRegion()->isAncestor(node.root.getParentRegion()))
      return refuse("it is computed outside of the loop");
    if (isStoredConstant(node.root.getDefiningOp()))
      return refuse("it is a constant");
    if (place.offset != 0 || place.bytes != bytesOf(node.root))
      return refuse("it is " + Twine(place.bytes) + " bytes at " + Twine(place.offset) + " of '" +
                    Twine(userNameOf(node.root)) + "', which has " + Twine(bytesOf(node.root)));
    node.parent = target.storage;
    node.offset = target.offset;
    node.step = target.step;
    return success();
  }

  LogicalResult placeUpdates(Operation *terminator) {
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates);
      if (!updates)
        continue;
      int64_t index = updates.getInt();
      if (index < 0 || index >= function.getNumArguments())
        return function.emitError() << "result " << i << " updates argument " << index << " of "
                                    << function.getNumArguments();
      BlockArgument argument = function.getArgument(index);
      if (argument.getType() != value.getType())
        return function.emitError() << "result " << i << " has type " << value.getType() << " but updates '"
                                    << userNameOf(argument) << "' of type " << argument.getType();
      if (failed(
              placeAt(value, lookUp(places, argument), terminator, "the new value of '" + userNameOf(argument) + "',")))
        return failure();
    }
    return success();
  }

  Aliases finish() {
    Aliases aliases;
    SmallVector<unsigned> number(nodes.size());
    for (auto [i, node] : llvm::enumerate(nodes)) {
      if (node.parent != i)
        continue;
      number[i] = aliases.storages.size();
      aliases.storages.push_back({node.root, bytesOf(node.root)});
    }
    for (auto &[value, unused] : places) {
      Place place = resolve(value);
      place.storage = number[place.storage];
      aliases.places[value] = place;
    }
    return aliases;
  }

  /// A storage; merged into `parent` at `offset`, which moves by multiples of `step`, unless it is its own parent.
  struct Node {
    Value root;
    unsigned parent;
    int64_t offset, step;
  };
  func::FuncOp function;
  std::vector<Node> nodes;
  llvm::DenseMap<Value, Place> places;
};
} // namespace mlir::scrimp

FailureOr<Aliases> Aliases::compute(func::FuncOp function) { return AliasBuilder(function).build(); }

Place Aliases::getPlace(Value value) const { return lookUp(places, value); }

/// In a scrimp.kernel whose ops are all element by element, or but `rows`, of which the others finish a result:
/// everything that `argument` flows into must have the result's shape, be in its section and be read pointwise. Then
/// each element of the operand is read only where the same element of the results is computed; where `rows` reads it
/// too it says so.
static bool flowsPointwise(KernelRegionOp kernel, BlockArgument argument, unsigned number, OpResult finished = {}) {
  RankedTensorType result = tensorType(kernel.getResult(number));
  auto [first, count] = kernel.getSection(number);
  for (Value output : kernel.getOutputs().slice(first, count))
    if (tensorType(output).getShape() != result.getShape() && !finished)
      return false;
  Operation *terminator = kernel.getBody().front().getTerminator();
  SmallVector<Value> worklist{argument};
  llvm::SmallDenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (shapeOf(value) != result.getShape())
      return false;
    for (OpOperand &use : value.getUses()) {
      if (use.getOwner() == terminator) {
        if (use.getOperandNumber() < first || use.getOperandNumber() >= first + count)
          return false;
        continue;
      }
      if (finished && use.getOwner() == finished.getOwner()) {
        auto rows = cast<KernelOp>(finished.getOwner());
        if (value != argument || !mayOverwrite(rows, use.getOperandNumber(), finished.getResultNumber()))
          return false;
        continue;
      }
      if (!cast<KernelOp>(use.getOwner()).isPointwiseOperand(use.getOperandNumber()))
        return false;
      llvm::append_range(worklist, use.getOwner()->getResults());
    }
  }
  return true;
}

bool mlir::scrimp::readsElementwise(Operation *op, unsigned operand, unsigned result) {
  RankedTensorType to = tensorType(op->getResult(result));
  if (shapeOf(op->getOperand(operand)) != to.getShape())
    return false;
  if (auto region = dyn_cast<KernelRegionOp>(op))
    return flowsPointwise(region, region.getBody().front().getArgument(operand), result);
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Map && kernel.isPointwiseOperand(operand);
}

bool mlir::scrimp::mayOverwrite(Operation *op, unsigned operand, unsigned result) {
  auto from = tensorType(op->getOperand(operand)), to = tensorType(op->getResult(result));
  if (bytesOf(from) != bytesOf(to))
    return false;
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    // Pointwise is about indices: with another shape the same index is another byte.
    if (kernel.getKernelFamily() == KernelFamily::Map && from.getShape() != to.getShape())
      return false;
    return kernel.mayOverwrite(operand, result);
  }
  auto region = dyn_cast<KernelRegionOp>(op);
  if (!region)
    return false;
  Block &body = region.getBody().front();
  BlockArgument argument = body.getArgument(operand);
  Operation *rows = nullptr;
  for (Operation &inner : body.without_terminator()) {
    if (cast<KernelOp>(inner).getKernelFamily() == KernelFamily::Map)
      continue;
    if (rows)
      return false;
    rows = &inner;
  }
  if (!rows)
    return from.getElementTypeBitWidth() == to.getElementTypeBitWidth() && flowsPointwise(region, argument, result);
  // The one op that is no map answers for itself, if nothing inside reads the operand for it.
  auto yielded = dyn_cast<OpResult>(body.getTerminator()->getOperand(result));
  if (yielded && yielded.getOwner() != rows)
    if (OpResult finished = getFinishedResult(rows))
      return from.getElementTypeBitWidth() == to.getElementTypeBitWidth() &&
             flowsPointwise(region, argument, result, finished);
  return yielded && yielded.getOwner() == rows && llvm::all_of(argument.getUses(), [&](OpOperand &use) {
           return use.getOwner() == rows && mayOverwrite(rows, use.getOperandNumber(), yielded.getResultNumber());
         });
}

SmallVector<RankedTensorType> mlir::scrimp::getWorkspaceTypes(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return kernel.getWorkspaceTypes(TargetAttr::of(op).getWorkers());
  SmallVector<RankedTensorType> all;
  if (isa<BodyOp>(op))
    return all;
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      llvm::append_range(all, getWorkspaceTypes(&inner));
  return all;
}
