// The library functions "conv2d", "conv2d_input_grad", "conv2d_weight_grad": im2col and one single-threaded GEMM per
// block, cut as workspace.h says (cutConv2d). Every sum has an order given by the shape.
#include "ArgumentCheck.h"
#include "Blas.h"
#include "Im2Col.h"

namespace scrimp::runtime {

static Conv2dShape shapeOf(std::span<const int64_t> i) {
  return {i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9], i[10], i[11], i[12], i[13], i[14], i[15]};
}

namespace {

/// A block of positions: `samples` whole samples, or a part [begin, begin + count) of one.
struct Block {
  int64_t sample, samples, begin, count;
  int64_t columns() const { return samples * count; }
};

/// What the three functions share: shapes, strides, this worker's panels.
template <typename T> struct Convolution {
  Conv2dShape s;
  Conv2dCut cut;
  int64_t perSample = s.positions();
  int64_t xSample = s.C * s.H * s.W, ySample = s.O * perSample;
  int64_t rows = s.channels() * s.taps(); // of a filter
  char *workspace;
  int64_t slotBytes, panelBytes;

  Convolution(Conv2dKind kind, const LibraryArguments &arguments)
      : s(shapeOf(arguments.ints)), cut(cutConv2d(kind, s, sizeof(T))), workspace(arguments.buffers[3]),
        slotBytes(conv2dSlotBytes(kind, s, sizeof(T))),
        panelBytes(roundUpToCacheLine((kind == Conv2dKind::forward ? s.channels() : cut.channels) * s.taps() *
                                      cut.positions * static_cast<int64_t>(sizeof(T)))) {}

  T *columns(int worker) const { return reinterpret_cast<T *>(workspace + worker * slotBytes); }
  T *outputs(int worker) const { return reinterpret_cast<T *>(workspace + worker * slotBytes + panelBytes); }

  int64_t blocks() const {
    return cut.positions >= perSample ? divideUp(s.N, cut.samples) : s.N * divideUp(perSample, cut.positions);
  }
  Block block(int64_t index) const {
    if (cut.positions >= perSample)
      return {index * cut.samples, smallerOf(cut.samples, s.N - index * cut.samples), 0, perSample};
    int64_t each = divideUp(perSample, cut.positions), begin = index % each * cut.positions;
    return {index / each, 1, begin, smallerOf(cut.positions, perSample - begin)};
  }

  /// The columns of `channels` channels of group `group` from `channel` on, as a matrix of b.columns() columns.
  MatrixOperand<T> gatherColumns(const T *x, const Block &b, int64_t group, int64_t channel, int64_t channels,
                                 T *panel) const {
    const T *first = x + b.sample * xSample + (group * s.channels() + channel) * s.H * s.W;
    if (b.samples == 1 && s.isPointwise())
      return {first + b.begin, perSample};
    for (int64_t i = 0; i < b.samples; ++i)
      imageToColumns(s, first + i * xSample, channels, b.begin, b.count, panel + i * b.count, b.columns());
    return {panel, b.columns()};
  }

  /// Rows of y (or dy) for `filters` filters of a group from `filter` on: in place for one sample, else gathered.
  MatrixOperand<T> gatherOutputs(const T *y, const Block &b, int64_t group, int64_t filter, int64_t filters,
                                 T *panel) const {
    const T *first = y + b.sample * ySample + (group * s.filters() + filter) * perSample;
    if (b.samples == 1)
      return {first + b.begin, perSample};
    for (int64_t i = 0; i < b.samples; ++i)
      for (int64_t o = 0; o < filters; ++o)
        memcpy(panel + o * b.columns() + i * b.count, first + i * ySample + o * perSample, b.count * sizeof(T));
    return {panel, b.columns()};
  }
};

} // namespace

