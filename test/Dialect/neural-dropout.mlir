// RUN: scrimp-run %s | FileCheck %s
// RUN: scrimp-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

func.func @main() -> (tensor<4x8xf64>, tensor<2x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<i64>, tensor<f64>) {
  %seed = scrimp.constant dense<42> : tensor<i64>
  %step = scrimp.constant dense<7> : tensor<i64>
  %next = scrimp.constant dense<8> : tensor<i64>
  %first = scrimp.constant dense<0> : tensor<i64>
  %third = scrimp.constant dense<2> : tensor<i64>
  %ones = scrimp.constant dense<1.0> : tensor<4x8xf64>
  %half = scrimp.constant dense<1.0> : tensor<2x8xf64>
  // CHECK: {{\[}}[[ROW0:.*]], [[ROW1:.*]], [[ROW2:\[[02, ]*\]]], [[ROW3:\[[02, ]*\]]]]
  %y = scrimp.dropout %ones, %seed, %step, %first {key = 3 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<4x8xf64>
  // The second half of the batch by itself: samples 2 and 3.
  // CHECK-NEXT: {{\[}}[[ROW2]], [[ROW3]]]
  %split = scrimp.dropout %half, %seed, %step, %third {key = 3 : i64, batch_dim = 0 : i64, samples = 2 : i64, p = 0.5 : f64} : tensor<2x8xf64>
  // Another step, another op, another seed: other masks.
  // CHECK-NOT: [[ROW2]]
  %other = scrimp.dropout %ones, %seed, %next, %first {key = 3 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<4x8xf64>
  %another = scrimp.dropout %ones, %seed, %step, %first {key = 4 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<4x8xf64>
  %third_one = scrimp.dropout %ones, %step, %step, %first {key = 3 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<4x8xf64>
  // Of 65536 draws 0.25 are dropped: 16384, standard deviation 111.
  // CHECK: {{^16[234][0-9][0-9]$}}
  %many = scrimp.constant dense<1.0> : tensor<256x256xf64>
  %masked = scrimp.dropout %many, %seed, %step, %first {key = 3 : i64, batch_dim = 0 : i64, samples = 256 : i64, p = 0.25 : f64} : tensor<256x256xf64>
  %zero = scrimp.constant dense<0.0> : tensor<256x256xf64>
  %is = scrimp.compare eq, %masked, %zero : tensor<256x256xf64> -> tensor<256x256xi1>
  %count = scrimp.cast %is : tensor<256x256xi1> -> tensor<256x256xi64>
  %dropped = scrimp.reduce sum, %count [0, 1] : tensor<256x256xi64> -> tensor<i64>
  // Four samples of two indices each, as [batch * seq, width] has them: the same draws as [batch, seq * width].
  // CHECK-NEXT: {{^0$}}
  %tall = scrimp.constant dense<1.0> : tensor<8x4xf64>
  %rows = scrimp.dropout %tall, %seed, %step, %first {key = 3 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<8x4xf64>
  %flat = scrimp.reshape %rows : tensor<8x4xf64> -> tensor<4x8xf64>
  %differ = scrimp.sub %flat, %y : tensor<4x8xf64>
  %distance = scrimp.reduce max, %differ [0, 1] : tensor<4x8xf64> -> tensor<f64>
  return %y, %split, %other, %another, %third_one, %dropped, %distance : tensor<4x8xf64>, tensor<2x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<4x8xf64>, tensor<i64>, tensor<f64>
}

// FOLD-LABEL: @nothing_dropped
// FOLD-SAME: %[[X:.*]]: tensor<4xf32>
// FOLD-NEXT: return %[[X]]
func.func @nothing_dropped(%x: tensor<4xf32>, %s: tensor<i64>) -> tensor<4xf32> {
  %y = scrimp.dropout %x, %s, %s, %s {key = 0 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.0 : f64} : tensor<4xf32>
  return %y : tensor<4xf32>
}
