// RUN: scrimp-opt --split-input-file --scrimp-autodiff %s | FileCheck %s

// Three slices are the whole: their gradients, whatever order they come in, are joined.
// CHECK-LABEL: func.func @train
// CHECK-NOT: scrimp.pad
// CHECK-DAG: %[[A:.*]] = scrimp.exp %{{.*}} : tensor<2x1xf32>
// CHECK-DAG: %[[B:.*]] = scrimp.exp %{{.*}} : tensor<2x3xf32>
// CHECK-DAG: %[[C:.*]] = scrimp.exp %{{.*}} : tensor<2x2xf32>
// CHECK: %[[DW:.*]] = scrimp.concat %[[A]], %[[B]], %[[C]] {dim = 1 : i64}
// CHECK: return %{{.*}}, %[[DW]]
func.func @main(%w: tensor<2x6xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %b = scrimp.slice %w [0, 1] [1, 1] : tensor<2x6xf32> -> tensor<2x3xf32>
  %c = scrimp.slice %w [0, 4] [1, 1] : tensor<2x6xf32> -> tensor<2x2xf32>
  %a = scrimp.slice %w [0, 0] [1, 1] : tensor<2x6xf32> -> tensor<2x1xf32>
  %ea = scrimp.exp %a : tensor<2x1xf32>
  %eb = scrimp.exp %b : tensor<2x3xf32>
  %ec = scrimp.exp %c : tensor<2x2xf32>
  %sa = scrimp.reduce sum, %ea [0, 1] : tensor<2x1xf32> -> tensor<f32>
  %sb = scrimp.reduce sum, %eb [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %sc = scrimp.reduce sum, %ec [0, 1] : tensor<2x2xf32> -> tensor<f32>
  %sum = scrimp.add %sa, %sb : tensor<f32>
  %loss = scrimp.add %sum, %sc : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// These overlap in column 2, and leave column 5 out.
// CHECK-LABEL: func.func @train
// CHECK: scrimp.pad
// CHECK: scrimp.pad
// CHECK-NOT: scrimp.concat
// CHECK: %[[DW:.*]] = scrimp.add
// CHECK: return %{{.*}}, %[[DW]]
func.func @main(%w: tensor<2x6xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %a = scrimp.slice %w [0, 0] [1, 1] : tensor<2x6xf32> -> tensor<2x3xf32>
  %b = scrimp.slice %w [0, 2] [1, 1] : tensor<2x6xf32> -> tensor<2x3xf32>
  %ea = scrimp.exp %a : tensor<2x3xf32>
  %eb = scrimp.exp %b : tensor<2x3xf32>
  %sa = scrimp.reduce sum, %ea [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %sb = scrimp.reduce sum, %eb [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %loss = scrimp.add %sa, %sb : tensor<f32>
  return %loss : tensor<f32>
}