template <typename T> static void forward(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<T> conv(Conv2dKind::forward, arguments);
  const Conv2dShape &s = conv.s;
  const T *x = reinterpret_cast<const T *>(arguments.buffers[0]),
          *w = reinterpret_cast<const T *>(arguments.buffers[1]);
  T *y = reinterpret_cast<T *>(arguments.buffers[2]);
  int64_t blocks = conv.blocks();
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / blocks;
      Block b = conv.block(unit % blocks);
      MatrixOperand<T> columns = conv.gatherColumns(x, b, group, 0, s.channels(), conv.columns(worker));
      MatrixOperand<T> filters{w + group * s.filters() * conv.rows, conv.rows};
      T *target = y + b.sample * conv.ySample + group * s.filters() * conv.perSample + b.begin;
      if (b.samples == 1) {
        gemm<T>(s.filters(), b.columns(), conv.rows, T(1), filters, columns, T(0), target, conv.perSample);
        continue;
      }
      T *panel = conv.outputs(worker);
      gemm<T>(s.filters(), b.columns(), conv.rows, T(1), filters, columns, T(0), panel, b.columns());
      for (int64_t i = 0; i < b.samples; ++i)
        for (int64_t o = 0; o < s.filters(); ++o)
          memcpy(target + i * conv.ySample + o * conv.perSample, panel + o * b.columns() + i * b.count,
                 b.count * sizeof(T));
    }
  };
  pool.parallelFor(s.groups * blocks, 1, body);
}

template <typename T> static void inputGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<T> conv(Conv2dKind::inputGrad, arguments);
  const Conv2dShape &s = conv.s;
  const T *dy = reinterpret_cast<const T *>(arguments.buffers[0]);
  const T *w = reinterpret_cast<const T *>(arguments.buffers[1]);
  T *dx = reinterpret_cast<T *>(arguments.buffers[2]);
  int64_t channelBlocks = divideUp(s.channels(), conv.cut.channels), sampleBlocks = divideUp(s.N, conv.cut.samples);
  int64_t steps = conv.blocks() / sampleBlocks; // > 1 only where a unit has one sample
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / (channelBlocks * sampleBlocks), rest = unit % (channelBlocks * sampleBlocks);
      int64_t channel = rest / sampleBlocks * conv.cut.channels, sampleBlock = rest % sampleBlocks;
      int64_t channels = smallerOf(conv.cut.channels, s.channels() - channel);
      T *first = dx + (group * s.channels() + channel) * s.H * s.W;
      for (int64_t step = 0; step < largerOf(steps, 1); ++step) {
        Block b = conv.block(sampleBlock * largerOf(steps, 1) + step);
        if (step == 0)
          for (int64_t i = 0; i < b.samples; ++i)
            memset(first + (b.sample + i) * conv.xSample, 0, channels * s.H * s.W * sizeof(T));
        MatrixOperand<T> outputs = conv.gatherOutputs(dy, b, group, 0, s.filters(), conv.outputs(worker));
        T *panel = conv.columns(worker);
        gemm<T>(channels * s.taps(), b.columns(), s.filters(), T(1),
                {w + group * s.filters() * conv.rows + channel * s.taps(), conv.rows, true}, outputs, T(0), panel,
                b.columns());
        for (int64_t i = 0; i < b.samples; ++i)
          addColumnsToImage(s, first + (b.sample + i) * conv.xSample, channels, b.begin, b.count, panel + i * b.count,
                            b.columns());
      }
    }
  };
  pool.parallelFor(s.groups * channelBlocks * sampleBlocks, 1, body);
}

