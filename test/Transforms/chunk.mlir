// RUN: scrimp-opt %s --scrimp-chunk=rules=head=4 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-chunk=rules=head=3 --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=THREE

// A head and the loss after it, forward and backward in one loop: the logits of 8 tokens never exist. The gradient of the
// weight and the loss are added up; of the gradient of its input, each chunk writes its tokens.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK-NOT:     tensor<8x16xf32>
// CHECK:         %[[H:.*]] = scrimp.tanh %[[X]]
// CHECK:         %[[R:.*]]:3 = scrimp.accumulate 4 shared({{.*}}) split({{.*}} along {{.*}}) init(%{{.*}} : tensor<f32>, tensor<4x16xf32>, tensor<8x4xf32>)
// CHECK:           scrimp.matmul {{.*}} tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
// CHECK:           scrimp.cross_entropy {{.*}} tensor<2x16xf32>
// CHECK:           scrimp.cross_entropy_grad
// CHECK:           scrimp.scatter_add {{.*}} onto(
// CHECK:           scrimp.yield
// CHECK:         %[[DX:.*]] = scrimp.mul %[[H]], %[[R]]#2
// CHECK:         return %[[R]]#0, %[[R]]#1, %[[DX]]
// THREE-LABEL: func.func @train
// THREE:         scrimp.accumulate 2 {{.*}}
// THREE:           tensor<3x16xf32>
// THREE:         scrimp.accumulate 1 {{.*}}
// THREE:           tensor<2x16xf32>
func.func @train(%x: tensor<8x4xf32> {scrimp.input = 0, scrimp.name = "x"},
                 %labels: tensor<8xi64> {scrimp.input = 0, scrimp.name = "labels"},
                 %w: tensor<4x16xf32> {scrimp.param = "trainable", scrimp.name = "w"}) -> (tensor<f32> {scrimp.output = "loss"}, tensor<4x16xf32> {scrimp.gradient = "w"}, tensor<8x4xf32> {scrimp.gradient = "x"}) {
  %h = scrimp.tanh %x : tensor<8x4xf32> loc("body/tanh")
  %y = scrimp.matmul %h, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32> loc("head/linear")
  %l, %lse = scrimp.cross_entropy %y, %labels {ignore_index = -100} : tensor<8x16xf32>, tensor<8xi64> -> tensor<8xf32> loc("loss")
  %loss = scrimp.reduce sum, %l [0] : tensor<8xf32> -> tensor<f32> loc("loss")
  %one = scrimp.constant dense<1.0> : tensor<8xf32>
  %dy = scrimp.cross_entropy_grad %y, %labels, %lse, %one {ignore_index = -100} : tensor<8x16xf32>, tensor<8xi64>, tensor<8xf32> loc("loss")
  %dw = scrimp.matmul %h, %dy {transpose_a} : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("head/linear")
  %dh = scrimp.matmul %dy, %w {transpose_b} : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32> loc("head/linear")
  %dx = scrimp.mul %h, %dh : tensor<8x4xf32> loc("body/tanh")
  return %loss, %dw, %dx : tensor<f32>, tensor<4x16xf32>, tensor<8x4xf32>
}

// -----

