#include "CheckGradients.h"

using namespace mlir::scrimp;

SCRIMP_GRADIENT_CASES(Convolution, {
  {"conv2d", R"(func.func @main(%x: tensor<2x2x4x5xf64>, %w: tensor<3x2x2x3xf64>) -> tensor<2x3x3x3xf64> {
    %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
      : tensor<2x2x4x5xf64>, tensor<3x2x2x3xf64> -> tensor<2x3x3x3xf64>
    return %y : tensor<2x3x3x3xf64> })"},
  // H: (5 + 1 + 2 - 2*1 - 1) / 2 + 1 = 3; W: (6 + 0 + 1 - 1*2 - 1) / 3 + 1 = 2.
  {"conv2d_uneven", R"(func.func @main(%x: tensor<1x4x5x6xf64>, %w: tensor<6x2x2x3xf64>) -> tensor<1x6x3x2xf64> {
    %y = scrimp.conv2d %x, %w strides [2, 3] pads [1, 0, 2, 1] dilations [2, 1] groups 2
      : tensor<1x4x5x6xf64>, tensor<6x2x2x3xf64> -> tensor<1x6x3x2xf64>
    return %y : tensor<1x6x3x2xf64> })"},
  {"conv2d_depthwise", R"(func.func @main(%x: tensor<2x3x3x3xf64>, %w: tensor<3x1x3x3xf64>) -> tensor<2x3x3x3xf64> {
    %y = scrimp.conv2d %x, %w strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3
      : tensor<2x3x3x3xf64>, tensor<3x1x3x3xf64> -> tensor<2x3x3x3xf64>
    return %y : tensor<2x3x3x3xf64> })"},
  {"conv2d_no_samples", R"(func.func @main(%x: tensor<0x2x3x3xf64>, %w: tensor<1x2x3x3xf64>) -> tensor<0x1x1x1xf64> {
    %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
      : tensor<0x2x3x3xf64>, tensor<1x2x3x3xf64> -> tensor<0x1x1x1xf64>
    return %y : tensor<0x1x1x1xf64> })"},
  {"conv2d_input_grad", R"(func.func @main(%g: tensor<1x2x2x3xf64>, %w: tensor<2x3x2x2xf64>) -> tensor<1x3x4x5xf64> {
    %y = scrimp.conv2d_input_grad %g, %w strides [2, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 1
      : tensor<1x2x2x3xf64>, tensor<2x3x2x2xf64> -> tensor<1x3x4x5xf64>
    return %y : tensor<1x3x4x5xf64> })"},
  {"conv2d_weight_grad", R"(func.func @main(%x: tensor<2x2x4x4xf64>, %g: tensor<2x4x3x3xf64>) -> tensor<4x1x2x2xf64> {
    %y = scrimp.conv2d_weight_grad %x, %g strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 2
      : tensor<2x2x4x4xf64>, tensor<2x4x3x3xf64> -> tensor<4x1x2x2xf64>
    return %y : tensor<4x1x2x2xf64> })"},
});

SCRIMP_GRADIENT_CASES(Pooling, {
  {"max", R"(func.func @main(%x: tensor<2x2x4x4xf64>) -> tensor<2x2x2x2xf64> {
    %y, %i = scrimp.max_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
      : tensor<2x2x4x4xf64> -> tensor<2x2x2x2xf64>, tensor<2x2x2x2xi32>
    return %y : tensor<2x2x2x2xf64> })"},
  // Overlapping windows, with padding and a dilation: one element may be chosen by several.
  {"max_overlapping", R"(func.func @main(%x: tensor<1x2x5x6xf64>) -> tensor<1x2x5x5xf64> {
    %y, %i = scrimp.max_pool2d %x kernel [3, 2] strides [1, 1] pads [1, 0, 1, 1] dilations [1, 2]
      : tensor<1x2x5x6xf64> -> tensor<1x2x5x5xf64>, tensor<1x2x5x5xi32>
    return %y : tensor<1x2x5x5xf64> })"},
  // Every window holds all elements.
  {"max_grad", R"(func.func @main(%g: tensor<1x2x2x2xf64>, %i: tensor<1x2x2x2xi32> {test.range = [0.0, 9.0]})
      -> tensor<1x2x3x3xf64> {
    %y = scrimp.max_pool2d_grad %g, %i kernel [5, 5] strides [1, 1] pads [2, 2, 1, 1] dilations [1, 1]
      : tensor<1x2x2x2xf64>, tensor<1x2x2x2xi32> -> tensor<1x2x3x3xf64>
    return %y : tensor<1x2x3x3xf64> })"},
  {"avg", R"(func.func @main(%x: tensor<2x1x5x5xf64>) -> tensor<2x1x3x3xf64> {
    %y = scrimp.avg_pool2d %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1]
      : tensor<2x1x5x5xf64> -> tensor<2x1x3x3xf64>
    return %y : tensor<2x1x3x3xf64> })"},
  // Rounded up: the last window reaches beyond the padding.
  {"avg_include_pad_ceiling", R"(func.func @main(%x: tensor<1x2x5x5xf64>) -> tensor<1x2x3x3xf64> {
    %y = scrimp.avg_pool2d %x kernel [3, 2] strides [2, 2] pads [1, 0, 0, 0] dilations [1, 1] {count_include_pad}
      : tensor<1x2x5x5xf64> -> tensor<1x2x3x3xf64>
    return %y : tensor<1x2x3x3xf64> })"},
  {"avg_grad", R"(func.func @main(%g: tensor<1x2x2x3xf64>) -> tensor<1x2x3x4xf64> {
    %y = scrimp.avg_pool2d_grad %g kernel [2, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1]
      : tensor<1x2x2x3xf64> -> tensor<1x2x3x4xf64>
    return %y : tensor<1x2x3x4xf64> })"},
});
