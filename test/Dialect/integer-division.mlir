// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-kernel-test %s

// Nothing traps: x / 0 is x and x % 0 is 0; the least integer by -1 is itself, with remainder 0.
func.func @main() -> (tensor<4xi64>, tensor<4xi64>, tensor<2xi32>) {
  %a = scrimp.constant dense<[-9223372036854775808, -9223372036854775808, 7, -7]> : tensor<4xi64>
  %b = scrimp.constant dense<[-1, 0, 0, 2]> : tensor<4xi64>
  // CHECK: [-9223372036854775808, -9223372036854775808, 7, -3]
  %quotient = scrimp.div %a, %b : tensor<4xi64>
  // CHECK-NEXT: [0, 0, 0, -1]
  %rest = scrimp.remainder %a, %b : tensor<4xi64>
  %c = scrimp.constant dense<[-2147483648, 9]> : tensor<2xi32>
  %d = scrimp.constant dense<[-1, -1]> : tensor<2xi32>
  // CHECK-NEXT: [-2147483648, -9]
  %narrow = scrimp.div %c, %d : tensor<2xi32>
  return %quotient, %rest, %narrow : tensor<4xi64>, tensor<4xi64>, tensor<2xi32>
}