template <typename T> static void weightGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<T> conv(Conv2dKind::weightGrad, arguments);
  const Conv2dShape &s = conv.s;
  const T *x = reinterpret_cast<const T *>(arguments.buffers[0]);
  const T *dy = reinterpret_cast<const T *>(arguments.buffers[1]);
  T *dw = reinterpret_cast<T *>(arguments.buffers[2]);
  int64_t channelBlocks = divideUp(s.channels(), conv.cut.channels);
  int64_t filterBlocks = divideUp(s.filters(), conv.cut.filters), blocks = conv.blocks();
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / (channelBlocks * filterBlocks), rest = unit % (channelBlocks * filterBlocks);
      int64_t channel = rest / filterBlocks * conv.cut.channels, filter = rest % filterBlocks * conv.cut.filters;
      int64_t channels = smallerOf(conv.cut.channels, s.channels() - channel);
      int64_t filters = smallerOf(conv.cut.filters, s.filters() - filter);
      T *target = dw + (group * s.filters() + filter) * conv.rows + channel * s.taps();
      for (int64_t index = 0; index < blocks; ++index) {
        Block b = conv.block(index);
        MatrixOperand<T> outputs = conv.gatherOutputs(dy, b, group, filter, filters, conv.outputs(worker));
        MatrixOperand<T> columns = conv.gatherColumns(x, b, group, channel, channels, conv.columns(worker));
        columns.transposed = true;
        gemm<T>(filters, channels * s.taps(), b.columns(), T(1), outputs, columns, index ? T(1) : T(0), target,
                conv.rows);
      }
    }
  };
  pool.parallelFor(s.groups * channelBlocks * filterBlocks, 1, body);
}

static Status verify(const char *name, Conv2dKind kind, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  check.counts(4, 16, 0);
  static constexpr const char *names[] = {"N",        "C",       "H",       "W",      "O",       "KH",
                                          "KW",       "strideH", "strideW", "padTop", "padLeft", "padBottom",
                                          "padRight", "dilH",    "dilW",    "groups"};
  for (size_t i = 0; i < 16; ++i)
    check.range(i, names[i], i >= 9 && i <= 12 ? 0 : 1, 1 << 28);
  if (check.failed())
    return check.take();
  Conv2dShape s = shapeOf(arguments.ints);
  if (s.C % s.groups || s.O % s.groups)
    check.fail("groups do not divide the channels");
  if (s.dilH * (s.KH - 1) + 1 > s.H + s.padTop + s.padBottom || s.dilW * (s.KW - 1) + 1 > s.W + s.padLeft + s.padRight)
    check.fail("the filter is larger than the padded image");
  if (__int128{s.channels()} * s.taps() > maxExtent || __int128{s.outH()} * s.outW() > maxExtent ||
      __int128{s.H} * s.W > maxExtent)
    check.fail("the shape is too large for one matrix product");
  if (check.failed())
    return check.take();
  int64_t bytes = elementBytes(arguments.dtype);
  size_t x = kind == Conv2dKind::inputGrad ? 2 : 0, y = kind == Conv2dKind::forward     ? 2
                                                        : kind == Conv2dKind::inputGrad ? 0
                                                                                        : 1;
  size_t w = kind == Conv2dKind::weightGrad ? 2 : 1;
  check.buffer(x, kind == Conv2dKind::inputGrad ? "dx" : "x", {s.N, s.C, s.H, s.W}, bytes);
  check.buffer(w, kind == Conv2dKind::weightGrad ? "dw" : "w", {s.O, s.channels(), s.KH, s.KW}, bytes);
  check.buffer(y, kind == Conv2dKind::forward ? "y" : "dy", {s.N, s.O, s.outH(), s.outW()}, bytes);
  check.buffer(3, "workspace", {conv2dSlotBytes(kind, s, bytes), arguments.workers}, 1);
  return check.take();
}

template <void (*F32)(const LibraryArguments &, ThreadPool &), void (*F64)(const LibraryArguments &, ThreadPool &)>
static void runTyped(const LibraryArguments &arguments, ThreadPool &pool) {
  (arguments.dtype == DType::f32 ? F32 : F64)(arguments, pool);
}

const LibraryFunction conv2dFunctions[3] = {
    {"conv2d", [](const LibraryArguments &a) { return verify("conv2d", Conv2dKind::forward, a); },
     runTyped<forward<float>, forward<double>>},
    {"conv2d_input_grad",
     [](const LibraryArguments &a) { return verify("conv2d_input_grad", Conv2dKind::inputGrad, a); },
     runTyped<inputGrad<float>, inputGrad<double>>},
    {"conv2d_weight_grad",
     [](const LibraryArguments &a) { return verify("conv2d_weight_grad", Conv2dKind::weightGrad, a); },
     runTyped<weightGrad<float>, weightGrad<double>>},
};

} // namespace scrimp::runtime
