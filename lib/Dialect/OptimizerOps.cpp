#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::scrimp;

void SumSquaresOp::build(OpBuilder &builder, OperationState &state, Value x) {
  int64_t blocks = llvm::divideCeil(tensorType(x).getNumElements(), kBlock);
  build(builder, state, RankedTensorType::get({blocks}, builder.getF64Type()), x);
}

LogicalResult SumSquaresOp::verify() {
  int64_t blocks = llvm::divideCeil(tensorType(getX()).getNumElements(), kBlock);
  if (tensorType(getX()).getRank() != 1)
    return emitOpError() << "the operand must have rank 1, found " << getX().getType();
  if (shapeOf(getSums()) != ArrayRef(blocks))
    return emitOpError() << "the result must have " << blocks << " elements, found " << getSums().getType();
  return success();
}

LogicalResult SumSquaresOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  MutableArrayRef<double> sums = results[0].floats();
  for (auto [j, x] : llvm::enumerate(operands[0]->floats()))
    sums[j / kBlock] += x * x;
  return success();
}

int64_t SumSquaresOp::getNumUnits() { return tensorType(getSums()).getNumElements(); }

void SumSquaresOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  int64_t size = tensorType(getX()).getNumElements(), whole = size / kBlock, rest = size % kBlock;
  Value first = arith::MulIOp::create(builder, loc, unit, emitIndex(builder, loc, kBlock));
  auto emitBlock = [&](OpBuilder &b, int64_t count) {
    Value sum = emitReduce(b, loc, count, Combine::Add, b.getF64Type(), [&](OpBuilder &inner, Value j) {
      Value index = arith::AddIOp::create(inner, loc, first, j);
      Value x = emitConvert(inner, loc, load(inner, 0, index), inner.getF64Type());
      return SmallVector<Value>{arith::MulFOp::create(inner, loc, x, x)};
    })[0];
    store(b, 0, unit, sum);
  };
  if (rest == 0 || whole == 0)
    return emitBlock(builder, rest == 0 ? kBlock : rest);
  Value isWhole =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, unit, emitIndex(builder, loc, whole));
  auto branch = scf::IfOp::create(builder, loc, isWhole, /*withElseRegion=*/true);
  OpBuilder thenBuilder = branch.getThenBodyBuilder(), elseBuilder = branch.getElseBodyBuilder();
  emitBlock(thenBuilder, kBlock);
  emitBlock(elseBuilder, rest);
}

LogicalResult CheckFiniteOp::verify() {
  if (tensorType(getX()).getNumElements() != 1)
    return emitOpError() << "looks at one element, found " << getX().getType();
  return success();
}

LogicalResult CheckFiniteOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = *operands[0];
  return success();
}

LogicalResult AfterOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = *operands[0];
  return success();
}
