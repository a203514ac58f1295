// Ops that move elements, fused with elementwise readers where they may be; dimensions of size 1 and 0, long rows.
// RUN: sed -e 's/TYPE/f32/g' -e 's/COLS/17/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/f64/g' -e 's/COLS/1/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/bf16/g' -e 's/COLS/64/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/i32/g' -e 's/COLS/9001/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/f32/g' -e 's/COLS/0/g' %s | scrimp-kernel-test -
func.func @main() -> (tensor<3x2xCOLSxTYPE>, tensor<2xCOLSx3xTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
    tensor<2x5xCOLSxTYPE>, tensor<2x6xCOLSxTYPE>, tensor<1x3xCOLSxTYPE>, tensor<2x2x2xCOLSxTYPE>) {
  %i = scrimp.iota {dim = 2 : i64, start = 1.0 : f64} : tensor<2x3xCOLSxTYPE>
  %j = scrimp.iota {dim = 1 : i64, start = -2.0 : f64} : tensor<2x3xCOLSxTYPE>
  %k = scrimp.iota {dim = 0 : i64, start = 3.0 : f64} : tensor<2x3xCOLSxTYPE>
  %ij = scrimp.mul %i, %j : tensor<2x3xCOLSxTYPE>
  %x = scrimp.add %ij, %k : tensor<2x3xCOLSxTYPE>
  %row = scrimp.iota {dim = 0 : i64} : tensor<COLSxTYPE>
  %channel = scrimp.iota {dim = 0 : i64} : tensor<3x1xTYPE>

  %t = scrimp.transpose %x [1, 0, 2] : tensor<2x3xCOLSxTYPE> -> tensor<3x2xCOLSxTYPE>
  %t2 = scrimp.add %t, %t : tensor<3x2xCOLSxTYPE>
  %u = scrimp.transpose %x [0, 2, 1] : tensor<2x3xCOLSxTYPE> -> tensor<2xCOLSx3xTYPE>
  %rows = scrimp.broadcast %row : tensor<COLSxTYPE> -> tensor<2x3xCOLSxTYPE>
  %withRow = scrimp.add %x, %rows : tensor<2x3xCOLSxTYPE>
  %channels = scrimp.broadcast %channel : tensor<3x1xTYPE> -> tensor<2x3xCOLSxTYPE>
  %withChannel = scrimp.mul %x, %channels : tensor<2x3xCOLSxTYPE>
  %padded = scrimp.pad %x [0, 1, 0] [1, 1, 1] {value = 7.0 : f64} : tensor<2x3xCOLSxTYPE> -> tensor<2x5xCOLSxTYPE>
  %joined = scrimp.concat %x, %withRow {dim = 1 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE> -> tensor<2x6xCOLSxTYPE>
  %reversed = scrimp.slice %x [1, 2, 0] [1, -1, 1] : tensor<2x3xCOLSxTYPE> -> tensor<1x3xCOLSxTYPE>
  %at = scrimp.constant dense<[[2, -3], [0, 1]]> : tensor<2x2xi64>
  %gathered = scrimp.gather %x, %at {dim = 1 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x2xi64> -> tensor<2x2x2xCOLSxTYPE>
  return %t2, %u, %withRow, %withChannel, %padded, %joined, %reversed, %gathered : tensor<3x2xCOLSxTYPE>,
      tensor<2xCOLSx3xTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x5xCOLSxTYPE>,
      tensor<2x6xCOLSxTYPE>, tensor<1x3xCOLSxTYPE>, tensor<2x2x2xCOLSxTYPE>
}
