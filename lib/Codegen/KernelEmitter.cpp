// The function of one kernel. All buffers are flat: an access at the indices of the loop is an access at the loop's own
// linear index, so a kernel whose accesses all are needs no index arithmetic.
#include "KernelEmitter.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/FusionLegality.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Longer inner loops are cut into pieces, so that threads can share a long row.
static constexpr int64_t kLongRow = 8192, kRowPiece = 4096;

static Type storedElementType(Type type) { return type.isInteger(1) ? IntegerType::get(type.getContext(), 8) : type; }

static MemRefType bufferType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get({tensor.getNumElements()}, storedElementType(tensor.getElementType()));
}

namespace {
/// The indices of a map kernel's loops: dimensions of size 1 are left out, the last `innerSizes.size()` are run through
/// by one loop.
struct IterationSpace {
  SmallVector<int64_t> outerSizes, innerSizes;
  SmallVector<Value> ivs; // outer, then inner
  Value row, linear, inner;
};

class KernelEmitter {
public:
  KernelEmitter(OpBuilder &builder, KernelRegionOp kernel, StringRef symbol)
      : kernel(kernel), body(kernel.getBody().front()), loc(kernel.getLoc()) {
    SmallVector<Type> types;
    for (Type type : llvm::concat<const Type>(SmallVector<Type>(kernel.getOperandTypes()),
                                              SmallVector<Type>(kernel.getResultTypes())))
      types.push_back(bufferType(type));
    size_t numBuffers = types.size();
    for (RankedTensorType type : getWorkspaceTypes(kernel))
      types.push_back(MemRefType::get(type.getShape(), type.getElementType()));
    size_t numPointers = types.size();
    types.append(2, builder.getIndexType());
    function = func::FuncOp::create(builder, loc, symbol, builder.getFunctionType(types, {}));
    Block *entry = function.addEntryBlock();
    auto arguments = ValueRange(entry->getArguments());
    inputs = arguments.take_front(kernel.getNumOperands());
    outputs = arguments.slice(kernel.getNumOperands(), kernel.getNumResults());
    workspaces = arguments.slice(numBuffers, numPointers - numBuffers);
    begin = arguments[numPointers];
    end = arguments[numPointers + 1];
    this->builder.emplace(OpBuilder::atBlockEnd(entry));
    func::ReturnOp::create(*this->builder, loc);
    this->builder->setInsertionPointToStart(entry);
  }

  void erase() { function.erase(); }
  bool usesInnerIndex();
  KernelShape emitMap(ArrayRef<int64_t> shape, size_t numOuter);
  KernelShape emitRows(KernelOp op);
  KernelShape emitSections();

private:
  Value load(OpBuilder &b, Value value, ValueRange indices);
  Value compute(OpBuilder &b, OpResult value, ValueRange indices);
  Value linearIndex(OpBuilder &b, ArrayRef<int64_t> shape, ValueRange indices);
  Value loadBuffer(OpBuilder &b, Value buffer, RankedTensorType type, ValueRange indices);
  void storeBuffer(OpBuilder &b, Value buffer, RankedTensorType type, ValueRange indices, Value value);
  void emitMapElement(OpBuilder &b, ArrayRef<int64_t> shape, unsigned first, unsigned count);
  struct Stored {
    Value buffer;
    RankedTensorType type;
    SmallVector<Value> indices;
  };
  Stored place(OpBuilder &b, Value value, ValueRange indices);

  KernelRegionOp kernel;
  Block &body;
  Location loc;
  func::FuncOp function;
  std::optional<OpBuilder> builder;
  SmallVector<Value> inputs, outputs, workspaces;
  Value begin, end;
  std::optional<IterationSpace> space; // of map kernels
  /// Of a rows kernel: the result that maps finish, and its element under way; null outside of its store.
  OpResult finished;
  Value element;
  /// Elements that a map kernel, or the maps of a rows kernel at this element, have computed, by value and indices.
  std::map<std::pair<void *, std::vector<void *>>, Value> computed;
};
} // namespace

