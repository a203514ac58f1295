#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Ranks.h"

using namespace mlir;
using namespace mlir::scrimp;

//===-- What all have in common ----------------------------------------------------------------------------------===//

/// Checks that no other op than one wait reads what is in flight.
static LogicalResult verifyInFlight(Operation *op) {
  Operation *end = nullptr;
  for (Operation *user : op->getUsers()) {
    if (!isa<WaitOp>(user)) {
      InFlightDiagnostic diag = op->emitOpError() << "the result is in flight until a scrimp.wait, but '"
                                                  << user->getName() << "' reads it";
      diag.attachNote(user->getLoc()) << "it is read here";
      return diag;
    }
    if (end) {
      InFlightDiagnostic diag = op->emitOpError() << "the result arrives once, but two ops wait for it";
      diag.attachNote(user->getLoc()) << "one of them";
      return diag;
    }
    if (user->getBlock() != op->getBlock())
      return user->emitOpError() << "waits in another block than that of the op that it waits for";
    end = user;
  }
  return success();
}

/// Checks that the parts of `whole` along dimension 0 are `world` equal ones.
static LogicalResult verifyParts(Operation *op, Value whole, int64_t world) {
  RankedTensorType type = tensorType(whole);
  if (type.getRank() == 0)
    return op->emitOpError() << "a single number has no parts for " << world << " ranks; expected rank 1 or more";
  if (type.getDimSize(0) % world != 0)
    return op->emitOpError() << "dimension 0 of " << type << " has " << type.getDimSize(0) << " elements, which "
                             << world << " ranks do not divide; pad it to a multiple";
  return success();
}

/// The type of one of `world` parts. What verifyParts rejects has some type too, so that there is one error.
static RankedTensorType partType(RankedTensorType whole, int64_t world) {
  SmallVector<int64_t> shape(whole.getShape());
  if (!shape.empty() && world > 0)
    shape[0] /= world;
  return whole.clone(shape);
}

/// Checks the elements of a sum, and `wire` against them.
static LogicalResult verifySum(Operation *op, std::optional<Type> wire, Type element) {
  if (elementBytesOf(element) == 1)
    return op->emitOpError() << "sums numbers of more than 8 bits, found elements of type " << element
                             << "; max tells whether one is set";
  if (!wire || (element.isF32() && (wire->isBF16() || wire->isF16())))
    return success();
  return op->emitOpError() << "sends elements of type " << element << " as " << *wire
                           << "; only f32 can be sent as another type, bf16 or f16";
}

/// Bytes of a sum's terms, or of a sum, on their way.
static int64_t wireBytes(std::optional<Type> wire, RankedTensorType type) {
  return type.getNumElements() * elementBytesOf(wire ? *wire : type.getElementType());
}

/// Of what every rank sends to all others in equal parts, what it sends.
static int64_t shareSent(int64_t bytes, int64_t world) {
  return static_cast<int64_t>(static_cast<__int128>(bytes) * (world - 1) / world);
}

/// Combines the elements from `first` on of all ranks' values, in the order of the ranks, into `result`. Typed
/// evaluation rounds as the runtime does: terms to the wire's type, each step to the type of the sum, and that, if it
/// `isSent`, to the wire's type again.
static void combine(ReduceKind kind, const std::vector<HostTensor> &values, int64_t first, std::optional<Type> wire,
                    bool isSent, HostTensor &result) {
  Type element = result.getType().getElementType();
  auto sumType = dyn_cast<FloatType>(getComputeType(element));
  auto wireType = wire && values.size() > 1 ? cast<FloatType>(*wire) : FloatType();
  bool isTyped = getCurrentRounding() == Rounding::Typed;
  auto round = [&](double value, FloatType type) { return isTyped && type ? roundToFloatType(value, type) : value; };
  for (int64_t i = 0; i < result.size(); ++i) {
    if (!result.isFloat()) {
      int64_t all = values[0].ints()[first + i];
      for (const HostTensor &value : ArrayRef(values).drop_front()) {
        int64_t next = value.ints()[first + i];
        // Wraps as the elements do.
        all = kind == ReduceKind::sum ? static_cast<int64_t>(static_cast<uint64_t>(all) + static_cast<uint64_t>(next))
                                      : maximum(all, next);
      }
      result.ints()[i] = all;
      continue;
    }
    double all = round(values[0].floats()[first + i], wireType);
    for (const HostTensor &value : ArrayRef(values).drop_front()) {
      double next = round(value.floats()[first + i], wireType);
      all = kind == ReduceKind::sum ? round(all + next, sumType) : maximum(all, next);
    }
    result.floats()[i] = isSent ? round(all, wireType) : all;
  }
}

