// Training steps of many ranks, all in this process: whatever they share out, they learn what one process learns.
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
constexpr int64_t kBatch = 24, // which neither 5 nor 7 divide
    kSteps = 10;
using Values = std::vector<double>;

// A masked mean over samples, dropout, a parameter of two blocks, a frozen one, one that is part of the loss itself,
// and blocks whose sizes no number of ranks divides. Of the samples from 9 to 17, which are all that rank 1 of 3 has,
// none counts.
const char *const kModel = R"(
func.func @main(%x: tensor<24x4xT> {scrimp.name = "x", scrimp.input = 0 : i64},
                %m: tensor<24xT> {scrimp.name = "m", scrimp.input = 0 : i64},
                %a: tensor<4x5xT> {scrimp.name = "h.0.a", scrimp.param = "trainable"},
                %b: tensor<5xT> {scrimp.name = "h.0.b", scrimp.param = "trainable"},
                %t: tensor<5x5xT> {scrimp.name = "h.1.t", scrimp.param = "trainable"},
                %f: tensor<5xT> {scrimp.name = "h.1.f", scrimp.param = "frozen"},
                %w: tensor<5x7xT> {scrimp.name = "head", scrimp.param = "trainable"},
                %seed: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"},
                %step: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"},
                %base: tensor<i64> {scrimp.name = "sample_base", scrimp.scalar = "sample_base"})
    -> (tensor<T> {scrimp.output = "loss"}) {
  %0 = scrimp.matmul %x, %a : tensor<24x4xT>, tensor<4x5xT> -> tensor<24x5xT>
  %1 = scrimp.broadcast %b : tensor<5xT> -> tensor<24x5xT>
  %2 = scrimp.add %0, %1 : tensor<24x5xT>
  %3 = scrimp.tanh %2 : tensor<24x5xT>
  %4 = scrimp.dropout %3, %seed, %step, %base {key = 7 : i64, batch_dim = 0 : i64, samples = 24 : i64, p = 0.25 : f64} : tensor<24x5xT>
  %5 = scrimp.matmul %4, %t : tensor<24x5xT>, tensor<5x5xT> -> tensor<24x5xT>
  %6 = scrimp.tanh %5 : tensor<24x5xT>
  %7 = scrimp.broadcast %f : tensor<5xT> -> tensor<24x5xT>
  %8 = scrimp.mul %6, %7 : tensor<24x5xT>
  %9 = scrimp.matmul %8, %t : tensor<24x5xT>, tensor<5x5xT> -> tensor<24x5xT>
  %10 = scrimp.matmul %9, %w : tensor<24x5xT>, tensor<5x7xT> -> tensor<24x7xT>
  %11 = scrimp.mul %10, %10 : tensor<24x7xT>
  %12 = scrimp.reduce sum, %11 [1] : tensor<24x7xT> -> tensor<24xT>
  %13 = scrimp.mul %12, %m : tensor<24xT>
  %n = scrimp.reduce sum, %13 [0] : tensor<24xT> -> tensor<T>
  %d = scrimp.reduce sum, %m [0] : tensor<24xT> -> tensor<T>
  %mean = scrimp.div %n, %d : tensor<T>
  %bb = scrimp.mul %b, %b : tensor<5xT>
  %penalty = scrimp.reduce sum, %bb [0] : tensor<5xT> -> tensor<T>
  %loss = scrimp.add %mean, %penalty : tensor<T>
  return %loss : tensor<T>
})";

struct Config {
  int64_t world = 1;
  std::string optimizer = "kind=adamw no-decay=1d";
  std::string type = "f64";
  std::string precision = {}; // of scrimp-mixed-precision
  int64_t microBatches = 1;
  std::string remat = {}; // policy
};

/// What all ranks know after some steps.
struct Learned {
  std::map<std::string, Values> tensors;
  double loss = 0, norm = 0;
};

