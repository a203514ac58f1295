#include "CheckGradients.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <random>

using namespace mlir;
using namespace mlir::scrimp;

/// The elements of [low, high) at distances 1/n, in random order, moved by `shift` of that distance.
static void spread(MutableArrayRef<double> values, double low, double high, double shift, std::mt19937 &random) {
  std::vector<double> order(values.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::shuffle(order.begin(), order.end(), random);
  for (auto [value, position] : llvm::zip(values, order))
    value = low + (high - low) * (position + shift) / static_cast<double>(values.size());
}

static std::pair<double, double> rangeOf(func::FuncOp function, unsigned index, double low, double high) {
  if (auto range = function.getArgAttrOfType<ArrayAttr>(index, "test.range")) {
    low = cast<FloatAttr>(range[0]).getValueAsDouble();
    high = cast<FloatAttr>(range[1]).getValueAsDouble();
  }
  return {low, high};
}

/// Values for the arguments of @main at one point.
static SmallVector<HostTensor> drawArguments(func::FuncOp function, std::mt19937 &random) {
  static const double shifts[] = {.37, .61, .23, .83, .71, .13};
  SmallVector<HostTensor> values;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    HostTensor &value = values.emplace_back(tensorType(argument));
    if (value.isFloat()) {
      auto [low, high] = rangeOf(function, index, -2, 2);
      spread(value.floats(), low, high, shifts[index % std::size(shifts)], random);
      continue;
    }
    auto [low, high] = rangeOf(function, index, 0, 3);
    std::uniform_int_distribution<int64_t> draw(static_cast<int64_t>(low), static_cast<int64_t>(high) - 1);
    for (int64_t &element : value.ints())
      element = draw(random);
  }
  return values;
}

/// Turns @main's results into the loss sum(result * cotangent), the cotangents constants.
static void buildLoss(func::FuncOp function, std::mt19937 &random) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  Location loc = function.getLoc();
  Value loss = splatConstant(builder, loc, RankedTensorType::get({}, builder.getF64Type()), 0);
  for (Value result : terminator->getOperands()) {
    if (!isFloatTensor(result))
      continue;
    HostTensor cotangent(tensorType(result));
    spread(cotangent.floats(), -1.5, 1.5, .29, random);
    Value weight = ConstantOp::create(builder, loc, cast<ElementsAttr>(Attribute(cotangent.toAttr())));
    Value weighted = MulOp::create(builder, loc, result, weight);
    SmallVector<int64_t> dims(tensorType(result).getRank());
    std::iota(dims.begin(), dims.end(), 0);
    Value sum = ReduceOp::create(builder, loc, ReduceKind::sum, weighted, dims);
    if (sum.getType() != loss.getType())
      sum = CastOp::create(builder, loc, loss.getType(), sum);
    loss = AddOp::create(builder, loc, loss, sum);
  }
  llvm::BitVector all(function.getNumResults(), true);
  eraseResults(function, all);
  appendResult(function, loss, ScrimpDialect::kOutput, builder.getStringAttr("loss"));
}

/// @train of a copy of the module in which the arguments in `trainable` are.
static OwningOpRef<ModuleOp> differentiate(ModuleOp module, ArrayRef<unsigned> trainable) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto function = copy->lookupSymbol<func::FuncOp>("main");
  Builder builder(module.getContext());
  for (unsigned index : trainable) {
    function.setArgAttr(index, ScrimpDialect::kName, builder.getStringAttr("arg" + std::to_string(index)));
    function.setArgAttr(index, ScrimpDialect::kParam, builder.getStringAttr("trainable"));
  }
  PassManager passes(module.getContext());
  passes.addPass(createAutodiff());
  return succeeded(passes.run(*copy)) ? std::move(copy) : nullptr;
}

static SmallVector<HostTensor> run(ModuleOp module, StringRef name, ArrayRef<HostTensor> arguments) {
  SmallVector<HostTensor> results;
  EXPECT_TRUE(succeeded(
      evalFunction(module.lookupSymbol<func::FuncOp>(name), arguments, results, Rounding::Exact)));
  return results;
}

/// df/dx by differences at +-h and +-2h: the error is of order h^4.
static double centralDifference(ModuleOp module, SmallVector<HostTensor> arguments, unsigned index, int64_t element) {
  const double h = 1e-3;
  double &x = arguments[index].floats()[element], x0 = x;
  auto at = [&](double value) {
    x = value;
    return run(module, "main", arguments)[0].floats()[0];
  };
  return (8 * (at(x0 + h) - at(x0 - h)) - (at(x0 + 2 * h) - at(x0 - 2 * h))) / (12 * h);
}

