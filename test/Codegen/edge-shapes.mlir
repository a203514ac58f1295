// Scalars, dimensions of size 1 alone, empty tensors and splats of i1.
// RUN: scrimp-kernel-test %s
func.func @main() -> (tensor<f32>, tensor<1x1x1xf32>, tensor<1x5x1xf32>, tensor<2x0x3xf32>, tensor<0xf32>,
    tensor<f32>, tensor<1x1x5xf32>, tensor<3xi1>) {
  %a = scrimp.constant dense<2.5> : tensor<f32>
  %e = scrimp.exp %a : tensor<f32>
  %b = scrimp.broadcast %e : tensor<f32> -> tensor<1x1x1xf32>
  %t = scrimp.tanh %b : tensor<1x1x1xf32>
  %i = scrimp.iota {dim = 1 : i64} : tensor<1x5x1xf32>
  %bb = scrimp.broadcast %b : tensor<1x1x1xf32> -> tensor<1x5x1xf32>
  %m = scrimp.mul %i, %bb : tensor<1x5x1xf32>
  %z = scrimp.iota {dim = 1 : i64} : tensor<2x0x3xf32>
  %zz = scrimp.neg %z : tensor<2x0x3xf32>
  %r = scrimp.reduce sum, %zz [0, 1, 2] : tensor<2x0x3xf32> -> tensor<f32>
  %y = scrimp.reshape %zz : tensor<2x0x3xf32> -> tensor<0xf32>
  %yy = scrimp.exp %y : tensor<0xf32>
  %tr = scrimp.transpose %m [2, 0, 1] : tensor<1x5x1xf32> -> tensor<1x1x5xf32>
  %bc = scrimp.constant dense<true> : tensor<3xi1>
  return %e, %t, %m, %zz, %yy, %r, %tr, %bc : tensor<f32>, tensor<1x1x1xf32>, tensor<1x5x1xf32>, tensor<2x0x3xf32>, tensor<0xf32>, tensor<f32>, tensor<1x1x5xf32>, tensor<3xi1>
}
