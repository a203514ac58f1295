// Attention against loops, and its gradient against central differences, over heads, masks, segments, dropout and
// pieces of larger scores.
#include "../../../runtime/lib/cpu/Bf16Dot.h"
#include "LibraryTest.h"
#include "scrimp/runtime/workspace.h"
#include <cmath>

using namespace scrimp::runtime;

namespace {

struct Case {
  AttentionShape s;
  bool causal = false;
  int64_t maskKind = 0;
  int64_t strides[4] = {};
  bool segments = false;
  double scale = 0.5;
  double p = 0;
  int64_t samples = 0;
  std::vector<int64_t> origin = {}; // empty: none, the scores are the whole
  int64_t whole[3] = {};
  std::vector<int64_t> window = {}; // empty, or left and right
  int64_t distance = 0;             // the kind of a second mask, by distance and head; 0: none

  bool drops() const { return p > 0; }
  int64_t wholeSize(int d) const { return origin.empty() ? (d == 0 ? s.Hq : d == 1 ? s.Sq : s.Sk) : whole[d]; }
  int64_t from(int d) const { return origin.empty() ? 0 : origin[d]; }
  int64_t left() const { return window.empty() ? int64_t{1} << 40 : window[0]; }
  int64_t right() const { return causal ? 0 : window.empty() ? int64_t{1} << 40 : window[1]; }
};

constexpr int64_t seed = 0x1234567890, step = 5, sampleBase = 3, dropoutKey = 0x7000000000000123;

template <typename T> struct Attention {
  Case c;
  std::vector<T> q, k, v, out, lse, dout, dq, dk, dv, additive, byDistance, dmask;
  std::vector<char> boolean, booleanByDistance, workspace;
  std::vector<int64_t> segments, random[3] = {{seed}, {step}, {sampleBase}};
  DType narrow = DType::f32; // another: the workspace is that of such operands

  explicit Attention(const Case &c)
      : c(c), q(randomVector<T>(c.s.B * c.s.Hq * c.s.Sq * c.s.D, "q")),
        k(randomVector<T>(c.s.B * c.s.Hkv * c.s.Sk * c.s.D, "k")),
        v(randomVector<T>(c.s.B * c.s.Hkv * c.s.Sk * c.s.Dv, "v")), out(c.s.B * c.s.Hq * c.s.Sq * c.s.Dv, T(99)),
        lse(c.s.B * c.s.Hq * c.s.Sq, T(99)), dout(randomVector<T>(static_cast<int64_t>(out.size()), "dout")),
        dq(q.size(), T(99)), dk(k.size(), T(99)), dv(v.size(), T(99)) {
    int64_t extents[] = {c.s.B, c.s.Hq, c.s.Sq, c.s.Sk}, size = 1;
    for (int d = 0; d < 4; ++d)
      size += (extents[d] - 1) * c.strides[d];
    additive = randomVector<T>(size, "mask");
    for (T value : additive)
      boolean.push_back(value > T(-0.3));
    byDistance = randomVector<T>(c.s.Hq * (c.s.Sq + c.s.Sk - 1), "distance");
    for (T value : byDistance)
      booleanByDistance.push_back(value > T(-0.4));
    for (int64_t i = 0; i < c.s.B * c.s.Sk; ++i)
      segments.push_back(i % c.s.Sk * 3 / c.s.Sk);
  }

  int64_t masks() const { return (c.maskKind != 0) + (c.distance != 0); }

  /// mask >= 0: of the gradient of that mask.
  LibraryCall call(int threads, bool gradient, int64_t mask = -1) {
    LibraryCall call;
    call.dtype = dtypeOf<T>;
    call.threads = threads;
    const AttentionShape &s = c.s;
    AttentionCall ints{s,
                       c.left(),
                       c.right(),
                       c.segments,
                       c.drops(),
                       dropoutKey,
                       c.samples,
                       static_cast<int64_t>(c.p * 0x1p32),
                       !c.origin.empty(),
                       {c.wholeSize(0), c.wholeSize(1), c.wholeSize(2)},
                       masks()};
    auto append = [&](const auto &record) {
      auto *first = reinterpret_cast<const int64_t *>(&record);
      call.ints.insert(call.ints.end(), first, first + sizeof(record) / sizeof(int64_t));
    };
    append(ints);
    if (c.maskKind)
      append(AttentionMask{c.maskKind, 0, {c.strides[0], c.strides[1], c.strides[2], c.strides[3]}});
    if (c.distance)
      append(AttentionMask{c.distance, s.Sq - 1, {0, s.Sq + s.Sk - 1, -1, 1}});
    if (mask >= 0)
      call.ints.push_back(mask);
    call.floats = {c.scale, 1 / (1 - c.p)};
    call.add(q).add(k).add(v);
    if (gradient)
      call.add(out).add(lse).add(dout);
    if (c.maskKind == 1)
      call.add(additive);
    if (c.maskKind == 2)
      call.add(boolean);
    if (c.distance == 1)
      call.add(byDistance);
    if (c.distance == 2)
      call.add(booleanByDistance);
    if (c.segments)
      call.add(segments);
    if (c.drops())
      call.add(random[0]).add(random[1]).add(random[2]);
    if (!c.origin.empty())
      call.add(c.origin);
    workspace.assign(
        static_cast<size_t>(attentionWorkspaceBytes(s, sizeof(T), narrow != DType::f32, gradient, call.workers)),
        '\xff');
    if (mask >= 0)
      dmask.assign(mask == 0 && c.maskKind ? additive.size() : byDistance.size(), T(99)),
          call.add(dmask).add(workspace);
    else if (gradient)
      call.add(dq).add(dk).add(dv).add(workspace);
    else
      call.add(out).add(lse).add(workspace);
    return call;
  }
  void forward(int threads = 1) { call(threads, false).run("attention"); }
  void backward(int threads = 1) { call(threads, true).run("attention_grad"); }
  void backwardOfMask(int64_t mask, int threads = 1) { call(threads, true, mask).run("attention_mask_grad"); }

  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t away = c.from(2) + j - (c.from(1) + i + c.wholeSize(2) - c.wholeSize(1));
    if (away < -c.left() || away > c.right() || (c.distance == 2 && !booleanByDistance[distanceAt(h, i, j)]))
      return false;
    if (c.maskKind == 2 && !boolean[maskAt(b, h, i, j)])
      return false;
    return !c.segments || segments[b * c.s.Sk + i] == segments[b * c.s.Sk + j];
  }
  size_t maskAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return static_cast<size_t>(b * c.strides[0] + h * c.strides[1] + i * c.strides[2] + j * c.strides[3]);
  }

  size_t distanceAt(int64_t h, int64_t i, int64_t j) const {
    return static_cast<size_t>(h * (c.s.Sq + c.s.Sk - 1) + j - i + c.s.Sq - 1);
  }

  /// 0, or what a probability is multiplied by: one block of Philox for each element.
  double kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!c.drops())
      return 1;
    int64_t rest = c.samples ? c.s.B / c.samples : c.s.B, sample = c.samples ? sampleBase + b / rest : 0;
    int64_t element =
        ((b % rest * c.wholeSize(0) + c.from(0) + h) * c.wholeSize(1) + c.from(1) + i) * c.wholeSize(2) + c.from(2) + j;
    uint64_t key = seed ^ dropoutKey;
    PhiloxCounter words = philox4x32({static_cast<uint32_t>(element / 4), static_cast<uint32_t>(sample), step, 2},
                                     {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    return words[element % 4] < static_cast<uint32_t>(c.p * 0x1p32) ? 0 : 1 / (1 - c.p);
  }

  std::vector<T> expected() const {
    const AttentionShape &s = c.s;
    std::vector<T> result(out.size());
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.Hq; ++h)
        for (int64_t i = 0; i < s.Sq; ++i) {
          int64_t kv = b * s.Hkv + h / (s.Hq / s.Hkv), row = (b * s.Hq + h) * s.Sq + i;
          std::vector<double> p(static_cast<size_t>(s.Sk));
          double sum = 0;
          for (int64_t j = 0; j < s.Sk; ++j) {
            double score = 0;
            for (int64_t d = 0; d < s.D; ++d)
              score += static_cast<double>(q[row * s.D + d]) * k[(kv * s.Sk + j) * s.D + d];
            score = score * c.scale + (c.maskKind == 1 ? static_cast<double>(additive[maskAt(b, h, i, j)]) : 0);
            score += c.distance == 1 ? static_cast<double>(byDistance[distanceAt(h, i, j)]) : 0;
            p[j] = visible(b, h, i, j) ? std::exp(score) : 0;
            sum += p[j];
          }
          for (int64_t d = 0; d < s.Dv; ++d) {
            double value = 0;
            for (int64_t j = 0; j < s.Sk; ++j)
              value += sum > 0 ? p[j] / sum * kept(b, h, i, j) * v[(kv * s.Sk + j) * s.Dv + d] : 0;
            result[row * s.Dv + d] = static_cast<T>(value);
          }
        }
    return result;
  }

  double objective() {
    forward();
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      sum += static_cast<double>(out[i]) * dout[i];
    return sum;
  }
};

