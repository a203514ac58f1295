// Library calls on 16-bit operands: no f32 copies, a workspace, the types of the buffers; and what the program needs of a
// processor. Features say whether products of bf16 are the processor's own.
// RUN: scrimp-compile %s --workers 2 --march znver4 --emit commands -o - | FileCheck %s --check-prefixes=CHECK,NATIVE
// RUN: scrimp-compile %s --workers 2 --march x86-64-v3 --emit commands -o - | FileCheck %s --check-prefixes=CHECK,PANELS
// RUN: scrimp-compile %s --emit mlir -o - | FileCheck %s --check-prefix=GRAPH
// RUN: not scrimp-compile %s --march none --emit commands -o - 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// NATIVE: cpu = "znver4", cpu_features = [{{.*}}"avx512bf16"
// PANELS: cpu = "x86-64-v3", cpu_features = [{{.*}}"avx2", "fma"
// PANELS-NOT: avx512
// CHECK: scrimp.cmd.graph @train
// CHECK: scrimp.cmd.call "gemm" : f32 ints [1, 8, 5, 300, 0, 0, 2400, 1500, 40, 0] floats []
// CHECK-SAME: {{{.*}}types = [bf16, bf16, bf16]}
// dw = x^T g
// CHECK: scrimp.cmd.call "gemm" : f32 ints [1, 300, 5, 8, 1, 0, 2400, 40, 1500, 0] floats []
// CHECK-SAME: {{{.*}}types = [bf16, bf16, bf16]}

// GRAPH-LABEL: func.func @train
// GRAPH-NOT: scrimp.cast {{.*}}tensor<8x300xbf16> -> tensor<8x300xf32>
// GRAPH: scrimp.matmul {{.*}}scrimp.workspace{{.*}} : tensor<8x300xbf16>, tensor<300x5xbf16> -> tensor<8x5xbf16>

// UNKNOWN: error: unknown processor 'none'
func.func @main(%x: tensor<8x300xbf16> {scrimp.name = "x", scrimp.input = 0 : i64},
                %y: tensor<8xi64> {scrimp.name = "y", scrimp.input = 0 : i64, scrimp.valid = array<i64: 0, 5>},
                %w: tensor<300x5xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %n = scrimp.cast %w : tensor<300x5xf32> -> tensor<300x5xbf16>
  %h = scrimp.matmul %x, %n : tensor<8x300xbf16>, tensor<300x5xbf16> -> tensor<8x5xbf16>
  %z = scrimp.cast %h : tensor<8x5xbf16> -> tensor<8x5xf32>
  %l, %lse = scrimp.cross_entropy %z, %y : tensor<8x5xf32>, tensor<8xi64> -> tensor<8xf32>
  %s = scrimp.reduce sum, %l [0] : tensor<8xf32> -> tensor<f32>
  return %s : tensor<f32>
}
