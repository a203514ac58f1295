// Derivatives where a function has a kink, a jump or a pole: PyTorch 2.15's (test/models/make_functions.py asks it of the
// functions that become these ops). Every differentiable op stands here or is said to be smooth.
#include "CheckGradients.h"

#include "scrimp/Dialect/Scrimp.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

constexpr double kInf = INFINITY;

/// Lines that compute %y, a tensor of `results` elements, from the tensors %x and, if there is one, %b.
struct Kink {
  const char *op, *lines;
  size_t results;
  std::vector<std::vector<double>> at, gradients;
};

std::ostream &operator<<(std::ostream &os, const Kink &kink) { return os << kink.op; }

std::string replaceSizes(std::string text, size_t size, size_t results) {
  for (auto [mark, number] : {std::pair('N', size), std::pair('M', results)})
    for (size_t at; (at = text.find(std::string("<") + mark + ">")) != std::string::npos;)
      text.replace(at, 3, "<" + std::to_string(number) + "xf64>");
  return text;
}

/// The sum of %y as the loss. In `lines`, <N> is <SIZExf64> of the arguments, <M> of the results.
std::string textOf(const Kink &kink) {
  std::string arguments = kink.at.size() == 2 ? "%x: tensor<N>, %b: tensor<N>" : "%x: tensor<N>";
  return replaceSizes("func.func @main(" + arguments + ") -> tensor<f64> {\n" + kink.lines +
                          "\n  %loss = scrimp.reduce sum, %y [0] : tensor<M> -> tensor<f64>\n"
                          "  return %loss : tensor<f64>\n}",
                      kink.at[0].size(), kink.results);
}

const std::vector<Kink> &kinks() {
  static const std::vector<Kink> all = {
      {"maximum", "%y = scrimp.maximum %x, %b : tensor<N>", 3, {{1, 1, 2}, {1, 3, 0}}, {{.5, 0, 1}, {.5, 1, 0}}},
      {"minimum", "%y = scrimp.minimum %x, %b : tensor<N>", 3, {{1, 1, 2}, {1, 3, 0}}, {{.5, 1, 0}, {.5, 0, 1}}},
      {"div", "%y = scrimp.div %x, %b : tensor<N>", 1, {{1}, {0}}, {{kInf}, {-kInf}}},
      {"remainder", "%y = scrimp.remainder %x, %b : tensor<N>", 2, {{0, 2}, {1, 1}}, {{1, 1}, {0, -2}}},
      {"pow", "%y = scrimp.pow %x, %b : tensor<N>", 3,
       {{0, 0, 0}, {0, 1.5, .5}}, {{0, 0, kInf}, {0, 0, 0}}},
      {"abs", "%y = scrimp.abs %x : tensor<N>", 3, {{0, -0.0, -1}}, {{0, 0, -1}}},
      {"sign", "%y = scrimp.sign %x : tensor<N>", 2, {{0, 2}}, {{0, 0}}},
      {"log", "%y = scrimp.log %x : tensor<N>", 1, {{0}}, {{kInf}}},
      {"log1p", "%y = scrimp.log1p %x : tensor<N>", 1, {{-1}}, {{kInf}}},
      {"sqrt", "%y = scrimp.sqrt %x : tensor<N>", 1, {{0}}, {{kInf}}},
      {"rsqrt", "%y = scrimp.rsqrt %x : tensor<N>", 1, {{0}}, {{-kInf}}},
      {"floor", "%y = scrimp.floor %x : tensor<N>", 2, {{1, 1.5}}, {{0, 0}}},
      {"ceil", "%y = scrimp.ceil %x : tensor<N>", 2, {{1, 1.5}}, {{0, 0}}},
      {"round", "%y = scrimp.round %x : tensor<N>", 2, {{.5, 1.5}}, {{0, 0}}},
      {"relu", "%y = scrimp.relu %x : tensor<N>", 3, {{0, -0.0, 1}}, {{0, 0, 1}}},
      {"clip", "%y = scrimp.clip %x {low = -1.0 : f64, high = 1.0 : f64} : tensor<N>", 3,
       {{-1, 1, .5}}, {{0, 0, 1}}},
      {"clip", "%y = scrimp.clip %x {low = 1.0 : f64, high = 0x7FF0000000000000 : f64} : tensor<N>", 3,
       {{1, 2, 0}}, {{0, 1, 0}}},
      {"clip", "%y = scrimp.clip %x {low = 1.0 : f64, high = 1.0 : f64} : tensor<N>", 3,
       {{1, 2, 0}}, {{0, 0, 0}}},
      {"clip", "%y = scrimp.clip %x {low = 1.0 : f64, high = 2.0 : f64, straight_through} : tensor<N>", 3,
       {{1, 3, 0}}, {{1, 1, 1}}},
      {"leaky_relu", "%y = scrimp.leaky_relu %x {alpha = 0.25 : f64} : tensor<N>", 2, {{0, -0.0}}, {{.25, .25}}},
      {"elu", "%y = scrimp.elu %x {alpha = 1.5 : f64} : tensor<N>", 2, {{0, -0.0}}, {{1.5, 1.5}}},
      {"select", R"(%zero = scrimp.constant dense<0.0> : tensor<N>
        %c = scrimp.compare gt, %x, %zero : tensor<N> -> tensor<2xi1>
        %n = scrimp.neg %x : tensor<N>
        %y = scrimp.select %c, %x, %n : tensor<N>)", 2, {{0, 1}}, {{-1, 1}}},
      {"reduce", R"(%m = scrimp.reduce max, %x [0] : tensor<N> -> tensor<f64>
        %y = scrimp.reshape %m : tensor<f64> -> tensor<M>)", 1, {{1, 3, 3}}, {{0, .5, .5}}},
      {"reduce", R"(%m = scrimp.reduce min, %x [0] : tensor<N> -> tensor<f64>
        %y = scrimp.reshape %m : tensor<f64> -> tensor<M>)", 1, {{1, 1, 3}}, {{.5, .5, 0}}},
      {"reduce", R"(%m = scrimp.reduce prod, %x [0] : tensor<N> -> tensor<f64>
        %y = scrimp.reshape %m : tensor<f64> -> tensor<M>)", 1, {{0, 2, 3}}, {{6, 0, 0}}},
      {"reduce", R"(%m = scrimp.reduce prod, %x [0] : tensor<N> -> tensor<f64>
        %y = scrimp.reshape %m : tensor<f64> -> tensor<M>)", 1, {{0, 0, 3}}, {{0, 0, 0}}},
      {"log_sum_exp", R"(%m = scrimp.log_sum_exp %x : tensor<N> -> tensor<f64>
        %y = scrimp.reshape %m : tensor<f64> -> tensor<M>)", 1, {{-kInf, -kInf}}, {{0, 0}}},
      {"top_k", "%y, %i = scrimp.top_k %x {dim = 0 : i64} : tensor<N> -> tensor<M>, tensor<1xi64>", 1,
       {{1, 3, 3}}, {{0, 1, 0}}},
      {"max_pool2d", R"(%image = scrimp.reshape %x : tensor<N> -> tensor<1x1x2x2xf64>
        %m, %i = scrimp.max_pool2d %image kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
          : tensor<1x1x2x2xf64> -> tensor<1x1x1x1xf64>, tensor<1x1x1x1xi32>
        %y = scrimp.reshape %m : tensor<1x1x1x1xf64> -> tensor<M>)", 1, {{1, 3, 3, 3}}, {{0, 1, 0, 0}}},
  };
  return all;
}

