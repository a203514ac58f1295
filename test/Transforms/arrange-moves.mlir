// RUN: scrimp-opt %s --scrimp-attach-target=kind=cuda --scrimp-arrange-moves | FileCheck %s
// RUN: scrimp-opt %s --scrimp-attach-target=kind=cuda --scrimp-arrange-moves --scrimp-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: scrimp-opt %s --scrimp-attach-target=kind=cuda --scrimp-arrange-moves --scrimp-form-kernels=fuse=false | FileCheck %s --check-prefix=APART
// RUN: scrimp-opt %s --scrimp-arrange-moves | FileCheck %s --check-prefix=CPU
// RUN: scrimp-kernel-test --target emulated --entry both %s

// q, k and v of two heads in one tensor: each head's part is 4 of 24 columns. The reshapes go in front of the slices:
// [2, 3, 24] is [2, 3, 6, 4], of which k begins at row 8 / 4 = 2. The result is stored for the product that reads it;
// attention_grad reads that. All gradients go into one tensor.
// CHECK-LABEL: @both
// CHECK: %[[K4:.*]] = scrimp.reshape %[[QKV:.*]] : tensor<2x3x24xf32> -> tensor<2x3x6x4xf32>
// CHECK: %[[KS:.*]] = scrimp.slice %[[K4]] [0, 0, 2, 0] [1, 1, 1, 1] {scrimp.in_readers}
// CHECK: %[[OUT:.*]], %{{.*}} = scrimp.attention
// CHECK-NEXT: %[[STORED:.*]] = scrimp.transpose %[[OUT]] [0, 2, 1, 3] : {{.*}} -> tensor<2x3x2x4xf32>
// CHECK-NEXT: %[[BACK:.*]] = scrimp.transpose %[[STORED]] [0, 2, 1, 3] {scrimp.in_readers}
// CHECK: scrimp.matmul
// CHECK: scrimp.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[BACK]], %{{.*}}, %{{.*}}
// CHECK: scrimp.concat %{{.*}}, %{{.*}}, %{{.*}} {dim = 2 : i64} : {{.*}} -> tensor<2x3x6x4xf32>

// Two kernels and the products between them.
// KERNEL-LABEL: @both
// KERNEL: scrimp.kernel({{.*}}) : ({{.*}}) -> (tensor<2x2x3xf32>, tensor<2x3x2x4xf32>)
// KERNEL-COUNT-6: {scrimp.in_readers}
// KERNEL: scrimp.attention
// KERNEL-NEXT: scrimp.transpose
// KERNEL-NEXT: scrimp.yield
// KERNEL: scrimp.matmul
// KERNEL: scrimp.kernel({{.*}}) : ({{.*}}) -> tensor<2x3x6x4xf32>
// KERNEL: scrimp.attention_grad
// KERNEL: scrimp.concat
// KERNEL-NEXT: scrimp.yield
// KERNEL: scrimp.matmul
// KERNEL-NOT: scrimp.kernel
// KERNEL: return

// Without fusion each move is a kernel of its own.
// APART-LABEL: @both
// APART-COUNT-14: scrimp.kernel
// APART: return

