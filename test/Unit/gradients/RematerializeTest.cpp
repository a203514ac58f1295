// scrimp-rematerialize on every gradient case and on random graphs: results are the same to the bit, CSE merges nothing
// back, and kernels, schedule and plan are legal (scrimp-plan-memory verifies what every op reads).
#include "CheckGradients.h"
#include "DrawArguments.h"

#include "scrimp/Analysis/TrainingParts.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <random>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class RematCases {
public:
  explicit RematCases(MLIRContext &context) : context(context) {}

  /// `module` has a @main with a loss and roles.
  void check(ModuleOp module) {
    PassManager training(&context);
    training.addPass(createAutodiff());
    OptimizerOptions sgd;
    sgd.kind = "sgd";
    training.addPass(createOptimizer(sgd));
    training.addPass(createCanonicalizerPass());
    training.addPass(createCSEPass());
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (failed(training.run(module)))
      return;
    func::FuncOp plain = *module.getOps<func::FuncOp>().begin();
    std::vector<HostTensor> arguments = drawArguments(plain, /*seed=*/7);
    for (HostTensor &argument : arguments)
      argument.roundToType();
    SmallVector<HostTensor> expected;
    ASSERT_TRUE(succeeded(evalFunction(plain, arguments, expected, Rounding::Exact)));
    for (StringRef policy : {"none", "full", "selective", "min-cut", "tradeoff=1e-9", "tradeoff=1e9"}) {
      SCOPED_TRACE(policy.str());
      OwningOpRef<ModuleOp> again = module.clone();
      RematerializeOptions options;
      options.policy = policy.str();
      run(*again, createRematerialize(options));
      func::FuncOp function = *again->getOps<func::FuncOp>().begin();
      size_t repeated = countRepeated(function);
      changed += repeated > 0;
      compare(function, arguments, expected);
      run(*again, createCSEPass());
      EXPECT_EQ(countRepeated(function), repeated) << "CSE has merged what is computed again";
      run(*again, createFormKernels());
      compare(function, arguments, expected);
      PassManager plan(&context);
      plan.addNestedPass<func::FuncOp>(createSchedule());
      plan.addPass(createPlanMemory());
      EXPECT_TRUE(succeeded(plan.run(*again)));
      compare(function, arguments, expected);
    }
  }

  int changed = 0;

private:
  void run(ModuleOp module, std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    manager.addPass(std::move(pass));
    ASSERT_TRUE(succeeded(manager.run(module)));
  }

  /// How many ops are computed again. (Clones of one op for several kernels may well be merged with each other.)
  static size_t countRepeated(func::FuncOp function) {
    llvm::SmallDenseSet<Attribute> locations;
    function.walk([&](Operation *op) {
      if (isRecomputed(op) && !isViewLike(op))
        locations.insert(LocationAttr(op->getLoc()));
    });
    return locations.size();
  }

  static void compare(func::FuncOp function, ArrayRef<HostTensor> arguments, ArrayRef<HostTensor> expected) {
    SmallVector<HostTensor> found;
    ASSERT_TRUE(succeeded(evalFunction(function, arguments, found, Rounding::Exact)));
    ASSERT_EQ(found.size(), expected.size());
    for (auto [result, pair] : llvm::enumerate(llvm::zip(found, expected))) {
      auto &[a, b] = pair;
      for (int64_t i = 0; i < a.size(); ++i) {
        double x = a.asDouble(i), y = b.asDouble(i);
        ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
            << "result " << result << ", element " << i << ": " << x << " instead of " << y;
      }
    }
  }

  MLIRContext &context;
};

/// Makes a training graph of a gradient case: the loss is the sum of squares of its results, float arguments train.
bool addLoss(func::FuncOp main) {
  Builder attributes(main.getContext());
  bool any = false;
  for (BlockArgument argument : main.getArguments()) {
    unsigned i = argument.getArgNumber();
    main.setArgAttr(i, ScrimpDialect::kName, attributes.getStringAttr("arg" + Twine(i)));
    bool trains = isFloatTensor(argument) && !main.getArgAttr(i, "test.fixed") && !main.getArgAttr(i, "test.range");
    if (trains)
      main.setArgAttr(i, ScrimpDialect::kParam, attributes.getStringAttr("trainable"));
    else
      main.setArgAttr(i, ScrimpDialect::kInput, attributes.getI64IntegerAttr(-1));
    any |= trains;
  }
  OpBuilder body(main.getBody().front().getTerminator());
  Location loc = main.getLoc();
  Value loss = splatConstant(body, loc, RankedTensorType::get({}, body.getF64Type()), 0);
  for (Value y : main.getBody().front().getTerminator()->getOperands()) {
    if (!isFloatTensor(y))
      continue;
    SmallVector<int64_t> dims(tensorType(y).getRank());
    std::iota(dims.begin(), dims.end(), 0);
    Value half = TanhOp::create(body, loc, y);
    Value sum = ReduceOp::create(body, loc, ReduceKind::sum, MulOp::create(body, loc, half, y), dims);
    if (sum.getType() != loss.getType())
      sum = CastOp::create(body, loc, loss.getType(), sum);
    loss = AddOp::create(body, loc, loss, sum);
  }
  eraseResults(main, llvm::BitVector(main.getNumResults(), true));
  appendResult(main, loss, ScrimpDialect::kOutput, body.getStringAttr("loss"));
  return any;
}

