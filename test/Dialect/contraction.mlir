// RUN: scrimp-run --typed %s | FileCheck %s

// Products of 16-bit operands are exact and summed in f32: (1 + 1/16)^2 - 1 - 1/8 = 1/256, which rounding a product or a
// partial sum to bf16 would lose. The result is that, or rounded once.
func.func @main() -> (tensor<1x1xf32>, tensor<1x1xbf16>, tensor<1x1xf32>, tensor<1x1xbf16>, tensor<1x1x1x1xf32>, tensor<1x1xbf16>, tensor<1x1xf32>, tensor<1xf32>) {
  %a = scrimp.constant dense<[[1.0625, -1.0, -0.125]]> : tensor<1x3xbf16>
  %b = scrimp.constant dense<[[1.0625], [1.0], [1.0]]> : tensor<3x1xbf16>
  // CHECK: {{\[}}[0.00390625]]
  %wide = scrimp.matmul %a, %b : tensor<1x3xbf16>, tensor<3x1xbf16> -> tensor<1x1xf32>
  // CHECK-NEXT: {{\[}}[0.00390625]]
  %narrow = scrimp.matmul %a, %b : tensor<1x3xbf16>, tensor<3x1xbf16> -> tensor<1x1xbf16>
  // Added to 256 in f32; in bf16, where 256 has steps of 2, the sum rounds back.
  %c = scrimp.constant dense<256.0> : tensor<1x1xf32>
  // CHECK-NEXT: {{\[}}[256.003906]]
  %onto = scrimp.matmul %a, %b onto(%c : tensor<1x1xf32>) : tensor<1x3xbf16>, tensor<3x1xbf16> -> tensor<1x1xf32>
  %d = scrimp.constant dense<256.0> : tensor<1x1xbf16>
  // CHECK-NEXT: {{\[}}[256]]
  %rounded = scrimp.matmul %a, %b onto(%d : tensor<1x1xbf16>) : tensor<1x3xbf16>, tensor<3x1xbf16> -> tensor<1x1xbf16>
  %x = scrimp.reshape %a : tensor<1x3xbf16> -> tensor<1x3x1x1xbf16>
  %w = scrimp.reshape %b : tensor<3x1xbf16> -> tensor<1x3x1x1xbf16>
  // CHECK-NEXT: 0.00390625
  %conv = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x3x1x1xbf16>, tensor<1x3x1x1xbf16> -> tensor<1x1x1x1xf32>
  // 256 + 1 is no bf16, and with another 1 there is nothing to round.
  %one = scrimp.constant dense<1.0> : tensor<1xbf16>
  %ones = scrimp.constant dense<1.0> : tensor<1x1xbf16>
  // CHECK-NEXT: {{\[}}[258]]
  %once = scrimp.linear %ones, %ones plus(%d : tensor<1x1xbf16>) bias(%one : tensor<1xbf16>) : tensor<1x1xbf16>, tensor<1x1xbf16> -> tensor<1x1xbf16>
  // The sums over k are of operands, not of products.
  // CHECK-NEXT: {{\[}}[0.00390625]]
  // CHECK-NEXT: [3.0625]
  %product, %sums = scrimp.linear %a, %b sums b : tensor<1x3xbf16>, tensor<3x1xbf16> -> tensor<1x1xf32>, tensor<1xf32>
  return %wide, %narrow, %onto, %rounded, %conv, %once, %product, %sums
    : tensor<1x1xf32>, tensor<1x1xbf16>, tensor<1x1xf32>, tensor<1x1xbf16>, tensor<1x1x1x1xf32>, tensor<1x1xbf16>, tensor<1x1xf32>, tensor<1xf32>
}
