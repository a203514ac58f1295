// The library functions "conv2d", "conv2d_input_grad", "conv2d_weight_grad": im2col and one single-threaded GEMM per
// block, cut as workspace.h says (cutConv2d). Every sum has an order given by the shape.
#include "../common/ArgumentCheck.h"
#include "Blas.h"
#include "Im2Col.h"
#include "PanelGemm.h"

namespace scrimp::runtime {

static Conv2dShape shapeOf(std::span<const int64_t> i) {
  return {i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9], i[10], i[11], i[12], i[13], i[14], i[15]};
}

static ElementBytes bytesOf(const LibraryArguments &arguments) {
  return {elementBytes(arguments.typeOf(0)), elementBytes(arguments.dtype), elementBytes(arguments.typeOf(2))};
}

namespace {

/// A block of positions: `samples` whole samples, or a part [begin, begin + count) of one.
struct Block {
  int64_t sample, samples, begin, count;
  int64_t columns() const { return samples * count; }
};

/// What the three functions share: shapes, strides, this worker's panels. Operands are stored as S, f16 and bf16 as
/// their bits, and summed in T.
template <typename S, typename T> struct Convolution {
  Conv2dShape s;
  Conv2dCut cut;
  Conv2dSlot slot;
  int64_t perSample = s.positions();
  int64_t xSample = s.C * s.H * s.W, ySample = s.O * perSample;
  int64_t rows = s.channels() * s.taps(); // of a filter
  char *result, *workspace;
  DType operandType, resultType;
  bool bf16Dot, resultIsSum;

  Convolution(Conv2dKind kind, const LibraryArguments &arguments)
      : s(shapeOf(arguments.ints)), cut(cutConv2d(kind, s, sizeof(T))), slot(conv2dSlot(kind, s, bytesOf(arguments))),
        result(arguments.buffers[2]), workspace(arguments.buffers[3]), operandType(arguments.typeOf(0)),
        resultType(arguments.typeOf(2)), bf16Dot(arguments.bf16Dot), resultIsSum(resultType == arguments.dtype) {}

  /// This worker's parts of the workspace.
  char *at(int worker) const { return workspace + worker * slot.bytes(); }
  template <typename E> E *columns(int worker) const { return reinterpret_cast<E *>(at(worker)); }
  template <typename E> E *outputs(int worker) const { return reinterpret_cast<E *>(at(worker) + slot.columns); }
  T *sums(int worker) const { return reinterpret_cast<T *>(at(worker) + slot.columns + slot.outputs); }

  /// The result from an element on, where it has the type of the sums; and a row of sums stored there.
  T *resultSums(int64_t element) const { return reinterpret_cast<T *>(result) + element; }
  void store(const T *row, int64_t element, int64_t count) const {
    if constexpr (!std::is_same_v<S, T>)
      if (!resultIsSum)
        return narrowRow(resultType, row, reinterpret_cast<uint16_t *>(result) + element, count);
    memcpy(resultSums(element), row, static_cast<size_t>(count) * sizeof(T));
  }

  void multiply(int64_t m, int64_t n, int64_t k, MatrixOperand<S> a, MatrixOperand<S> b, bool accumulate, T *c,
                int64_t strideC, int worker) const {
    T beta = accumulate ? T(1) : T(0);
    if constexpr (std::is_same_v<S, T>) {
      gemm<T>(m, n, k, T(1), a, b, beta, c, strideC);
    } else {
      auto stored = [&](MatrixOperand<S> matrix) {
        return StoredMatrix(reinterpret_cast<const char *>(matrix.data), operandType, matrix.stride, matrix.transposed);
      };
      gemm(PanelProduct{m, n, k, 1, stored(a), stored(b), beta, c, strideC,
                        at(worker) + slot.columns + slot.outputs + slot.result, bf16Dot});
    }
  }

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
  MatrixOperand<S> gatherColumns(const S *x, const Block &b, int64_t group, int64_t channel, int64_t channels,
                                 S *panel) const {
    const S *first = x + b.sample * xSample + (group * s.channels() + channel) * s.H * s.W;
    if (b.samples == 1 && s.isPointwise())
      return {first + b.begin, perSample};
    for (int64_t i = 0; i < b.samples; ++i)
      imageToColumns(s, first + i * xSample, channels, b.begin, b.count, panel + i * b.count, b.columns());
    return {panel, b.columns()};
  }

  /// Rows of y (or dy) for `filters` filters of a group from `filter` on: in place for one sample, else gathered.
  MatrixOperand<S> gatherOutputs(const S *y, const Block &b, int64_t group, int64_t filter, int64_t filters,
                                 S *panel) const {
    const S *first = y + b.sample * ySample + (group * s.filters() + filter) * perSample;
    if (b.samples == 1)
      return {first + b.begin, perSample};
    for (int64_t i = 0; i < b.samples; ++i)
      for (int64_t o = 0; o < filters; ++o)
        memcpy(panel + o * b.columns() + i * b.count, first + i * ySample + o * perSample, b.count * sizeof(S));
    return {panel, b.columns()};
  }
};

} // namespace

