// scrimp-form-linear: sums of products become products that add to what is there already, and loops that go on with a sum.
// One library call with one rounding replaces a buffer and an op that reads it; gradients go straight into accumulators.
// Where the target's library computes more than a product, LinearEpilogues.cpp has it do so.
#include "LinearEpilogues.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_FORMLINEAR
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// The operand of a loop that its result `term` starts from, if that is 0.
static OpOperand *getZeroStart(Value term) {
  auto body = term.getDefiningOp<BodyOp>();
  if (!body || body.getConditionOperand())
    return nullptr;
  std::optional<Tie> tie = cast<AliasOp>(*body).getTie(cast<OpResult>(term).getResultNumber());
  Attribute value;
  bool isZero = matchPattern(body->getOperand(tie->operand), m_Constant(&value)) && isSplatOf(value, 0);
  return isZero ? &body->getOpOperand(tie->operand) : nullptr;
}

/// Whether the term can add itself to the sum of others, and nobody else reads it: a product, or a sum of a loop.
static bool isProduct(Value term) {
  if (!term.hasOneUse())
    return false;
  auto product = term.getDefiningOp<AccumulatingOp>();
  return product ? !product.getBase() && product->getNumResults() == 1 : getZeroStart(term) != nullptr;
}

static void setBase(Value term, Value base) {
  if (auto product = term.getDefiningOp<AccumulatingOp>())
    product.setBase(base);
  else
    getZeroStart(term)->set(base);
}

/// Whether the term is what an iteration of the loop around finds in an accumulator, and nobody else reads it.
static bool isAccumulator(Value term) {
  auto argument = dyn_cast<BlockArgument>(term);
  auto body = argument ? dyn_cast<BodyOp>(argument.getOwner()->getParentOp()) : BodyOp();
  return body && argument.hasOneUse() && body.getBodyArgument(argument.getArgNumber()).kind == BodyArgument::Carried;
}

/// The terms of the sum, from left to right, through sums that only this one reads.
static void collectTerms(AddOp sum, SmallVectorImpl<Value> &terms, SmallVectorImpl<AddOp> &sums) {
  sums.push_back(sum);
  for (Value operand : sum->getOperands()) {
    if (auto inner = operand.getDefiningOp<AddOp>(); inner && operand.hasOneUse() && inner->getBlock() == sum->getBlock())
      collectTerms(inner, terms, sums);
    else
      terms.push_back(operand);
  }
}

/// Adds the terms up in the order in which they are computed, each product where it stands: to an accumulator, or to the
/// first product. False if no other product is left to add itself.
static bool formChain(AddOp root) {
  SmallVector<Value> terms;
  SmallVector<AddOp> sums;
  collectTerms(root, terms, sums);
  llvm::sort(terms, [](Value a, Value b) {
    if (a.getDefiningOp() && b.getDefiningOp() && a.getDefiningOp() != b.getDefiningOp())
      return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
    auto number = [](Value v) {
      auto argument = dyn_cast<BlockArgument>(v);
      return argument ? argument.getArgNumber() : cast<OpResult>(v).getResultNumber();
    };
    return std::pair(!isa<BlockArgument>(a), number(a)) < std::pair(!isa<BlockArgument>(b), number(b));
  });
  auto *base = llvm::find_if(terms, isAccumulator);
  if (base == terms.end())
    base = llvm::find_if(terms, isProduct);
  if (base == terms.end())
    return false;
  Value sum = *base;
  terms.erase(base);
  if (llvm::none_of(terms, isProduct))
    return false;
  // What comes before the first product is added to it as soon as that is there.
  OpBuilder builder(root);
  builder.setInsertionPointAfterValue(sum);
  // Two sums of one loop cannot go on from each other.
  llvm::SmallDenseSet<Operation *> loops{sum.getDefiningOp()};
  for (Value term : terms) {
    if (isProduct(term) && loops.insert(term.getDefiningOp()).second) {
      setBase(term, sum);
      sum = term;
      builder.setInsertionPointAfterValue(term);
      continue;
    }
    if (Operation *op = term.getDefiningOp(); op && !op->isBeforeInBlock(&*builder.getInsertionPoint()))
      builder.setInsertionPointAfter(op);
    sum = AddOp::create(builder, root.getLoc(), sum, term);
  }
  // The terms have a use too many until the sums are gone.
  root->getResult(0).replaceAllUsesWith(sum);
  for (AddOp old : sums)
    old->erase();
  return true;
}

namespace {
struct FormLinear : scrimp::impl::FormLinearBase<FormLinear> {
  void runOnOperation() override {
    SmallVector<AddOp> roots;
    getOperation()->walk([&](AddOp sum) {
      auto isInner = [&](Operation *user) { return isa<AddOp>(user) && user->getBlock() == sum->getBlock(); };
      if (isFloatTensor(sum->getResult(0)) && !(sum->hasOneUse() && isInner(*sum->user_begin())))
        roots.push_back(sum);
    });
    for (AddOp root : roots)
      formChain(root);
    if (TargetAttr::of(getOperation()).hasEpilogues())
      formEpilogues(getOperation());
  }
};
} // namespace
