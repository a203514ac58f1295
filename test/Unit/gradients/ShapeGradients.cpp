#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Shape, {
  {"broadcast_leading", R"(func.func @main(%x: tensor<3xf64>) -> tensor<2x3xf64> {
    %y = scrimp.broadcast %x : tensor<3xf64> -> tensor<2x3xf64>
    return %y : tensor<2x3xf64> })"},
  {"broadcast_inner", R"(func.func @main(%x: tensor<2x1x3x1xf64>) -> tensor<4x2x2x3x2xf64> {
    %y = scrimp.broadcast %x : tensor<2x1x3x1xf64> -> tensor<4x2x2x3x2xf64>
    return %y : tensor<4x2x2x3x2xf64> })"},
  {"broadcast_scalar", R"(func.func @main(%x: tensor<f64>) -> tensor<2x3xf64> {
    %y = scrimp.broadcast %x : tensor<f64> -> tensor<2x3xf64>
    return %y : tensor<2x3xf64> })"},
  {"broadcast_to_nothing", R"(func.func @main(%x: tensor<1x3xf64>) -> (tensor<0x3xf64>, tensor<1x3xf64>) {
    %y = scrimp.broadcast %x : tensor<1x3xf64> -> tensor<0x3xf64>
    return %y, %x : tensor<0x3xf64>, tensor<1x3xf64> })"},
  {"reshape", R"(func.func @main(%x: tensor<2x6xf64>) -> tensor<3x1x4xf64> {
    %y = scrimp.reshape %x : tensor<2x6xf64> -> tensor<3x1x4xf64>
    return %y : tensor<3x1x4xf64> })"},
  {"transpose", R"(func.func @main(%x: tensor<2x3x4xf64>) -> tensor<4x2x3xf64> {
    %y = scrimp.transpose %x [2, 0, 1] : tensor<2x3x4xf64> -> tensor<4x2x3xf64>
    return %y : tensor<4x2x3xf64> })"},
  {"slice", R"(func.func @main(%x: tensor<4x5xf64>) -> tensor<2x3xf64> {
    %y = scrimp.slice %x [1, 0] [2, 2] : tensor<4x5xf64> -> tensor<2x3xf64>
    return %y : tensor<2x3xf64> })"},
  {"slice_backwards", R"(func.func @main(%x: tensor<4x5xf64>) -> tensor<4x2xf64> {
    %y = scrimp.slice %x [3, 4] [-1, -3] : tensor<4x5xf64> -> tensor<4x2xf64>
    return %y : tensor<4x2xf64> })"},
  {"slice_to_nothing", R"(func.func @main(%x: tensor<3xf64>) -> (tensor<0xf64>, tensor<3xf64>) {
    %y = scrimp.slice %x [1] [1] : tensor<3xf64> -> tensor<0xf64>
    return %y, %x : tensor<0xf64>, tensor<3xf64> })"},
  {"pad", R"(func.func @main(%x: tensor<2x3xf64>) -> tensor<4x4xf64> {
    %y = scrimp.pad %x [1, 1] [1, 1] {value = 3.0} : tensor<2x3xf64> -> tensor<4x4xf64>
    return %y : tensor<4x4xf64> })"},
  {"pad_strided_backwards", R"(func.func @main(%x: tensor<3x2xf64>) -> tensor<6x5xf64> {
    %y = scrimp.pad %x [5, 0] [-2, 3] : tensor<3x2xf64> -> tensor<6x5xf64>
    return %y : tensor<6x5xf64> })"},
  {"concat", R"(func.func @main(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>, %c: tensor<2x0xf64>) -> tensor<2x5xf64> {
    %y = scrimp.concat %a, %b, %c, %a {dim = 1} : tensor<2x1xf64>, tensor<2x3xf64>, tensor<2x0xf64>, tensor<2x1xf64>
      -> tensor<2x5xf64>
    return %y : tensor<2x5xf64> })"},
  // Row 1 twice, once from the end.
  {"gather_rows", R"(func.func @main(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
    %i = scrimp.constant dense<[1, -1, 1, -3]> : tensor<4xi64>
    %y = scrimp.gather %x, %i {dim = 0} : tensor<4x2xf64>, tensor<4xi64> -> tensor<4x2xf64>
    return %y : tensor<4x2xf64> })"},
  {"gather_inner", R"(func.func @main(%x: tensor<2x4x3xf64>, %i: tensor<2x3xi64> {test.range = [-4.0, 4.0]})
      -> tensor<2x2x3x3xf64> {
    %y = scrimp.gather %x, %i {dim = 1} : tensor<2x4x3xf64>, tensor<2x3xi64> -> tensor<2x2x3x3xf64>
    return %y : tensor<2x2x3x3xf64> })"},
  {"gather_scalar_index", R"(func.func @main(%x: tensor<2x4xf64>, %i: tensor<i32>) -> tensor<2xf64> {
    %y = scrimp.gather %x, %i {dim = 1} : tensor<2x4xf64>, tensor<i32> -> tensor<2xf64>
    return %y : tensor<2xf64> })"},
  {"gather_nothing", R"(func.func @main(%x: tensor<4x2xf64>, %i: tensor<0xi64>) -> (tensor<0x2xf64>, tensor<4x2xf64>) {
    %y = scrimp.gather %x, %i {dim = 0} : tensor<4x2xf64>, tensor<0xi64> -> tensor<0x2xf64>
    return %y, %x : tensor<0x2xf64>, tensor<4x2xf64> })"},
  {"scatter_add", R"(func.func @main(%u: tensor<2x4x3xf64>, %i: tensor<4xi64> {test.range = [-5.0, 5.0]})
      -> tensor<2x5x3xf64> {
    %y = scrimp.scatter_add %u, %i {dim = 1} : tensor<2x4x3xf64>, tensor<4xi64> -> tensor<2x5x3xf64>
    return %y : tensor<2x5x3xf64> })"},
});