template <typename S> static const S *operandOf(const LibraryArguments &arguments, size_t index) {
  return reinterpret_cast<const S *>(arguments.buffers[index]);
}

template <typename S, typename T> static void forward(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<S, T> conv(Conv2dKind::forward, arguments);
  const Conv2dShape &s = conv.s;
  const S *x = operandOf<S>(arguments, 0), *w = operandOf<S>(arguments, 1);
  int64_t blocks = conv.blocks();
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / blocks;
      Block b = conv.block(unit % blocks);
      MatrixOperand<S> columns = conv.gatherColumns(x, b, group, 0, s.channels(), conv.template columns<S>(worker));
      MatrixOperand<S> filters{w + group * s.filters() * conv.rows, conv.rows};
      int64_t target = b.sample * conv.ySample + group * s.filters() * conv.perSample + b.begin;
      bool inPlace = b.samples == 1 && conv.resultIsSum;
      T *sums = inPlace ? conv.resultSums(target) : conv.template outputs<T>(worker);
      conv.multiply(s.filters(), b.columns(), conv.rows, filters, columns, false, sums,
                    inPlace ? conv.perSample : b.columns(), worker);
      for (int64_t i = 0; !inPlace && i < b.samples; ++i)
        for (int64_t o = 0; o < s.filters(); ++o)
          conv.store(sums + o * b.columns() + i * b.count, target + i * conv.ySample + o * conv.perSample, b.count);
    }
  };
  pool.parallelFor(s.groups * blocks, 1, body);
}

template <typename S, typename T> static void inputGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<S, T> conv(Conv2dKind::inputGrad, arguments);
  const Conv2dShape &s = conv.s;
  const S *dy = operandOf<S>(arguments, 0), *w = operandOf<S>(arguments, 1);
  int64_t channelBlocks = divideUp(s.channels(), conv.cut.channels), sampleBlocks = divideUp(s.N, conv.cut.samples);
  int64_t steps = conv.blocks() / sampleBlocks; // > 1 only where a unit has one sample
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / (channelBlocks * sampleBlocks), rest = unit % (channelBlocks * sampleBlocks);
      int64_t channel = rest / sampleBlocks * conv.cut.channels, sampleBlock = rest % sampleBlocks;
      int64_t channels = smallerOf(conv.cut.channels, s.channels() - channel), planes = channels * s.H * s.W;
      Block whole = conv.block(sampleBlock * largerOf(steps, 1));
      int64_t target = whole.sample * conv.xSample + (group * s.channels() + channel) * s.H * s.W;
      T *sums = conv.resultIsSum ? conv.resultSums(target) : conv.sums(worker);
      int64_t stride = conv.resultIsSum ? conv.xSample : planes;
      for (int64_t i = 0; i < whole.samples; ++i)
        memset(sums + i * stride, 0, planes * sizeof(T));
      for (int64_t step = 0; step < largerOf(steps, 1); ++step) {
        Block b = conv.block(sampleBlock * largerOf(steps, 1) + step);
        MatrixOperand<S> outputs = conv.gatherOutputs(dy, b, group, 0, s.filters(), conv.template outputs<S>(worker));
        T *panel = conv.template columns<T>(worker);
        conv.multiply(channels * s.taps(), b.columns(), s.filters(),
                      {w + group * s.filters() * conv.rows + channel * s.taps(), conv.rows, true}, outputs, false,
                      panel, b.columns(), worker);
        for (int64_t i = 0; i < b.samples; ++i)
          addColumnsToImage(s, sums + i * stride, channels, b.begin, b.count, panel + i * b.count, b.columns());
      }
      for (int64_t i = 0; !conv.resultIsSum && i < whole.samples; ++i)
        conv.store(sums + i * stride, target + i * conv.xSample, planes);
    }
  };
  pool.parallelFor(s.groups * channelBlocks * sampleBlocks, 1, body);
}

