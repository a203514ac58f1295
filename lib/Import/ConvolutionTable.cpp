// The op table: convolution, pooling and batch normalization. Images are [N, C, H, W]; [N, C, L] is taken as H = 1.
#include "NodeBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

namespace {

/// Window of an op over images, brought to two spatial dimensions.
struct Window {
  SmallVector<int64_t, 2> kernel, strides, pads, dilations; // pads: top, left, bottom, right
  bool oneDimensional = false;
};

/// Reads kernel, strides, pads, dilations and auto_pad. `kernel` comes from the weight for convolutions.
FailureOr<Window> windowOf(NodeBuilder &b, Value x, ArrayRef<int64_t> kernel, bool transposed = false) {
  Window w;
  int64_t spatial = shapeOf(x).size() - 2;
  if (spatial != 1 && spatial != 2) {
    b.error() << "an input of " << tensorType(x) << " has " << spatial << " spatial dimensions; supported are 1 and 2";
    return failure();
  }
  w.oneDimensional = spatial == 1;
  SmallVector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  w.kernel.assign(kernel.begin(), kernel.end());
  SmallVector<int64_t> strides = b.intsAttr("strides").value_or(ones), pads = b.intsAttr("pads").value_or(zeros),
                       dilations = b.intsAttr("dilations").value_or(ones);
  bool positive = llvm::all_of(llvm::concat<int64_t>(w.kernel, strides, dilations), [](int64_t v) { return v > 0; });
  if ((int64_t)kernel.size() != spatial || (int64_t)strides.size() != spatial || (int64_t)pads.size() != 2 * spatial ||
      (int64_t)dilations.size() != spatial || !positive || llvm::any_of(pads, [](int64_t v) { return v < 0; })) {
    b.error() << "kernel, strides, pads and dilations do not fit an input of " << tensorType(x);
    return failure();
  }
  std::string automatic = b.stringAttr("auto_pad", "NOTSET");
  if (!llvm::is_contained({"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, automatic)) {
    b.error() << "auto_pad is '" << automatic << "', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER";
    return failure();
  }
  if (automatic == "VALID")
    pads = zeros;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (int64_t i = 0; i < spatial && !transposed; ++i) {
      int64_t size = shapeOf(x)[2 + i], out = llvm::divideCeil(size, strides[i]);
      int64_t total = std::max<int64_t>((out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size, 0);
      pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[spatial + i] = total - pads[i];
    }
  }
  if (w.oneDimensional) {
    w.kernel.insert(w.kernel.begin(), 1);
    strides.insert(strides.begin(), 1);
    dilations.insert(dilations.begin(), 1);
    pads = {0, pads[0], 0, pads[1]};
  }
  w.strides.assign(strides.begin(), strides.end());
  w.pads.assign(pads.begin(), pads.end());
  w.dilations.assign(dilations.begin(), dilations.end());
  return w;
}

/// [N, C, L] as [N, C, 1, L].
Value toImage(NodeBuilder &b, Value x, const Window &w) {
  if (!w.oneDimensional)
    return x;
  ArrayRef<int64_t> s = shapeOf(x);
  return b.reshape(x, {s[0], s[1], 1, s[2]});
}

Value fromImage(NodeBuilder &b, Value y, const Window &w) {
  if (!w.oneDimensional)
    return y;
  ArrayRef<int64_t> s = shapeOf(y);
  return b.reshape(y, {s[0], s[1], s[3]});
}

FailureOr<Value> addChannels(NodeBuilder &b, Value y, unsigned i) {
  if (!b.has(i))
    return y;
  if (failed(b.requireFloat(i)))
    return failure();
  Value bias = b.input(i);
  if (shapeOf(bias) != ArrayRef<int64_t>{shapeOf(y)[1]}) {
    b.error() << "the bias is " << tensorType(bias) << ", expected " << shapeOf(y)[1] << " elements";
    return failure();
  }
  bias = b.broadcast(b.reshape(bias, {1, shapeOf(y)[1], 1, 1}), SmallVector<int64_t>(shapeOf(y)));
  return b.make<AddOp>(y, bias);
}

/// Output extent of a sliding window, by the floor or the ceiling formula.
int64_t extent(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t dilation, int64_t stride,
               bool ceiling) {
  int64_t free = size + before + after - ((kernel - 1) * dilation + 1);
  if (free < 0)
    return 0;
  int64_t out = (ceiling ? llvm::divideCeil(free, stride) : free / stride) + 1;
  // The last window starts inside the input or its leading padding.
  return ceiling && (out - 1) * stride >= size + before ? out - 1 : out;
}

LogicalResult requireImage(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 3)))
    return failure();
  return success();
}