/// Copies `count` elements.
static void copyElements(const HostTensor &from, int64_t begin, HostTensor &to, int64_t at, int64_t count) {
  if (to.isFloat())
    std::copy_n(from.floats().begin() + begin, count, to.floats().begin() + at);
  else
    std::copy_n(from.ints().begin() + begin, count, to.ints().begin() + at);
}

static void buildCollective(Operation *op, OpBuilder &builder, StringRef kind, std::optional<Type> wire,
                            std::optional<int64_t> root, ArrayRef<RangeAttr> buffers, int64_t event,
                            FloatAttr seconds) {
  Type element = tensorType(op->getOperand(0)).getElementType();
  CmdCollectiveOp::create(builder, op->getLoc(), builder.getStringAttr(kind), TypeAttr::get(element),
                          wire ? TypeAttr::get(*wire) : TypeAttr(),
                          root ? builder.getI64IntegerAttr(*root) : IntegerAttr(), buffers[0], buffers[1],
                          builder.getI64IntegerAttr(event), seconds);
}

/// What collectives on one rank are. The wait of what is then no longer in flight folds too.
static OpFoldResult foldOnOneRank(Value x, int64_t world) { return world == 1 ? OpFoldResult(x) : OpFoldResult(); }

//===-- all_reduce -----------------------------------------------------------------------------------------------===//

void AllReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind, Value x, int64_t world, Type wire,
                        bool perStep) {
  build(builder, state, x.getType(), kind, x, world, wire ? TypeAttr::get(wire) : TypeAttr(), perStep);
}

LogicalResult AllReduceOp::verify() {
  Type element = tensorType(getX()).getElementType();
  if (getKind() != ReduceKind::sum && getKind() != ReduceKind::max)
    return emitOpError() << "ranks have no '" << stringifyReduceKind(getKind()) << "'; there are sum and max";
  if (getKind() == ReduceKind::max && getWire())
    return emitOpError() << "the largest is sent as it is; 'wire' belongs to a sum";
  if (getKind() == ReduceKind::sum && failed(verifySum(*this, getWire(), element)))
    return failure();
  return verifyInFlight(*this);
}

OpFoldResult AllReduceOp::fold(FoldAdaptor) { return foldOnOneRank(getX(), getWorld()); }
bool AllReduceOp::givesSameOnAllRanks() { return true; }
bool AllReduceOp::mayOverwrite(unsigned, unsigned) { return true; }
bool AllReduceOp::isLinearIn(ArrayRef<bool>) { return getKind() == ReduceKind::sum && !getPerStep(); }
DimensionRule AllReduceOp::getDimensionRule() { return elementwiseRule(*this); }
planner::Exchange AllReduceOp::getExchange() {
  return {planner::Pattern::AllReduce, getNumRanks(), wireBytes(getWire(), tensorType(getX()))};
}
int64_t AllReduceOp::getFlops() { return tensorType(getX()).getNumElements(); }

/// Terms go to whoever adds up that part, the parts of the sum to all.
int64_t AllReduceOp::getLinkBytes() { return shareSent(2 * wireBytes(getWire(), tensorType(getX())), getWorld()); }

LogicalResult AllReduceOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  FailureOr<RankValues> values = exchange(*this, getWorld(), *operands[0]);
  if (failed(values))
    return failure();
  combine(getKind(), **values, 0, getWire(), /*isSent=*/true, results[0]);
  return success();
}

void AllReduceOp::buildCommand(OpBuilder &builder, ArrayRef<RangeAttr> buffers, int64_t event, FloatAttr seconds) {
  buildCollective(*this, builder, getKind() == ReduceKind::sum ? "all_reduce_sum" : "all_reduce_max", getWire(), {},
                  buffers, event, seconds);
}

