// RUN: scrimp-opt --scrimp-derive-eval --split-input-file %s | FileCheck %s

// Evaluation keeps the loss and the outputs; what updates state goes, with the state and the scalars that only the
// updates read. Inputs and parameters stay, read or not.
// CHECK-LABEL: func.func @main
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[X:.*]]: tensor<2xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
// CHECK-SAME:    %[[W:.*]]: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"},
// CHECK-SAME:    %[[UNUSED:.*]]: tensor<3xf32> {scrimp.name = "unused", scrimp.param = "frozen"},
// CHECK-SAME:    %[[MEAN:.*]]: tensor<2xf32> {scrimp.name = "mean", scrimp.state})
// CHECK-SAME:    -> (tensor<f32> {scrimp.output = "loss"}) {
// CHECK-NEXT:    %[[P:.*]] = scrimp.mul %[[X]], %[[W]]
// CHECK-NEXT:    %[[C:.*]] = scrimp.sub %[[P]], %[[MEAN]]
// CHECK-NEXT:    %[[L:.*]] = scrimp.reduce sum, %[[C]]
// CHECK-NEXT:    return %[[L]]
func.func @main(%x: tensor<2xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                %unused: tensor<3xf32> {scrimp.name = "unused", scrimp.param = "frozen"},
                %mean: tensor<2xf32> {scrimp.name = "mean", scrimp.state},
                %count: tensor<i64> {scrimp.name = "count", scrimp.state},
                %step: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<2xf32> {scrimp.updates = 3 : i64},
        tensor<i64> {scrimp.updates = 4 : i64}) {
  %p = scrimp.mul %x, %w : tensor<2xf32>
  %c = scrimp.sub %p, %mean : tensor<2xf32>
  %loss = scrimp.reduce sum, %c [0] : tensor<2xf32> -> tensor<f32>
  %new_mean = scrimp.add %mean, %p : tensor<2xf32>
  %new_count = scrimp.add %count, %step : tensor<i64>
  return %loss, %new_mean, %new_count : tensor<f32>, tensor<2xf32>, tensor<i64>
}

// -----

// Dropout becomes its operand and its scalars go with it; batch_norm uses the running statistics.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[X:.*]]: tensor<4x2xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
// CHECK-NOT:     scrimp.scalar
// CHECK-NOT:     scrimp.updates
// CHECK-NOT:     scrimp.dropout
// CHECK-NOT:     scrimp.batch_norm
// CHECK:         scrimp.sub %[[X]], %{{.*}} : tensor<4x2xf32>
// CHECK:         %[[Y:.*]] = scrimp.add %{{.*}} : tensor<4x2xf32>
// CHECK-NEXT:    %[[L:.*]] = scrimp.reduce sum, %[[Y]] [0, 1]
// CHECK-NEXT:    return %[[L]] : tensor<f32>
func.func @main(%x: tensor<4x2xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %scale: tensor<2xf32> {scrimp.name = "bn.weight", scrimp.param = "trainable"},
                %bias: tensor<2xf32> {scrimp.name = "bn.bias", scrimp.param = "trainable"},
                %mean: tensor<2xf32> {scrimp.name = "bn.running_mean", scrimp.state},
                %var: tensor<2xf32> {scrimp.name = "bn.running_var", scrimp.state},
                %seed: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"},
                %step: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"},
                %base: tensor<i64> {scrimp.name = "sample_base", scrimp.scalar = "sample_base"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<2xf32> {scrimp.updates = 3 : i64},
        tensor<2xf32> {scrimp.updates = 4 : i64}) {
  %y:4 = scrimp.batch_norm %x, %scale, %bias, %mean, %var {epsilon = 1.0e-5 : f64}
    : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  %tenth = scrimp.constant dense<0.1> : tensor<2xf32>
  %most = scrimp.constant dense<0.9> : tensor<2xf32>
  %old_mean = scrimp.mul %mean, %most : tensor<2xf32>
  %batch_mean = scrimp.mul %y#1, %tenth : tensor<2xf32>
  %new_mean = scrimp.add %old_mean, %batch_mean : tensor<2xf32>
  %old_var = scrimp.mul %var, %most : tensor<2xf32>
  %batch_var = scrimp.mul %y#3, %tenth : tensor<2xf32>
  %new_var = scrimp.add %old_var, %batch_var : tensor<2xf32>
  %d = scrimp.dropout %y#0, %seed, %step, %base {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64}
    : tensor<4x2xf32>
  %loss = scrimp.reduce sum, %d [0, 1] : tensor<4x2xf32> -> tensor<f32>
  return %loss, %new_mean, %new_var : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
