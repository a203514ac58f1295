// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-12

// log(sigmoid(x)) = -softplus(-x).
// CHECK-LABEL: @log_sigmoid(
// CHECK-NEXT: %[[N:.*]] = scrimp.neg %arg0
// CHECK-NEXT: %[[S:.*]] = scrimp.softplus %[[N]]
// CHECK-NEXT: %[[Y:.*]] = scrimp.neg %[[S]]
// CHECK-NEXT: return %[[Y]]
func.func @log_sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %y = scrimp.log %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// log(1 - sigmoid(x)) = -softplus(x), also where the sigmoid is needed elsewhere, and as -s + 1.
// CHECK-LABEL: @log_complement(
// CHECK-DAG: %[[S:.*]] = scrimp.sigmoid %arg0
// CHECK-DAG: %[[P:.*]] = scrimp.softplus %arg0
// CHECK-DAG: %[[Y:.*]] = scrimp.neg %[[P]]
// CHECK: return %[[S]], %[[Y]]
func.func @log_complement(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %n = scrimp.neg %s : tensor<4xf32>
  %c = scrimp.add %n, %one : tensor<4xf32>
  %y = scrimp.log %c : tensor<4xf32>
  return %s, %y : tensor<4xf32>, tensor<4xf32>
}

// 1 - sigmoid(x) = sigmoid(-x), unless somebody else reads the sigmoid.
// CHECK-LABEL: @complement(
// CHECK-NEXT: %[[N:.*]] = scrimp.neg %arg0
// CHECK-NEXT: %[[Y:.*]] = scrimp.sigmoid %[[N]]
// CHECK-NEXT: return %[[Y]]
func.func @complement(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %y = scrimp.sub %one, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}
// CHECK-LABEL: @gate(
// CHECK: scrimp.sub
func.func @gate(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %y = scrimp.sub %one, %s : tensor<4xf32>
  return %s, %y : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @log_one_plus(
// CHECK-DAG: scrimp.softplus %arg0
// CHECK-DAG: scrimp.log1p %arg0
// CHECK-NOT: scrimp.log {{.*}}
func.func @log_one_plus(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %e = scrimp.exp %x : tensor<4xf32>
  %a = scrimp.add %one, %e : tensor<4xf32>
  %y = scrimp.log %a : tensor<4xf32>
  %b = scrimp.add %x, %one : tensor<4xf32>
  %z = scrimp.log %b : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// Another number than 1 is not log1p.
// CHECK-LABEL: @log_two_plus(
// CHECK: scrimp.add
// CHECK-NEXT: scrimp.log
func.func @log_two_plus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = scrimp.constant dense<2.0> : tensor<4xf32>
  %b = scrimp.add %x, %two : tensor<4xf32>
  %z = scrimp.log %b : tensor<4xf32>
  return %z : tensor<4xf32>
}

// CHECK-LABEL: @expm1(
// CHECK-NEXT: %[[E:.*]] = scrimp.expm1 %arg0
// CHECK-NEXT: %[[N:.*]] = scrimp.neg %[[E]]
// CHECK-NEXT: return %[[E]], %[[N]]
func.func @expm1(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %less = scrimp.constant dense<-1.0> : tensor<4xf32>
  %e = scrimp.exp %x : tensor<4xf32>
  %y = scrimp.add %e, %less : tensor<4xf32>
  %n = scrimp.neg %y : tensor<4xf32>
  return %y, %n : tensor<4xf32>, tensor<4xf32>
}

// The logarithm of a sum of exponentials over any dimensions: those come last.
// CHECK-LABEL: @log_sum_exp(
// CHECK-NEXT: %[[T:.*]] = scrimp.transpose %arg0
// CHECK-NEXT: %[[R:.*]] = scrimp.reshape %[[T]] : tensor<3x2x4xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %[[Y:.*]] = scrimp.log_sum_exp %[[R]]
// CHECK-NEXT: return %[[Y]]
func.func @log_sum_exp(%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %e = scrimp.exp %x : tensor<2x3x4xf32>
  %s = scrimp.reduce sum, %e [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
  %y = scrimp.log %s : tensor<3xf32>
  return %y : tensor<3xf32>
}

// The logarithm of what only moves the elements of a softmax: the entry at a label.
// CHECK-LABEL: @log_picked(
// CHECK-NEXT: %[[L:.*]] = scrimp.log_softmax %arg0
// CHECK-NEXT: %[[Y:.*]] = scrimp.gather_elements %[[L]], %arg1
// CHECK-NEXT: return %[[Y]]
func.func @log_picked(%x: tensor<3x4xf32>, %i: tensor<3x1xi64>) -> tensor<3x1xf32> {
  %s = scrimp.softmax %x : tensor<3x4xf32>
  %p = scrimp.gather_elements %s, %i {dim = 1 : i64} : tensor<3x4xf32>, tensor<3x1xi64> -> tensor<3x1xf32>
  %y = scrimp.log %p : tensor<3x1xf32>
  return %y : tensor<3x1xf32>
}

// CHECK-LABEL: @sigmoids(
// CHECK-NOT: scrimp.div
// CHECK: return
func.func @sigmoids(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %e = scrimp.exp %x : tensor<4xf32>
  %d = scrimp.add %one, %e : tensor<4xf32>
  %y = scrimp.div %one, %d : tensor<4xf32>
  %z = scrimp.div %e, %d : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// (1 - t) x - w log(sigmoid(x)) = (1 - t) softplus(x) + (w - (1 - t)) softplus(-x).
// CHECK-LABEL: @bce_with_logits(
// CHECK-DAG: %[[N:.*]] = scrimp.neg %arg0
// CHECK-DAG: %[[A:.*]] = scrimp.sub %{{.*}}, %arg1
// CHECK-DAG: %[[P:.*]] = scrimp.softplus %arg0
// CHECK-DAG: %[[M:.*]] = scrimp.softplus %[[N]]
// CHECK-DAG: %[[AP:.*]] = scrimp.mul %[[A]], %[[P]]
// CHECK-DAG: %[[W:.*]] = scrimp.sub %arg2, %[[A]]
// CHECK-DAG: %[[WM:.*]] = scrimp.mul %[[W]], %[[M]]
// CHECK: %[[Y:.*]] = scrimp.add %[[AP]], %[[WM]]
// CHECK-NEXT: return %[[Y]]
func.func @bce_with_logits(%x: tensor<4xf32>, %t: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %a = scrimp.sub %one, %t : tensor<4xf32>
  %ax = scrimp.mul %a, %x : tensor<4xf32>
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %l = scrimp.log %s : tensor<4xf32>
  %wl = scrimp.mul %w, %l : tensor<4xf32>
  %y = scrimp.sub %ax, %wl : tensor<4xf32>
  return %y : tensor<4xf32>
}

// A constant that may be 0 has no logarithm.
// CHECK-LABEL: @log_exp_plus_zero(
// CHECK: scrimp.log %
func.func @log_exp_plus_zero(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = scrimp.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %e = scrimp.exp %x : tensor<2xf32>
  %a = scrimp.add %e, %c : tensor<2xf32>
  %y = scrimp.log %a : tensor<2xf32>
  return %y : tensor<2xf32>
}

// All of it at once, where both are right.
// CHECK-LABEL: @main(
func.func @main() -> (tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<f64>) {
  %x = scrimp.iota {dim = 0 : i64, start = -2.0 : f64, step = 0.7 : f64} : tensor<7xf64>
  %one = scrimp.constant dense<1.0> : tensor<7xf64>
  %c = scrimp.constant dense<[0.5, 1.5, 2.0, 1.0, 1.0, 3.0, 0.25]> : tensor<7xf64>
  %s = scrimp.sigmoid %x : tensor<7xf64>
  %0 = scrimp.log %s : tensor<7xf64>
  %m = scrimp.sub %one, %s : tensor<7xf64>
  %1 = scrimp.log %m : tensor<7xf64>
  %e = scrimp.exp %x : tensor<7xf64>
  %ec = scrimp.add %e, %c : tensor<7xf64>
  %2 = scrimp.log %ec : tensor<7xf64>
  %3 = scrimp.sub %one, %e : tensor<7xf64>
  %e2 = scrimp.exp %s : tensor<7xf64>
  %ee = scrimp.add %e, %e2 : tensor<7xf64>
  %4 = scrimp.log %ee : tensor<7xf64>
  %d = scrimp.add %e, %one : tensor<7xf64>
  %5 = scrimp.div %e, %d : tensor<7xf64>
  %sum = scrimp.reduce sum, %e [0] : tensor<7xf64> -> tensor<f64>
  %6 = scrimp.log %sum : tensor<f64>
  %cx = scrimp.mul %c, %x : tensor<7xf64>
  %7 = scrimp.sub %cx, %0 : tensor<7xf64>
  return %0, %1, %2, %3, %4, %5, %7, %6 : tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<7xf64>, tensor<f64>
}
