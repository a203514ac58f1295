// Convolutions on a device become columns and products of matrices that say the same to the bit, where sums are exact.
// RUN: scrimp-run %s > %t.whole
// RUN: scrimp-opt %s --scrimp-attach-target=kind=emulated --scrimp-expand-for-target -o %t.mlir
// RUN: scrimp-run %t.mlir > %t.expanded
// RUN: diff %t.whole %t.expanded
// RUN: FileCheck %s --implicit-check-not=scrimp.conv2d < %t.mlir
// RUN: scrimp-opt %s --scrimp-attach-target --scrimp-expand-for-target | FileCheck %s --check-prefix=CPU

// A group's filters times its columns; the result's samples come first again.
// CHECK: scrimp.im2col %{{.*}} kernel [3, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x5x6xf32> -> tensor<1x18x30xf32>
// CHECK: scrimp.matmul %{{.*}} : tensor<1x4x18xf32>, tensor<1x18x30xf32> -> tensor<1x4x30xf32>
// CHECK: scrimp.transpose %{{.*}} [2, 0, 1, 3]
// CHECK: scrimp.col2im
// CPU-NOT: scrimp.im2col
// CPU: scrimp.conv2d
func.func @main() -> (tensor<2x4x3x5xf32>, tensor<2x3x5x6xf32>, tensor<4x3x3x2xf32>, tensor<2x6x4x2xf32>, tensor<2x4x7x6xf32>, tensor<6x2x3x3xf32>, tensor<1x3x7x5xf32>, tensor<1x2x8x9xf32>, tensor<3x2x2x3xf32>, tensor<2x6x4x4xf32>, tensor<2x3x4x4xf32>, tensor<6x1x3x3xf32>, tensor<2x5x2x3xf32>, tensor<2x3x2x3xf32>, tensor<5x3x1x1xf32>) {
  %plain_i = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<180xf32>
  %plain_x = scrimp.reshape %plain_i : tensor<180xf32> -> tensor<2x3x5x6xf32>
  %plain_j = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = -1.0 : f64} : tensor<72xf32>
  %plain_w = scrimp.reshape %plain_j : tensor<72xf32> -> tensor<4x3x3x2xf32>
  %plain = scrimp.conv2d %plain_x, %plain_w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x5x6xf32>, tensor<4x3x3x2xf32> -> tensor<2x4x3x5xf32>
  %plain_k = scrimp.iota {dim = 0 : i64, start = -2.0 : f64} : tensor<120xf32>
  %plain_g = scrimp.reshape %plain_k : tensor<120xf32> -> tensor<2x4x3x5xf32>
  %plain_dx = scrimp.conv2d_input_grad %plain_g, %plain_w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x4x3x5xf32>, tensor<4x3x3x2xf32> -> tensor<2x3x5x6xf32>
  %plain_dw = scrimp.conv2d_weight_grad %plain_x, %plain_g strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x5x6xf32>, tensor<2x4x3x5xf32> -> tensor<4x3x3x2xf32>
  %strided_i = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<336xf32>
  %strided_x = scrimp.reshape %strided_i : tensor<336xf32> -> tensor<2x4x7x6xf32>
  %strided_j = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = -1.0 : f64} : tensor<108xf32>
  %strided_w = scrimp.reshape %strided_j : tensor<108xf32> -> tensor<6x2x3x3xf32>
  %strided = scrimp.conv2d %strided_x, %strided_w strides [2, 3] pads [1, 0, 2, 1] dilations [1, 1] groups 2 : tensor<2x4x7x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x6x4x2xf32>
  %strided_k = scrimp.iota {dim = 0 : i64, start = -2.0 : f64} : tensor<96xf32>
  %strided_g = scrimp.reshape %strided_k : tensor<96xf32> -> tensor<2x6x4x2xf32>
  %strided_dx = scrimp.conv2d_input_grad %strided_g, %strided_w strides [2, 3] pads [1, 0, 2, 1] dilations [1, 1] groups 2 : tensor<2x6x4x2xf32>, tensor<6x2x3x3xf32> -> tensor<2x4x7x6xf32>
  %strided_dw = scrimp.conv2d_weight_grad %strided_x, %strided_g strides [2, 3] pads [1, 0, 2, 1] dilations [1, 1] groups 2 : tensor<2x4x7x6xf32>, tensor<2x6x4x2xf32> -> tensor<6x2x3x3xf32>
  %dilated_i = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<144xf32>
  %dilated_x = scrimp.reshape %dilated_i : tensor<144xf32> -> tensor<1x2x8x9xf32>
  %dilated_j = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = -1.0 : f64} : tensor<36xf32>
  %dilated_w = scrimp.reshape %dilated_j : tensor<36xf32> -> tensor<3x2x2x3xf32>
  %dilated = scrimp.conv2d %dilated_x, %dilated_w strides [1, 2] pads [2, 1, 0, 3] dilations [3, 2] groups 1 : tensor<1x2x8x9xf32>, tensor<3x2x2x3xf32> -> tensor<1x3x7x5xf32>
  %dilated_k = scrimp.iota {dim = 0 : i64, start = -2.0 : f64} : tensor<105xf32>
  %dilated_g = scrimp.reshape %dilated_k : tensor<105xf32> -> tensor<1x3x7x5xf32>
  %dilated_dx = scrimp.conv2d_input_grad %dilated_g, %dilated_w strides [1, 2] pads [2, 1, 0, 3] dilations [3, 2] groups 1 : tensor<1x3x7x5xf32>, tensor<3x2x2x3xf32> -> tensor<1x2x8x9xf32>
  %dilated_dw = scrimp.conv2d_weight_grad %dilated_x, %dilated_g strides [1, 2] pads [2, 1, 0, 3] dilations [3, 2] groups 1 : tensor<1x2x8x9xf32>, tensor<1x3x7x5xf32> -> tensor<3x2x2x3xf32>
  %depthwise_i = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<96xf32>
  %depthwise_x = scrimp.reshape %depthwise_i : tensor<96xf32> -> tensor<2x3x4x4xf32>
  %depthwise_j = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = -1.0 : f64} : tensor<54xf32>
  %depthwise_w = scrimp.reshape %depthwise_j : tensor<54xf32> -> tensor<6x1x3x3xf32>
  %depthwise = scrimp.conv2d %depthwise_x, %depthwise_w strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3 : tensor<2x3x4x4xf32>, tensor<6x1x3x3xf32> -> tensor<2x6x4x4xf32>
  %depthwise_k = scrimp.iota {dim = 0 : i64, start = -2.0 : f64} : tensor<192xf32>
  %depthwise_g = scrimp.reshape %depthwise_k : tensor<192xf32> -> tensor<2x6x4x4xf32>
  %depthwise_dx = scrimp.conv2d_input_grad %depthwise_g, %depthwise_w strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3 : tensor<2x6x4x4xf32>, tensor<6x1x3x3xf32> -> tensor<2x3x4x4xf32>
  %depthwise_dw = scrimp.conv2d_weight_grad %depthwise_x, %depthwise_g strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3 : tensor<2x3x4x4xf32>, tensor<2x6x4x4xf32> -> tensor<6x1x3x3xf32>
  %pointwise_i = scrimp.iota {dim = 0 : i64, start = -7.0 : f64} : tensor<36xf32>
  %pointwise_x = scrimp.reshape %pointwise_i : tensor<36xf32> -> tensor<2x3x2x3xf32>
  %pointwise_j = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = -1.0 : f64} : tensor<15xf32>
  %pointwise_w = scrimp.reshape %pointwise_j : tensor<15xf32> -> tensor<5x3x1x1xf32>
  %pointwise = scrimp.conv2d %pointwise_x, %pointwise_w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x2x3xf32>, tensor<5x3x1x1xf32> -> tensor<2x5x2x3xf32>
  %pointwise_k = scrimp.iota {dim = 0 : i64, start = -2.0 : f64} : tensor<60xf32>
  %pointwise_g = scrimp.reshape %pointwise_k : tensor<60xf32> -> tensor<2x5x2x3xf32>
  %pointwise_dx = scrimp.conv2d_input_grad %pointwise_g, %pointwise_w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x5x2x3xf32>, tensor<5x3x1x1xf32> -> tensor<2x3x2x3xf32>
  %pointwise_dw = scrimp.conv2d_weight_grad %pointwise_x, %pointwise_g strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x2x3xf32>, tensor<2x5x2x3xf32> -> tensor<5x3x1x1xf32>
  return %plain, %plain_dx, %plain_dw, %strided, %strided_dx, %strided_dw, %dilated, %dilated_dx, %dilated_dw, %depthwise, %depthwise_dx, %depthwise_dw, %pointwise, %pointwise_dx, %pointwise_dw : tensor<2x4x3x5xf32>, tensor<2x3x5x6xf32>, tensor<4x3x3x2xf32>, tensor<2x6x4x2xf32>, tensor<2x4x7x6xf32>, tensor<6x2x3x3xf32>, tensor<1x3x7x5xf32>, tensor<1x2x8x9xf32>, tensor<3x2x2x3xf32>, tensor<2x6x4x4xf32>, tensor<2x3x4x4xf32>, tensor<6x1x3x3xf32>, tensor<2x5x2x3xf32>, tensor<2x3x2x3xf32>, tensor<5x3x1x1xf32>
}