/// The attribute only repeats what the weight's shape says.
LogicalResult checkKernelShape(NodeBuilder &b, Value weight) {
  std::optional<SmallVector<int64_t>> stated = b.intsAttr("kernel_shape");
  ArrayRef<int64_t> kernel = shapeOf(weight).drop_front(2);
  if (!stated || ArrayRef(*stated) == kernel)
    return success();
  return b.error() << "kernel_shape is [" << ArrayRef(*stated) << "], but the weight '" << b.node.inputs[1] << "' ("
                   << tensorType(weight) << ") has a kernel of [" << kernel << "]";
}

LogicalResult conv(NodeBuilder &b) {
  if (failed(requireImage(b)) || failed(b.requireFloat(1)) || failed(b.requireRank(1, 3)))
    return failure();
  Value x = b.input(0), weight = b.input(1);
  int64_t groups = b.intAttr("group", 1);
  if (shapeOf(x).size() != shapeOf(weight).size() || groups <= 0 || shapeOf(weight)[1] * groups != shapeOf(x)[1] ||
      shapeOf(weight)[0] % groups)
    return b.error() << "a weight of " << tensorType(weight) << " with " << groups << " groups does not fit an input "
                     << "of " << tensorType(x);
  if (failed(checkKernelShape(b, weight)))
    return failure();
  FailureOr<Window> window = windowOf(b, x, shapeOf(weight).drop_front(2));
  if (failed(window))
    return failure();
  Window &w = *window;
  Value image = toImage(b, x, w);
  for (unsigned i = 0; i < 2; ++i)
    if (extent(shapeOf(image)[2 + i], w.pads[i], w.pads[2 + i], w.kernel[i], w.dilations[i], w.strides[i], false) <= 0)
      return b.error() << "a window of " << w.kernel[i] << " does not fit into " << shapeOf(image)[2 + i] << " pixels";
  // Sums of half precision are kept in f32.
  Type type = tensorType(x).getElementType(), wide = type.getIntOrFloatBitWidth() < 32 ? b.builder.getF32Type() : type;
  Value y = b.make<Conv2dOp>(b.cast(image, wide), b.cast(toImage(b, weight, w), wide), w.strides, w.pads, w.dilations,
                             groups);
  y = b.cast(y, type);
  FailureOr<Value> biased = addChannels(b, y, 2);
  return failed(biased) ? failure() : b.result(fromImage(b, *biased, w));
}