class RanksOfTraining {
public:
  explicit RanksOfTraining(const Config &config) : config(config), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<ScrimpDialect, func::FuncDialect>();
    std::string text = kModel;
    for (size_t at; (at = text.find("xT>")) != std::string::npos;)
      text.replace(at + 1, 1, config.type);
    for (size_t at; (at = text.find("<T>")) != std::string::npos;)
      text.replace(at + 1, 1, config.type);
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    PassManager passes(&context);
    addPass(passes, createMaskEval(), "world=" + std::to_string(config.world));
    passes.addPass(createAutodiff());
    addPass(passes, createPartition(), "world=" + std::to_string(config.world));
    if (!config.precision.empty())
      addPass(passes, createMixedPrecision(), config.precision);
    addPass(passes, createOptimizer(), config.optimizer + " world=" + std::to_string(config.world));
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    addPass(passes, createSplitBatch(), "micro-batches=" + std::to_string(config.microBatches));
    if (!config.remat.empty())
      addPass(passes, createRematerialize(), "policy=" + config.remat);
    EXPECT_TRUE(succeeded(passes.run(*module)));
    train = module->lookupSymbol<func::FuncOp>("train");
    state.resize(config.world);
    for (std::vector<HostTensor> &ofRank : state)
      for (BlockArgument argument : train.getArguments())
        ofRank.emplace_back(tensorType(argument));
    initialize();
  }

  Learned run() {
    Learned learned;
    for (int64_t t = 1; t <= kSteps; ++t) {
      std::vector<SmallVector<HostTensor>> results(config.world);
      for (int64_t rank = 0; rank < config.world; ++rank)
        setInputs(rank, t);
      EXPECT_TRUE(succeeded(evalOnRanks(config.world, [&](int64_t rank) {
        return evalFunction(train, state[rank], results[rank],
                            config.type == "f64" ? Rounding::Exact : Rounding::Typed);
      })));
      for (int64_t rank = 0; rank < config.world; ++rank)
        for (unsigned i = 0; i < train.getNumResults(); ++i) {
          if (auto updates = train.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates))
            state[rank][updates.getInt()] = results[rank][i];
          else
            EXPECT_EQ(results[rank][i].floats()[0], results[0][i].floats()[0]) << "output of rank " << rank;
        }
      learned.loss = results[0][findOutput(train, "loss")].floats()[0];
      learned.norm = results[0][findOutput(train, "grad_norm")].floats()[0];
    }
    collect(learned);
    return learned;
  }

  /// How often a step gathers what ranks have shared out.
  int64_t countGathers() {
    int64_t count = 0;
    train.walk([&](AllGatherOp) { ++count; });
    return count;
  }

  /// Elements of parameters and states that a rank keeps.
  int64_t elementsKept() {
    int64_t elements = 0;
    for (unsigned i = 0; i < train.getNumArguments(); ++i)
      if (train.getArgAttr(i, ScrimpDialect::kBucket))
        elements += tensorType(train.getArgument(i)).getNumElements();
    return elements;
  }

