// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - | FileCheck %s
// Kernels, order and plan change nothing of what the interpreter gives.
// RUN: scrimp-opt %s --scrimp-form-kernels --scrimp-plan-memory | scrimp-run - | FileCheck %s

func.func @main() -> (tensor<f32>, tensor<2xf32>, tensor<i64>, tensor<f32>, tensor<2xf32>, tensor<2xf32>) {
  %x = scrimp.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %w = scrimp.constant dense<[10.0, 100.0]> : tensor<2xf32>
  %zero = scrimp.constant dense<0.0> : tensor<f32>
  %zeros = scrimp.constant dense<0.0> : tensor<2xf32>
  %none = scrimp.constant dense<0> : tensor<i64>
  // Pieces of two rows: 10*1 + 100*2 + 10*3 + 100*4 = 640, then 10*5 + 100*6 + 10*7 + 100*8 = 1520; columns 16 and 20;
  // the numbers of the iterations 0 + 1.
  // CHECK: 2160
  // CHECK-NEXT: [16, 20]
  // CHECK-NEXT: 1
  %sum, %columns, %numbers = scrimp.accumulate 2 shared(%w : tensor<2xf32>) split(%x along [0] : tensor<4x2xf32>)
      init(%zero, %zeros, %none : tensor<f32>, tensor<2xf32>, tensor<i64>) {
  ^bb0(%i: tensor<i64>, %v: tensor<2xf32>, %piece: tensor<2x2xf32>, %s: tensor<f32>, %c: tensor<2xf32>, %n: tensor<i64>):
    %spread = scrimp.broadcast %v : tensor<2xf32> -> tensor<2x2xf32>
    %product = scrimp.mul %piece, %spread : tensor<2x2xf32>
    %part = scrimp.reduce sum, %product [0, 1] : tensor<2x2xf32> -> tensor<f32>
    %column = scrimp.reduce sum, %piece [0] : tensor<2x2xf32> -> tensor<2xf32>
    %s1 = scrimp.add %s, %part : tensor<f32>
    %c1 = scrimp.add %c, %column : tensor<2xf32>
    %n1 = scrimp.add %n, %i : tensor<i64>
    scrimp.yield %s1, %c1, %n1 : tensor<f32>, tensor<2xf32>, tensor<i64>
  }
  // A loop in a loop: pieces of pieces, of one row each. The same init twice is two accumulators.
  // 2 * (1 + ... + 8) = 72.
  // CHECK-NEXT: 72
  %nested, %again = scrimp.accumulate 2 split(%x along [0] : tensor<4x2xf32>) init(%zero, %zero : tensor<f32>, tensor<f32>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<2x2xf32>, %s: tensor<f32>, %t: tensor<f32>):
    %r = scrimp.accumulate 2 split(%piece along [0] : tensor<2x2xf32>) init(%s : tensor<f32>) {
    ^bb0(%j: tensor<i64>, %row: tensor<1x2xf32>, %a: tensor<f32>):
      %part = scrimp.reduce sum, %row [0, 1] : tensor<1x2xf32> -> tensor<f32>
      %b = scrimp.add %a, %part : tensor<f32>
      scrimp.yield %b : tensor<f32>
    }
    %part = scrimp.reduce sum, %piece [0, 1] : tensor<2x2xf32> -> tensor<f32>
    %u = scrimp.add %t, %part : tensor<f32>
    scrimp.yield %r, %u : tensor<f32>, tensor<f32>
  }
  %both = scrimp.add %nested, %again : tensor<f32>
  %true = scrimp.constant dense<true> : tensor<i1>
  %false = scrimp.constant dense<false> : tensor<i1>
  // CHECK-NEXT: [11, 101]
  // CHECK-NEXT: [1, 1]
  %ones = scrimp.constant dense<1.0> : tensor<2xf32>
  %done = scrimp.conditional %true shared(%w : tensor<2xf32>) init(%ones : tensor<2xf32>) : tensor<i1> {
  ^bb0(%v: tensor<2xf32>, %a: tensor<2xf32>):
    %b = scrimp.add %a, %v : tensor<2xf32>
    scrimp.yield %b : tensor<2xf32>
  }
  %left = scrimp.conditional %false shared(%w : tensor<2xf32>) init(%ones : tensor<2xf32>) : tensor<i1> {
  ^bb0(%v: tensor<2xf32>, %a: tensor<2xf32>):
    %b = scrimp.add %a, %v : tensor<2xf32>
    scrimp.yield %b : tensor<2xf32>
  }
  return %sum, %columns, %numbers, %both, %done, %left
      : tensor<f32>, tensor<2xf32>, tensor<i64>, tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