const Case cases[] = {
    {{1, 1, 1, 1, 1, 1, 1}, false, 0, {}, false, 0.5},
    {{2, 2, 2, 5, 5, 3, 4}, false, 0, {}, false, 0.5},
    {{2, 4, 2, 6, 6, 3, 3}, true, 0, {}, false, 0.7},                    // grouped queries
    {{1, 4, 1, 3, 7, 2, 5}, true, 0, {}, false, 0.5},                    // one key-value head, fewer queries than keys
    {{1, 2, 2, 7, 3, 2, 2}, true, 0, {}, false, 0.5},                    // more queries than keys: the first see none
    {{2, 2, 1, 4, 5, 3, 2}, false, 1, {40, 20, 5, 1}, false, 0.5},       // additive, full
    {{2, 2, 2, 4, 5, 3, 2}, false, 1, {5, 0, 0, 1}, false, 0.5},         // additive, by key
    {{2, 2, 2, 4, 5, 3, 2}, false, 2, {20, 0, 5, 1}, false, 0.5},        // boolean
    {{2, 2, 2, 6, 6, 3, 2}, true, 0, {}, true, 0.5},                     // packed documents
    {{1, 2, 2, 6, 6, 3, 2}, true, 2, {0, 0, 6, 1}, true, 0.5},           // everything
    {{4, 2, 1, 5, 7, 3, 2}, false, 0, {}, false, 0.5, 0.3, 4},           // dropout, each member of the batch a sample
    {{6, 1, 1, 5, 6, 3, 2}, true, 0, {}, false, 0.5, 0.5, 2},            // heads in the batch
    {{2, 2, 2, 5, 5, 3, 2}, false, 1, {5, 0, 0, 1}, false, 0.5, 0.1, 0}, // of no sample
    {{2, 2, 1, 3, 5, 3, 2}, true, 0, {}, false, 0.5, 0.4, 2, {2, 3, 1}, {6, 9, 11}}, // a piece of larger scores
    {{2, 2, 2, 3, 5, 3, 2}, true, 0, {}, false, 0.5, 0, 0, {0, 6, 4}, {2, 9, 9}},    // without dropout
    {{2, 2, 1, 7, 7, 3, 2}, true, 0, {}, false, 0.5, 0, 0, {}, {}, {2, 0}},          // a sliding window
    {{1, 2, 2, 5, 8, 3, 2}, false, 0, {}, false, 0.5, 0, 0, {}, {}, {1, 2}},         // a local one
    {{1, 1, 1, 6, 4, 3, 2}, false, 0, {}, false, 0.5, 0, 0, {}, {}, {3, -2}},        // keys before the query alone
    {{2, 2, 1, 5, 4, 3, 2}, false, 0, {}, false, 0.5, 0, 0, {}, {}, {}, 1},          // additive, by distance
    {{2, 4, 2, 4, 5, 3, 2}, true, 2, {5, 0, 0, 1}, false, 0.5, 0.2, 2, {}, {}, {3, 0}, 1},     // with others
    {{2, 2, 2, 5, 5, 3, 2}, false, 1, {5, 0, 0, 1}, false, 0.5, 0, 0, {}, {}, {}, 2},          // i1, by distance
    {{2, 2, 2, 3, 5, 3, 2}, true, 0, {}, false, 0.5, 0.3, 2, {0, 6, 3}, {2, 9, 9}, {2, 0}, 1}, // of a piece
};

} // namespace