/// Ops that have a derivative wherever they are defined; linear ones among them, and those that move elements.
const llvm::StringRef kSmooth[] = {
    "add", "sub", "mul", "neg", "exp", "expm1", "sin", "cos", "erf", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh",
    "softplus", "cast", "reshape", "transpose", "broadcast", "slice", "pad", "concat", "gather", "scatter_add", "cumsum",
    "matmul", "conv2d", "softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm", "cross_entropy", "attention",
    "dropout", "avg_pool2d", "avg_pool2d_grad", "max_pool2d_grad",
    "conv2d_input_grad", "conv2d_weight_grad", "gather_elements", "scatter_elements_add", "gather_nd", "scatter_nd"};

class Kinks : public testing::TestWithParam<Kink> {};

TEST_P(Kinks, AsInPyTorch) {
  const Kink &kink = GetParam();
  EXPECT_EQ(gradientsAt(textOf(kink), kink.at), kink.gradients) << textOf(kink);
}

INSTANTIATE_TEST_SUITE_P(Ops, Kinks, testing::ValuesIn(kinks()), [](const auto &info) {
  return std::string(info.param.op) + "_" + std::to_string(info.index);
});

TEST(KinkCoverage, EveryDifferentiableOpHasAnEntry) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect>();
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    StringRef name = op.getStringRef();
    if (!op.hasInterface<DifferentiableOp>() || !name.consume_front("scrimp."))
      continue;
    bool isOfIntegers = name == "and" || name == "or" || name == "xor"; // no gradient reaches them
    bool hasKink = llvm::any_of(kinks(), [&](const Kink &kink) { return name == kink.op; });
    EXPECT_EQ(hasKink + llvm::is_contained(kSmooth, name) + isOfIntegers, 1)
        << name.str() << ": add its kinks, as PyTorch differentiates there, or add it to the smooth ones";
  }
}

} // namespace
