// Enough rows that several warps share a block, each with its own, the last block not full; that columns are cut into
// slices, whose sums are combined by a second and third launch; and that a scatter has many units. A CPU has the same
// results from units of its own.
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --target emulated --emit kernels - | FileCheck %s
// 1027 rows are 13 slices of 79:
// CHECK: func.func @k3(%arg0: memref<41080xf32>, %arg1: memref<520xf32>, %arg2: index
// CHECK: func.func @k4(%arg0: memref<520xf32>, %arg1: memref<40xf32>, %arg2: index
// 65536 are 256 of 256, which are 8 of 32:
// CHECK: (%arg0: memref<524288xf32>, %arg1: memref<2048xf32>, %arg2: index
// CHECK: (%arg0: memref<2048xf32>, %arg1: memref<64xf32>, %arg2: index
// CHECK: (%arg0: memref<64xf32>, %arg1: memref<8xf32>, %arg2: index
func.func @main(%x: tensor<1027x40xTYPE>, %g: tensor<1027x40xTYPE>, %s: tensor<40xTYPE>, %many: tensor<65536x8xTYPE>,
                %long: tensor<2x70000xf32>, %table: tensor<130x40xf32>, %updates: tensor<300x40xf32>)
    -> (tensor<1027x40xTYPE>, tensor<1027xf32>, tensor<1027xf32>, tensor<1027x40xTYPE>, tensor<1027xTYPE>,
        tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xf32>, tensor<8xTYPE>,
        tensor<2xf32>, tensor<130x40xf32>, tensor<130x40xf32>, tensor<130x40xf32>, tensor<130x40xf32>,
        tensor<1027xf32>, tensor<1027xf32>) {
  %ln, %mean, %rstd = scrimp.layer_norm %x scale(%s : tensor<40xTYPE>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<1027x40xTYPE> -> tensor<1027xf32>
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32>
  %sum = scrimp.reduce sum, %x [1] : tensor<1027x40xTYPE> -> tensor<1027xTYPE>
  %columns = scrimp.reduce sum, %x [0] : tensor<1027x40xTYPE> -> tensor<40xTYPE>
  %most = scrimp.reduce max, %x [0] : tensor<1027x40xTYPE> -> tensor<40xTYPE>
  %dw, %db = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32> -> tensor<40xTYPE>
  %dscale = scrimp.rms_norm_parameter_grad %x, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32> -> tensor<40xf32>
  %deep = scrimp.reduce sum, %many [0] : tensor<65536x8xTYPE> -> tensor<8xTYPE>
  %whole = scrimp.reduce sum, %long [1] : tensor<2x70000xf32> -> tensor<2xf32>
  // Rows 0, 7, 14, ... and around again; each of 130 two or three times.
  %i = scrimp.iota {dim = 0 : i64, step = 7.0 : f64} : tensor<300x1xi64>
  %n = scrimp.constant dense<130> : tensor<300x1xi64>
  %rows = scrimp.remainder %i, %n : tensor<300x1xi64>
  %add = scrimp.scatter_nd add, %table, %rows, %updates : tensor<130x40xf32>, tensor<300x1xi64>, tensor<300x40xf32>
  %put = scrimp.scatter_nd none, %table, %rows, %updates : tensor<130x40xf32>, tensor<300x1xi64>, tensor<300x40xf32>
  %flat = scrimp.reshape %rows : tensor<300x1xi64> -> tensor<300xi64>
  %fresh = scrimp.scatter_add %updates, %flat {dim = 0 : i64} : tensor<300x40xf32>, tensor<300xi64> -> tensor<130x40xf32>
  %e = scrimp.exp %table : tensor<130x40xf32>
  %onto = scrimp.scatter_add %updates, %flat onto(%e : tensor<130x40xf32>) {dim = 0 : i64} : tensor<300x40xf32>, tensor<300xi64> -> tensor<130x40xf32>
  // Logits of which about half are -inf.
  %zero = scrimp.constant dense<0.0> : tensor<1027x40xTYPE>
  %positive = scrimp.maximum %x, %zero : tensor<1027x40xTYPE>
  %logits = scrimp.log %positive : tensor<1027x40xTYPE>
  %number = scrimp.iota {dim = 0 : i64, step = 1.0 : f64} : tensor<1027xi64>
  %classes = scrimp.constant dense<40> : tensor<1027xi64>
  %labels = scrimp.remainder %number, %classes : tensor<1027xi64>
  %loss, %lse = scrimp.cross_entropy %logits, %labels : tensor<1027x40xTYPE>, tensor<1027xi64> -> tensor<1027xf32>
  return %ln, %mean, %rstd, %dx, %sum, %columns, %most, %dw, %db, %dscale, %deep, %whole, %add, %put, %fresh, %onto, %loss, %lse
      : tensor<1027x40xTYPE>, tensor<1027xf32>, tensor<1027xf32>, tensor<1027x40xTYPE>, tensor<1027xTYPE>,
        tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xf32>, tensor<8xTYPE>,
        tensor<2xf32>, tensor<130x40xf32>, tensor<130x40xf32>, tensor<130x40xf32>, tensor<130x40xf32>,
        tensor<1027xf32>, tensor<1027xf32>
}
