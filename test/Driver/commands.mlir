// The program that a model becomes, as text; what it prints can be read again.
// RUN: scrimp-compile %s --workers 1 --no-fuse --emit commands -o - | FileCheck %s
// RUN: scrimp-plan %s --workers 1 --no-fuse --dump | FileCheck %s
// RUN: scrimp-compile %s --workers 1 --emit commands -o %t.mlir
// RUN: scrimp-opt %t.mlir --verify-roundtrip -o /dev/null

// CHECK: scrimp.cmd.program "commands.mlir"
// CHECK-SAME: alignment = 64
// CHECK-SAME: optimizer = "adamw"
// CHECK: scrimp.cmd.segment "parameters" [0 : {{[0-9]+}}]
// CHECK: scrimp.cmd.hyperparameter "lr" 1.000000e-03
// CHECK-DAG: scrimp.cmd.input "x" : tensor<8x4xf32> at 0 batch 0 {streamed}
// CHECK-DAG: scrimp.cmd.tensor "count" : tensor<i64> at [[COUNT:[0-9]+]] "buffer" init "zeros"
// CHECK-DAG: scrimp.cmd.tensor "p" : tensor<4xf32> at {{[0-9]+}} "parameter" init "ones"
// CHECK-DAG: scrimp.cmd.kernel @k{{[0-9]+}} 1
// CHECK: scrimp.cmd.graph @train
// The accumulator is filled once, then each of four pieces, of 32 bytes, is added.
// CHECK: scrimp.cmd.launch @k{{[0-9]+}} units {{[0-9]+}} grain {{[0-9]+}} {{\[}}[[SUM:[0-9]+]] : 4]
// CHECK: scrimp.cmd.repeat 4 index {{\[}}[[INDEX:[0-9]+]] : 8] {
// Before each, two rows of 16 bytes are read; a piece of that piece is one of them.
// CHECK-NEXT: scrimp.cmd.fill "x" from 0 samples 2 {{\[}}[[X:[0-9]+]] : 32]
// CHECK: scrimp.cmd.repeat 2 index [{{[0-9]+}} : 8] {
// CHECK: scrimp.cmd.launch {{.*}} {{\[}}[[X]] : 16 step [0, 16], [[PART:[0-9]+]] : 4]
// CHECK: scrimp.cmd.launch {{.*}} {{\[}}[[SUM]] : 4, [[PART]] : 4, [[SUM]] : 4]{{.*$}}
// CHECK-NEXT: }
// CHECK: scrimp.cmd.launch {{.*}} {{\[}}[[COUNT]] : 8, [[INDEX]] : 8, [[COUNT]] : 8]{{.*$}}
// CHECK-NEXT: }
// CHECK: scrimp.cmd.check_finite "loss" "loss" : f32 at [[LOSS:[0-9]+]]
// CHECK: scrimp.cmd.output "loss" : f32 at [[LOSS]]
func.func @main(%x: tensor<8x4xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %count: tensor<i64> {scrimp.name = "count", scrimp.state},
                %p: tensor<4xf32> {scrimp.name = "p", scrimp.param = "trainable", scrimp.init = {kind = "ones"}})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<i64> {scrimp.updates = 1 : i64}) {
  %zero = scrimp.constant dense<0.0> : tensor<f32>
  %sum, %new = scrimp.accumulate 4 split(%x along [0] : tensor<8x4xf32>) init(%zero, %count : tensor<f32>, tensor<i64>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<2x4xf32>, %s: tensor<f32>, %n: tensor<i64>):
    %inner = scrimp.accumulate 2 split(%piece along [0] : tensor<2x4xf32>) init(%s : tensor<f32>) {
    ^bb0(%j: tensor<i64>, %row: tensor<1x4xf32>, %a: tensor<f32>):
      %part = scrimp.reduce sum, %row [0, 1] : tensor<1x4xf32> -> tensor<f32>
      %b = scrimp.add %a, %part : tensor<f32>
      scrimp.yield %b : tensor<f32>
    }
    %m = scrimp.add %n, %i : tensor<i64>
    scrimp.yield %inner, %m : tensor<f32>, tensor<i64>
  }
  %weight = scrimp.reduce sum, %p [0] : tensor<4xf32> -> tensor<f32>
  %loss = scrimp.add %sum, %weight : tensor<f32>
  return %loss, %new : tensor<f32>, tensor<i64>
}
