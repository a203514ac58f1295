// Squares of less than one block, of whole blocks, and of two blocks and a rest; f16, f32 and f64 operands.
// RUN: scrimp-kernel-test %s
func.func @main() -> (tensor<1xf64>, tensor<2xf64>, tensor<3xf64>, tensor<1xf64>, tensor<0xf64>) {
  %a = scrimp.iota {dim = 0 : i64, start = -3.0 : f64, step = 0.375 : f64} : tensor<21xf32>
  %i = scrimp.iota {dim = 0 : i64, start = 1.0 : f64, step = 1.0 : f64} : tensor<32768xf32>
  %big = scrimp.constant dense<1.0e30> : tensor<32768xf32>
  %b = scrimp.mul %i, %big : tensor<32768xf32>
  %c = scrimp.iota {dim = 0 : i64, start = -7.0 : f64, step = 0.0078125 : f64} : tensor<32779xf64>
  %d = scrimp.iota {dim = 0 : i64, start = 5000.0 : f64, step = 1.0 : f64} : tensor<33xf16>
  %e = scrimp.iota {dim = 0 : i64} : tensor<0xf32>
  %sa = scrimp.sum_squares %a : tensor<21xf32> -> tensor<1xf64>
  %sb = scrimp.sum_squares %b : tensor<32768xf32> -> tensor<2xf64>
  %sc = scrimp.sum_squares %c : tensor<32779xf64> -> tensor<3xf64>
  %sd = scrimp.sum_squares %d : tensor<33xf16> -> tensor<1xf64>
  %se = scrimp.sum_squares %e : tensor<0xf32> -> tensor<0xf64>
  return %sa, %sb, %sc, %sd, %se : tensor<1xf64>, tensor<2xf64>, tensor<3xf64>, tensor<1xf64>, tensor<0xf64>
}