template <typename S, typename T> static void weightGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  Convolution<S, T> conv(Conv2dKind::weightGrad, arguments);
  const Conv2dShape &s = conv.s;
  const S *x = operandOf<S>(arguments, 0), *dy = operandOf<S>(arguments, 1);
  int64_t channelBlocks = divideUp(s.channels(), conv.cut.channels);
  int64_t filterBlocks = divideUp(s.filters(), conv.cut.filters), blocks = conv.blocks();
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t group = unit / (channelBlocks * filterBlocks), rest = unit % (channelBlocks * filterBlocks);
      int64_t channel = rest / filterBlocks * conv.cut.channels, filter = rest % filterBlocks * conv.cut.filters;
      int64_t channels = smallerOf(conv.cut.channels, s.channels() - channel), width = channels * s.taps();
      int64_t filters = smallerOf(conv.cut.filters, s.filters() - filter);
      int64_t target = (group * s.filters() + filter) * conv.rows + channel * s.taps();
      T *sums = conv.resultIsSum ? conv.resultSums(target) : conv.sums(worker);
      int64_t stride = conv.resultIsSum ? conv.rows : width;
      for (int64_t index = 0; index < blocks; ++index) {
        Block b = conv.block(index);
        MatrixOperand<S> outputs = conv.gatherOutputs(dy, b, group, filter, filters, conv.template outputs<S>(worker));
        MatrixOperand<S> columns = conv.gatherColumns(x, b, group, channel, channels, conv.template columns<S>(worker));
        columns.transposed = true;
        conv.multiply(filters, width, b.columns(), outputs, columns, index > 0, sums, stride, worker);
      }
      for (int64_t o = 0; !conv.resultIsSum && o < filters; ++o)
        conv.store(sums + o * stride, target + o * conv.rows, width);
    }
  };
  pool.parallelFor(s.groups * channelBlocks * filterBlocks, 1, body);
}

static Status verify(const char *name, Conv2dKind kind, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  for (size_t i = 0; i < 3; ++i)
    check.storedType(i);
  if (arguments.typeOf(0) != arguments.typeOf(1))
    check.fail("its operands differ in type");
  if (arguments.typeOf(2) != arguments.typeOf(0) && arguments.typeOf(2) != arguments.dtype)
    check.fail("its result has neither the operands' type nor that of the sums");
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
  auto bytes = [&](size_t index) { return elementBytes(arguments.typeOf(index)); };
  size_t x = kind == Conv2dKind::inputGrad ? 2 : 0, y = kind == Conv2dKind::forward     ? 2
                                                        : kind == Conv2dKind::inputGrad ? 0
                                                                                        : 1;
  size_t w = kind == Conv2dKind::weightGrad ? 2 : 1;
  check.buffer(x, kind == Conv2dKind::inputGrad ? "dx" : "x", {s.N, s.C, s.H, s.W}, bytes(x));
  check.buffer(w, kind == Conv2dKind::weightGrad ? "dw" : "w", {s.O, s.channels(), s.KH, s.KW}, bytes(w));
  check.buffer(y, kind == Conv2dKind::forward ? "y" : "dy", {s.N, s.O, s.outH(), s.outW()}, bytes(y));
  check.buffer(3, "workspace", {conv2dSlot(kind, s, bytesOf(arguments)).bytes(), arguments.workers}, 1);
  return check.take();
}

using Run = void (*)(const LibraryArguments &, ThreadPool &);
template <Run Narrow, Run Single, Run Double>
static void runTyped(const LibraryArguments &arguments, ThreadPool &pool) {
  (isNarrow(arguments.typeOf(0)) ? Narrow : arguments.dtype == DType::f32 ? Single : Double)(arguments, pool);
}

const LibraryFunction conv2dFunctions[3] = {
    {"conv2d", [](const LibraryArguments &a) { return verify("conv2d", Conv2dKind::forward, a); },
     runTyped<forward<uint16_t, float>, forward<float, float>, forward<double, double>>},
    {"conv2d_input_grad",
     [](const LibraryArguments &a) { return verify("conv2d_input_grad", Conv2dKind::inputGrad, a); },
     runTyped<inputGrad<uint16_t, float>, inputGrad<float, float>, inputGrad<double, double>>},
    {"conv2d_weight_grad",
     [](const LibraryArguments &a) { return verify("conv2d_weight_grad", Conv2dKind::weightGrad, a); },
     runTyped<weightGrad<uint16_t, float>, weightGrad<float, float>, weightGrad<double, double>>},
};

} // namespace scrimp::runtime