private:
  void addPass(PassManager &passes, std::unique_ptr<Pass> pass, const std::string &options) {
    EXPECT_TRUE(succeeded(pass->initializeOptions(options, [](const Twine &message) {
      ADD_FAILURE() << message.str();
      return failure();
    })));
    passes.addPass(std::move(pass));
  }

  /// Calls `visit(name, whole size, element of the whole, place)` for the elements that the rank has of a bucket's
  /// members.
  void forEachElement(int64_t rank, function_ref<void(MemberAttr, int64_t, double &)> visit) {
    for (unsigned i = 0; i < train.getNumArguments(); ++i)
      if (auto bucket = train.getArgAttrOfType<BucketAttr>(i, ScrimpDialect::kBucket)) {
        MutableArrayRef<double> part = state[rank][i].floats();
        bool isPart = static_cast<int64_t>(part.size()) < bucket.getElements();
        int64_t begin = isPart ? rank * part.size() : 0;
        for (MemberAttr member : bucket.getTensors())
          for (int64_t k = 0; k < member.getNumElements(); ++k) {
            int64_t at = member.getOffset() + k - begin;
            if (at >= 0 && at < static_cast<int64_t>(part.size()))
              visit(member, k, part[at]);
          }
      }
  }

  void initialize() {
    for (int64_t rank = 0; rank < config.world; ++rank)
      forEachElement(rank, [&](MemberAttr member, int64_t k, double &value) {
        if (!member.getInit()) // a parameter: a function of name and element
          value =
              std::ldexp(std::round(std::ldexp(std::sin(1.0 + k + 10 * member.getName().getValue().size()), 6)), -6);
      });
  }

  void setInputs(int64_t rank, int64_t t) {
    const double lr = 1e-2, beta1 = .9, beta2 = .999, decay = .1;
    std::map<std::string, double> scalars = {{"one_minus_beta1", 1 - beta1},
                                             {"beta2", beta2},
                                             {"one_minus_beta2", 1 - beta2},
                                             {"eps", 1e-3},
                                             {"decay_factor", 1 - lr * decay},
                                             {"step_size", lr / (1 - std::pow(beta1, t))},
                                             {"sqrt_bias_correction2", std::sqrt(1 - std::pow(beta2, t))},
                                             {"clip_norm", .05},
                                             {"lr", lr},
                                             {"weight_decay", decay},
                                             {"momentum", .9},
                                             {"one_minus_dampening", 1}};
    // As the runtime shares samples out: the first ranks have one more.
    int64_t each = kBatch / config.world, more = kBatch % config.world;
    int64_t begin = rank * each + std::min(rank, more), count = each + (rank < more);
    std::map<std::string, int64_t> integers = {
        {"seed", 3}, {"step", t}, {"sample_base", begin}, {"rank", rank}, {"valid_samples", count}};
    for (unsigned i = 0; i < train.getNumArguments(); ++i) {
      HostTensor &value = state[rank][i];
      if (auto scalar = train.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar)) {
        if (value.isFloat()) {
          ASSERT_TRUE(scalars.count(scalar.str())) << scalar.str();
          value.floats()[0] = scalars[scalar.str()];
        } else {
          ASSERT_TRUE(integers.count(scalar.str())) << scalar.str();
          value.ints()[0] = integers[scalar.str()];
        }
      } else if (argumentName(train, i) == "x") {
        for (int64_t k = 0; k < value.size(); ++k)
          value.floats()[k] = std::ldexp(std::round(std::ldexp(std::sin((begin * 4 + k) * 1.7 + t), 5)), -5);
      } else if (argumentName(train, i) == "m") {
        for (int64_t k = 0; k < value.size(); ++k) {
          int64_t sample = begin + k; // an empty place has something too
          value.floats()[k] = sample < 8 || sample > 17 ? 1 + sample % 3 : 0;
        }
      }
    }
  }

  /// Every element of every tensor, which whoever has it must have alike.
  void collect(Learned &learned) {
    std::map<std::string, std::vector<bool>> known;
    for (int64_t rank = 0; rank < config.world; ++rank)
      forEachElement(rank, [&](MemberAttr member, int64_t k, double &value) {
        Values &tensor = learned.tensors[member.getName().str()];
        std::vector<bool> &isKnown = known[member.getName().str()];
        tensor.resize(member.getNumElements());
        isKnown.resize(member.getNumElements());
        if (isKnown[k])
          EXPECT_EQ(value, tensor[k]) << member.getName().str() << "[" << k << "] on rank " << rank;
        tensor[k] = value;
        isKnown[k] = true;
      });
    for (auto &[name, elements] : known)
      EXPECT_EQ(llvm::count(elements, false), 0) << name;
  }

  Config config;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp train;
  std::vector<std::vector<HostTensor>> state;
};

Learned learn(Config config) {
  RanksOfTraining training(config);
  return training.run();
}