/// `size` random ops on tensors [4, 8]; parameters are drawn from a few, so that several ops share one.
std::string randomGraph(unsigned seed, int size) {
  std::mt19937 random(seed);
  auto pick = [&](int count) { return std::to_string(random() % count); };
  std::string type = "tensor<4x8xf32>", body;
  int values = 1; // %v0 is the input
  auto operand = [&] {
    // Mostly recent ones, so that the graph is deep.
    int back = random() % 3 ? random() % std::min(values, 3) : random() % values;
    return "%v" + std::to_string(values - 1 - back);
  };
  for (int i = 0; i < size; ++i) {
    std::string v = "%v" + std::to_string(values), x = operand();
    switch (random() % 9) {
    case 0:
      body += "  " + v + " = scrimp.tanh " + x + " : " + type + "\n";
      break;
    case 1:
      body += "  " + v + " = scrimp.mul " + x + ", " + operand() + " : " + type + "\n";
      break;
    case 2:
      body += "  " + v + " = scrimp.add " + x + ", " + operand() + " : " + type + "\n";
      break;
    case 3:
      body += "  " + v + " = scrimp.gelu " + x + " : " + type + "\n";
      break;
    case 4:
    case 5:
      body +=
          "  " + v + " = scrimp.matmul " + x + ", %w" + pick(3) + " : " + type + ", tensor<8x8xf32> -> " + type + "\n";
      break;
    case 6:
      body += "  " + v + ", %m" + std::to_string(i) + ", %r" + std::to_string(i) + " = scrimp.layer_norm " + x +
              " scale(%b" + pick(2) + " : tensor<8xf32>) {axis = 1 : i64, epsilon = 1.0e-05 : f64} : " + type +
              " -> tensor<4xf32>\n";
      break;
    case 7:
      body += "  %c" + std::to_string(i) + " = scrimp.broadcast %b" + pick(2) + " : tensor<8xf32> -> " + type + "\n  " +
              v + " = scrimp.add " + x + ", %c" + std::to_string(i) + " : " + type + "\n";
      break;
    case 8:
      body += "  " + v + " = scrimp.dropout " + x +
              ", %seed, %step, %base {batch_dim = 0 : i64, key = " + std::to_string(i) +
              " : i64, p = 5.0e-01 : f64, samples = 4 : i64} : " + type + "\n";
      break;
    }
    ++values;
  }
  std::string last = "%v" + std::to_string(values - 1);
  return "func.func @main(%v0: " + type +
         " {scrimp.name = \"x\", scrimp.input = 0 : i64}, "
         "%w0: tensor<8x8xf32> {scrimp.name = \"w0\", scrimp.param = \"trainable\"}, "
         "%w1: tensor<8x8xf32> {scrimp.name = \"w1\", scrimp.param = \"frozen\"}, "
         "%w2: tensor<8x8xf32> {scrimp.name = \"w2\", scrimp.param = \"trainable\"}, "
         "%b0: tensor<8xf32> {scrimp.name = \"b0\", scrimp.param = \"trainable\"}, "
         "%b1: tensor<8xf32> {scrimp.name = \"b1\", scrimp.param = \"trainable\"}, "
         "%seed: tensor<i64> {scrimp.name = \"seed\", scrimp.scalar = \"seed\"}, "
         "%step: tensor<i64> {scrimp.name = \"step\", scrimp.scalar = \"step\"}) -> (tensor<f32> {scrimp.output = "
         "\"loss\"}) {\n"
         "  %base = scrimp.constant dense<0> : tensor<i64>\n" +
         body + "  %q = scrimp.mul " + last + ", " + last + " : " + type +
         "\n"
         "  %loss = scrimp.reduce sum, %q [0, 1] : " +
         type +
         " -> tensor<f32>\n"
         "  return %loss : tensor<f32>\n}\n";
}

TEST(Rematerialize, EveryOpIsRepeatedAlike) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  context.allowUnregisteredDialects(); // test.range, test.fixed
  RematCases cases(context);
  for (const std::string &text : gradientCaseTexts()) {
    SCOPED_TRACE(text);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    if (addLoss(module->lookupSymbol<func::FuncOp>("main")))
      cases.check(*module);
  }
  EXPECT_GT(cases.changed, 200);
}

TEST(Rematerialize, RandomGraphsKeepTheirBits) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  RematCases cases(context);
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::string text = randomGraph(seed, 6 + seed);
    SCOPED_TRACE(text);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    cases.check(*module);
  }
  EXPECT_GT(cases.changed, 60);
}
} // namespace