TEST(Attention, AgreesWithLoops) {
  for (const Case &c : cases) {
    Attention<double> one(c), three(c);
    one.forward(1);
    three.forward(3);
    EXPECT_LE(largestDifference(one.out, one.expected()), 1e-13);
    EXPECT_TRUE(sameBits(one.out, three.out) && sameBits(one.lse, three.lse));
    Attention<float> narrow(c);
    narrow.forward(2);
    EXPECT_LE(largestDifference(narrow.out, narrow.expected()), 1e-5);
  }
}

TEST(Attention, GradientAgreesWithCentralDifferences) {
  for (const Case &c : cases) {
    Attention<double> a(c);
    a.forward();
    a.backward();
    auto check = [&](std::vector<double> &parameter, const std::vector<double> &gradient) {
      for (size_t i = 0; i < parameter.size(); ++i) {
        double saved = parameter[i], h = 1e-5;
        parameter[i] = saved + h;
        double up = a.objective();
        parameter[i] = saved - h;
        double down = a.objective();
        parameter[i] = saved;
        ASSERT_NEAR(gradient[i], (up - down) / (2 * h), 1e-8);
      }
    };
    check(a.q, a.dq);
    check(a.k, a.dk);
    check(a.v, a.dv);
    if (c.maskKind == 1)
      a.forward(), a.backwardOfMask(0), check(a.additive, a.dmask);
    if (c.distance == 1)
      a.forward(), a.backwardOfMask(a.masks() - 1), check(a.byDistance, a.dmask);
  }
}

