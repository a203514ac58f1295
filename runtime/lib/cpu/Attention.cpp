// The library functions "attention" and "attention_grad": scaled dot-product attention that holds the scores of one
// block of query rows per worker (FlashAttention's memory, Dao et al. 2022, with the whole row at once instead of an
// online softmax; the gradient recomputes probabilities from the log-sum-exp).
#include "ArgumentCheck.h"
#include "Blas.h"
#include "Draws.h"
#include "HostLoops.h"
#include "scrimp/runtime/workspace.h"
#include <limits>

namespace scrimp::runtime {

namespace {

enum MaskKind { additiveMask = 1, booleanMask = 2 };

/// A stretch of keys.
struct Keys {
  int64_t first, count;
};

template <typename T> struct Attention {
  AttentionCall call;
  AttentionShape s;
  T scale, keptScale;
  int64_t rows;      // query rows of a block
  int64_t slotBytes; // of one panel of scores
  const T *q, *k, *v;
  const AttentionMask *masks; // as many as the call says, and their elements
  char *const *maskElements;
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
    masks = reinterpret_cast<const AttentionMask *>(arguments.ints.data() + attentionCallInts);
    maskElements = arguments.buffers.data() + optional;
    optional += static_cast<size_t>(call.masks);
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
  void scores(int64_t b, int64_t h, int64_t i, int64_t count, Keys keys, T *panel) const {
    const T *qRows = q + ((b * s.Hq + h) * s.Sq + i) * s.D;
    const T *keyRows = k + ((b * s.Hkv + h / group()) * s.Sk + keys.first) * s.D;
    gemm<T>(count, keys.count, s.D, scale, {qRows, s.D}, {keyRows, s.D, true}, T(0), panel, largerOf(keys.count, 1));
    for (int64_t r = 0; r < count; ++r)
      maskRow(b, h, i + r, keys, panel + r * keys.count);
  }

  void maskRow(int64_t b, int64_t h, int64_t i, Keys keys, T *row) const {
    constexpr T hidden = -std::numeric_limits<T>::infinity();
    for (int64_t m = 0; m < call.masks; ++m) {
      int64_t at = maskAt(masks[m], b, h, i, keys.first), step = masks[m].strides[3];
      if (masks[m].kind == additiveMask)
        for (int64_t j = 0; j < keys.count; ++j)
          row[j] += reinterpret_cast<const T *>(maskElements[m])[at + j * step];
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

  static int64_t maskAt(const AttentionMask &mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t *strides = mask.strides;
    return mask.offset + b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
  }

private:
  /// Where row i stands among the keys.
  int64_t position(int64_t i) const { return origin[1] + i + call.whole[2] - call.whole[1] - origin[2]; }
  int64_t clampKey(int64_t j) const { return largerOf(0, smallerOf(s.Sk, j)); }
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
      int64_t count = smallerOf(a.rows, s.Sq - i);
      Keys keys = a.keysOf(i, count);
      a.scores(b, h, i, count, keys, panel);
      for (int64_t r = 0; r < count; ++r) {
        lse[head * s.Sq + i + r] = softmaxRow(panel + r * keys.count, keys.count);
        if (a.call.hasDropout)
          a.dropRow(b, h, i + r, keys, panel + r * keys.count);
      }
      const T *values = a.v + ((b * s.Hkv + h / a.group()) * s.Sk + keys.first) * s.Dv;
      gemm<T>(count, s.Dv, keys.count, T(1), {panel, largerOf(keys.count, 1)}, {values, s.Dv}, T(0),
              out + (head * s.Sq + i) * s.Dv, s.Dv);
    }
  };
  pool.parallelFor(s.B * s.Hq * blocks, 1, body);
}

namespace {

/// The least place of a mask's elements, and the one behind the largest.
struct Bounds {
  __int128 first, end;
};

Bounds maskBounds(const AttentionShape &s, const AttentionMask &mask) {
  const int64_t extents[4] = {s.B, s.Hq, s.Sq, s.Sk};
  Bounds bounds{mask.offset, static_cast<__int128>(mask.offset) + 1};
  for (int d = 0; d < 4; ++d)
    (mask.strides[d] < 0 ? bounds.first : bounds.end) += static_cast<__int128>(extents[d] - 1) * mask.strides[d];
  return bounds;
}

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
    dq = result(0), dk = result(1), dv = result(2); // of a mask's gradient only the first, dmask
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
    int64_t b, h, i, count;
    Keys keys;
    int64_t stride;
    int64_t row; // of all B x Hq x Sq
  };
  Block block(int64_t index) const {
    int64_t keyHead = index / blocksPerKeyHead, within = index % blocksPerKeyHead;
    int64_t b = keyHead / s.Hkv, h = keyHead % s.Hkv * a.group() + within / rowBlocks, i = within % rowBlocks * a.rows;
    int64_t count = smallerOf(a.rows, s.Sq - i);
    Keys keys = a.keysOf(i, count);
    return {b, h, i, count, keys, largerOf(keys.count, 1), (b * s.Hq + h) * s.Sq + i};
  }

