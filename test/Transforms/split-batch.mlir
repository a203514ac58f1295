// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=2 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=3 --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=THREE
// RUN: scrimp-opt %s '--scrimp-split-batch=micro-batches=2 accumulate=bf16' --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=NARROW

// Accumulators in 16 bits, where that is asked for: the sum is made in f32 and rounded. A single number stays.
// NARROW: scrimp.accumulate 2 {{.*}} init(%{{.*}} : tensor<f32>, tensor<5x3xbf16>)
// NARROW:   %[[DW:.*]] = scrimp.matmul {{.*}} {transpose_a}
// NARROW:   %[[WIDE:.*]] = scrimp.cast %{{.*}} : tensor<5x3xbf16> -> tensor<5x3xf32>
// NARROW:   %[[SUM:.*]] = scrimp.add %[[WIDE]], %[[DW]] : tensor<5x3xf32>
// NARROW:   %[[LOW:.*]] = scrimp.cast %[[SUM]] : tensor<5x3xf32> -> tensor<5x3xbf16>
// NARROW:   scrimp.yield %{{.*}}, %[[LOW]]

// A masked mean: the count of the whole batch comes before the loop. In it the parts of 4 samples, whose masks are made
// from their part of the labels; after it the norm and the update, of the complete gradient.
// CHECK-LABEL: func.func @train
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x5xf32> {scrimp.input{{.*}} %[[LABELS:[a-z0-9]+]]: tensor<8xi64> {scrimp.input{{.*}} %[[W:[a-z0-9]+]]: tensor<5x3xf32>
// CHECK:         %[[COUNT:.*]] = scrimp.reduce sum, %{{.*}} [0] : tensor<8xf32> -> tensor<f32>
// CHECK:         %[[SUMS:.*]]:2 = scrimp.accumulate 2 shared(%{{.*}} : {{.*}}) split(%{{.*}} along [0, 0] : {{.*}}) init(%{{.*}} : tensor<f32>, tensor<5x3xf32>)
// CHECK:           scrimp.matmul %{{.*}} : tensor<4x5xf32>, tensor<5x3xf32> -> tensor<4x3xf32>
// CHECK:           scrimp.cross_entropy {{.*}} tensor<4x3xf32>, tensor<4xi64>
// CHECK:           %[[DW:.*]] = scrimp.matmul {{.*}} {transpose_a} : tensor<4x5xf32>, tensor<4x3xf32> -> tensor<5x3xf32>
// CHECK:           %[[SUM:.*]] = scrimp.add %{{.*}}, %[[DW]] : tensor<5x3xf32>
// CHECK:           scrimp.yield %{{.*}}, %[[SUM]]
// CHECK:         %[[LOSS:.*]] = scrimp.div %[[SUMS]]#0, %[[COUNT]]
// CHECK:         scrimp.sum_squares
// CHECK:         %[[NEW:.*]] = scrimp.sub %[[W]],
// CHECK:         return %[[LOSS]], %{{.*}}, %[[NEW]]

// Three parts of 8 samples: 3 + 3 + 2, the last in a loop of its own that goes on with the same sums. Its inputs are
// views of the batch's bytes.
// THREE:  %[[FIRST:.*]]:2 = scrimp.accumulate 2 {{.*}} init(
// THREE:    scrimp.matmul {{.*}} tensor<3x5xf32>
// THREE:  scrimp.view %{{.*}} at 30 : tensor<40xf32> -> tensor<2x5xf32>
// THREE:  %[[SECOND:.*]]:2 = scrimp.accumulate 1 {{.*}} init(%[[FIRST]]#0, %[[FIRST]]#1
// THREE:    scrimp.matmul {{.*}} tensor<2x5xf32>
// THREE:  scrimp.div %[[SECOND]]#0
func.func @train(%x: tensor<8x5xf32> {scrimp.input = 0, scrimp.name = "x"},
                 %labels: tensor<8xi64> {scrimp.input = 0, scrimp.name = "labels"},
                 %w: tensor<5x3xf32> {scrimp.param = "trainable", scrimp.name = "w"}) -> (tensor<f32>, tensor<1xf64>, tensor<5x3xf32>) {
  %zero = scrimp.constant dense<0.0> : tensor<8xf32>
  %one = scrimp.constant dense<1.0> : tensor<8xf32>
  %ignored = scrimp.constant dense<-100> : tensor<8xi64>
  %valid = scrimp.compare ne, %labels, %ignored : tensor<8xi64> -> tensor<8xi1>
  %counted = scrimp.select %valid, %one, %zero : tensor<8xf32>
  %count = scrimp.reduce sum, %counted [0] : tensor<8xf32> -> tensor<f32>
  %y = scrimp.matmul %x, %w : tensor<8x5xf32>, tensor<5x3xf32> -> tensor<8x3xf32>
  %l, %lse = scrimp.cross_entropy %y, %labels {ignore_index = -100} : tensor<8x3xf32>, tensor<8xi64> -> tensor<8xf32>
  %sum = scrimp.reduce sum, %l [0] : tensor<8xf32> -> tensor<f32>
  %loss = scrimp.div %sum, %count : tensor<f32>
  %unit = scrimp.constant dense<1.0> : tensor<f32>
  %g = scrimp.div %unit, %count : tensor<f32>
  %gs = scrimp.broadcast %g : tensor<f32> -> tensor<8xf32>
  %dy = scrimp.cross_entropy_grad %y, %labels, %lse, %gs {ignore_index = -100} : tensor<8x3xf32>, tensor<8xi64>, tensor<8xf32>
  %dw = scrimp.matmul %x, %dy {transpose_a} : tensor<8x5xf32>, tensor<8x3xf32> -> tensor<5x3xf32>
  %flat = scrimp.reshape %dw : tensor<5x3xf32> -> tensor<15xf32>
  %norm = scrimp.sum_squares %flat : tensor<15xf32> -> tensor<1xf64>
  %lr = scrimp.constant dense<0.1> : tensor<5x3xf32>
  %step = scrimp.mul %dw, %lr : tensor<5x3xf32>
  %new = scrimp.sub %w, %step : tensor<5x3xf32>
  return %loss, %norm, %new : tensor<f32>, tensor<1xf64>, tensor<5x3xf32>
}

// -----

// Both gradients of a tied parameter add up in the loop: one accumulator. That of the second is the smaller of the two
// factors' gradients, so the product stays in the loop as well.
// CHECK-LABEL: func.func @tied
// CHECK:         scrimp.accumulate 2 {{.*}} init(%{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x1xf32>)
func.func @tied(%x: tensor<8x4xf32> {scrimp.input = 0}, %w: tensor<4x4xf32> {scrimp.param = "trainable"},
                %b: tensor<4x1xf32> {scrimp.param = "trainable"}) -> (tensor<4x4xf32>, tensor<4x1xf32>) {
  %y = scrimp.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %z = scrimp.matmul %y, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %d1 = scrimp.matmul %y, %z {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %d2 = scrimp.matmul %x, %z {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %dw = scrimp.add %d1, %d2 : tensor<4x4xf32>
  %big = scrimp.matmul %x, %y {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %db = scrimp.matmul %big, %b : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x1xf32>
  return %dw, %db : tensor<4x4xf32>, tensor<4x1xf32>
}

// -----

// What all samples share is computed once, what is made for each sample only for the part: a broadcast, the positions
// along the batch, and masks drawn by the sample's index in the whole batch. A table along the batch is read in parts.
// CHECK-LABEL: func.func @parts
// CHECK-SAME:    %[[T:[a-z0-9]+]]: tensor<8x4xf32> {scrimp.name = "table"
// CHECK:         scrimp.tanh %{{.*}} : tensor<4xf32>
// CHECK:         scrimp.accumulate 2 {{.*}} split(%[[T]], %{{.*}} along [0, 0] :
// CHECK-NEXT:    ^bb0(%[[I:[a-z0-9]+]]: tensor<i64>
// CHECK:           %[[BEGIN:.*]] = scrimp.mul %[[I]], %{{.*}} : tensor<i64>
// CHECK-DAG:       scrimp.broadcast %{{.*}} : tensor<4xf32> -> tensor<4x4xf32>
// CHECK-DAG:       %[[BASE:.*]] = scrimp.add %{{.*}}, %[[BEGIN]] : tensor<i64>
// CHECK:           scrimp.dropout {{.*}}, %[[BASE]] {{.*}}samples = 4 : i64{{.*}} tensor<4x4xf32>
func.func @parts(%x: tensor<8x4xf32> {scrimp.input = 0}, %w: tensor<4xf32> {scrimp.param = "trainable"},
                 %table: tensor<8x4xf32> {scrimp.name = "table", scrimp.param = "frozen"},
                 %s: tensor<i64> {scrimp.scalar = "seed"}) -> tensor<f32> {
  %t = scrimp.tanh %w : tensor<4xf32>
  %ws = scrimp.broadcast %t : tensor<4xf32> -> tensor<8x4xf32>
  %y = scrimp.mul %x, %ws : tensor<8x4xf32>
  %i = scrimp.iota {dim = 0 : i64} : tensor<8x4xf32>
  %z = scrimp.mul %y, %i : tensor<8x4xf32>
  %d = scrimp.dropout %z, %s, %s, %s {key = 1 : i64, batch_dim = 0 : i64, samples = 8 : i64, p = 0.5} : tensor<8x4xf32>
  %v = scrimp.add %d, %table : tensor<8x4xf32>
  %l = scrimp.reduce sum, %v [0, 1] : tensor<8x4xf32> -> tensor<f32>
  return %l : tensor<f32>
}