// A window that starts and ends inside blocks of rows and tiles of keys computes what a mask written out does; the
// gradient of a mask does not depend on the threads.
TEST(Attention, WindowsSkipKeys) {
  Case c{{1, 2, 1, 700, 700, 4, 4}, true, 0, {}, false, 0.5, 0, 0, {}, {}, {37, 0}, 1}, written = c;
  written.causal = false, written.window = {}, written.maskKind = 1;
  written.strides[2] = 700, written.strides[3] = 1;
  Attention<double> a(c), b(written);
  for (int64_t i = 0; i < 700; ++i)
    for (int64_t j = 0; j < 700; ++j)
      b.additive[static_cast<size_t>(i * 700 + j)] = j <= i && j >= i - 37 ? 0 : -INFINITY;
  a.forward(2), a.backward(3), a.backwardOfMask(0, 2);
  b.forward(), b.backward(), b.backwardOfMask(1);
  EXPECT_LE(largestDifference(a.out, b.out), 1e-13);
  EXPECT_LE(largestDifference(a.dq, b.dq), 1e-13);
  EXPECT_LE(largestDifference(a.dk, b.dk), 1e-13);
  EXPECT_LE(largestDifference(a.dv, b.dv), 1e-13);
  EXPECT_LE(largestDifference(a.dmask, b.dmask), 1e-12);
  std::vector<double> dmask = a.dmask;
  a.backwardOfMask(0, 1);
  EXPECT_TRUE(sameBits(dmask, a.dmask));
}

