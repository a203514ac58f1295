// Reshape, broadcast along rows, two results, a reduction and a transpose, beside the interpreter.
// RUN: scrimp-kernel-test %s
func.func @main() -> (tensor<3x17xf32>, tensor<3x17xf32>, tensor<3xf32>, tensor<17x3xf32>) {
  %i = scrimp.iota {dim = 1 : i64, start = -3.0 : f64, step = 0.37 : f64} : tensor<3x17xf32>
  %b = scrimp.constant dense<[1.0, -2.0, 0.5]> : tensor<3xf32>
  %r = scrimp.reshape %b : tensor<3xf32> -> tensor<3x1xf32>
  %bb = scrimp.broadcast %r : tensor<3x1xf32> -> tensor<3x17xf32>
  %x = scrimp.mul %i, %bb : tensor<3x17xf32>
  %y = scrimp.gelu %x : tensor<3x17xf32>
  %z = scrimp.tanh %y : tensor<3x17xf32>
  %s = scrimp.reduce sum, %z [1] : tensor<3x17xf32> -> tensor<3xf32>
  %t = scrimp.transpose %z [1, 0] : tensor<3x17xf32> -> tensor<17x3xf32>
  return %y, %z, %s, %t : tensor<3x17xf32>, tensor<3x17xf32>, tensor<3xf32>, tensor<17x3xf32>
}
