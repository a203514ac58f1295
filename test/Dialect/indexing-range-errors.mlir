// The interpreter rejects indices out of range.
// RUN: not scrimp-run %s 2>&1 | FileCheck %s

func.func @main() -> tensor<2xf32> {
  %x = scrimp.constant dense<1.0> : tensor<2x3xf32>
  %i = scrimp.constant dense<[[0, 2], [1, -4]]> : tensor<2x2xi64>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: 'scrimp.gather_nd' op index -4 is outside [-3, 3)
  %y = scrimp.gather_nd %x, %i : tensor<2x3xf32>, tensor<2x2xi64> -> tensor<2xf32>
  return %y : tensor<2xf32>
}
