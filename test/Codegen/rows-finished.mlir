// What maps make of a row op's result they compute where it would be stored: the numbers of the interpreter, in any ranges,
// in place, and with a kernel each; on a device too.
// RUN: sed -e 's/COLS/17/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/100/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/16/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --target emulated --ulps 64 -
// RUN: sed -e 's/COLS/300/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --target emulated --ulps 64 -
func.func @main() -> (tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxf32>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>) {
  %i = scrimp.iota {dim = 2 : i64, start = 1.0 : f64, step = 0.7 : f64} : tensor<2x3xCOLSxf32>
  %j = scrimp.iota {dim = 1 : i64, start = -1.0 : f64, step = 0.9 : f64} : tensor<2x3xCOLSxf32>
  %ij = scrimp.mul %i, %j : tensor<2x3xCOLSxf32>
  %sin = scrimp.sin %ij : tensor<2x3xCOLSxf32>
  %cos = scrimp.cos %ij : tensor<2x3xCOLSxf32>
  %x = scrimp.cast %sin : tensor<2x3xCOLSxf32> -> tensor<2x3xCOLSxTYPE>
  %g = scrimp.cast %cos : tensor<2x3xCOLSxf32> -> tensor<2x3xCOLSxTYPE>
  %w = scrimp.iota {dim = 0 : i64, start = 0.5 : f64, step = 0.01 : f64} : tensor<COLSxf32>
  %scale = scrimp.exp %w : tensor<COLSxf32>

  // Added to another gradient, whose bytes the sum may take.
  %y, %mean, %rstd = scrimp.layer_norm %x scale(%scale : tensor<COLSxf32>) bias(%scale : tensor<COLSxf32>)
    {axis = 2 : i64, epsilon = 1.0e-05 : f64} : tensor<2x3xCOLSxTYPE> -> tensor<2x3xf32>
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %g scale(%scale : tensor<COLSxf32>) {axis = 2 : i64}
    : tensor<2x3xCOLSxTYPE>, tensor<2x3xf32>
  %wide = scrimp.cast %dx : tensor<2x3xCOLSxTYPE> -> tensor<2x3xCOLSxf32>
  %other = scrimp.cast %g : tensor<2x3xCOLSxTYPE> -> tensor<2x3xCOLSxf32>
  %sum = scrimp.add %wide, %other : tensor<2x3xCOLSxf32>
  %stored = scrimp.cast %sum : tensor<2x3xCOLSxf32> -> tensor<2x3xCOLSxTYPE>

  // Two values of one result, one of them by another; statistics are stored beside.
  %n, %r = scrimp.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-05 : f64} : tensor<2x3xCOLSxTYPE> -> tensor<2x3xf32>
  %t = scrimp.tanh %n : tensor<2x3xCOLSxTYPE>
  %u = scrimp.mul %t, %n : tensor<2x3xCOLSxTYPE>
  %rs = scrimp.reshape %r : tensor<2x3xf32> -> tensor<2x3x1xf32>
  %spread = scrimp.broadcast %rs : tensor<2x3x1xf32> -> tensor<2x3xCOLSxf32>

  // Softmax reads back what it stores: a map behind it has a kernel of its own; that of its gradient has not.
  %s = scrimp.softmax %x : tensor<2x3xCOLSxTYPE>
  %e = scrimp.neg %s : tensor<2x3xCOLSxTYPE>
  %ds = scrimp.softmax_grad %e, %g : tensor<2x3xCOLSxTYPE>
  %f = scrimp.neg %ds : tensor<2x3xCOLSxTYPE>
  return %stored, %t, %u, %spread, %e, %f : tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxf32>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>
}
