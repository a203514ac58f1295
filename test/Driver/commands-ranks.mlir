// A program of two ranks as text: collectives and their waits, and a part that moves with the rank.
// RUN: scrimp-compile %s --workers 1 --no-fuse --emit commands -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: scrimp-opt %t.mlir --verify-roundtrip -o /dev/null
// RUN: scrimp-plan %s --workers 1 --no-fuse --dump | FileCheck %s

// CHECK: scrimp.cmd.program "commands-ranks.mlir"
// CHECK-SAME: world = 2
// CHECK-DAG: scrimp.cmd.scalar "rank" : i64
// CHECK-DAG: scrimp.cmd.tensor "s" : tensor<32xf32> at [[S:[0-9]+]] "buffer"
// CHECK: scrimp.cmd.graph @train
// CHECK: scrimp.cmd.collective "reduce_scatter" : f32 wire bf16 [{{[0-9]+}} : 128] to {{\[}}[[PART:[0-9]+]] : 64] event [[E:[0-9]+]]
// CHECK: scrimp.cmd.wait event [[E]]
// CHECK: scrimp.cmd.launch {{.*}} {{\[}}[[S]] : 64 rank 64, [[PART]] : 64, [[NEW:[0-9]+]] : 64] {reads = 2
// What all ranks have alike needs no agreement. The state is written behind the check.
// CHECK: scrimp.cmd.check_finite "loss" "loss" : f32 at {{[0-9]+}} {agreed}
// CHECK: scrimp.cmd.collective "all_gather" : f32 {{\[}}[[NEW]] : 64] to {{\[}}[[S]] : 128] event [[F:[0-9]+]]
// CHECK: scrimp.cmd.wait event [[F]]
func.func @main(%x: tensor<4x32xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %s: tensor<32xf32> {scrimp.name = "s", scrimp.state},
                %rank: tensor<i64> {scrimp.scalar = "rank"},
                %p: tensor<4xf32> {scrimp.name = "p", scrimp.param = "trainable", scrimp.init = {kind = "ones"}})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<32xf32> {scrimp.updates = 1 : i64}) {
  %sum = scrimp.reduce sum, %x [0] : tensor<4x32xf32> -> tensor<32xf32>
  %scattering = scrimp.reduce_scatter %sum world 2 wire bf16 : tensor<32xf32> -> tensor<16xf32>
  %part = scrimp.wait %scattering : tensor<16xf32>
  %mine = scrimp.shard %s, %rank world 2 : tensor<32xf32> -> tensor<16xf32>
  %new = scrimp.add %mine, %part : tensor<16xf32>
  %gathering = scrimp.all_gather %new world 2 : tensor<16xf32> -> tensor<32xf32>
  %s1 = scrimp.wait %gathering : tensor<32xf32>
  %own = scrimp.reduce sum, %x [0, 1] : tensor<4x32xf32> -> tensor<f32>
  %reducing = scrimp.all_reduce sum, %own world 2 : tensor<f32>
  %all = scrimp.wait %reducing : tensor<f32>
  %weight = scrimp.reduce sum, %p [0] : tensor<4xf32> -> tensor<f32>
  %loss = scrimp.add %all, %weight : tensor<f32>
  return %loss, %s1 : tensor<f32>, tensor<32xf32>
}
