// RUN: split-file --leading-lines %s %t
// RUN: not scrimp-run %t/world.mlir --world 3 2>&1 | FileCheck %s --check-prefix=WORLD
// RUN: not scrimp-run %t/world.mlir 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not scrimp-run %t/world.mlir --world 0 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not scrimp-run %t/one-fails.mlir --world 2 2>&1 | FileCheck %s --check-prefix=FAILS --implicit-check-not="error: "
// RUN: not scrimp-run %t/arguments.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not scrimp-run %t/arguments.mlir --inputs other 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not scrimp-run %t/arguments.mlir --inputs more 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not scrimp-run %t/arguments.mlir --inputs absent 2>&1 | FileCheck %s --check-prefix=ABSENT

//--- world.mlir
// WORLD: world.mlir:[[#@LINE+5]]:8: error: 'scrimp.all_reduce' op is for 2 ranks, but 3 run
// ALONE: world.mlir:[[#@LINE+4]]:8: error: 'scrimp.all_reduce' op is for 2 ranks, but 1 runs
// NONE: scrimp-run: error: --world is 0; expected 1 to 1024
func.func @main() -> tensor<f32> {
  %x = scrimp.constant dense<1.0> : tensor<f32>
  %a = scrimp.all_reduce sum, %x world 2 : tensor<f32>
  %y = scrimp.wait %a : tensor<f32>
  return %y : tensor<f32>
}

//--- one-fails.mlir
// Rank 1 finds no row 1; rank 0 waits for it, and ends with it.
// FAILS: one-fails.mlir:[[#@LINE+3]]:10: error: 'scrimp.gather' op index 1 is outside [-1, 1)
func.func @main(%rank: tensor<i64> {scrimp.scalar = "rank"}) -> tensor<1xf32> {
  %table = scrimp.constant dense<[[1.0]]> : tensor<1x1xf32>
  %row = scrimp.gather %table, %rank {dim = 0 : i64} : tensor<1x1xf32>, tensor<i64> -> tensor<1xf32>
  %a = scrimp.all_reduce sum, %row world 2 : tensor<1xf32>
  %y = scrimp.wait %a : tensor<1xf32>
  return %y : tensor<1xf32>
}

//--- arguments.mlir
// ARGUMENT: error: argument 1 of @main is 'tensor<2xf32>', but nothing gives it a value; name a function whose results are the arguments with --inputs
// TYPE: error: argument 1 of @main is 'tensor<2xf32>', but what --inputs gives for it is 'tensor<f32>'
// MORE: error: @main has no argument for the last 1 results of --inputs
// ABSENT: scrimp-run: error: no function @absent in {{.*}}; name one with --inputs
func.func @main(%rank: tensor<i64> {scrimp.scalar = "rank"}, %x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @other() -> tensor<f32> {
  %x = scrimp.constant dense<1.0> : tensor<f32>
  return %x : tensor<f32>
}
func.func @more() -> (tensor<2xf32>, tensor<f32>) {
  %x = scrimp.constant dense<1.0> : tensor<2xf32>
  %y = scrimp.constant dense<1.0> : tensor<f32>
  return %x, %y : tensor<2xf32>, tensor<f32>
}