Value KernelEmitter::linearIndex(OpBuilder &b, ArrayRef<int64_t> shape, ValueRange indices) {
  SmallVector<int64_t> sizes;
  SmallVector<Value> kept;
  for (auto [size, index] : llvm::zip_equal(shape, indices))
    if (size != 1) {
      sizes.push_back(size);
      kept.push_back(index);
    }
  if (!space)
    return emitLinearize(b, loc, kept, sizes);
  size_t numInner = space->innerSizes.size();
  ArrayRef<Value> inner = ArrayRef(space->ivs).take_back(numInner);
  if (sizes.size() < numInner || ArrayRef(kept).take_back(numInner) != inner ||
      ArrayRef(sizes).take_back(numInner) != ArrayRef(space->innerSizes))
    return emitLinearize(b, loc, kept, sizes);
  kept.truncate(kept.size() - numInner);
  sizes.truncate(sizes.size() - numInner);
  if (ArrayRef(kept) == ArrayRef(space->ivs).drop_back(numInner) && ArrayRef(sizes) == ArrayRef(space->outerSizes))
    return space->linear;
  Value row = emitLinearize(b, loc, kept, sizes);
  Value base = arith::MulIOp::create(b, loc, row, emitIndex(b, loc, productOf(space->innerSizes)));
  return arith::AddIOp::create(b, loc, base, space->inner);
}

Value KernelEmitter::loadBuffer(OpBuilder &b, Value buffer, RankedTensorType type, ValueRange indices) {
  Value value = memref::LoadOp::create(b, loc, buffer, linearIndex(b, type.getShape(), indices));
  return emitConvert(b, loc, value, type.getElementType());
}

void KernelEmitter::storeBuffer(OpBuilder &b, Value buffer, RankedTensorType type, ValueRange indices, Value value) {
  value = emitConvert(b, loc, value, storedElementType(type.getElementType()));
  memref::StoreOp::create(b, loc, value, buffer, linearIndex(b, type.getShape(), indices));
}

/// Whether `inner` is `outer` or lies inside an op of it, so that values of `outer` computed before are visible.
static bool isInside(Block *inner, Block *outer) {
  while (inner && inner != outer)
    inner = inner->getParentOp() ? inner->getParentOp()->getBlock() : nullptr;
  return inner;
}

Value KernelEmitter::load(OpBuilder &b, Value value, ValueRange indices) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (element && value == finished)
    return element;
  if (!space && !element)
    return argument ? loadBuffer(b, inputs[argument.getArgNumber()], tensorType(value), indices)
                    : compute(b, cast<OpResult>(value), indices);
  std::pair<void *, std::vector<void *>> key(value.getAsOpaquePointer(), {});
  for (Value index : indices)
    key.second.push_back(index.getAsOpaquePointer());
  auto known = computed.find(key);
  if (known != computed.end() && isInside(b.getInsertionBlock(), known->second.getParentBlock()))
    return known->second;
  Value element = argument ? loadBuffer(b, inputs[argument.getArgNumber()], tensorType(value), indices)
                           : compute(b, cast<OpResult>(value), indices);
  computed[key] = element;
  return element;
}

Value KernelEmitter::compute(OpBuilder &b, OpResult value, ValueRange indices) {
  Operation *op = value.getOwner();
  return cast<KernelOp>(op).emitElement(b, loc, indices, [&](OpBuilder &inner, unsigned operand, ValueRange at) {
    return load(inner, op->getOperand(operand), at);
  })[value.getResultNumber()];
}

/// An element of what a rows op computes goes where the moves behind it take it.
KernelEmitter::Stored KernelEmitter::place(OpBuilder &b, Value value, ValueRange indices) {
  SmallVector<Value> at(indices);
  OpOperand *use = &*value.use_begin();
  while (use->getOwner() != body.getTerminator()) {
    at = cast<KernelOp>(use->getOwner()).emitPlace(b, loc, use->getOperandNumber(), at);
    use = &*use->getOwner()->getResult(0).use_begin();
  }
  return {outputs[use->getOperandNumber()], tensorType(use->get()), at};
}

/// An element of `count` results from `first` on.
void KernelEmitter::emitMapElement(OpBuilder &b, ArrayRef<int64_t> shape, unsigned first, unsigned count) {
  SmallVector<Value> indices;
  auto next = space->ivs.begin();
  Value zero = emitIndex(b, loc, 0);
  for (int64_t size : shape)
    indices.push_back(size == 1 ? zero : *next++);
  // All loads come before the first store: an output may be an input's own bytes.
  SmallVector<Value> elements;
  ValueRange yielded = ValueRange(body.getTerminator()->getOperands()).slice(first, count);
  for (Value value : yielded)
    elements.push_back(load(b, value, indices));
  for (auto [value, element, buffer] : llvm::zip_equal(yielded, elements, ArrayRef(outputs).slice(first, count)))
    storeBuffer(b, buffer, tensorType(value), indices, element);
}

