// Where sums over ranks round: each step to f32 (f64 for f64), in the order of the ranks, and what is sent to the type on
// the wire.
// RUN: scrimp-run %s --world 3 --typed --inputs terms | FileCheck %s
// In fp64 nothing rounds.
// RUN: scrimp-run %s --world 3 --inputs terms | FileCheck %s --check-prefix=EXACT

// A row for each rank.
func.func @terms(%rank: tensor<i64> {scrimp.scalar = "rank"}) -> tensor<6xf32> {
  %all = scrimp.constant dense<[[1.0, 16777216.0, 1.001953125, 256.0, 0.0, 0.0], [1.0e8, 1.0, 0.0, 1.0, 0.0, 0.0],
                                [-1.0e8, 1.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<3x6xf32>
  %row = scrimp.gather %all, %rank {dim = 0 : i64} : tensor<3x6xf32>, tensor<i64> -> tensor<6xf32>
  return %row : tensor<6xf32>
}

func.func @main(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xbf16>, tensor<6xf64>, tensor<2xf32>) {
  // 1 + 1e8 is 1e8 in f32; 2^24 + 1 is 2^24, twice.
  // CHECK: {{^}}[0, 16777216, 1.00195312, 257, 0, 0]
  // EXACT: {{^}}[1, 16777218, 1.001953125, 257, 0, 0]
  %a = scrimp.all_reduce sum, %x world 3 : tensor<6xf32>
  %sum = scrimp.wait %a : tensor<6xf32>
  // In bf16 1 + 2^-9 is a tie, and 1 is even; so are 257, a sum of terms that are exact, and 256.
  // CHECK-NEXT: {{^}}[0, 16777216, 1, 256, 0, 0]
  // EXACT-NEXT: {{^}}[1, 16777218, 1.001953125, 257, 0, 0]
  %b = scrimp.all_reduce sum, %x world 3 wire bf16 : tensor<6xf32>
  %sent = scrimp.wait %b : tensor<6xf32>
  // Elements of 16 bits are summed in f32 and rounded once.
  // CHECK-NEXT: {{^}}[0, 16777216, 1, 256, 0, 0]
  %narrow = scrimp.cast %x : tensor<6xf32> -> tensor<6xbf16>
  %c = scrimp.all_reduce sum, %narrow world 3 : tensor<6xbf16>
  %low = scrimp.wait %c : tensor<6xbf16>
  // CHECK-NEXT: {{^}}[1, 16777218, 1.00195312, 257, 0, 0]
  %wide = scrimp.cast %x : tensor<6xf32> -> tensor<6xf64>
  %d = scrimp.all_reduce sum, %wide world 3 : tensor<6xf64>
  %high = scrimp.wait %d : tensor<6xf64>
  // Parts of the same sums, which nobody sends: 257.
  // CHECK-NEXT: rank 0: [0, 16777216]
  // CHECK-NEXT: rank 1: [1, 257]
  // CHECK-NEXT: rank 2: [0, 0]
  %e = scrimp.reduce_scatter %x world 3 wire bf16 : tensor<6xf32> -> tensor<2xf32>
  %part = scrimp.wait %e : tensor<2xf32>
  return %sum, %sent, %low, %high, %part : tensor<6xf32>, tensor<6xf32>, tensor<6xbf16>, tensor<6xf64>, tensor<2xf32>
}