// Several blocks of rows and tiles of keys, a causal limit inside them, and the number of threads: by key-value heads
// (fours of them for three threads are not even) and by blocks.
TEST(Attention, BlocksAndThreads) {
  for (const Case &c : {Case{{2, 4, 2, 150, 170, 8, 8}, true, 0, {}, false, 0.35, 0.1, 2},
                        Case{{1, 2, 1, 150, 600, 8, 6}, true, 0, {}, false, 0.35},
                        Case{{3, 1, 1, 100, 300, 4, 4}, false, 0, {}, false, 0.35, 0.5, 3}}) {
    Attention<float> one(c);
    one.forward(1);
    EXPECT_LE(largestDifference(one.out, one.expected()), 1e-5);
    one.backward(1);
    for (int threads : {2, 3, 4}) {
      Attention<float> several(c);
      several.forward(threads);
      several.backward(threads);
      EXPECT_TRUE(sameBits(one.out, several.out) && sameBits(one.dq, several.dq) && sameBits(one.dk, several.dk) &&
                  sameBits(one.dv, several.dv));
    }
    Attention<double> wide(c);
    wide.forward(3);
    wide.backward(3);
    EXPECT_LE(largestDifference(one.dq, std::vector<float>(wide.dq.begin(), wide.dq.end())), 1e-4);
    EXPECT_LE(largestDifference(one.dk, std::vector<float>(wide.dk.begin(), wide.dk.end())), 1e-4);
    EXPECT_LE(largestDifference(one.dv, std::vector<float>(wide.dv.begin(), wide.dv.end())), 1e-4);
  }
}

/// `buffer` of a call as elements of `type`; false: as many that are to be written.
static void narrowBuffer(LibraryCall &call, size_t buffer, DType type, std::vector<std::vector<char>> &owned) {
  auto *from = reinterpret_cast<const float *>(call.pointers[buffer]);
  size_t count = call.lengths[buffer] / sizeof(float);
  std::vector<char> &bytes = owned.emplace_back(count * 2);
  for (size_t i = 0; i < count; ++i)
    storeElement(type, bytes.data(), static_cast<int64_t>(i), from[i]);
  call.pointers[buffer] = bytes.data();
  call.lengths[buffer] = bytes.size();
  call.types.resize(std::max(call.types.size(), buffer + 1), DType::f32);
  call.types[buffer] = type;
}

static void roundAll(DType type, std::vector<float> &values) {
  for (float &value : values) {
    char bytes[2];
    storeElement(type, bytes, 0, value);
    value = static_cast<float>(loadElement(type, bytes, 0));
  }
}

/// Operands of 16 bits against the f32 functions on what they hold: those round more sums of theirs alike.
static void checkNarrow(const Case &c, DType type, bool narrowMasks, bool bf16Dot) {
  SCOPED_TRACE(std::string(dtypeName(type)) + (bf16Dot ? " natively" : ""));
  Attention<float> a(c);
  for (auto *values : {&a.q, &a.k, &a.v, &a.dout})
    roundAll(type, *values);
  if (narrowMasks)
    roundAll(type, a.additive), roundAll(type, a.byDistance);
  bool firstMask = c.maskKind == 1, secondMask = c.distance == 1;
  auto run = [&](const char *name, bool gradient, int64_t mask, int threads, std::vector<std::vector<char>> &owned) {
    Attention<float> here = a; // its buffers
    here.narrow = type;
    LibraryCall call = here.call(threads, gradient, mask);
    call.bf16Dot = bf16Dot;
    size_t count = call.pointers.size(), masksFrom = gradient ? 6 : 3;
    owned.reserve(16);
    for (size_t i : {0, 1, 2})
      narrowBuffer(call, i, type, owned);
    if (gradient)
      narrowBuffer(call, 3, type, owned), narrowBuffer(call, 5, type, owned);
    if (narrowMasks && firstMask)
      narrowBuffer(call, masksFrom, type, owned);
    if (narrowMasks && secondMask)
      narrowBuffer(call, masksFrom + (c.maskKind != 0), type, owned);
    size_t results = owned.size();
    if (mask < 0)
      for (size_t i = 0; i < (gradient ? 3 : 1); ++i)
        narrowBuffer(call, count - (gradient ? 4 : 3) + i, type, owned);
    call.run(name);
    if (mask >= 0)
      owned.emplace_back(reinterpret_cast<char *>(here.dmask.data()),
                         reinterpret_cast<char *>(here.dmask.data() + here.dmask.size()));
    if (!gradient)
      owned.emplace_back(reinterpret_cast<char *>(here.lse.data()),
                         reinterpret_cast<char *>(here.lse.data() + here.lse.size()));
    owned.erase(owned.begin(), owned.begin() + static_cast<std::ptrdiff_t>(results));
  };
  auto compare = [&](const std::vector<char> &found, DType of, const std::vector<float> &expected) {
    ASSERT_EQ(found.size(), expected.size() * static_cast<size_t>(elementBytes(of)));
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::abs(loadElement(of, found.data(), static_cast<int64_t>(i)) - expected[i]),
                1e-4 + (of == DType::f32 ? 0 : epsilonOf(of)) * std::abs(expected[i]))
          << i;
  };
  std::vector<std::vector<char>> one, two;
  run("attention", false, -1, 1, one);
  run("attention", false, -1, 3, two);
  EXPECT_EQ(one, two);
  a.forward();
  compare(one[0], type, a.out);
  compare(one[1], DType::f32, a.lse);
  roundAll(type, a.out);
  one.clear(), two.clear();
  run("attention_grad", true, -1, 1, one);
  run("attention_grad", true, -1, 3, two);
  EXPECT_EQ(one, two);
  a.backward();
  compare(one[0], type, a.dq);
  compare(one[1], type, a.dk);
  compare(one[2], type, a.dv);
  for (int64_t mask = 0; mask < a.masks(); ++mask) {
    if (!(mask == 0 && c.maskKind ? firstMask : secondMask))
      continue;
    one.clear();
    run("attention_mask_grad", true, mask, 2, one);
    a.backwardOfMask(mask);
    compare(one[0], DType::f32, a.dmask);
  }
}

