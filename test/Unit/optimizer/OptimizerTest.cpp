// What scrimp-optimizer builds, run by the interpreter for some steps and compared with torch.optim, and an independent
// check that its updates may be done in place.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

using Values = std::vector<double>;

struct Rates {
  double lr = 1e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weightDecay = 0, clipNorm = 0, momentum = 0, dampening = 0;
};

/// The scalar's value at step t, as runtime/include/scrimp/runtime/Scalars.h defines it.
double scalarAt(StringRef name, const Rates &r, int t) {
  std::map<std::string, double> values = {{"lr", r.lr},
                                          {"one_minus_beta1", 1 - r.beta1},
                                          {"beta2", r.beta2},
                                          {"one_minus_beta2", 1 - r.beta2},
                                          {"eps", r.eps},
                                          {"weight_decay", r.weightDecay},
                                          {"decay_factor", 1 - r.lr * r.weightDecay},
                                          {"step_size", r.lr / (1 - std::pow(r.beta1, t))},
                                          {"sqrt_bias_correction2", std::pow(1 - std::pow(r.beta2, t), .5)},
                                          {"clip_norm", r.clipNorm},
                                          {"momentum", r.momentum},
                                          {"one_minus_dampening", t == 1 ? 1.0 : 1 - r.dampening}};
  EXPECT_TRUE(values.count(name.str())) << name.str();
  return values[name.str()];
}

/// A compiled training step and its arguments.
class Training {
public:
  Training(StringRef text, StringRef options) : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<ScrimpDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    PassManager passes(&context);
    passes.addPass(createAutodiff());
    std::unique_ptr<Pass> optimizer = createOptimizer();
    EXPECT_TRUE(succeeded(optimizer->initializeOptions(options, [](const Twine &message) {
      ADD_FAILURE() << message.str();
      return failure();
    })));
    passes.addPass(std::move(optimizer));
    EXPECT_TRUE(succeeded(passes.run(*module)));
    train = module->lookupSymbol<func::FuncOp>("train");
    for (BlockArgument argument : train.getArguments())
      arguments.emplace_back(tensorType(argument));
    expectLegalOrder();
  }

  /// The elements of a parameter or state in its bucket.
  MutableArrayRef<double> member(StringRef name) {
    for (unsigned i = 0; i < arguments.size(); ++i)
      if (auto bucket = train.getArgAttrOfType<BucketAttr>(i, ScrimpDialect::kBucket))
        for (MemberAttr entry : bucket.getTensors())
          if (entry.getName().getValue() == name)
            return arguments[i].floats().slice(entry.getOffset(), entry.getNumElements());
    ADD_FAILURE() << "no member " << name.str();
    return {};
  }

  void set(StringRef name, const Values &values) { llvm::copy(values, member(name).begin()); }
  Values get(StringRef name) { return Values(member(name).begin(), member(name).end()); }

  /// One step; afterwards `outputs` are those of the step.
  void step(const Rates &rates, int t, Rounding rounding = Rounding::Exact) {
    for (unsigned i = 0; i < arguments.size(); ++i)
      if (auto scalar = train.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar))
        arguments[i].floats()[0] = scalarAt(scalar.getValue(), rates, t);
    SmallVector<HostTensor> results;
    ASSERT_TRUE(succeeded(evalFunction(train, arguments, results, rounding)));
    for (unsigned i = 0; i < results.size(); ++i) {
      if (auto output = train.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
        outputs[output.str()] = results[i].floats()[0];
      if (auto updates = train.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates))
        arguments[updates.getInt()] = results[i];
    }
  }

  std::map<std::string, double> outputs;