void expectNear(const Learned &found, const Learned &expected, double tolerance) {
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  EXPECT_NEAR(found.loss, expected.loss, tolerance);
  EXPECT_NEAR(found.norm, expected.norm, tolerance);
  for (auto &[name, values] : expected.tensors) {
    auto same = found.tensors.find(name);
    ASSERT_NE(same, found.tensors.end()) << name;
    ASSERT_EQ(same->second.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(same->second[i], values[i], tolerance * std::max(1.0, std::abs(values[i])))
          << name << "[" << i << "]";
  }
}

TEST(Ranks, LearnWhatOneProcessLearns) {
  for (std::string optimizer : {"kind=adamw no-decay=1d", "kind=adamw clip-grad-norm", "kind=sgd momentum=true"}) {
    Learned one = learn({.optimizer = optimizer});
    // Something is learned, and the loss depends on the masks and the dropout.
    EXPECT_GT(one.norm, 0);
    for (int64_t world : {2, 3, 4, 5, 8, 7})
      for (int64_t zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(optimizer + ", " + std::to_string(world) + " ranks, stage " + std::to_string(zero));
        expectNear(learn({.world = world, .optimizer = optimizer + " zero=" + std::to_string(zero)}), one, 1e-12);
      }
  }
}

TEST(Ranks, MicroBatchesOfRanks) {
  Learned one = learn({});
  for (int64_t zero : {0, 1, 2, 3})
    for (std::string sync : {"per-step", "per-micro-batch"})
      for (int64_t count : {2, 5}) {
        std::string optimizer = "kind=adamw no-decay=1d sync=" + sync + " zero=" + std::to_string(zero);
        SCOPED_TRACE(optimizer + ", " + std::to_string(count) + " micro-batches");
        expectNear(learn({.world = 2, .optimizer = optimizer, .microBatches = count}), one, 1e-12);
      }
}

TEST(Ranks, BucketsAndSmallParameters) {
  Learned one = learn({});
  for (std::string option : {"bucket-bytes=256", "persist-below=6", "persist-below=30 bucket-bytes=100", "block=h"}) {
    SCOPED_TRACE(option);
    for (int64_t zero : {1, 3})
      expectNear(learn({.world = 4, .optimizer = "kind=adamw no-decay=1d " + option + " zero=" + std::to_string(zero)}),
                 one, 1e-12);
  }
}

// Of four ranks the largest tensor is one's alone, and more ranks than tensors leave some with nothing.
TEST(Ranks, WholeMatricesHaveOwners) {
  Learned one = learn({});
  for (int64_t world : {2, 4, 7})
    for (std::string option : {"zero=1 layout=matrices", "zero=2 layout=matrices bucket-bytes=200"})
      for (int64_t count : {1, 3}) {
        SCOPED_TRACE(std::to_string(world) + " ranks, " + option);
        expectNear(learn({.world = world, .optimizer = "kind=adamw no-decay=1d " + option, .microBatches = count}), one,
                   1e-12);
      }
}

// In 16 bits with f32 masters, and with states of 16 bits, which are rounded by chance: the bits do not depend on what
// is shared out, nor on how it is laid out.
TEST(Ranks, BitsDoNotDependOnTheStage) {
  for (std::string states : {"f32", "bf16"})
    for (int64_t world : {2, 4}) {
      std::string optimizer = "kind=adamw states=" + states;
      Config config{.world = world, .optimizer = optimizer, .type = "f32", .precision = "to=bf16"};
      Learned replicated = learn(config);
      for (std::string option :
           {"zero=1", "zero=2", "zero=3", "zero=3 bucket-bytes=64", "zero=1 block=h", "zero=1 layout=matrices"}) {
        SCOPED_TRACE(states + ", " + std::to_string(world) + " ranks, " + option);
        config.optimizer = optimizer + " " + option;
        // The norm alone is added up in another order, and is only told.
        Learned shared = learn(config);
        EXPECT_NEAR(shared.norm, replicated.norm, 1e-6 * replicated.norm);
        shared.norm = replicated.norm;
        expectNear(shared, replicated, 0);
      }
    }
}

// What is computed again reads what the backward pass has gathered for itself.
TEST(Ranks, RematerializationOfGatheredParameters) {
  for (int64_t count : {1, 3}) {
    Config config{.world = 2, .optimizer = "kind=adamw zero=3", .microBatches = count};
    RanksOfTraining plain(config);
    Learned expected = plain.run();
    for (std::string policy : {"full", "min-cut", "recompute=*", "tradeoff=1e-3"}) {
      SCOPED_TRACE(policy + ", " + std::to_string(count) + " micro-batches");
      config.remat = policy;
      RanksOfTraining training(config);
      // h.0 and the frozen parameters in the forward pass only; h.1 and the head in both; h.0 again if asked for.
      EXPECT_LE(training.countGathers(), plain.countGathers() + 2);
      expectNear(training.run(), expected, 0);
    }
  }
}

// Of adamw, 3 numbers an element: the formula of arXiv:1910.02054 but for padding, which is at most 256 bytes a rank,
// bucket and number.
TEST(Ranks, KeepWhatTheStageSays) {
  int64_t trained = 4 * 5 + 5 + 25 + 35, buckets = 3;
  for (int64_t world : {2, 8}) {
    auto kept = [&](int64_t zero) {
      return RanksOfTraining({.world = world, .optimizer = "kind=adamw zero=" + std::to_string(zero)}).elementsKept();
    };
    int64_t padding = 3 * (buckets + 1) * 32 * (world + 1);
    EXPECT_LE(kept(0), 3 * trained + 5 + padding);
    EXPECT_LE(kept(1), trained + 5 + 2 * trained / world + padding);
    EXPECT_EQ(kept(2), kept(1));
    EXPECT_LE(kept(3), (3 * trained + 5) / world + padding / world + 3 * (buckets + 1) * 32);
    EXPECT_LT(kept(3), kept(1));
    EXPECT_LT(kept(1), kept(0));
  }
}
} // namespace
