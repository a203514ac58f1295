// The library functions "attention", "attention_grad" and "attention_mask_grad": scaled dot-product attention.
#include "../common/ArgumentCheck.h"
#include "AttentionScores.h"

namespace scrimp::runtime {

template <typename T> static void forward(const LibraryArguments &arguments, ThreadPool &pool) {
  Attention<T> a(arguments, 3);
  const AttentionShape &s = a.s;
  char *out = a.results[0];
  T *lse = reinterpret_cast<T *>(a.results[1]);
  int64_t blocks = divideUp(s.Sq, a.rows);
  auto body = [&](int64_t begin, int64_t end, int worker) {
    auto slot = a.slotOf(a.results[2], worker);
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t head = unit / blocks, b = head / s.Hq, h = head % s.Hq, i = unit % blocks * a.rows;
      int64_t count = smallerOf(a.rows, s.Sq - i);
      Keys keys = a.keysOf(i, count);
      a.scores(b, h, i, count, keys, slot);
      for (int64_t r = 0; r < count; ++r) {
        T *row = slot.scores + r * keys.count;
        lse[head * s.Sq + i + r] = softmaxRow(row, keys.count);
        if (a.call.hasDropout)
          a.dropRow(b, h, i + r, keys, row);
      }
      int64_t key = (b * s.Hkv + h / a.group()) * s.Sk + keys.first;
      a.multiplyInto(out, head * s.Sq + i, count, s.Dv, keys.count, T(1),
                     a.summed(slot.scores, largerOf(keys.count, 1)), a.stored(a.v, key, s.Dv), slot);
    }
  };
  pool.parallelFor(s.B * s.Hq * blocks, 1, body);
}

enum class Kind { forward, gradient, maskGradient };

static Status verify(const char *name, Kind kind, const LibraryArguments &arguments) {
  ArgumentCheck check(name, arguments);
  check.floatType();
  check.storedType(0);
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
  int64_t bytes = elementBytes(arguments.dtype), operandBytes = elementBytes(arguments.typeOf(0));
  auto operand = [&](size_t index, const char *what, int64_t heads, int64_t length, int64_t width) {
    if (arguments.typeOf(index) != arguments.typeOf(0))
      check.fail("q, k, v, out and their gradients differ in type");
    check.buffer(index, what, {s.B, heads, length, width}, operandBytes);
  };
  auto qLike = [&](size_t index, const char *what) { operand(index, what, s.Hq, s.Sq, s.D); };
  auto outLike = [&](size_t index, const char *what) { operand(index, what, s.Hq, s.Sq, s.Dv); };
  auto kLike = [&](size_t index, const char *what) { operand(index, what, s.Hkv, s.Sk, s.D); };
  auto vLike = [&](size_t index, const char *what) { operand(index, what, s.Hkv, s.Sk, s.Dv); };
  auto sumLike = [&](size_t index, const char *what, std::initializer_list<int64_t> extents) {
    if (arguments.typeOf(index) != arguments.dtype)
      check.fail("lse and the gradient of a mask have the type of sums");
    check.buffer(index, what, extents, bytes);
  };
  int64_t slotBytes = attentionSlot(s, bytes, operandBytes != bytes, /*isGradient=*/kind != Kind::forward).bytes();
  qLike(0, "q");
  kLike(1, "k");
  vLike(2, "v");
  size_t next = 3;
  if (kind != Kind::forward) {
    outLike(3, "out");
    sumLike(4, "lse", {s.B, s.Hq, s.Sq});
    outLike(5, "dout");
    next = 6;
  }
  const auto *masks = reinterpret_cast<const AttentionMask *>(ints.data() + fixed);
  for (size_t m = 0; m < ofMasks && !check.failed(); ++m) {
    Bounds bounds = maskBounds(s, masks[m]);
    if (bounds.first < 0 || masks[m].kind < additiveMask || masks[m].kind > booleanMask)
      check.fail("a mask is neither added nor i1, or starts before its elements");
    if (masks[m].kind == additiveMask)
      check.storedType(next);
    check.buffer(next, "mask", {bounds.end > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bounds.end)},
                 masks[m].kind == additiveMask ? elementBytes(arguments.typeOf(next)) : 1);
    ++next;
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
    sumLike(next, "dmask", {static_cast<int64_t>(maskBounds(s, mask).end)});
    check.buffer(next + 1, "workspace", {slotBytes, arguments.workers}, 1);
  } else if (kind == Kind::gradient) {
    qLike(next, "dq");
    kLike(next + 1, "dk");
    vLike(next + 2, "dv");
    check.buffer(next + 3, "workspace", {slotBytes, arguments.workers}, 1);
  } else {
    outLike(next, "out");
    sumLike(next + 1, "lse", {s.B, s.Hq, s.Sq});
    check.buffer(next + 2, "workspace", {slotBytes, arguments.workers}, 1);
  }
  return check.take();
}

static void runForward(const LibraryArguments &arguments, ThreadPool &pool) {
  (arguments.dtype == DType::f32 ? forward<float> : forward<double>)(arguments, pool);
}

const LibraryFunction attentionFunctions[3] = {
    {"attention", [](const LibraryArguments &a) { return verify("attention", Kind::forward, a); }, runForward},
    {"attention_grad", [](const LibraryArguments &a) { return verify("attention_grad", Kind::gradient, a); },
     runAttentionGrad},
    {"attention_mask_grad",
     [](const LibraryArguments &a) { return verify("attention_mask_grad", Kind::maskGradient, a); },
     runAttentionMaskGrad},
};

} // namespace scrimp::runtime