#include "Lanes.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/AliasTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What one instruction of a device loads or stores at most.
static constexpr int64_t kVectorBytes = 16;
static constexpr int64_t kMostLanes = 8, kMostFactor = 1 << 20;
/// From here on few groups hold a multiple.
static constexpr int64_t kLargeDivisor = 64;
/// Lanes of an iteration that is longer would not pay: what it computes takes longer than what it moves.
static constexpr int64_t kMostCode = 3000;

bool mlir::scrimp::isSameExpression(Value a, Value b, Value ivA, Value ivB) {
  if (a == b || (a == ivA && b == ivB && a))
    return true;
  auto left = dyn_cast<OpResult>(a), right = dyn_cast<OpResult>(b);
  if (!left || !right || left.getResultNumber() != right.getResultNumber())
    return false;
  Operation *x = left.getOwner(), *y = right.getOwner();
  if (x->getName() != y->getName() || x->getNumRegions() || !isMemoryEffectFree(x) ||
      x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getPropertiesAsAttribute() != y->getPropertiesAsAttribute() || x->getResultTypes() != y->getResultTypes() ||
      x->getNumOperands() != y->getNumOperands())
    return false;
  for (auto [p, q] : llvm::zip(x->getOperands(), y->getOperands()))
    if (!isSameExpression(p, q, ivA, ivB))
      return false;
  return true;
}

static int64_t factorOfConstant(int64_t value) {
  return value == 0 ? kMostFactor : std::min(value & -value, kMostFactor);
}

/// What divides the result of index arithmetic on what these divide.
static int64_t combineFactors(Operation *op, int64_t a, int64_t b) {
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinUIOp, arith::MaxUIOp, arith::RemUIOp>(op))
    return std::min(a, b);
  if (isa<arith::MulIOp>(op))
    return std::min(a * b, kMostFactor);
  return 1;
}

int64_t mlir::scrimp::factorOf(Value index) {
  if (std::optional<int64_t> value = getConstantIntValue(index))
    return factorOfConstant(*value);
  if (!index.getType().isIndex())
    return 1;
  Operation *op = index.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(index);
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || loop.getInductionVar() != index)
      return 1;
    return std::min(factorOf(loop.getLowerBound()), factorOf(loop.getStep()));
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return factorOf(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::RemUIOp, arith::MinUIOp, arith::MaxUIOp>(op))
    return 1;
  return combineFactors(op, factorOf(op->getOperand(0)), factorOf(op->getOperand(1)));
}

//===-- What values are in the lanes -----------------------------------------------------------------------------===//

static Value bufferOf(Operation *access) {
  if (auto load = dyn_cast<memref::LoadOp>(access))
    return load.getMemRef();
  return cast<memref::StoreOp>(access).getMemRef();
}

static ValueRange indicesOf(Operation *access) {
  if (auto load = dyn_cast<memref::LoadOp>(access))
    return load.getIndices();
  return cast<memref::StoreOp>(access).getIndices();
}

static int64_t elementBytes(Value buffer) {
  return elementBytesOf(cast<MemRefType>(buffer.getType()).getElementType());
}

Lanes::Lanes(scf::ParallelOp loop, int64_t width, int64_t factor, const KernelBuffers &buffers)
    : loop(loop), width(width), buffers(buffers) {
  forms[loop.getInductionVars()[0]] = {Form::Next, std::min(factor, width)};
  for (Operation &op : loop.getBody()->without_terminator()) {
    Form form = computeForm(&op);
    for (Value result : op.getResults())
      forms[result] = form;
  }
}

Lanes::Form Lanes::formOf(Value value) const {
  auto known = forms.find(value);
  if (known != forms.end())
    return known->second;
  return {Form::Same, factorOf(value)};
}

Lanes::Form Lanes::computeForm(Operation *op) const {
  bool isSame = llvm::all_of(op->getOperands(), [&](Value v) { return formOf(v).kind == Form::Same; });
  if (op->getNumRegions() || op->getNumResults() != 1)
    return {};
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    bool isStored = llvm::any_of(load.getMemRef().getUsers(), [&](Operation *user) {
      return isa<memref::StoreOp>(user) && loop->isProperAncestor(user);
    });
    return isSame && !isStored ? Form{Form::Same, 1} : Form();
  }
  if (!isMemoryEffectFree(op))
    return {};
  if (isSame)
    return {Form::Same, factorOf(op->getResult(0))};
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return formOf(op->getOperand(0));
  if (op->getNumOperands() != 2)
    return {};
  Form a = formOf(op->getOperand(0)), b = formOf(op->getOperand(1));
  int64_t factor = combineFactors(op, a.factor, b.factor);
  auto isSteady = [](const Form &form) { return form.kind == Form::Mostly || form.kind == Form::Same; };
  if (isSteady(a) && isSteady(b) && isa<arith::AddIOp, arith::MulIOp, arith::DivUIOp, arith::RemUIOp>(op))
    return {Form::Mostly, 1};
  bool isSum = isa<arith::AddIOp>(op);
  if (isSum && ((a.kind == Form::Next && b.kind == Form::Same) || (a.kind == Form::Same && b.kind == Form::Next)))
    return {Form::Next, factor};
  if (a.kind != Form::Next || b.kind != Form::Same)
    return {};
  if (isa<arith::SubIOp>(op) || (isa<arith::MulIOp>(op) && getConstantIntValue(op->getOperand(1)) == int64_t(1)))
    return {Form::Next, factor};
  // The lanes lie between two multiples of the divisor.
  bool isWithin = a.factor >= width && b.factor >= width && getConstantIntValue(op->getOperand(1));
  if (isWithin && isa<arith::RemUIOp>(op))
    return {Form::Next, factor};
  if (isWithin && isa<arith::DivUIOp>(op))
    return {Form::Same, 1};
  if (isa<arith::DivUIOp>(op) && getConstantIntValue(op->getOperand(1)).value_or(0) >= kLargeDivisor)
    return {Form::Mostly, 1};
  return {};
}

