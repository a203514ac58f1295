// The library functions "attention" and "attention_grad": scaled dot-product attention that holds the scores of one
// block of query rows per worker (FlashAttention's memory, Dao et al. 2022, with the whole row at once instead of an
// online softmax; the gradient recomputes probabilities from the log-sum-exp).
#include "ArgumentCheck.h"
#include "Blas.h"
#include "Exp.h"
#include "scrimp/runtime/workspace.h"
#include <limits>

namespace scrimp::runtime {

namespace {

enum MaskKind { noMask = 0, additiveMask = 1, booleanMask = 2 };

template <typename T> struct Attention {
  AttentionShape s;
  bool causal, hasSegments;
  int64_t maskKind, maskStrides[4];
  T scale;
  int64_t rows;      // query rows of a block
  int64_t slotBytes; // of one panel of scores
  const T *q, *k, *v;
  const char *mask = nullptr;
  const int64_t *segments = nullptr;

  /// `optional` is the index of the first optional buffer.
  Attention(const LibraryArguments &arguments, size_t optional) {
    std::span<const int64_t> i = arguments.ints;
    s = {i[0], i[1], i[2], i[3], i[4], i[5], i[6]};
    causal = i[7];
    maskKind = i[8];
    for (int d = 0; d < 4; ++d)
      maskStrides[d] = i[9 + d];
    hasSegments = i[13];
    scale = static_cast<T>(arguments.floats[0]);
    rows = attentionRows(s, sizeof(T));
    slotBytes = attentionSlotBytes(s, sizeof(T));
    q = reinterpret_cast<const T *>(arguments.buffers[0]);
    k = reinterpret_cast<const T *>(arguments.buffers[1]);
    v = reinterpret_cast<const T *>(arguments.buffers[2]);
    if (maskKind != noMask)
      mask = arguments.buffers[optional++];
    if (hasSegments)
      segments = reinterpret_cast<const int64_t *>(arguments.buffers[optional]);
  }

  int64_t group() const { return s.Hq / s.Hkv; }
  /// Keys that row i may see at all.
  int64_t visible(int64_t i) const { return causal ? largerOf(0, smallerOf(s.Sk, i + s.Sk - s.Sq + 1)) : s.Sk; }

  /// scores[rows i .. i + count, keys) = scale q k^T, masked with -inf and the additive mask.
  void scores(int64_t b, int64_t h, int64_t i, int64_t count, int64_t keys, T *panel) const {
    const T *qRows = q + ((b * s.Hq + h) * s.Sq + i) * s.D;
    const T *keyRows = k + (b * s.Hkv + h / group()) * s.Sk * s.D;
    gemm<T>(count, keys, s.D, scale, {qRows, s.D}, {keyRows, s.D, true}, T(0), panel, largerOf(keys, 1));
    for (int64_t r = 0; r < count; ++r)
      maskRow(b, h, i + r, keys, panel + r * keys);
  }

  void maskRow(int64_t b, int64_t h, int64_t i, int64_t keys, T *row) const {
    constexpr T hidden = -std::numeric_limits<T>::infinity();
    int64_t at = b * maskStrides[0] + h * maskStrides[1] + i * maskStrides[2], step = maskStrides[3];
    if (maskKind == additiveMask)
      for (int64_t j = 0; j < keys; ++j)
        row[j] += reinterpret_cast<const T *>(mask)[at + j * step];
    else if (maskKind == booleanMask)
      for (int64_t j = 0; j < keys; ++j)
        row[j] = mask[at + j * step] ? row[j] : hidden;
    if (segments) {
      const int64_t *of = segments + b * s.Sk;
      for (int64_t j = 0; j < keys; ++j)
        row[j] = of[j] == of[i] ? row[j] : hidden;
    }
    for (int64_t j = visible(i); j < keys; ++j)
      row[j] = hidden;
  }
};

} // namespace

/// Eight interleaved partial sums, then a tree: the order is a function of the length.
template <typename T> static T sumOf(const T *row, int64_t count) {
  T lanes[8] = {};
  int64_t j = 0;
  for (; j + 8 <= count; j += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += row[j + l];
  for (; j < count; ++j)
    lanes[j % 8] += row[j];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// Softmax in place; returns the log-sum-exp. A row whose scores are all -inf becomes zeros with lse 0, from which the
/// gradient recomputes zeros. NaN stays NaN.
template <typename T> static T softmaxRow(T *row, int64_t count) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T most = lowest;
  bool anyNan = false;
  for (int64_t j = 0; j < count; ++j) {
    most = row[j] > most ? row[j] : most;
    anyNan |= row[j] != row[j];
  }
  if (most == lowest && !anyNan) {
    for (int64_t j = 0; j < count; ++j)
      row[j] = T(0);
    return T(0);
  }
  for (int64_t j = 0; j < count; ++j)
    row[j] = exponential(row[j] - most);
  T sum = sumOf(row, count);
  for (int64_t j = 0; j < count; ++j)
    row[j] /= sum;
  return most + std::log(sum);
}

template <typename T> static void forward(const LibraryArguments &arguments, ThreadPool &pool) {
  Attention<T> a(arguments, 3);
  const AttentionShape &s = a.s;
  size_t next = 3 + (a.maskKind != noMask) + a.hasSegments;
  T *out = reinterpret_cast<T *>(arguments.buffers[next]), *lse = reinterpret_cast<T *>(arguments.buffers[next + 1]);
  char *workspace = arguments.buffers[next + 2];
  int64_t blocks = divideUp(s.Sq, a.rows);
  auto body = [&](int64_t begin, int64_t end, int worker) {
    T *panel = reinterpret_cast<T *>(workspace + worker * a.slotBytes);
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t head = unit / blocks, b = head / s.Hq, h = head % s.Hq, i = unit % blocks * a.rows;
      int64_t count = smallerOf(a.rows, s.Sq - i), keys = a.visible(i + count - 1);
      a.scores(b, h, i, count, keys, panel);
      for (int64_t r = 0; r < count; ++r)
        lse[head * s.Sq + i + r] = softmaxRow(panel + r * keys, keys);
      const T *values = a.v + (b * s.Hkv + h / a.group()) * s.Sk * s.Dv;
      gemm<T>(count, s.Dv, keys, T(1), {panel, largerOf(keys, 1)}, {values, s.Dv}, T(0), out + (head * s.Sq + i) * s.Dv,
              s.Dv);
    }
  };
  pool.parallelFor(s.B * s.Hq * blocks, 1, body);
}

/// dv = P^T dout; dP = dout v^T; dS = P (dP - rowsum(dout out)) scale; dq = dS k; dk = dS^T q. A unit owns one
/// key-value head, so that the sums over its query heads and rows have one order.
template <typename T> static void backward(const LibraryArguments &arguments, ThreadPool &pool) {
  Attention<T> a(arguments, 6);
  const AttentionShape &s = a.s;
  size_t next = 6 + (a.maskKind != noMask) + a.hasSegments;
  auto buffer = [&](size_t index) { return reinterpret_cast<T *>(arguments.buffers[index]); };
  const T *out = buffer(3), *lse = buffer(4), *dout = buffer(5);
  T *dq = buffer(next), *dk = buffer(next + 1), *dv = buffer(next + 2);
  char *workspace = arguments.buffers[next + 3];
  auto body = [&](int64_t begin, int64_t end, int worker) {
    T *p = reinterpret_cast<T *>(workspace + worker * 2 * a.slotBytes);
    T *ds = reinterpret_cast<T *>(workspace + (worker * 2 + 1) * a.slotBytes);
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t b = unit / s.Hkv, kvHead = unit % s.Hkv;
      const T *keyRows = a.k + unit * s.Sk * s.D, *values = a.v + unit * s.Sk * s.Dv;
      T *dKeys = dk + unit * s.Sk * s.D, *dValues = dv + unit * s.Sk * s.Dv;
      memset(dKeys, 0, s.Sk * s.D * sizeof(T));
      memset(dValues, 0, s.Sk * s.Dv * sizeof(T));
      for (int64_t h = kvHead * a.group(); h < (kvHead + 1) * a.group(); ++h)
        for (int64_t i = 0; i < s.Sq; i += a.rows) {
          int64_t count = smallerOf(a.rows, s.Sq - i), keys = a.visible(i + count - 1);
          int64_t row = (b * s.Hq + h) * s.Sq + i, stride = largerOf(keys, 1);
          a.scores(b, h, i, count, keys, p);
          const T *dRows = dout + row * s.Dv;
          gemm<T>(count, keys, s.Dv, T(1), {dRows, s.Dv}, {values, s.Dv, true}, T(0), ds, stride);
          for (int64_t r = 0; r < count; ++r) {
            T delta = T(0), logSum = lse[row + r];
            for (int64_t d = 0; d < s.Dv; ++d)
              delta += dRows[r * s.Dv + d] * out[(row + r) * s.Dv + d];
            T *pRow = p + r * keys, *dRow = ds + r * keys;
            for (int64_t j = 0; j < keys; ++j) {
              pRow[j] = exponential(pRow[j] - logSum);
              dRow[j] = pRow[j] * (dRow[j] - delta);
            }
          }
          gemm<T>(count, s.D, keys, a.scale, {ds, stride}, {keyRows, s.D}, T(0), dq + row * s.D, s.D);
          gemm<T>(keys, s.D, count, a.scale, {ds, stride, true}, {a.q + row * s.D, s.D}, T(1), dKeys, s.D);
          gemm<T>(keys, s.Dv, count, T(1), {p, stride, true}, {dRows, s.Dv}, T(1), dValues, s.Dv);
        }
    }
  };
  pool.parallelFor(s.B * s.Hkv, 1, body);
}

