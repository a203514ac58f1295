// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-run --typed %s | FileCheck %s --check-prefix=TYPED
// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - | FileCheck %s

func.func @main() -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %a = scrimp.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  // CHECK: {{\[}}[2.7182818284590451, 7.3890560989306504, 20.0855369231876{{[0-9]*}}], [54.598150033144236, 148.4131591025766, 403.42879349273511]]
  // TYPED: {{\[}}[2.71828175, 7.38905621, 20.085537], [54.5981483, 148.413162, 403.428802]]
  %exp = scrimp.exp %a : tensor<2x3xf32>
  // CHECK-NEXT: [6, 15]
  %sum = scrimp.reduce sum, %a [1] : tensor<2x3xf32> -> tensor<2xf32>
  // 1·1 + 2·2 + 3·3 = 14, 1·4 + 2·5 + 3·6 = 32, 4·4 + 5·5 + 6·6 = 77
  // CHECK-NEXT: {{\[}}[14, 32], [32, 77]]
  %gram = scrimp.matmul %a, %a {transpose_b} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32>
  // Every second column, backwards.
  // CHECK-NEXT: {{\[}}[3, 1], [6, 4]]
  %slice = scrimp.slice %a [0, 2] [1, -2] : tensor<2x3xf32> -> tensor<2x2xf32>
  return %exp, %sum, %gram, %slice : tensor<2x3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
