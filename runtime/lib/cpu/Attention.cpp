// The library functions "attention" and "attention_grad": scaled dot-product attention that holds the scores of one
// block of query rows per worker (FlashAttention's memory, Dao et al. 2022, with the whole row at once instead of an
// online softmax; the gradient recomputes probabilities from the log-sum-exp).
#include "ArgumentCheck.h"
#include "Blas.h"
#include "Draws.h"
#include "Exp.h"
#include "HostLoops.h"
#include "scrimp/runtime/workspace.h"
#include <limits>

namespace scrimp::runtime {

namespace {

enum MaskKind { noMask = 0, additiveMask = 1, booleanMask = 2 };

template <typename T> struct Attention {
  AttentionCall call;
  AttentionShape s;
  T scale, keptScale;
  int64_t rows;      // query rows of a block
  int64_t slotBytes; // of one panel of scores
  const T *q, *k, *v;
  const char *mask = nullptr;
  const int64_t *segments = nullptr;
  int64_t seed = 0, step = 0, sampleBase = 0, origin[3] = {};
  char *const *results; // and the workspace

  /// `optional` is the index of the first optional buffer.
  Attention(const LibraryArguments &arguments, size_t optional)
      : call(callOf(arguments)), s(call.shape), scale(static_cast<T>(arguments.floats[0])),
        keptScale(static_cast<T>(arguments.floats[1])), rows(attentionRows(s, sizeof(T))),
        slotBytes(attentionSlotBytes(s, sizeof(T))) {
    auto buffer = [&](size_t index) { return reinterpret_cast<const T *>(arguments.buffers[index]); };
    auto integers = [&] { return reinterpret_cast<const int64_t *>(arguments.buffers[optional++]); };
    q = buffer(0), k = buffer(1), v = buffer(2);
    if (call.maskKind != noMask)
      mask = arguments.buffers[optional++];
    if (call.hasSegments)
      segments = integers();
    if (call.hasDropout)
      seed = *integers(), step = *integers(), sampleBase = *integers();
    if (call.hasOrigin)
      memcpy(origin, integers(), sizeof(origin));
    results = arguments.buffers.data() + optional;
  }

  static AttentionCall callOf(const LibraryArguments &arguments) {
    AttentionCall call;
    memcpy(&call, arguments.ints.data(), sizeof(call));
    return call;
  }

  int64_t group() const { return s.Hq / s.Hkv; }
  /// Keys that row i may see at all.
  int64_t visible(int64_t i) const {
    if (!call.causal)
      return s.Sk;
    int64_t last = origin[1] + i + call.whole[2] - call.whole[1] - origin[2];
    return largerOf(0, smallerOf(s.Sk, last + 1));
  }

  /// The draws of row i of head h, which decide what dropout keeps.
  DrawRow draws(int64_t b, int64_t h, int64_t i) const {
    int64_t rest = s.B / largerOf(call.samples, 1), sample = call.samples ? sampleBase + b / rest : 0;
    int64_t row = (b % rest * call.whole[0] + origin[0] + h) * call.whole[1] + origin[1] + i;
    return {static_cast<uint64_t>(seed ^ call.dropoutKey), static_cast<uint32_t>(sample), static_cast<uint32_t>(step),
            static_cast<uint64_t>(row * call.whole[2] + origin[2])};
  }

  bool drops(uint32_t bits) const { return bits < static_cast<uint32_t>(call.dropBelow); }

  void dropRow(int64_t b, int64_t h, int64_t i, int64_t keys, T *row) const {
    forEachDraws(draws(b, h, i), keys, [&](int64_t j, int64_t n, const uint32_t *bits) {
      for (int64_t l = 0; l < n; ++l)
        row[j + l] = drops(bits[l]) ? T(0) : row[j + l] * keptScale;
    });
  }

  /// Of row i: scores `p` become the probabilities that multiply the values, and `dp`, their gradient, that of the
  /// scores. Dropout multiplies both by 0 or keptScale; the row's sum of P dP is that of out dout all the same.
  void differentiateRow(int64_t b, int64_t h, int64_t i, int64_t keys, T logSum, T delta, T *p, T *dp) const {
    if (!call.hasDropout) {
      for (int64_t j = 0; j < keys; ++j) {
        p[j] = exponential(p[j] - logSum);
        dp[j] = p[j] * (dp[j] - delta);
      }
      return;
    }
    for (int64_t j = 0; j < keys; ++j)
      p[j] = exponential(p[j] - logSum);
    forEachDraws(draws(b, h, i), keys, [&](int64_t first, int64_t n, const uint32_t *bits) {
      for (int64_t l = 0; l < n; ++l) {
        int64_t j = first + l;
        bool dropped = drops(bits[l]);
        dp[j] = p[j] * ((dropped ? T(0) : dp[j] * keptScale) - delta);
        p[j] = dropped ? T(0) : p[j] * keptScale;
      }
    });
  }

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
    const int64_t *strides = call.maskStrides;
    int64_t at = b * strides[0] + h * strides[1] + i * strides[2], step = strides[3];
    if (call.maskKind == additiveMask)
      for (int64_t j = 0; j < keys; ++j)
        row[j] += reinterpret_cast<const T *>(mask)[at + j * step];
    else if (call.maskKind == booleanMask)
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

template <typename T> static void forward(const LibraryArguments &arguments, ThreadPool &pool) {
  Attention<T> a(arguments, 3);
  const AttentionShape &s = a.s;
  T *out = reinterpret_cast<T *>(a.results[0]), *lse = reinterpret_cast<T *>(a.results[1]);
  char *workspace = a.results[2];
  int64_t blocks = divideUp(s.Sq, a.rows);
  auto body = [&](int64_t begin, int64_t end, int worker) {
    T *panel = reinterpret_cast<T *>(workspace + worker * a.slotBytes);
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t head = unit / blocks, b = head / s.Hq, h = head % s.Hq, i = unit % blocks * a.rows;
      int64_t count = smallerOf(a.rows, s.Sq - i), keys = a.visible(i + count - 1);
      a.scores(b, h, i, count, keys, panel);
      for (int64_t r = 0; r < count; ++r) {
        lse[head * s.Sq + i + r] = softmaxRow(panel + r * keys, keys);
        if (a.call.hasDropout)
          a.dropRow(b, h, i + r, keys, panel + r * keys);
      }
      const T *values = a.v + (b * s.Hkv + h / a.group()) * s.Sk * s.Dv;
      gemm<T>(count, s.Dv, keys, T(1), {panel, largerOf(keys, 1)}, {values, s.Dv}, T(0), out + (head * s.Sq + i) * s.Dv,
              s.Dv);
    }
  };
  pool.parallelFor(s.B * s.Hq * blocks, 1, body);
}

namespace {

/// dv = P^T dout; dP = dout v^T; dS = P (dP - rowsum(dout out)) scale; dq = dS k; dk = dS^T q. The work is cut into
/// blocks of query rows, numbered by key-value head, query head and row. The blocks of a key-value head add to its dk
/// and dv in this order, tile by tile of its keys; both cuts are functions of the shape, so it does not matter to the
/// bits who computes which block or tile.
template <typename T> struct Gradient {
  Attention<T> a;
  const AttentionShape &s = a.s;
  const T *out, *lse, *dout;
  T *dq, *dk, *dv;
  int64_t rowBlocks = divideUp(s.Sq, a.rows), blocksPerKeyHead = a.group() * rowBlocks, keyTile = attentionKeyTile(s),
          keyTiles = divideUp(s.Sk, keyTile);

  explicit Gradient(const LibraryArguments &arguments) : a(arguments, 6) {
    auto buffer = [&](size_t index) { return reinterpret_cast<const T *>(arguments.buffers[index]); };
    auto result = [&](size_t index) { return reinterpret_cast<T *>(a.results[index]); };
    out = buffer(3), lse = buffer(4), dout = buffer(5);
    dq = result(0), dk = result(1), dv = result(2);
  }

  /// Probabilities and gradients of scores of one block.
  struct Slot {
    T *p, *ds;
  };
  Slot slot(int64_t index) const {
    char *at = a.results[3] + index * 2 * a.slotBytes;
    return {reinterpret_cast<T *>(at), reinterpret_cast<T *>(at + a.slotBytes)};
  }

  struct Block {
    int64_t b, h, i, count, keys, stride;
    int64_t row; // of all B x Hq x Sq
  };
  Block block(int64_t index) const {
    int64_t keyHead = index / blocksPerKeyHead, within = index % blocksPerKeyHead;
    int64_t b = keyHead / s.Hkv, h = keyHead % s.Hkv * a.group() + within / rowBlocks, i = within % rowBlocks * a.rows;
    int64_t count = smallerOf(a.rows, s.Sq - i), keys = a.visible(i + count - 1);
    return {b, h, i, count, keys, largerOf(keys, 1), (b * s.Hq + h) * s.Sq + i};
  }

  /// Fills the slot, and the block's rows of dq.
  void differentiate(int64_t index, Slot slot) const {
    Block block = this->block(index);
    int64_t keyHead = index / blocksPerKeyHead, keys = block.keys;
    const T *dRows = dout + block.row * s.Dv, *outRows = out + block.row * s.Dv;
    a.scores(block.b, block.h, block.i, block.count, keys, slot.p);
    gemm<T>(block.count, keys, s.Dv, T(1), {dRows, s.Dv}, {a.v + keyHead * s.Sk * s.Dv, s.Dv, true}, T(0), slot.ds,
            block.stride);
    for (int64_t r = 0; r < block.count; ++r) {
      T delta = T(0);
      for (int64_t d = 0; d < s.Dv; ++d)
        delta += dRows[r * s.Dv + d] * outRows[r * s.Dv + d];
      a.differentiateRow(block.b, block.h, block.i + r, keys, lse[block.row + r], delta, slot.p + r * keys,
                         slot.ds + r * keys);
    }
    gemm<T>(block.count, s.D, keys, a.scale, {slot.ds, block.stride}, {a.k + keyHead * s.Sk * s.D, s.D}, T(0),
            dq + block.row * s.D, s.D);
  }

  /// Adds the part of a block that `differentiate` left in the slot to one tile of dk and dv.
  void addToKeys(int64_t index, Slot slot, int64_t tile) const {
    Block block = this->block(index);
    int64_t j = tile * keyTile, count = smallerOf(keyTile, block.keys - j);
    if (count <= 0)
      return;
    int64_t key = index / blocksPerKeyHead * s.Sk + j;
    gemm<T>(count, s.D, block.count, a.scale, {slot.ds + j, block.stride, true}, {a.q + block.row * s.D, s.D}, T(1),
            dk + key * s.D, s.D);
    gemm<T>(count, s.Dv, block.count, T(1), {slot.p + j, block.stride, true}, {dout + block.row * s.Dv, s.Dv}, T(1),
            dv + key * s.Dv, s.Dv);
  }

  void clearKeys(int64_t keyHead) const {
    memset(dk + keyHead * s.Sk * s.D, 0, s.Sk * s.D * sizeof(T));
    memset(dv + keyHead * s.Sk * s.Dv, 0, s.Sk * s.Dv * sizeof(T));
  }

  /// Each key-value head by one thread.
  void runByKeyHead(ThreadPool &pool) const {
    auto body = [&](int64_t begin, int64_t end, int worker) {
      for (int64_t keyHead = begin; keyHead < end; ++keyHead) {
        clearKeys(keyHead);
        for (int64_t index = keyHead * blocksPerKeyHead; index < (keyHead + 1) * blocksPerKeyHead; ++index) {
          differentiate(index, slot(worker));
          for (int64_t tile = 0; tile < keyTiles; ++tile)
            addToKeys(index, slot(worker), tile);
        }
      }
    };
    pool.parallelFor(s.B * s.Hkv, 1, body);
  }

  /// As many blocks at a time as there are threads, then the tiles of the keys that they add to.
  void runByBlock(ThreadPool &pool) const {
    auto clear = [&](int64_t begin, int64_t end, int) {
      for (int64_t keyHead = begin; keyHead < end; ++keyHead)
        clearKeys(keyHead);
    };
    pool.parallelFor(s.B * s.Hkv, 1, clear);
    int64_t blocks = s.B * s.Hkv * blocksPerKeyHead;
    for (int64_t first = 0; first < blocks; first += pool.threads()) {
      int64_t last = smallerOf(first + pool.threads(), blocks), firstHead = first / blocksPerKeyHead,
              heads = (last - 1) / blocksPerKeyHead - firstHead + 1;
      auto compute = [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          differentiate(first + i, slot(i));
      };
      pool.parallelFor(last - first, 1, compute);
      auto add = [&](int64_t begin, int64_t end, int) {
        for (int64_t unit = begin; unit < end; ++unit)
          for (int64_t index = first; index < last; ++index)
            if (index / blocksPerKeyHead == firstHead + unit / keyTiles)
              addToKeys(index, slot(index - first), unit % keyTiles);
      };
      pool.parallelFor(heads * keyTiles, 1, add);
    }
  }

  /// By key-value heads unless that leaves more than an eighth of the threads' time idle.
  void run(ThreadPool &pool) const {
    int64_t keyHeads = s.B * s.Hkv, threads = pool.threads();
    if (8 * keyHeads >= 7 * threads * divideUp(keyHeads, threads))
      runByKeyHead(pool);
    else
      runByBlock(pool);
  }
};

} // namespace

static Status verify(const char *name, bool gradient, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  AttentionCall call{};
  if (arguments.ints.size() == attentionCallInts)
    memcpy(&call, arguments.ints.data(), sizeof(call));
  size_t optional =
      (call.maskKind != noMask) + (call.hasSegments != 0) + (call.hasDropout ? 3 : 0) + (call.hasOrigin != 0);
  check.counts((gradient ? 10 : 6) + optional, attentionCallInts, 2);
  static constexpr const char *names[] = {"B", "Hq", "Hkv", "Sq", "Sk", "D", "Dv"};
  for (size_t i = 0; i < 7; ++i)
    check.range(i, names[i], 1, 1 << 28);
  check.range(7, "causal", 0, 1);
  check.range(8, "maskKind", noMask, booleanMask);
  for (size_t i = 9; i < 13; ++i)
    check.range(i, "mask stride", 0, INT64_MAX);
  check.range(13, "hasSegments", 0, 1);
  check.range(14, "hasDropout", 0, 1);
  check.range(16, "samples", 0, call.shape.B);
  check.range(17, "dropBelow", 0, UINT32_MAX);
  check.range(18, "hasOrigin", 0, 1);
  static constexpr const char *wholeNames[] = {"wholeHeads", "wholeQueries", "wholeKeys"};
  for (size_t i = 0; i < 3; ++i)
    check.range(19 + i, wholeNames[i], arguments.ints.size() > 4 ? arguments.ints[i ? i + 2 : 1] : 1, 1 << 28);
  if (check.failed())
    return check.take();
  std::span<const int64_t> i = arguments.ints;
  const AttentionShape &s = call.shape;
  if (s.Hq % s.Hkv)
    check.fail("key-value heads do not divide the query heads");
  if (i[13] && s.Sq != s.Sk)
    check.fail("segments need as many queries as keys");
  if (call.samples && s.B % call.samples)
    check.fail("samples do not divide the batch");
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
  if (call.hasDropout)
    for (const char *scalar : {"seed", "step", "sample_base"})
      check.buffer(next++, scalar, {1}, 8);
  if (call.hasOrigin)
    check.buffer(next++, "origin", {3}, 8);
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
  if (arguments.dtype == DType::f32)
    Gradient<float>(arguments).run(pool);
  else
    Gradient<double>(arguments).run(pool);
}

const LibraryFunction attentionFunctions[2] = {
    {"attention", [](const LibraryArguments &a) { return verify("attention", false, a); }, runForward},
    {"attention_grad", [](const LibraryArguments &a) { return verify("attention_grad", true, a); }, runBackward},
};

} // namespace scrimp::runtime
