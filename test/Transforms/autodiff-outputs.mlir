// RUN: scrimp-opt --scrimp-autodiff -verify-diagnostics %s | FileCheck %s

// Outputs and state updates beside the loss stay, and cost no gradient: the running sum depends on w but the loss does
// not depend on it. The parameter that only it reads has no gradient, so it is never updated.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    -> (tensor<f32> {scrimp.output = "loss"}, tensor<2xf32> {scrimp.updates = 2 : i64},
// CHECK-SAME:        tensor<f32> {scrimp.output = "loss_count"}, tensor<2xf32> {scrimp.gradient = "w"}) {
// CHECK-NEXT:    %[[ONES:.*]] = scrimp.constant dense<1.0
// CHECK-NEXT:    %[[LOSS:.*]] = scrimp.reduce sum, %[[W:.*]] [0]
// CHECK-NEXT:    %[[A:.*]] = scrimp.mul %[[W]], %{{.*}}
// CHECK-NEXT:    %[[S:.*]] = scrimp.add %{{.*}}, %[[A]]
// CHECK-NEXT:    return %[[LOSS]], %[[S]], %{{.*}}, %[[ONES]]

func.func @main(%w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                // expected-warning @below {{the loss does not depend on the trainable parameter 'scale': it gets no gradient and is never updated}}
                %scale: tensor<2xf32> {scrimp.name = "scale", scrimp.param = "trainable"},
                %state: tensor<2xf32> {scrimp.name = "s", scrimp.state},
                %count: tensor<f32> {scrimp.name = "count", scrimp.input = -1 : i64})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<2xf32> {scrimp.updates = 2 : i64},
        tensor<f32> {scrimp.output = "loss_count"}) {
  %loss = scrimp.reduce sum, %w [0] : tensor<2xf32> -> tensor<f32>
  %a = scrimp.mul %w, %scale : tensor<2xf32>
  %s = scrimp.add %state, %a : tensor<2xf32>
  return %loss, %s, %count : tensor<f32>, tensor<2xf32>, tensor<f32>
}
