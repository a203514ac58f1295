// scrimp-cast-buckets: casts of a bucket's members become one of the bucket.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_CASTBUCKETS
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// The least part of a bucket that must be wanted in the other type, so that what is cast for nothing weighs little.
static constexpr int64_t kMostWanted = 16, kLeastWanted = 15;

namespace {
struct CastBuckets : mlir::scrimp::impl::CastBucketsBase<CastBuckets> {
  using CastBucketsBase::CastBucketsBase;

  void runOnOperation() override {
    if (!TargetAttr::of(getOperation()).isDevice())
      return;
    // Casts of members, by the bucket, the type and the block that they stand in, in the block's order.
    llvm::MapVector<std::tuple<Value, Type, Block *>, SmallVector<CastOp>> casts;
    getOperation().walk([&](CastOp cast) {
      auto view = cast.getX().getDefiningOp<ViewOp>();
      auto from = dyn_cast<FloatType>(tensorType(cast.getX()).getElementType());
      auto to = dyn_cast<FloatType>(tensorType(cast.getY()).getElementType());
      if (view && view->getBlock() == cast->getBlock() && from && to && to.getWidth() < from.getWidth())
        casts[{view.getBucket(), to, cast->getBlock()}].push_back(cast);
    });
    for (auto &[key, members] : casts)
      castWhole(std::get<Value>(key), std::get<Type>(key), members);
  }

  static void castWhole(Value bucket, Type type, ArrayRef<CastOp> casts) {
    int64_t wanted = 0;
    for (CastOp cast : casts)
      wanted += tensorType(cast.getX()).getNumElements();
    if (casts.size() < 2 || tensorType(bucket).getRank() != 1 ||
        wanted * kMostWanted < tensorType(bucket).getNumElements() * kLeastWanted)
      return;
    OpBuilder builder(casts.front());
    SmallVector<Location> locations;
    for (CastOp cast : casts)
      locations.push_back(cast.getLoc());
    Value whole = CastOp::create(builder, builder.getFusedLoc(locations), tensorType(bucket).clone(type), bucket);
    for (CastOp cast : casts) {
      auto view = cast.getX().getDefiningOp<ViewOp>();
      builder.setInsertionPoint(cast);
      cast.replaceAllUsesWith(
          ViewOp::create(builder, cast.getLoc(), cast.getType(), whole, view.getOffsetAttr()).getResult());
      cast->erase();
      if (view->use_empty())
        view->erase();
    }
  }
};
} // namespace
