// RUN: scrimp-opt %s --pass-pipeline='builtin.module(func.func(scrimp-annotate-batch))' --verify-diagnostics --split-input-file | FileCheck %s

// A linear layer over samples: its output is split, the sums over them are partial, what is computed from sums alone is
// total where it is not linear.
// CHECK-LABEL: @linear
func.func @linear(%x: tensor<8x4xf32> {scrimp.input = 0}, %w: tensor<4x3xf32> {scrimp.param = "trainable"},
                  %g: tensor<8x3xf32> {scrimp.input = 0}) -> (tensor<4x3xf32>, tensor<1xf64>) {
  // CHECK: scrimp.transpose {{.*}}scrimp.batch = "invariant"
  %wt = scrimp.transpose %w [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  // CHECK: scrimp.matmul {{.*}}scrimp.batch = "split(0)"
  %y = scrimp.matmul %x, %wt {transpose_b} : tensor<8x4xf32>, tensor<3x4xf32> -> tensor<8x3xf32>
  // CHECK: scrimp.mul {{.*}}scrimp.batch = "split(0)"
  %l = scrimp.mul %y, %g : tensor<8x3xf32>
  // CHECK: scrimp.matmul {{.*}}scrimp.batch = "partial"
  %dw = scrimp.matmul %x, %l {transpose_a} : tensor<8x4xf32>, tensor<8x3xf32> -> tensor<4x3xf32>
  // CHECK: scrimp.neg {{.*}}scrimp.batch = "partial"
  %n = scrimp.neg %dw : tensor<4x3xf32>
  // CHECK: scrimp.mul {{.*}}scrimp.batch = "partial"
  %scaled = scrimp.mul %n, %w : tensor<4x3xf32>
  // CHECK: scrimp.add {{.*}}scrimp.batch = "total"
  %decayed = scrimp.add %scaled, %w : tensor<4x3xf32>
  %flat = scrimp.reshape %dw : tensor<4x3xf32> -> tensor<12xf32>
  // CHECK: scrimp.sum_squares {{.*}}scrimp.batch = "total"
  %s = scrimp.sum_squares %flat : tensor<12xf32> -> tensor<1xf64>
  return %decayed, %s : tensor<4x3xf32>, tensor<1xf64>
}

// -----

// The batch stays where it is through reshapes that merge it with others, as long as they keep its samples together.
// CHECK-LABEL: @places
func.func @places(%x: tensor<8x6x4xf32> {scrimp.input = 0}) {
  // CHECK: scrimp.reshape {{.*}}"split(0)"
  %0 = scrimp.reshape %x : tensor<8x6x4xf32> -> tensor<48x4xf32>
  // CHECK: scrimp.reshape {{.*}}"split(0)"
  %1 = scrimp.reshape %0 : tensor<48x4xf32> -> tensor<16x3x4xf32>
  // CHECK: scrimp.transpose {{.*}}"split(1)"
  %2 = scrimp.transpose %x [1, 0, 2] : tensor<8x6x4xf32> -> tensor<6x8x4xf32>
  // CHECK: scrimp.reshape {{.*}}"split(0, outer 6)"
  %3 = scrimp.reshape %2 : tensor<6x8x4xf32> -> tensor<48x4xf32>
  // CHECK: scrimp.concat {{.*}}"split(0, outer 2)"
  %4 = scrimp.concat %x, %x {dim = 0 : i64} : tensor<8x6x4xf32>, tensor<8x6x4xf32> -> tensor<16x6x4xf32>
  // CHECK: scrimp.slice {{.*}}"split(0)"
  %5 = scrimp.slice %4 [8, 0, 0] [1, 1, 1] : tensor<16x6x4xf32> -> tensor<8x6x4xf32>
  return
}

// -----

// A count of valid tokens depends on data alone, and every sample's loss is divided by it: it is computed once from the
// whole batch. The same count as an output alone would be a sum like any other.
// CHECK-LABEL: @masked
func.func @masked(%labels: tensor<8x5xi64> {scrimp.input = 0}, %x: tensor<8x5xf32> {scrimp.input = 0},
                  %w: tensor<f32> {scrimp.param = "trainable"}) -> (tensor<f32>, tensor<f32>, tensor<i64>) {
  %zero = scrimp.constant dense<0.0> : tensor<8x5xf32>
  %one = scrimp.constant dense<1.0> : tensor<8x5xf32>
  %ignored = scrimp.constant dense<-100> : tensor<8x5xi64>
  %valid = scrimp.compare ne, %labels, %ignored : tensor<8x5xi64> -> tensor<8x5xi1>
  // CHECK: scrimp.select {{.*}}"split(0)"
  %counted = scrimp.select %valid, %one, %zero : tensor<8x5xf32>
  // CHECK: scrimp.reduce {{.*}}"whole"
  %count = scrimp.reduce sum, %counted [0, 1] : tensor<8x5xf32> -> tensor<f32>
  // CHECK: scrimp.broadcast {{.*}}"invariant"
  %ws = scrimp.broadcast %w : tensor<f32> -> tensor<8x5xf32>
  %y = scrimp.mul %x, %ws : tensor<8x5xf32>
  %sum = scrimp.reduce sum, %y [0, 1] : tensor<8x5xf32> -> tensor<f32>
  // CHECK: scrimp.div {{.*}}"partial"
  %loss = scrimp.div %sum, %count : tensor<f32>
  // CHECK: scrimp.broadcast {{.*}}"invariant"
  %counts = scrimp.broadcast %count : tensor<f32> -> tensor<8x5xf32>
  // CHECK: scrimp.div {{.*}}"split(0)"
  %g = scrimp.div %x, %counts : tensor<8x5xf32>
  // CHECK: scrimp.reduce {{.*}}"partial"
  %dw = scrimp.reduce sum, %g [0, 1] : tensor<8x5xf32> -> tensor<f32>
  // CHECK: scrimp.reduce {{.*}}"partial"
  %total = scrimp.reduce sum, %labels [0, 1] : tensor<8x5xi64> -> tensor<i64>
  return %loss, %dw, %total : tensor<f32>, tensor<f32>, tensor<i64>
}

// -----

// Normalization by the statistics of the data is whole; samples then read it beside their own part.
// CHECK-LABEL: @data_statistics
func.func @data_statistics(%x: tensor<8x3xf32> {scrimp.input = 0}) {
  // CHECK: scrimp.reduce {{.*}}"whole"
  %most = scrimp.reduce max, %x [0] : tensor<8x3xf32> -> tensor<3xf32>
  // CHECK: scrimp.broadcast {{.*}}"invariant"
  %0 = scrimp.broadcast %most : tensor<3xf32> -> tensor<8x3xf32>
  // CHECK: scrimp.sub {{.*}}"split(0)"
  %1 = scrimp.sub %x, %0 : tensor<8x3xf32>
  // CHECK: scrimp.cumsum {{.*}}"whole"
  %2 = scrimp.cumsum %1 {dim = 0 : i64} : tensor<8x3xf32>
  // CHECK: scrimp.cumsum {{.*}}"split(0)"
  %3 = scrimp.cumsum %1 {dim = 1 : i64} : tensor<8x3xf32>
  return
}

// -----

// A product of means over the batch is computed from sums, but its gradient needs them while samples are processed.
func.func @product_of_means(%x: tensor<4x2xf32> {scrimp.input = 0}, %w: tensor<2x2xf32> {scrimp.param = "trainable"}) {
  %y = scrimp.matmul %x, %w : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>
  %mean = scrimp.reduce sum, %y [0] : tensor<4x2xf32> -> tensor<2xf32> loc("mean")
  %squares = scrimp.mul %mean, %mean : tensor<2xf32>
  %g = scrimp.broadcast %mean : tensor<2xf32> -> tensor<4x2xf32> loc("mean_grad")
  // expected-remark@+1 {{it reads 'mean_grad', which is a sum over the whole batch that depends on parameters, beside single samples}}
  %0 = scrimp.mul %y, %g : tensor<4x2xf32>
  return
}

// -----

func.func @mixing(%x: tensor<4x3x2x2xf32> {scrimp.input = 0, scrimp.name = "image"}, %w: tensor<3xf32> {scrimp.param = "trainable"}) {
  // expected-remark@+1 {{it needs dimension 0 of 'image', where the batch is, as a whole (--batch-stats per-micro-batch gives each part statistics of its own)}}
  %y:4 = scrimp.batch_norm %x, %w, %w, %w, %w {epsilon = 1.0e-2 : f64}
      : (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: scrimp.relu {{.*}}"mixed"
  %0 = scrimp.relu %y#0 : tensor<4x3x2x2xf32>
  return
}

// -----

func.func @contrast(%x: tensor<4x3xf32> {scrimp.input = 0}, %w: tensor<3x3xf32> {scrimp.param = "trainable"}) {
  %y = scrimp.matmul %x, %w : tensor<4x3xf32>, tensor<3x3xf32> -> tensor<4x3xf32> loc("embedding")
  // expected-remark@+1 {{it combines every sample with every other: the batch is dimension 0 of 'embedding' and dimension 0 of 'embedding'}}
  %s = scrimp.matmul %y, %y {transpose_b} : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x4xf32>
  return
}

// -----

// Draws belong to samples: along another dimension nothing can be cut.
// CHECK-LABEL: @random
func.func @random(%x: tensor<4x6xf32> {scrimp.input = 0}, %w: tensor<6xf32> {scrimp.param = "trainable"}, %s: tensor<i64> {scrimp.scalar = "seed"}) {
  %ws = scrimp.broadcast %w : tensor<6xf32> -> tensor<4x6xf32>
  %y = scrimp.mul %x, %ws : tensor<4x6xf32> loc("y")
  // CHECK: scrimp.dropout {{.*}}"split(0)"
  %0 = scrimp.dropout %y, %s, %s, %s {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5} : tensor<4x6xf32>
  // expected-remark@+1 {{it needs dimension 0 of 'y', where the batch is, as a whole}}
  %1 = scrimp.dropout %y, %s, %s, %s {key = 2 : i64, batch_dim = -1 : i64, samples = 1 : i64, p = 0.5} : tensor<4x6xf32>
  return
}
