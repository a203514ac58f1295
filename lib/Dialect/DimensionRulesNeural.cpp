// Which dimensions ops on images, on rows and with random numbers run over together (BatchSplitOp).
#include "IndexMath.h"

using namespace mlir;
using namespace mlir::scrimp;

//===-- Images
//-----------------------------------------------------------------------------------------------------===//

/// Samples are independent.
static DimensionRule bySample(Operation *op, ArrayRef<unsigned> operands) {
  DimensionRule rule(op);
  SmallVector<DimensionFactors *> tensors;
  for (unsigned operand : operands)
    tensors.push_back(&rule.operands[operand]);
  for (DimensionFactors &result : rule.results)
    tensors.push_back(&result);
  rule.shareLeading(tensors, shapeOf(op->getOperand(operands[0])), 1);
  return rule;
}

DimensionRule Conv2dOp::getDimensionRule() { return bySample(*this, {0}); }
DimensionRule Conv2dInputGradOp::getDimensionRule() { return bySample(*this, {0}); }
DimensionRule Conv2dWeightGradOp::getDimensionRule() {
  DimensionRule rule(*this);
  rule.shareLeading({&rule.operands[0], &rule.operands[1]}, shapeOf(getX()), 1);
  return rule;
}

/// Samples and channels are independent.
static DimensionRule byPlane(Operation *op) {
  DimensionRule rule(op);
  SmallVector<DimensionFactors *> tensors;
  for (DimensionFactors &tensor : rule.operands)
    tensors.push_back(&tensor);
  for (DimensionFactors &tensor : rule.results)
    tensors.push_back(&tensor);
  rule.shareLeading(tensors, shapeOf(op->getOperand(0)), 2);
  return rule;
}

DimensionRule MaxPool2dOp::getDimensionRule() { return byPlane(*this); }
DimensionRule MaxPool2dGradOp::getDimensionRule() { return byPlane(*this); }
DimensionRule AvgPool2dOp::getDimensionRule() { return byPlane(*this); }
DimensionRule AvgPool2dGradOp::getDimensionRule() { return byPlane(*this); }

/// Channels are independent, samples are not. `images` and the first result are [N, C, ...], all others [C].
static DimensionRule byChannel(Operation *op, ArrayRef<unsigned> images) {
  DimensionRule rule(op);
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  unsigned sample = rule.add(shape[0], FactorKind::Statistics), channel = rule.add(shape[1]);
  auto set = [&](DimensionFactors &tensor, bool isImage) {
    if (isImage)
      tensor[0] = {sample};
    tensor[isImage ? 1 : 0] = {channel};
  };
  for (auto [i, operand] : llvm::enumerate(rule.operands))
    set(operand, llvm::is_contained(images, static_cast<unsigned>(i)));
  for (auto [i, result] : llvm::enumerate(rule.results))
    set(result, i == 0);
  return rule;
}

DimensionRule BatchNormOp::getDimensionRule() {
  DimensionRule rule = byChannel(*this, {0});
  rule.givesStatistics = true;
  return rule;
}
DimensionRule BatchNormGradOp::getDimensionRule() { return byChannel(*this, {0, 1}); }

//===-- Neural
//-----------------------------------------------------------------------------------------------------===//

/// The leading `count` dimensions of all operands and results numbered.
static DimensionRule byRow(Operation *op, int64_t count, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  DimensionRule rule(op);
  SmallVector<DimensionFactors *> tensors;
  for (unsigned operand : operands)
    tensors.push_back(&rule.operands[operand]);
  for (unsigned result : results)
    tensors.push_back(&rule.results[result]);
  rule.shareLeading(tensors, shapeOf(op->getOperand(0)), count);
  return rule;
}

static int64_t rowsOf(Value x) { return tensorType(x).getRank() - 1; }

DimensionRule SoftmaxOp::getDimensionRule() { return byRow(*this, rowsOf(getX()), {0}, {0}); }
DimensionRule SoftmaxGradOp::getDimensionRule() { return byRow(*this, rowsOf(getY()), {0, 1}, {0}); }
DimensionRule LogSoftmaxOp::getDimensionRule() { return byRow(*this, rowsOf(getX()), {0}, {0}); }
DimensionRule LogSoftmaxGradOp::getDimensionRule() { return byRow(*this, rowsOf(getY()), {0, 1}, {0}); }
DimensionRule LogSumExpOp::getDimensionRule() { return byRow(*this, rowsOf(getX()), {0}, {0}); }

DimensionRule LayerNormOp::getDimensionRule() { return byRow(*this, getAxis(), {0}, {0, 1, 2}); }
DimensionRule LayerNormGradOp::getDimensionRule() { return byRow(*this, getAxis(), {0, 1, 2, 3}, {0}); }
DimensionRule LayerNormParameterGradOp::getDimensionRule() { return byRow(*this, getAxis(), {0, 1, 2, 3}, {}); }
DimensionRule RmsNormOp::getDimensionRule() { return byRow(*this, getAxis(), {0}, {0, 1}); }
DimensionRule RmsNormGradOp::getDimensionRule() { return byRow(*this, getAxis(), {0, 1, 2}, {0}); }
DimensionRule RmsNormParameterGradOp::getDimensionRule() { return byRow(*this, getAxis(), {0, 1, 2}, {}); }

