// scrimp-form-linear: sums of products become products that add to what is there already. One library call with one
// rounding replaces a buffer of the product's size and an op that reads it; gradients go straight into accumulators.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_FORMLINEAR
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// The op that can take the sum's other terms as its base; null if it is none, or others need its own result.
static AccumulatingOp getProduct(Value term) {
  auto product = term.getDefiningOp<AccumulatingOp>();
  return product && !product.getBase() && product->getNumResults() == 1 && term.hasOneUse() ? product : nullptr;
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

/// Begins with an accumulator, or the first product, adds what is no product, then has the other products add
/// themselves. False if none is left to do so.
static bool formChain(AddOp root) {
  SmallVector<Value> terms;
  SmallVector<AddOp> sums;
  collectTerms(root, terms, sums);
  auto *base = llvm::find_if(terms, isAccumulator);
  if (base == terms.end())
    base = llvm::find_if(terms, getProduct);
  if (base == terms.end())
    return false;
  Value sum = *base;
  terms.erase(base);
  if (llvm::none_of(terms, getProduct))
    return false;
  OpBuilder builder(root);
  for (Value term : terms)
    if (!getProduct(term))
      sum = AddOp::create(builder, root.getLoc(), sum, term);
  for (Value term : terms)
    if (AccumulatingOp product = getProduct(term)) {
      product->moveBefore(root);
      product.setBase(sum);
      sum = term;
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
  }
};
} // namespace
