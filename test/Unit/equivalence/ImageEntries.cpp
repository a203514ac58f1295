// Convolution, pooling and batch normalisation in random graphs: windows of all kinds that fit.
#include "GraphBuilder.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// How a window moves along height and width.
struct Window {
  Shape kernel, strides, pads, dilations; // pads: top, left, bottom, right

  int64_t span(int d) const { return dilations[d] * (kernel[d] - 1) + 1; }
  int64_t padded(int d, int64_t size) const { return size + pads[d] + pads[d + 2]; }
  int64_t places(int d, int64_t size) const { return (padded(d, size) - span(d)) / strides[d] + 1; }
};
} // namespace

/// One that fits images of [height, width].
static Window drawWindow(GraphBuilder &b, int64_t height, int64_t width) {
  Window w;
  for (int64_t size : {height, width}) {
    int64_t kernel = b.between(1, std::min<int64_t>(size, 3));
    w.kernel.push_back(kernel);
    w.strides.push_back(b.chance(.6) ? 1 : 2);
    w.dilations.push_back(kernel > 1 && 2 * (kernel - 1) < size && b.chance(.3) ? 2 : 1);
  }
  // Fewer than the first and the last element of a window, so that none lies outside.
  for (int i = 0; i < 4; ++i)
    w.pads.push_back(w.dilations[i % 2] == 1 ? b.pick(w.kernel[i % 2]) : 0);
  return w;
}

/// [samples, channels, height, width], small.
static Node image(GraphBuilder &b, const Node &x) { return b.withRank(x, 4); }

static int64_t drawGroups(GraphBuilder &b, int64_t channels) {
  for (int64_t groups : {channels, int64_t(2)})
    if (channels % groups == 0 && b.chance(.25))
      return groups;
  return 1;
}

static void conv(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value));
  Window w = drawWindow(b, shape[2], shape[3]);
  int64_t groups = drawGroups(b, shape[1]), channels = groups * b.between(1, 2);
  Value weight = b.parameter({channels, shape[1] / groups, w.kernel[0], w.kernel[1]});
  Value y = b.make<Conv2dOp>(x.value, weight, w.strides, w.pads, w.dilations, groups);
  b.add({y, 0, 1, 2 * x.bound});
}

/// A transposed convolution.
static void convInputGrad(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value));
  int64_t groups = drawGroups(b, shape[1]);
  Window w = drawWindow(b, 3, 3);
  Shape out{shape[0], groups * b.between(1, 2)};
  for (int d = 0; d < 2; ++d) {
    int64_t size = (shape[d + 2] - 1) * w.strides[d] + w.span(d) - w.pads[d] - w.pads[d + 2];
    if (size < 1) {
      w.pads[d] = w.pads[d + 2] = 0;
      size = (shape[d + 2] - 1) * w.strides[d] + w.span(d);
    }
    out.push_back(size + b.pick(w.strides[d]));
  }
  Value weight = b.parameter({shape[1], out[1] / groups, w.kernel[0], w.kernel[1]});
  auto attr = [&](ArrayRef<int64_t> values) { return b.builder.getDenseI64ArrayAttr(values); };
  Value y = b.make<Conv2dInputGradOp>(b.tensor(out), x.value, weight, attr(w.strides), attr(w.pads), attr(w.dilations),
                                      b.builder.getI64IntegerAttr(groups));
  b.add({y, 0, 1, 2 * x.bound});
}

/// Of parameters, or of samples, whose sum it is.
static void convWeightGrad(GraphBuilder &b, Node x) {
  bool ofSamples = b.chance(.3);
  Shape shape;
  Value image, grad;
  if (ofSamples) {
    x = b.within(::image(b, x), 2);
    image = x.value;
    shape = Shape(shapeOf(image));
  } else {
    shape = {b.between(1, 2), b.between(1, 3), b.between(1, 4), b.between(1, 4)};
    image = b.parameter(shape);
  }
  Window w = drawWindow(b, shape[2], shape[3]);
  int64_t groups = drawGroups(b, shape[1]), channels = groups * b.between(1, 2);
  Shape out{shape[0], channels, w.places(0, shape[2]), w.places(1, shape[3])};
  grad = ofSamples ? b.input(out, 0) : b.parameter(out);
  auto attr = [&](ArrayRef<int64_t> values) { return b.builder.getDenseI64ArrayAttr(values); };
  Value dw =
      b.make<Conv2dWeightGradOp>(b.tensor({channels, shape[1] / groups, w.kernel[0], w.kernel[1]}), image, grad,
                                 attr(w.strides), attr(w.pads), attr(w.dilations), b.builder.getI64IntegerAttr(groups));
  if (ofSamples)
    return b.addSum(dw);
  b.add({b.make<TanhOp>(dw), -1, 1, 1});
}