/// One loop over the dimensions after the first `numOuter`, a unit for each index of those before.
KernelShape KernelEmitter::emitMap(ArrayRef<int64_t> shape, size_t numOuter) {
  SmallVector<int64_t> sizes;
  llvm::copy_if(shape, std::back_inserter(sizes), [](int64_t size) { return size != 1; });
  function->setAttr(ScrimpDialect::kMap, builder->getUnitAttr());
  space.emplace();
  space->outerSizes.assign(sizes.begin(), sizes.begin() + numOuter);
  space->innerSizes.assign(sizes.begin() + numOuter, sizes.end());
  int64_t rows = productOf(space->outerSizes), inner = productOf(space->innerSizes);
  OpBuilder &b = *builder;
  auto emitInner = [&](OpBuilder &outer, Value from, Value to, Value base) {
    emitLoop(
        outer, loc, from, to,
        [&](OpBuilder &inside, Value j) {
          space->inner = j;
          space->linear = base ? Value(arith::AddIOp::create(inside, loc, base, j)) : j;
          size_t before = inside.getInsertionBlock()->getOperations().size();
          llvm::append_range(space->ivs, emitDelinearize(inside, loc, j, space->innerSizes));
          auto last = inside.getInsertionPoint();
          for (size_t n = inside.getInsertionBlock()->getOperations().size(); n > before; --n)
            (--last)->setAttr(ScrimpDialect::kInnerIndex, inside.getUnitAttr());
          emitMapElement(inside, shape, 0, outputs.size());
        },
        /*parallel=*/true);
  };
  if (numOuter == 0) {
    emitInner(b, begin, end, nullptr);
    return {rows * inner, true};
  }
  int64_t pieces = inner > kLongRow ? llvm::divideCeil(inner, kRowPiece) : 1;
  emitLoop(b, loc, begin, end, [&](OpBuilder &outer, Value unit) {
    Value row = unit, from = emitIndex(outer, loc, 0), to = emitIndex(outer, loc, inner);
    if (pieces > 1) {
      Value count = emitIndex(outer, loc, pieces), length = emitIndex(outer, loc, kRowPiece);
      row = arith::DivUIOp::create(outer, loc, unit, count);
      from = arith::MulIOp::create(outer, loc, arith::RemUIOp::create(outer, loc, unit, count), length);
      to = arith::MinUIOp::create(outer, loc, to, arith::AddIOp::create(outer, loc, from, length));
    }
    space->row = row;
    space->ivs = emitDelinearize(outer, loc, row, space->outerSizes);
    Value base = arith::MulIOp::create(outer, loc, row, emitIndex(outer, loc, inner));
    emitInner(outer, from, to, base);
  });
  return {inner == 0 ? 0 : rows * pieces, false};
}

/// A unit is a piece of one section's elements.
KernelShape KernelEmitter::emitSections() {
  struct Section {
    unsigned first, count;
    int64_t begin, units, elements;
  };
  SmallVector<Section> sections;
  unsigned result = 0;
  int64_t units = 0;
  for (int64_t count : kernel.getResultCounts()) {
    int64_t elements = tensorType(kernel.getResult(result)).getNumElements();
    sections.push_back({result, static_cast<unsigned>(count), units,
                        static_cast<int64_t>(llvm::divideCeil(elements, kRowPiece)), elements});
    result += count;
    units += sections.back().units;
  }
  function->setAttr(ScrimpDialect::kMap, builder->getUnitAttr());
  emitLoop(*builder, loc, begin, end, [&](OpBuilder &b, Value unit) {
    for (const Section &section : sections) {
      if (section.units == 0)
        continue;
      // Of one unit all threads do the same.
      Value own = arith::SubIOp::create(b, loc, unit, emitIndex(b, loc, section.begin));
      Value isOwn = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, own, emitIndex(b, loc, section.units));
      auto branch = scf::IfOp::create(b, loc, isOwn, /*withElseRegion=*/false);
      OpBuilder then = branch.getThenBodyBuilder();
      Value from = arith::MulIOp::create(then, loc, own, emitIndex(then, loc, kRowPiece));
      Value rest = arith::SubIOp::create(then, loc, emitIndex(then, loc, section.elements), from);
      Value length = arith::MinUIOp::create(then, loc, emitIndex(then, loc, kRowPiece), rest);
      ArrayRef<int64_t> shape = shapeOf(kernel.getResult(section.first));
      space.emplace();
      llvm::copy_if(shape, std::back_inserter(space->innerSizes), [](int64_t size) { return size != 1; });
      emitLoop(
          then, loc, emitIndex(then, loc, 0), length,
          [&](OpBuilder &inside, Value j) {
            space->inner = space->linear = arith::AddIOp::create(inside, loc, from, j);
            space->ivs = emitDelinearize(inside, loc, space->linear, space->innerSizes);
            emitMapElement(inside, shape, section.first, section.count);
          },
          /*parallel=*/true);
    }
  });
  return {units, false};
}

