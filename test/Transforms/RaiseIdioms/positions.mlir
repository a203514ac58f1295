// Masks that are functions of positions, at a length at which [T,T] is 2^28 elements: nothing is evaluated.
// RUN: scrimp-opt %s --scrimp-raise-idioms --cse | FileCheck %s

// A triangle cut out of a larger one, transposed and spread: key > query, seen from the other side.
// CHECK-LABEL: @moved(
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @moved(%q: tensor<2x1x16384x4xf32>, %k: tensor<2x1x16384x4xf32>, %v: tensor<2x1x16384x4xf32>) -> tensor<2x1x16384x4xf32> {
  %i = scrimp.iota {dim = 0 : i64} : tensor<20000x1xi64>
  %j = scrimp.iota {dim = 1 : i64} : tensor<1x20000xi64>
  %is = scrimp.broadcast %i : tensor<20000x1xi64> -> tensor<20000x20000xi64>
  %js = scrimp.broadcast %j : tensor<1x20000xi64> -> tensor<20000x20000xi64>
  %upper = scrimp.compare ge, %js, %is : tensor<20000x20000xi64> -> tensor<20000x20000xi1>
  %cut = scrimp.slice %upper [7, 7] [1, 1] : tensor<20000x20000xi1> -> tensor<16384x16384xi1>
  %lower = scrimp.transpose %cut [1, 0] : tensor<16384x16384xi1> -> tensor<16384x16384xi1>
  %shaped = scrimp.reshape %lower : tensor<16384x16384xi1> -> tensor<1x1x16384x16384xi1>
  %mask = scrimp.broadcast %shaped : tensor<1x1x16384x16384xi1> -> tensor<2x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<2x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  return %y : tensor<2x1x16384x4xf32>
}

// Distances in floats, doubled; queries at the end of the keys.
// CHECK-LABEL: @distances(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64}
func.func @distances(%q: tensor<1x1x8192x4xf32>, %k: tensor<1x1x16384x4xf32>, %v: tensor<1x1x16384x4xf32>) -> tensor<1x1x8192x4xf32> {
  %i = scrimp.iota {dim = 2 : i64, start = 8192.0 : f64} : tensor<1x1x8192x16384xi32>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x8192x16384xi32>
  %d = scrimp.sub %i, %j : tensor<1x1x8192x16384xi32>
  %f = scrimp.cast %d : tensor<1x1x8192x16384xi32> -> tensor<1x1x8192x16384xf32>
  %two = scrimp.constant dense<2.0> : tensor<1x1x8192x16384xf32>
  %twice = scrimp.mul %f, %two : tensor<1x1x8192x16384xf32>
  %minus = scrimp.constant dense<-1.0> : tensor<1x1x8192x16384xf32>
  %sees = scrimp.compare gt, %twice, %minus : tensor<1x1x8192x16384xf32> -> tensor<1x1x8192x16384xi1>
  %zero = scrimp.constant dense<0.0> : tensor<1x1x8192x16384xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<1x1x8192x16384xf32>
  %mask = scrimp.select %sees, %zero, %lowest : tensor<1x1x8192x16384xf32>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x8192x16384xf32>) {scale = 1.0 : f64}
    : tensor<1x1x8192x4xf32>, tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32> -> tensor<1x1x8192x4xf32>, tensor<1x1x8192xf32>
  return %y : tensor<1x1x8192x4xf32>
}

// Products of positions are no function of the distance.
// CHECK-LABEL: @products(
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%{{.*}} : tensor<1x1x16384x16384xi1>) {scale = 1.000000e+00 : f64}
func.func @products(%q: tensor<1x1x16384x4xf32>, %k: tensor<1x1x16384x4xf32>, %v: tensor<1x1x16384x4xf32>) -> tensor<1x1x16384x4xf32> {
  %i = scrimp.iota {dim = 2 : i64} : tensor<1x1x16384x16384xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x16384x16384xi64>
  %p = scrimp.mul %i, %j : tensor<1x1x16384x16384xi64>
  %mask = scrimp.compare le, %p, %i : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32> -> tensor<1x1x16384x4xf32>, tensor<1x1x16384xf32>
  return %y : tensor<1x1x16384x4xf32>
}
