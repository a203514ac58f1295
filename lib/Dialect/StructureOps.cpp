#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"

using namespace mlir;
using namespace mlir::scrimp;

/// `offset` elements of a bucket in bytes.
static int64_t toBytes(Value bucket, int64_t offset) {
  return offset * elementBytesOf(tensorType(bucket).getElementType());
}

/// Checks that a piece of `piece`'s size fits at `offset` of a rank-1 bucket of the same element type.
static LogicalResult verifyPiece(Operation *op, Value bucket, Value piece, int64_t offset) {
  RankedTensorType whole = tensorType(bucket), part = tensorType(piece);
  if (whole.getRank() != 1 || whole.getElementType() != part.getElementType())
    return op->emitOpError() << "the bucket must have rank 1 and element type " << part.getElementType() << ", found "
                             << whole;
  if (offset < 0 || offset + part.getNumElements() > whole.getNumElements())
    return op->emitOpError() << part.getNumElements() << " elements at " << offset << " do not fit into "
                             << whole.getNumElements();
  return success();
}

LogicalResult ViewOp::verify() { return verifyPiece(*this, getBucket(), getY(), getOffset()); }

std::optional<Tie> ViewOp::getTie(unsigned) { return Tie{0, toBytes(getBucket(), getOffset()), std::nullopt}; }

LogicalResult ViewOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  HostTensor &y = results[0];
  for (int64_t i = 0; i < y.size(); ++i) {
    if (y.isFloat())
      y.floats()[i] = operands[0]->floats()[getOffset() + i];
    else
      y.ints()[i] = operands[0]->ints()[getOffset() + i];
  }
  return success();
}

void PackOp::build(OpBuilder &builder, OperationState &state, Value bucket, Value piece, int64_t offset) {
  build(builder, state, bucket.getType(), bucket, piece, offset);
}

LogicalResult PackOp::verify() {
  if (getBucket().getType() != getY().getType())
    return emitOpError() << "the result must have the bucket's type";
  return verifyPiece(*this, getBucket(), getPiece(), getOffset());
}

std::optional<Tie> PackOp::getTie(unsigned) { return Tie{0, toBytes(getBucket(), getOffset()), 1}; }

LogicalResult PackOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  results[0] = *operands[0];
  for (int64_t i = 0; i < operands[1]->size(); ++i) {
    if (results[0].isFloat())
      results[0].floats()[getOffset() + i] = operands[1]->floats()[i];
    else
      results[0].ints()[getOffset() + i] = operands[1]->ints()[i];
  }
  return success();
}

static LogicalResult verifySections(KernelRegionOp kernel) {
  SmallVector<int64_t> counts = kernel.getResultCounts();
  int64_t sum = 0;
  for (int64_t count : counts) {
    if (count < 1)
      return kernel.emitOpError() << "a section must have a result, found " << count;
    sum += count;
  }
  if (sum != kernel->getNumResults())
    return kernel.emitOpError() << "the sections must have " << kernel->getNumResults() << " results in all, found "
                                << sum;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (cast<KernelOp>(op).getKernelFamily() != KernelFamily::Map)
      return op.emitOpError() << "cannot be part of a section: it is not element by element";
  for (unsigned result = 0; result < kernel->getNumResults(); ++result)
    if (auto shape = shapeOf(kernel.getResult(kernel.getSection(result).first));
        shapeOf(kernel.getResult(result)) != shape)
      return kernel.emitOpError() << "the results of a section must have one shape, found "
                                  << kernel.getResult(result).getType() << " in one of shape " << shape;
  return success();
}

LogicalResult KernelRegionOp::verify() {
  Block &block = getBody().front();
  if (TypeRange(block.getArgumentTypes()) != TypeRange(getInputs().getTypes()))
    return emitOpError() << "the body's arguments must have the operands' types";
  if (TypeRange(block.getTerminator()->getOperandTypes()) != TypeRange(getOutputs().getTypes()))
    return emitOpError() << "the body must yield the results' types";
  for (Operation &op : block.without_terminator())
    if (auto kernel = dyn_cast<KernelOp>(op); !kernel || kernel.getKernelFamily() == KernelFamily::Command)
      return op.emitOpError() << "cannot be part of a kernel";
  return getSections() ? verifySections(*this) : success();
}

SmallVector<int64_t> KernelRegionOp::getResultCounts() {
  if (std::optional<ArrayRef<int64_t>> sections = getSections())
    return SmallVector<int64_t>(*sections);
  return {static_cast<int64_t>(getNumResults())};
}

std::pair<unsigned, unsigned> KernelRegionOp::getSection(unsigned result) {
  unsigned first = 0;
  for (int64_t count : getResultCounts()) {
    if (result < first + count)
      return {first, static_cast<unsigned>(count)};
    first += count;
  }
  llvm_unreachable("a result");
}

static int64_t flopsOf(Block &block) {
  int64_t flops = 0;
  for (Operation &op : block)
    if (auto cost = dyn_cast<CostOp>(op))
      flops += cost.getFlops();
  return flops;
}

std::optional<Tie> KernelRegionOp::getTie(unsigned result) {
  Block &block = getBody().front();
  auto inner = dyn_cast<OpResult>(block.getTerminator()->getOperand(result));
  auto alias = inner ? dyn_cast<AliasOp>(inner.getOwner()) : AliasOp();
  std::optional<Tie> tie = alias && alias.hasCode() ? alias.getTie(inner.getResultNumber()) : std::nullopt;
  if (tie)
    tie->operand = cast<BlockArgument>(alias->getOperand(tie->operand)).getArgNumber();
  return tie;
}

bool KernelRegionOp::hasCode() { return true; }

int64_t KernelRegionOp::getFlops() { return flopsOf(getBody().front()); }

LogicalResult KernelRegionOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  return evalBlock(getBody().front(), operands, results);
}
