#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

DimensionRule::DimensionRule(Operation *op) {
  for (Value operand : op->getOperands())
    operands.emplace_back(tensorType(operand).getRank());
  for (Value result : op->getResults())
    results.emplace_back(tensorType(result).getRank());
}

unsigned DimensionRule::add(int64_t size, FactorKind kind) {
  factors.push_back({size, kind});
  return factors.size() - 1;
}

void DimensionRule::shareLeading(ArrayRef<DimensionFactors *> tensors, ArrayRef<int64_t> shape, size_t count) {
  for (size_t d = 0; d < count; ++d) {
    unsigned factor = add(shape[d]);
    for (DimensionFactors *tensor : tensors)
      (*tensor)[d] = {factor};
  }
}

Value mlir::scrimp::firstIndexOf(OpBuilder &builder, Location loc, const BatchPiece &piece) {
  if (piece.perSample == 1)
    return piece.begin;
  return (GraphExpr(builder, loc, piece.begin) * static_cast<double>(piece.perSample)).value;
}

DimensionRule mlir::scrimp::elementwiseRule(Operation *op) {
  DimensionRule rule(op);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  SmallVector<DimensionFactors *> tensors;
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    if (shapeOf(operand) == shape)
      tensors.push_back(&factors);
  for (auto [result, factors] : llvm::zip(op->getResults(), rule.results))
    if (shapeOf(result) == shape)
      tensors.push_back(&factors);
  rule.shareLeading(tensors, shape, shape.size());
  return rule;
}

SmallVector<Value> mlir::scrimp::cloneForPiece(Operation *op, OpBuilder &builder, ValueRange operands,
                                               TypeRange types) {
  Operation *piece = op->clone();
  piece->setOperands(operands);
  for (auto [result, type] : llvm::zip(piece->getResults(), types))
    result.setType(type);
  builder.insert(piece);
  return llvm::to_vector_of<Value>(piece->getResults());
}
