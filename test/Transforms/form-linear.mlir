// RUN: scrimp-opt %s --scrimp-form-linear --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-form-linear --scrimp-form-kernels --scrimp-schedule --scrimp-plan-memory --split-input-file | FileCheck %s --check-prefix=PLAN

// Both gradients of a tied parameter go into its accumulator; no buffer beside it.
// CHECK-LABEL: func.func @tied
// CHECK:       ^bb0(%{{.*}}: tensor<i64>, %{{[a-z0-9]+}}: tensor<4x16xf32>, %[[IDS:[a-z0-9]+]]: tensor<4xi64>, %[[G:[a-z0-9]+]]: tensor<4x8xf32>, %[[ACC:[a-z0-9]+]]: tensor<16x8xf32>):
// CHECK-NEXT:    %[[ONE:.*]] = scrimp.matmul %{{.*}}, %[[G]] onto(%[[ACC]] : tensor<16x8xf32>) {transpose_a} : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
// CHECK-NEXT:    %[[TWO:.*]] = scrimp.scatter_add %[[G]], %[[IDS]] onto(%[[ONE]] : tensor<16x8xf32>) {dim = 0 : i64}
// CHECK-NEXT:    scrimp.yield %[[TWO]]
// PLAN-LABEL: func.func @tied
// PLAN:         scrimp.accumulate {{.*}}scrimp.offsets = array<i64: [[AT:[0-9]+]]>
// PLAN:           scrimp.matmul {{.*}}onto({{.*}}scrimp.offsets = array<i64: [[AT]]>
// PLAN:           scrimp.kernel({{.*}}scrimp.offsets = array<i64: [[AT]]>
// PLAN:             scrimp.scatter_add {{.*}}onto(
func.func @tied(%p: tensor<4x16xf32> {scrimp.param = "frozen"}, %ids: tensor<8xi64> {scrimp.input = 0},
                %g: tensor<8x8xf32> {scrimp.input = 0}) -> (tensor<16x8xf32> {scrimp.output = "dw"}) {
  %zero = scrimp.constant dense<0.0> : tensor<16x8xf32>
  %sum = scrimp.accumulate 2 shared(%p : tensor<4x16xf32>) split(%ids, %g along [0, 0] : tensor<8xi64>, tensor<8x8xf32>) init(%zero : tensor<16x8xf32>) {
  ^bb0(%i: tensor<i64>, %q: tensor<4x16xf32>, %part: tensor<4xi64>, %grad: tensor<4x8xf32>, %acc: tensor<16x8xf32>):
    %one = scrimp.matmul %q, %grad {transpose_a} : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
    %two = scrimp.scatter_add %grad, %part {dim = 0 : i64} : tensor<4x8xf32>, tensor<4xi64> -> tensor<16x8xf32>
    %both = scrimp.add %one, %two : tensor<16x8xf32>
    %next = scrimp.add %acc, %both : tensor<16x8xf32>
    scrimp.yield %next : tensor<16x8xf32>
  }
  return %sum : tensor<16x8xf32>
}

// -----

