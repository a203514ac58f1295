// What a device's library computes along with a product: the same numbers, as no sum here is rounded.
// RUN: scrimp-opt %s --scrimp-attach-target=kind=emulated --scrimp-form-linear -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-run %t.mlir > %t.after
// RUN: diff %t.before %t.after
// RUN: scrimp-opt %s --scrimp-attach-target --scrimp-form-linear | FileCheck %s --check-prefix=CPU
// CPU-NOT: scrimp.linear

// CHECK-LABEL: func.func @main
func.func @main() -> (tensor<2x2x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<8x8xf64>, tensor<8xf64>, tensor<32xf64>) {
  %x0 = scrimp.iota {dim = 0 : i64, start = -1.5, step = 0.125} : tensor<32xf64>
  %x = scrimp.reshape %x0 : tensor<32xf64> -> tensor<4x8xf64>
  %ri = scrimp.iota {dim = 0 : i64, start = 1.0, step = -0.25} : tensor<32xf64>
  %r0 = scrimp.neg %ri : tensor<32xf64>
  %r = scrimp.reshape %r0 : tensor<32xf64> -> tensor<2x2x8xf64>
  %w0 = scrimp.iota {dim = 0 : i64, start = 0.5, step = -0.0625} : tensor<64xf64>
  %w = scrimp.reshape %w0 : tensor<64xf64> -> tensor<8x8xf64>
  %b = scrimp.iota {dim = 0 : i64, start = -1.0, step = 0.5} : tensor<8xf64>
  %bias = scrimp.neg %b : tensor<8xf64>

  // A bias and what is added behind a reshape, in one call; what others read is no longer computed for them.
  // CHECK:      %[[R:.*]] = scrimp.reshape %{{.*}} : tensor<2x2x8xf64> -> tensor<4x8xf64>
  // CHECK-NEXT: %[[Y:.*]] = scrimp.linear %{{.*}}, %{{.*}} plus(%[[R]] : tensor<4x8xf64>) bias(%{{.*}} : tensor<8xf64>) : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
  // CHECK-NEXT: scrimp.reshape %[[Y]] : tensor<4x8xf64> -> tensor<2x2x8xf64>
  // CHECK-NOT:  scrimp.add
  %p = scrimp.matmul %x, %w : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
  %rows = scrimp.broadcast %bias : tensor<8xf64> -> tensor<4x8xf64>
  %biased = scrimp.add %p, %rows : tensor<4x8xf64>
  %again = scrimp.reshape %biased : tensor<4x8xf64> -> tensor<2x2x8xf64>
  %residual = scrimp.add %r, %again : tensor<2x2x8xf64>

  // GELU is taken in where nothing reads what it is computed of.
  // CHECK:      scrimp.linear %{{.*}}, %{{.*}} bias(%{{.*}}) gelu {transpose_b}
  %q = scrimp.matmul %x, %w {transpose_b} : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
  %z = scrimp.add %rows, %q : tensor<4x8xf64>
  %gelu = scrimp.gelu_tanh %z : tensor<4x8xf64>

  // Here two do: it is a product with a bias and a GELU.
  // CHECK:      %[[Z:.*]] = scrimp.linear %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<8xf64>) : tensor<4x8xf64>
  // CHECK-NEXT: %[[A:.*]] = scrimp.gelu_tanh %[[Z]]
  %q2 = scrimp.matmul %x, %w : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
  %z2 = scrimp.add %q2, %rows : tensor<4x8xf64>
  %gelu2 = scrimp.gelu_tanh %z2 : tensor<4x8xf64>
  // CHECK-NEXT: %[[G:.*]] = scrimp.linear %[[A]], %{{.*}} gelu_grad at(%[[Z]] : tensor<4x8xf64>) {transpose_b}
  %dy = scrimp.matmul %gelu2, %w {transpose_b} : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
  %dz = scrimp.gelu_tanh_grad %dy, %z2 : tensor<4x8xf64>

  // The gradients of a bias and of its weight, seen through a reshape. The product comes to where the sum is needed.
  // CHECK-NEXT: %[[DW:.*]], %[[DB:.*]] = scrimp.linear %{{.*}}, %[[G]] sums b {transpose_a}
  // CHECK-NEXT: scrimp.neg %[[DB]]
  %dz3 = scrimp.reshape %dz : tensor<4x8xf64> -> tensor<2x2x8xf64>
  %db = scrimp.reduce sum, %dz3 [0, 1] : tensor<2x2x8xf64> -> tensor<8xf64>
  %used = scrimp.neg %db : tensor<8xf64>
  %dw = scrimp.matmul %x, %dz {transpose_a} : tensor<4x8xf64>, tensor<4x8xf64> -> tensor<8x8xf64>
  return %residual, %gelu, %gelu2, %dz, %dw, %used, %r0 : tensor<2x2x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<8x8xf64>, tensor<8xf64>, tensor<32xf64>
}

