#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Reduction, {
  {"sum_last", R"(func.func @main(%x: tensor<3x4xf64>) -> tensor<3xf64> {
    %y = scrimp.reduce sum, %x [1] : tensor<3x4xf64> -> tensor<3xf64>
    return %y : tensor<3xf64> })"},
  {"sum_first_and_last", R"(func.func @main(%x: tensor<2x3x4xf64>) -> tensor<3xf64> {
    %y = scrimp.reduce sum, %x [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>
    return %y : tensor<3xf64> })"},
  {"sum_all", R"(func.func @main(%x: tensor<2x3xf64>) -> tensor<f64> {
    %y = scrimp.reduce sum, %x [0, 1] : tensor<2x3xf64> -> tensor<f64>
    return %y : tensor<f64> })"},
  {"max", R"(func.func @main(%x: tensor<3x4xf64>) -> tensor<3xf64> {
    %y = scrimp.reduce max, %x [1] : tensor<3x4xf64> -> tensor<3xf64>
    return %y : tensor<3xf64> })"},
  {"min", R"(func.func @main(%x: tensor<3x4xf64>) -> tensor<4xf64> {
    %y = scrimp.reduce min, %x [0] : tensor<3x4xf64> -> tensor<4xf64>
    return %y : tensor<4xf64> })"},
  {"prod", R"(func.func @main(%x: tensor<3x4xf64>) -> tensor<3xf64> {
    %y = scrimp.reduce prod, %x [1] : tensor<3x4xf64> -> tensor<3xf64>
    return %y : tensor<3xf64> })"},
  // One row with one zero, one with two: products of the others, computed without dividing by 0.
  {"prod_with_zeros", R"(func.func @main(%x: tensor<3x3xf64>) -> tensor<3xf64> {
    %mask = scrimp.constant dense<[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]> : tensor<3x3xf64>
    %masked = scrimp.mul %x, %mask : tensor<3x3xf64>
    %y = scrimp.reduce prod, %masked [1] : tensor<3x3xf64> -> tensor<3xf64>
    return %y : tensor<3xf64> })"},
  {"sum_of_nothing", R"(func.func @main(%x: tensor<0x3xf64>, %z: tensor<3xf64>) -> tensor<3xf64> {
    %s = scrimp.reduce sum, %x [0] : tensor<0x3xf64> -> tensor<3xf64>
    %y = scrimp.add %s, %z : tensor<3xf64>
    return %y : tensor<3xf64> })"},
});