// A part whose gradient comes from elsewhere: two loops, and the one of the backward pass makes the hidden values again.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK-NOT:     tensor<8x16xf32>
// CHECK:         %[[Y:.*]] = scrimp.accumulate 4 {{.*}} init(%{{.*}} : tensor<8x4xf32>)
// CHECK:           scrimp.matmul {{.*}} -> tensor<2x16xf32>
// CHECK:           scrimp.tanh {{.*}} : tensor<2x16xf32>
// CHECK:         scrimp.matmul %{{.*}}, %[[Y]] : tensor<8x8xf32>, tensor<8x4xf32>
// CHECK:         scrimp.accumulate 4 {{.*}} init(%{{.*}}, %{{.*}} : tensor<16x4xf32>, tensor<4x16xf32>)
// CHECK:           scrimp.matmul {{.*}} -> tensor<2x16xf32>
// CHECK:           scrimp.tanh {{.*}} : tensor<2x16xf32>
// CHECK:           scrimp.matmul {{.*}} {transpose_a} : tensor<2x16xf32>, tensor<2x4xf32> -> tensor<16x4xf32>
func.func @train(%x: tensor<8x4xf32> {scrimp.input = 0, scrimp.name = "x"},
                 %w: tensor<4x16xf32> {scrimp.param = "trainable", scrimp.name = "w"},
                 %v: tensor<16x4xf32> {scrimp.param = "trainable", scrimp.name = "v"},
                 %m: tensor<8x8xf32> {scrimp.param = "frozen", scrimp.name = "m"}) -> (tensor<f32> {scrimp.output = "loss"}, tensor<4x16xf32> {scrimp.gradient = "w"}, tensor<16x4xf32> {scrimp.gradient = "v"}) {
  %h = scrimp.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32> loc("head/up")
  %t = scrimp.tanh %h : tensor<8x16xf32> loc("head/tanh")
  %y = scrimp.matmul %t, %v : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32> loc("head/down")
  %z = scrimp.matmul %m, %y : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32> loc("mix/linear")
  %squares = scrimp.mul %z, %z : tensor<8x4xf32> loc("loss")
  %loss = scrimp.reduce sum, %squares [0, 1] : tensor<8x4xf32> -> tensor<f32> loc("loss")
  %dz = scrimp.add %z, %z : tensor<8x4xf32> loc("loss")
  %dy = scrimp.matmul %m, %dz {transpose_a} : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32> loc("mix/linear")
  %dv = scrimp.matmul %t, %dy {transpose_a} : tensor<8x16xf32>, tensor<8x4xf32> -> tensor<16x4xf32> loc("head/down")
  %dt = scrimp.matmul %dy, %v {transpose_b} : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32> loc("head/down")
  %dh = scrimp.mul %dt, %t : tensor<8x16xf32> loc("head/tanh")
  %dw = scrimp.matmul %x, %dh {transpose_a} : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("head/up")
  return %loss, %dw, %dv : tensor<f32>, tensor<4x16xf32>, tensor<16x4xf32>
}

// -----

// A running statistic is computed in its own bytes, so its update stays outside, although features could be split.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[S:[a-z0-9]+]]: tensor<8xf32> {scrimp.name = "s"
// CHECK:         %[[R:.*]]:2 = scrimp.accumulate 4
// CHECK-NOT:       scrimp.mul {{.*}}f32>
// CHECK:           scrimp.yield
// CHECK:         %[[OLD:.*]] = scrimp.mul %[[S]], %{{.*}} : tensor<8xf32>
// CHECK:         %[[NEW:.*]] = scrimp.add %[[OLD]], %[[R]]#{{[01]}} : tensor<8xf32>
// CHECK:         return %{{.*}}, %[[NEW]]
func.func @train(%x: tensor<1x8xf32> {scrimp.input = 0, scrimp.name = "x"},
                 %s: tensor<8xf32> {scrimp.state, scrimp.name = "s"}) -> (tensor<f32> {scrimp.output = "loss"}, tensor<8xf32> {scrimp.updates = 1}) {
  %t = scrimp.tanh %x : tensor<1x8xf32> loc("head/tanh")
  %loss = scrimp.reduce sum, %t [0, 1] : tensor<1x8xf32> -> tensor<f32> loc("loss/sum")
  %m = scrimp.reduce sum, %t [0] : tensor<1x8xf32> -> tensor<8xf32> loc("head/mean")
  %share = scrimp.constant dense<0.9> : tensor<8xf32>
  %old = scrimp.mul %s, %share : tensor<8xf32> loc("head/old")
  %new = scrimp.add %old, %m : tensor<8xf32> loc("head/new")
  return %loss, %new : tensor<f32>, tensor<8xf32>
}