static void maxPool(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value)), out(shape);
  Window w = drawWindow(b, shape[2], shape[3]);
  for (int d = 0; d < 2; ++d)
    out[d + 2] = w.places(d, shape[d + 2]);
  Value y = b.make<MaxPool2dOp>(b.tensor(out), x.value, w.kernel, w.strides, w.pads, w.dilations).getY();
  b.add({y, 0, 1, x.bound});
}

/// An unpooling: another value goes to where x is largest.
static void maxPoolGrad(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value)), out(shape);
  Window w = drawWindow(b, shape[2], shape[3]);
  for (int d = 0; d < 2; ++d)
    out[d + 2] = w.places(d, shape[d + 2]);
  auto pool = b.make<MaxPool2dOp>(b.tensor(out), x.value, w.kernel, w.strides, w.pads, w.dilations);
  Node y{pool.getY(), 0, 1, x.bound};
  auto attr = [&](ArrayRef<int64_t> values) { return b.builder.getDenseI64ArrayAttr(values); };
  Value back = b.make<MaxPool2dGradOp>(b.tensor(shape), b.partner(y).value, pool.getIndices(), attr(w.kernel),
                                       attr(w.strides), attr(w.pads), attr(w.dilations));
  b.add({back, 0, 1, 4});
}

static UnitAttr countsPadding(GraphBuilder &b) { return b.chance(.5) ? b.builder.getUnitAttr() : UnitAttr(); }

static void averagePool(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value)), out(shape);
  Window w = drawWindow(b, shape[2], shape[3]);
  for (int d = 0; d < 2; ++d)
    out[d + 2] = w.places(d, shape[d + 2]);
  auto attr = [&](ArrayRef<int64_t> values) { return b.builder.getDenseI64ArrayAttr(values); };
  Value y = b.make<AvgPool2dOp>(b.tensor(out), x.value, attr(w.kernel), attr(w.strides), attr(w.pads),
                                attr(w.dilations), countsPadding(b));
  b.add({y, 0, 1, x.bound});
}

static void averagePoolGrad(GraphBuilder &b, Node x) {
  x = image(b, x);
  Shape shape(shapeOf(x.value)), out(shape);
  Window w = drawWindow(b, 3, 3);
  for (int d = 0; d < 2; ++d) {
    w.pads[d] = w.pads[d + 2] = 0;
    out[d + 2] = (shape[d + 2] - 1) * w.strides[d] + w.span(d);
  }
  auto attr = [&](ArrayRef<int64_t> values) { return b.builder.getDenseI64ArrayAttr(values); };
  Value y = b.make<AvgPool2dGradOp>(b.tensor(out), x.value, attr(w.kernel), attr(w.strides), attr(w.pads),
                                    attr(w.dilations), countsPadding(b));
  b.add({y, 0, 1, x.bound});
}

/// With running statistics; the graph cannot be split then, unless each part may have its own statistics.
static void batchNorm(GraphBuilder &b, Node x) {
  x = b.withRank(x, b.between(2, 4));
  Shape channels{shapeOf(x.value)[1]};
  Value mean = b.state(channels, false), var = b.state(channels, true);
  auto norm = b.make<BatchNormOp>(x.value, b.parameter(channels), b.parameter(channels), mean, var, 1e-2);
  for (auto [state, seen] : {std::pair{mean, norm.getMean()}, {var, norm.getVar()}}) {
    auto share = [&](Value v, double part) { return b.make<MulOp>(v, b.splat(b.tensor(channels), part)); };
    b.update(state, b.make<AddOp>(share(state, .75), share(seen, .25)));
  }
  b.add({norm.getY(), 0, 1, 4});
}

ArrayRef<Entry> mlir::scrimp::imageEntries() {
  static const Entry entries[] = {
      {"conv2d", conv, 2},
      {"conv2d_input_grad", convInputGrad, .7},
      {"conv2d_weight_grad", convWeightGrad, .3},
      {"max_pool2d", maxPool},
      {"max_pool2d_grad", maxPoolGrad, .3},
      {"avg_pool2d", averagePool},
      {"avg_pool2d_grad", averagePoolGrad, .3},
      {"batch_norm", batchNorm, .3},
  };
  return entries;
}
