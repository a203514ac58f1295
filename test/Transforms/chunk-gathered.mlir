// What ranks have shared out is gathered once before a loop, not for each chunk of it. The loop of the backward pass, which makes
// the hidden values again, does not keep what the forward pass has gathered: it gathers once more.
// RUN: scrimp-opt %s --scrimp-chunk=rules=head=4 --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[P:[a-z0-9]+]]: tensor<32xf32>
// CHECK:         %[[START:.*]] = scrimp.all_gather %[[P]] world 2 use 0
// CHECK:         %[[W:.*]] = scrimp.wait %[[START]]
// CHECK:         scrimp.accumulate 4 shared({{.*}}%[[W]]{{.*}})
// CHECK-NOT:     scrimp.all_gather
// CHECK:         %[[Y:.*]] = scrimp.matmul %{{.*}} : tensor<8x8xf32>, tensor<8x4xf32>
// CHECK:         %[[AGAIN:.*]] = scrimp.all_gather %[[P]] world 2 use 1
// CHECK:         %[[V:.*]] = scrimp.wait %[[AGAIN]]
// CHECK-NOT:     shared({{.*}}%[[W]]
// CHECK:         scrimp.accumulate 4 shared({{.*}}%[[V]]
// CHECK-NOT:     scrimp.all_gather
// CHECK:         return
func.func @train(%x: tensor<8x4xf32> {scrimp.input = 0, scrimp.name = "x"},
                 %p: tensor<32xf32> {scrimp.param = "trainable", scrimp.name = "p"},
                 %m: tensor<8x8xf32> {scrimp.param = "frozen", scrimp.name = "m"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<4x16xf32> {scrimp.gradient = "w"}) {
  %start = scrimp.all_gather %p world 2 use 0 : tensor<32xf32> -> tensor<64xf32>
  %whole = scrimp.wait %start : tensor<64xf32>
  %w = scrimp.view %whole at 0 : tensor<64xf32> -> tensor<4x16xf32>
  %h = scrimp.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32> loc("head/up")
  %t = scrimp.tanh %h : tensor<8x16xf32> loc("head/tanh")
  %y = scrimp.matmul %t, %w {transpose_b} : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32> loc("head/down")
  %z = scrimp.matmul %m, %y : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32> loc("mix/linear")
  %squares = scrimp.mul %z, %z : tensor<8x4xf32> loc("loss")
  %loss = scrimp.reduce sum, %squares [0, 1] : tensor<8x4xf32> -> tensor<f32> loc("loss")
  %dz = scrimp.add %z, %z : tensor<8x4xf32> loc("loss")
  %dy = scrimp.matmul %m, %dz {transpose_a} : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32> loc("mix/linear")
  %dv = scrimp.matmul %dy, %t {transpose_a} : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("head/down")
  %dt = scrimp.matmul %dy, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32> loc("head/down")
  %dh = scrimp.mul %dt, %t : tensor<8x16xf32> loc("head/tanh")
  %dw = scrimp.matmul %x, %dh {transpose_a} : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("head/up")
  %sum = scrimp.add %dv, %dw : tensor<4x16xf32> loc("head/up")
  return %loss, %sum : tensor<f32>, tensor<4x16xf32>
}
