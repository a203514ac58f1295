// Scatters add in row-major order; arg_max and top_k break ties by the lower index; random numbers are the
// interpreter's bits.
// RUN: sed -e 's/COLS/17/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/COLS/3/g' -e 's/TYPE/f64/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/COLS/130/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test -
func.func @main() -> (tensor<5xCOLSxTYPE>, tensor<2x4xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2xCOLSxi64>,
    tensor<2x3xi32>, tensor<2x3x2xTYPE>, tensor<2x3x2xi64>, tensor<6xCOLSxTYPE>, tensor<6xCOLSxTYPE>) {
  %i = scrimp.iota {dim = 2 : i64, start = 1.0 : f64} : tensor<2x3xCOLSxi32>
  %j = scrimp.iota {dim = 1 : i64, start = 5.0 : f64} : tensor<2x3xCOLSxi32>
  %ij = scrimp.mul %i, %j : tensor<2x3xCOLSxi32>
  %five = scrimp.constant dense<5> : tensor<2x3xCOLSxi32>
  %three = scrimp.constant dense<3> : tensor<2x3xCOLSxi32>
  %r = scrimp.remainder %ij, %five : tensor<2x3xCOLSxi32>
  %indices = scrimp.remainder %r, %three : tensor<2x3xCOLSxi32>
  %x = scrimp.cast %r : tensor<2x3xCOLSxi32> -> tensor<2x3xCOLSxTYPE>
  %flat = scrimp.reshape %x : tensor<2x3xCOLSxTYPE> -> tensor<6xCOLSxTYPE>

  %at = scrimp.constant dense<[1, -1, 1, 0, 4, 1]> : tensor<6xi64>
  %scatter = scrimp.scatter_add %flat, %at {dim = 0 : i64} : tensor<6xCOLSxTYPE>, tensor<6xi64> -> tensor<5xCOLSxTYPE>
  %onto = scrimp.scatter_add %flat, %at onto(%scatter : tensor<5xCOLSxTYPE>) {dim = 0 : i64} : tensor<6xCOLSxTYPE>, tensor<6xi64> -> tensor<5xCOLSxTYPE>
  %elements = scrimp.scatter_elements_add %x, %indices {dim = 1 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxi32> -> tensor<2x4xCOLSxTYPE>
  %gathered = scrimp.gather_elements %x, %indices {dim = 1 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxi32> -> tensor<2x3xCOLSxTYPE>
  %best = scrimp.arg_max %x {dim = 1 : i64} : tensor<2x3xCOLSxTYPE> -> tensor<2xCOLSxi64>
  %last = scrimp.arg_max %x {dim = 2 : i64, last} : tensor<2x3xCOLSxTYPE> -> tensor<2x3xi32>
  %values, %places = scrimp.top_k %x {dim = 2 : i64} : tensor<2x3xCOLSxTYPE> -> tensor<2x3x2xTYPE>, tensor<2x3x2xi64>
  %seed = scrimp.constant dense<42> : tensor<i64>
  %step = scrimp.constant dense<7> : tensor<i64>
  %base = scrimp.constant dense<1000000007> : tensor<i64>
  %dropped = scrimp.dropout %flat, %seed, %step, %base {key = 3 : i64, batch_dim = 0 : i64, samples = 3 : i64, p = 0.3 : f64} : tensor<6xCOLSxTYPE>
  %uniform = scrimp.random_uniform %seed, %step, %base {key = 4 : i64, batch_dim = -1 : i64, samples = 1 : i64, low = -1.0 : f64, high = 3.0 : f64} : tensor<6xCOLSxTYPE>
  return %onto, %elements, %gathered, %best, %last, %values, %places, %dropped, %uniform : tensor<5xCOLSxTYPE>,
      tensor<2x4xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2xCOLSxi64>, tensor<2x3xi32>, tensor<2x3x2xTYPE>,
      tensor<2x3x2xi64>, tensor<6xCOLSxTYPE>, tensor<6xCOLSxTYPE>
}
