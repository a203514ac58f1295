// Gradients whose right value is known from elsewhere.
#include "CheckGradients.h"

#include <cmath>

using namespace mlir::scrimp;

// W 4x3 = sin(arange / 10), loss = mean cross entropy of Gather(W, [0, 1, 1]) W^T against 1, 2, 3 (PyTorch's norm;
// counted apart the two uses would give .246125).
TEST(KnownGradients, TiedWeightSumsOverItsUses) {
  std::vector<double> w;
  for (int i = 0; i < 12; ++i)
    w.push_back(std::sin(i / 10.0));
  auto gradients = gradientsAt(R"(func.func @main(%w: tensor<4x3xf64>) -> tensor<f64> {
    %tokens = scrimp.constant dense<[0, 1, 1]> : tensor<3xi64>
    %targets = scrimp.constant dense<[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]>
      : tensor<3x4xf64>
    %h = scrimp.gather %w, %tokens {dim = 0} : tensor<4x3xf64>, tensor<3xi64> -> tensor<3x3xf64>
    %logits = scrimp.matmul %h, %w {transpose_b} : tensor<3x3xf64>, tensor<4x3xf64> -> tensor<3x4xf64>
    %exp = scrimp.exp %logits : tensor<3x4xf64>
    %sum = scrimp.reduce sum, %exp [1] : tensor<3x4xf64> -> tensor<3xf64>
    %lse = scrimp.log %sum : tensor<3xf64>
    %picked = scrimp.mul %logits, %targets : tensor<3x4xf64>
    %target = scrimp.reduce sum, %picked [1] : tensor<3x4xf64> -> tensor<3xf64>
    %each = scrimp.sub %lse, %target : tensor<3xf64>
    %total = scrimp.reduce sum, %each [0] : tensor<3xf64> -> tensor<f64>
    %n = scrimp.constant dense<3.0> : tensor<f64>
    %loss = scrimp.div %total, %n : tensor<f64>
    return %loss : tensor<f64> })", {w});
  ASSERT_EQ(gradients.size(), 1u);
  double squares = 0;
  for (double g : gradients[0])
    squares += g * g;
  EXPECT_NEAR(std::sqrt(squares), .228612, 5e-7);
}

// Rows 1, -1 and 1 of four, upstream 1, 10 and 100: row 1 gets 101, row 3 gets 10.
TEST(KnownGradients, GatherAddsRepeatedAndNegativeIndices) {
  auto gradients = gradientsAt(R"(func.func @main(%x: tensor<4x2xf64>) -> tensor<f64> {
    %i = scrimp.constant dense<[1, -1, 1]> : tensor<3xi64>
    %up = scrimp.constant dense<[[1.0, 1.0], [10.0, 10.0], [100.0, 100.0]]> : tensor<3x2xf64>
    %y = scrimp.gather %x, %i {dim = 0} : tensor<4x2xf64>, tensor<3xi64> -> tensor<3x2xf64>
    %p = scrimp.mul %y, %up : tensor<3x2xf64>
    %loss = scrimp.reduce sum, %p [0, 1] : tensor<3x2xf64> -> tensor<f64>
    return %loss : tensor<f64> })", {std::vector<double>(8, 0.5)});
  EXPECT_EQ(gradients, (std::vector<std::vector<double>>{{0, 0, 101, 101, 0, 0, 10, 10}}));
}

// Row 3 is the padding, also when counted from the end: it is read, and gets nothing. Row 1 gets 1 + 1000.
TEST(KnownGradients, GatherGivesThePaddingNothing) {
  auto gradients = gradientsAt(R"(func.func @main(%x: tensor<4x2xf64>) -> tensor<f64> {
    %i = scrimp.constant dense<[[1, 3], [-1, 1]]> : tensor<2x2xi64>
    %up = scrimp.constant dense<[[[1.0], [10.0]], [[100.0], [1000.0]]]> : tensor<2x2x1xf64>
    %b = scrimp.broadcast %up : tensor<2x2x1xf64> -> tensor<2x2x2xf64>
    %y = scrimp.gather %x, %i {dim = 0, padding = 3} : tensor<4x2xf64>, tensor<2x2xi64> -> tensor<2x2x2xf64>
    %s = scrimp.mul %y, %y : tensor<2x2x2xf64>
    %p = scrimp.mul %s, %b : tensor<2x2x2xf64>
    %loss = scrimp.reduce sum, %p [0, 1, 2] : tensor<2x2x2xf64> -> tensor<f64>
    return %loss : tensor<f64> })",
                               {std::vector<double>(8, 0.5)});
  EXPECT_EQ(gradients, (std::vector<std::vector<double>>{{0, 0, 1001, 1001, 0, 0, 0, 0}}));
}

// Ties share the gradient, as torch.amax and torch.maximum; relu, abs have 0 at 0.
TEST(KnownGradients, TiesAndKinks) {
  auto gradients = gradientsAt(R"(func.func @main(%x: tensor<4xf64>, %y: tensor<4xf64>) -> tensor<f64> {
    %max = scrimp.reduce max, %x [0] : tensor<4xf64> -> tensor<f64>
    %larger = scrimp.maximum %x, %y : tensor<4xf64>
    %relu = scrimp.relu %y : tensor<4xf64>
    %abs = scrimp.abs %y : tensor<4xf64>
    %a = scrimp.add %larger, %relu : tensor<4xf64>
    %b = scrimp.add %a, %abs : tensor<4xf64>
    %sum = scrimp.reduce sum, %b [0] : tensor<4xf64> -> tensor<f64>
    %loss = scrimp.add %sum, %max : tensor<f64>
    return %loss : tensor<f64> })", {{1, 3, 3, 0}, {1, 2, 5, 0}});
  EXPECT_EQ(gradients, (std::vector<std::vector<double>>{{.5, 1.5, .5, .5}, {2.5, 2, 3, .5}}));
}
