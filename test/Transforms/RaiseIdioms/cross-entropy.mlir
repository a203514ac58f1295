// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-14

// CHECK-LABEL: @gather(
// CHECK-NEXT: %[[LOSS:.*]], %{{.*}} = scrimp.cross_entropy %arg0, %arg1 : tensor<4x5xf32>
// CHECK-NEXT: return %[[LOSS]]
func.func @gather(%x: tensor<4x5xf32>, %labels: tensor<4xi64>) -> tensor<4xf32> {
  %log = scrimp.log_softmax %x : tensor<4x5xf32>
  %column = scrimp.reshape %labels : tensor<4xi64> -> tensor<4x1xi64>
  %taken = scrimp.gather_elements %log, %column {dim = 1 : i64} : tensor<4x5xf32>, tensor<4x1xi64> -> tensor<4x1xf32>
  %flat = scrimp.reshape %taken : tensor<4x1xf32> -> tensor<4xf32>
  %loss = scrimp.neg %flat : tensor<4xf32>
  return %loss : tensor<4xf32>
}

// NegativeLogLikelihoodLoss with an ignored label, as it is imported.
// CHECK-LABEL: @ignored(
// CHECK: %[[LOSS:.*]], %{{.*}} = scrimp.cross_entropy %arg0, %arg1 {ignore_index = -100 : i64}
// CHECK-NEXT: return %[[LOSS]]
func.func @ignored(%x: tensor<4x5xf32>, %labels: tensor<4xi64>) -> tensor<4xf32> {
  %log = scrimp.log_softmax %x : tensor<4x5xf32>
  %ignore = scrimp.constant dense<-100> : tensor<4xi64>
  %first = scrimp.constant dense<0> : tensor<4xi64>
  %valid = scrimp.compare ne, %labels, %ignore : tensor<4xi64> -> tensor<4xi1>
  %safe = scrimp.select %valid, %labels, %first : tensor<4xi64>
  %column = scrimp.reshape %safe : tensor<4xi64> -> tensor<4x1xi64>
  %taken = scrimp.gather_elements %log, %column {dim = 1 : i64} : tensor<4x5xf32>, tensor<4x1xi64> -> tensor<4x1xf32>
  %flat = scrimp.reshape %taken : tensor<4x1xf32> -> tensor<4xf32>
  %minus = scrimp.neg %flat : tensor<4xf32>
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %loss = scrimp.select %valid, %minus, %zero : tensor<4xf32>
  return %loss : tensor<4xf32>
}

// CHECK-LABEL: @one_hot(
// CHECK: %[[LOSS:.*]], %{{.*}} = scrimp.cross_entropy %arg0, %arg1 : tensor<4x5xf32>
// CHECK-NEXT: return %[[LOSS]]
func.func @one_hot(%x: tensor<4x5xf32>, %labels: tensor<4xi64>) -> tensor<4xf32> {
  %log = scrimp.log_softmax %x : tensor<4x5xf32>
  %column = scrimp.reshape %labels : tensor<4xi64> -> tensor<4x1xi64>
  %spread = scrimp.broadcast %column : tensor<4x1xi64> -> tensor<4x5xi64>
  %numbers = scrimp.constant dense<[[0, 1, 2, 3, 4]]> : tensor<1x5xi64>
  %classes = scrimp.broadcast %numbers : tensor<1x5xi64> -> tensor<4x5xi64>
  %is = scrimp.compare eq, %spread, %classes : tensor<4x5xi64> -> tensor<4x5xi1>
  %hot = scrimp.cast %is : tensor<4x5xi1> -> tensor<4x5xf32>
  %product = scrimp.mul %hot, %log : tensor<4x5xf32>
  %sum = scrimp.reduce sum, %product [1] : tensor<4x5xf32> -> tensor<4xf32>
  %loss = scrimp.neg %sum : tensor<4xf32>
  return %loss : tensor<4xf32>
}

// Soft targets.
// CHECK-LABEL: @soft(
// CHECK-NOT: scrimp.cross_entropy
func.func @soft(%x: tensor<4x5xf32>, %targets: tensor<4x5xf32>) -> tensor<4xf32> {
  %log = scrimp.log_softmax %x : tensor<4x5xf32>
  %product = scrimp.mul %targets, %log : tensor<4x5xf32>
  %sum = scrimp.reduce sum, %product [1] : tensor<4x5xf32> -> tensor<4xf32>
  %loss = scrimp.neg %sum : tensor<4xf32>
  return %loss : tensor<4xf32>
}

// Two entries a row, and labels by row instead of by class.
// CHECK-LABEL: @two_labels(
// CHECK-NOT: scrimp.cross_entropy
func.func @two_labels(%x: tensor<4x5xf32>, %labels: tensor<4x2xi64>, %rows: tensor<1x5xi64>) -> (tensor<4x2xf32>, tensor<1x5xf32>) {
  %log = scrimp.log_softmax %x : tensor<4x5xf32>
  %taken = scrimp.gather_elements %log, %labels {dim = 1 : i64} : tensor<4x5xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
  %loss = scrimp.neg %taken : tensor<4x2xf32>
  %other = scrimp.gather_elements %log, %rows {dim = 0 : i64} : tensor<4x5xf32>, tensor<1x5xi64> -> tensor<1x5xf32>
  %minus = scrimp.neg %other : tensor<1x5xf32>
  return %loss, %minus : tensor<4x2xf32>, tensor<1x5xf32>
}

// Other labels than the loss's say what is ignored.
// CHECK-LABEL: @other_condition(
// CHECK: scrimp.cross_entropy %arg0, %arg1 :
// CHECK: scrimp.select
func.func @other_condition(%x: tensor<4x5xf32>, %labels: tensor<4xi64>, %other: tensor<4xi64>) -> tensor<4xf32> {
  %ignore = scrimp.constant dense<-100> : tensor<4xi64>
  %valid = scrimp.compare ne, %other, %ignore : tensor<4xi64> -> tensor<4xi1>
  %loss, %lse = scrimp.cross_entropy %x, %labels : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %y = scrimp.select %valid, %loss, %zero : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @main(
// CHECK: scrimp.cross_entropy {{.*}} {ignore_index = 1 : i64}
func.func @main() -> tensor<4xf64> {
  %i = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 0.7 : f64} : tensor<20xf64>
  %sin = scrimp.sin %i : tensor<20xf64>
  %x = scrimp.reshape %sin : tensor<20xf64> -> tensor<4x5xf64>
  %labels = scrimp.iota {dim = 0 : i64} : tensor<4xi64>
  %log = scrimp.log_softmax %x : tensor<4x5xf64>
  %ignore = scrimp.constant dense<1> : tensor<4xi64>
  %first = scrimp.constant dense<0> : tensor<4xi64>
  %valid = scrimp.compare ne, %labels, %ignore : tensor<4xi64> -> tensor<4xi1>
  %safe = scrimp.select %valid, %labels, %first : tensor<4xi64>
  %column = scrimp.reshape %safe : tensor<4xi64> -> tensor<4x1xi64>
  %taken = scrimp.gather_elements %log, %column {dim = 1 : i64} : tensor<4x5xf64>, tensor<4x1xi64> -> tensor<4x1xf64>
  %flat = scrimp.reshape %taken : tensor<4x1xf64> -> tensor<4xf64>
  %minus = scrimp.neg %flat : tensor<4xf64>
  %zero = scrimp.constant dense<0.0> : tensor<4xf64>
  %loss = scrimp.select %valid, %minus, %zero : tensor<4xf64>
  return %loss : tensor<4xf64>
}
