// RUN: scrimp-opt %s --split-input-file --scrimp-stream-inputs | FileCheck %s
// RUN: scrimp-opt %s --split-input-file --scrimp-form-kernels --scrimp-stream-inputs --scrimp-plan-memory | FileCheck %s --check-prefix=PLAN

// Five samples in pieces of two, two, one. What the second loop reads begins at sample 4; @eval takes one at a time.
// Everybody else gets inputs whole: @mean reads y outside of a loop, and z is read twice.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %arg0: tensor<5x4xf32> {scrimp.input = 0 : i64, scrimp.name = "x", scrimp.streamed}
// CHECK-SAME: %arg1: tensor<5xf32> {scrimp.input = 0 : i64, scrimp.name = "y"}
// CHECK-SAME: %arg2: tensor<5xf32> {scrimp.input = 0 : i64, scrimp.name = "z"}
// CHECK: scrimp.accumulate 2 split(%{{.*}}, %{{.*}}, %{{.*}} along [0, 0, 0] {{.*}} attributes {filled = array<i64: 0>}
// CHECK: scrimp.accumulate 1 split(%{{.*}} along [0] {{.*}} attributes {filled = array<i64: 0>}
// CHECK-LABEL: func.func @eval
// CHECK-SAME: scrimp.name = "x", scrimp.streamed
// CHECK: attributes {filled = array<i64: 0>}

// y, z and two outputs take 64 bytes each, a piece of x 2 * 16 rounded up to as many, among what only a step needs; x itself
// takes none.
// PLAN: {bytes = 320 : i64, name = "inputs", offset = 0 : i64}
// PLAN-SAME: transient_offset = 256
func.func @train(%x: tensor<5x4xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                 %y: tensor<5xf32> {scrimp.name = "y", scrimp.input = 0 : i64},
                 %z: tensor<5xf32> {scrimp.name = "z", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.output = "sum"}, tensor<f32> {scrimp.output = "loss"}) {
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %flat = scrimp.reshape %x : tensor<5x4xf32> -> tensor<20xf32>
  %head = scrimp.view %flat at 0 : tensor<20xf32> -> tensor<4x4xf32>
  %tail = scrimp.view %flat at 16 : tensor<20xf32> -> tensor<1x4xf32>
  %yh = scrimp.view %y at 0 : tensor<5xf32> -> tensor<4xf32>
  %zh = scrimp.view %z at 0 : tensor<5xf32> -> tensor<4xf32>
  %a = scrimp.accumulate 2 split(%head, %yh, %zh along [0, 0, 0] : tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) init(%zero : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %p: tensor<2x4xf32>, %q: tensor<2xf32>, %r: tensor<2xf32>, %s: tensor<4xf32>):
    %row = scrimp.reduce sum, %p [0] : tensor<2x4xf32> -> tensor<4xf32>
    %n = scrimp.add %s, %row : tensor<4xf32>
    scrimp.yield %n : tensor<4xf32>
  }
  %b = scrimp.accumulate 1 split(%tail along [0] : tensor<1x4xf32>) init(%a : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %p: tensor<1x4xf32>, %s: tensor<4xf32>):
    %row = scrimp.reduce sum, %p [0] : tensor<1x4xf32> -> tensor<4xf32>
    %n = scrimp.add %s, %row : tensor<4xf32>
    scrimp.yield %n : tensor<4xf32>
  }
  %c = scrimp.accumulate 2 split(%zh along [0] : tensor<4xf32>) init(%b : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %p: tensor<2xf32>, %s: tensor<4xf32>):
    %row = scrimp.concat %p, %p {dim = 0 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
    %n = scrimp.add %s, %row : tensor<4xf32>
    scrimp.yield %n : tensor<4xf32>
  }
  %mean = scrimp.reduce sum, %y [0] : tensor<5xf32> -> tensor<f32>
  return %c, %mean : tensor<4xf32>, tensor<f32>
}
func.func @eval(%x: tensor<5x4xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.output = "sum"}) {
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %a = scrimp.accumulate 5 split(%x along [0] : tensor<5x4xf32>) init(%zero : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %p: tensor<1x4xf32>, %s: tensor<4xf32>):
    %row = scrimp.reduce sum, %p [0] : tensor<1x4xf32> -> tensor<4xf32>
    %n = scrimp.add %s, %row : tensor<4xf32>
    scrimp.yield %n : tensor<4xf32>
  }
  return %a : tensor<4xf32>
}

// -----

// What one function reads whole is whole in all.
// CHECK-LABEL: func.func @train
// CHECK-NOT: scrimp.streamed
// CHECK-NOT: filled
func.func @train(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<2xf32> {scrimp.output = "sum"}) {
  %zero = scrimp.constant dense<0.0> : tensor<2xf32>
  %a = scrimp.accumulate 2 split(%x along [0] : tensor<4xf32>) init(%zero : tensor<2xf32>) {
  ^bb0(%i: tensor<i64>, %p: tensor<2xf32>, %s: tensor<2xf32>):
    %n = scrimp.add %s, %p : tensor<2xf32>
    scrimp.yield %n : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}
func.func @eval(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<f32> {scrimp.output = "mean"}) {
  %a = scrimp.reduce sum, %x [0] : tensor<4xf32> -> tensor<f32>
  return %a : tensor<f32>
}