  /// Fills the slot.
  void differentiateScores(int64_t index, Slot slot) const {
    Block block = this->block(index);
    int64_t key = index / blocksPerKeyHead * s.Sk + block.keys.first, width = block.keys.count;
    const T *dRows = dout + block.row * s.Dv, *outRows = out + block.row * s.Dv;
    a.scores(block.b, block.h, block.i, block.count, block.keys, slot.p);
    gemm<T>(block.count, width, s.Dv, T(1), {dRows, s.Dv}, {a.v + key * s.Dv, s.Dv, true}, T(0), slot.ds, block.stride);
    for (int64_t r = 0; r < block.count; ++r) {
      T delta = T(0);
      for (int64_t d = 0; d < s.Dv; ++d)
        delta += dRows[r * s.Dv + d] * outRows[r * s.Dv + d];
      a.differentiateRow(block.b, block.h, block.i + r, block.keys, lse[block.row + r], delta, slot.p + r * width,
                         slot.ds + r * width);
    }
  }

  /// Fills the slot, and the block's rows of dq.
  void differentiate(int64_t index, Slot slot) const {
    differentiateScores(index, slot);
    Block block = this->block(index);
    int64_t key = index / blocksPerKeyHead * s.Sk + block.keys.first;
    gemm<T>(block.count, s.D, block.keys.count, a.scale, {slot.ds, block.stride}, {a.k + key * s.D, s.D}, T(0),
            dq + block.row * s.D, s.D);
  }

