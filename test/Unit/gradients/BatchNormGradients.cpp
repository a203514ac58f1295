#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(BatchNorm, {
  {"batch_norm", R"(func.func @main(%x: tensor<3x2x2xf64>, %scale: tensor<2xf64>, %bias: tensor<2xf64>,
      %mean: tensor<2xf64> {test.fixed}, %var: tensor<2xf64> {test.fixed}) -> tensor<3x2x2xf64> {
    %y:4 = scrimp.batch_norm %x, %scale, %bias, %mean, %var {epsilon = 1.0e-2 : f64}
      : (tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>)
      -> (tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>)
    return %y#0 : tensor<3x2x2xf64> })"},
  // Gradients also come back through the statistics.
  {"batch_norm_statistics", R"(func.func @main(%x: tensor<4x3xf64>, %scale: tensor<3xf64>, %bias: tensor<3xf64>,
      %mean: tensor<3xf64> {test.fixed}, %var: tensor<3xf64> {test.fixed})
      -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
    %y:4 = scrimp.batch_norm %x, %scale, %bias, %mean, %var {epsilon = 1.0e-2 : f64}
      : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
      -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
    return %y#0, %y#1, %y#2, %y#3 : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64> })"},
});
