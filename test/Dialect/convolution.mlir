// Convolution and pooling in the interpreter.
// Expected numbers are PyTorch 2.15's in float64, by the expression beside each (F is torch.nn.functional);
// ar(*shape, m, o) = (torch.arange(prod(shape)) % m - o).reshape(shape).
// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-run --typed %s | FileCheck %s

func.func @main() -> (tensor<1x2x3x4xf32>, tensor<1x4x4x5xf32>, tensor<2x2x3x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xi32>, tensor<1x1x3x4xf32>, tensor<1x1x3x3xf32>, tensor<1x1x4x5xf32>, tensor<1x1x3x3xf32>, tensor<1x1x4x5xf32>) {
  %x = scrimp.constant dense<[[[[-3.0, -2.0, -1.0, 0.0, 1.0], [2.0, 3.0, -3.0, -2.0, -1.0], [0.0, 1.0, 2.0, 3.0, -3.0], [-2.0, -1.0, 0.0, 1.0, 2.0]], [[3.0, -3.0, -2.0, -1.0, 0.0], [1.0, 2.0, 3.0, -3.0, -2.0], [-1.0, 0.0, 1.0, 2.0, 3.0], [-3.0, -2.0, -1.0, 0.0, 1.0]], [[2.0, 3.0, -3.0, -2.0, -1.0], [0.0, 1.0, 2.0, 3.0, -3.0], [-2.0, -1.0, 0.0, 1.0, 2.0], [3.0, -3.0, -2.0, -1.0, 0.0]], [[1.0, 2.0, 3.0, -3.0, -2.0], [-1.0, 0.0, 1.0, 2.0, 3.0], [-3.0, -2.0, -1.0, 0.0, 1.0], [2.0, 3.0, -3.0, -2.0, -1.0]]]]> : tensor<1x4x4x5xf32>
  %w = scrimp.constant dense<[[[[-2.0, -1.0], [0.0, 1.0], [2.0, -2.0]], [[-1.0, 0.0], [1.0, 2.0], [-2.0, -1.0]]], [[[0.0, 1.0], [2.0, -2.0], [-1.0, 0.0]], [[1.0, 2.0], [-2.0, -1.0], [0.0, 1.0]]]]> : tensor<2x2x3x2xf32>
  %dy = scrimp.constant dense<[[[[-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0]], [[-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0]]]]> : tensor<1x2x3x4xf32>
  // x = ar(1,4,4,5,m=7,o=3), w = ar(2,2,3,2,m=5,o=2): F.conv2d(F.pad(x, (0,1,1,2)), w, None, (2,1), 0, (1,2), 2)
  // CHECK: {{\[\[}}{{\[\[}}3, 4, -9, 1], [4, 1, 5, 11], [7, 3, -1, -2]], {{\[\[}}6, 10, -7, -1], [0, 8, 2, 5], [-6, -2, -5, -2]]]]
  %y = scrimp.conv2d %x, %w strides [2, 1] pads [1, 0, 2, 1] dilations [1, 2] groups 2 : tensor<1x4x4x5xf32>, tensor<2x2x3x2xf32> -> tensor<1x2x3x4xf32>
  // dy = ar(*y.shape,m=4,o=1): y.backward(dy), x.grad, w.grad
  // CHECK: {{\[\[}}{{\[\[}}0, 0, -1, 0, 1], [0, 0, 3, 0, -3], [0, 0, -1, 0, 1], [0, 0, 3, 0, -3]], {{\[\[}}-1, 0, -1, 2, 2], [3, 0, -2, -6, -1], [-1, 0, -1, 2, 2], [3, 0, -2, -6, -1]], {{\[\[}}-2, 0, 4, 4, -2], [1, 0, -2, -2, 1], [-2, 0, 4, 4, -2], [1, 0, -2, -2, 1]], {{\[\[}}2, 0, -1, -4, -1], [-1, 0, -2, 2, 3], [2, 0, -1, -4, -1], [-1, 0, -2, 2, 3]]]]
  %dx = scrimp.conv2d_input_grad %dy, %w strides [2, 1] pads [1, 0, 2, 1] dilations [1, 2] groups 2 : tensor<1x2x3x4xf32>, tensor<2x2x3x2xf32> -> tensor<1x4x4x5xf32>
  // CHECK-NEXT: {{\[\[}}{{\[\[}}-5, 4], [10, -3], [-5, 4]], {{\[\[}}-2, -3], [-1, 4], [-2, -3]]], {{\[\[}}[1, -3], [-5, 4], [1, -3]], {{\[\[}}-3, 4], [-2, -3], [-3, 4]]]]
  %dw = scrimp.conv2d_weight_grad %x, %dy strides [2, 1] pads [1, 0, 2, 1] dilations [1, 2] groups 2 : tensor<1x4x4x5xf32>, tensor<1x2x3x4xf32> -> tensor<2x2x3x2xf32>
  %p = scrimp.constant dense<[[[[-5.0, -4.0, -3.0, -2.0, -1.0], [0.0, 1.0, 2.0, 3.0, 4.0], [5.0, -5.0, -4.0, -3.0, -2.0], [-1.0, 0.0, 1.0, 2.0, 3.0]], [[4.0, 5.0, -5.0, -4.0, -3.0], [-2.0, -1.0, 0.0, 1.0, 2.0], [3.0, 4.0, 0x7FC00000, -5.0, -4.0], [-3.0, -2.0, -1.0, 0.0, 1.0]]]]> : tensor<1x2x4x5xf32>
  // p = ar(1,2,4,5,m=11,o=5), p[0,1,2,2] = nan: F.max_pool2d(p, (3,2), (1,2), (1,0), (1,2), return_indices=True)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}2, 4], [5, 4], [5, 4], [5, 3]], {{\[\[}}4, 2], [nan, nan], [nan, nan], [nan, nan]]]]
  // CHECK-NEXT: {{\[\[}}{{\[\[}}7, 9], [10, 9], [10, 9], [10, 19]], {{\[\[}}0, 9], [12, 12], [12, 12], [12, 12]]]]
  %v, %i = scrimp.max_pool2d %p kernel [3, 2] strides [1, 2] pads [1, 0, 1, 0] dilations [1, 2] : tensor<1x2x4x5xf32> -> tensor<1x2x4x2xf32>, tensor<1x2x4x2xi32>
  %g = scrimp.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 1.0]]]]> : tensor<1x1x2x3xf32>
  %iq = scrimp.constant dense<[[[[5, 2, 2], [5, 5, 11]]]]> : tensor<1x1x2x3xi32>
  // q = ar(1,1,3,4,m=3), g = ar(1,1,2,3,m=5,o=-1): the gradient of F.max_pool2d(q, 2, 1), where windows tie and overlap
  // CHECK-NEXT: {{\[\[}}{{\[\[}}0, 0, 5, 0], [0, 10, 0, 0], [0, 0, 0, 1]]]]
  %dq = scrimp.max_pool2d_grad %g, %iq kernel [2, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x1x2x3xf32>, tensor<1x1x2x3xi32> -> tensor<1x1x3x4xf32>
  %r = scrimp.constant dense<[[[[0.0, 36.0, 72.0, 108.0, 144.0], [180.0, 216.0, 252.0, 288.0, 0.0], [36.0, 72.0, 108.0, 144.0, 180.0], [216.0, 252.0, 288.0, 0.0, 36.0]]]]> : tensor<1x1x4x5xf32>
  // r = 36 * ar(1,1,4,5,m=9): F.avg_pool2d(r, 3, 2, 1, ceil_mode=True, count_include_pad=False)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}108, 162, 135], [162, 180, 108], [234, 180, 18]]]]
  %a = scrimp.avg_pool2d %r kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<1x1x4x5xf32> -> tensor<1x1x3x3xf32>
  %ga = scrimp.constant dense<[[[[0.0, 36.0, 72.0], [108.0, 0.0, 36.0], [72.0, 108.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  // and its gradient from 36 * ar(*shape,m=4)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}0, 6, 6, 24, 18], [18, 24, 6, 30, 24], [18, 18, 0, 6, 6], [54, 90, 36, 42, 6]]]]
  %da = scrimp.avg_pool2d_grad %ga kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<1x1x3x3xf32> -> tensor<1x1x4x5xf32>
  // r = 36 * ar(1,1,4,5,m=9): F.avg_pool2d(r, 3, 2, 1, ceil_mode=True, count_include_pad=True)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}48, 108, 60], [108, 180, 72], [78, 90, 6]]]]
  %b = scrimp.avg_pool2d %r kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] {count_include_pad} : tensor<1x1x4x5xf32> -> tensor<1x1x3x3xf32>
  %gb = scrimp.constant dense<[[[[0.0, 36.0, 72.0], [108.0, 0.0, 36.0], [72.0, 108.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  // and its gradient from 36 * ar(*shape,m=4)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}0, 4, 4, 12, 8], [12, 16, 4, 16, 12], [12, 12, 0, 4, 4], [24, 42, 18, 22, 4]]]]
  %db = scrimp.avg_pool2d_grad %gb kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] {count_include_pad} : tensor<1x1x3x3xf32> -> tensor<1x1x4x5xf32>
  return %y, %dx, %dw, %v, %i, %dq, %a, %da, %b, %db : tensor<1x2x3x4xf32>, tensor<1x4x4x5xf32>, tensor<2x2x3x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xi32>, tensor<1x1x3x4xf32>, tensor<1x1x3x3xf32>, tensor<1x1x4x5xf32>, tensor<1x1x3x3xf32>, tensor<1x1x4x5xf32>
}
