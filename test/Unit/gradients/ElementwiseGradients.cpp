#include "CheckGradients.h"

using namespace mlir::scrimp;

namespace {

/// y = op(x) or op(a, b) on vectors, values drawn from `range` ("[-2.0, 2.0]").
struct Formula {
  const char *op;
  int operands;
  const char *range = "[-2.0, 2.0]";
  const char *attributes = "";
};

std::ostream &operator<<(std::ostream &os, const Formula &f) { return os << f.op; }

class Elementwise : public testing::TestWithParam<Formula> {};

std::string textOf(const Formula &f) {
  std::string argument = std::string(": tensor<7xf64> {test.range = ") + f.range + "}";
  std::string arguments = "%a" + argument + (f.operands == 2 ? ", %b" + argument : "");
  std::string operands = f.operands == 2 ? "%a, %b" : "%a";
  return "func.func @main(" + arguments + ") -> tensor<7xf64> {\n  %y = scrimp." + f.op + " " + operands + " " +
         f.attributes + " : tensor<7xf64>\n  return %y : tensor<7xf64>\n}";
}

std::vector<Formula> registered(std::vector<Formula> formulas) {
  for (const Formula &f : formulas)
    registerGradientCases({{f.op, textOf(f).c_str()}});
  return formulas;
}

TEST_P(Elementwise, MatchesDifferences) { checkGradients(textOf(GetParam())); }

INSTANTIATE_TEST_SUITE_P(
    Ops, Elementwise,
    testing::ValuesIn(registered({
        {"add", 2}, {"sub", 2}, {"mul", 2}, {"div", 2}, {"maximum", 2}, {"minimum", 2}, {"remainder", 2, "[0.4, 3.1]"},
        {"pow", 2, "[0.5, 2.5]"}, {"neg", 1}, {"abs", 1}, {"sign", 1}, {"exp", 1}, {"expm1", 1}, {"log", 1, "[0.2, 3.0]"},
        {"log1p", 1, "[-0.5, 3.0]"}, {"sqrt", 1, "[0.2, 3.0]"}, {"rsqrt", 1, "[0.2, 3.0]"}, {"sin", 1}, {"cos", 1},
        {"erf", 1}, {"floor", 1}, {"ceil", 1}, {"round", 1}, {"tanh", 1}, {"sigmoid", 1}, {"relu", 1}, {"silu", 1},
        {"gelu", 1}, {"gelu_tanh", 1}, {"softplus", 1},
        {"clip", 1, "[-2.0, 2.0]", "{low = -0.75 : f64, high = 1.25 : f64}"},
        {"leaky_relu", 1, "[-2.0, 2.0]", "{alpha = 0.1 : f64}"}, {"elu", 1, "[-2.0, 2.0]", "{alpha = 1.3 : f64}"}})),
    [](const auto &info) { return std::string(info.param.op); });

} // namespace

SCRIMP_GRADIENT_CASES(Elementwise, {
  {"same_operand_twice", R"(func.func @main(%x: tensor<5xf64>) -> tensor<5xf64> {
    %y = scrimp.mul %x, %x : tensor<5xf64>
    return %y : tensor<5xf64> })"},
  {"select", R"(func.func @main(%a: tensor<6xf64>, %b: tensor<6xf64>) -> tensor<6xf64> {
    %c = scrimp.compare gt, %a, %b : tensor<6xf64> -> tensor<6xi1>
    %y = scrimp.select %c, %a, %b : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  {"cast", R"(func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
    %n = scrimp.cast %x : tensor<4xf64> -> tensor<4xf32>
    %s = scrimp.mul %n, %n : tensor<4xf32>
    %y = scrimp.cast %s : tensor<4xf32> -> tensor<4xf64>
    return %y : tensor<4xf64> })"},
  // A smooth path and one through an integer: only the first counts.
  {"cast_through_integer", R"(func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
    %i = scrimp.cast %x : tensor<4xf64> -> tensor<4xi64>
    %f = scrimp.cast %i : tensor<4xi64> -> tensor<4xf64>
    %y = scrimp.mul %x, %f : tensor<4xf64>
    return %y : tensor<4xf64> })"},
  {"pow_constant_exponent", R"(func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
    %three = scrimp.constant dense<3.0> : tensor<6xf64>
    %y = scrimp.pow %x, %three : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  {"pow_exponent_zero", R"(func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
    %zero = scrimp.constant dense<0.0> : tensor<6xf64>
    %p = scrimp.pow %x, %zero : tensor<6xf64>
    %y = scrimp.mul %p, %x : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  // The branch not taken would be NaN (log, sqrt, pow and division of what is not positive): it adds nothing.
  {"untaken_log", R"(func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
    %zero = scrimp.constant dense<0.0> : tensor<6xf64>
    %c = scrimp.compare gt, %x, %zero : tensor<6xf64> -> tensor<6xi1>
    %log = scrimp.log %x : tensor<6xf64>
    %y = scrimp.select %c, %log, %x : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  {"untaken_sqrt_of_zero", R"(func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
    %zero = scrimp.constant dense<0.0> : tensor<6xf64>
    %c = scrimp.compare gt, %x, %zero : tensor<6xf64> -> tensor<6xi1>
    %r = scrimp.relu %x : tensor<6xf64>
    %sqrt = scrimp.sqrt %r : tensor<6xf64>
    %inverse = scrimp.rsqrt %r : tensor<6xf64>
    %both = scrimp.add %sqrt, %inverse : tensor<6xf64>
    %y = scrimp.select %c, %both, %x : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  {"untaken_division", R"(func.func @main(%x: tensor<6xf64>, %n: tensor<6xf64>) -> tensor<6xf64> {
    %zero = scrimp.constant dense<0.0> : tensor<6xf64>
    %c = scrimp.compare gt, %x, %zero : tensor<6xf64> -> tensor<6xi1>
    %r = scrimp.relu %x : tensor<6xf64>
    %q = scrimp.div %n, %r : tensor<6xf64>
    %y = scrimp.select %c, %q, %x : tensor<6xf64>
    return %y : tensor<6xf64> })"},
  {"untaken_pow_and_exp", R"(func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
    %zero = scrimp.constant dense<0.0> : tensor<6xf64>
    %half = scrimp.constant dense<0.5> : tensor<6xf64>
    %huge = scrimp.constant dense<-1.0e4> : tensor<6xf64>
    %c = scrimp.compare gt, %x, %zero : tensor<6xf64> -> tensor<6xi1>
    %p = scrimp.pow %x, %half : tensor<6xf64>
    %a = scrimp.select %c, %p, %x : tensor<6xf64>
    %s = scrimp.mul %x, %huge : tensor<6xf64>
    %e = scrimp.exp %s : tensor<6xf64>
    %y = scrimp.select %c, %e, %a : tensor<6xf64>
    %z = scrimp.add %y, %a : tensor<6xf64>
    return %z : tensor<6xf64> })"},
  {"nothing", R"(func.func @main(%x: tensor<0xf64>, %z: tensor<f64>) -> (tensor<0xf64>, tensor<f64>) {
    %y = scrimp.exp %x : tensor<0xf64>
    return %y, %z : tensor<0xf64>, tensor<f64> })"},
});
