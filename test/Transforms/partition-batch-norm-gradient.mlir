// RUN: scrimp-opt "--scrimp-partition=world=2 batch-stats=global" --canonicalize --cse %s | FileCheck %s

// Of 5 samples the first rank has 3, the second 2 and an empty place, which is no part of a sum.
// CHECK:     %[[COUNT:.*]] = scrimp.constant dense<2.000000e+01> : tensor<3xf32>
// CHECK-NOT: scrimp.all_gather
// CHECK:     %[[X:.*]] = scrimp.select %[[HOLDS:.*]], %[[H:.*]], %{{.*}} : tensor<3x3x4xf32>
// CHECK:     scrimp.reduce sum, %[[X]] [0, 2] : tensor<3x3x4xf32> -> tensor<3xf32>
// CHECK:     scrimp.div %{{.*}}, %[[COUNT]] : tensor<3xf32>
// CHECK:     scrimp.sqrt
// What a rank adds to the gradients of scale and bias is that rank's; the sums over all are exchanged at once, for x's, which
// is nothing in an empty place.
// CHECK:     %[[SCALE:.*]] = scrimp.reduce sum, %{{.*}} [0, 2] : tensor<3x3x4xf32> -> tensor<3xf32>
// CHECK:     %[[BIAS:.*]] = scrimp.reduce sum, %{{.*}} [0, 2] : tensor<3x3x4xf32> -> tensor<3xf32>
// CHECK:     %[[BOTH:.*]] = scrimp.concat %[[SCALE]], %[[BIAS]]
// CHECK:     scrimp.all_reduce sum, %[[BOTH]] world 2 per_step : tensor<6xf32>
// CHECK:     %[[DX:.*]] = scrimp.select %[[HOLDS]]
// CHECK:     %[[W:.*]] = scrimp.reduce sum, %[[DX]] [0] : tensor<3x3x4xf32> -> tensor<3x4xf32>
// CHECK:     return %{{.*}}, %[[W]], %[[SCALE]], %[[BIAS]]
func.func @train(%x: tensor<5x3x4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                 %w: tensor<3x4xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                 %scale: tensor<3xf32> {scrimp.name = "scale", scrimp.param = "trainable"},
                 %valid: tensor<i64> {scrimp.name = "valid_samples", scrimp.scalar = "valid_samples"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<3x4xf32> {scrimp.gradient = "w"}, tensor<3xf32> {scrimp.gradient = "scale"},
        tensor<3xf32> {scrimp.gradient = "bias"}) {
  %ws = scrimp.broadcast %w : tensor<3x4xf32> -> tensor<5x3x4xf32>
  %h = scrimp.mul %x, %ws : tensor<5x3x4xf32>
  %y:4 = scrimp.batch_norm %h, %scale, %scale, %scale, %scale {epsilon = 1.0e-2 : f64}
      : (tensor<5x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<5x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %dh:3 = scrimp.batch_norm_grad %x, %h, %scale, %y#1, %y#2
      : (tensor<5x3x4xf32>, tensor<5x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<5x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %dw = scrimp.reduce sum, %dh#0 [0] : tensor<5x3x4xf32> -> tensor<3x4xf32>
  %loss = scrimp.reduce sum, %y#0 [0, 1, 2] : tensor<5x3x4xf32> -> tensor<f32>
  return %loss, %dw, %dh#1, %dh#2 : tensor<f32>, tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>
}