int64_t Lanes::getPiece(Operation *access) const {
  auto buffer = dyn_cast<BlockArgument>(bufferOf(access));
  ValueRange indices = indicesOf(access);
  if (!buffer || indices.size() != 1 || formOf(indices[0]).kind != Form::Next)
    return 1;
  int64_t bytes = elementBytes(buffer), alignment = buffers.alignments[buffer.getArgNumber()];
  return std::max<int64_t>(1, std::min({width, kVectorBytes / bytes, alignment / bytes, formOf(indices[0]).factor}));
}

bool Lanes::isUniform(Operation *access) const {
  return llvm::all_of(indicesOf(access), [&](Value index) {
    Form::Kind kind = formOf(index).kind;
    return kind == Form::Same || kind == Form::Mostly;
  });
}

//===-- Emission -------------------------------------------------------------------------------------------------===//

SmallVector<Type> Lanes::getLoadedTypes(memref::LoadOp load) const {
  int64_t piece = getPiece(load);
  Type type = load.getType();
  return SmallVector<Type>(width / piece, piece == 1 ? type : VectorType::get({piece}, type));
}

/// Lane 0's index, moved.
static Value moveIndex(OpBuilder &b, Location loc, Value index, int64_t by) {
  return by ? Value(arith::AddIOp::create(b, loc, index, emitIndex(b, loc, by))) : index;
}

void Lanes::emitLoad(OpBuilder &b, memref::LoadOp load, MutableArrayRef<IRMapping> lanes, Context &context) const {
  Location loc = load.getLoc();
  if (context.own)
    if (Value own = context.own->lookup(load.getMemRef())) {
      for (auto [k, lane] : llvm::enumerate(lanes))
        lane.map(load.getResult(), memref::LoadOp::create(b, loc, own, emitIndex(b, loc, context.slot + k)));
      return;
    }
  if (formOf(load.getResult()).kind == Form::Same) {
    Value value = b.clone(*load, lanes[0])->getResult(0);
    for (IRMapping &lane : lanes)
      lane.map(load.getResult(), value);
    return;
  }
  int64_t piece = getPiece(load);
  SmallVector<Value> values = context.known.lookup(load);
  bool isKnown = !values.empty();
  for (int64_t k = 0; !isKnown && piece > 1 && k < width; k += piece) {
    Value index = moveIndex(b, loc, lanes[0].lookupOrDefault(load.getIndices()[0]), k);
    values.push_back(vector::LoadOp::create(b, loc, VectorType::get({piece}, load.getType()), load.getMemRef(), index,
                                            /*nontemporal=*/false,
                                            llvm::MaybeAlign(piece * elementBytes(load.getMemRef()))));
  }
  if (values.empty())
    for (IRMapping &lane : lanes)
      values.push_back(b.clone(*load, lane)->getResult(0));
  for (auto [k, lane] : llvm::enumerate(lanes))
    lane.map(load.getResult(),
             piece == 1 ? values[k]
                        : Value(vector::ExtractOp::create(b, loc, values[k / piece], static_cast<int64_t>(k) % piece)));
  context.loaded[load] = values;
}

void Lanes::emitStore(OpBuilder &b, memref::StoreOp store, MutableArrayRef<IRMapping> lanes, Context &context) const {
  Location loc = store.getLoc();
  Value own = context.own ? context.own->lookup(store.getMemRef()) : Value();
  int64_t piece = getPiece(store);
  if (own || piece == 1) {
    for (auto [k, lane] : llvm::enumerate(lanes))
      if (own)
        memref::StoreOp::create(b, loc, lane.lookupOrDefault(store.getValue()), own,
                                emitIndex(b, loc, context.slot + k));
      else
        b.clone(*store, lane);
    return;
  }
  SmallVector<Value> values;
  for (IRMapping &lane : lanes)
    values.push_back(lane.lookupOrDefault(store.getValue()));
  auto type = VectorType::get({piece}, store.getValue().getType());
  for (int64_t k = 0; k < width; k += piece) {
    Value vector = vector::FromElementsOp::create(b, loc, type, ArrayRef(values).slice(k, piece));
    Value index = moveIndex(b, loc, lanes[0].lookupOrDefault(store.getIndices()[0]), k);
    vector::StoreOp::create(b, loc, vector, store.getMemRef(), index, /*nontemporal=*/false,
                            llvm::MaybeAlign(piece * elementBytes(store.getMemRef())));
  }
}