private:
  /// The argument and the elements of it that a value lies in, through views; no argument if it has bytes of its own.
  struct Bytes {
    Value argument;
    int64_t begin = 0, end = 0;
  };
  Bytes bytesOf(Value value) {
    int64_t size = tensorType(value).getNumElements(), begin = 0;
    while (auto view = value.getDefiningOp()) {
      if (auto piece = dyn_cast<ViewOp>(view))
        begin += piece.getOffset();
      else if (!isa<ReshapeOp>(view))
        return {};
      value = view->getOperand(0);
    }
    return {value, begin, begin + size};
  }

  /// No op reads bytes of a bucket once the op has run that computes, in those bytes, a new piece.
  void expectLegalOrder() {
    Block &block = train.getBody().front();
    std::vector<std::pair<Operation *, Bytes>> writes;
    for (Operation &op : block)
      if (auto pack = dyn_cast<PackOp>(op)) {
        Value root = pack.getBucket();
        while (auto inner = root.getDefiningOp<PackOp>())
          root = inner.getBucket();
        int64_t begin = pack.getOffset(), size = tensorType(pack.getPiece()).getNumElements();
        ASSERT_TRUE(pack.getPiece().getDefiningOp() && !bytesOf(pack.getPiece()).argument);
        writes.push_back({pack.getPiece().getDefiningOp(), {root, begin, begin + size}});
      }
    EXPECT_FALSE(writes.empty());
    for (Operation &op : block) {
      if (isa<PackOp, ViewOp, ReshapeOp>(op))
        continue;
      for (Value operand : op.getOperands()) {
        Bytes read = bytesOf(operand);
        for (auto &[writer, written] : writes)
          if (read.argument == written.argument && read.begin < written.end && written.begin < read.end)
            EXPECT_FALSE(writer->isBeforeInBlock(&op)) << "old bytes are read after their update";
      }
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp train;
  SmallVector<HostTensor> arguments;
};

void expectNear(const Values &found, const Values &expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << "element " << i;
}

// The model of the torch script below; weight decay spares b, whose rank is 1.
const char *const model = R"(
func.func @main(%w: tensor<3x2xf64> {scrimp.name = "w", scrimp.param = "trainable"},
                %b: tensor<2xf64> {scrimp.name = "b", scrimp.param = "trainable"})
    -> (tensor<f64> {scrimp.output = "loss"}) {
  %x = scrimp.constant dense<[[1.0, 2.0, -1.0], [0.5, -0.5, 3.0]]> : tensor<2x3xf64>
  %p = scrimp.matmul %x, %w : tensor<2x3xf64>, tensor<3x2xf64> -> tensor<2x2xf64>
  %bias = scrimp.broadcast %b : tensor<2xf64> -> tensor<2x2xf64>
  %z = scrimp.add %p, %bias : tensor<2x2xf64>
  %y = scrimp.tanh %z : tensor<2x2xf64>
  %square = scrimp.mul %y, %y : tensor<2x2xf64>
  %loss = scrimp.reduce sum, %square [0, 1] : tensor<2x2xf64> -> tensor<f64>
  return %loss : tensor<f64>
})";

// import torch
// def run(make, clip=None):
//     w = torch.tensor([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0]], dtype=torch.float64, requires_grad=True)
//     b = torch.tensor([0.1, -0.2], dtype=torch.float64, requires_grad=True)
//     x = torch.tensor([[1.0, 2.0, -1.0], [0.5, -0.5, 3.0]], dtype=torch.float64)
//     opt = make(w, b)
//     for _ in range(3):
//         loss = ((x @ w + b).tanh() ** 2).sum()
//         opt.zero_grad(); loss.backward()
//         norm = torch.nn.utils.clip_grad_norm_([w, b], clip if clip else 1e30)
//         opt.step()
//     print(repr(loss.item()), repr(norm.item()), w.detach().flatten().tolist(), b.detach().tolist())
// G = lambda w, b: [{"params": [w], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0.0}]
// run(lambda w, b: torch.optim.AdamW(G(w, b), lr=0.05))
// run(lambda w, b: torch.optim.Adam(G(w, b), lr=0.05), clip=0.5)
// run(lambda w, b: torch.optim.SGD(G(w, b), lr=0.05, momentum=0.9, dampening=0.3))
// run(lambda w, b: torch.optim.SGD(G(w, b), lr=0.05, momentum=0.9, nesterov=True), clip=0.5)
// run(lambda w, b: torch.optim.SGD([w, b], lr=0.05))
struct TorchRun {
  const char *name, *options;
  Rates rates;
  double loss, norm; // of the third step, before its update; the norm before clipping
  Values w, b;       // after it
};

std::ostream &operator<<(std::ostream &os, const TorchRun &run) { return os << run.name; }

class ThreeSteps : public testing::TestWithParam<TorchRun> {};