static void compareWithDifferences(ModuleOp module, ArrayRef<HostTensor> arguments, unsigned index,
                                   const HostTensor &gradient) {
  ASSERT_EQ(gradient.size(), arguments[index].size());
  std::vector<double> differences;
  double largest = 0;
  for (int64_t i = 0; i < gradient.size(); ++i) {
    differences.push_back(centralDifference(module, SmallVector<HostTensor>(arguments), index, i));
    largest = std::max(largest, std::abs(differences.back()));
  }
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double scale = std::max({std::abs(gradient.floats()[i]), std::abs(differences[i]), largest / 1000});
    // 1e-9: what the rounding of the differences leaves where the gradient is 0.
    EXPECT_NEAR(gradient.floats()[i], differences[i], 1e-6 * scale + 1e-9)
        << "argument " << index << ", element " << i;
  }
}

namespace {
struct TestContext : MLIRContext {
  TestContext() : MLIRContext(Threading::DISABLED) {
    loadDialect<ScrimpDialect, func::FuncDialect>();
    allowUnregisteredDialects(); // test.range, test.fixed
  }
};
} // namespace

/// The float arguments that want a gradient.
static SmallVector<unsigned> checkedArguments(func::FuncOp main) {
  SmallVector<unsigned> indices;
  for (BlockArgument argument : main.getArguments())
    if (isFloatTensor(argument) && !main.getArgAttr(argument.getArgNumber(), "test.fixed"))
      indices.push_back(argument.getArgNumber());
  return indices;
}

std::vector<std::vector<double>> mlir::scrimp::gradientsAt(const std::string &text,
                                                           std::vector<std::vector<double>> arguments) {
  TestContext context;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  auto main = module->lookupSymbol<func::FuncOp>("main");
  main.setResultAttr(0, ScrimpDialect::kOutput, StringAttr::get(&context, "loss"));
  SmallVector<HostTensor> values;
  for (auto [argument, elements] : llvm::zip(main.getArguments(), arguments))
    llvm::copy(elements, values.emplace_back(tensorType(argument)).floats().begin());
  OwningOpRef<ModuleOp> train = differentiate(*module, checkedArguments(main));
  std::vector<std::vector<double>> gradients;
  SmallVector<HostTensor> results = run(*train, "train", values);
  for (const HostTensor &result : ArrayRef(results).drop_front())
    gradients.emplace_back(result.floats().begin(), result.floats().end());
  return gradients;
}

void mlir::scrimp::checkGradients(const std::string &text) {
  TestContext context;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  auto main = module->lookupSymbol<func::FuncOp>("main");
  ASSERT_TRUE(main);
  std::mt19937 random(20);
  buildLoss(main, random);
  SmallVector<unsigned> indices = checkedArguments(main);
  OwningOpRef<ModuleOp> all = differentiate(*module, indices);
  ASSERT_TRUE(all);
  for (int point = 0; point < 3; ++point) {
    SmallVector<HostTensor> arguments = drawArguments(main, random);
    SmallVector<HostTensor> results = run(*all, "train", arguments);
    ASSERT_EQ(results.size(), 1 + indices.size()) << "an argument does not influence the results";
    for (auto [position, index] : llvm::enumerate(indices)) {
      compareWithDifferences(*module, arguments, index, results[1 + position]);
      OwningOpRef<ModuleOp> one = differentiate(*module, index);
      ASSERT_TRUE(one);
      HostTensor alone = run(*one, "train", arguments)[1];
      for (auto [found, expected] : llvm::zip_equal(alone.floats(), results[1 + position].floats()))
        EXPECT_NEAR(found, expected, 1e-12 * (1 + std::abs(expected)))
            << "argument " << index << " has another gradient when it is differentiated alone";
    }
  }
}

static std::vector<std::string> &caseTexts() {
  static std::vector<std::string> texts;
  return texts;
}

std::vector<GradientCase> mlir::scrimp::registerGradientCases(std::vector<GradientCase> cases) {
  for (const GradientCase &c : cases)
    caseTexts().push_back(c.text);
  return cases;
}

const std::vector<std::string> &mlir::scrimp::gradientCaseTexts() { return caseTexts(); }

namespace mlir::scrimp {
TEST_P(Gradients, MatchDifferences) { checkGradients(GetParam().text); }
} // namespace mlir::scrimp
