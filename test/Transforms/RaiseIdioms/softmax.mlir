// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-14

// CHECK-LABEL: @softmax(
// CHECK-NEXT: %[[Y:.*]] = scrimp.softmax %arg0
// CHECK-NEXT: return %[[Y]]
func.func @softmax(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %max = scrimp.reduce max, %x [2] : tensor<2x3x4xf32> -> tensor<2x3xf32>
  %maxc = scrimp.reshape %max : tensor<2x3xf32> -> tensor<2x3x1xf32>
  %maxs = scrimp.broadcast %maxc : tensor<2x3x1xf32> -> tensor<2x3x4xf32>
  %d = scrimp.sub %x, %maxs : tensor<2x3x4xf32>
  %e = scrimp.exp %d : tensor<2x3x4xf32>
  %sum = scrimp.reduce sum, %e [2] : tensor<2x3x4xf32> -> tensor<2x3xf32>
  %sumc = scrimp.reshape %sum : tensor<2x3xf32> -> tensor<2x3x1xf32>
  %sums = scrimp.broadcast %sumc : tensor<2x3x1xf32> -> tensor<2x3x4xf32>
  %y = scrimp.div %e, %sums : tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// Over columns.
// CHECK-LABEL: @columns(
// CHECK-NOT: scrimp.softmax
func.func @columns(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = scrimp.exp %x : tensor<4x4xf32>
  %sum = scrimp.reduce sum, %e [0] : tensor<4x4xf32> -> tensor<4xf32>
  %sums = scrimp.broadcast %sum : tensor<4xf32> -> tensor<4x4xf32>
  %y = scrimp.div %e, %sums : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// Over two dimensions.
// CHECK-LABEL: @two_dimensions(
// CHECK-NOT: scrimp.softmax
func.func @two_dimensions(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %e = scrimp.exp %x : tensor<2x3x4xf32>
  %sum = scrimp.reduce sum, %e [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
  %sumc = scrimp.reshape %sum : tensor<2xf32> -> tensor<2x1x1xf32>
  %sums = scrimp.broadcast %sumc : tensor<2x1x1xf32> -> tensor<2x3x4xf32>
  %y = scrimp.div %e, %sums : tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: @log_of_softmax(
// CHECK-NEXT: %[[Y:.*]] = scrimp.log_softmax %arg0
// CHECK-NEXT: return %[[Y]]
func.func @log_of_softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %s = scrimp.softmax %x : tensor<3x4xf32>
  %y = scrimp.log %s : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// x - logsumexp(x), as ReduceLogSumExp is imported.
// CHECK-LABEL: @log_sum_exp(
// CHECK-NEXT: %[[Y:.*]] = scrimp.log_softmax %arg0
// CHECK-NEXT: return %[[Y]]
func.func @log_sum_exp(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %max = scrimp.reduce max, %x [1] : tensor<3x4xf32> -> tensor<3xf32>
  %maxc = scrimp.reshape %max : tensor<3xf32> -> tensor<3x1xf32>
  %maxs = scrimp.broadcast %maxc : tensor<3x1xf32> -> tensor<3x4xf32>
  %d = scrimp.sub %x, %maxs : tensor<3x4xf32>
  %e = scrimp.exp %d : tensor<3x4xf32>
  %sum = scrimp.reduce sum, %e [1] : tensor<3x4xf32> -> tensor<3xf32>
  %log = scrimp.log %sum : tensor<3xf32>
  %lse = scrimp.add %log, %max : tensor<3xf32>
  %lsec = scrimp.reshape %lse : tensor<3xf32> -> tensor<3x1xf32>
  %lses = scrimp.broadcast %lsec : tensor<3x1xf32> -> tensor<3x4xf32>
  %y = scrimp.sub %x, %lses : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// The exponentials of the shifted values without the shift in the end: no log_softmax.
// CHECK-LABEL: @forgotten_shift(
// CHECK-NOT: scrimp.log_softmax
func.func @forgotten_shift(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %max = scrimp.reduce max, %x [1] : tensor<3x4xf32> -> tensor<3xf32>
  %maxc = scrimp.reshape %max : tensor<3xf32> -> tensor<3x1xf32>
  %maxs = scrimp.broadcast %maxc : tensor<3x1xf32> -> tensor<3x4xf32>
  %d = scrimp.sub %x, %maxs : tensor<3x4xf32>
  %e = scrimp.exp %d : tensor<3x4xf32>
  %sum = scrimp.reduce sum, %e [1] : tensor<3x4xf32> -> tensor<3xf32>
  %log = scrimp.log %sum : tensor<3xf32>
  %logc = scrimp.reshape %log : tensor<3xf32> -> tensor<3x1xf32>
  %logs = scrimp.broadcast %logc : tensor<3x1xf32> -> tensor<3x4xf32>
  %y = scrimp.sub %x, %logs : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// CHECK-LABEL: @main(
// CHECK-DAG: scrimp.softmax
// CHECK-DAG: scrimp.log_softmax
func.func @main() -> (tensor<5x8xf64>, tensor<5x8xf64>) {
  %i = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 0.7 : f64} : tensor<40xf64>
  %sin = scrimp.sin %i : tensor<40xf64>
  %x = scrimp.reshape %sin : tensor<40xf64> -> tensor<5x8xf64>
  %max = scrimp.reduce max, %x [1] : tensor<5x8xf64> -> tensor<5xf64>
  %maxc = scrimp.reshape %max : tensor<5xf64> -> tensor<5x1xf64>
  %maxs = scrimp.broadcast %maxc : tensor<5x1xf64> -> tensor<5x8xf64>
  %d = scrimp.sub %x, %maxs : tensor<5x8xf64>
  %e = scrimp.exp %d : tensor<5x8xf64>
  %sum = scrimp.reduce sum, %e [1] : tensor<5x8xf64> -> tensor<5xf64>
  %sumc = scrimp.reshape %sum : tensor<5xf64> -> tensor<5x1xf64>
  %sums = scrimp.broadcast %sumc : tensor<5x1xf64> -> tensor<5x8xf64>
  %y = scrimp.div %e, %sums : tensor<5x8xf64>
  %log = scrimp.log %sumc : tensor<5x1xf64>
  %logs = scrimp.broadcast %log : tensor<5x1xf64> -> tensor<5x8xf64>
  %z = scrimp.sub %d, %logs : tensor<5x8xf64>
  return %y, %z : tensor<5x8xf64>, tensor<5x8xf64>
}
