#include "IndexMath.h"
#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

//===-- gather, scatter_add ----------------------------------------------------------------------------------------===//

static SmallVector<int64_t> gatherShape(ArrayRef<int64_t> x, ArrayRef<int64_t> indices, int64_t dim) {
  SmallVector<int64_t> shape(x.take_front(dim));
  llvm::append_range(shape, indices);
  llvm::append_range(shape, x.drop_front(dim + 1));
  return shape;
}

void GatherOp::build(OpBuilder &builder, OperationState &state, Value x, Value indices, int64_t dim,
                     std::optional<int64_t> padding) {
  build(builder, state, tensorType(x).clone(gatherShape(shapeOf(x), shapeOf(indices), dim)), x, indices,
        builder.getI64IntegerAttr(dim), padding ? builder.getI64IntegerAttr(*padding) : IntegerAttr());
}

static LogicalResult verifyGather(Operation *op, RankedTensorType whole, Value indices, RankedTensorType taken,
                                  int64_t dim) {
  if (dim < 0 || dim >= whole.getRank())
    return op->emitOpError() << "dim " << dim << " is not in [0, " << whole.getRank() << ")";
  auto expected = whole.clone(gatherShape(whole.getShape(), shapeOf(indices), dim));
  if (taken != expected)
    return op->emitOpError() << "expected " << expected << ", found " << taken;
  return success();
}

LogicalResult GatherOp::verify() {
  if (failed(verifyGather(*this, tensorType(getX()), getIndices(), tensorType(getY()), getDim())))
    return failure();
  int64_t size = shapeOf(getX())[getDim()];
  if (std::optional<int64_t> padding = getPadding(); padding && (*padding < 0 || *padding >= size))
    return emitOpError() << "padding " << *padding << " is not in [0, " << size << ")";
  return success();
}

/// For every element of the taken tensor: its linear index there, and that of the element of the whole it refers to.
static LogicalResult forEachTaken(Operation *op, ArrayRef<int64_t> whole, const HostTensor &indices,
                                  ArrayRef<int64_t> taken, int64_t dim, function_ref<void(int64_t, int64_t)> fn) {
  SmallVector<int64_t> wholeStrides = rowMajorStrides(whole), indexStrides = rowMajorStrides(indices.getShape());
  size_t indexRank = indexStrides.size();
  LogicalResult result = success();
  forEachIndex(taken, [&](ArrayRef<int64_t> index, int64_t i) {
    if (failed(result))
      return;
    FailureOr<int64_t> at =
        wrapIndex(op, indices.ints()[linearize(index.slice(dim, indexRank), indexStrides)], whole[dim]);
    if (failed(at)) {
      result = failure();
      return;
    }
    int64_t linear = *at * wholeStrides[dim];
    for (int64_t d = 0; d < static_cast<int64_t>(whole.size()); ++d)
      if (d != dim)
        linear += index[d < dim ? d : d + indexRank - 1] * wholeStrides[d];
    fn(i, linear);
  });
  return result;
}

LogicalResult GatherOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  return forEachTaken(*this, x.getShape(), *operands[1], y.getShape(), getDim(), [&](int64_t to, int64_t from) {
    copyElement(x, from, y, to);
  });
}

SmallVector<Value> GatherOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  int64_t dim = getDim(), indexRank = tensorType(getIndices()).getRank();
  Value at = load(builder, 1, ivs.slice(dim, indexRank));
  SmallVector<Value> index(ivs.take_front(dim));
  index.push_back(emitWrapIndex(builder, loc, at, shapeOf(getX())[dim]));
  llvm::append_range(index, ivs.drop_front(dim + indexRank));
  return {load(builder, 0, index)};
}

void GatherOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  Value g = resultGrads[0];
  if (std::optional<int64_t> padding = getPadding()) {
    Location loc = getLoc();
    RankedTensorType indexType = tensorType(getIndices());
    auto isAt = [&](int64_t index) -> Value {
      return CompareOp::create(builder, loc, Predicate::eq, getIndices(),
                               splatConstant(builder, loc, indexType, index));
    };
    // Negative indices count from the end.
    Value padded = OrOp::create(builder, loc, isAt(*padding), isAt(*padding - shapeOf(getX())[getDim()]));
    SmallVector<int64_t> shape(tensorType(g).getRank(), 1);
    llvm::copy(indexType.getShape(), shape.begin() + getDim());
    padded = ReshapeOp::create(builder, loc, tensorType(padded).clone(shape), padded);
    padded = BroadcastOp::create(builder, loc, tensorType(padded).clone(shapeOf(g)), padded);
    g = SelectOp::create(builder, loc, padded, splatConstant(builder, loc, tensorType(g), 0), g);
  }
  operandGrads[0] = ScatterAddOp::create(builder, getLoc(), getX().getType(), g, getIndices(), getDim());
}

void ScatterAddOp::build(OpBuilder &builder, OperationState &state, Type y, Value updates, Value indices, int64_t dim) {
  build(builder, state, y, updates, indices, static_cast<uint64_t>(dim), /*acc=*/Value());
}

LogicalResult ScatterAddOp::verify() {
  if (failed(verifyGather(*this, tensorType(getY()), getIndices(), tensorType(getUpdates()), getDim())))
    return failure();
  return verifyAcc(*this, getAcc());
}

std::optional<Tie> ScatterAddOp::getTie(unsigned) { return tieToAcc(*this, getAcc()); }
bool ScatterAddOp::hasCode() { return true; }
bool ScatterAddOp::mayOverwrite(unsigned operand, unsigned) { return operand == 2; }

LogicalResult ScatterAddOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  if (getAcc())
    results[0] = *operands[2];
  return forEachTaken(*this, results[0].getShape(), *operands[1], operands[0]->getShape(), getDim(),
                      [&](int64_t from, int64_t to) { results[0].floats()[to] += operands[0]->floats()[from]; });
}

void ScatterAddOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                 MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] = GatherOp::create(builder, getLoc(), resultGrads[0], getIndices(), getDim());
  if (getAcc() && needed[2])
    operandGrads[2] = resultGrads[0];
}

/// Columns of one unit on a CPU. A unit owns its columns of the result, on a device in some rows, zeroes them where
/// nothing is in them yet, and adds to them in order.
static constexpr int64_t kScatterColumns = 64;

static void splitScatterShape(ScatterAddOp op, int64_t &outer, int64_t &inner) {
  outer = inner = 1;
  for (auto [d, size] : llvm::enumerate(shapeOf(op.getY())))
    if (static_cast<int64_t>(d) != static_cast<int64_t>(op.getDim()))
      (static_cast<int64_t>(d) < static_cast<int64_t>(op.getDim()) ? outer : inner) *= size;
}

/// How many units share out the result's columns and rows.
static std::pair<int64_t, int64_t> countScatterBlocks(ScatterAddOp op, int64_t columns, int64_t rows) {
  if (TargetAttr::of(op).isDevice())
    return {llvm::divideCeil(columns, kOwnColumns), llvm::divideCeil(rows, kOwnRows)};
  return {llvm::divideCeil(columns, kScatterColumns), 1};
}

int64_t ScatterAddOp::getNumUnits() {
  int64_t outer, inner;
  splitScatterShape(*this, outer, inner);
  auto [ofColumns, ofRows] = countScatterBlocks(*this, inner, shapeOf(getY())[getDim()]);
  return outer * ofColumns * ofRows;
}

void ScatterAddOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  int64_t outer, inner, dim = getDim(), rows = shapeOf(getY())[dim];
  splitScatterShape(*this, outer, inner);
  ArrayRef<int64_t> shape = shapeOf(getY()), indexShape = shapeOf(getIndices());
  ArrayRef<int64_t> outerShape = shape.take_front(dim), innerShape = shape.drop_front(dim + 1);
  Type type = tensorType(getY()).getElementType();
  bool isDevice = TargetAttr::of(*this).isDevice();
  auto [blocks, ofRows] = countScatterBlocks(*this, inner, rows);
  int64_t count = tensorType(getIndices()).getNumElements();
  Value zero = emitIndex(builder, loc, 0), blockCount = emitIndex(builder, loc, blocks);
  auto [first, end] = emitBlockRange(builder, loc, arith::RemUIOp::create(builder, loc, unit, blockCount),
                                     isDevice ? kOwnColumns : kScatterColumns, inner);
  unit = arith::DivUIOp::create(builder, loc, unit, blockCount);
  Value firstRow = zero, endRow = emitIndex(builder, loc, rows);
  if (isDevice) {
    Value rowBlocks = emitIndex(builder, loc, ofRows);
    std::tie(firstRow, endRow) =
        emitBlockRange(builder, loc, arith::RemUIOp::create(builder, loc, unit, rowBlocks), kOwnRows, rows);
    unit = arith::DivUIOp::create(builder, loc, unit, rowBlocks);
  }
  SmallVector<Value> outerIndex = emitDelinearize(builder, loc, unit, outerShape);
  auto target = [&](OpBuilder &b, Value row, Value column) {
    SmallVector<Value> index(outerIndex);
    index.push_back(row);
    llvm::append_range(index, emitDelinearize(b, loc, column, innerShape));
    return index;
  };
  unsigned result = getNumOperands(); // for `load`
  if (!getAcc()) {
    Value zeroElement = emitConstant(builder, loc, type, 0);
    emitLoop(builder, loc, firstRow, endRow, [&](OpBuilder &b, Value row) {
      emitLoop(b, loc, first, end,
               [&](OpBuilder &inside, Value column) { store(inside, 0, target(inside, row, column), zeroElement); }, true);
    });
  }
  auto rowOf = [&](OpBuilder &b, Value i) {
    return emitWrapIndex(b, loc, load(b, 1, emitDelinearize(b, loc, i, indexShape)), rows);
  };
  auto addRow = [&](OpBuilder &b, Value i) {
    SmallVector<Value> at = emitDelinearize(b, loc, i, indexShape);
    Value row = rowOf(b, i);
    emitLoop(
        b, loc, first, end,
        [&](OpBuilder &inside, Value column) {
          SmallVector<Value> to = target(inside, row, column), from(outerIndex);
          llvm::append_range(from, at);
          llvm::append_range(from, emitDelinearize(inside, loc, column, innerShape));
          Value old = load(inside, result, to), update = load(inside, 0, from);
          store(inside, 0, to, arith::AddFOp::create(inside, loc, old, update));
        },
        true);
  };
  if (!isDevice)
    return emitLoop(builder, loc, zero, emitIndex(builder, loc, count), addRow);
  emitForOwn(
      builder, loc, count,
      [&](OpBuilder &b, Value i) { return emitIsWithin(b, loc, rowOf(b, i), firstRow, endRow); }, addRow);
}

//===-- gather_nd, scatter_nd --------------------------------------------------------------------------------------===//

namespace {
/// The parts of the shapes of a gather_nd: whole = batch + tuple + slice, indices = batch + grid + [k],
/// taken = batch + grid + slice.
struct NdShape {
  ArrayRef<int64_t> batch, tuple, slice, grid;

  NdShape(ArrayRef<int64_t> whole, ArrayRef<int64_t> indices, int64_t batchDims)
      : batch(whole.take_front(batchDims)), tuple(whole.slice(batchDims, indices.back())),
        slice(whole.drop_front(batchDims + indices.back())), grid(indices.drop_front(batchDims).drop_back()) {}

  SmallVector<int64_t> taken() const {
    SmallVector<int64_t> shape(batch);
    llvm::append_range(shape, grid);
    llvm::append_range(shape, slice);
    return shape;
  }
};
} // namespace

