// Dropout between the probabilities and the values becomes the attention's own and draws the same; in evaluation it is
// gone, and neither form holds a tensor of the scores, forward or backward.
// RUN: scrimp-opt %s --scrimp-raise-idioms --canonicalize | FileCheck %s
// RUN: scrimp-opt %s --scrimp-raise-idioms --scrimp-derive-eval --scrimp-autodiff --canonicalize | FileCheck %s --check-prefix=TRAIN
// RUN: scrimp-opt %s --scrimp-raise-idioms --scrimp-derive-eval --canonicalize | FileCheck %s --check-prefix=EVAL

// As transformers' GPT-2 and BERT write it, causal, and with the guard of scaled_dot_product_attention.
// CHECK-LABEL: @main(
// CHECK-NOT: tensor<2x4x6x6xf32>
// CHECK: scrimp.attention {{.*}} dropout(%arg3, %arg4, %arg5) {causal, key = 5 : i64, p = 1.000000e-01 : f64, samples = 2 : i64, scale = 2.500000e-01 : f64}
// CHECK-NOT: tensor<2x4x6x6xf32>
// CHECK: return
// TRAIN-LABEL: @train(
// TRAIN-NOT: 6x6xf32
// TRAIN: scrimp.attention_grad {{.*}} dropout(%{{.*}}, %{{.*}}, %{{.*}}) {causal, key = 5 : i64, p = 1.000000e-01 : f64, samples = 2 : i64,
// TRAIN-NOT: 6x6xf32
// EVAL-LABEL: @eval(
// EVAL-NOT: seed
// EVAL: scrimp.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} {causal, scale = 2.500000e-01 : f64}
// EVAL: return
func.func @main(%q: tensor<2x4x6x8xf32> {scrimp.name = "q", scrimp.param = "trainable"}, %k: tensor<2x4x6x8xf32> {scrimp.name = "k", scrimp.param = "trainable"}, %v: tensor<2x4x6x8xf32> {scrimp.name = "v", scrimp.param = "trainable"}, %seed: tensor<i64> {scrimp.scalar = "seed"}, %step: tensor<i64> {scrimp.scalar = "step"}, %base: tensor<i64> {scrimp.scalar = "sample_base"}) -> (tensor<f32> {scrimp.output = "loss"}) {
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32> -> tensor<2x4x6x6xf32>
  %quarter = scrimp.constant dense<0.25> : tensor<2x4x6x6xf32>
  %scaled = scrimp.mul %s, %quarter : tensor<2x4x6x6xf32>
  %i = scrimp.iota {dim = 2 : i64} : tensor<2x4x6x6xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<2x4x6x6xi64>
  %sees = scrimp.compare le, %j, %i : tensor<2x4x6x6xi64> -> tensor<2x4x6x6xi1>
  %infinity = scrimp.constant dense<0xFF800000> : tensor<2x4x6x6xf32>
  %sm = scrimp.select %sees, %scaled, %infinity : tensor<2x4x6x6xf32>
  %p = scrimp.softmax %sm : tensor<2x4x6x6xf32>
  %nan = scrimp.compare ne, %p, %p : tensor<2x4x6x6xf32> -> tensor<2x4x6x6xi1>
  %zero = scrimp.constant dense<0.0> : tensor<2x4x6x6xf32>
  %guarded = scrimp.select %nan, %zero, %p : tensor<2x4x6x6xf32>
  %d = scrimp.dropout %guarded, %seed, %step, %base {key = 5 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.1 : f64} : tensor<2x4x6x6xf32>
  %y = scrimp.matmul %d, %v : tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32> -> tensor<2x4x6x8xf32>
  %loss = scrimp.reduce sum, %y [0, 1, 2, 3] : tensor<2x4x6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// As torch.nn.MultiheadAttention writes it: the heads are in the batch, so a sample is four of its members.
// CHECK-LABEL: @heads_in_the_batch(
// CHECK: scrimp.attention {{.*}} dropout({{.*}}) {key = 6 : i64, p = 5.000000e-01 : f64, samples = 2 : i64, scale = 1.000000e+00 : f64} : tensor<8x1x3x8xf32>
func.func @heads_in_the_batch(%q: tensor<8x3x8xf32>, %k: tensor<8x3x8xf32>, %v: tensor<8x3x8xf32>, %s: tensor<i64>) -> tensor<8x3x8xf32> {
  %scores = scrimp.matmul %q, %k {transpose_b} : tensor<8x3x8xf32>, tensor<8x3x8xf32> -> tensor<8x3x3xf32>
  %p = scrimp.softmax %scores : tensor<8x3x3xf32>
  %d = scrimp.dropout %p, %s, %s, %s {key = 6 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.5 : f64} : tensor<8x3x3xf32>
  %y = scrimp.matmul %d, %v : tensor<8x3x3xf32>, tensor<8x3x8xf32> -> tensor<8x3x8xf32>
  return %y : tensor<8x3x8xf32>
}

// Of no sample (a batch that the data do not have): no samples.
// CHECK-LABEL: @no_sample(
// CHECK: scrimp.attention {{.*}} dropout({{.*}}) {key = 7 : i64, p = 5.000000e-01 : f64, scale = 1.000000e+00 : f64}
func.func @no_sample(%q: tensor<8x3x8xf32>, %s: tensor<i64>) -> tensor<8x3x8xf32> {
  %scores = scrimp.matmul %q, %q {transpose_b} : tensor<8x3x8xf32>, tensor<8x3x8xf32> -> tensor<8x3x3xf32>
  %p = scrimp.softmax %scores : tensor<8x3x3xf32>
  %d = scrimp.dropout %p, %s, %s, %s {key = 7 : i64, batch_dim = -1 : i64, samples = 1 : i64, p = 0.5 : f64} : tensor<8x3x3xf32>
  %y = scrimp.matmul %d, %q : tensor<8x3x3xf32>, tensor<8x3x8xf32> -> tensor<8x3x8xf32>
  return %y : tensor<8x3x8xf32>
}
