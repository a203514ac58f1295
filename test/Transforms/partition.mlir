// RUN: scrimp-opt --split-input-file --scrimp-partition=world=2 --canonicalize --cse %s | FileCheck %s
// RUN: scrimp-opt --split-input-file --scrimp-partition=world=1 %s | FileCheck %s --check-prefix=ONE

// A masked mean: the count is added up over the ranks before samples are weighed with it, the loss as soon as it is there; the
// gradient stays what the rank adds to it.
// ONE-NOT: rank
// CHECK-LABEL: func.func @mean(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x3xf64> {scrimp.input = 0 : i64, scrimp.name = "x"}
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2xf64> {scrimp.input = 0 : i64, scrimp.name = "m"}
// CHECK-SAME: tensor<i64> {scrimp.name = "rank", scrimp.scalar = "rank"}
// CHECK:      %[[COUNT:.*]] = scrimp.reduce sum, %[[M]] [0]
// CHECK-NEXT: %[[START:.*]] = scrimp.all_reduce sum, %[[COUNT]] world 2 per_step
// CHECK-NEXT: %[[ALL:.*]] = scrimp.wait %[[START]]
// CHECK-NEXT: %[[PART:.*]] = scrimp.div %{{.*}}, %[[ALL]]
// CHECK-NEXT: %[[SUM:.*]] = scrimp.all_reduce sum, %[[PART]] world 2 per_step
// CHECK-NEXT: %[[LOSS:.*]] = scrimp.wait %[[SUM]]
// CHECK:      %[[G:.*]] = scrimp.matmul %{{.*}}, %[[X]] : tensor<1x2xf64>, tensor<2x3xf64> -> tensor<1x3xf64>
// CHECK-NEXT: %[[GW:.*]] = scrimp.reshape %[[G]]
// CHECK-NEXT: return %[[LOSS]], %[[GW]]
func.func @mean(%x: tensor<4x3xf64> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %m: tensor<4xf64> {scrimp.input = 0 : i64, scrimp.name = "m"},
                %w: tensor<3xf64> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f64> {scrimp.output = "loss"}, tensor<3xf64> {scrimp.gradient = "w"}) {
  %wb = scrimp.broadcast %w : tensor<3xf64> -> tensor<4x3xf64>
  %xw = scrimp.mul %x, %wb : tensor<4x3xf64>
  %y = scrimp.reduce sum, %xw [1] : tensor<4x3xf64> -> tensor<4xf64>
  %ym = scrimp.mul %y, %m : tensor<4xf64>
  %n = scrimp.reduce sum, %ym [0] : tensor<4xf64> -> tensor<f64>
  %d = scrimp.reduce sum, %m [0] : tensor<4xf64> -> tensor<f64>
  %loss = scrimp.div %n, %d : tensor<f64>
  %one = scrimp.constant dense<1.0> : tensor<f64>
  %r = scrimp.div %one, %d : tensor<f64>
  %rb = scrimp.broadcast %r : tensor<f64> -> tensor<4xf64>
  %gy = scrimp.mul %rb, %m : tensor<4xf64>
  %gyr = scrimp.reshape %gy : tensor<4xf64> -> tensor<1x4xf64>
  %g = scrimp.matmul %gyr, %x : tensor<1x4xf64>, tensor<4x3xf64> -> tensor<1x3xf64>
  %gw = scrimp.reshape %g : tensor<1x3xf64> -> tensor<3xf64>
  return %loss, %gw : tensor<f64>, tensor<3xf64>
}

// -----

