// What to keep: the minimum cut against exhaustive search, the prices' family against the exact frontier of bytes and
// seconds on graphs of well-known models, and the grouping of blocks.
#include "scrimp/Planner/Rematerialization.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace mlir::scrimp::planner;

static std::string message(llvm::Error error) { return error ? llvm::toString(std::move(error)) : ""; }

static RematProblem randomProblem(unsigned seed, int count) {
  std::mt19937 random(seed);
  RematProblem problem;
  for (int o = 0; o < count; ++o) {
    RematProblem::Op op{double(random() % 8), random() % 6 != 0, {}};
    for (int reads = random() % 3; reads > 0 && !problem.values.empty(); --reads)
      op.reads.push_back(random() % problem.values.size());
    problem.ops.push_back(op);
    for (int results = 1 + random() % 4 / 3; results > 0; --results)
      problem.values.push_back({unsigned(o), double(random() % 9), random() % 2 == 0});
  }
  return problem;
}

/// What must be kept if exactly these ops are repeated; none if one may not be.
static std::optional<RematChoice> complete(const RematProblem &problem, unsigned repeated) {
  RematChoice choice{llvm::BitVector(problem.values.size()), llvm::BitVector(problem.ops.size())};
  auto need = [&](unsigned v) {
    if (!(repeated >> problem.values[v].op & 1))
      choice.kept.set(v);
  };
  for (unsigned o = 0; o < problem.ops.size(); ++o) {
    if (!(repeated >> o & 1))
      continue;
    if (!problem.ops[o].mayRepeat)
      return std::nullopt;
    choice.repeated.set(o);
    for (unsigned v : problem.ops[o].reads)
      need(v);
  }
  for (unsigned v = 0; v < problem.values.size(); ++v)
    if (problem.values[v].required)
      need(v);
  return choice;
}

TEST(Rematerialization, RejectsBadInput) {
  EXPECT_EQ(message(checkProblem(RematProblem{{{1, true, {}}}, {{0, 8, true}}})), "");
  EXPECT_EQ(message(checkProblem(RematProblem{{{1, true, {0}}}, {{0, 8, true}}})),
            "op 0 reads value 0, which no earlier op gives");
  EXPECT_EQ(message(checkProblem(RematProblem{{{-1, true, {}}}, {}})), "op 0 takes negative time");
  EXPECT_EQ(message(checkProblem(RematProblem{{}, {{0, 8, true}}})), "value 0 is given by op 0 of 0");
}

TEST(Rematerialization, JudgeFindsFaults) {
  // 0 -> 1 -> 2, value 2 required.
  RematProblem problem{{{1, true, {}}, {1, true, {0}}, {1, false, {1}}}, {{0, 8, false}, {1, 8, false}, {2, 8, true}}};
  auto judge = [&](unsigned kept, unsigned repeated) {
    RematChoice choice{llvm::BitVector(3), llvm::BitVector(3)};
    for (unsigned i = 0; i < 3; ++i)
      choice.kept[i] = kept >> i & 1, choice.repeated[i] = repeated >> i & 1;
    return message(verify(problem, choice));
  };
  EXPECT_EQ(judge(4, 0), "");
  EXPECT_EQ(judge(0, 0), "value 2 is required, but neither kept nor computed again");
  EXPECT_EQ(judge(2, 4), "op 2 may not be computed again");
  EXPECT_EQ(judge(4, 2), "op 1 is computed again, but value 0 is neither kept nor computed again");
}

TEST(Rematerialization, CutIsTheOptimum) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    RematProblem problem = randomProblem(seed, 10);
    ASSERT_EQ(message(checkProblem(problem)), "");
    for (double price : {0.0, 0.3, 1.0, 2.5, std::numeric_limits<double>::infinity()}) {
      RematChoice found = chooseKept(problem, price);
      ASSERT_EQ(message(verify(problem, found)), "") << "seed " << seed << " price " << price;
      // Infinite: bytes decide, then seconds.
      double perByte = std::isinf(price) ? 1e6 : price, best = std::numeric_limits<double>::infinity();
      for (unsigned repeated = 0; repeated < 1u << problem.ops.size(); ++repeated)
        if (auto choice = complete(problem, repeated))
          best = std::min(best, perByte * choice->getBytes(problem) + choice->getSeconds(problem));
      EXPECT_NEAR(perByte * found.getBytes(problem) + found.getSeconds(problem), best, 1e-6)
          << "seed " << seed << " price " << price;
    }
  }
}