TEST_P(ThreeSteps, FollowTorch) {
  const TorchRun &expected = GetParam();
  Training training(model, expected.options);
  training.set("w", {0.5, -1.0, 1.5, 0.25, -0.75, 2.0});
  training.set("b", {0.1, -0.2});
  for (int t = 1; t <= 3; ++t)
    training.step(expected.rates, t);
  EXPECT_NEAR(training.outputs["loss"], expected.loss, 1e-14);
  EXPECT_NEAR(training.outputs["grad_norm"], expected.norm, 1e-14);
  expectNear(training.get("w"), expected.w, 1e-14);
  expectNear(training.get("b"), expected.b, 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ThreeSteps,
                         testing::ValuesIn(std::vector<TorchRun>{
                             {"adamw",
                              "kind=adamw no-decay=1d",
                              {.lr = .05, .weightDecay = .1},
                              3.8939593378183437,
                              0.4334140975906947,
                              {0.6386936874906524, -0.8386580973881419, 1.3307622421431735, 0.39270034337002535,
                               -0.5923484835370447, 1.8236650448389053},
                              {0.24703525185670255, -0.052848820079582505}},
                             {"adam_clipped",
                              "kind=adam clip-grad-norm=true no-decay=1d",
                              {.lr = .05, .weightDecay = .1, .clipNorm = .5},
                              3.9074615473938605,
                              0.37122985437779715,
                              {0.3657814295201997, -0.8497955838522249, 1.3498494584816412, 0.3958358611389118,
                               -0.6002265703667864, 1.8497624021624048},
                              {0.2485613340946603, -0.052553588418668445}},
                             {"sgd_momentum",
                              "kind=sgd momentum=true no-decay=1d",
                              {.lr = .05, .weightDecay = .1, .momentum = .9, .dampening = .3},
                              3.955065491730505,
                              0.18640643608890345,
                              {0.4927096386662004, -0.9677401104173275, 1.4590687015825061, 0.26146654408939973,
                               -0.7028778305622796, 1.9438977969486995},
                              {0.10939701453406851, -0.19136505474916915}},
                             {"sgd_nesterov_clipped",
                              "kind=sgd momentum=true nesterov=true clip-grad-norm=true no-decay=1d",
                              {.lr = .05, .weightDecay = .1, .clipNorm = .5, .momentum = .9},
                              3.949089078889764,
                              0.21210008726241963,
                              {0.48833461695241925, -0.9446671439360484, 1.4301115264165314, 0.2710668572625318,
                               -0.6662732770734527, 1.904367655028165},
                              {0.11728909239007707, -0.18449734691590602}},
                             {"sgd",
                              "kind=sgd decay=false",
                              {.lr = .05},
                              3.958873034503638,
                              0.1705025676255882,
                              {0.5028589040423757, -0.9945624635128026, 1.4965352247984596, 0.2609331872256092,
                               -0.7314328763743618, 1.9944268635933018},
                              {0.1059197651378062, -0.19458183492987427}},
                         }),
                         [](const auto &info) { return std::string(info.param.name); });

// Gradient (3, 4), clip 1, learning rate 1: the clip is applied, not only computed.
TEST(Optimizer, ClipIsApplied) {
  Training training(R"(
    func.func @main(%w: tensor<2xf64> {scrimp.name = "w", scrimp.param = "trainable"})
        -> (tensor<f64> {scrimp.output = "loss"}) {
      %c = scrimp.constant dense<[3.0, 4.0]> : tensor<2xf64>
      %p = scrimp.mul %w, %c : tensor<2xf64>
      %loss = scrimp.reduce sum, %p [0] : tensor<2xf64> -> tensor<f64>
      return %loss : tensor<f64>
    })",
                    "kind=sgd clip-grad-norm=true");
  training.step({.lr = 1, .clipNorm = 1}, 1);
  EXPECT_EQ(training.outputs["grad_norm"], 5);
  expectNear(training.get("w"), {-.6, -.8}, 2e-7); // the 1e-6 in the denominator
  // Below the limit nothing is scaled.
  training.set("w", {0, 0});
  training.step({.lr = 1, .clipNorm = 6}, 2);
  expectNear(training.get("w"), {-3, -4}, 0);
}

