// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-14

// Epsilon is what the file's f32 constant is.
// CHECK-LABEL: @rms_norm(
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = scrimp.rms_norm %arg0 scale(%arg1 : tensor<8xf32>) {axis = 2 : i64, epsilon = 9.99999{{[0-9]*}}E-7 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%x: tensor<2x3x8xf32>, %w: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %square = scrimp.mul %x, %x : tensor<2x3x8xf32>
  %sum = scrimp.reduce sum, %square [2] : tensor<2x3x8xf32> -> tensor<2x3xf32>
  %n = scrimp.constant dense<8.0> : tensor<2x3xf32>
  %mean = scrimp.div %sum, %n : tensor<2x3xf32>
  %column = scrimp.reshape %mean : tensor<2x3xf32> -> tensor<2x3x1xf32>
  %epsilon = scrimp.constant dense<9.99999997E-7> : tensor<2x3x1xf32>
  %shifted = scrimp.add %column, %epsilon : tensor<2x3x1xf32>
  %root = scrimp.sqrt %shifted : tensor<2x3x1xf32>
  %one = scrimp.constant dense<1.0> : tensor<2x3x1xf32>
  %rstd = scrimp.div %one, %root : tensor<2x3x1xf32>
  %spread = scrimp.broadcast %rstd : tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %normal = scrimp.mul %x, %spread : tensor<2x3x8xf32>
  %scale = scrimp.broadcast %w : tensor<8xf32> -> tensor<2x3x8xf32>
  %y = scrimp.mul %scale, %normal : tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// CHECK-LABEL: @layer_norm(
// CHECK-NEXT: %[[Y:.*]], %{{.*}}, %{{.*}} = scrimp.layer_norm %arg0 scale(%arg1 : tensor<8xf32>) bias(%arg2 : tensor<8xf32>) {axis = 1 : i64, epsilon = 9.99999974737875{{[0-9]*}}E-6 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm(%x: tensor<3x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<3x8xf32> {
  %sum = scrimp.reduce sum, %x [1] : tensor<3x8xf32> -> tensor<3xf32>
  %n = scrimp.constant dense<8.0> : tensor<3xf32>
  %mean = scrimp.div %sum, %n : tensor<3xf32>
  %column = scrimp.reshape %mean : tensor<3xf32> -> tensor<3x1xf32>
  %means = scrimp.broadcast %column : tensor<3x1xf32> -> tensor<3x8xf32>
  %d = scrimp.sub %x, %means : tensor<3x8xf32>
  %two = scrimp.constant dense<2.0> : tensor<3x8xf32>
  %square = scrimp.pow %d, %two : tensor<3x8xf32>
  %squares = scrimp.reduce sum, %square [1] : tensor<3x8xf32> -> tensor<3xf32>
  %variance = scrimp.div %squares, %n : tensor<3xf32>
  %variances = scrimp.reshape %variance : tensor<3xf32> -> tensor<3x1xf32>
  %epsilon = scrimp.constant dense<1.0e-5> : tensor<3x1xf32>
  %shifted = scrimp.add %variances, %epsilon : tensor<3x1xf32>
  %root = scrimp.sqrt %shifted : tensor<3x1xf32>
  %roots = scrimp.broadcast %root : tensor<3x1xf32> -> tensor<3x8xf32>
  %normal = scrimp.div %d, %roots : tensor<3x8xf32>
  %scale = scrimp.broadcast %w : tensor<8xf32> -> tensor<3x8xf32>
  %scaled = scrimp.mul %normal, %scale : tensor<3x8xf32>
  %bias = scrimp.broadcast %b : tensor<8xf32> -> tensor<3x8xf32>
  %y = scrimp.add %scaled, %bias : tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// The sum of squares, not their mean.
// CHECK-LABEL: @l2_norm(
// CHECK-NOT: scrimp.rms_norm
func.func @l2_norm(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %square = scrimp.mul %x, %x : tensor<3x8xf32>
  %sum = scrimp.reduce sum, %square [1] : tensor<3x8xf32> -> tensor<3xf32>
  %root = scrimp.sqrt %sum : tensor<3xf32>
  %column = scrimp.reshape %root : tensor<3xf32> -> tensor<3x1xf32>
  %roots = scrimp.broadcast %column : tensor<3x1xf32> -> tensor<3x8xf32>
  %y = scrimp.div %x, %roots : tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// Statistics over columns (an instance norm of another layout).
// CHECK-LABEL: @columns(
// CHECK-NOT: scrimp.rms_norm
func.func @columns(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %square = scrimp.mul %x, %x : tensor<8x8xf32>
  %sum = scrimp.reduce sum, %square [0] : tensor<8x8xf32> -> tensor<8xf32>
  %n = scrimp.constant dense<8.0> : tensor<8xf32>
  %mean = scrimp.div %sum, %n : tensor<8xf32>
  %root = scrimp.sqrt %mean : tensor<8xf32>
  %roots = scrimp.broadcast %root : tensor<8xf32> -> tensor<8x8xf32>
  %y = scrimp.div %x, %roots : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// Row statistics laid along the columns of a square: a norm by the neighbour's statistic.
// CHECK-LABEL: @transposed_statistics(
// CHECK-NOT: scrimp.rms_norm
func.func @transposed_statistics(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %square = scrimp.mul %x, %x : tensor<8x8xf32>
  %sum = scrimp.reduce sum, %square [1] : tensor<8x8xf32> -> tensor<8xf32>
  %n = scrimp.constant dense<8.0> : tensor<8xf32>
  %mean = scrimp.div %sum, %n : tensor<8xf32>
  %root = scrimp.sqrt %mean : tensor<8xf32>
  %roots = scrimp.broadcast %root : tensor<8xf32> -> tensor<8x8xf32>
  %y = scrimp.div %x, %roots : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A residual is no bias, and a normalized value that is read twice keeps its scale apart.
// CHECK-LABEL: @residual(
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = scrimp.layer_norm %arg0 {axis = 1 : i64
// CHECK: scrimp.mul
// CHECK: scrimp.add
func.func @residual(%x: tensor<3x8xf32>, %r: tensor<3x8xf32>, %w: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %y, %mean, %rstd = scrimp.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<3x8xf32> -> tensor<3xf32>
  %scale = scrimp.broadcast %w : tensor<8xf32> -> tensor<3x8xf32>
  %a = scrimp.mul %y, %scale : tensor<3x8xf32>
  %b = scrimp.add %y, %r : tensor<3x8xf32>
  return %a, %b : tensor<3x8xf32>, tensor<3x8xf32>
}

// CHECK-LABEL: @main(
// CHECK: scrimp.layer_norm %{{.*}} scale(%{{.*}}) bias(%{{.*}}) {axis = 1 : i64, epsilon = 1.000000e-05 : f64}
func.func @main() -> tensor<5x8xf64> {
  %i = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 0.7 : f64} : tensor<40xf64>
  %sin = scrimp.sin %i : tensor<40xf64>
  %x = scrimp.reshape %sin : tensor<40xf64> -> tensor<5x8xf64>
  %w = scrimp.iota {dim = 0 : i64, start = 0.5 : f64, step = 0.125 : f64} : tensor<8xf64>
  %b = scrimp.iota {dim = 0 : i64, start = -0.3 : f64, step = 0.1 : f64} : tensor<8xf64>
  %sum = scrimp.reduce sum, %x [1] : tensor<5x8xf64> -> tensor<5xf64>
  %n = scrimp.constant dense<8.0> : tensor<5xf64>
  %mean = scrimp.div %sum, %n : tensor<5xf64>
  %column = scrimp.reshape %mean : tensor<5xf64> -> tensor<5x1xf64>
  %means = scrimp.broadcast %column : tensor<5x1xf64> -> tensor<5x8xf64>
  %d = scrimp.sub %x, %means : tensor<5x8xf64>
  %square = scrimp.mul %d, %d : tensor<5x8xf64>
  %squares = scrimp.reduce sum, %square [1] : tensor<5x8xf64> -> tensor<5xf64>
  %variance = scrimp.div %squares, %n : tensor<5xf64>
  %epsilon = scrimp.constant dense<1.0e-5> : tensor<5xf64>
  %shifted = scrimp.add %variance, %epsilon : tensor<5xf64>
  %rstd = scrimp.rsqrt %shifted : tensor<5xf64>
  %rstdc = scrimp.reshape %rstd : tensor<5xf64> -> tensor<5x1xf64>
  %rstds = scrimp.broadcast %rstdc : tensor<5x1xf64> -> tensor<5x8xf64>
  %normal = scrimp.mul %d, %rstds : tensor<5x8xf64>
  %scale = scrimp.broadcast %w : tensor<8xf64> -> tensor<5x8xf64>
  %scaled = scrimp.mul %normal, %scale : tensor<5x8xf64>
  %bias = scrimp.broadcast %b : tensor<8xf64> -> tensor<5x8xf64>
  %y = scrimp.add %bias, %scaled : tensor<5x8xf64>
  return %y : tensor<5x8xf64>
}
