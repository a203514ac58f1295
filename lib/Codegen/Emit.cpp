#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <limits>

using namespace mlir;
using namespace mlir::scrimp;

/// Lanes and block of emitLaneReduce. They are part of what a reduction computes: changing one changes bits.
static constexpr int64_t kLanes = 16;
static constexpr int64_t kBlock = 4096;

Value mlir::scrimp::emitIndex(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value mlir::scrimp::emitConstant(OpBuilder &builder, Location loc, Type type, double value) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    APFloat converted(value);
    bool lost;
    converted.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return arith::ConstantOp::create(builder, loc, type, builder.getFloatAttr(type, converted));
  }
  return arith::ConstantOp::create(builder, loc, type, builder.getIntegerAttr(type, static_cast<int64_t>(value)));
}

Type mlir::scrimp::getComputeType(Type type) {
  if (type.isF16() || type.isBF16())
    return Float32Type::get(type.getContext());
  return type;
}

Value mlir::scrimp::emitConvert(OpBuilder &builder, Location loc, Value value, Type to) {
  Type from = value.getType();
  if (from == to)
    return value;
  if (from.isIndex() || to.isIndex()) {
    if (isa<FloatType>(to) || isa<FloatType>(from)) {
      Value wide = emitConvert(builder, loc, value, builder.getI64Type());
      return emitConvert(builder, loc, wide, to);
    }
    if (from.isInteger(1))
      return arith::IndexCastUIOp::create(builder, loc, to, value);
    return arith::IndexCastOp::create(builder, loc, to, value);
  }
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  if (fromFloat && toFloat) {
    if (fromFloat.getWidth() == toFloat.getWidth()) // f16 and bf16
      return emitConvert(builder, loc, emitConvert(builder, loc, value, builder.getF32Type()), to);
    if (fromFloat.getWidth() < toFloat.getWidth())
      return arith::ExtFOp::create(builder, loc, to, value);
    return arith::TruncFOp::create(builder, loc, to, value);
  }
  if (to.isInteger(1)) {
    Value zero = emitConstant(builder, loc, from, 0);
    if (fromFloat)
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, value, zero);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (fromFloat)
    return arith::FPToSIOp::create(builder, loc, to, value);
  if (toFloat) {
    if (from.isInteger(1))
      return arith::UIToFPOp::create(builder, loc, to, value);
    return arith::SIToFPOp::create(builder, loc, to, value);
  }
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(builder, loc, to, value);
  if (from.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, to, value);
  return arith::ExtSIOp::create(builder, loc, to, value);
}

void mlir::scrimp::emitLoop(OpBuilder &builder, Location loc, Value begin, Value end,
                            function_ref<void(OpBuilder &, Value)> body, bool parallel) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, emitIndex(builder, loc, 1));
  if (parallel)
    loop->setAttr(ScrimpDialect::kParallel, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(builder, loop.getInductionVar());
}

void mlir::scrimp::emitLoop(OpBuilder &builder, Location loc, int64_t n, function_ref<void(OpBuilder &, Value)> body,
                            bool parallel) {
  if (n <= 0)
    return;
  if (n == 1)
    return body(builder, emitIndex(builder, loc, 0));
  emitLoop(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, n), body, parallel);
}

void mlir::scrimp::emitLoopNest(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape,
                                function_ref<void(OpBuilder &, ValueRange)> body, bool innermostParallel) {
  SmallVector<Value> ivs;
  std::function<void(OpBuilder &, size_t)> emitDim = [&](OpBuilder &b, size_t dim) {
    if (dim == shape.size())
      return body(b, ivs);
    emitLoop(
        b, loc, shape[dim],
        [&](OpBuilder &inner, Value iv) {
          ivs.push_back(iv);
          emitDim(inner, dim + 1);
          ivs.pop_back();
        },
        innermostParallel && dim + 1 == shape.size());
  };
  emitDim(builder, 0);
}

Value mlir::scrimp::emitStackBuffer(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape, Type elementType) {
  Operation *op = builder.getInsertionBlock()->getParentOp();
  auto function =
      isa<FunctionOpInterface>(op) ? cast<FunctionOpInterface>(op) : op->getParentOfType<FunctionOpInterface>();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getFunctionBody().front());
  return memref::AllocaOp::create(builder, loc, MemRefType::get(shape, elementType), builder.getI64IntegerAttr(64));
}

SmallVector<Value> mlir::scrimp::emitDelinearize(OpBuilder &builder, Location loc, Value linear,
                                                 ArrayRef<int64_t> shape) {
  SmallVector<Value> indices(shape.size());
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (d == 0) {
      indices[d] = linear;
      break;
    }
    if (shape[d] == 1) {
      indices[d] = emitIndex(builder, loc, 0);
      continue;
    }
    Value size = emitIndex(builder, loc, shape[d]);
    indices[d] = arith::RemUIOp::create(builder, loc, linear, size);
    linear = arith::DivUIOp::create(builder, loc, linear, size);
  }
  return indices;
}

