#include "TrainingData.h"

#include "scrimp/Transforms/GraphFunction.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::scrimp;

static std::mt19937_64 randomFor(StringRef name, uint64_t seed) {
  return std::mt19937_64(llvm::xxh3_64bits(name) ^ (seed * 0x9E3779B97F4A7C15u));
}

static double draw(std::mt19937_64 &random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

double mlir::scrimp::scalarValue(StringRef name, int step, int64_t valid, const Share &share) {
  const double lr = .05, beta1 = .9, beta2 = .99, decay = .1, scale = 1024;
  return llvm::StringSwitch<double>(name)
      .Case("seed", 41)
      .Case("step", step)
      .Case("sample_base", static_cast<double>(share.begin))
      .Case("rank", static_cast<double>(share.rank))
      .Case("lr", lr)
      .Case("beta1", beta1)
      .Case("beta2", beta2)
      .Case("one_minus_beta1", 1 - beta1)
      .Case("one_minus_beta2", 1 - beta2)
      .Case("eps", 1e-3) // gradients that are exactly 0 are noise that Adam would amplify
      .Case("weight_decay", decay)
      .Case("decay_factor", 1 - lr * decay)
      .Case("step_size", lr / (1 - std::pow(beta1, step)))
      .Case("sqrt_bias_correction2", std::sqrt(1 - std::pow(beta2, step)))
      .Case("clip_norm", .5)
      .Case("momentum", .9)
      .Case("dampening", .3)
      .Case("one_minus_dampening", step == 1 ? 1 : .7)
      .Case("nesterov", 1)
      .Case("loss_scale", scale)
      .Case("unscale", 1 / scale)
      .Case("valid_samples", static_cast<double>(std::clamp<int64_t>(valid - share.begin, 0, share.count)))
      .Default(std::nan(""));
}

void mlir::scrimp::initialize(StringRef name, ArrayRef<int64_t> shape, Attribute init,
                              MutableArrayRef<double> elements) {
  if (auto kind = dyn_cast_or_null<DictionaryAttr>(init))
    if (StringRef text = kind.getAs<StringAttr>("kind").getValue(); text == "ones" || text == "zeros") {
      llvm::fill(elements, text == "ones" ? 1.0 : 0.0);
      return;
    }
  std::mt19937_64 random = randomFor(name, 1);
  double bound = 1.5 / std::sqrt(std::max<int64_t>(1, shape.empty() ? 1 : productOf(shape) / shape.back()));
  for (double &element : elements)
    element = draw(random, -std::max(bound, .3), std::max(bound, .3));
}

static void fillInput(func::FuncOp function, unsigned i, uint64_t seed, int step, HostTensor &value) {
  std::mt19937_64 random = randomFor(argumentName(function, i), seed * 1000 + step);
  for (double &element : value.floats())
    element = draw(random, -2, 2);
  auto valid = function.getArgAttrOfType<DenseI64ArrayAttr>(i, "scrimp.valid");
  auto ignore = function.getArgAttrOfType<IntegerAttr>(i, "scrimp.ignore");
  int64_t size = value.size();
  for (auto [k, element] : llvm::enumerate(value.ints())) {
    element = valid ? valid[0] + static_cast<int64_t>(random() % static_cast<uint64_t>(valid[1] - valid[0])) : 0;
    bool isIgnored = draw(random, 0, 1) < .2 || seed % 7 == 3 || (seed % 3 == 1 && static_cast<int64_t>(k) * 2 >= size);
    if (ignore && isIgnored)
      element = ignore.getInt();
  }
}

HostTensor mlir::scrimp::takeShare(func::FuncOp function, unsigned i, uint64_t seed, int step, int64_t batch,
                                   const Share &share, RankedTensorType type) {
  int64_t dim = function.getArgAttrOfType<IntegerAttr>(i, ScrimpDialect::kInput).getInt();
  SmallVector<int64_t> shape(type.getShape());
  if (dim >= 0)
    shape[dim] = batch;
  HostTensor whole(type.clone(shape)), part(type);
  fillInput(function, i, seed, step, whole);
  whole.roundToType();
  if (dim < 0 || share.world == 1)
    return whole;
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t from = 0;
    for (auto [d, at] : llvm::enumerate(index)) {
      int64_t place = static_cast<int64_t>(d) != dim ? at : at < share.count ? share.begin + at : 0;
      from += place * strides[d];
    }
    if (part.isFloat())
      part.floats()[linear] = whole.floats()[from];
    else
      part.ints()[linear] = whole.ints()[from];
  });
  return part;
}

ArrayRef<Attribute> mlir::scrimp::membersOf(func::FuncOp function, unsigned argument) {
  auto bucket = function.getArgAttrOfType<BucketAttr>(argument, ScrimpDialect::kBucket);
  return bucket ? bucket.getMembers().getValue() : ArrayRef<Attribute>();
}