TEST(Rematerialization, OfEqualCostsFewestOps) {
  // x -> y -> z of one size, z required, y and z cost no time: z is kept, not x or y.
  RematProblem problem{{{0, false, {}}, {0, true, {0}}, {0, true, {1}}}, {{0, 8, false}, {1, 8, false}, {2, 8, true}}};
  RematChoice choice = chooseKept(problem, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(choice.kept.test(2));
  EXPECT_EQ(choice.repeated.count(), 0u);
}

//===-- The family of prices on models ---------------------------------------------------------------------------===//

namespace {
/// Contracted models: an op is a convolution, a product, or a chain of what follows it.
class Model {
public:
  /// An op that reads `reads`; returns its value. FLOPs per byte of its result say what it costs.
  unsigned op(double seconds, double bytes, llvm::ArrayRef<unsigned> reads, bool required = true) {
    problem.ops.push_back({seconds, true, llvm::SmallVector<unsigned>(reads)});
    problem.values.push_back({unsigned(problem.ops.size() - 1), bytes, required});
    forward += seconds;
    return problem.values.size() - 1;
  }

  RematProblem problem;
  double forward = 0;
};

/// The least seconds for every number of bytes: exact, by dynamic programming over the ops from last to first. A state
/// is which values of earlier ops are needed.
std::vector<std::pair<double, double>> exactFrontier(const RematProblem &problem) {
  using Front = std::map<double, double>; // bytes -> seconds, falling
  auto add = [](Front &front, double bytes, double seconds) {
    auto it = front.upper_bound(bytes);
    if (it != front.begin() && std::prev(it)->second <= seconds)
      return;
    while (it != front.end() && it->second >= seconds)
      it = front.erase(it);
    front[bytes] = seconds;
  };
  uint64_t required = 0;
  for (unsigned v = 0; v < problem.values.size(); ++v) {
    EXPECT_EQ(problem.values[v].op, v) << "one value an op";
    required |= uint64_t(problem.values[v].required) << v;
  }
  std::map<uint64_t, Front> states{{required, {{0, 0}}}};
  for (unsigned o = problem.ops.size(); o-- > 0;) {
    std::map<uint64_t, Front> next;
    uint64_t reads = 0;
    for (unsigned v : problem.ops[o].reads)
      reads |= uint64_t(1) << v;
    for (auto &[needed, front] : states)
      for (auto [bytes, seconds] : front) {
        if (!(needed >> o & 1)) {
          add(next[needed], bytes, seconds);
          continue;
        }
        uint64_t rest = needed & ~(uint64_t(1) << o);
        add(next[rest], bytes + problem.values[o].bytes, seconds);
        if (problem.ops[o].mayRepeat)
          add(next[rest | reads], bytes, seconds + problem.ops[o].seconds);
      }
    states = std::move(next);
  }
  EXPECT_EQ(states.size(), 1u);
  const Front &front = states.begin()->second;
  return {front.begin(), front.end()};
}

/// 4 layers: norm, qkv, attention, projection with sum, norm, up, gelu, down with sum. Width 1, batch x sequence 1.
Model gpt() {
  Model m;
  unsigned x = m.op(.1, 2, {});
  for (int layer = 0; layer < 4; ++layer) {
    unsigned norm = m.op(.2, 2, {x}), qkv = m.op(6, 6, {norm}), attention = m.op(2, 2, {qkv});
    unsigned middle = m.op(2, 2, {attention, x}), second = m.op(.2, 2, {middle}), up = m.op(8, 8, {second});
    unsigned gelu = m.op(.4, 8, {up});
    x = m.op(8, 2, {gelu, middle});
  }
  return m;
}

Model vgg16() {
  Model m;
  unsigned x = m.op(.01, .6, {}, false);
  double side = 224, in = 3;
  for (auto [out, times] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < times; ++i, in = out)
      x = m.op(18e-9 * side * side * in * out, side * side * out * 4e-6, {x});
    side /= 2;
    x = m.op(4e-9 * side * side * out, side * side * out * 4e-6, {x});
  }
  for (double width : {4096, 4096, 1000})
    x = m.op(.1, width * 4e-6, {x});
  return m;
}

/// Depthwise and pointwise convolutions, each with its norm.
Model mobileNet() {
  Model m;
  double side = 112, width = 32;
  unsigned x = m.op(18e-9 * side * side * 3 * 32, side * side * 32 * 4e-6, {});
  for (auto [out, stride] : {std::pair{64, 1},
                             {128, 2},
                             {128, 1},
                             {256, 2},
                             {256, 1},
                             {512, 2},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {1024, 2},
                             {1024, 1}}) {
    side /= stride;
    unsigned depth = m.op(18e-9 * side * side * width * 4, side * side * width * 4e-6, {x});
    x = m.op(2e-9 * side * side * width * out, side * side * out * 4e-6, {depth});
    width = out;
  }
  m.op(.01, .004, {x});
  return m;
}

Model uNet() {
  Model m;
  double side = 256, width = 32;
  std::vector<unsigned> skips;
  auto conv = [&](llvm::ArrayRef<unsigned> reads, double in, double out) {
    return m.op(18e-9 * side * side * in * out, side * side * out * 4e-6, reads);
  };
  unsigned x = conv({}, 3, width);
  for (int level = 0; level < 4; ++level) {
    x = conv({x}, width, width);
    skips.push_back(x);
    side /= 2;
    x = m.op(1e-9 * side * side * width, side * side * width * 4e-6, {x});
    x = conv({x}, width, 2 * width);
    width *= 2;
  }
  for (int level = 4; level-- > 0;) {
    side *= 2;
    x = m.op(2e-9 * side * side * width * width, side * side * width * 2e-6, {x});
    width /= 2;
    x = conv({x, skips[level]}, 2 * width, width);
    x = conv({x}, width, width);
  }
  return m;
}
} // namespace