//===-- reduce_scatter -------------------------------------------------------------------------------------------===//

void ReduceScatterOp::build(OpBuilder &builder, OperationState &state, Value x, int64_t world, Type wire,
                            bool perStep) {
  build(builder, state, partType(tensorType(x), world), x, world, wire ? TypeAttr::get(wire) : TypeAttr(), perStep);
}

LogicalResult ReduceScatterOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr attributes, OpaqueProperties properties,
                                                RegionRange regions, SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  types.push_back(partType(tensorType(op.getX()), op.getWorld()));
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  if (failed(verifyParts(*this, getX(), getWorld())) ||
      failed(verifySum(*this, getWire(), tensorType(getX()).getElementType())))
    return failure();
  return verifyInFlight(*this);
}

OpFoldResult ReduceScatterOp::fold(FoldAdaptor) { return foldOnOneRank(getX(), getWorld()); }
bool ReduceScatterOp::givesSameOnAllRanks() { return false; }
bool ReduceScatterOp::mayOverwrite(unsigned, unsigned) { return false; }
bool ReduceScatterOp::isLinearIn(ArrayRef<bool>) { return !getPerStep(); }
DimensionRule ReduceScatterOp::getDimensionRule() { return DimensionRule(*this); }
planner::Exchange ReduceScatterOp::getExchange() {
  return {planner::Pattern::ReduceScatter, getNumRanks(), wireBytes(getWire(), tensorType(getX()))};
}
int64_t ReduceScatterOp::getFlops() { return tensorType(getX()).getNumElements(); }

int64_t ReduceScatterOp::getLinkBytes() { return shareSent(wireBytes(getWire(), tensorType(getX())), getWorld()); }

LogicalResult ReduceScatterOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  FailureOr<RankValues> values = exchange(*this, getWorld(), *operands[0]);
  if (failed(values))
    return failure();
  combine(ReduceKind::sum, **values, currentRank() * results[0].size(), getWire(),
          /*isSent=*/false, results[0]);
  return success();
}

void ReduceScatterOp::buildCommand(OpBuilder &builder, ArrayRef<RangeAttr> buffers, int64_t event, FloatAttr seconds) {
  buildCollective(*this, builder, "reduce_scatter", getWire(), {}, buffers, event, seconds);
}

//===-- all_gather -----------------------------------------------------------------------------------------------===//

void AllGatherOp::build(OpBuilder &builder, OperationState &state, Value x, int64_t world) {
  build(builder, state, x, world, /*use=*/IntegerAttr());
}

LogicalResult AllGatherOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                            DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                            SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  RankedTensorType part = tensorType(op.getX());
  SmallVector<int64_t> shape(part.getShape());
  if (!shape.empty())
    shape[0] *= op.getWorld();
  types.push_back(part.clone(shape));
  return success();
}

LogicalResult AllGatherOp::verify() {
  if (tensorType(getX()).getRank() == 0)
    return emitOpError() << "single numbers have no dimension to lie behind one another; expected rank 1 or more";
  return verifyInFlight(*this);
}

OpFoldResult AllGatherOp::fold(FoldAdaptor) { return foldOnOneRank(getX(), getWorld()); }
bool AllGatherOp::givesSameOnAllRanks() { return true; }
bool AllGatherOp::mayOverwrite(unsigned, unsigned) { return false; }
DimensionRule AllGatherOp::getDimensionRule() { return DimensionRule(*this); }
planner::Exchange AllGatherOp::getExchange() { return {planner::Pattern::AllGather, getNumRanks(), bytesOf(getY())}; }
int64_t AllGatherOp::getFlops() { return 0; }
int64_t AllGatherOp::getLinkBytes() { return bytesOf(getX()) * (getWorld() - 1); }

LogicalResult AllGatherOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  FailureOr<RankValues> values = exchange(*this, getWorld(), *operands[0]);
  if (failed(values))
    return failure();
  for (auto [rank, value] : llvm::enumerate(**values))
    copyElements(value, 0, results[0], rank * value.size(), value.size());
  return success();
}

