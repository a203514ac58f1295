// RUN: scrimp-opt %s "--pass-pipeline=builtin.module(scrimp-autodiff,scrimp-optimizer{kind=sgd},canonicalize,cse,scrimp-form-kernels,func.func(scrimp-schedule),scrimp-plan-memory)" | FileCheck %s

// The gradient of each factor is the other, whose bytes an update overwrites: both are copied, and no pass folds that
// away. That everybody reads what the graph means is verified by the plan.
// CHECK: scrimp.plan
func.func @main(%w: tensor<4xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                %b: tensor<4xf32> {scrimp.name = "b", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %p = scrimp.mul %w, %b : tensor<4xf32>
  %s = scrimp.reduce sum, %p [0] : tensor<4xf32> -> tensor<f32>
  return %s : tensor<f32>
}
