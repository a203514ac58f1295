// RUN: scrimp-opt --scrimp-widen-library-ops %s | FileCheck %s

// Sums of bf16 are kept in f32 and rounded once; other ops stay.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME:    %[[X:.*]]: tensor<4x3xbf16>, %[[W:.*]]: tensor<3x5xbf16>)
// CHECK-NEXT:    %[[X32:.*]] = scrimp.cast %[[X]] : tensor<4x3xbf16> -> tensor<4x3xf32>
// CHECK-NEXT:    %[[W32:.*]] = scrimp.cast %[[W]] : tensor<3x5xbf16> -> tensor<3x5xf32>
// CHECK-NEXT:    %[[Y32:.*]] = scrimp.matmul %[[X32]], %[[W32]] : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    %[[Y:.*]] = scrimp.cast %[[Y32]] : tensor<4x5xf32> -> tensor<4x5xbf16>
// CHECK-NEXT:    %[[Z:.*]] = scrimp.tanh %[[Y]] : tensor<4x5xbf16>
// CHECK-NEXT:    return %[[Y]], %[[Z]]
func.func @narrow(%x: tensor<4x3xbf16>, %w: tensor<3x5xbf16>) -> (tensor<4x5xbf16>, tensor<4x5xbf16>) {
  %y = scrimp.matmul %x, %w : tensor<4x3xbf16>, tensor<3x5xbf16> -> tensor<4x5xbf16>
  %z = scrimp.tanh %y : tensor<4x5xbf16>
  return %y, %z : tensor<4x5xbf16>, tensor<4x5xbf16>
}

// CHECK-LABEL: func.func @wide(
// CHECK-NOT:     scrimp.cast
func.func @wide(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %y = scrimp.matmul %x, %w : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
