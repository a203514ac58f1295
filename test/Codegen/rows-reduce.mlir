// Reductions over trailing, leading, middle and all dimensions, and what adds up at indices.
// RUN: sed -e 's/COLS/17/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/1/g' -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/70/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/33/g' -e 's/TYPE/f16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/64/g' -e 's/TYPE/i32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/COLS/19/g' -e 's/TYPE/i64/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/COLS/9001/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/0/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
func.func @main() -> (tensor<2x3xTYPE>, tensor<3xCOLSxTYPE>, tensor<2xCOLSxTYPE>, tensor<TYPE>, tensor<2x3xTYPE>,
    tensor<COLSxTYPE>, tensor<3xTYPE>, tensor<2xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
    tensor<2x3xCOLSxTYPE>, tensor<COLSxTYPE>) {
  %i = scrimp.iota {dim = 2 : i64, start = 1.0 : f64} : tensor<2x3xCOLSxi32>
  %j = scrimp.iota {dim = 1 : i64, start = 5.0 : f64} : tensor<2x3xCOLSxi32>
  %k = scrimp.iota {dim = 0 : i64, start = 3.0 : f64} : tensor<2x3xCOLSxi32>
  %ij = scrimp.mul %i, %j : tensor<2x3xCOLSxi32>
  %ijk = scrimp.mul %ij, %k : tensor<2x3xCOLSxi32>
  %seven = scrimp.constant dense<7> : tensor<2x3xCOLSxi32>
  %three = scrimp.constant dense<3> : tensor<2x3xCOLSxi32>
  %r = scrimp.remainder %ijk, %seven : tensor<2x3xCOLSxi32>
  %c = scrimp.sub %r, %three : tensor<2x3xCOLSxi32>
  %x = scrimp.cast %c : tensor<2x3xCOLSxi32> -> tensor<2x3xCOLSxTYPE>
  %row = scrimp.iota {dim = 0 : i64} : tensor<COLSxTYPE>
  %rows = scrimp.broadcast %row : tensor<COLSxTYPE> -> tensor<2x3xCOLSxTYPE>

  %s2 = scrimp.reduce sum, %x [2] : tensor<2x3xCOLSxTYPE> -> tensor<2x3xTYPE>
  %s0 = scrimp.reduce sum, %x [0] : tensor<2x3xCOLSxTYPE> -> tensor<3xCOLSxTYPE>
  %s1 = scrimp.reduce sum, %x [1] : tensor<2x3xCOLSxTYPE> -> tensor<2xCOLSxTYPE>
  %s = scrimp.reduce sum, %x [0, 1, 2] : tensor<2x3xCOLSxTYPE> -> tensor<TYPE>
  %max = scrimp.reduce max, %x [2] : tensor<2x3xCOLSxTYPE> -> tensor<2x3xTYPE>
  %min = scrimp.reduce min, %x [0, 1] : tensor<2x3xCOLSxTYPE> -> tensor<COLSxTYPE>
  // A free producer is computed where the reduction reads it.
  %free = scrimp.reduce max, %rows [0, 2] : tensor<2x3xCOLSxTYPE> -> tensor<3xTYPE>
  %prod = scrimp.reduce prod, %x [1] : tensor<2x3xCOLSxTYPE> -> tensor<2xCOLSxTYPE>
  %cumsum = scrimp.cumsum %x {dim = 1 : i64} : tensor<2x3xCOLSxTYPE>
  %back = scrimp.cumsum %x {dim = 2 : i64, exclusive, reverse} : tensor<2x3xCOLSxTYPE>
  %updates = scrimp.slice %x [0, 0, 0] [1, 1, 1] : tensor<2x3xCOLSxTYPE> -> tensor<2x1xCOLSxTYPE>
  %pairs = scrimp.constant dense<[[0, 2], [1, -3]]> : tensor<2x2xi64>
  %flat = scrimp.reshape %updates : tensor<2x1xCOLSxTYPE> -> tensor<2xCOLSxTYPE>
  %scattered = scrimp.scatter_nd none, %x, %pairs, %flat : tensor<2x3xCOLSxTYPE>, tensor<2x2xi64>, tensor<2xCOLSxTYPE>
  %pair = scrimp.constant dense<[-1, 2]> : tensor<2xi64>
  %picked = scrimp.gather_nd %x, %pair : tensor<2x3xCOLSxTYPE>, tensor<2xi64> -> tensor<COLSxTYPE>
  return %s2, %s0, %s1, %s, %max, %min, %free, %prod, %cumsum, %back, %scattered, %picked : tensor<2x3xTYPE>,
      tensor<3xCOLSxTYPE>, tensor<2xCOLSxTYPE>, tensor<TYPE>, tensor<2x3xTYPE>, tensor<COLSxTYPE>, tensor<3xTYPE>,
      tensor<2xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<COLSxTYPE>
}
