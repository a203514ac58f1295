#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Indexing, {
  {"gather_elements", R"(func.func @main(%x: tensor<2x3x4xf64>, %i: tensor<2x5x3xi64> {test.range = [-3.0, 3.0]})
      -> tensor<2x5x3xf64> {
    %y = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3x4xf64>, tensor<2x5x3xi64> -> tensor<2x5x3xf64>
    return %y : tensor<2x5x3xf64> })"},
  {"gather_elements_nothing", R"(func.func @main(%x: tensor<2x3xf64>, %i: tensor<2x0xi64>)
      -> (tensor<2x0xf64>, tensor<2x3xf64>) {
    %y = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3xf64>, tensor<2x0xi64> -> tensor<2x0xf64>
    return %y, %x : tensor<2x0xf64>, tensor<2x3xf64> })"},
  {"scatter_elements_add", R"(func.func @main(%u: tensor<4x2xf64>, %i: tensor<4x2xi32> {test.range = [-3.0, 3.0]})
      -> tensor<3x3xf64> {
    %y = scrimp.scatter_elements_add %u, %i {dim = 0} : tensor<4x2xf64>, tensor<4x2xi32> -> tensor<3x3xf64>
    return %y : tensor<3x3xf64> })"},
  {"gather_nd", R"(func.func @main(%x: tensor<3x3x2xf64>, %i: tensor<4x2xi64> {test.range = [-3.0, 3.0]})
      -> tensor<4x2xf64> {
    %y = scrimp.gather_nd %x, %i : tensor<3x3x2xf64>, tensor<4x2xi64> -> tensor<4x2xf64>
    return %y : tensor<4x2xf64> })"},
  {"gather_nd_batched", R"(func.func @main(%x: tensor<2x3x3x2xf64>, %i: tensor<2x4x1xi64>) -> tensor<2x4x3x2xf64> {
    %y = scrimp.gather_nd %x, %i {batch_dims = 1} : tensor<2x3x3x2xf64>, tensor<2x4x1xi64> -> tensor<2x4x3x2xf64>
    return %y : tensor<2x4x3x2xf64> })"},
  {"scatter_nd_none", R"(func.func @main(%x: tensor<4x3xf64>, %u: tensor<2x3xf64>) -> tensor<4x3xf64> {
    %i = scrimp.constant dense<[[2], [-4]]> : tensor<2x1xi64>
    %y = scrimp.scatter_nd none, %x, %i, %u : tensor<4x3xf64>, tensor<2x1xi64>, tensor<2x3xf64>
    return %y : tensor<4x3xf64> })"},
  {"scatter_nd_add", R"(func.func @main(%x: tensor<2x3x2xf64>, %i: tensor<2x4x1xi64> {test.range = [-3.0, 3.0]},
      %u: tensor<2x4x2xf64>) -> tensor<2x3x2xf64> {
    %y = scrimp.scatter_nd add, %x, %i, %u {batch_dims = 1} : tensor<2x3x2xf64>, tensor<2x4x1xi64>, tensor<2x4x2xf64>
    return %y : tensor<2x3x2xf64> })"},
  {"cumsum", R"(func.func @main(%x: tensor<2x4x2xf64>) -> tensor<2x4x2xf64> {
    %y = scrimp.cumsum %x {dim = 1} : tensor<2x4x2xf64>
    return %y : tensor<2x4x2xf64> })"},
  {"cumsum_exclusive", R"(func.func @main(%x: tensor<5xf64>) -> tensor<5xf64> {
    %y = scrimp.cumsum %x {dim = 0, exclusive} : tensor<5xf64>
    return %y : tensor<5xf64> })"},
  {"cumsum_exclusive_reverse", R"(func.func @main(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %y = scrimp.cumsum %x {dim = 1, exclusive, reverse} : tensor<2x3xf64>
    return %y : tensor<2x3xf64> })"},
  {"top_k", R"(func.func @main(%x: tensor<2x5x2xf64>) -> tensor<2x3x2xf64> {
    %y, %i = scrimp.top_k %x {dim = 1} : tensor<2x5x2xf64> -> tensor<2x3x2xf64>, tensor<2x3x2xi64>
    return %y : tensor<2x3x2xf64> })"},
  // An index carries no gradient.
  {"arg_max", R"(func.func @main(%x: tensor<2x5xf64>) -> tensor<2x1xf64> {
    %i = scrimp.arg_max %x {dim = 1} : tensor<2x5xf64> -> tensor<2xi64>
    %c = scrimp.reshape %i : tensor<2xi64> -> tensor<2x1xi64>
    %y = scrimp.gather_elements %x, %c {dim = 1} : tensor<2x5xf64>, tensor<2x1xi64> -> tensor<2x1xf64>
    return %y : tensor<2x1xf64> })"},
});
