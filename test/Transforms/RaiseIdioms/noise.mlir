// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s

// Stochastic depth as torchvision has it: whole samples.
// CHECK-LABEL: @bernoulli(
// CHECK: %[[ONES:.*]] = scrimp.constant dense<1.000000e+00> : tensor<4x1xf32>
// CHECK-NEXT: %[[NOISE:.*]] = scrimp.dropout %[[ONES]], %arg1, %arg2, %arg3 {batch_dim = 0 : i64, key = 7 : i64, p = 2.500000e-01 : f64, samples = 4 : i64}
// CHECK-NEXT: %[[SPREAD:.*]] = scrimp.broadcast %[[NOISE]]
// CHECK-NEXT: scrimp.mul %arg0, %[[SPREAD]]
func.func @bernoulli(%x: tensor<4x3xf32>, %seed: tensor<i64>, %step: tensor<i64>, %base: tensor<i64>) -> tensor<4x3xf32> {
  %u = scrimp.random_uniform %seed, %step, %base {key = 7 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = 0.0 : f64, high = 1.0 : f64} : tensor<4x1xf32>
  %keep = scrimp.constant dense<0.75> : tensor<4x1xf32>
  %below = scrimp.compare lt, %u, %keep : tensor<4x1xf32> -> tensor<4x1xi1>
  %one = scrimp.cast %below : tensor<4x1xi1> -> tensor<4x1xf32>
  %noise = scrimp.div %one, %keep : tensor<4x1xf32>
  %spread = scrimp.broadcast %noise : tensor<4x1xf32> -> tensor<4x3xf32>
  %y = scrimp.mul %x, %spread : tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// As timm and transformers have it.
// CHECK-LABEL: @drop_path(
// CHECK: %[[NOISE:.*]] = scrimp.dropout %{{.*}}, %arg1, %arg2, %arg3 {batch_dim = 0 : i64, key = 7 : i64, p = 2.500000e-01 : f64, samples = 4 : i64}
// CHECK-NEXT: %[[SPREAD:.*]] = scrimp.broadcast %[[NOISE]]
// CHECK-NEXT: %[[Y:.*]] = scrimp.mul %arg0, %[[SPREAD]]
// CHECK-NEXT: return %[[Y]]
func.func @drop_path(%x: tensor<4x3xf32>, %seed: tensor<i64>, %step: tensor<i64>, %base: tensor<i64>) -> tensor<4x3xf32> {
  %u = scrimp.random_uniform %seed, %step, %base {key = 7 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = 0.0 : f64, high = 1.0 : f64} : tensor<4x1xf32>
  %keep = scrimp.constant dense<0.75> : tensor<4x1xf32>
  %sum = scrimp.add %u, %keep : tensor<4x1xf32>
  %noise = scrimp.floor %sum : tensor<4x1xf32>
  %all = scrimp.constant dense<0.75> : tensor<4x3xf32>
  %scaled = scrimp.div %x, %all : tensor<4x3xf32>
  %spread = scrimp.broadcast %noise : tensor<4x1xf32> -> tensor<4x3xf32>
  %y = scrimp.mul %scaled, %spread : tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// Another bound than the divisor, and numbers that do not start at 0.
// CHECK-LABEL: @other(
// CHECK-NOT: scrimp.dropout
func.func @other(%seed: tensor<i64>, %step: tensor<i64>, %base: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %u = scrimp.random_uniform %seed, %step, %base {key = 7 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = 0.0 : f64, high = 1.0 : f64} : tensor<4xf32>
  %v = scrimp.random_uniform %seed, %step, %base {key = 8 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = -1.0 : f64, high = 1.0 : f64} : tensor<4xf32>
  %keep = scrimp.constant dense<0.75> : tensor<4xf32>
  %half = scrimp.constant dense<0.5> : tensor<4xf32>
  %below = scrimp.compare lt, %u, %half : tensor<4xf32> -> tensor<4xi1>
  %one = scrimp.cast %below : tensor<4xi1> -> tensor<4xf32>
  %a = scrimp.div %one, %keep : tensor<4xf32>
  %low = scrimp.compare lt, %v, %keep : tensor<4xf32> -> tensor<4xi1>
  %two = scrimp.cast %low : tensor<4xi1> -> tensor<4xf32>
  %b = scrimp.div %two, %keep : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
