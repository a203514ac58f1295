// RUN: not scrimp-opt %s --scrimp-chunk=rules=body=4 --split-input-file 2>&1 | FileCheck %s
// RUN: not scrimp-opt %s --scrimp-chunk=rules=tail=4 --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not scrimp-opt %s "--scrimp-chunk=rules=head=4,head=2" --split-input-file 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not scrimp-opt %s --scrimp-chunk=rules=body --split-input-file 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not scrimp-opt %s --scrimp-chunk=rules=body=1 --split-input-file 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not scrimp-opt %s "--scrimp-chunk=rules=[=2" --split-input-file 2>&1 | FileCheck %s --check-prefix=GLOB

// NONE: chunk pattern 'tail' matches no module
// LATE: chunk pattern 'head' matches no module that an earlier one does not match
// RULE: a chunk rule is GLOB=N with N from 2 up, found 'body'
// ONE: a chunk rule is GLOB=N with N from 2 up, found 'body=1'
// GLOB: chunk pattern '[':

// Every row of the result needs all rows of the operand.
// CHECK: 'scrimp.matmul' op cannot run in chunks with 'body':
func.func @train(%x: tensor<8x8xf32> {scrimp.input = 0, scrimp.name = "x"}, %w: tensor<8x8xf32> {scrimp.param = "trainable"}) -> (tensor<f32> {scrimp.output = "loss"}) {
  %a = scrimp.matmul %x, %x {transpose_b} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("body/scores")
  %b = scrimp.matmul %a, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("body/values")
  %c = scrimp.matmul %b, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("head/linear")
  %l = scrimp.reduce sum, %c [0, 1] : tensor<8x8xf32> -> tensor<f32> loc("loss")
  return %l : tensor<f32>
}

// -----

// Fewer tokens than chunks.
// CHECK: 'scrimp.tanh' op cannot run in chunks with 'body': nothing in it has 4 tokens or samples apart; ask for fewer chunks
func.func @train(%x: tensor<2x3xf32> {scrimp.input = 0, scrimp.name = "x"}, %w: tensor<3x3xf32> {scrimp.param = "trainable"}) -> (tensor<f32> {scrimp.output = "loss"}) {
  %a = scrimp.tanh %x : tensor<2x3xf32> loc("body/tanh")
  %c = scrimp.matmul %a, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32> loc("head/linear")
  %l = scrimp.reduce sum, %c [0, 1] : tensor<2x3xf32> -> tensor<f32> loc("loss")
  return %l : tensor<f32>
}
