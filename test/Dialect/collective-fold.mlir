// On one rank nothing is exchanged and nothing rounded.
// RUN: scrimp-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @alone(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<i64>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]] :
func.func @alone(%x: tensor<4xf32>, %rank: tensor<i64>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = scrimp.all_reduce sum, %x world 1 wire bf16 : tensor<4xf32>
  %reduced = scrimp.wait %a : tensor<4xf32>
  %b = scrimp.reduce_scatter %x world 1 per_step : tensor<4xf32> -> tensor<4xf32>
  %scattered = scrimp.wait %b : tensor<4xf32>
  %c = scrimp.all_gather %x world 1 : tensor<4xf32> -> tensor<4xf32>
  %gathered = scrimp.wait %c : tensor<4xf32>
  %d = scrimp.collective_broadcast %x root 0 world 1 : tensor<4xf32>
  %sent = scrimp.wait %d : tensor<4xf32>
  %shard = scrimp.shard %x, %rank world 1 : tensor<4xf32> -> tensor<4xf32>
  return %reduced, %scattered, %gathered, %sent, %shard
      : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
