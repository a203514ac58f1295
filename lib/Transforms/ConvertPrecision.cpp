// scrimp-convert-precision: what was narrower is computed in f64 or f32. Only types change, so the pass knows no op.
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
    if (to != "f64" && to != "f32") {
      getOperation().emitError() << "cannot convert all floats to '" << to << "'; f64 and f32 are possible";
      return signalPassFailure();
    }
    FloatType wide = to == "f64" ? FloatType(Float64Type::get(&getContext())) : Float32Type::get(&getContext());
    auto isOther = [wide](Type type) { return isa<FloatType>(type) && type != wide; };
    AttrTypeReplacer replacer;
    replacer.addReplacement([=](RankedTensorType type) -> std::optional<std::pair<Type, WalkResult>> {
      if (!isOther(type.getElementType()))
        return std::nullopt;
      return std::make_pair(Type(type.clone(wide)), WalkResult::skip());
    });
    replacer.addReplacement([=](DenseElementsAttr attr) -> std::optional<std::pair<Attribute, WalkResult>> {
      if (!isOther(attr.getElementType()))
        return std::make_pair(Attribute(attr), WalkResult::skip());
      auto widen = [&semantics = wide.getFloatSemantics()](const APFloat &value) {
        APFloat converted = value;
        bool lost;
        converted.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
        // The lowest double of an attention mask becomes the lowest float.
        if (converted.isInfinity() && !value.isInfinity())
          converted = APFloat::getLargest(semantics, value.isNegative());
        return converted.bitcastToAPInt();
      };
      return std::make_pair(Attribute(cast<DenseFPElementsAttr>(attr).mapValues(wide, widen)), WalkResult::skip());
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
  }
};
} // namespace