// In 16 bits a call rounds once, to what the graph stores; its bias has the result's type, sums stay in f32.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT:    %[[B:.*]] = scrimp.cast %{{.*}} : tensor<8xf32> -> tensor<8xbf16>
// CHECK-NEXT:    %[[Y:.*]] = scrimp.linear %{{.*}}, %{{.*}} plus(%{{.*}} : tensor<4x8xbf16>) bias(%[[B]] : tensor<8xbf16>) : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT:    %[[DW:.*]], %[[DB:.*]] = scrimp.linear %[[Y]], %{{.*}} sums a {transpose_a} : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<8x8xf32>, tensor<8xf32>
// CHECK-NEXT:    return %[[Y]], %[[DW]], %[[DB]]
func.func @narrow(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %bias: tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>) {
  %p = scrimp.matmul %x, %w : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %wide = scrimp.cast %p : tensor<4x8xbf16> -> tensor<4x8xf32>
  %rows = scrimp.broadcast %bias : tensor<8xf32> -> tensor<4x8xf32>
  %biased = scrimp.add %wide, %rows : tensor<4x8xf32>
  %half = scrimp.cast %biased : tensor<4x8xf32> -> tensor<4x8xbf16>
  %back = scrimp.cast %half : tensor<4x8xbf16> -> tensor<4x8xf32>
  %other = scrimp.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %sum = scrimp.add %back, %other : tensor<4x8xf32>
  %y = scrimp.cast %sum : tensor<4x8xf32> -> tensor<4x8xbf16>
  %dw = scrimp.matmul %y, %x {transpose_a} : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<8x8xf32>
  %g = scrimp.cast %y : tensor<4x8xbf16> -> tensor<4x8xf32>
  %db = scrimp.reduce sum, %g [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %y, %dw, %db : tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>
}

// What is stored last decides on the type, whatever the sums had in between.
// CHECK-LABEL: func.func @wide_between
// CHECK:         scrimp.linear %{{.*}}, %{{.*}} plus(%{{.*}} : tensor<4x8xbf16>) bias(%{{.*}} : tensor<8xbf16>) : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
// CHECK-NOT:     scrimp.add
func.func @wide_between(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %bias: tensor<8xf32>) -> tensor<2x2x8xbf16> {
  %p = scrimp.matmul %x, %w : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xf32>
  %three = scrimp.reshape %p : tensor<4x8xf32> -> tensor<2x2x8xf32>
  %rows = scrimp.broadcast %bias : tensor<8xf32> -> tensor<2x2x8xf32>
  %biased = scrimp.add %three, %rows : tensor<2x2x8xf32>
  %stored = scrimp.reshape %x : tensor<4x8xbf16> -> tensor<2x2x8xbf16>
  %other = scrimp.cast %stored : tensor<2x2x8xbf16> -> tensor<2x2x8xf32>
  %sum = scrimp.add %other, %biased : tensor<2x2x8xf32>
  %y = scrimp.cast %sum : tensor<2x2x8xf32> -> tensor<2x2x8xbf16>
  return %y : tensor<2x2x8xbf16>
}

// The gradient's matrix is a reshape that comes after the sum: it is made again before it.
// CHECK-LABEL: func.func @reshaped
// CHECK:         %[[G:.*]] = scrimp.tanh
// CHECK-NEXT:    %[[M:.*]] = scrimp.reshape %[[G]] : tensor<2x2x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %[[DW:.*]], %[[DB:.*]] = scrimp.linear %{{.*}}, %[[M]] sums b {transpose_a}
// CHECK-NEXT:    %[[U:.*]] = scrimp.neg %[[DB]]
// CHECK-NEXT:    return %[[U]], %[[DW]]
func.func @reshaped(%x: tensor<4x8xf32>, %y: tensor<2x2x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %g = scrimp.tanh %y : tensor<2x2x8xf32>
  %db = scrimp.reduce sum, %g [0, 1] : tensor<2x2x8xf32> -> tensor<8xf32>
  %u = scrimp.neg %db : tensor<8xf32>
  %m = scrimp.reshape %g : tensor<2x2x8xf32> -> tensor<4x8xf32>
  %dw = scrimp.matmul %x, %m {transpose_a} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  return %u, %dw : tensor<8xf32>, tensor<8x8xf32>
}

// A value that only the sum would read stays in a kernel with it, broadcasts are not stored, and the graph keeps what
// others read.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     scrimp.linear
// CHECK:         return
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %c: tensor<4x1xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %p = scrimp.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %t = scrimp.tanh %x : tensor<4x8xf32>
  %sum = scrimp.add %p, %t : tensor<4x8xf32>
  %q = scrimp.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %columns = scrimp.broadcast %c : tensor<4x1xf32> -> tensor<4x8xf32>
  %shifted = scrimp.add %q, %columns : tensor<4x8xf32>
  %r = scrimp.matmul %x, %x {transpose_b} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %back = scrimp.matmul %r, %x : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %twice = scrimp.add %back, %x : tensor<4x8xf32>
  return %sum, %shifted, %back, %twice : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