// A norm that no f16 or f32 could be the square of: 5000 twice and 1e30 twice, in the types as they are.
TEST(Optimizer, NormDoesNotOverflow) {
  Training training(R"(
    func.func @main(%h: tensor<2xf16> {scrimp.name = "h", scrimp.param = "trainable"},
                    %s: tensor<2xf32> {scrimp.name = "s", scrimp.param = "trainable"})
        -> (tensor<f32> {scrimp.output = "loss"}) {
      %big = scrimp.constant dense<5000.0> : tensor<2xf16>
      %bigger = scrimp.constant dense<1.0e30> : tensor<2xf32>
      %a = scrimp.mul %h, %big : tensor<2xf16>
      %b = scrimp.mul %s, %bigger : tensor<2xf32>
      %c = scrimp.cast %a : tensor<2xf16> -> tensor<2xf32>
      %d = scrimp.add %b, %c : tensor<2xf32>
      %loss = scrimp.reduce sum, %d [0] : tensor<2xf32> -> tensor<f32>
      return %loss : tensor<f32>
    })",
                    "kind=sgd");
  training.step({.lr = 1e-3}, 1, Rounding::Typed);
  EXPECT_NEAR(training.outputs["grad_norm"] / (1e30 * std::sqrt(2)), 1, 1e-7);
  expectNear(training.get("h"), {-5, -5}, 0); // updated in f32, then rounded to f16
}

// Each parameter's gradient is another parameter: both updates need both old values.
TEST(Optimizer, GradientsThatAreParameters) {
  Training training(R"(
    func.func @main(%a: tensor<2xf64> {scrimp.name = "a", scrimp.param = "trainable"},
                    %b: tensor<2xf64> {scrimp.name = "b", scrimp.param = "trainable"},
                    %late: tensor<2xf64> {scrimp.name = "late", scrimp.param = "trainable"})
        -> (tensor<f64> {scrimp.output = "loss"}, tensor<2xf64> {scrimp.output = "old"}) {
      %p = scrimp.mul %a, %b : tensor<2xf64>
      // The gradient of %late comes first, and the gradient of %q, which reads it, last.
      %q = scrimp.exp %p : tensor<2xf64>
      %r = scrimp.mul %late, %q : tensor<2xf64>
      %loss = scrimp.reduce sum, %r [0] : tensor<2xf64> -> tensor<f64>
      return %loss, %a : tensor<f64>, tensor<2xf64>
    })",
                    "kind=sgd");
  training.set("a", {1, 2});
  training.set("b", {.5, 0});
  training.set("late", {2, -1});
  training.step({.lr = 1}, 1);
  double e = std::exp(.5);
  expectNear(training.get("a"), {1 - e, 2}, 1e-15);
  expectNear(training.get("b"), {.5 - 2 * e, 2}, 1e-14);
  expectNear(training.get("late"), {2 - e, -2}, 1e-15);
  EXPECT_EQ(training.outputs["old"], 1);
}

// A large parameter is summed in blocks, an empty one adds nothing, and padding is not counted.
TEST(Optimizer, NormOverBlocksAndNothing) {
  Training training(R"(
    func.func @main(%w: tensor<5x8192xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                    %e: tensor<0x3xf32> {scrimp.name = "e", scrimp.param = "trainable"},
                    %s: tensor<f32> {scrimp.name = "s", scrimp.param = "trainable"})
        -> (tensor<f32> {scrimp.output = "loss"}) {
      %a = scrimp.reduce sum, %w [0, 1] : tensor<5x8192xf32> -> tensor<f32>
      %b = scrimp.reduce sum, %e [0, 1] : tensor<0x3xf32> -> tensor<f32>
      %ab = scrimp.add %a, %b : tensor<f32>
      %loss = scrimp.add %ab, %s : tensor<f32>
      return %loss : tensor<f32>
    })",
                    "kind=adamw");
  training.step({}, 1, Rounding::Typed);
  EXPECT_EQ(training.outputs["grad_norm"], std::sqrt(5 * 8192 + 1.0));
  EXPECT_NEAR(training.get("s")[0], -1e-3, 1e-9);
  EXPECT_NEAR(training.get("w")[40959], -1e-3, 1e-9);
  EXPECT_EQ(training.get("e"), Values());
}

} // namespace
