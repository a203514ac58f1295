// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=2 --verify-diagnostics --split-input-file

func.func @product_of_means(%x: tensor<4x2xf32> {scrimp.input = 0}, %w: tensor<2x2xf32> {scrimp.param = "trainable"}) -> tensor<f32> {
  %y = scrimp.matmul %x, %w : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>
  %mean = scrimp.reduce sum, %y [0] : tensor<4x2xf32> -> tensor<2xf32>
  %g = scrimp.broadcast %mean : tensor<2xf32> -> tensor<4x2xf32> loc("mean")
  // expected-error@+1 {{'scrimp.mul' op cannot work on micro-batches: it reads 'mean', which is a sum over the whole batch that depends on parameters, beside single samples; use --micro-batches 1, or compute it for each sample}}
  %0 = scrimp.mul %y, %g : tensor<4x2xf32>
  %l = scrimp.reduce sum, %0 [0, 1] : tensor<4x2xf32> -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @per_sample(%x: tensor<4x2xf32> {scrimp.input = 0}) -> (tensor<4xf32> {scrimp.output = "losses"}) {
  // expected-error@+1 {{output 'losses' has a value for every sample, which micro-batches do not keep; return a sum or a mean of it, or use --micro-batches 1}}
  %l = scrimp.reduce sum, %x [1] : tensor<4x2xf32> -> tensor<4xf32>
  return %l : tensor<4xf32>
}

// -----

// expected-error@+1 {{a batch of 1 samples cannot be split into 2 micro-batches; use 1 at most}}
func.func @small(%x: tensor<1x2xf32> {scrimp.input = 0}) {
  return
}

// -----

// expected-error@+1 {{has no input with a batch dimension, so nothing to make micro-batches of; use --micro-batches 1}}
func.func @none(%x: tensor<1x2xf32>) {
  return
}
