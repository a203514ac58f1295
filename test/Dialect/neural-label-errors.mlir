// The interpreter rejects a label that is no class.
// RUN: not scrimp-run %s 2>&1 | FileCheck %s
// CHECK: label 5 of row 1 is not in [0, 5) and not the ignored -100

func.func @main() -> tensor<2xf64> {
  %x = scrimp.constant dense<1.0> : tensor<2x5xf64>
  %labels = scrimp.constant dense<[-100, 5]> : tensor<2xi64>
  %loss, %lse = scrimp.cross_entropy %x, %labels {ignore_index = -100 : i64} : tensor<2x5xf64>, tensor<2xi64> -> tensor<2xf64>
  return %loss : tensor<2xf64>
}
