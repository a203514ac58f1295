#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Contraction, {
  {"matmul", R"(func.func @main(%a: tensor<2x3xf64>, %b: tensor<3x4xf64>) -> tensor<2x4xf64> {
    %y = scrimp.matmul %a, %b : tensor<2x3xf64>, tensor<3x4xf64> -> tensor<2x4xf64>
    return %y : tensor<2x4xf64> })"},
  {"matmul_ta", R"(func.func @main(%a: tensor<3x2xf64>, %b: tensor<3x4xf64>) -> tensor<2x4xf64> {
    %y = scrimp.matmul %a, %b {transpose_a} : tensor<3x2xf64>, tensor<3x4xf64> -> tensor<2x4xf64>
    return %y : tensor<2x4xf64> })"},
  {"matmul_tb", R"(func.func @main(%a: tensor<2x3xf64>, %b: tensor<4x3xf64>) -> tensor<2x4xf64> {
    %y = scrimp.matmul %a, %b {transpose_b} : tensor<2x3xf64>, tensor<4x3xf64> -> tensor<2x4xf64>
    return %y : tensor<2x4xf64> })"},
  {"matmul_ta_tb", R"(func.func @main(%a: tensor<3x2xf64>, %b: tensor<4x3xf64>) -> tensor<2x4xf64> {
    %y = scrimp.matmul %a, %b {transpose_a, transpose_b} : tensor<3x2xf64>, tensor<4x3xf64> -> tensor<2x4xf64>
    return %y : tensor<2x4xf64> })"},
  {"batched", R"(func.func @main(%a: tensor<2x2x3x2xf64>, %b: tensor<2x2x3x3xf64>) -> tensor<2x2x2x3xf64> {
    %y = scrimp.matmul %a, %b {transpose_a} : tensor<2x2x3x2xf64>, tensor<2x2x3x3xf64> -> tensor<2x2x2x3xf64>
    return %y : tensor<2x2x2x3xf64> })"},
  {"batched_tb", R"(func.func @main(%a: tensor<2x2x3xf64>, %b: tensor<2x4x3xf64>) -> tensor<2x2x4xf64> {
    %y = scrimp.matmul %a, %b {transpose_b} : tensor<2x2x3xf64>, tensor<2x4x3xf64> -> tensor<2x2x4xf64>
    return %y : tensor<2x2x4xf64> })"},
  {"squared", R"(func.func @main(%a: tensor<3x3xf64>) -> tensor<3x3xf64> {
    %y = scrimp.matmul %a, %a {transpose_b} : tensor<3x3xf64>, tensor<3x3xf64> -> tensor<3x3xf64>
    return %y : tensor<3x3xf64> })"},
  // A[b,3,4] B[4,5]: dB sums over the batch.
  {"broadcast_weight", R"(func.func @main(%a: tensor<2x3x4xf64>, %b: tensor<4x5xf64>) -> tensor<2x3x5xf64> {
    %w = scrimp.broadcast %b : tensor<4x5xf64> -> tensor<2x4x5xf64>
    %y = scrimp.matmul %a, %w : tensor<2x3x4xf64>, tensor<2x4x5xf64> -> tensor<2x3x5xf64>
    return %y : tensor<2x3x5xf64> })"},
  {"nothing_contracted", R"(func.func @main(%a: tensor<2x0xf64>, %b: tensor<0x3xf64>) -> tensor<2x3xf64> {
    %y = scrimp.matmul %a, %b : tensor<2x0xf64>, tensor<0x3xf64> -> tensor<2x3xf64>
    return %y : tensor<2x3xf64> })"},
});
