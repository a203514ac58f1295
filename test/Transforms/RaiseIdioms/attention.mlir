// RUN: scrimp-opt %s --scrimp-raise-idioms --cse | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-13

// As PyTorch's exporter writes scaled_dot_product_attention at opset 18: the root of the scale on both sides, the keys
// transposed between reshapes, a causal mask as a constant, NaN replaced by 0. 0.5 * 0.5 is the scale.
// CHECK-LABEL: @exported(
// CHECK-NEXT: %[[OUT:.*]], %{{.*}} = scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 2.500000e-01 : f64}
// CHECK-NEXT: return %[[OUT]]
func.func @exported(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %root = scrimp.constant dense<0.5> : tensor<2x4x3x8xf32>
  %qs = scrimp.mul %q, %root : tensor<2x4x3x8xf32>
  %k3 = scrimp.reshape %k : tensor<2x4x3x8xf32> -> tensor<8x3x8xf32>
  %kt3 = scrimp.transpose %k3 [0, 2, 1] : tensor<8x3x8xf32> -> tensor<8x8x3xf32>
  %kt = scrimp.reshape %kt3 : tensor<8x8x3xf32> -> tensor<2x4x8x3xf32>
  %roott = scrimp.constant dense<0.5> : tensor<2x4x8x3xf32>
  %ks = scrimp.mul %kt, %roott : tensor<2x4x8x3xf32>
  %s = scrimp.matmul %qs, %ks : tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32> -> tensor<2x4x3x3xf32>
  %m = scrimp.constant dense<[[[[0.0, -3.40282347E+38, -3.40282347E+38], [0.0, 0.0, -3.40282347E+38], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %mask = scrimp.broadcast %m : tensor<1x1x3x3xf32> -> tensor<2x4x3x3xf32>
  %sm = scrimp.add %s, %mask : tensor<2x4x3x3xf32>
  %p = scrimp.softmax %sm : tensor<2x4x3x3xf32>
  %nan = scrimp.compare ne, %p, %p : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xi1>
  %zero = scrimp.constant dense<0.0> : tensor<2x4x3x3xf32>
  %pz = scrimp.select %nan, %zero, %p : tensor<2x4x3x3xf32>
  %y = scrimp.matmul %pz, %v : tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// A padding mask [b,1,1,s] that the exporter spread over heads and queries stays a mask of that shape; it is additive,
// since -3.4e38 in all of a row means something else than hiding all of it.
// CHECK-LABEL: @padding(
// CHECK-DAG: %[[ZERO:.*]] = scrimp.constant dense<0.000000e+00> : tensor<2x1x1x3xf32>
// CHECK-DAG: %[[HIDDEN:.*]] = scrimp.constant dense<-3.40282347E+38> : tensor<2x1x1x3xf32>
// CHECK: %[[MASK:.*]] = scrimp.select %arg3, %[[ZERO]], %[[HIDDEN]] : tensor<2x1x1x3xf32>
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 mask(%[[MASK]] : tensor<2x1x1x3xf32>) {scale = 5.000000e-01 : f64}
func.func @padding(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %keep: tensor<2x1x1x3xi1>) -> tensor<2x4x3x8xf32> {
  %half = scrimp.constant dense<0.5> : tensor<2x4x3x3xf32>
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x3xf32>
  %ss = scrimp.mul %s, %half : tensor<2x4x3x3xf32>
  %all = scrimp.constant dense<true> : tensor<2x1x3x3xi1>
  %keeps = scrimp.broadcast %keep : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %both = scrimp.and %all, %keeps : tensor<2x1x3x3xi1>
  %zero = scrimp.constant dense<0.0> : tensor<2x1x3x3xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<2x1x3x3xf32>
  %m = scrimp.select %both, %zero, %lowest : tensor<2x1x3x3xf32>
  %mask = scrimp.broadcast %m : tensor<2x1x3x3xf32> -> tensor<2x4x3x3xf32>
  %sm = scrimp.add %ss, %mask : tensor<2x4x3x3xf32>
  %p = scrimp.softmax %sm : tensor<2x4x3x3xf32>
  %y = scrimp.matmul %p, %v : tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// Scores selected by a causal comparison of indices, with a division by the root of the width.
// CHECK-LABEL: @selected(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 2.500000e-01 : f64}
func.func @selected(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x3x8xf32> {
  %four = scrimp.constant dense<4.0> : tensor<2x4x3x5xf32>
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32> -> tensor<2x4x3x5xf32>
  %ss = scrimp.div %s, %four : tensor<2x4x3x5xf32>
  %i = scrimp.iota {dim = 2 : i64, start = 2.0 : f64} : tensor<2x4x3x5xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<2x4x3x5xi64>
  %hidden = scrimp.compare gt, %j, %i : tensor<2x4x3x5xi64> -> tensor<2x4x3x5xi1>
  %infinity = scrimp.constant dense<0xFF800000> : tensor<2x4x3x5xf32>
  %sm = scrimp.select %hidden, %infinity, %ss : tensor<2x4x3x5xf32>
  %p = scrimp.softmax %sm : tensor<2x4x3x5xf32>
  %y = scrimp.matmul %p, %v : tensor<2x4x3x5xf32>, tensor<2x4x5x8xf32> -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// A mask that hides one key more than the causal one stays a mask, of the shape in which it differs.
// CHECK-LABEL: @nearly_causal(
// CHECK: %[[MASK:.*]] = scrimp.constant dense<{{.*}}> : tensor<1x1x3x3xi1>
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%[[MASK]] : tensor<1x1x3x3xi1>) {scale = 1.000000e+00 : f64}
func.func @nearly_causal(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x3xf32>
  %m = scrimp.constant dense<[[true, false, false], [true, true, false], [true, false, true]]> : tensor<3x3xi1>
  %keep = scrimp.broadcast %m : tensor<3x3xi1> -> tensor<2x4x3x3xi1>
  %infinity = scrimp.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %sm = scrimp.select %keep, %s, %infinity : tensor<2x4x3x3xf32>
  %p = scrimp.softmax %sm : tensor<2x4x3x3xf32>
  %y = scrimp.matmul %p, %v : tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// Causal and padding together: the part that is known becomes an attribute.
// CHECK-LABEL: @causal_and_padding(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 mask(%arg3 : tensor<2x1x1x3xi1>) {causal, scale = 1.000000e+00 : f64}
func.func @causal_and_padding(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %keep: tensor<2x1x1x3xi1>) -> tensor<2x4x3x8xf32> {
  %m = scrimp.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %causal = scrimp.broadcast %m : tensor<3x3xi1> -> tensor<2x1x3x3xi1>
  %keeps = scrimp.broadcast %keep : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %both = scrimp.and %causal, %keeps : tensor<2x1x3x3xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%both : tensor<2x1x3x3xi1>) {scale = 1.0 : f64}
    : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>, tensor<2x4x3xf32>
  return %y : tensor<2x4x3x8xf32>
}

// Two key-value heads, each repeated for two query heads.
// CHECK-LABEL: @grouped(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64} : tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>
func.func @grouped(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %k5 = scrimp.reshape %k : tensor<2x2x3x8xf32> -> tensor<2x2x1x3x8xf32>
  %kb = scrimp.broadcast %k5 : tensor<2x2x1x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %kr = scrimp.reshape %kb : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %v5 = scrimp.reshape %v : tensor<2x2x3x8xf32> -> tensor<2x2x1x3x8xf32>
  %vb = scrimp.broadcast %v5 : tensor<2x2x1x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %vr = scrimp.reshape %vb : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %kt = scrimp.transpose %kr [0, 1, 3, 2] : tensor<2x4x3x8xf32> -> tensor<2x4x8x3xf32>
  %s = scrimp.matmul %q, %kt : tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32> -> tensor<2x4x3x3xf32>
  %p = scrimp.softmax %s : tensor<2x4x3x3xf32>
  %y = scrimp.matmul %p, %vr : tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// One head without a dimension for it.
// CHECK-LABEL: @single_head(
// CHECK: scrimp.attention %{{.*}}, %{{.*}}, %{{.*}} {scale = 1.000000e+00 : f64} : tensor<2x1x3x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x5xf32>
// CHECK-NEXT: scrimp.reshape {{.*}} -> tensor<2x3x5xf32>
func.func @single_head(%q: tensor<2x3x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x3x8xf32>, tensor<2x4x8xf32> -> tensor<2x3x4xf32>
  %p = scrimp.softmax %s : tensor<2x3x4xf32>
  %y = scrimp.matmul %p, %v : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// Probabilities that someone else reads, before dropout or after, dropout whose samples lie along the queries, a mask
// that hides half: no attention.
// CHECK-LABEL: @read_elsewhere(
// CHECK-NOT: scrimp.attention
func.func @read_elsewhere(%q: tensor<2x3x8xf32>, %k: tensor<2x3x8xf32>, %seed: tensor<i64>, %keep: tensor<2x3x3xi1>) -> (tensor<2x3x8xf32>, tensor<2x3x3xf32>, tensor<2x3x8xf32>, tensor<2x3x3xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %s = scrimp.matmul %q, %k {transpose_b} : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x3xf32>
  %p = scrimp.softmax %s : tensor<2x3x3xf32>
  %d = scrimp.dropout %p, %seed, %seed, %seed {key = 0 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.5 : f64} : tensor<2x3x3xf32>
  %y = scrimp.matmul %d, %k : tensor<2x3x3xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s2 = scrimp.matmul %k, %k {transpose_b} : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x3xf32>
  %p2 = scrimp.softmax %s2 : tensor<2x3x3xf32>
  %d2 = scrimp.dropout %p2, %seed, %seed, %seed {key = 1 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.5 : f64} : tensor<2x3x3xf32>
  %y2 = scrimp.matmul %d2, %k : tensor<2x3x3xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s3 = scrimp.matmul %q, %q {transpose_b} : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x3xf32>
  %low = scrimp.constant dense<-4.0> : tensor<2x3x3xf32>
  %sm = scrimp.select %keep, %s3, %low : tensor<2x3x3xf32>
  %p3 = scrimp.softmax %sm : tensor<2x3x3xf32>
  %y3 = scrimp.matmul %p3, %k : tensor<2x3x3xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %p4 = scrimp.softmax %s : tensor<2x3x3xf32>
  %d4 = scrimp.dropout %p4, %seed, %seed, %seed {key = 2 : i64, batch_dim = 1 : i64, samples = 3 : i64, p = 0.5 : f64} : tensor<2x3x3xf32>
  %y4 = scrimp.matmul %d4, %k : tensor<2x3x3xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %y, %p, %y2, %d2, %y3, %y4 : tensor<2x3x8xf32>, tensor<2x3x3xf32>, tensor<2x3x8xf32>, tensor<2x3x3xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// CHECK-LABEL: @main(
// CHECK: scrimp.attention {{.*}} {causal, scale = {{.*}} : f64} : tensor<2x4x5x6xf64>, tensor<2x2x5x6xf64>, tensor<2x2x5x6xf64>
func.func @main() -> tensor<2x4x5x6xf64> {
  %i = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 0.7 : f64} : tensor<240xf64>
  %sin = scrimp.sin %i : tensor<240xf64>
  %q = scrimp.reshape %sin : tensor<240xf64> -> tensor<2x4x5x6xf64>
  %j = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 1.3 : f64} : tensor<120xf64>
  %cos = scrimp.cos %j : tensor<120xf64>
  %kv = scrimp.reshape %cos : tensor<120xf64> -> tensor<2x2x1x5x6xf64>
  %kb = scrimp.broadcast %kv : tensor<2x2x1x5x6xf64> -> tensor<2x2x2x5x6xf64>
  %k = scrimp.reshape %kb : tensor<2x2x2x5x6xf64> -> tensor<2x4x5x6xf64>
  %root = scrimp.constant dense<0.6389431042462724> : tensor<2x4x5x6xf64>
  %qs = scrimp.mul %q, %root : tensor<2x4x5x6xf64>
  %kt = scrimp.transpose %k [0, 1, 3, 2] : tensor<2x4x5x6xf64> -> tensor<2x4x6x5xf64>
  %roott = scrimp.constant dense<0.6389431042462724> : tensor<2x4x6x5xf64>
  %ks = scrimp.mul %kt, %roott : tensor<2x4x6x5xf64>
  %s = scrimp.matmul %qs, %ks : tensor<2x4x5x6xf64>, tensor<2x4x6x5xf64> -> tensor<2x4x5x5xf64>
  %r = scrimp.iota {dim = 2 : i64} : tensor<2x4x5x5xi64>
  %c = scrimp.iota {dim = 3 : i64} : tensor<2x4x5x5xi64>
  %sees = scrimp.compare le, %c, %r : tensor<2x4x5x5xi64> -> tensor<2x4x5x5xi1>
  %zero = scrimp.constant dense<0.0> : tensor<2x4x5x5xf64>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<2x4x5x5xf64>
  %mask = scrimp.select %sees, %zero, %lowest : tensor<2x4x5x5xf64>
  %sm = scrimp.add %s, %mask : tensor<2x4x5x5xf64>
  %p = scrimp.softmax %sm : tensor<2x4x5x5xf64>
  %y = scrimp.matmul %p, %k : tensor<2x4x5x5xf64>, tensor<2x4x5x6xf64> -> tensor<2x4x5x6xf64>
  return %y : tensor<2x4x5x6xf64>
}