bool KernelEmitter::usesInnerIndex() {
  bool found = false;
  function.walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
    else
      found |= op->hasAttr(ScrimpDialect::kInnerIndex);
  });
  return found;
}

KernelShape KernelEmitter::emitRows(KernelOp op) {
  unsigned numOperands = op->getNumOperands();
  // What maps compute of the result that they finish.
  SmallVector<std::pair<Value, unsigned>> finishers;
  if ((finished = getFinishedResult(op)))
    for (auto [output, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (value.getDefiningOp() != op)
        finishers.push_back({value, output});
  auto readOperand = [&](OpBuilder &b, unsigned operand, ValueRange indices) {
    if (operand < numOperands)
      return load(b, op->getOperand(operand), indices);
    Stored at = place(b, op->getResult(operand - numOperands), indices);
    return loadBuffer(b, at.buffer, at.type, at.indices);
  };
  auto writeResult = [&](OpBuilder &b, unsigned result, ValueRange indices, Value value) {
    if (!finished || finished != op->getResult(result)) {
      Stored at = place(b, op->getResult(result), indices);
      storeBuffer(b, at.buffer, at.type, at.indices, value);
      return;
    }
    // All loads come before the first store: an output may be an input's own bytes.
    element = emitConvert(b, loc, value, tensorType(finished).getElementType());
    computed.clear();
    SmallVector<Value> elements;
    for (auto [finisher, output] : finishers)
      elements.push_back(load(b, finisher, indices));
    element = nullptr;
    for (auto [finisher, stored] : llvm::zip_equal(finishers, elements))
      storeBuffer(b, outputs[finisher.second], tensorType(finisher.first), indices, stored);
  };
  emitLoop(*builder, loc, begin, end,
           [&](OpBuilder &b, Value unit) { op.emitUnit(b, loc, unit, readOperand, writeResult, workspaces); });
  return {op.getNumUnits(), false};
}

FailureOr<KernelShape> mlir::scrimp::emitKernelFunction(OpBuilder &builder, KernelRegionOp kernel, StringRef symbol) {
  Block &body = kernel.getBody().front();
  KernelOp rowsOp;
  for (Operation &op : body.without_terminator()) {
    auto inner = cast<KernelOp>(op);
    if (inner.getKernelFamily() == KernelFamily::Map)
      continue;
    if (inner.getKernelFamily() != KernelFamily::Rows || rowsOp)
      return op.emitError() << "'" << op.getName() << "' cannot share a kernel; scrimp-form-kernels puts one op of its "
                            << "family into a kernel of its own";
    rowsOp = inner;
  }
  if (llvm::all_of(kernel.getResults(), [](Value result) { return tensorType(result).getNumElements() == 0; })) {
    KernelEmitter(builder, kernel, symbol);
    return KernelShape();
  }
  if (rowsOp)
    return KernelEmitter(builder, kernel, symbol).emitRows(rowsOp);

  if (kernel.getSections())
    return KernelEmitter(builder, kernel, symbol).emitSections();
  ArrayRef<int64_t> shape = shapeOf(kernel.getResult(0));
  // The fewer outer dimensions, the longer the inner loop; what reads by an index inside it sets the bound.
  size_t rank = llvm::count_if(shape, [](int64_t size) { return size != 1; });
  for (size_t numOuter = 0;; ++numOuter) {
    KernelEmitter emitter(builder, kernel, symbol);
    KernelShape result = emitter.emitMap(shape, numOuter);
    // A thread of a device takes one element, whatever its index costs.
    if (numOuter + 1 >= rank || TargetAttr::of(kernel).isDevice() || !emitter.usesInnerIndex())
      return result;
    emitter.erase();
  }
}