DimensionRule CrossEntropyOp::getDimensionRule() { return byRow(*this, rowsOf(getLogits()), {0, 1}, {0, 1}); }
DimensionRule CrossEntropyGradOp::getDimensionRule() { return byRow(*this, rowsOf(getLogits()), {0, 1, 2, 3}, {0}); }

/// Of a mask, or its gradient: samples and heads where it has them for itself, by those of the queries. A mask by
/// distance has no samples.
static void maskFactors(Value mask, ArrayRef<int64_t> queries, const DimensionFactors &ofQueries,
                        DimensionFactors &factors) {
  bool byDistance = shapeOf(mask).size() == 2;
  for (unsigned d = byDistance ? 1 : 0; d < 2; ++d)
    if (shapeOf(mask)[d - byDistance] == queries[d])
      factors[d - byDistance] = ofQueries[d];
}

/// Samples are independent; heads too where each query head has keys and values of its own. With dropout both draw by
/// their places: samples by the first factor.
template <typename Op> static DimensionRule attentionRule(Op op, unsigned masks, unsigned results) {
  DimensionRule rule(op);
  ArrayRef<int64_t> shape = shapeOf(op.getQ());
  bool ownHeads = shape[1] == shapeOf(op.getK())[1];
  SmallVector<DimensionFactors *> tensors;
  for (unsigned i = 0; i < masks; ++i)
    tensors.push_back(&rule.operands[i]);
  for (unsigned i = 0; i < results; ++i)
    tensors.push_back(&rule.results[i]);
  if (!op.getSeed()) {
    rule.shareLeading(tensors, shape, ownHeads ? 2 : 1);
  } else {
    SmallVector<unsigned, 2> batch, heads;
    if (std::optional<int64_t> samples = op.getSamples()) {
      batch.push_back(rule.add(*samples, FactorKind::InOrder));
      if (int64_t rest = shape[0] / *samples; rest != 1)
        batch.push_back(rule.add(rest, FactorKind::Whole));
    }
    if (ownHeads)
      heads.push_back(rule.add(shape[1], FactorKind::InOrder));
    for (DimensionFactors *tensor : tensors) {
      (*tensor)[0] = batch;
      (*tensor)[1] = heads;
    }
  }
  DimensionFactors &q = rule.operands[0];
  unsigned next = masks;
  for (Value mask : op.getMasks())
    maskFactors(mask, shape, q, rule.operands[next++]);
  if (op.getSegments())
    rule.operands[next][0] = q[0];
  return rule;
}

DimensionRule AttentionOp::getDimensionRule() { return attentionRule(*this, 3, 2); }
DimensionRule AttentionGradOp::getDimensionRule() { return attentionRule(*this, 6, 3); }
DimensionRule AttentionMaskGradOp::getDimensionRule() {
  DimensionRule rule = attentionRule(*this, 6, 0);
  maskFactors(getDmask(), shapeOf(getQ()), rule.operands[0], rule.results[0]);
  return rule;
}

/// Samples draw by their global index; where another element is in its sample decides its draw, so nothing else is cut.
template <typename Op> static DimensionRule randomRule(Op op) {
  DimensionRule rule(op);
  int64_t dim = op.getBatchDim(), samples = op.getSamples();
  if (dim < 0)
    return rule;
  SmallVector<unsigned, 2> factors{rule.add(samples, FactorKind::InOrder)};
  if (int64_t rest = shapeOf(op.getY())[dim] / samples; rest != 1)
    factors.push_back(rule.add(rest, FactorKind::Whole));
  rule.results[0][dim] = factors;
  if (rule.operands[0].size() == rule.results[0].size())
    rule.operands[0][dim] = factors;
  return rule;
}

DimensionRule DropoutOp::getDimensionRule() { return randomRule(*this); }
DimensionRule RandomUniformOp::getDimensionRule() { return randomRule(*this); }
DimensionRule StochasticRoundOp::getDimensionRule() { return randomRule(*this); }

/// `operand` is the number of sample_base.
template <typename Op>
static SmallVector<Value> buildRandomPiece(Op op, unsigned operand, OpBuilder &builder, ValueRange operands,
                                           TypeRange types, const BatchPiece &piece) {
  SmallVector<Value> pieceOperands(operands);
  GraphExpr base(builder, op.getLoc(), operands[operand]);
  pieceOperands[operand] = (base + base.with(firstIndexOf(builder, op.getLoc(), piece))).value;
  SmallVector<Value> results = cloneForPiece(op, builder, pieceOperands, types);
  int64_t dim = op.getBatchDim(), rest = shapeOf(op.getY())[dim] / static_cast<int64_t>(op.getSamples());
  cast<Op>(results[0].getDefiningOp()).setSamples(shapeOf(results[0])[dim] / rest);
  return results;
}

SmallVector<Value> DropoutOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                         const BatchPiece &piece) {
  return buildRandomPiece(*this, 3, builder, operands, types, piece);
}

SmallVector<Value> RandomUniformOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                               const BatchPiece &piece) {
  return buildRandomPiece(*this, 2, builder, operands, types, piece);
}

SmallVector<Value> StochasticRoundOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                                 const BatchPiece &piece) {
  return buildRandomPiece(*this, 3, builder, operands, types, piece);
}