  /// Adds the part of a block that `differentiate` left in the slot to one tile of dk and dv.
  void addToKeys(int64_t index, Slot slot, int64_t tile) const {
    Block block = this->block(index);
    int64_t j = largerOf(tile * keyTile, block.keys.first),
            count = smallerOf((tile + 1) * keyTile, block.keys.first + block.keys.count) - j;
    if (count <= 0)
      return;
    int64_t key = index / blocksPerKeyHead * s.Sk + j, column = j - block.keys.first;
    gemm<T>(count, s.D, block.count, a.scale, {slot.ds + column, block.stride, true}, {a.q + block.row * s.D, s.D},
            T(1), dk + key * s.D, s.D);
    gemm<T>(count, s.Dv, block.count, T(1), {slot.p + column, block.stride, true}, {dout + block.row * s.Dv, s.Dv},
            T(1), dv + key * s.Dv, s.Dv);
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

  /// dmask of the mask numbered `index`. A part of it that samples and heads have for themselves is summed by one
  /// thread, block by block and row by row.
  void runForMask(int64_t index, ThreadPool &pool) const {
    const AttentionMask &mask = a.masks[index];
    T *dmask = dq;
    bool bySample = mask.strides[0] != 0, byHead = mask.strides[1] != 0;
    int64_t samples = bySample ? s.B : 1, heads = byHead ? s.Hq : 1;
    memset(dmask, 0, static_cast<size_t>(maskBounds(s, mask).end) * sizeof(T));
    auto body = [&](int64_t begin, int64_t end, int worker) {
      char *at = a.results[1] + worker * 2 * a.slotBytes;
      Slot slot{reinterpret_cast<T *>(at), reinterpret_cast<T *>(at + a.slotBytes)};
      for (int64_t unit = begin; unit < end; ++unit)
        for (int64_t index = 0; index < s.B * s.Hkv * blocksPerKeyHead; ++index) {
          Block block = this->block(index);
          if ((bySample && block.b != unit / heads) || (byHead && block.h != unit % heads))
            continue;
          differentiateScores(index, slot);
          for (int64_t r = 0; r < block.count; ++r) {
            T *row = dmask + a.maskAt(mask, block.b, block.h, block.i + r, block.keys.first);
            for (int64_t j = 0; j < block.keys.count; ++j)
              row[j * mask.strides[3]] += slot.ds[r * block.keys.count + j];
          }
        }
    };
    pool.parallelFor(samples * heads, 1, body);
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

enum class Kind { forward, gradient, maskGradient };

static Status verify(const char *name, Kind kind, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  AttentionCall call{};
  std::span<const int64_t> ints = arguments.ints;
  constexpr size_t fixed = attentionCallInts;
  if (ints.size() >= fixed)
    memcpy(&call, ints.data(), sizeof(call));
  size_t ofMasks = ints.size() >= fixed ? (ints.size() - fixed) / attentionMaskInts : 0;
  if (call.masks < 0 || static_cast<size_t>(call.masks) != ofMasks)
    check.fail("the integers are not those of as many masks as they say");
  size_t optional = ofMasks + (call.hasSegments != 0) + (call.hasDropout ? 3 : 0) + (call.hasOrigin != 0);
  check.counts((kind == Kind::forward    ? 6
                : kind == Kind::gradient ? 10
                                         : 8) +
                   optional,
               fixed + ofMasks * attentionMaskInts + (kind == Kind::maskGradient), 2);
  auto range = [&](const int64_t &value, const char *what, int64_t low, int64_t high) {
    check.range(static_cast<size_t>(&value - &call.shape.B), what, low, high);
  };
  constexpr int64_t most = 1 << 28;
  range(call.shape.B, "B", 1, most);
  range(call.shape.Hq, "Hq", 1, most);
  range(call.shape.Hkv, "Hkv", 1, most);
  range(call.shape.Sq, "Sq", 1, most);
  range(call.shape.Sk, "Sk", 1, most);
  range(call.shape.D, "D", 1, most);
  range(call.shape.Dv, "Dv", 1, most);
  range(call.left, "left", -(int64_t{1} << 40), int64_t{1} << 40);
  range(call.right, "right", -(int64_t{1} << 40), int64_t{1} << 40);
  range(call.hasSegments, "hasSegments", 0, 1);
  range(call.hasDropout, "hasDropout", 0, 1);
  range(call.samples, "samples", 0, call.shape.B);
  range(call.dropBelow, "dropBelow", 0, UINT32_MAX);
  range(call.hasOrigin, "hasOrigin", 0, 1);
  range(call.whole[0], "wholeHeads", call.shape.Hq, most);
  range(call.whole[1], "wholeQueries", call.shape.Sq, most);
  range(call.whole[2], "wholeKeys", call.shape.Sk, most);
  if (check.failed())
    return check.take();
  const AttentionShape &s = call.shape;
  if (s.Hq % s.Hkv)
    check.fail("key-value heads do not divide the query heads");
  if (call.hasSegments && s.Sq != s.Sk)
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
  if (kind != Kind::forward) {
    outLike(3, "out");
    check.buffer(4, "lse", {s.B, s.Hq, s.Sq}, bytes);
    outLike(5, "dout");
    next = 6;
  }
  const auto *masks = reinterpret_cast<const AttentionMask *>(ints.data() + fixed);
  for (size_t m = 0; m < ofMasks && !check.failed(); ++m) {
    Bounds bounds = maskBounds(s, masks[m]);
    if (bounds.first < 0 || masks[m].kind < additiveMask || masks[m].kind > booleanMask)
      check.fail("a mask is neither added nor i1, or starts before its elements");
    check.buffer(next++, "mask", {bounds.end > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bounds.end)},
                 masks[m].kind == additiveMask ? bytes : 1);
  }
  if (call.hasSegments)
    check.buffer(next++, "segments", {s.B, s.Sk}, 8);
  if (call.hasDropout)
    for (const char *scalar : {"seed", "step", "sample_base"})
      check.buffer(next++, scalar, {1}, 8);
  if (call.hasOrigin)
    check.buffer(next++, "origin", {3}, 8);
  if (kind == Kind::maskGradient) {
    check.range(ints.size() - 1, "the mask's number", 0, call.masks - 1);
    if (check.failed())
      return check.take();
    const AttentionMask &mask = masks[ints.back()];
    if (mask.kind != additiveMask)
      check.fail("an i1 mask has no gradient");
    check.buffer(next, "dmask", {static_cast<int64_t>(maskBounds(s, mask).end)}, bytes);
    check.buffer(next + 1, "workspace", {2 * attentionSlotBytes(s, bytes), arguments.workers}, 1);
  } else if (kind == Kind::gradient) {
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

static void runMaskGradient(const LibraryArguments &arguments, ThreadPool &pool) {
  if (arguments.dtype == DType::f32)
    Gradient<float>(arguments).runForMask(arguments.ints.back(), pool);
  else
    Gradient<double>(arguments).runForMask(arguments.ints.back(), pool);
}

const LibraryFunction attentionFunctions[3] = {
    {"attention", [](const LibraryArguments &a) { return verify("attention", Kind::forward, a); }, runForward},
    {"attention_grad", [](const LibraryArguments &a) { return verify("attention_grad", Kind::gradient, a); },
     runBackward},
    {"attention_mask_grad",
     [](const LibraryArguments &a) { return verify("attention_mask_grad", Kind::maskGradient, a); }, runMaskGradient},
};

} // namespace scrimp::runtime