// A processor's library computes attention.
// CPU-LABEL: @both
// CPU-NOT: scrimp.in_readers
// CPU: return
func.func @both(%qkv: tensor<2x3x24xf32> {scrimp.input = 0 : i64}, %w: tensor<8x8xf32> {scrimp.input = -1 : i64})
    -> (tensor<6x8xf32>, tensor<24x8xf32>) {
  %qs = scrimp.slice %qkv [0, 0, 0] [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %ks = scrimp.slice %qkv [0, 0, 8] [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %vs = scrimp.slice %qkv [0, 0, 16] [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %k4 = scrimp.reshape %ks : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %k = scrimp.transpose %k4 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %q4 = scrimp.reshape %qs : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %q = scrimp.transpose %q4 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %v4 = scrimp.reshape %vs : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %v = scrimp.transpose %v4 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %out, %lse = scrimp.attention %q, %k, %v {causal, scale = 0.5} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>, tensor<2x2x3xf32>
  %o4 = scrimp.transpose %out [0, 2, 1, 3] : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %o = scrimp.reshape %o4 : tensor<2x3x2x4xf32> -> tensor<6x8xf32>
  %y = scrimp.matmul %o, %w : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %g4 = scrimp.reshape %y : tensor<6x8xf32> -> tensor<2x3x2x4xf32>
  %g = scrimp.transpose %g4 [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %dq, %dk, %dv = scrimp.attention_grad %q, %k, %v, %out, %lse, %g {causal, scale = 0.5} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3xf32>
  %dqt = scrimp.transpose %dq [0, 2, 1, 3] : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %dkt = scrimp.transpose %dk [0, 2, 1, 3] : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %dvt = scrimp.transpose %dv [0, 2, 1, 3] : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %dq8 = scrimp.reshape %dqt : tensor<2x3x2x4xf32> -> tensor<2x3x8xf32>
  %dk8 = scrimp.reshape %dkt : tensor<2x3x2x4xf32> -> tensor<2x3x8xf32>
  %dv8 = scrimp.reshape %dvt : tensor<2x3x2x4xf32> -> tensor<2x3x8xf32>
  %dqkv = scrimp.concat %dq8, %dk8, %dv8 {dim = 2 : i64} : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x24xf32>
  %d = scrimp.reshape %dqkv : tensor<2x3x24xf32> -> tensor<6x24xf32>
  %dw = scrimp.matmul %d, %o {transpose_a} : tensor<6x24xf32>, tensor<6x8xf32> -> tensor<24x8xf32>
  return %y, %dw : tensor<6x8xf32>, tensor<24x8xf32>
}

// A class token is 1 of 5 rows. To read it from the whole would keep that: it is stored. The two halves of %x together
// are as large as it is. What is an argument is there anyway.
// CHECK-LABEL: @pieces
// CHECK: scrimp.slice %{{.*}} [0, 0, 0] [1, 1, 1] : tensor<2x5x4xf32> -> tensor<2x1x4xf32>
// CHECK: scrimp.slice %{{.*}} [0, 0, 0] [1, 1, 1] {scrimp.in_readers} : tensor<2x4x4xf32> -> tensor<2x2x4xf32>
// CHECK: scrimp.slice %{{.*}} [0, 2, 0] [1, 1, 1] {scrimp.in_readers} : tensor<2x4x4xf32> -> tensor<2x2x4xf32>
// CHECK: scrimp.slice %arg1 [0, 0, 1] [1, 1, 1] {scrimp.in_readers}
func.func @pieces(%a: tensor<2x5x4xf32>, %b: tensor<2x4x4xf32>) -> (tensor<2x1x4xf32>, tensor<2x2x4xf32>, tensor<2x4x3xf32>) {
  %e = scrimp.exp %a : tensor<2x5x4xf32>
  %token = scrimp.slice %e [0, 0, 0] [1, 1, 1] : tensor<2x5x4xf32> -> tensor<2x1x4xf32>
  %s = scrimp.softmax %token : tensor<2x1x4xf32>
  %x = scrimp.exp %b : tensor<2x4x4xf32>
  %first = scrimp.slice %x [0, 0, 0] [1, 1, 1] : tensor<2x4x4xf32> -> tensor<2x2x4xf32>
  %second = scrimp.slice %x [0, 2, 0] [1, 1, 1] : tensor<2x4x4xf32> -> tensor<2x2x4xf32>
  %sum = scrimp.add %first, %second : tensor<2x2x4xf32>
  %part = scrimp.slice %b [0, 0, 1] [1, 1, 1] : tensor<2x4x4xf32> -> tensor<2x4x3xf32>
  %soft = scrimp.softmax %part : tensor<2x4x3xf32>
  return %s, %sum, %soft : tensor<2x1x4xf32>, tensor<2x2x4xf32>, tensor<2x4x3xf32>
}

// Not where rows do not stay rows, nor where something else reads the move, or where 3 columns of 6 are no whole
// rows of 4.
// CHECK-LABEL: @stored
// CHECK-NOT: scrimp.in_readers
// CHECK: scrimp.slice %{{.*}} [0, 3] [1, 1] : tensor<4x12xf32> -> tensor<4x4xf32>
// CHECK-NEXT: scrimp.reshape
// CHECK: return
func.func @stored(%a: tensor<4x12xf32>) -> (tensor<12x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<8x2xf32>) {
  %t = scrimp.transpose %a [1, 0] : tensor<4x12xf32> -> tensor<12x4xf32>
  %y = scrimp.softmax %t : tensor<12x4xf32>
  %slice = scrimp.slice %a [0, 6] [1, 1] : tensor<4x12xf32> -> tensor<4x6xf32>
  %z = scrimp.softmax %slice : tensor<4x6xf32>
  %odd = scrimp.slice %a [0, 3] [1, 1] : tensor<4x12xf32> -> tensor<4x4xf32>
  %half = scrimp.reshape %odd : tensor<4x4xf32> -> tensor<8x2xf32>
  %u = scrimp.softmax %half : tensor<8x2xf32>
  return %y, %z, %slice, %u : tensor<12x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<8x2xf32>
}
