// Enough rows that several warps of a device share a block, each with its own, the last block not full; sums over many
// rows and long ones, and a scatter.
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
func.func @main(%x: tensor<1027x40xTYPE>, %g: tensor<1027x40xTYPE>, %s: tensor<40xTYPE>, %many: tensor<8192x8xTYPE>,
                %long: tensor<2x70000xf32>, %table: tensor<130x40xf32>, %updates: tensor<300x40xf32>)
    -> (tensor<1027x40xTYPE>, tensor<1027xf32>, tensor<1027xf32>, tensor<1027x40xTYPE>, tensor<1027xTYPE>,
        tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xf32>, tensor<8xTYPE>,
        tensor<2xf32>, tensor<130x40xf32>, tensor<130x40xf32>) {
  %ln, %mean, %rstd = scrimp.layer_norm %x scale(%s : tensor<40xTYPE>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<1027x40xTYPE> -> tensor<1027xf32>
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32>
  %sum = scrimp.reduce sum, %x [1] : tensor<1027x40xTYPE> -> tensor<1027xTYPE>
  %columns = scrimp.reduce sum, %x [0] : tensor<1027x40xTYPE> -> tensor<40xTYPE>
  %most = scrimp.reduce max, %x [0] : tensor<1027x40xTYPE> -> tensor<40xTYPE>
  %dw, %db = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32> -> tensor<40xTYPE>
  %dscale = scrimp.rms_norm_parameter_grad %x, %rstd, %g {axis = 1 : i64} : tensor<1027x40xTYPE>, tensor<1027xf32> -> tensor<40xf32>
  %deep = scrimp.reduce sum, %many [0] : tensor<8192x8xTYPE> -> tensor<8xTYPE>
  %whole = scrimp.reduce sum, %long [1] : tensor<2x70000xf32> -> tensor<2xf32>
  // Rows 0, 7, 14, ... and around again; each of 130 two or three times.
  %i = scrimp.iota {dim = 0 : i64, step = 7.0 : f64} : tensor<300x1xi64>
  %n = scrimp.constant dense<130> : tensor<300x1xi64>
  %rows = scrimp.remainder %i, %n : tensor<300x1xi64>
  %add = scrimp.scatter_nd add, %table, %rows, %updates : tensor<130x40xf32>, tensor<300x1xi64>, tensor<300x40xf32>
  %put = scrimp.scatter_nd none, %table, %rows, %updates : tensor<130x40xf32>, tensor<300x1xi64>, tensor<300x40xf32>
  return %ln, %mean, %rstd, %dx, %sum, %columns, %most, %dw, %db, %dscale, %deep, %whole, %add, %put
      : tensor<1027x40xTYPE>, tensor<1027xf32>, tensor<1027xf32>, tensor<1027x40xTYPE>, tensor<1027xTYPE>,
        tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xTYPE>, tensor<40xf32>, tensor<8xTYPE>,
        tensor<2xf32>, tensor<130x40xf32>, tensor<130x40xf32>
}