TEST(Attention, NarrowOperandsAreComputedInFloat) {
  std::vector<Case> all(std::begin(cases), std::end(cases));
  all.push_back({{2, 4, 2, 150, 170, 72, 40}, true, 0, {}, false, 0.15, 0.1, 2}); // blocks of rows and of panels,
  all.push_back({{1, 2, 1, 150, 600, 8, 6}, true, 0, {}, false, 0.35});           // tiles of keys
  for (const Case &c : all)
    for (bool narrowMasks : {false, true}) {
      checkNarrow(c, DType::bf16, narrowMasks, false);
      checkNarrow(c, DType::f16, narrowMasks, false);
      if (hasBf16Dot())
        checkNarrow(c, DType::bf16, narrowMasks, true);
    }
}

// Several blocks of draws in a row, begun anywhere in a block of Philox.
TEST(Attention, DropsWhatTheDrawsSay) {
  Case c{{2, 1, 1, 3, 1501, 2, 1501}, false, 0, {}, false, 0.35, 0.25, 2};
  Attention<float> a(c);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t j = 0; j < c.s.Sk; ++j)
      for (int64_t d = 0; d < c.s.Dv; ++d)
        a.v[(b * c.s.Sk + j) * c.s.Dv + d] = j == d;
  a.forward(2);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < c.s.Sk; ++j)
        ASSERT_EQ(a.out[(b * 3 + i) * c.s.Dv + j] != 0, a.kept(b, 0, i, j) != 0);
}

// A piece of the queries, heads or keys draws and sees what the whole does there.
TEST(Attention, PiecesDrawWhatTheWholeDraws) {
  Case c{{2, 4, 4, 6, 6, 3, 2}, true, 0, {}, false, 0.5, 0.3, 2};
  Attention<double> whole(c);
  whole.forward();
  Case half = c;
  half.s.Hq = half.s.Hkv = 2, half.s.Sq = 3;
  half.origin = {2, 3, 0};
  half.whole[0] = 4, half.whole[1] = half.whole[2] = 6;
  Attention<double> piece(half);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h) {
      int64_t from = b * 4 + 2 + h, to = b * 2 + h;
      std::copy_n(&whole.q[(from * 6 + 3) * 3], 3 * 3, &piece.q[to * 3 * 3]);
      std::copy_n(&whole.k[from * 6 * 3], 6 * 3, &piece.k[to * 6 * 3]);
      std::copy_n(&whole.v[from * 6 * 2], 6 * 2, &piece.v[to * 6 * 2]);
    }
  piece.forward();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t e = 0; e < 3 * 2; ++e)
        EXPECT_NEAR(piece.out[(b * 2 + h) * 6 + e], whole.out[((b * 4 + 2 + h) * 6 + 3) * 2 + e], 1e-14);
}

