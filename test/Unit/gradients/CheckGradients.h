// Gradients of any graph against central differences, in fp64 by the interpreter. A case is the text of a @main; see
// ShapeGradients.cpp for how one is added.
#ifndef SCRIMP_TEST_UNIT_GRADIENTS_CHECKGRADIENTS_H
#define SCRIMP_TEST_UNIT_GRADIENTS_CHECKGRADIENTS_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mlir::scrimp {

/// `text` is a module with a @main. Its arguments are float tensors, f64 as a rule (constants of the derivatives are
/// rounded to the element type), or integer tensors. Attributes of an argument:
///   test.range = [0.5, 2.0]   where its values are drawn from (default [-2, 2]; integers: [0, 3), end excluded)
///   test.fixed                a float without a gradient
/// Values are spread so that no two elements and none of 0, +-1/2, +-1, +-2 are met exactly: kinks stay away.
///
/// Around three random points, for L = sum over float results of (result * random cotangent): every element of
/// dL/d(argument) from scrimp-autodiff is compared with a fourth-order central difference; the error is at most 1e-6 of
/// the larger of the element and a thousandth of the largest in its argument. Differentiating for each argument alone
/// must give the same up to rounding (an op may have a cheaper formula for one of them).
void checkGradients(const std::string &text);

/// The gradients that scrimp-autodiff builds for the float arguments of `text`'s @main, whose one result is the loss,
/// at `arguments` (row-major).
std::vector<std::vector<double>> gradientsAt(const std::string &text, std::vector<std::vector<double>> arguments);

struct GradientCase {
  const char *name;
  const char *text;
};

/// Notes the cases, so that CoverageTest.cpp can tell an op without one; returns them.
std::vector<GradientCase> registerGradientCases(std::vector<GradientCase> cases);

/// The text of every case of this program.
const std::vector<std::string> &gradientCaseTexts();

inline std::ostream &operator<<(std::ostream &os, const GradientCase &c) { return os << c.name; }

class Gradients : public testing::TestWithParam<GradientCase> {};

} // namespace mlir::scrimp

/// Adds the cases, an initialiser list of {name, text}, as tests `group/Gradients.MatchDifferences/name`.
#define SCRIMP_GRADIENT_CASES(group, ...)                                                                              \
  INSTANTIATE_TEST_SUITE_P(group, Gradients, testing::ValuesIn(mlir::scrimp::registerGradientCases(__VA_ARGS__)),       \
                           [](const auto &info) { return std::string(info.param.name); })

#endif