/// Quotients and remainders of neighbours: they pass at most one multiple of a divisor that is not less than their
/// number, so one division serves all.
bool Lanes::emitDivision(OpBuilder &b, Operation &op, MutableArrayRef<IRMapping> lanes) const {
  if (width == 1 || !isa<arith::DivUIOp, arith::RemUIOp>(op) || formOf(op.getOperand(0)).kind != Form::Next ||
      getConstantIntValue(op.getOperand(1)).value_or(0) < width)
    return false;
  Location loc = op.getLoc();
  Value first = lanes[0].lookupOrDefault(op.getOperand(0)), divisor = lanes[0].lookupOrDefault(op.getOperand(1));
  Value quotient = arith::DivUIOp::create(b, loc, first, divisor),
        rest = arith::RemUIOp::create(b, loc, first, divisor);
  Type type = first.getType();
  for (auto [k, lane] : llvm::enumerate(lanes)) {
    Value number = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, static_cast<int64_t>(k)));
    Value moved = arith::AddIOp::create(b, loc, rest, number);
    Value isPast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, moved, divisor);
    Value one = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 1));
    Value value =
        isa<arith::DivUIOp>(op)
            ? Value(arith::SelectOp::create(b, loc, isPast, arith::AddIOp::create(b, loc, quotient, one), quotient))
            : Value(arith::SelectOp::create(b, loc, isPast, arith::SubIOp::create(b, loc, moved, divisor), moved));
    lane.map(op.getResult(0), value);
  }
  return true;
}

SmallVector<SmallVector<Value>> Lanes::emit(OpBuilder &b, Value first, Context &context) const {
  SmallVector<IRMapping> lanes(width);
  /// Adds the lane's number to what lane 0 has.
  auto count = [&](Value value, Value ofFirst) {
    Location loc = loop.getLoc();
    for (auto [k, lane] : llvm::enumerate(lanes)) {
      Value number = k ? Value(arith::ConstantOp::create(b, loc, b.getIntegerAttr(value.getType(), k))) : Value();
      lane.map(value, k ? Value(arith::AddIOp::create(b, loc, ofFirst, number)) : ofFirst);
    }
  };
  count(loop.getInductionVars()[0], first);
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      emitLoad(b, load, lanes, context);
      continue;
    }
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      emitStore(b, store, lanes, context);
      continue;
    }
    Form::Kind kind = op.getNumResults() == 1 ? formOf(op.getResult(0)).kind : Form::Other;
    if (kind == Form::Other || kind == Form::Mostly) {
      if (!emitDivision(b, op, lanes))
        for (IRMapping &lane : lanes)
          b.clone(op, lane);
      continue;
    }
    Value value = b.clone(op, lanes[0])->getResult(0);
    if (kind == Form::Next)
      count(op.getResult(0), value);
    else
      for (IRMapping &lane : lanes)
        lane.map(op.getResult(0), value);
  }
  SmallVector<SmallVector<Value>> results;
  for (IRMapping &lane : lanes) {
    SmallVector<Value> &values = results.emplace_back();
    for (Value value : loop.getBody()->getTerminator()->getOperands())
      values.push_back(lane.lookupOrDefault(value));
  }
  return results;
}

//===-- How many -------------------------------------------------------------------------------------------------===//

int64_t mlir::scrimp::measureBody(scf::ParallelOp loop) {
  int64_t size = 0;
  loop.getBody()->walk([&](Operation *op) {
    bool isFunction = isa<math::MathDialect>(op->getDialect());
    size += isa<arith::ConstantOp>(op) ? 0 : isFunction ? 24 : 1;
  });
  return size;
}

int64_t mlir::scrimp::chooseWidth(scf::ParallelOp loop, int64_t count, int64_t factor, const KernelBuffers &buffers) {
  SmallVector<Operation *> accesses;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (op.getNumRegions())
      return 1;
    if (isa<memref::LoadOp, memref::StoreOp>(op) && isa<BlockArgument>(bufferOf(&op)))
      accesses.push_back(&op);
  }
  // A short loop is for all threads of a warp.
  constexpr int64_t warp = 32;
  int64_t most = std::max<int64_t>(1, count / warp), code = measureBody(loop);
  for (int64_t width = kMostLanes; width > 1; width /= 2) {
    if (width > most || width * code > kMostCode)
      continue;
    Lanes lanes(loop, width, factor, buffers);
    int64_t wide = 0, narrow = 0, least = kVectorBytes;
    for (Operation *access : accesses) {
      int64_t bytes = elementBytes(bufferOf(access)), piece = lanes.getPiece(access);
      if (piece > 1)
        least = std::min(least, bytes);
      if (!lanes.isUniform(access))
        (piece > 1 ? wide : narrow) += bytes;
    }
    if (wide && wide >= narrow && width * least <= kVectorBytes)
      return width;
  }
  return 1;
}
