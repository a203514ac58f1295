// Canonical forms, and what must not be folded: a fold keeps every bit of the value.
// RUN: scrimp-opt %s --canonicalize -split-input-file | FileCheck %s

// x may be infinite or NaN.
// CHECK-LABEL: @multiply_by_zero(
// CHECK: %[[Y:.*]] = scrimp.mul
// CHECK-NEXT: return %[[Y]]
func.func @multiply_by_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %y = scrimp.mul %x, %zero : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Integers are computed, floats are not: that is the importer's one inexact folding.
// CHECK-LABEL: @constants(
// CHECK-DAG: %[[SUM:.*]] = scrimp.constant dense<[5, 7]> : tensor<2xi64>
// CHECK-DAG: %[[LESS:.*]] = scrimp.constant dense<[true, false]> : tensor<2xi1>
// CHECK: %[[F:.*]] = scrimp.add
// CHECK-NEXT: return %[[SUM]], %[[LESS]], %[[F]]
func.func @constants() -> (tensor<2xi64>, tensor<2xi1>, tensor<2xf32>) {
  %a = scrimp.constant dense<[1, 5]> : tensor<2xi64>
  %b = scrimp.constant dense<[4, 2]> : tensor<2xi64>
  %f = scrimp.constant dense<[0.1, 0.2]> : tensor<2xf32>
  %sum = scrimp.add %a, %b : tensor<2xi64>
  %less = scrimp.compare lt, %a, %b : tensor<2xi64> -> tensor<2xi1>
  %floats = scrimp.add %f, %f : tensor<2xf32>
  return %sum, %less, %floats : tensor<2xi64>, tensor<2xi1>, tensor<2xf32>
}

// -----

// CHECK-LABEL: @select(
// CHECK-SAME: %[[C:.*]]: tensor<4xi1>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @select(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %never = scrimp.constant dense<false> : tensor<4xi1>
  %same = scrimp.select %c, %a, %a : tensor<4xf32>
  %second = scrimp.select %never, %a, %b : tensor<4xf32>
  return %same, %second : tensor<4xf32>, tensor<4xf32>
}

// -----

