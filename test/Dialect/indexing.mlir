// Elements chosen by index tensors, and ops along one dimension, in the interpreter.
// Expected numbers are PyTorch 2.15's in float64, by the expression beside each (F is torch.nn.functional);
// ar(*shape, m, o) = (torch.arange(prod(shape)) % m - o).reshape(shape).
// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-run --typed %s | FileCheck %s

func.func @main() -> (tensor<1x4x2xf32>, tensor<2x3x2xf32>, tensor<3x2xf32>, tensor<2x2x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<3xi1>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x4xi64>, tensor<2xi64>, tensor<2xi64>, tensor<i32>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<4xf32>, tensor<4xi64>) {
  %x = scrimp.constant dense<[[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]]> : tensor<2x3x2xf32>
  %i = scrimp.constant dense<[[[2, 0], [0, -1], [-3, 1], [1, 1]]]> : tensor<1x4x2xi64>
  // x = ar(2,3,2,m=13): torch.gather(x, 1, i), negative entries from the end
  // CHECK: {{\[\[}}[4, 1], [0, 5], [0, 3], [2, 3]]]
  %ge = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3x2xf32>, tensor<1x4x2xi64> -> tensor<1x4x2xf32>
  %u = scrimp.constant dense<[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]> : tensor<1x4x2xf32>
  // u = ar(1,4,2,m=9,o=-1): zeros(2,3,2).scatter_add(1, i, u); index 0 of sample 0 is met twice in column 0
  // CHECK-NEXT: {{\[\[}}[8, 2], [7, 14], [1, 4]], {{\[\[}}0, 0], [0, 0], [0, 0]]]
  %se = scrimp.scatter_elements_add %u, %i {dim = 1} : tensor<1x4x2xf32>, tensor<1x4x2xi64> -> tensor<2x3x2xf32>
  %n = scrimp.constant dense<[[1, 2], [0, -1], [0, 2]]> : tensor<3x2xi64>
  // x[[1,0,0], [2,2,2]]
  // CHECK-NEXT: {{\[\[}}10, 11], [4, 5], [4, 5]]
  %gn = scrimp.gather_nd %x, %n : tensor<2x3x2xf32>, tensor<3x2xi64> -> tensor<3x2xf32>
  %b = scrimp.constant dense<[[[2], [0]], [[1], [1]]]> : tensor<2x2x1xi64>
  // torch.stack([x[0][[2,0]], x[1][[1,1]]])
  // CHECK-NEXT: {{\[\[}}[4, 5], [0, 1]], {{\[\[}}8, 9], [8, 9]]]
  %gb = scrimp.gather_nd %x, %b {batch_dims = 1} : tensor<2x3x2xf32>, tensor<2x2x1xi64> -> tensor<2x2x2xf32>
  %un = scrimp.constant dense<[[10.0, 11.0], [12.0, 13.0], [14.0, 15.0]]> : tensor<3x2xf32>
  // un = ar(3,2,m=100,o=-10): x[1,2], x[0,2], x[0,2] = un in order; the last wins
  // CHECK-NEXT: {{\[\[}}[0, 1], [2, 3], [14, 15]], {{\[\[}}6, 7], [8, 9], [10, 11]]]
  %sn = scrimp.scatter_nd none, %x, %n, %un : tensor<2x3x2xf32>, tensor<3x2xi64>, tensor<3x2xf32>
  // x.index_put((tensor([1,0,0]), tensor([2,2,2])), un, accumulate=True)
  // CHECK-NEXT: {{\[\[}}[0, 1], [2, 3], [30, 33]], {{\[\[}}6, 7], [8, 9], [20, 22]]]
  %sa = scrimp.scatter_nd add, %x, %n, %un : tensor<2x3x2xf32>, tensor<3x2xi64>, tensor<3x2xf32>
  %t = scrimp.constant dense<[true, false, true]> : tensor<3xi1>
  %ti = scrimp.constant dense<[[1]]> : tensor<1x1xi64>
  %tu = scrimp.constant dense<true> : tensor<1xi1>
  // CHECK-NEXT: [1, 1, 1]
  %st = scrimp.scatter_nd none, %t, %ti, %tu : tensor<3xi1>, tensor<1x1xi64>, tensor<1xi1>
  // x.cumsum(1)
  // CHECK-NEXT: {{\[\[}}[0, 1], [2, 4], [6, 9]], {{\[\[}}6, 7], [14, 16], [24, 27]]]
  %cs = scrimp.cumsum %x {dim = 1} : tensor<2x3x2xf32>
  // x.cumsum(2) - x
  // CHECK-NEXT: {{\[\[}}[0, 0], [0, 2], [0, 4]], {{\[\[}}0, 6], [0, 8], [0, 10]]]
  %ce = scrimp.cumsum %x {dim = 2, exclusive} : tensor<2x3x2xf32>
  // x.flip(0).cumsum(0).flip(0)
  // CHECK-NEXT: {{\[\[}}[6, 8], [10, 12], [14, 16]], {{\[\[}}6, 7], [8, 9], [10, 11]]]
  %cr = scrimp.cumsum %x {dim = 0, reverse} : tensor<2x3x2xf32>
  %k = scrimp.constant dense<[[1, 5, 3, 5], [2, 2, 0, 1]]> : tensor<2x4xi64>
  // integers: k.flip(1).cumsum(1).flip(1) - k
  // CHECK-NEXT: {{\[\[}}13, 8, 5, 0], [3, 1, 1, 0]]
  %ci = scrimp.cumsum %k {dim = 1, exclusive, reverse} : tensor<2x4xi64>
  // k.argmax(1): the first of equal ones; then the last
  // CHECK-NEXT: [1, 0]
  %am = scrimp.arg_max %k {dim = 1} : tensor<2x4xi64> -> tensor<2xi64>
  // CHECK-NEXT: [3, 1]
  %al = scrimp.arg_max %k {dim = 1, last} : tensor<2x4xi64> -> tensor<2xi64>
  %m = scrimp.constant dense<[1.0, 0x7FC00000, 3.0, 0x7FC00000, 2.0]> : tensor<5xf32>
  // m = [1, nan, 3, nan, 2]: m.argmax(0)
  // CHECK-NEXT: 1
  %an = scrimp.arg_max %m {dim = 0} : tensor<5xf32> -> tensor<i32>
  // k.topk(3, 1); of equal ones the lower index first
  // CHECK-NEXT: {{\[\[}}5, 5, 3], [2, 2, 1]]
  // CHECK-NEXT: {{\[\[}}1, 3, 2], [0, 1, 3]]
  %tv, %tx = scrimp.top_k %k {dim = 1} : tensor<2x4xi64> -> tensor<2x3xi64>, tensor<2x3xi64>
  // m.topk(4): NaN first
  // CHECK-NEXT: [nan, nan, 3, 2]
  // CHECK-NEXT: [1, 3, 2, 4]
  %mv, %mx = scrimp.top_k %m {dim = 0} : tensor<5xf32> -> tensor<4xf32>, tensor<4xi64>
  return %ge, %se, %gn, %gb, %sn, %sa, %st, %cs, %ce, %cr, %ci, %am, %al, %an, %tv, %tx, %mv, %mx : tensor<1x4x2xf32>, tensor<2x3x2xf32>, tensor<3x2xf32>, tensor<2x2x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<3xi1>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x4xi64>, tensor<2xi64>, tensor<2xi64>, tensor<i32>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<4xf32>, tensor<4xi64>
}