static LogicalResult verifyNd(Operation *op, RankedTensorType whole, Value indices, RankedTensorType taken,
                              int64_t batchDims) {
  ArrayRef<int64_t> shape = shapeOf(indices);
  int64_t rank = whole.getRank();
  if (batchDims < 0 || shape.empty() || batchDims >= static_cast<int64_t>(shape.size()) || batchDims > rank)
    return op->emitOpError() << batchDims << " batch dimensions do not fit indices " << indices.getType() << " and "
                             << whole;
  if (shape.back() > rank - batchDims)
    return op->emitOpError() << "tuples of " << shape.back() << " indices do not fit " << rank - batchDims
                             << " dimensions";
  NdShape nd(whole.getShape(), shape, batchDims);
  if (shape.take_front(batchDims) != nd.batch)
    return op->emitOpError() << "the batch dimensions of indices " << indices.getType() << " and " << whole
                             << " differ";
  auto expected = whole.clone(nd.taken());
  if (taken != expected)
    return op->emitOpError() << "expected " << expected << ", found " << taken;
  if (productOf(nd.tuple) == 0 && taken.getNumElements() > 0)
    return op->emitOpError() << whole << " has no elements to choose from";
  return success();
}

/// For every element of the taken tensor in order: its linear index, and that of the element it refers to.
static LogicalResult forEachNd(Operation *op, const NdShape &nd, const HostTensor &indices,
                               function_ref<void(int64_t taken, int64_t whole)> fn) {
  int64_t slices = productOf(nd.slice), grid = productOf(nd.grid);
  int64_t k = nd.tuple.size(), taken = 0;
  for (int64_t row = 0; row < productOf(nd.batch) * grid; ++row) {
    int64_t at = row / grid;
    for (int64_t j = 0; j < k; ++j) {
      FailureOr<int64_t> index = wrapIndex(op, indices.ints()[row * k + j], nd.tuple[j]);
      if (failed(index))
        return failure();
      at = at * nd.tuple[j] + *index;
    }
    for (int64_t s = 0; s < slices; ++s)
      fn(taken++, at * slices + s);
  }
  return success();
}

/// The index into the whole that the tuple at `at` (batch and grid) stands for, without the slice's part.
static SmallVector<Value> emitTuple(OpBuilder &builder, Location loc, const NdShape &nd, ValueRange at, LoadFn load,
                                    unsigned indices) {
  SmallVector<Value> index(at.take_front(nd.batch.size()));
  for (auto [j, size] : llvm::enumerate(nd.tuple)) {
    SmallVector<Value> from(at);
    from.push_back(emitIndex(builder, loc, j));
    index.push_back(emitWrapIndex(builder, loc, load(builder, indices, from), size));
  }
  return index;
}

void GatherNdOp::build(OpBuilder &builder, OperationState &state, Value x, Value indices, int64_t batchDims) {
  NdShape nd(shapeOf(x), shapeOf(indices), batchDims);
  build(builder, state, tensorType(x).clone(nd.taken()), x, indices, batchDims);
}

LogicalResult GatherNdOp::verify() {
  return verifyNd(*this, tensorType(getX()), getIndices(), tensorType(getY()), getBatchDims());
}

OpFoldResult GatherNdOp::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }

LogicalResult GatherNdOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  NdShape nd(shapeOf(getX()), shapeOf(getIndices()), getBatchDims());
  return forEachNd(*this, nd, *operands[1],
                   [&](int64_t to, int64_t from) { copyElement(*operands[0], from, results[0], to); });
}

SmallVector<Value> GatherNdOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  NdShape nd(shapeOf(getX()), shapeOf(getIndices()), getBatchDims());
  size_t leading = nd.batch.size() + nd.grid.size();
  SmallVector<Value> index = emitTuple(builder, loc, nd, ivs.take_front(leading), load, 1);
  llvm::append_range(index, ivs.drop_front(leading));
  return {load(builder, 0, index)};
}

void GatherNdOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                               MutableArrayRef<Value> operandGrads) {
  Value g = castToCompute(builder, getLoc(), resultGrads[0]);
  Value zeros =
      splatConstant(builder, getLoc(), tensorType(getX()).clone(tensorType(g).getElementType()), 0);
  Value dx = ScatterNdOp::create(builder, getLoc(), zeros.getType(), zeros, getIndices(), g, ScatterReduction::add,
                                 getBatchDims());
  operandGrads[0] = castToType(builder, getLoc(), dx, getX().getType());
}