static Status verify(const char *name, bool gradient, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  bool hasInts = arguments.ints.size() == 14;
  size_t optional = hasInts ? (arguments.ints[8] != noMask) + (arguments.ints[13] != 0) : 0;
  check.counts((gradient ? 10 : 6) + optional, 14, 1);
  static constexpr const char *names[] = {"B", "Hq", "Hkv", "Sq", "Sk", "D", "Dv"};
  for (size_t i = 0; i < 7; ++i)
    check.range(i, names[i], 1, 1 << 28);
  check.range(7, "causal", 0, 1);
  check.range(8, "maskKind", noMask, booleanMask);
  for (size_t i = 9; i < 13; ++i)
    check.range(i, "mask stride", 0, INT64_MAX);
  check.range(13, "hasSegments", 0, 1);
  if (check.failed())
    return check.take();
  std::span<const int64_t> i = arguments.ints;
  AttentionShape s{i[0], i[1], i[2], i[3], i[4], i[5], i[6]};
  if (s.Hq % s.Hkv)
    check.fail("key-value heads do not divide the query heads");
  if (i[13] && s.Sq != s.Sk)
    check.fail("segments need as many queries as keys");
  int64_t bytes = elementBytes(arguments.dtype);
  auto qLike = [&](size_t index, const char *what) { check.buffer(index, what, {s.B, s.Hq, s.Sq, s.D}, bytes); };
  auto outLike = [&](size_t index, const char *what) { check.buffer(index, what, {s.B, s.Hq, s.Sq, s.Dv}, bytes); };
  auto kLike = [&](size_t index, const char *what) { check.buffer(index, what, {s.B, s.Hkv, s.Sk, s.D}, bytes); };
  auto vLike = [&](size_t index, const char *what) { check.buffer(index, what, {s.B, s.Hkv, s.Sk, s.Dv}, bytes); };
  qLike(0, "q");
  kLike(1, "k");
  vLike(2, "v");
  size_t next = 3;
  if (gradient) {
    outLike(3, "out");
    check.buffer(4, "lse", {s.B, s.Hq, s.Sq}, bytes);
    outLike(5, "dout");
    next = 6;
  }
  if (i[8] != noMask) {
    const int64_t extents[4] = {s.B, s.Hq, s.Sq, s.Sk};
    __int128 last = 1;
    for (int d = 0; d < 4; ++d)
      last += static_cast<__int128>(extents[d] - 1) * i[9 + d];
    check.buffer(next++, "mask", {last > INT64_MAX ? INT64_MAX : static_cast<int64_t>(last)},
                 i[8] == additiveMask ? bytes : 1);
  }
  if (i[13])
    check.buffer(next++, "segments", {s.B, s.Sk}, 8);
  if (gradient) {
    qLike(next, "dq");
    kLike(next + 1, "dk");
    vLike(next + 2, "dv");
    check.buffer(next + 3, "workspace", {2 * attentionSlotBytes(s, bytes), arguments.workers}, 1);
  } else {
    outLike(next, "out");
    check.buffer(next + 1, "lse", {s.B, s.Hq, s.Sq}, bytes);
    check.buffer(next + 2, "workspace", {attentionSlotBytes(s, bytes), arguments.workers}, 1);
  }
  return check.take();
}

static void runForward(const LibraryArguments &arguments, ThreadPool &pool) {
  (arguments.dtype == DType::f32 ? forward<float> : forward<double>)(arguments, pool);
}

static void runBackward(const LibraryArguments &arguments, ThreadPool &pool) {
  (arguments.dtype == DType::f32 ? backward<float> : backward<double>)(arguments, pool);
}

const LibraryFunction attentionFunctions[2] = {
    {"attention", [](const LibraryArguments &a) { return verify("attention", false, a); }, runForward},
    {"attention_grad", [](const LibraryArguments &a) { return verify("attention_grad", true, a); }, runBackward},
};

} // namespace scrimp::runtime