Value mlir::scrimp::emitLinearize(OpBuilder &builder, Location loc, ValueRange indices, ArrayRef<int64_t> shape) {
  Value linear = emitIndex(builder, loc, 0);
  for (auto [index, size] : llvm::zip(indices, shape)) {
    Value scaled = arith::MulIOp::create(builder, loc, linear, emitIndex(builder, loc, size));
    linear = arith::AddIOp::create(builder, loc, scaled, index);
  }
  return linear;
}

Value mlir::scrimp::emitCombine(OpBuilder &builder, Location loc, Combine kind, Value a, Value b) {
  ScalarExpr x(builder, loc, a), y(builder, loc, b);
  switch (kind) {
  case Combine::Add:
    return (x + y).value;
  case Combine::Mul:
    return (x * y).value;
  case Combine::Max:
    return maximum(x, y).value;
  case Combine::Min:
    return minimum(x, y).value;
  }
  llvm_unreachable("a combine kind");
}

Value mlir::scrimp::emitNeutral(OpBuilder &builder, Location loc, Combine kind, Type type) {
  double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case Combine::Add:
    return emitConstant(builder, loc, type, 0);
  case Combine::Mul:
    return emitConstant(builder, loc, type, 1);
  case Combine::Max:
  case Combine::Min: {
    if (isa<FloatType>(type))
      return emitConstant(builder, loc, type, kind == Combine::Max ? -infinity : infinity);
    unsigned width = type.getIntOrFloatBitWidth();
    APInt value = kind == Combine::Max ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width);
    return arith::ConstantOp::create(builder, loc, type, builder.getIntegerAttr(type, value));
  }
  }
  llvm_unreachable("a combine kind");
}

SmallVector<Value> mlir::scrimp::emitLaneReduce(OpBuilder &builder, Location loc, int64_t n, ArrayRef<Combine> kinds,
                                                ArrayRef<Type> types,
                                                function_ref<SmallVector<Value>(OpBuilder &, Value)> element) {
  size_t count = kinds.size();
  SmallVector<Value> neutrals;
  for (auto [kind, type] : llvm::zip(kinds, types))
    neutrals.push_back(emitNeutral(builder, loc, kind, type));
  if (n <= 0)
    return neutrals;
  SmallVector<Value> lanes;
  for (Type type : types)
    lanes.push_back(emitStackBuffer(builder, loc, {kLanes}, type));

  auto accumulate = [&](OpBuilder &b, Value lane, Value j) {
    SmallVector<Value> values = element(b, j);
    for (size_t k = 0; k < count; ++k) {
      Value old = memref::LoadOp::create(b, loc, lanes[k], lane);
      memref::StoreOp::create(b, loc, emitCombine(b, loc, kinds[k], old, values[k]), lanes[k], lane);
    }
  };
  // Elements [begin, begin + whole * 16 + rest), then the tree; gives one value per accumulator.
  auto emitBlock = [&](OpBuilder &b, Value begin, int64_t size) {
    emitLoop(
        b, loc, kLanes,
        [&](OpBuilder &inner, Value lane) {
          for (size_t k = 0; k < count; ++k)
            memref::StoreOp::create(inner, loc, neutrals[k], lanes[k], lane);
        },
        true);
    emitLoop(b, loc, size / kLanes, [&](OpBuilder &outer, Value chunk) {
      Value offset = arith::MulIOp::create(outer, loc, chunk, emitIndex(outer, loc, kLanes));
      Value base = arith::AddIOp::create(outer, loc, begin, offset);
      emitLoop(
          outer, loc, kLanes,
          [&](OpBuilder &inner, Value lane) { accumulate(inner, lane, arith::AddIOp::create(inner, loc, base, lane)); },
          true);
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
            tree[lane] = emitCombine(b, loc, kinds[k], tree[lane], tree[lane + width]);
      totals.push_back(tree[0]);
    }
    return totals;
  };

  int64_t blocks = n / kBlock, rest = n % kBlock;
  if (blocks == 0)
    return emitBlock(builder, emitIndex(builder, loc, 0), n);
  auto loop = scf::ForOp::create(builder, loc, emitIndex(builder, loc, 0), emitIndex(builder, loc, blocks),
                                 emitIndex(builder, loc, 1), neutrals);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value begin = arith::MulIOp::create(builder, loc, loop.getInductionVar(), emitIndex(builder, loc, kBlock));
    SmallVector<Value> totals = emitBlock(builder, begin, kBlock);
    for (size_t k = 0; k < count; ++k)
      totals[k] = emitCombine(builder, loc, kinds[k], loop.getRegionIterArgs()[k], totals[k]);
    scf::YieldOp::create(builder, loc, totals);
  }
  SmallVector<Value> results(loop.getResults());
  if (rest) {
    SmallVector<Value> totals = emitBlock(builder, emitIndex(builder, loc, blocks * kBlock), rest);
    for (size_t k = 0; k < count; ++k)
      results[k] = emitCombine(builder, loc, kinds[k], results[k], totals[k]);
  }
  return results;
}