/// The adjoint of the convolution whose output is this op's input.
LogicalResult convTranspose(NodeBuilder &b) {
  if (failed(requireImage(b)) || failed(b.requireFloat(1)) || failed(b.requireRank(1, 3)))
    return failure();
  Value x = b.input(0), weight = b.input(1);
  int64_t groups = b.intAttr("group", 1);
  if (shapeOf(x).size() != shapeOf(weight).size() || groups <= 0 || shapeOf(weight)[0] != shapeOf(x)[1] ||
      shapeOf(x)[1] % groups)
    return b.error() << "a weight of " << tensorType(weight) << " with " << groups << " groups does not fit an input "
                     << "of " << tensorType(x);
  if (failed(checkKernelShape(b, weight)))
    return failure();
  FailureOr<Window> window = windowOf(b, x, shapeOf(weight).drop_front(2), true);
  if (failed(window))
    return failure();
  Window &w = *window;
  Value image = toImage(b, x, w);
  SmallVector<int64_t> extra = b.intsAttr("output_padding").value_or(SmallVector<int64_t>{});
  extra.insert(extra.begin(), 2 - std::min<size_t>(extra.size(), 2), 0);
  SmallVector<int64_t> result = {shapeOf(image)[0], shapeOf(weight)[1] * groups};
  // A wanted size (output_shape, or input * stride for SAME_*) decides the padding instead.
  std::string automatic = b.stringAttr("auto_pad", "NOTSET");
  SmallVector<int64_t> wanted = b.intsAttr("output_shape").value_or(SmallVector<int64_t>{});
  if (wanted.empty() && StringRef(automatic).starts_with("SAME"))
    for (unsigned i = 0; i < 2; ++i)
      wanted.push_back(shapeOf(image)[2 + i] * w.strides[i]);
  else if (wanted.size() == 1)
    wanted.insert(wanted.begin(), 1);
  for (unsigned i = 0; i < 2 && wanted.size() == 2; ++i) {
    int64_t total =
        w.strides[i] * (shapeOf(image)[2 + i] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - wanted[i];
    if (total < 0) { // more pixels than windows reach
      extra[i] -= total;
      total = 0;
    }
    w.pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[2 + i] = total - w.pads[i];
  }
  for (unsigned i = 0; i < 2; ++i) {
    int64_t size = w.strides[i] * (shapeOf(image)[2 + i] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 -
                   w.pads[i] - w.pads[2 + i];
    if (size <= 0)
      return b.error() << "the output would have " << size << " pixels";
    result.push_back(size);
  }
  Type type = tensorType(x).getElementType(), wide = type.getIntOrFloatBitWidth() < 32 ? b.builder.getF32Type() : type;
  Value y = b.make<Conv2dInputGradOp>(tensorType(image).clone(result).clone(wide), b.cast(image, wide),
                                      b.cast(toImage(b, weight, w), wide), b.builder.getDenseI64ArrayAttr(w.strides),
                                      b.builder.getDenseI64ArrayAttr(w.pads),
                                      b.builder.getDenseI64ArrayAttr(w.dilations), b.builder.getI64IntegerAttr(groups));
  y = b.cast(y, type);
  FailureOr<Value> biased = addChannels(b, y, 2);
  return failed(biased) ? failure() : b.result(fromImage(b, *biased, w));
}

template <bool largest> LogicalResult pool(NodeBuilder &b) {
  if (failed(requireImage(b)))
    return failure();
  Value x = b.input(0);
  std::optional<SmallVector<int64_t>> kernel = b.intsAttr("kernel_shape");
  if (!kernel)
    return b.error() << "kernel_shape is missing";
  FailureOr<Window> window = windowOf(b, x, *kernel);
  if (failed(window))
    return failure();
  Window &w = *window;
  b.pass("storage_order"); // of the indices
  if (largest && b.isUsed(1))
    return b.error() << "the indices as an output are not supported";
  Value image = toImage(b, x, w);
  SmallVector<int64_t> result = {shapeOf(image)[0], shapeOf(image)[1]};
  for (unsigned i = 0; i < 2; ++i) {
    result.push_back(extent(shapeOf(image)[2 + i], w.pads[i], w.pads[2 + i], w.kernel[i], w.dilations[i], w.strides[i],
                            b.intAttr("ceil_mode", 0)));
    if (result.back() <= 0)
      return b.error() << "a window of " << w.kernel[i] << " does not fit into " << shapeOf(image)[2 + i] << " pixels";
  }
  RankedTensorType type = tensorType(image).clone(result);
  Value y;
  if (largest)
    y = b.makeAll<MaxPool2dOp>(type, image, w.kernel, w.strides, w.pads, w.dilations)[0];
  else
    y = b.make<AvgPool2dOp>(type, image, b.builder.getDenseI64ArrayAttr(w.kernel),
                            b.builder.getDenseI64ArrayAttr(w.strides), b.builder.getDenseI64ArrayAttr(w.pads),
                            b.builder.getDenseI64ArrayAttr(w.dilations),
                            b.intAttr("count_include_pad", 0) ? b.builder.getUnitAttr() : UnitAttr());
  return b.result(fromImage(b, y, w));
}

template <bool largest> LogicalResult globalPool(NodeBuilder &b) {
  if (failed(requireImage(b)))
    return failure();
  Value x = b.input(0);
  SmallVector<int64_t> dims, kept(shapeOf(x));
  int64_t count = 1;
  for (size_t i = 2; i < shapeOf(x).size(); ++i) {
    dims.push_back(i);
    count *= kept[i];
    kept[i] = 1;
  }
  Value y = b.reduce(largest ? ReduceKind::max : ReduceKind::sum, x, dims);
  if (!largest)
    y = b.make<DivOp>(y, b.splat(tensorType(y), count));
  return b.result(b.reshape(y, kept));
}

/// Trains where training_mode says so (since opset 14), where the outputs of training are asked for (before), or under
/// --training-mode. Momentum is PyTorch's: ONNX weighs the old value, PyTorch the new one.
LogicalResult batchNorm(NodeBuilder &b) {
  if (failed(b.requireFloat(0)) || failed(b.requireRank(0, 2)))
    return failure();
  Value x = b.input(0);
  int64_t channels = shapeOf(x)[1];
  for (unsigned i = 1; i < 5; ++i) {
    if (failed(b.requireFloat(i)))
      return failure();
    if (shapeOf(b.input(i)) != ArrayRef<int64_t>{channels})
      return b.error() << "input " << i << " ('" << b.node.inputs[i] << "') is " << tensorType(b.input(i))
                       << ", expected " << channels << " elements";
  }
  // Since opset 15 scale, bias and statistics may be of other types than x.
  auto as = [&](unsigned i, Value other) { return b.cast(b.input(i), tensorType(other).getElementType()); };
  Value scale = as(1, x), bias = as(2, x), mean = as(3, x), variance = as(4, x);
  if (b.intAttr("spatial", 1) != 1) // of opsets before 9
    return b.error() << "statistics of every position (spatial=0) are not supported";
  double epsilon = b.floatAttr("epsilon", 1e-5), momentum = 1 - b.floatAttr("momentum", 0.9);
  auto mode = b.graph.modes.find(b.node.moduleScope());
  if (mode != b.graph.modes.end())
    if (std::optional<double> exact = mode->second.getNumber("momentum"))
      momentum = *exact;
  bool training = b.intAttr("training_mode", 0) || b.graph.options.trainingMode ||
                  (b.node.opset < 14 && llvm::count_if(b.node.outputs, [](auto &o) { return !o.empty(); }) > 1);
  if (training) {
    if (!(momentum >= 0 && momentum <= 1))
      return b.error() << "momentum is " << 1 - momentum << ", expected a number between 0 and 1";
    SmallVector<Value> results = b.makeAll<BatchNormOp>(x, scale, bias, mean, variance, epsilon);
    for (auto [running, statistic] : {std::pair(3, results[1]), std::pair(4, results[3])}) {
      // A module that is called again goes on from what its first call left.
      Value &latest = b.graph.updates.insert({b.input(running), b.input(running)}).first->second;
      auto scaled = [&](Value v, double by) { return b.make<MulOp>(v, b.splat(tensorType(v), by)); };
      Value now = b.cast(statistic, tensorType(latest).getElementType());
      latest = b.make<AddOp>(scaled(latest, 1 - momentum), scaled(now, momentum));
      (void)b.set(running - 2, latest);
    }
    return b.result(results[0]);
  }
  b.graph.evaluationNorms.push_back(b.node.displayName());
  Value factor = b.make<DivOp>(scale, b.make<SqrtOp>(b.make<AddOp>(variance, b.splat(tensorType(variance), epsilon))));
  SmallVector<int64_t> perChannel(shapeOf(x).size(), 1), full(shapeOf(x));
  perChannel[1] = channels;
  auto spread = [&](Value v) { return b.broadcast(b.reshape(v, perChannel), full); };
  Value y = b.make<MulOp>(b.make<SubOp>(x, spread(mean)), spread(factor));
  return b.result(b.make<AddOp>(y, spread(bias)));
}

const OpEntry kOps[] = {
    {"Conv", "", 1, 0, conv},
    {"ConvTranspose", "", 1, 0, convTranspose},
    {"MaxPool", "", 8, 0, pool<true>},
    {"AveragePool", "", 7, 0, pool<false>},
    {"GlobalAveragePool", "", 1, 0, globalPool<false>},
    {"GlobalMaxPool", "", 1, 0, globalPool<true>},
    {"BatchNormalization", "", 9, 0, batchNorm},
};

} // namespace

ArrayRef<OpEntry> onnx_import::convolutionOps() { return kOps; }
