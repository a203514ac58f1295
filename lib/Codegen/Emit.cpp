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
  Value one = emitIndex(builder, loc, 1);
  OpBuilder::InsertionGuard guard(builder);
  if (parallel) {
    auto loop = scf::ParallelOp::create(builder, loc, begin, end, one);
    builder.setInsertionPointToStart(loop.getBody());
    return body(builder, loop.getInductionVars()[0]);
  }
  auto loop = scf::ForOp::create(builder, loc, begin, end, one);
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

SmallVector<Value> mlir::scrimp::emitReduce(OpBuilder &builder, Location loc, int64_t n, ArrayRef<Combine> kinds,
                                            ArrayRef<Type> types,
                                            function_ref<SmallVector<Value>(OpBuilder &, Value)> element) {
  SmallVector<Value> neutrals;
  for (auto [kind, type] : llvm::zip(kinds, types))
    neutrals.push_back(emitNeutral(builder, loc, kind, type));
  if (n <= 0)
    return neutrals;
  auto loop = scf::ParallelOp::create(builder, loc, ValueRange{emitIndex(builder, loc, 0)},
                                      ValueRange{emitIndex(builder, loc, n)}, ValueRange{emitIndex(builder, loc, 1)},
                                      neutrals);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(loop.getBody());
  auto reduce = scf::ReduceOp::create(builder, loc, element(builder, loop.getInductionVars()[0]));
  for (auto [region, kind] : llvm::zip(reduce.getReductions(), kinds)) {
    Block &block = region.front();
    builder.setInsertionPointToEnd(&block);
    Value sum = emitCombine(builder, loc, kind, block.getArgument(0), block.getArgument(1));
    scf::ReduceReturnOp::create(builder, loc, sum);
  }
  return llvm::to_vector_of<Value>(loop.getResults());
}
