// Which precision the ops compute in, and which of their floats must share a type (PrecisionOp). Ops whose floats are
// all of one type and whose kernel family tells how they compute have the interface's default.
#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

PrecisionRule mlir::scrimp::defaultPrecisionRule(Operation *op) {
  switch (cast<KernelOp>(op).getKernelFamily()) {
  case KernelFamily::Library:
    return {op, Precision::Low};
  case KernelFamily::Rows:
    return {op, Precision::Inside};
  case KernelFamily::Map:
    return {op, Precision::Follow};
  case KernelFamily::View:
  case KernelFamily::Command:
    return {op, Precision::Exact};
  }
  llvm_unreachable("a family");
}

/// The default, with the results from number `firstWide` on and the operands in `wide` of the wide type, and the
/// operands in `own` of a type of their own.
static PrecisionRule ruleOf(Operation *op, unsigned firstWide, ArrayRef<unsigned> wide = {},
                            ArrayRef<unsigned> own = {}) {
  PrecisionRule rule = defaultPrecisionRule(op);
  for (unsigned r = firstWide; r < rule.results.size(); ++r)
    rule.results[r] = ElementKind::Wide;
  for (unsigned o : wide)
    rule.operands[o] = ElementKind::Wide;
  for (unsigned o : own)
    if (o < rule.operands.size()) // optional operands come last
      rule.operands[o] = ElementKind::Own;
  return rule;
}

/// Sums are made where the results lie, so these are of the wide type.
static PrecisionRule sumsInPlace(Operation *op) {
  PrecisionRule rule = defaultPrecisionRule(op);
  llvm::fill(rule.operands, ElementKind::Wide);
  llvm::fill(rule.results, ElementKind::Wide);
  return rule;
}

//===-- Elements that move
//-----------------------------------------------------------------------------------------===//

PrecisionRule SelectOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule BroadcastOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule TransposeOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule SliceOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule PadOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule ConcatOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule GatherOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule GatherElementsOp::getPrecisionRule() { return {*this, Precision::Exact}; }
PrecisionRule GatherNdOp::getPrecisionRule() { return {*this, Precision::Exact}; }

/// A cast's types are its meaning.
PrecisionRule CastOp::getPrecisionRule() {
  PrecisionRule rule(*this, Precision::Follow);
  rule.operands[0] = rule.results[0] = ElementKind::Own;
  return rule;
}

//===-- Sums
//-------------------------------------------------------------------------------------------------------===//

/// A sum of 16 elements or more is a statistic of them.
PrecisionRule ReduceOp::getPrecisionRule() {
  PrecisionRule rule = defaultPrecisionRule(*this);
  rule.givesStatistics = tensorType(getY()).getNumElements() * 16 <= tensorType(getX()).getNumElements();
  return rule;
}

PrecisionRule LogSumExpOp::getPrecisionRule() {
  PrecisionRule rule = defaultPrecisionRule(*this);
  rule.givesStatistics = true;
  return rule;
}

PrecisionRule ScatterAddOp::getPrecisionRule() { return sumsInPlace(*this); }
PrecisionRule ScatterElementsAddOp::getPrecisionRule() { return sumsInPlace(*this); }
PrecisionRule ScatterNdOp::getPrecisionRule() {
  return getReduction() == ScatterReduction::add ? sumsInPlace(*this) : defaultPrecisionRule(*this);
}

//===-- Contractions
//-----------------------------------------------------------------------------------------------===//

/// A product may be stored as it was summed.
static PrecisionRule productRule(Operation *op) {
  PrecisionRule rule(op, Precision::Low);
  rule.results[0] = ElementKind::Own;
  return rule;
}

PrecisionRule MatmulOp::getPrecisionRule() {
  PrecisionRule rule = productRule(*this);
  if (getAcc())
    rule.operands.back() = rule.results[0] = ElementKind::Wide;
  return rule;
}
/// Made after types are settled.
PrecisionRule LinearOp::getPrecisionRule() { return productRule(*this); }
PrecisionRule Conv2dOp::getPrecisionRule() { return productRule(*this); }
PrecisionRule Conv2dInputGradOp::getPrecisionRule() { return productRule(*this); }
PrecisionRule Conv2dWeightGradOp::getPrecisionRule() { return productRule(*this); }

/// Products, by a library or by kernels. Masks are scores, which are in f32: of 16 bits they could not tell "very
/// unlikely" from "never".
template <typename Op> static PrecisionRule attentionRule(Op op, unsigned firstWide, ArrayRef<unsigned> wide = {}) {
  PrecisionRule rule = ruleOf(op, firstWide, wide);
  rule.precision = Precision::Low;
  auto [first, count] = op.getODSOperandIndexAndLength(std::is_same_v<Op, AttentionOp> ? 3 : 6);
  for (unsigned i = 0; i < count; ++i)
    rule.operands[first + i] = ElementKind::Wide;
  return rule;
}

PrecisionRule AttentionOp::getPrecisionRule() { return attentionRule(*this, /*firstWide=*/1); }
PrecisionRule AttentionGradOp::getPrecisionRule() { return attentionRule(*this, /*firstWide=*/3, /*wide=*/{4}); }
PrecisionRule AttentionMaskGradOp::getPrecisionRule() { return attentionRule(*this, /*firstWide=*/0, /*wide=*/{4}); }

//===-- Norms and losses
//-------------------------------------------------------------------------------------------===//

PrecisionRule LayerNormOp::getPrecisionRule() { return ruleOf(*this, 1, {}, /*own=*/{1, 2}); }
PrecisionRule LayerNormGradOp::getPrecisionRule() { return ruleOf(*this, 1, {1, 2}, /*own=*/{4}); }
PrecisionRule LayerNormParameterGradOp::getPrecisionRule() { return ruleOf(*this, 0, {1, 2}); }
PrecisionRule RmsNormOp::getPrecisionRule() { return ruleOf(*this, 1, {}, /*own=*/{1}); }
PrecisionRule RmsNormGradOp::getPrecisionRule() { return ruleOf(*this, 1, {1}, /*own=*/{3}); }
PrecisionRule RmsNormParameterGradOp::getPrecisionRule() { return ruleOf(*this, 0, {1}); }
PrecisionRule BatchNormOp::getPrecisionRule() { return ruleOf(*this, 1, {1, 2, 3, 4}); }
PrecisionRule BatchNormGradOp::getPrecisionRule() { return ruleOf(*this, 1, {2, 3, 4}); }
PrecisionRule CrossEntropyOp::getPrecisionRule() { return ruleOf(*this, 0); }
PrecisionRule CrossEntropyGradOp::getPrecisionRule() {
  PrecisionRule rule = ruleOf(*this, 1, {2, 3});
  rule.precision = Precision::Inside;
  return rule;
}
