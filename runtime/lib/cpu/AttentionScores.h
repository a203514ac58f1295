// Attention's scores: what the forward pass and the gradient share. A worker holds those of one block of query rows
// (FlashAttention's memory, Dao et al. 2022, with the whole row at once instead of an online softmax; the gradient
// recomputes probabilities from the log-sum-exp).
#ifndef SCRIMP_RUNTIME_LIB_CPU_ATTENTIONSCORES_H
#define SCRIMP_RUNTIME_LIB_CPU_ATTENTIONSCORES_H

#include "Blas.h"
#include "Draws.h"
#include "HostLoops.h"
#include "PanelGemm.h"
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/workspace.h"
#include <limits>

namespace scrimp::runtime {

enum MaskKind { additiveMask = 1, booleanMask = 2 };

/// The types of consecutive buffers.
struct BufferTypes {
  const LibraryArguments *arguments = nullptr;
  size_t first = 0;
  DType operator[](int64_t index) const { return arguments->typeOf(first + static_cast<size_t>(index)); }
};

/// A stretch of keys.
struct Keys {
  int64_t first, count;
};

/// q, k and v, and what has their type, are stored as they are or, where T is float, in 16 bits.
template <typename T> struct Attention {
  AttentionCall call;
  AttentionShape s;
  T scale, keptScale;
  int64_t rows; // query rows of a block
  DType type;   // of q, k and v
  bool narrow, bf16Dot;
  AttentionSlot slot;
  const char *q, *k, *v;
  const AttentionMask *masks; // as many as the call says, and their elements
  char *const *maskElements;
  BufferTypes maskTypes;
  const int64_t *segments = nullptr;
  int64_t seed = 0, step = 0, sampleBase = 0, origin[3] = {};
  char *const *results; // and the workspace

  /// `optional` is the index of the first optional buffer.
  Attention(const LibraryArguments &arguments, size_t optional)
      : call(callOf(arguments)), s(call.shape), scale(static_cast<T>(arguments.floats[0])),
        keptScale(static_cast<T>(arguments.floats[1])), rows(attentionRows(s, sizeof(T))), type(arguments.typeOf(0)),
        narrow(isNarrow(type)), bf16Dot(arguments.bf16Dot), slot(attentionSlot(s, sizeof(T), narrow, optional == 6)),
        q(arguments.buffers[0]), k(arguments.buffers[1]), v(arguments.buffers[2]) {
    auto integers = [&] { return reinterpret_cast<const int64_t *>(arguments.buffers[optional++]); };
    masks = reinterpret_cast<const AttentionMask *>(arguments.ints.data() + attentionCallInts);
    maskElements = arguments.buffers.data() + optional;
    maskTypes = {&arguments, optional};
    optional += static_cast<size_t>(call.masks);
    if (call.hasSegments)
      segments = integers();
    if (call.hasDropout)
      seed = *integers(), step = *integers(), sampleBase = *integers();
    if (call.hasOrigin)
      memcpy(origin, integers(), sizeof(origin));
    results = arguments.buffers.data() + optional;
  }

  /// Row `row` of a tensor of q's type with rows of `width`.
  StoredMatrix stored(const char *tensor, int64_t row, int64_t width, bool transposed = false) const {
    return {tensor + row * width * elementBytes(type), type, width, transposed};
  }
  /// Sums, as an operand.
  static StoredMatrix summed(const T *data, int64_t stride, bool transposed = false) {
    return {reinterpret_cast<const char *>(data), sizeof(T) == 4 ? DType::f32 : DType::f64, stride, transposed};
  }

  /// A worker's part of the workspace.
  struct Slot {
    T *scores, *gradients, *tile;
    char *panels;
    T *keySums;
  };
  Slot slotOf(char *workspace, int64_t worker) const {
    char *at = workspace + worker * slot.bytes(), *tile = at + slot.scores * slot.scorePanels;
    auto floats = [](char *place) { return reinterpret_cast<T *>(place); };
    return {floats(at), floats(at + slot.scores), floats(tile), tile + slot.tile,
            floats(tile + slot.tile + slot.panels)};
  }

  /// C = alpha A B, or C + that.
  void multiply(int64_t m, int64_t n, int64_t k, T alpha, const StoredMatrix &a, const StoredMatrix &b, bool accumulate,
                T *c, int64_t strideC, char *panels) const {
    if constexpr (std::is_same_v<T, float>)
      if (narrow)
        return gemm(PanelProduct{m, n, k, alpha, a, b, accumulate ? 1.0f : 0.0f, c, strideC, panels, bf16Dot});
    auto operand = [](const StoredMatrix &matrix) {
      return MatrixOperand<T>{reinterpret_cast<const T *>(matrix.data), matrix.stride, matrix.transposed};
    };
    gemm<T>(m, n, k, alpha, operand(a), operand(b), accumulate ? T(1) : T(0), c, strideC);
  }

  /// The same for `count` rows of a result of q's type, computed in the tile where that is narrower than the sums.
  void multiplyInto(char *result, int64_t row, int64_t count, int64_t width, int64_t k, T alpha, const StoredMatrix &a,
                    const StoredMatrix &b, const Slot &worker) const {
    if (!narrow)
      return multiply(count, width, k, alpha, a, b, false, reinterpret_cast<T *>(result) + row * width, width, nullptr);
    multiply(count, width, k, alpha, a, b, false, worker.tile, width, worker.panels);
    storeNarrow(worker.tile, result, row * width, count * width);
  }

  /// Elements of sums, rounded, in a tensor of q's type.
  void storeNarrow(const T *from, char *tensor, int64_t element, int64_t count) const {
    if constexpr (std::is_same_v<T, float>)
      narrowRow(type, from, reinterpret_cast<uint16_t *>(tensor) + element, count);
  }

  /// The sum of products of row `row` of two tensors of q's type, in order.
  T dotRows(const char *a, const char *b, int64_t row, int64_t width) const {
    T sum = T(0);
    if constexpr (std::is_same_v<T, float>)
      if (narrow) {
        constexpr int64_t most = 64;
        float left[most], right[most];
        for (int64_t first = row * width; first < (row + 1) * width; first += most) {
          int64_t count = smallerOf(most, (row + 1) * width - first);
          widenRow(type, reinterpret_cast<const uint16_t *>(a) + first, left, count);
          widenRow(type, reinterpret_cast<const uint16_t *>(b) + first, right, count);
          for (int64_t d = 0; d < count; ++d)
            sum += left[d] * right[d];
        }
        return sum;
      }
    const T *left = reinterpret_cast<const T *>(a) + row * width, *right = reinterpret_cast<const T *>(b) + row * width;
    for (int64_t d = 0; d < width; ++d)
      sum += left[d] * right[d];
    return sum;
  }

  static AttentionCall callOf(const LibraryArguments &arguments) {
    AttentionCall call;
    memcpy(&call, arguments.ints.data(), sizeof(call));
    return call;
  }

  int64_t group() const { return s.Hq / s.Hkv; }
  /// The first key that row i may see, and the one behind the last.
  int64_t firstKey(int64_t i) const { return clampKey(position(i) - call.left); }
  int64_t endKey(int64_t i) const { return clampKey(position(i) + call.right + 1); }
  /// What some of the rows [i, i + count) may see: a wider stretch for later rows never starts before.
  Keys keysOf(int64_t i, int64_t count) const {
    int64_t first = firstKey(i);
    return {first, largerOf(0, endKey(i + count - 1) - first)};
  }

  /// The draws of row i of head h, which decide what dropout keeps, from a key on.
  DrawRow draws(int64_t b, int64_t h, int64_t i, int64_t firstKey) const {
    int64_t rest = s.B / largerOf(call.samples, 1), sample = call.samples ? sampleBase + b / rest : 0;
    int64_t row = (b % rest * call.whole[0] + origin[0] + h) * call.whole[1] + origin[1] + i;
    return {static_cast<uint64_t>(seed ^ call.dropoutKey), static_cast<uint32_t>(sample), static_cast<uint32_t>(step),
            static_cast<uint64_t>(row * call.whole[2] + origin[2] + firstKey)};
  }

  bool drops(uint32_t bits) const { return bits < static_cast<uint32_t>(call.dropBelow); }

  void dropRow(int64_t b, int64_t h, int64_t i, Keys keys, T *row) const {
    forEachDraws(draws(b, h, i, keys.first), keys.count, [&](int64_t j, int64_t n, const uint32_t *bits) {
      for (int64_t l = 0; l < n; ++l)
        row[j + l] = drops(bits[l]) ? T(0) : row[j + l] * keptScale;
    });
  }

  /// Of row i: scores `p` become the probabilities that multiply the values, and `dp`, their gradient, that of the
  /// scores. Dropout multiplies both by 0 or keptScale; the row's sum of P dP is that of out dout all the same.
  void differentiateRow(int64_t b, int64_t h, int64_t i, Keys keys, T logSum, T delta, T *p, T *dp) const {
    probabilityRow(p, keys.count, logSum);
    if (!call.hasDropout)
      return softmaxGradientRow(p, dp, keys.count, delta);
    forEachDraws(draws(b, h, i, keys.first), keys.count, [&](int64_t first, int64_t n, const uint32_t *bits) {
      for (int64_t l = 0; l < n; ++l) {
        int64_t j = first + l;
        bool dropped = drops(bits[l]);
        dp[j] = p[j] * ((dropped ? T(0) : dp[j] * keptScale) - delta);
        p[j] = dropped ? T(0) : p[j] * keptScale;
      }
    });
  }

  /// scores[rows i .. i + count, keys] = scale q k^T, masked with -inf and the additive masks.
  void scores(int64_t b, int64_t h, int64_t i, int64_t count, Keys keys, const Slot &worker) const {
    int64_t row = (b * s.Hq + h) * s.Sq + i, key = (b * s.Hkv + h / group()) * s.Sk + keys.first;
    multiply(count, keys.count, s.D, scale, stored(q, row, s.D), stored(k, key, s.D, true), false, worker.scores,
             largerOf(keys.count, 1), worker.panels);
    for (int64_t r = 0; r < count; ++r)
      maskRow(b, h, i + r, keys, worker.scores + r * keys.count);
  }

  void maskRow(int64_t b, int64_t h, int64_t i, Keys keys, T *row) const {
    constexpr T hidden = -std::numeric_limits<T>::infinity();
    for (int64_t m = 0; m < call.masks; ++m) {
      int64_t at = maskAt(masks[m], b, h, i, keys.first), step = masks[m].strides[3];
      if (masks[m].kind == additiveMask)
        addMask(m, at, step, row, keys.count);
      else
        for (int64_t j = 0; j < keys.count; ++j)
          row[j] = maskElements[m][at + j * step] ? row[j] : hidden;
    }
    if (segments) {
      const int64_t *of = segments + b * s.Sk;
      for (int64_t j = 0; j < keys.count; ++j)
        row[j] = of[keys.first + j] == of[i] ? row[j] : hidden;
    }
    for (int64_t j = 0, end = smallerOf(firstKey(i) - keys.first, keys.count); j < end; ++j)
      row[j] = hidden;
    for (int64_t j = largerOf(endKey(i) - keys.first, 0); j < keys.count; ++j)
      row[j] = hidden;
  }

  void addMask(int64_t m, int64_t at, int64_t step, T *row, int64_t count) const {
    if constexpr (std::is_same_v<T, float>)
      if (isNarrow(maskTypes[m])) {
        auto *elements = reinterpret_cast<const uint16_t *>(maskElements[m]);
        constexpr int64_t most = 64;
        uint16_t gathered[most];
        float values[most];
        for (int64_t first = 0; first < count; first += most) {
          int64_t n = smallerOf(most, count - first);
          for (int64_t j = 0; j < n; ++j)
            gathered[j] = elements[at + (first + j) * step];
          widenRow(maskTypes[m], gathered, values, n);
          for (int64_t j = 0; j < n; ++j)
            row[first + j] += values[j];
        }
        return;
      }
    for (int64_t j = 0; j < count; ++j)
      row[j] += reinterpret_cast<const T *>(maskElements[m])[at + j * step];
  }

  static int64_t maskAt(const AttentionMask &mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t *strides = mask.strides;
    return mask.offset + b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
  }

private:
  /// Where row i stands among the keys.
  int64_t position(int64_t i) const { return origin[1] + i + call.whole[2] - call.whole[1] - origin[2]; }
  int64_t clampKey(int64_t j) const { return largerOf(0, smallerOf(s.Sk, j)); }
};

/// The least place of a mask's elements, and the one behind the largest.
struct Bounds {
  __int128 first, end;
};

inline Bounds maskBounds(const AttentionShape &s, const AttentionMask &mask) {
  const int64_t extents[4] = {s.B, s.Hq, s.Sq, s.Sk};
  Bounds bounds{mask.offset, static_cast<__int128>(mask.offset) + 1};
  for (int d = 0; d < 4; ++d)
    (mask.strides[d] < 0 ? bounds.first : bounds.end) += static_cast<__int128>(extents[d] - 1) * mask.strides[d];
  return bounds;
}

/// Attention's gradients (AttentionGrad.cpp).
void runAttentionGrad(const LibraryArguments &arguments, ThreadPool &pool);
void runAttentionMaskGrad(const LibraryArguments &arguments, ThreadPool &pool);

} // namespace scrimp::runtime

#endif
