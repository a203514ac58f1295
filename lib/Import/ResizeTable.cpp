// The op table: Resize. Along each axis an output element is a weighted sum of a few input elements at constant places
// (one for nearest, two for linear, four for cubic, more for antialiasing), so it becomes gathers, products and sums.
#include "NodeBuilder.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

/// How one axis is resampled (ONNX's Resize, coordinate_transformation_mode and mode).
struct Resampling {
  std::string mode, coordinates, nearest;
  double cubic = -0.75; // the coefficient a
  bool antialias = false, excludeOutside = false;
  bool inFloats = false; // nearest, as torch finds it: (x + offset) * (1 / scale) in f32, whatever the type
};

/// Input elements, in order, and their weights, as many for every output element; indices lie inside the input.
struct Taps {
  std::vector<std::vector<int64_t>> index; // [tap][output element]
  std::vector<std::vector<double>> weight;
};

/// Lengths of an axis. `resized` is what it would be in exact arithmetic, `out` that rounded down.
struct Lengths {
  int64_t in, out;
  double scale, resized;
};

/// Where the output element `x` lies in the coordinates of the input.
double sourceOf(const Resampling &how, const Lengths &n, double x) {
  double scale = n.scale, in = static_cast<double>(n.in);
  if (how.coordinates == "asymmetric")
    return x / scale;
  if (how.coordinates == "tf_half_pixel_for_nn")
    return (x + 0.5) / scale;
  if (how.coordinates == "align_corners")
    return n.resized == 1 ? 0 : x * (in - 1) / (n.resized - 1);
  if (how.coordinates == "pytorch_half_pixel" && n.out == 1)
    return 0;
  double source = (x + 0.5) / scale - 0.5;
  if (how.coordinates == "half_pixel_symmetric")
    source += in / 2 * (1 - static_cast<double>(n.out) / n.resized);
  return source;
}

