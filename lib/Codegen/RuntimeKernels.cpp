#include "RuntimeKernels.h"
#include "ExpandUnits.h"

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::scrimp;

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string mlir::scrimp::checkSymbolOf(Type type) { return "check_" + textOf(type); }

/// What looks at an element of `type` on a device (program.fbs, CheckFinite).
static void emitCheck(OpBuilder &builder, Location loc, Type type) {
  Type i64 = builder.getI64Type(), f64 = builder.getF64Type(), index = builder.getIndexType();
  Type types[] = {MemRefType::get({1}, type), MemRefType::get({2}, i64), index, index};
  auto function = func::FuncOp::create(builder, loc, checkSymbolOf(type), builder.getFunctionType(types, {}));
  OpBuilder b = OpBuilder::atBlockBegin(function.addEntryBlock());
  Value element = function.getArgument(0), found = function.getArgument(1), number = function.getArgument(3);
  Value zero = emitIndex(b, loc, 0), one = emitIndex(b, loc, 1);
  Value value = emitConvert(b, loc, memref::LoadOp::create(b, loc, element, zero), f64);
  Value most = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(std::numeric_limits<double>::infinity()));
  Value size = math::AbsFOp::create(b, loc, value);
  Value isBad = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGE, size, most);
  Value before = memref::LoadOp::create(b, loc, found, zero);
  Value none = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, before, none);
  auto tells = scf::IfOp::create(b, loc, Value(arith::AndIOp::create(b, loc, isBad, isFirst)));
  func::ReturnOp::create(b, loc);
  b = tells.getThenBodyBuilder();
  memref::StoreOp::create(b, loc, arith::IndexCastOp::create(b, loc, i64, number), found, zero);
  memref::StoreOp::create(b, loc, arith::BitcastOp::create(b, loc, i64, value), found, one);
}

/// A kernel from one buffer to another, element by element of the units.
static void emitElements(OpBuilder &builder, Location loc, const std::string &symbol, Type from, Type to,
                         llvm::function_ref<Value(OpBuilder &, Value in, Value i, Value units)> element) {
  Type index = builder.getIndexType();
  constexpr int64_t mostElements = 1 << 30; // of a round
  auto buffer = [](Type type) { return MemRefType::get({mostElements}, type); };
  Type types[] = {buffer(from), buffer(to), index, index};
  auto function = func::FuncOp::create(builder, loc, symbol, builder.getFunctionType(types, {}));
  OpBuilder b = OpBuilder::atBlockBegin(function.addEntryBlock());
  Value in = function.getArgument(0), out = function.getArgument(1), begin = function.getArgument(2),
        end = function.getArgument(3);
  // One by one: parts of buffers begin at any element.
  emitLoop(b, loc, begin, end, [&](OpBuilder &inside, Value i) {
    memref::StoreOp::create(inside, loc, element(inside, in, i, end), out, i);
  });
  func::ReturnOp::create(b, loc);
  KernelBuffers buffers{{elementBytesOf(from), elementBytesOf(to)}, {true, false}, {0, 1}};
  expandUnitsForDevice(function, /*units=*/1, buffers);
}

static void emitInOrder(OpBuilder &builder, Location loc, Combine kind, Type from, Type to, int64_t ranks) {
  std::string symbol =
      kind == Combine::Max ? "exchange_max_" + textOf(to) : "exchange_sum_" + textOf(from) + "_" + textOf(to);
  Type compute = getComputeType(from);
  emitElements(builder, loc, symbol, from, to, [&](OpBuilder &b, Value in, Value i, Value units) {
    Value combined;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Value place = arith::AddIOp::create(b, loc, i, arith::MulIOp::create(b, loc, emitIndex(b, loc, rank), units));
      Value value = emitConvert(b, loc, memref::LoadOp::create(b, loc, in, place), compute);
      combined = rank == 0 ? value : emitCombine(b, loc, kind, combined, value);
    }
    return emitConvert(b, loc, combined, to);
  });
}

static void emitCast(OpBuilder &builder, Location loc, Type from, Type to) {
  emitElements(builder, loc, "exchange_cast_" + textOf(from) + "_" + textOf(to), from, to,
               [&](OpBuilder &b, Value in, Value i, Value) {
                 return emitConvert(b, loc, memref::LoadOp::create(b, loc, in, i), to);
               });
}

void mlir::scrimp::emitRuntimeKernels(OpBuilder &builder, ModuleOp module) {
  Location loc = module.getLoc();
  for (Type type : {Type(builder.getF32Type()), Type(builder.getF64Type()), Type(builder.getBF16Type()),
                    Type(builder.getF16Type())})
    emitCheck(builder, loc, type);
  int64_t ranks = 1;
  llvm::SetVector<std::pair<Type, Type>> reduced; // what is sent, and the elements
  module.walk([&](CollectiveOp op) {
    ranks = std::max(ranks, op.getNumRanks());
    auto cost = dyn_cast<CostOp>(op.getOperation());
    auto wire = op->getAttrOfType<TypeAttr>("wire");
    Type type = tensorType(op->getOperand(0)).getElementType();
    if (cost && cost.getFlops() > 0)
      reduced.insert({wire ? wire.getValue() : type, type});
  });
  if (ranks == 1)
    return;
  llvm::SetVector<std::pair<Type, Type>> sums, casts;
  llvm::SetVector<Type> largest;
  largest.insert(builder.getI64Type());
  for (auto [wire, type] : reduced) {
    sums.insert({wire, type});
    largest.insert(type);
    if (wire == type)
      continue;
    sums.insert({wire, wire});
    casts.insert({type, wire});
    casts.insert({wire, type});
  }
  for (auto [wire, type] : sums)
    emitInOrder(builder, loc, Combine::Add, wire, type, ranks);
  for (Type type : largest)
    emitInOrder(builder, loc, Combine::Max, type, type, ranks);
  for (auto [from, to] : casts)
    emitCast(builder, loc, from, to);
}