void AllGatherOp::buildCommand(OpBuilder &builder, ArrayRef<RangeAttr> buffers, int64_t event, FloatAttr seconds) {
  buildCollective(*this, builder, "all_gather", {}, {}, buffers, event, seconds);
}

//===-- collective_broadcast -------------------------------------------------------------------------------------===//

LogicalResult CollectiveBroadcastOp::verify() {
  if (int64_t root = getRoot(), world = getWorld(); root < 0 || root >= world)
    return emitOpError() << "the root is rank " << root << " of " << world << "; expected 0 to " << world - 1;
  return verifyInFlight(*this);
}

OpFoldResult CollectiveBroadcastOp::fold(FoldAdaptor) { return foldOnOneRank(getX(), getWorld()); }
bool CollectiveBroadcastOp::givesSameOnAllRanks() { return true; }
bool CollectiveBroadcastOp::mayOverwrite(unsigned, unsigned) { return true; }
DimensionRule CollectiveBroadcastOp::getDimensionRule() { return elementwiseRule(*this); }
planner::Exchange CollectiveBroadcastOp::getExchange() {
  return {planner::Pattern::Broadcast, getNumRanks(), bytesOf(getX())};
}
int64_t CollectiveBroadcastOp::getFlops() { return 0; }
int64_t CollectiveBroadcastOp::getLinkBytes() { return shareSent(bytesOf(getX()), getWorld()); }

LogicalResult CollectiveBroadcastOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  FailureOr<RankValues> values = exchange(*this, getWorld(), *operands[0]);
  if (failed(values))
    return failure();
  results[0] = (**values)[getRoot()];
  return success();
}

void CollectiveBroadcastOp::buildCommand(OpBuilder &builder, ArrayRef<RangeAttr> buffers, int64_t event,
                                         FloatAttr seconds) {
  buildCollective(*this, builder, "broadcast", {}, getRoot(), buffers, event, seconds);
}

//===-- wait -----------------------------------------------------------------------------------------------------===//

LogicalResult WaitOp::verify() {
  if (!getX().getDefiningOp<AsyncOp>())
    return emitOpError() << "waits for a value that is not in flight; expected the result of a collective";
  return success();
}

OpFoldResult WaitOp::fold(FoldAdaptor) { return getX().getDefiningOp<AsyncOp>() ? OpFoldResult() : getX(); }
bool WaitOp::hasCode() { return true; }
bool WaitOp::mayOverwrite(unsigned, unsigned) { return true; }
bool WaitOp::isLinearIn(ArrayRef<bool>) { return true; }
int64_t WaitOp::getFlops() { return 0; }
int64_t WaitOp::getMovedBytes() { return 0; }

LogicalResult WaitOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = *operands[0];
  return success();
}

void WaitOp::buildCommand(OpBuilder &builder, ArrayRef<RangeAttr>, int64_t event, FloatAttr) {
  CmdWaitOp::create(builder, getLoc(), event);
}

//===-- shard ----------------------------------------------------------------------------------------------------===//

LogicalResult ShardOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                        DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                        SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  types.push_back(partType(tensorType(op.getWhole()), op.getWorld()));
  return success();
}

LogicalResult ShardOp::verify() { return verifyParts(*this, getWhole(), getWorld()); }
OpFoldResult ShardOp::fold(FoldAdaptor) { return foldOnOneRank(getWhole(), getWorld()); }
bool ShardOp::isLinearIn(ArrayRef<bool> operands) { return operands[0] && !operands[1]; }
DimensionRule ShardOp::getDimensionRule() { return DimensionRule(*this); }

std::optional<Tie> ShardOp::getTie(unsigned) {
  return Tie{0, 0, std::nullopt, bytesOf(getY()), static_cast<int64_t>(getWorld())};
}

LogicalResult ShardOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t rank = operands[1]->ints()[0], world = getWorld();
  if (rank < 0 || rank >= world)
    return emitOpError() << "there is no rank " << rank << " among " << world;
  copyElements(*operands[0], rank * results[0].size(), results[0], 0, results[0].size());
  return success();
}