/// At budgets from 90 to 40% of all bytes the whole step (forward, twice as much backward, and what is computed again)
/// takes at most 1.05 times the least possible.
static void checkFamily(const char *name, const Model &model) {
  ASSERT_LE(model.problem.ops.size(), 40u);
  RematProblem weighed = model.problem;
  preferEarliest(weighed);
  std::vector<std::pair<double, double>> family;
  double last = -1, weighedBytes = chooseKept(weighed, 0).getBytes(weighed);
  for (double price : findPrices(weighed, 64)) {
    EXPECT_GT(price, last) << name;
    last = price;
    RematChoice choice = chooseKept(weighed, price);
    ASSERT_EQ(message(verify(model.problem, choice)), "");
    double bytes = choice.getBytes(model.problem), seconds = choice.getSeconds(model.problem);
    if (!family.empty()) {
      EXPECT_LE(bytes, family.back().first) << name << ": a higher price keeps more";
    }
    EXPECT_LT(choice.getBytes(weighed), weighedBytes) << name << ": a price that changes nothing";
    weighedBytes = choice.getBytes(weighed);
    family.emplace_back(bytes, seconds);
  }
  EXPECT_TRUE(std::isinf(last)) << name << ": no price asks for the fewest bytes";
  family.emplace_back(chooseKept(weighed, 0).getBytes(model.problem), 0);
  auto exact = exactFrontier(model.problem);
  double all = exact.back().first;
  auto cheapest = [](llvm::ArrayRef<std::pair<double, double>> points, double budget) {
    double least = std::numeric_limits<double>::infinity();
    for (auto [bytes, seconds] : points)
      if (bytes <= budget + 1e-9)
        least = std::min(least, seconds);
    return least;
  };
  for (double part = .9; part > .39; part -= .05) {
    double found = cheapest(family, part * all), least = cheapest(exact, part * all);
    if (std::isinf(least))
      continue;
    EXPECT_LE((3 * model.forward + found) / (3 * model.forward + least), 1.05)
        << name << " at " << part << ": " << found << " seconds, " << least << " suffice";
  }
}

