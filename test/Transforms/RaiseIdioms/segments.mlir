// RUN: scrimp-opt --scrimp-raise-idioms --split-input-file %s | FileCheck %s

// Packed documents: a query sees the keys of its own segment, and no later ones. The comparison and the causal triangle
// leave the mask.
// CHECK-LABEL: @packed
// CHECK: scrimp.attention %arg0, %arg1, %arg2 segments(%arg3 : tensor<2x4xi64>) {causal, scale
func.func @packed(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %v: tensor<2x2x4x8xf32>, %ids: tensor<2x4xi64>)
    -> tensor<2x2x4x8xf32> {
  %column = scrimp.reshape %ids : tensor<2x4xi64> -> tensor<2x1x4x1xi64>
  %row = scrimp.reshape %ids : tensor<2x4xi64> -> tensor<2x1x1x4xi64>
  %queries = scrimp.broadcast %column : tensor<2x1x4x1xi64> -> tensor<2x1x4x4xi64>
  %keys = scrimp.broadcast %row : tensor<2x1x1x4xi64> -> tensor<2x1x4x4xi64>
  %same = scrimp.compare eq, %queries, %keys : tensor<2x1x4x4xi64> -> tensor<2x1x4x4xi1>
  %i = scrimp.iota {dim = 2 : i64} : tensor<2x1x4x4xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<2x1x4x4xi64>
  %past = scrimp.compare le, %j, %i : tensor<2x1x4x4xi64> -> tensor<2x1x4x4xi1>
  %mask = scrimp.and %past, %same : tensor<2x1x4x4xi1>
  %out, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<2x1x4x4xi1>) {scale = 0.5 : f64}
      : tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32> -> tensor<2x2x4x8xf32>, tensor<2x2x4xf32>
  return %out : tensor<2x2x4x8xf32>
}

// -----

// Different ids on the two sides are no segments.
// CHECK-LABEL: @two_tensors
// CHECK: scrimp.attention {{.*}} mask(
func.func @two_tensors(%q: tensor<2x2x4x8xf32>, %a: tensor<2x4xi64>, %b: tensor<2x4xi64>) -> tensor<2x2x4x8xf32> {
  %column = scrimp.reshape %a : tensor<2x4xi64> -> tensor<2x1x4x1xi64>
  %row = scrimp.reshape %b : tensor<2x4xi64> -> tensor<2x1x1x4xi64>
  %queries = scrimp.broadcast %column : tensor<2x1x4x1xi64> -> tensor<2x1x4x4xi64>
  %keys = scrimp.broadcast %row : tensor<2x1x1x4xi64> -> tensor<2x1x4x4xi64>
  %same = scrimp.compare eq, %queries, %keys : tensor<2x1x4x4xi64> -> tensor<2x1x4x4xi1>
  %out, %lse = scrimp.attention %q, %q, %q mask(%same : tensor<2x1x4x4xi1>) {scale = 0.5 : f64}
      : tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32> -> tensor<2x2x4x8xf32>, tensor<2x2x4xf32>
  return %out : tensor<2x2x4x8xf32>
}
