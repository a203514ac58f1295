// RUN: scrimp-opt %s --scrimp-mixed-precision --canonicalize --cse | FileCheck %s

// A mask that is added to scores stays finite where it is: its least f32 is no number of 16 bits, and softmax would make
// NaN of a row of infinities. What is infinite stays so. Scores that are only scaled are rounded as ever.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %[[MASK:[a-z0-9]+]]: tensor<4x4xf32> {scrimp.input = 0
// CHECK:       %[[INFINITY:.*]] = scrimp.constant dense<0x7F800000> : tensor<4x4xf32>
// CHECK:       %[[SCORES:.*]] = scrimp.add %{{.*}}, %[[MASK]] : tensor<4x4xf32>
// CHECK-NEXT:  %[[SIZE:.*]] = scrimp.abs %[[SCORES]] : tensor<4x4xf32>
// CHECK-NEXT:  %[[FINITE:.*]] = scrimp.compare lt, %[[SIZE]], %[[INFINITY]] : tensor<4x4xf32> -> tensor<4x4xi1>
// CHECK-NEXT:  %[[BOUNDED:.*]] = scrimp.clip %[[SCORES]] {high = 3.389{{.*}} : f64, low = -3.389{{.*}} : f64} : tensor<4x4xf32>
// CHECK-NEXT:  %[[STORED:.*]] = scrimp.select %[[FINITE]], %[[BOUNDED]], %[[SCORES]] : tensor<4x4xf32>
// CHECK-NEXT:  %[[LOW:.*]] = scrimp.cast %[[STORED]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK-NEXT:  scrimp.softmax %[[LOW]]
// CHECK-NOT:   scrimp.clip
func.func @main(%mask: tensor<4x4xf32> {scrimp.name = "mask", scrimp.input = 0 : i64},
                %x: tensor<4x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %w: tensor<8x4xf32> {scrimp.name = "w", scrimp.param = "frozen"},
                %v: tensor<4x2xf32> {scrimp.name = "v", scrimp.param = "frozen"}) -> (tensor<f32> {scrimp.output = "loss"}) {
  %s = scrimp.matmul %x, %w : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %half = scrimp.constant dense<0.5> : tensor<4x4xf32>
  %scaled = scrimp.mul %s, %half : tensor<4x4xf32>
  %q = scrimp.softmax %scaled : tensor<4x4xf32>
  %scores = scrimp.add %s, %mask : tensor<4x4xf32>
  %p = scrimp.softmax %scores : tensor<4x4xf32>
  %both = scrimp.add %p, %q : tensor<4x4xf32>
  %y = scrimp.matmul %both, %v : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %loss = scrimp.reduce sum, %y [0, 1] : tensor<4x2xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