// Every sample with every other, as contrastive losses have it: each rank gathers the others' samples, which are dimension 1
// of x, and computes the product whole; of what is the same on all ranks it takes its rows. What all ranks know is in the
// sum once.
// CHECK-LABEL: func.func @pairs(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<3x2xf32>
// CHECK-SAME: %[[RANK:[a-z0-9]+]]: tensor<i64> {scrimp.name = "rank"
// CHECK:      %[[FIRST:.*]] = scrimp.transpose %{{.*}} [1, 0, 2]
// CHECK-NEXT: %[[ROWS:.*]] = scrimp.reshape %[[FIRST]] : {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: %[[START:.*]] = scrimp.all_gather %[[ROWS]] world 2 : tensor<2x3xf32> -> tensor<4x3xf32>
// CHECK-NEXT: %[[ALL:.*]] = scrimp.wait %[[START]]
// CHECK:      %[[P:.*]] = scrimp.matmul %{{.*}} : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<4x4xf32>
// CHECK:      scrimp.gather {{.*}} -> tensor<2x4xf32>
// CHECK:      scrimp.all_reduce sum
// CHECK:      %[[IS:.*]] = scrimp.compare eq, %[[RANK]], %{{.*}}
// CHECK:      scrimp.select
func.func @pairs(%x: tensor<3x4xf32> {scrimp.input = 1 : i64, scrimp.name = "x"},
                 %y: tensor<4x4xf32> {scrimp.input = 0 : i64, scrimp.name = "y"},
                 %w: tensor<3xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<3xf32> {scrimp.gradient = "w"}) {
  %p = scrimp.matmul %x, %x {transpose_a} : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<4x4xf32>
  %s = scrimp.mul %p, %y : tensor<4x4xf32>
  %loss = scrimp.reduce sum, %s [0, 1] : tensor<4x4xf32> -> tensor<f32>
  %g = scrimp.mul %w, %w : tensor<3xf32>
  return %loss, %g : tensor<f32>, tensor<3xf32>
}

// -----

// Draws are those of the whole batch: the rank's samples begin at sample_base.
// CHECK-LABEL: func.func @draws(
// CHECK-SAME: %[[BASE:[a-z0-9]+]]: tensor<i64> {scrimp.name = "sample_base"
// CHECK:      scrimp.dropout %{{.*}}, %{{.*}}, %{{.*}}, %[[BASE]] {{.*}} samples = 2 : i64} : tensor<2x3xf32>
func.func @draws(%x: tensor<4x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                 %seed: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"},
                 %step: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"},
                 %base: tensor<i64> {scrimp.name = "sample_base", scrimp.scalar = "sample_base"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %y = scrimp.dropout %x, %seed, %step, %base {key = 7 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.25 : f64} : tensor<4x3xf32>
  %loss = scrimp.reduce sum, %y [0, 1] : tensor<4x3xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Three samples on two ranks: the first has two, the second one and an empty place, which loss and gradient leave out. What all
// need whole is gathered without it.
// CHECK-LABEL: func.func @uneven(
// CHECK-SAME: tensor<2x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"}
// CHECK-SAME: %[[VALID:[a-z0-9]+]]: tensor<i64> {scrimp.name = "valid_samples"
// CHECK-SAME: %[[BASE:[a-z0-9]+]]: tensor<i64> {scrimp.name = "sample_base"
// CHECK-DAG:  %[[END:.*]] = scrimp.add %[[VALID]], %[[BASE]]
// CHECK-DAG:  scrimp.iota
// CHECK:      scrimp.compare lt, %{{.*}}, %{{.*}} : tensor<2xi64>
// CHECK:      %[[ALL:.*]] = scrimp.wait %{{.*}} : tensor<4x3xf32>
// CHECK:      scrimp.concat
// CHECK:      tensor<3x3xf32>
func.func @uneven(%x: tensor<3x3xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                  %valid: tensor<i64> {scrimp.name = "valid_samples", scrimp.scalar = "valid_samples"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<3x3xf32> {scrimp.output = "all"}) {
  %i = scrimp.iota {dim = 0 : i64} : tensor<3xi64>
  %v = scrimp.broadcast %valid : tensor<i64> -> tensor<3xi64>
  %is = scrimp.compare lt, %i, %v : tensor<3xi64> -> tensor<3xi1>
  %r = scrimp.reshape %is : tensor<3xi1> -> tensor<3x1xi1>
  %b = scrimp.broadcast %r : tensor<3x1xi1> -> tensor<3x3xi1>
  %zero = scrimp.constant dense<0.0> : tensor<3x3xf32>
  %s = scrimp.select %b, %x, %zero : tensor<3x3xf32>
  %loss = scrimp.reduce sum, %s [0, 1] : tensor<3x3xf32> -> tensor<f32>
  return %loss, %s : tensor<f32>, tensor<3x3xf32>
}
