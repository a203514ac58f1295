// Expected numbers are torch's (float64).
// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-opt %s --verify-roundtrip | scrimp-run - | FileCheck %s

func.func @main() -> (tensor<4xf64>, tensor<4xf64>, tensor<4x5xf64>, tensor<f64>, tensor<f32>) {
  %x = scrimp.constant dense<[[-2.7278922804770449, -2.9285557062894867, -2.9999003413323875, -2.93877575827673, -2.7478810886944616], [-2.435645835149495, -2.0158576422945642, -1.507053463810538, -0.93170100996112504, -0.31520662129784771], [0.31520662129784771, 0.93170100996112504, 1.507053463810538, 2.0158576422945642, 2.435645835149495], [2.7478810886944616, 2.93877575827673, 2.9999003413323875, 2.9285557062894867, 2.7278922804770449]]> : tensor<4x5xf64>
  %g = scrimp.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf64>
  %labels = scrimp.constant dense<[0, 1, -100, 4]> : tensor<4xi64>
  // CHECK: [1.4747890862{{[0-9]*}}, 2.4642739331{{[0-9]*}}, 0, 1.7560924479{{[0-9]*}}]
  // CHECK-NEXT: [-1.2531031942{{[0-9]*}}, 0.44841629086{{[0-9]*}}, 3.3088311731{{[0-9]*}}, 4.4839847284{{[0-9]*}}]
  %loss, %lse = scrimp.cross_entropy %x, %labels {ignore_index = -100 : i64} : tensor<4x5xf64>, tensor<4xi64> -> tensor<4xf64>
  // CHECK-NEXT: {{\[}}[-0.77117301528{{[0-9]*}}, 0.18722343944{{[0-9]*}}, 0.17433140809{{[0-9]*}}, 0.18531975063{{[0-9]*}}, 0.22429841711{{[0-9]*}}], [0.11181439772{{[0-9]*}}, -1.8298588262{{[0-9]*}}, 0.28299598347{{[0-9]*}}, 0.50309808883{{[0-9]*}}, 0.93195035619{{[0-9]*}}], [0, 0, 0, 0, 0], [0.70482250161{{[0-9]*}}, 0.85306920025{{[0-9]*}}, 0.90683929645{{[0-9]*}}, 0.84439518860{{[0-9]*}}, -3.3091261869{{[0-9]*}}]]
  %dx = scrimp.cross_entropy_grad %x, %labels, %lse, %g {ignore_index = -100 : i64} : tensor<4x5xf64>, tensor<4xi64>, tensor<4xf64>
  // A mean over rows.
  // CHECK-NEXT: 1.8742332941{{[0-9]*}}
  %all = scrimp.constant dense<[0, 1, 2, 4]> : tensor<4xi32>
  %losses, %unused = scrimp.cross_entropy %x, %all : tensor<4x5xf64>, tensor<4xi32> -> tensor<4xf64>
  %sum = scrimp.reduce sum, %losses [0] : tensor<4xf64> -> tensor<f64>
  %count = scrimp.constant dense<4.0> : tensor<f64>
  %mean = scrimp.div %sum, %count : tensor<f64>
  // One row without further dimensions; the loss of bf16 logits is f32: log(2).
  // CHECK-NEXT: 0.6931471805{{[0-9]*}}
  %row = scrimp.constant dense<[2.0, 2.0]> : tensor<2xbf16>
  %one = scrimp.constant dense<1> : tensor<i64>
  %log2, %unused2 = scrimp.cross_entropy %row, %one : tensor<2xbf16>, tensor<i64> -> tensor<f32>
  return %loss, %lse, %dx, %mean, %log2 : tensor<4xf64>, tensor<4xf64>, tensor<4x5xf64>, tensor<f64>, tensor<f32>
}