TEST(Rematerialization, FamilyIsNearTheOptimum) {
  checkFamily("GPT", gpt());
  checkFamily("VGG16", vgg16());
  checkFamily("MobileNet", mobileNet());
  checkFamily("U-Net", uNet());
}

TEST(Rematerialization, TimeIsLinearInRepeatedBlocks) {
  // A thousand layers of nine ops: the cut of one layer is found as fast in a deep model as in a shallow one.
  auto seconds = [](int layers) {
    RematProblem problem;
    auto op = [&](double seconds, double bytes, llvm::ArrayRef<unsigned> reads) {
      problem.ops.push_back({seconds, true, llvm::SmallVector<unsigned>(reads)});
      problem.values.push_back({unsigned(problem.ops.size() - 1), bytes, true});
      return unsigned(problem.values.size() - 1);
    };
    unsigned x = op(1, 2, {});
    for (int layer = 0; layer < layers; ++layer) {
      unsigned norm = op(.2, 2, {x}), up = op(8, 8, {norm}), gelu = op(.4, 8, {up});
      x = op(8, 2, {gelu, x});
    }
    std::clock_t begin = std::clock();
    for (double price : {.01, .1, 1., 10.})
      EXPECT_EQ(message(verify(problem, chooseKept(problem, price))), "");
    return double(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  double shallow = seconds(250), deep = seconds(1000);
  EXPECT_LE(deep, 4 * 4 * shallow + .5); // a factor of 4 for noise
}

//===-- Blocks ---------------------------------------------------------------------------------------------------===//

static int64_t costOf(llvm::ArrayRef<int64_t> inputs, llvm::ArrayRef<int64_t> inside, llvm::ArrayRef<unsigned> starts) {
  int64_t kept = 0, largest = 0;
  for (size_t g = 0; g < starts.size(); ++g) {
    size_t end = g + 1 < starts.size() ? starts[g + 1] : inputs.size();
    int64_t size = 0;
    for (size_t i = starts[g]; i < end; ++i)
      size += inside[i] + (i > starts[g] ? inputs[i] : 0);
    kept += inputs[starts[g]];
    largest = std::max(largest, size);
  }
  return kept + largest;
}

TEST(Rematerialization, GroupsOfBlocks) {
  // Few layers: each by itself. 2 * 4 kept + 32 is less than 2 * 2 + 66.
  EXPECT_EQ(groupBlocks({2, 2, 2, 2}, {32, 32, 32, 32}), (std::vector<unsigned>{0, 1, 2, 3}));
  // Blocks that hold no more than their input, say single layers: 3 groups of 3, as of the square root.
  EXPECT_EQ(groupBlocks(std::vector<int64_t>(9, 8), std::vector<int64_t>(9, 0)), (std::vector<unsigned>{0, 3, 6}));
  EXPECT_EQ(groupBlocks({}, {}), std::vector<unsigned>());
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> inputs, inside;
    for (int i = 0; i < 8; ++i) {
      inputs.push_back(random() % 10);
      inside.push_back(random() % 30);
    }
    int64_t best = std::numeric_limits<int64_t>::max();
    for (unsigned set = 0; set < 128; ++set) {
      std::vector<unsigned> starts{0};
      for (unsigned i = 1; i < 8; ++i)
        if (set >> (i - 1) & 1)
          starts.push_back(i);
      best = std::min(best, costOf(inputs, inside, starts));
    }
    EXPECT_LE(costOf(inputs, inside, groupBlocks(inputs, inside)), 1.05 * best + 1);
  }
}
