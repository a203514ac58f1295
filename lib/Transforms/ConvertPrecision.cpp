// scrimp-convert-precision: what was f32 or narrower is computed in f64. Only types change, so the pass knows no op.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_CONVERTPRECISION
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
struct ConvertPrecision : scrimp::impl::ConvertPrecisionBase<ConvertPrecision> {
  using ConvertPrecisionBase::ConvertPrecisionBase;

  void runOnOperation() override {
    if (to != "f64") {
      getOperation().emitError() << "cannot convert f32 to '" << to << "'; f64 is possible";
      return signalPassFailure();
    }
    Type f64 = Float64Type::get(&getContext());
    auto isNarrower = [](Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 64; };
    AttrTypeReplacer replacer;
    replacer.addReplacement([=](RankedTensorType type) -> std::optional<std::pair<Type, WalkResult>> {
      if (!isNarrower(type.getElementType()))
        return std::nullopt;
      return std::make_pair(Type(type.clone(f64)), WalkResult::skip());
    });
    replacer.addReplacement([=](DenseElementsAttr attr) -> std::optional<std::pair<Attribute, WalkResult>> {
      if (!isNarrower(attr.getElementType()))
        return std::make_pair(Attribute(attr), WalkResult::skip());
      auto widen = [](const APFloat &value) {
        APFloat wide = value;
        bool lost;
        wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
        return wide.bitcastToAPInt();
      };
      return std::make_pair(Attribute(cast<DenseFPElementsAttr>(attr).mapValues(f64, widen)), WalkResult::skip());
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
  }
};
} // namespace