// Widening and back loses nothing.
// CHECK-LABEL: @widen_and_back(
// CHECK-SAME: %[[H:.*]]: tensor<4xbf16>, %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: return %[[H]], %[[X]], %[[X]]
func.func @widen_and_back(%h: tensor<4xbf16>, %x: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>) {
  %f = scrimp.cast %h : tensor<4xbf16> -> tensor<4xf32>
  %a = scrimp.cast %f : tensor<4xf32> -> tensor<4xbf16>
  %d = scrimp.cast %x : tensor<4xf32> -> tensor<4xf64>
  %b = scrimp.cast %d : tensor<4xf64> -> tensor<4xf32>
  %same = scrimp.cast %x : tensor<4xf32> -> tensor<4xf32>
  return %a, %b, %same : tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Narrowing rounds, and is meant; bf16 and f16 do not hold each other; 2^24 + 1 is no f32; 0.5 is no integer.
// CHECK-LABEL: @narrow_and_back(
func.func @narrow_and_back(%x: tensor<4xf32>, %h: tensor<4xbf16>, %i: tensor<4xi64>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>, tensor<4xi64>, tensor<4xf32>) {
  // CHECK-NEXT: scrimp.cast %{{.*}} : tensor<4xf32> -> tensor<4xbf16>
  // CHECK-NEXT: %[[A:.*]] = scrimp.cast %{{.*}} : tensor<4xbf16> -> tensor<4xf32>
  %n = scrimp.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %a = scrimp.cast %n : tensor<4xbf16> -> tensor<4xf32>
  // CHECK-NEXT: scrimp.cast %{{.*}} : tensor<4xf32> -> tensor<4xf16>
  // CHECK-NEXT: %[[B:.*]] = scrimp.cast %{{.*}} : tensor<4xf16> -> tensor<4xf32>
  %m = scrimp.cast %x : tensor<4xf32> -> tensor<4xf16>
  %b = scrimp.cast %m : tensor<4xf16> -> tensor<4xf32>
  // CHECK-NEXT: scrimp.cast %{{.*}} : tensor<4xbf16> -> tensor<4xf16>
  // CHECK-NEXT: %[[C:.*]] = scrimp.cast %{{.*}} : tensor<4xf16> -> tensor<4xbf16>
  %o = scrimp.cast %h : tensor<4xbf16> -> tensor<4xf16>
  %c = scrimp.cast %o : tensor<4xf16> -> tensor<4xbf16>
  // CHECK-NEXT: scrimp.cast %{{.*}} : tensor<4xi64> -> tensor<4xf32>
  // CHECK-NEXT: %[[D:.*]] = scrimp.cast %{{.*}} : tensor<4xf32> -> tensor<4xi64>
  %p = scrimp.cast %i : tensor<4xi64> -> tensor<4xf32>
  %d = scrimp.cast %p : tensor<4xf32> -> tensor<4xi64>
  // CHECK-NEXT: scrimp.cast %{{.*}} : tensor<4xf32> -> tensor<4xi64>
  // CHECK-NEXT: %[[E:.*]] = scrimp.cast %{{.*}} : tensor<4xi64> -> tensor<4xf32>
  %q = scrimp.cast %x : tensor<4xf32> -> tensor<4xi64>
  %e = scrimp.cast %q : tensor<4xi64> -> tensor<4xf32>
  // CHECK-NEXT: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
  return %a, %b, %c, %d, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>, tensor<4xi64>, tensor<4xf32>
}

// -----

// CHECK-LABEL: @transpose(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[A:.*]] = scrimp.transpose %[[X]] [0, 2, 1]
// CHECK-NEXT: return %[[A]], %[[X]], %[[X]]
func.func @transpose(%x: tensor<2x3x4xf32>) -> (tensor<2x4x3xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  // Dimension i of the second is dimension [1, 2, 0][[1, 0, 2][i]] of x.
  %t = scrimp.transpose %x [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %a = scrimp.transpose %t [2, 1, 0] : tensor<3x4x2xf32> -> tensor<2x4x3xf32>
  %b = scrimp.transpose %t [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  %same = scrimp.transpose %x [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  return %a, %b, %same : tensor<2x4x3xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: @reshape(
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
// CHECK-DAG: %[[C:.*]] = scrimp.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-DAG: %[[A:.*]] = scrimp.reshape %[[X]] : tensor<2x6xf32> -> tensor<12xf32>
// CHECK: return %[[A]], %[[X]], %[[C]]
func.func @reshape(%x: tensor<2x6xf32>) -> (tensor<12xf32>, tensor<2x6xf32>, tensor<2xf32>) {
  %t = scrimp.reshape %x : tensor<2x6xf32> -> tensor<3x4xf32>
  %a = scrimp.reshape %t : tensor<3x4xf32> -> tensor<12xf32>
  %b = scrimp.reshape %t : tensor<3x4xf32> -> tensor<2x6xf32>
  %k = scrimp.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %c = scrimp.reshape %k : tensor<2x1xf32> -> tensor<2xf32>
  return %a, %b, %c : tensor<12xf32>, tensor<2x6xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: @broadcast(
// CHECK-SAME: %[[X:.*]]: tensor<3x1xf32>, %[[V:.*]]: tensor<3xf32>
// CHECK-DAG: %[[S:.*]] = scrimp.constant dense<2.000000e+00> : tensor<4x3xf32>
// CHECK-DAG: %[[A:.*]] = scrimp.broadcast %[[X]] : tensor<3x1xf32> -> tensor<2x3x4xf32>
// CHECK-DAG: %[[B:.*]] = scrimp.broadcast %[[V]] : tensor<3xf32> -> tensor<4x3xf32>
// CHECK-DAG: %[[COLUMN:.*]] = scrimp.reshape %[[V]] : tensor<3xf32> -> tensor<3x1xf32>
// CHECK-DAG: %[[C:.*]] = scrimp.broadcast %[[COLUMN]] : tensor<3x1xf32> -> tensor<3x4xf32>
// CHECK: return %[[A]], %[[S]], %[[V]], %[[B]], %[[C]]
func.func @broadcast(%x: tensor<3x1xf32>, %v: tensor<3xf32>)
    -> (tensor<2x3x4xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x4xf32>) {
  %t = scrimp.broadcast %x : tensor<3x1xf32> -> tensor<1x3x4xf32>
  %a = scrimp.broadcast %t : tensor<1x3x4xf32> -> tensor<2x3x4xf32>
  %two = scrimp.constant dense<2.0> : tensor<3xf32>
  %s = scrimp.broadcast %two : tensor<3xf32> -> tensor<4x3xf32>
  %same = scrimp.broadcast %v : tensor<3xf32> -> tensor<3xf32>
  // Ones in front are what broadcasting adds by itself; a one at the end is not.
  %row = scrimp.reshape %v : tensor<3xf32> -> tensor<1x3xf32>
  %b = scrimp.broadcast %row : tensor<1x3xf32> -> tensor<4x3xf32>
  %column = scrimp.reshape %v : tensor<3xf32> -> tensor<3x1xf32>
  %c = scrimp.broadcast %column : tensor<3x1xf32> -> tensor<3x4xf32>
  return %a, %s, %same, %b, %c
    : tensor<2x3x4xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @slice(
// CHECK-SAME: %[[X:.*]]: tensor<10xf32>
// CHECK-DAG: %[[R:.*]] = scrimp.slice %[[X]] [9] [-1]
// Element i of the second is element 1 + 2 (3 - i) of x: 7, 5, 3.
// CHECK-DAG: %[[A:.*]] = scrimp.slice %[[X]] [7] [-2] : tensor<10xf32> -> tensor<3xf32>
// CHECK: return %[[X]], %[[R]], %[[A]]
func.func @slice(%x: tensor<10xf32>) -> (tensor<10xf32>, tensor<10xf32>, tensor<3xf32>) {
  %whole = scrimp.slice %x [0] [1] : tensor<10xf32> -> tensor<10xf32>
  %reversed = scrimp.slice %x [9] [-1] : tensor<10xf32> -> tensor<10xf32>
  %odd = scrimp.slice %x [1] [2] : tensor<10xf32> -> tensor<5xf32>
  %a = scrimp.slice %odd [3] [-1] : tensor<5xf32> -> tensor<3xf32>
  return %whole, %reversed, %a : tensor<10xf32>, tensor<10xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: @concat(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>
// CHECK-NEXT: return %[[X]]
func.func @concat(%x: tensor<3xf32>) -> tensor<3xf32> {
  %alone = scrimp.concat %x {dim = 0} : tensor<3xf32> -> tensor<3xf32>
  return %alone : tensor<3xf32>
}

// -----

// No element is combined with another, nor anything reduced.
// CHECK-LABEL: @reduce_nothing(
// CHECK-SAME: %[[X:.*]]: tensor<3x1xf32>
// CHECK-NEXT: return %[[X]]
func.func @reduce_nothing(%x: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %none = scrimp.reduce sum, %x [] : tensor<3x1xf32> -> tensor<3x1xf32>
  return %none : tensor<3x1xf32>
}

// -----

// Indices and integer data along a dimension.
// CHECK-LABEL: @indexing(
// CHECK-DAG: %[[S:.*]] = scrimp.constant dense<[1, 3, 6]> : tensor<3xi64>
// CHECK-DAG: %[[G:.*]] = scrimp.constant dense<[3, 1]> : tensor<2xi64>
// CHECK-DAG: %[[M:.*]] = scrimp.constant dense<2> : tensor<i64>
// CHECK: return %[[S]], %[[G]], %[[G]], %[[M]]
func.func @indexing() -> (tensor<3xi64>, tensor<2xi64>, tensor<2xi64>, tensor<i64>) {
  %x = scrimp.constant dense<[1, 2, 3]> : tensor<3xi64>
  %i = scrimp.constant dense<[-1, 0]> : tensor<2xi64>
  %n = scrimp.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %s = scrimp.cumsum %x {dim = 0} : tensor<3xi64>
  %g = scrimp.gather_elements %x, %i {dim = 0} : tensor<3xi64>, tensor<2xi64> -> tensor<2xi64>
  %h = scrimp.gather_nd %x, %n : tensor<3xi64>, tensor<2x1xi64> -> tensor<2xi64>
  %m = scrimp.arg_max %x {dim = 0} : tensor<3xi64> -> tensor<i64>
  return %s, %g, %h, %m : tensor<3xi64>, tensor<2xi64>, tensor<2xi64>, tensor<i64>
}

// -----

// What leaves every bit alone goes. x + 0 is not x: it turns -0 into 0.
// CHECK-LABEL: @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[I:.*]]: tensor<4xi64>, %[[B:.*]]: tensor<4xi1>
// CHECK-DAG: %[[ZERO:.*]] = scrimp.constant dense<0.000000e+00>
// CHECK-DAG: %[[A:.*]] = scrimp.add %[[X]], %[[ZERO]]
// CHECK-DAG: %[[S:.*]] = scrimp.sub %[[X]], %{{.*}}
// CHECK: return %[[A]], %[[X]], %[[S]], %[[X]], %[[X]], %[[X]], %[[I]], %[[I]], %[[B]], %[[B]]
func.func @neutral(%x: tensor<4xf32>, %i: tensor<4xi64>, %b: tensor<4xi1>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>,
        tensor<4xi64>, tensor<4xi1>, tensor<4xi1>) {
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %minus_zero = scrimp.constant dense<-0.0> : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %none = scrimp.constant dense<0> : tensor<4xi64>
  %unit = scrimp.constant dense<1> : tensor<4xi64>
  %yes = scrimp.constant dense<true> : tensor<4xi1>
  %no = scrimp.constant dense<false> : tensor<4xi1>
  %0 = scrimp.add %x, %zero : tensor<4xf32>
  %1 = scrimp.add %minus_zero, %x : tensor<4xf32>
  %2 = scrimp.sub %x, %minus_zero : tensor<4xf32>
  %3 = scrimp.sub %x, %zero : tensor<4xf32>
  %4 = scrimp.mul %one, %x : tensor<4xf32>
  %5 = scrimp.div %x, %one : tensor<4xf32>
  %6 = scrimp.add %none, %i : tensor<4xi64>
  %7 = scrimp.mul %i, %unit : tensor<4xi64>
  %8 = scrimp.and %b, %yes : tensor<4xi1>
  %9 = scrimp.or %no, %b : tensor<4xi1>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9
    : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>,
      tensor<4xi64>, tensor<4xi1>, tensor<4xi1>
}

// -----

// CHECK-LABEL: @moves_ones(
// CHECK: %[[A:.*]] = scrimp.reshape %{{.*}} : tensor<1x3x1x5xf32> -> tensor<3x1x1x5xf32>
// CHECK: %[[B:.*]] = scrimp.transpose
// CHECK: return %[[A]], %[[B]]
func.func @moves_ones(%x: tensor<1x3x1x5xf32>) -> (tensor<3x1x1x5xf32>, tensor<1x5x1x3xf32>) {
  %a = scrimp.transpose %x [1, 0, 2, 3] : tensor<1x3x1x5xf32> -> tensor<3x1x1x5xf32>
  %b = scrimp.transpose %x [0, 3, 2, 1] : tensor<1x3x1x5xf32> -> tensor<1x5x1x3xf32>
  return %a, %b : tensor<3x1x1x5xf32>, tensor<1x5x1x3xf32>
}

// -----

// The second piece spans both operands.
// CHECK-LABEL: @slice_of_concat(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<6xf32>, %[[E:.*]]: tensor<0xf32>
// CHECK: %[[C:.*]] = scrimp.concat %[[X]], %[[Y]] {dim = 0 : i64}
// CHECK: %[[A:.*]] = scrimp.slice %[[Y]] [5] [-2] : tensor<6xf32> -> tensor<3xf32>
// CHECK: %[[B:.*]] = scrimp.slice %[[C]] [3] [1]
// CHECK: return %[[A]], %[[B]]
func.func @slice_of_concat(%x: tensor<4xf32>, %y: tensor<6xf32>, %empty: tensor<0xf32>)
    -> (tensor<3xf32>, tensor<2xf32>) {
  %c = scrimp.concat %x, %empty, %y {dim = 0} : tensor<4xf32>, tensor<0xf32>, tensor<6xf32> -> tensor<10xf32>
  %a = scrimp.slice %c [9] [-2] : tensor<10xf32> -> tensor<3xf32>
  %b = scrimp.slice %c [3] [1] : tensor<10xf32> -> tensor<2xf32>
  return %a, %b : tensor<3xf32>, tensor<2xf32>
}

// -----

// Repeated rows stay a gather, and so do those that are not there (importing refuses them).
// CHECK-LABEL: @constant_indices(
// CHECK-SAME: %[[X:.*]]: tensor<9x2xf32>
// CHECK: %[[S:.*]] = scrimp.slice %[[X]] [8, 0] [-3, 1] : tensor<9x2xf32> -> tensor<3x2xf32>
// CHECK: %[[A:.*]] = scrimp.reshape %[[S]] : tensor<3x2xf32> -> tensor<1x3x2xf32>
// CHECK: %[[B:.*]] = scrimp.gather
// CHECK: %[[C:.*]] = scrimp.gather
// CHECK: %[[D:.*]] = scrimp.gather
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @constant_indices(%x: tensor<9x2xf32>)
    -> (tensor<1x3x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %i = scrimp.constant dense<[[-1, 5, 2]]> : tensor<1x3xi64>
  %j = scrimp.constant dense<[4, 4]> : tensor<2xi64>
  %k = scrimp.constant dense<[8, 9]> : tensor<2xi64>
  %a = scrimp.gather %x, %i {dim = 0} : tensor<9x2xf32>, tensor<1x3xi64> -> tensor<1x3x2xf32>
  %b = scrimp.gather %x, %j {dim = 0} : tensor<9x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  %c = scrimp.gather %x, %k {dim = 0} : tensor<9x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  %far = scrimp.constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
  %d = scrimp.gather %x, %far {dim = 0} : tensor<9x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  return %a, %b, %c, %d : tensor<1x3x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// The padding row has no gradient, which a slice would give it.
// CHECK-LABEL: @constant_indices_beside_the_padding(
// CHECK: scrimp.slice %{{.*}} [1, 0] [1, 1] : tensor<9x2xf32> -> tensor<3x2xf32>
// CHECK: scrimp.gather %{{.*}} {dim = 0 : i64, padding = 3 : i64}
func.func @constant_indices_beside_the_padding(%x: tensor<9x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %i = scrimp.constant dense<[1, 2, 3]> : tensor<3xi64>
  %a = scrimp.gather %x, %i {dim = 0, padding = 0} : tensor<9x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %b = scrimp.gather %x, %i {dim = 0, padding = 3} : tensor<9x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  return %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Nothing is padded; a product reads its operand as it lies.
// CHECK-LABEL: @whole(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>, %[[P:.*]]: tensor<4x2xf32>, %[[Q:.*]]: tensor<4x5xf32>
// CHECK-NEXT: %[[Y:.*]] = scrimp.matmul %[[P]], %[[Q]] {transpose_a}
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @whole(%x: tensor<3xf32>, %p: tensor<4x2xf32>, %q: tensor<4x5xf32>) -> (tensor<3xf32>, tensor<2x5xf32>) {
  %y = scrimp.pad %x [0] [1] : tensor<3xf32> -> tensor<3xf32>
  %t = scrimp.transpose %p [1, 0] : tensor<4x2xf32> -> tensor<2x4xf32>
  %z = scrimp.matmul %t, %q : tensor<2x4xf32>, tensor<4x5xf32> -> tensor<2x5xf32>
  return %y, %z : tensor<3xf32>, tensor<2x5xf32>
}

// -----

// Nobody reads the count, so it is not carried, nor its step passed in. The maximum feeds the sum: both stay.
// CHECK-LABEL: @dead_accumulator
// CHECK: %[[R:.+]]:2 = scrimp.accumulate 2 split(%arg0 along [0] : tensor<4xf32>) init(%arg2, %arg3 : tensor<2xf32>, tensor<2xf32>) {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<i64>, %[[X:.+]]: tensor<2xf32>, %[[S:.+]]: tensor<2xf32>, %[[M:.+]]: tensor<2xf32>):
// CHECK-NEXT: %[[N:.+]] = scrimp.maximum %[[M]], %[[X]]
// CHECK-NEXT: %[[T:.+]] = scrimp.add %[[S]], %[[M]]
// CHECK-NEXT: scrimp.yield %[[T]], %[[N]]
// CHECK: return %[[R]]#0
func.func @dead_accumulator(%x: tensor<4xf32>, %count: tensor<i64>, %sum: tensor<2xf32>, %most: tensor<2xf32>,
                            %step: tensor<i64>) -> tensor<2xf32> {
  %r:3 = scrimp.accumulate 2 shared(%step : tensor<i64>) split(%x along [0] : tensor<4xf32>)
      init(%count, %sum, %most : tensor<i64>, tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%i: tensor<i64>, %one: tensor<i64>, %piece: tensor<2xf32>, %c: tensor<i64>, %s: tensor<2xf32>, %m: tensor<2xf32>):
    %d = scrimp.add %c, %one : tensor<i64>
    %n = scrimp.maximum %m, %piece : tensor<2xf32>
    %t = scrimp.add %s, %m : tensor<2xf32>
    scrimp.yield %d, %t, %n : tensor<i64>, tensor<2xf32>, tensor<2xf32>
  }
  return %r#1 : tensor<2xf32>
}