// Trap 22: a row whose keys are all masked is 0, adds no gradient, and nothing is infinite.
TEST(Attention, FullyMaskedRows) {
  Case c{{1, 1, 1, 3, 3, 2, 2}, false, 2, {0, 0, 3, 1}, false, 0.5};
  Attention<double> a(c);
  a.boolean = {1, 1, 0, 0, 0, 0, 0, 1, 1};
  a.forward();
  a.backward();
  EXPECT_EQ(a.out[2], 0);
  EXPECT_EQ(a.out[3], 0);
  EXPECT_EQ(a.lse[1], 0);
  EXPECT_EQ(a.dq[2], 0);
  EXPECT_EQ(a.dq[3], 0);
  for (auto *values : {&a.out, &a.dq, &a.dk, &a.dv})
    for (double value : *values)
      EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, AdditiveMaskOfInfinityMasks) {
  Case c{{1, 1, 1, 2, 2, 2, 2}, false, 1, {0, 0, 2, 1}, false, 0.5};
  Attention<float> a(c);
  a.additive = {0, -INFINITY, -INFINITY, -INFINITY};
  a.forward();
  EXPECT_EQ(a.out[0], a.v[0]);
  EXPECT_EQ(a.out[2], 0);
}

TEST(Attention, NanIsNotHidden) {
  Attention<float> a(cases[1]);
  for (float &value : a.q)
    value = NAN;
  a.forward();
  EXPECT_TRUE(std::isnan(a.out[0]));
}

TEST(Attention, RejectsBadArguments) {
  Attention<double> a(cases[2]);
  LibraryCall call = a.call(1, false);
  EXPECT_EQ(call.verify("attention"), "");
  call.ints[2] = 3;
  EXPECT_EQ(call.verify("attention"), "attention: key-value heads do not divide the query heads");
  call.ints[2] = 2;
  AttentionCall &ints = *reinterpret_cast<AttentionCall *>(call.ints.data());
  ints.shape.Sq = ints.whole[1] = 7;
  EXPECT_EQ(call.verify("attention"), "attention: q needs 1344 bytes, found 1152");
  ints.shape.Sq = ints.whole[1] = 6;
  ints.hasSegments = 1;
  EXPECT_EQ(call.verify("attention"), "attention: takes 7 buffers, 19 integers and 2 floats, found 6, 19 and 2");
  ints.hasSegments = 0;
  ints.samples = 3;
  EXPECT_EQ(call.verify("attention"), "attention: samples is 3, expected 0 to 2");
  ints.samples = 0;
  ints.whole[1] = 5;
  EXPECT_EQ(call.verify("attention"), "attention: wholeQueries is 5, expected 6 to 268435456");
  ints.whole[1] = 6;
  ints.masks = 1;
  EXPECT_EQ(call.verify("attention"), "attention: the integers are not those of as many masks as they say");
  Attention<double> b({{1, 1, 1, 4, 5, 2, 2}, false, 0, {}, false, 0.5, 0, 0, {}, {}, {}, 2});
  call = b.call(1, false);
  EXPECT_EQ(call.verify("attention"), "");
  reinterpret_cast<AttentionMask *>(&call.ints[attentionCallInts])->offset = 2;
  EXPECT_EQ(call.verify("attention"), "attention: a mask is neither added nor i1, or starts before its elements");
  call = b.call(1, true, 0);
  EXPECT_EQ(call.verify("attention_mask_grad"), "attention_mask_grad: an i1 mask has no gradient");
}
