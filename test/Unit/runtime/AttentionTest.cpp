// Attention against loops, and its gradient against central differences, over heads, masks and segments.
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
};

template <typename T> struct Attention {
  Case c;
  std::vector<T> q, k, v, out, lse, dout, dq, dk, dv, additive;
  std::vector<char> boolean, workspace;
  std::vector<int64_t> segments;

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
    for (int64_t i = 0; i < c.s.B * c.s.Sk; ++i)
      segments.push_back(i % c.s.Sk * 3 / c.s.Sk);
  }

  LibraryCall call(int threads, bool gradient) {
    LibraryCall call;
    call.dtype = dtypeOf<T>;
    call.threads = threads;
    const AttentionShape &s = c.s;
    call.ints = {s.B,      s.Hq,       s.Hkv,        s.Sq,         s.Sk,         s.D,          s.Dv,
                 c.causal, c.maskKind, c.strides[0], c.strides[1], c.strides[2], c.strides[3], c.segments};
    call.floats = {c.scale};
    call.add(q).add(k).add(v);
    if (gradient)
      call.add(out).add(lse).add(dout);
    if (c.maskKind == 1)
      call.add(additive);
    if (c.maskKind == 2)
      call.add(boolean);
    if (c.segments)
      call.add(segments);
    workspace.assign(static_cast<size_t>(gradient ? attentionGradWorkspaceBytes(s, sizeof(T), 4)
                                                  : attentionWorkspaceBytes(s, sizeof(T), 4)),
                     0);
    if (gradient)
      call.add(dq).add(dk).add(dv).add(workspace);
    else
      call.add(out).add(lse).add(workspace);
    return call;
  }
  void forward(int threads = 1) { call(threads, false).run("attention"); }
  void backward(int threads = 1) { call(threads, true).run("attention_grad"); }

  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (c.causal && j > i + c.s.Sk - c.s.Sq)
      return false;
    if (c.maskKind == 2 && !boolean[maskAt(b, h, i, j)])
      return false;
    return !c.segments || segments[b * c.s.Sk + i] == segments[b * c.s.Sk + j];
  }
  size_t maskAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return static_cast<size_t>(b * c.strides[0] + h * c.strides[1] + i * c.strides[2] + j * c.strides[3]);
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
            p[j] = visible(b, h, i, j) ? std::exp(score) : 0;
            sum += p[j];
          }
          for (int64_t d = 0; d < s.Dv; ++d) {
            double value = 0;
            for (int64_t j = 0; j < s.Sk; ++j)
              value += sum > 0 ? p[j] / sum * v[(kv * s.Sk + j) * s.Dv + d] : 0;
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
    {{2, 4, 2, 6, 6, 3, 3}, true, 0, {}, false, 0.7},              // grouped queries
    {{1, 4, 1, 3, 7, 2, 5}, true, 0, {}, false, 0.5},              // one key-value head, fewer queries than keys
    {{1, 2, 2, 7, 3, 2, 2}, true, 0, {}, false, 0.5},              // more queries than keys: the first see none
    {{2, 2, 1, 4, 5, 3, 2}, false, 1, {40, 20, 5, 1}, false, 0.5}, // additive, full
    {{2, 2, 2, 4, 5, 3, 2}, false, 1, {5, 0, 0, 1}, false, 0.5},   // additive, by key
    {{2, 2, 2, 4, 5, 3, 2}, false, 2, {20, 0, 5, 1}, false, 0.5},  // boolean
    {{2, 2, 2, 6, 6, 3, 2}, true, 0, {}, true, 0.5},               // packed documents
    {{1, 2, 2, 6, 6, 3, 2}, true, 2, {0, 0, 6, 1}, true, 0.5},     // everything
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
  }
}

// Several blocks of rows, a causal limit inside them, and the number of threads.
TEST(Attention, BlocksAndThreads) {
  Case c{{2, 4, 2, 150, 170, 8, 8}, true, 0, {}, false, 0.35};
  Attention<float> one(c), three(c);
  one.forward(1), three.forward(3);
  EXPECT_LE(largestDifference(one.out, one.expected()), 1e-5);
  one.backward(1), three.backward(3);
  EXPECT_TRUE(sameBits(one.out, three.out) && sameBits(one.dq, three.dq) && sameBits(one.dk, three.dk) &&
              sameBits(one.dv, three.dv));
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
  call.ints[3] = 7;
  EXPECT_EQ(call.verify("attention"), "attention: q needs 1344 bytes, found 1152");
  call.ints[3] = 6;
  call.ints[13] = 1;
  EXPECT_EQ(call.verify("attention"), "attention: takes 7 buffers, 14 integers and 1 floats, found 6, 14 and 1");
}
