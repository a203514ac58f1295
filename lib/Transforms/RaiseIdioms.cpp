// scrimp-raise-idioms: a family of ops that exporters write for one layer becomes that layer's op. The patterns are in
// RaiseIdioms/, a file per family; here is what they share.
#include "RaiseIdioms/Match.h"

#include "scrimp/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_RAISEIDIOMS
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

std::optional<double> mlir::scrimp::getSplat(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<BroadcastOp, ReshapeOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto constant = dyn_cast<ConstantOp>(op);
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat)
      return std::nullopt;
    auto scalar = RankedTensorType::get({}, tensorType(value).getElementType());
    HostTensor one = HostTensor::get(cast<ElementsAttr>(splat.resizeSplat(scalar)));
    return one.asDouble(0);
  }
  return std::nullopt;
}

bool mlir::scrimp::isSplatOf(Value value, double number) {
  std::optional<double> splat = getSplat(value);
  auto type = dyn_cast<FloatType>(tensorType(value).getElementType());
  return splat && *splat == (type ? roundToFloatType(number, type) : number);
}

Value mlir::scrimp::skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

Value mlir::scrimp::getRowValue(Value value, int64_t rows) {
  auto broadcast = skipReshapes(value).getDefiningOp<BroadcastOp>();
  if (!broadcast || tensorType(broadcast.getX()).getNumElements() != rows)
    return {};
  // The operand's dimensions, aligned to the right: the result's at first, then all 1.
  ArrayRef<int64_t> to = shapeOf(broadcast.getY());
  SmallVector<int64_t> from(to.size() - shapeOf(broadcast.getX()).size(), 1);
  llvm::append_range(from, shapeOf(broadcast.getX()));
  bool spreading = false;
  for (auto [size, full] : llvm::zip(from, to)) {
    spreading |= size != full;
    if (spreading && size != 1)
      return {};
  }
  return skipReshapes(broadcast.getX());
}

std::optional<int64_t> mlir::scrimp::getTrailingAxis(ReduceOp reduce) {
  int64_t rank = tensorType(reduce.getX()).getRank(), count = reduce.getDims().size();
  for (auto [i, dim] : llvm::enumerate(reduce.getDims()))
    if (dim != rank - count + static_cast<int64_t>(i))
      return std::nullopt;
  return count ? std::optional(rank - count) : std::nullopt;
}

ReduceOp mlir::scrimp::matchRowReduce(Value value, ReduceKind kind) {
  auto reduce = skipReshapes(value).getDefiningOp<ReduceOp>();
  return reduce && reduce.getKind() == kind && getTrailingAxis(reduce) ? reduce : ReduceOp();
}

void mlir::scrimp::collectFactors(Value value, SmallVectorImpl<Value> &factors, double &scale) {
  if (std::optional<double> splat = getSplat(value)) {
    scale *= *splat;
    return;
  }
  if (auto mul = value.getDefiningOp<MulOp>()) {
    collectFactors(mul.getA(), factors, scale);
    collectFactors(mul.getB(), factors, scale);
    return;
  }
  if (auto div = value.getDefiningOp<DivOp>())
    if (std::optional<double> splat = getSplat(div.getB()); splat && *splat != 0) {
      scale /= *splat;
      collectFactors(div.getA(), factors, scale);
      return;
    }
  factors.push_back(value);
}

Value mlir::scrimp::skipScale(Value value, double &scale) {
  while (true) {
    if (auto mul = value.getDefiningOp<MulOp>()) {
      bool first = getSplat(mul.getA()).has_value();
      std::optional<double> splat = getSplat(first ? mul.getA() : mul.getB());
      if (!splat)
        return value;
      scale *= *splat;
      value = first ? mul.getB() : mul.getA();
      continue;
    }
    auto div = value.getDefiningOp<DivOp>();
    std::optional<double> splat = div ? getSplat(div.getB()) : std::nullopt;
    if (!splat || *splat == 0)
      return value;
    scale /= *splat;
    value = div.getA();
  }
}

namespace {
struct RaiseIdioms : scrimp::impl::RaiseIdiomsBase<RaiseIdioms> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateActivationIdioms(patterns);
    populateAttentionIdioms(patterns);
    populateAttentionMaskIdioms(patterns);
    populateCrossEntropyIdioms(patterns);
    populateLogarithmIdioms(patterns);
    populateNoiseIdioms(patterns);
    populateNormIdioms(patterns);
    populateSoftmaxIdioms(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation()->emitError() << "scrimp-raise-idioms did not come to an end";
      return signalPassFailure();
    }
    tellLargeMasks(getOperation());
  }
};
} // namespace
