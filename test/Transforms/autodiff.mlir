// RUN: scrimp-opt --scrimp-autodiff %s --mlir-print-debuginfo=false | FileCheck %s
// RUN: scrimp-opt --scrimp-autodiff %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// loss = sum((x W + b) ^ 2) with W trainable, b frozen: dW = x^T (2 y), where the square's two operands add up. The
// frozen bias costs nothing: no reduction of its gradient.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x3xf32> {scrimp.input
// CHECK-SAME:    -> (tensor<f32> {scrimp.output = "loss"}, tensor<3x4xf32> {scrimp.gradient = "w"})
// CHECK:         %[[Y:.*]] = scrimp.add
// CHECK-NEXT:    %[[SQUARE:.*]] = scrimp.mul %[[Y]], %[[Y]]
// CHECK-NEXT:    %[[LOSS:.*]] = scrimp.reduce sum, %[[SQUARE]] [0, 1]
// CHECK-NEXT:    %[[TWO:.*]] = scrimp.add %[[Y]], %[[Y]]
// CHECK-NEXT:    %[[DW:.*]] = scrimp.matmul %[[X]], %[[TWO]] {transpose_a}
// CHECK-NEXT:    return %[[LOSS]], %[[DW]]

// What the backward pass adds is marked, and keeps the forward op's place.
// LOC: scrimp.matmul {{.*}} {transpose_a} {{.*}} loc(#[[G:.*]])
// LOC: #[[L:.*]] = loc("/head/MatMul")
// LOC: #[[G]] = loc(fused<"gradient">[#[[L]]])
func.func @main(%x: tensor<2x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<3x4xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                %b: tensor<4xf32> {scrimp.name = "b", scrimp.param = "frozen"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %p = scrimp.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32> loc("/head/MatMul")
  %bias = scrimp.broadcast %b : tensor<4xf32> -> tensor<2x4xf32>
  %y = scrimp.add %p, %bias : tensor<2x4xf32>
  %square = scrimp.mul %y, %y : tensor<2x4xf32>
  %loss = scrimp.reduce sum, %square [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