LogicalResult ScatterNdOp::verify() {
  Type type = tensorType(getX()).getElementType();
  if (getReduction() == ScatterReduction::add && (type.isInteger(1) || getComputeType(type) != type))
    return emitOpError() << "adds f32, f64 or integers, found " << type;
  return verifyNd(*this, tensorType(getX()), getIndices(), tensorType(getUpdates()), getBatchDims());
}

LogicalResult ScatterNdOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = *operands[0];
  const HostTensor &updates = *operands[2];
  HostTensor &y = results[0];
  NdShape nd(shapeOf(getX()), shapeOf(getIndices()), getBatchDims());
  return forEachNd(*this, nd, *operands[1], [&](int64_t from, int64_t to) {
    if (getReduction() == ScatterReduction::none)
      copyElement(updates, from, y, to);
    else if (y.isFloat())
      y.floats()[to] += updates.floats()[from];
    else
      y.ints()[to] += updates.ints()[from];
  });
}

void ScatterNdOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                                MutableArrayRef<Value> operandGrads) {
  Value g = resultGrads[0];
  if (needed[0] && getReduction() == ScatterReduction::add)
    operandGrads[0] = g;
  else if (needed[0])
    operandGrads[0] = ScatterNdOp::create(builder, getLoc(), g.getType(), g, getIndices(),
                                          splatConstant(builder, getLoc(), tensorType(getUpdates()), 0),
                                          ScatterReduction::none, getBatchDims());
  if (needed[2])
    operandGrads[2] = GatherNdOp::create(builder, getLoc(), g, getIndices(), getBatchDims());
}

namespace {
/// How scatter_nd is shared out: a unit owns a block of the slice's elements, on a CPU in all slices of a batch member,
/// on a device in a block of these, so that there are many.
struct ScatterBlocks {
  ScatterBlocks(ScatterNdOp op, const NdShape &nd) : columns(productOf(nd.slice)), rows(productOf(nd.tuple)) {
    isDevice = TargetAttr::of(op).isDevice();
    if (isDevice)
      width = kOwnColumns;
    ofColumns = llvm::divideCeil(columns, width);
    ofRows = isDevice ? llvm::divideCeil(rows, kOwnRows) : 1;
  }
  int64_t columns, rows;
  int64_t width = 64; // of a block
  int64_t ofColumns, ofRows;
  bool isDevice;
};
} // namespace

int64_t ScatterNdOp::getNumUnits() {
  NdShape nd(shapeOf(getX()), shapeOf(getIndices()), getBatchDims());
  ScatterBlocks blocks(*this, nd);
  return productOf(nd.batch) * blocks.ofRows * blocks.ofColumns;
}

bool ScatterNdOp::mayOverwrite(unsigned operand, unsigned result) {
  // x is copied element over element before anything is scattered.
  return operand == 0;
}

void mlir::scrimp::emitForOwn(OpBuilder &builder, Location loc, int64_t count,
                              function_ref<Value(OpBuilder &, Value)> isOwn,
                              function_ref<void(OpBuilder &, Value)> body) {
  constexpr int64_t atOnce = 256;
  Type i32 = builder.getI32Type();
  auto lookAt = [&](OpBuilder &outer, Value begin, int64_t length) {
    auto numberOf = [&](OpBuilder &b, Value j) { return Value(arith::AddIOp::create(b, loc, begin, j)); };
    Value owns = emitReduce(outer, loc, length, Combine::Max, i32, [&](OpBuilder &b, Value j) {
      return SmallVector<Value>{emitConvert(b, loc, isOwn(b, numberOf(b, j)), i32)};
    })[0];
    Value none = emitConstant(outer, loc, i32, 0);
    Value any = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::sgt, owns, none);
    auto ifAny = scf::IfOp::create(outer, loc, any, /*withElseRegion=*/false);
    OpBuilder each = ifAny.getThenBodyBuilder();
    emitLoop(each, loc, emitIndex(each, loc, 0), emitIndex(each, loc, length), [&](OpBuilder &b, Value j) {
      Value number = numberOf(b, j);
      auto ifOwn = scf::IfOp::create(b, loc, isOwn(b, number), /*withElseRegion=*/false);
      OpBuilder then = ifOwn.getThenBodyBuilder();
      body(then, number);
    });
  };
  emitLoop(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, count / atOnce),
           [&](OpBuilder &outer, Value chunk) {
             lookAt(outer, arith::MulIOp::create(outer, loc, chunk, emitIndex(outer, loc, atOnce)), atOnce);
           });
  if (count % atOnce)
    lookAt(builder, emitIndex(builder, loc, count / atOnce * atOnce), count % atOnce);
}

void ScatterNdOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  NdShape nd(shapeOf(getX()), shapeOf(getIndices()), getBatchDims());
  ScatterBlocks blocks(*this, nd);
  auto index = [&](OpBuilder &b, int64_t value) { return emitIndex(b, loc, value); };
  Value zero = index(builder, 0), count = index(builder, blocks.ofColumns);
  auto [first, end] = emitBlockRange(builder, loc, arith::RemUIOp::create(builder, loc, unit, count), blocks.width,
                                     blocks.columns);
  unit = arith::DivUIOp::create(builder, loc, unit, count);
  Value firstRow = zero, endRow = index(builder, blocks.rows);
  if (blocks.isDevice) {
    count = index(builder, blocks.ofRows);
    std::tie(firstRow, endRow) =
        emitBlockRange(builder, loc, arith::RemUIOp::create(builder, loc, unit, count), kOwnRows, blocks.rows);
    unit = arith::DivUIOp::create(builder, loc, unit, count);
  }
  SmallVector<Value> batch = emitDelinearize(builder, loc, unit, nd.batch);
  auto forColumns = [&](OpBuilder &outer, function_ref<void(OpBuilder &, ValueRange slice)> body) {
    emitLoop(
        outer, loc, first, end,
        [&](OpBuilder &b, Value column) { body(b, emitDelinearize(b, loc, column, nd.slice)); }, true);
  };
  auto join = [](ArrayRef<Value> a, ValueRange b) {
    SmallVector<Value> index(a);
    llvm::append_range(index, b);
    return index;
  };
  emitLoop(builder, loc, firstRow, endRow, [&](OpBuilder &outer, Value row) {
    SmallVector<Value> tuple = join(batch, emitDelinearize(outer, loc, row, nd.tuple));
    forColumns(outer, [&](OpBuilder &b, ValueRange slice) {
      SmallVector<Value> index = join(tuple, slice);
      store(b, 0, index, load(b, 0, index));
    });
  });
  if (blocks.rows == 0)
    return;
  auto placeOf = [&](OpBuilder &b, Value row) { return join(batch, emitDelinearize(b, loc, row, nd.grid)); };
  auto scatter = [&](OpBuilder &outer, ArrayRef<Value> at, ArrayRef<Value> tuple) {
    forColumns(outer, [&](OpBuilder &b, ValueRange slice) {
      SmallVector<Value> to = join(tuple, slice);
      Value update = load(b, 2, join(at, slice));
      if (getReduction() == ScatterReduction::add)
        update = emitCombine(b, loc, Combine::Add, load(b, /*result 0=*/3, to), update);
      store(b, 0, to, update);
    });
  };
  int64_t rows = productOf(nd.grid);
  if (!blocks.isDevice) {
    emitLoop(builder, loc, zero, index(builder, rows), [&](OpBuilder &outer, Value row) {
      SmallVector<Value> at = placeOf(outer, row);
      scatter(outer, at, emitTuple(outer, loc, nd, at, load, 1));
    });
    return;
  }
  auto tupleOf = [&](OpBuilder &b, Value row) { return emitTuple(b, loc, nd, placeOf(b, row), load, 1); };
  emitForOwn(
      builder, loc, rows,
      [&](OpBuilder &b, Value row) {
        SmallVector<Value> tuple = tupleOf(b, row);
        Value to = emitLinearize(b, loc, ArrayRef(tuple).drop_front(nd.batch.size()), nd.tuple);
        return emitIsWithin(b, loc, to, firstRow, endRow);
      },
      [&](OpBuilder &b, Value row) { scatter(b, placeOf(b, row), tupleOf(b, row)); });
}