// Without a loop the first product is the base. What is no product is added as soon as it can be; it is no base itself.
// CHECK-LABEL: func.func @three
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<4x4xf32>, %[[B:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK:         %[[T:.*]] = scrimp.tanh %[[A]]
// CHECK:         %[[P:.*]] = scrimp.matmul %[[A]], %[[B]] :
// CHECK:         %[[S:.*]] = scrimp.add %[[P]], %[[T]]
// CHECK:         %[[Q:.*]] = scrimp.matmul %[[B]], %[[A]] onto(%[[S]] : tensor<4x4xf32>) :
// CHECK:         %[[R:.*]] = scrimp.matmul %[[A]], %[[A]] onto(%[[Q]] : tensor<4x4xf32>) :
// CHECK:         return %[[R]]
func.func @three(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %t = scrimp.tanh %a : tensor<4x4xf32>
  %p = scrimp.matmul %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %q = scrimp.matmul %b, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %r = scrimp.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = scrimp.add %t, %p : tensor<4x4xf32>
  %2 = scrimp.add %q, %1 : tensor<4x4xf32>
  %3 = scrimp.add %2, %r : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// A product that others read, a sum of one product, and an accumulator that is read elsewhere stay as they are.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     onto
// CHECK:         return
func.func @kept(%a: tensor<4x4xf32>, %x: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = scrimp.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %q = scrimp.matmul %p, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %twice = scrimp.add %p, %q : tensor<4x4xf32>
  %r = scrimp.matmul %a, %a {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %residual = scrimp.add %a, %r : tensor<4x4xf32>
  %zero = scrimp.constant dense<0.0> : tensor<4x4xf32>
  %s:2 = scrimp.accumulate 2 split(%x along [0] : tensor<8x4xf32>) init(%zero, %zero : tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%i: tensor<i64>, %y: tensor<4x4xf32>, %acc: tensor<4x4xf32>, %other: tensor<4x4xf32>):
    %m = scrimp.matmul %y, %y : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %next = scrimp.add %acc, %m : tensor<4x4xf32>
    %o = scrimp.mul %other, %acc : tensor<4x4xf32>
    scrimp.yield %next, %o : tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %twice, %residual, %s#0, %s#1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// What a loop inside adds up, it adds to the accumulator of the loop around.
// CHECK-LABEL: func.func @nested
// CHECK:         scrimp.accumulate 2
// CHECK-NEXT:    ^bb0(%{{.*}}, %[[ACC:[a-z0-9]+]]: tensor<4x4xf32>):
// CHECK:           %[[IN:.*]] = scrimp.accumulate 2 {{.*}} init(%[[ACC]] : tensor<4x4xf32>)
// CHECK:             scrimp.matmul {{.*}}onto(
// CHECK:           scrimp.yield %[[IN]]
func.func @nested(%x: tensor<16x4xf32>) -> tensor<4x4xf32> {
  %zero = scrimp.constant dense<0.0> : tensor<4x4xf32>
  %s = scrimp.accumulate 2 split(%x along [0] : tensor<16x4xf32>) init(%zero : tensor<4x4xf32>) {
  ^bb0(%i: tensor<i64>, %y: tensor<8x4xf32>, %acc: tensor<4x4xf32>):
    %none = scrimp.constant dense<0.0> : tensor<4x4xf32>
    %t = scrimp.accumulate 2 split(%y along [0] : tensor<8x4xf32>) init(%none : tensor<4x4xf32>) {
    ^bb0(%j: tensor<i64>, %z: tensor<4x4xf32>, %inner: tensor<4x4xf32>):
      %m = scrimp.matmul %z, %z {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %n = scrimp.add %inner, %m : tensor<4x4xf32>
      scrimp.yield %n : tensor<4x4xf32>
    }
    %next = scrimp.add %acc, %t : tensor<4x4xf32>
    scrimp.yield %next : tensor<4x4xf32>
  }
  return %s : tensor<4x4xf32>
}

// -----

// Two sums of one loop are added after it.
// CHECK-LABEL: func.func @same_loop
// CHECK:         %[[S:.*]]:2 = scrimp.accumulate 2
// CHECK:         scrimp.add %[[S]]#0, %[[S]]#1
func.func @same_loop(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zero = scrimp.constant dense<0.0> : tensor<4x4xf32>
  %s:2 = scrimp.accumulate 2 split(%x along [0] : tensor<8x4xf32>) init(%zero, %zero : tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%i: tensor<i64>, %y: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = scrimp.add %a, %y : tensor<4x4xf32>
    %q = scrimp.mul %b, %y : tensor<4x4xf32>
    scrimp.yield %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %t = scrimp.add %s#0, %s#1 : tensor<4x4xf32>
  return %t : tensor<4x4xf32>
}