double roundNearest(StringRef how, double x) {
  if (how == "floor")
    return std::floor(x);
  if (how == "ceil")
    return std::ceil(x);
  return how == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

/// The nearest input element.
double nearestOf(const Resampling &how, const Lengths &n, double x) {
  if (!how.inFloats)
    return roundNearest(how.nearest, sourceOf(how, n, x));
  float offset = how.coordinates == "asymmetric" ? 0.0f : 0.5f;
  return std::floor((static_cast<float>(x) + offset) * static_cast<float>(1 / n.scale));
}

/// The interpolation kernel at a distance: a triangle, or Keys' cubic convolution (1981) with the coefficient `a`.
double kernelAt(const Resampling &how, double distance) {
  double d = std::abs(distance), a = how.cubic;
  if (how.mode == "linear")
    return std::max(0.0, 1 - d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Taps tapsOf(const Resampling &how, const Lengths &n) {
  Taps taps;
  double stretch = how.antialias ? std::min(n.scale, 1.0) : 1, reach = how.mode == "cubic" ? 2 : 1;
  // The kernel's support is open, so that its taps lie symmetrically about the gap that the source falls into.
  auto first = static_cast<int64_t>(std::floor(-reach / stretch) + 1), count = 2 - 2 * first;
  if (how.mode == "nearest")
    first = 0, count = 1;
  taps.index.assign(count, std::vector<int64_t>(n.out));
  taps.weight.assign(count, std::vector<double>(n.out, 1));
  for (int64_t x = 0; x < n.out; ++x) {
    double source = sourceOf(how, n, static_cast<double>(x)), sum = 0;
    double base = how.mode == "nearest" ? nearestOf(how, n, static_cast<double>(x)) : std::floor(source);
    for (int64_t t = 0; t < count; ++t) {
      int64_t i = static_cast<int64_t>(base) + first + t;
      taps.index[t][x] = std::clamp<int64_t>(i, 0, n.in - 1);
      if (how.mode == "nearest")
        continue;
      double weight = kernelAt(how, (static_cast<double>(first + t) - (source - base)) * stretch);
      taps.weight[t][x] = how.excludeOutside && (i < 0 || i >= n.in) ? 0 : weight;
      sum += taps.weight[t][x];
    }
    for (int64_t t = 0; t < count && how.mode != "nearest" && (how.antialias || how.excludeOutside); ++t)
      taps.weight[t][x] /= sum;
  }
  return taps;
}

Value resample(NodeBuilder &b, Value x, int64_t axis, const Resampling &how, const Lengths &n) {
  Taps taps = tapsOf(how, n);
  SmallVector<int64_t> column(shapeOf(x).size(), 1);
  column[axis] = n.out;
  Value sum;
  for (auto [index, weight] : llvm::zip(taps.index, taps.weight)) {
    if (llvm::all_of(weight, [](double w) { return w == 0; }))
      continue;
    Value term = b.make<GatherOp>(x, b.intConstant(index, n.out), axis);
    if (how.mode != "nearest") {
      HostTensor factors(RankedTensorType::get(column, tensorType(x).getElementType()));
      llvm::copy(weight, factors.floats().begin());
      factors.roundToType();
      term = b.make<MulOp>(term, b.broadcast(b.graph.constant(b.loc, factors), shapeOf(term)));
    }
    sum = sum ? b.make<AddOp>(sum, term) : term;
  }
  return sum;
}

/// The simplest fraction in [low, high] (a step of the Stern-Brocot tree for each level of the continued fraction).
std::pair<double, double> simplestFraction(double low, double high, unsigned depth = 0) {
  double whole = std::floor(low);
  if (whole == low || depth == 40)
    return {whole, 1};
  if (whole + 1 <= high)
    return {whole + 1, 1};
  auto [numerator, denominator] = simplestFraction(1 / (high - whole), 1 / (low - whole), depth + 1);
  return {whole * numerator + denominator, numerator};
}

/// What a factor is meant to be that the file holds as a float: 1.7 or 1/3, by which torch multiplied, and not the
/// float below or above, with which another element is the nearest and another length is rounded down to.
double meantBy(float factor) {
  double up = std::nextafter(factor, INFINITY), down = std::nextafter(factor, 0.0f), value = factor;
  auto [numerator, denominator] = simplestFraction((value + down) / 2, (value + up) / 2);
  return numerator / denominator;
}

/// The lengths of the resized axes, by the inputs `scales` or `sizes`.
FailureOr<SmallVector<Lengths>> readLengths(NodeBuilder &b, ArrayRef<int64_t> axes) {
  ArrayRef<int64_t> shape = shapeOf(b.input(0));
  auto given = [&](unsigned i) { return b.has(i) && tensorType(b.input(i)).getNumElements() > 0; };
  bool bySizes = given(3);
  unsigned from = bySizes ? 3 : 2;
  StringRef what = bySizes ? "sizes" : "scales";
  if (given(2) == bySizes)
    return b.error() << "needs scales or sizes, found " << (bySizes ? "both" : "neither");
  std::optional<HostTensor> values = constantOf(b.input(from));
  if (!values)
    return b.error() << what << " ('" << b.node.inputs[from]
                     << "') depends on the data; Scrimp needs it when it compiles";
  if (values->size() != static_cast<int64_t>(axes.size()) || values->isFloat() == bySizes)
    return b.error() << what << " is " << values->getType() << ", expected " << axes.size()
                     << (bySizes ? " integers" : " floats");
  auto exact = b.graph.lists.find(b.node.inputs[from]);
  bool isExact = exact != b.graph.lists.end() && exact->second.size() == axes.size();
  SmallVector<Lengths> lengths;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    double in = static_cast<double>(shape[axis]), value = isExact ? exact->second[i] : values->asDouble(i);
    if (!bySizes && !isExact && value > 0 && value < 1 << 30)
      value = meantBy(static_cast<float>(value));
    double scale = bySizes ? value / in : value, resized = bySizes ? value : value * in;
    if (!(scale > 0 && resized >= 1 && resized < 1 << 30))
      return b.error() << "axis " << axis << " of " << shape[axis] << " elements would have " << resized;
    lengths.push_back({shape[axis], static_cast<int64_t>(resized), scale, resized});
  }
  std::string policy = b.stringAttr("keep_aspect_ratio_policy", "stretch");
  if (!llvm::is_contained({"stretch", "not_larger", "not_smaller"}, policy))
    return b.error() << "keep_aspect_ratio_policy is '" << policy << "', expected stretch, not_larger or not_smaller";
  if (bySizes && policy != "stretch") {
    auto byScale = [](const Lengths &a, const Lengths &b) { return a.scale < b.scale; };
    auto [least, most] = std::minmax_element(lengths.begin(), lengths.end(), byScale);
    double scale = policy == "not_larger" ? least->scale : most->scale;
    for (Lengths &n : lengths) {
      n.scale = scale;
      n.out = std::max<int64_t>(std::llround(scale * static_cast<double>(n.in)), 1);
      n.resized = static_cast<double>(n.out);
    }
  }
  return lengths;
}

LogicalResult resize(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 1)))
    return failure();
  Value x = b.input(0);
  if (tensorType(x).getNumElements() == 0)
    return b.error() << "an input of " << tensorType(x) << " has nothing to resize";
  Resampling how;
  how.mode = b.stringAttr("mode", "nearest");
  how.coordinates = b.stringAttr("coordinate_transformation_mode", "half_pixel");
  how.nearest = b.stringAttr("nearest_mode", "round_prefer_floor");
  how.inFloats =
      (how.coordinates == "asymmetric" && how.nearest == "floor") || b.isFrom({"aten._upsample_nearest_exact"});
  how.cubic = b.floatAttr("cubic_coeff_a", -0.75);
  how.antialias = b.intAttr("antialias", 0) && how.mode != "nearest";
  how.excludeOutside = b.intAttr("exclude_outside", 0);
  b.pass("extrapolation_value"); // of a crop, as is input 1
  (void)b.has(1);
  if (!llvm::is_contained({"nearest", "linear", "cubic"}, how.mode))
    return b.error() << "mode is '" << how.mode << "', expected nearest, linear or cubic";
  if (!llvm::is_contained({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                           "tf_half_pixel_for_nn"},
                          how.coordinates))
    return b.error() << "coordinate_transformation_mode '" << how.coordinates << "' is not supported";
  if (!llvm::is_contained({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}, how.nearest))
    return b.error() << "nearest_mode '" << how.nearest << "' is not supported";
  SmallVector<int64_t> axes = b.intsAttr("axes").value_or(SmallVector<int64_t>());
  if (!b.hasAttr("axes"))
    llvm::append_range(axes, llvm::seq<int64_t>(0, shapeOf(x).size()));
  for (int64_t &axis : axes) {
    FailureOr<int64_t> normalized = b.normalizeAxis(axis, shapeOf(x).size());
    if (failed(normalized))
      return failure();
    axis = *normalized;
  }
  FailureOr<SmallVector<Lengths>> lengths = readLengths(b, axes);
  if (failed(lengths))
    return failure();
  // PyTorch antialiases aligned corners by half pixels all the same, at the distance that its corners have.
  if (how.antialias && how.coordinates == "align_corners" &&
      b.isFrom({"aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"})) {
    how.coordinates = "half_pixel";
    for (Lengths &n : *lengths)
      if (n.in != n.out)
        n.scale = n.out > 1 ? static_cast<double>(n.out - 1) / static_cast<double>(n.in - 1) : INFINITY;
  }
  for (auto [axis, n] : llvm::zip(axes, *lengths))
    if (n.scale != 1 || n.out != n.in)
      x = resample(b, x, axis, how, n);
  return b.result(x);
}

const OpEntry kOps[] = {
    {"Resize", "", 11, 0, resize},
};

} // namespace

ArrayRef<OpEntry> onnx_import::resizeOps() { return kOps; }
