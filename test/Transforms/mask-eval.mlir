// RUN: scrimp-opt --scrimp-derive-eval --scrimp-mask-eval --canonicalize --cse --split-input-file %s | FileCheck %s

// A mean over samples: what is summed is 0 from sample valid_samples on.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: %[[VALID:[a-z0-9]+]]: tensor<i64> {scrimp.name = "valid_samples", scrimp.scalar = "valid_samples"}
// CHECK-DAG:  %[[INDEX:.*]] = scrimp.iota {dim = 0 : i64} : tensor<4xi64>
// CHECK-DAG:  %[[END:.*]] = scrimp.broadcast %[[VALID]] : tensor<i64> -> tensor<4xi64>
// CHECK:      %[[INSIDE:.*]] = scrimp.compare lt, %[[INDEX]], %[[END]]
// CHECK:      %[[COLUMN:.*]] = scrimp.reshape %[[INSIDE]] : tensor<4xi1> -> tensor<4x1xi1>
// CHECK:      %[[BOTH:.*]] = scrimp.broadcast %[[COLUMN]] : tensor<4x1xi1> -> tensor<4x3xi1>
// CHECK:      %[[KEPT:.*]] = scrimp.select %[[BOTH]], %{{.*}}, %{{.*}} : tensor<4x3xf32>
// CHECK:      %[[SUM:.*]] = scrimp.reduce sum, %[[KEPT]] [0, 1]
// CHECK:      scrimp.div %[[SUM]], %{{.*}}
func.func @main(%x: tensor<4x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<3xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %twelve = scrimp.constant dense<12.0> : tensor<f32>
  %ws = scrimp.broadcast %w : tensor<3xf32> -> tensor<4x3xf32>
  %y = scrimp.mul %x, %ws : tensor<4x3xf32>
  %sum = scrimp.reduce sum, %y [0, 1] : tensor<4x3xf32> -> tensor<f32>
  %loss = scrimp.div %sum, %twelve : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// One sum over samples divided by another, as a loss with a mask of its own: both become outputs, both are masked. Two
// rows belong to a sample.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: -> (tensor<f32> {scrimp.output = "loss"}, tensor<f32> {scrimp.output = "loss_sum"},
// CHECK-SAME:     tensor<f32> {scrimp.output = "loss_count"})
// CHECK:      %[[ROW:.*]] = scrimp.iota {dim = 0 : i64} : tensor<8xi64>
// CHECK:      scrimp.div %[[ROW]], %{{.*}} : tensor<8xi64>
// CHECK:      %[[SUM:.*]] = scrimp.reduce sum
// CHECK:      %[[COUNT:.*]] = scrimp.reduce sum
// CHECK:      %[[LOSS:.*]] = scrimp.div %[[SUM]], %[[COUNT]]
// CHECK:      return %[[LOSS]], %[[SUM]], %[[COUNT]]
func.func @main(%x: tensor<4x2xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %m: tensor<4x2xf32> {scrimp.input = 0 : i64, scrimp.name = "m"},
                %w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %ws = scrimp.broadcast %w : tensor<f32> -> tensor<4x2xf32>
  %y = scrimp.mul %x, %ws : tensor<4x2xf32>
  %masked = scrimp.mul %y, %m : tensor<4x2xf32>
  %rows = scrimp.reshape %masked : tensor<4x2xf32> -> tensor<8xf32>
  %weights = scrimp.reshape %m : tensor<4x2xf32> -> tensor<8xf32>
  %sum = scrimp.reduce sum, %rows [0] : tensor<8xf32> -> tensor<f32>
  %count = scrimp.reduce sum, %weights [0] : tensor<8xf32> -> tensor<f32>
  %loss = scrimp.div %sum, %count : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Every sample with every other: no sum over samples, so whole batches only.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: valid_samples
func.func @main(%x: tensor<4x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<3x3xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %y = scrimp.matmul %x, %w : tensor<4x3xf32>, tensor<3x3xf32> -> tensor<4x3xf32>
  %pairs = scrimp.matmul %y, %x {transpose_b} : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x4xf32>
  %loss = scrimp.reduce sum, %pairs [0, 1] : tensor<4x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The largest of the samples' losses is no sum either.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: valid_samples
func.func @main(%x: tensor<4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<4xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %y = scrimp.mul %x, %w : tensor<4xf32>
  %loss = scrimp.reduce max, %y [0] : tensor<4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Each sample's loss is weighted by a mean over all samples: the empty places would be in it.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: valid_samples
func.func @main(%x: tensor<4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %total = scrimp.reduce sum, %x [0] : tensor<4xf32> -> tensor<f32>
  %each = scrimp.broadcast %total : tensor<f32> -> tensor<4xf32>
  %share = scrimp.div %x, %each : tensor<4xf32>
  %ws = scrimp.broadcast %w : tensor<f32> -> tensor<4xf32>
  %y = scrimp.mul %share, %ws : tensor<4xf32>
  %loss = scrimp.reduce sum, %y [0] : tensor<4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
