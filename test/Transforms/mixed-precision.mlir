// RUN: scrimp-opt %s --scrimp-autodiff --scrimp-mixed-precision --canonicalize --cse --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-autodiff '--scrimp-mixed-precision=to=f16 keep-fp32=head' --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=KEEP
// RUN: scrimp-opt %s --scrimp-autodiff --scrimp-mixed-precision=masters=false --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: not scrimp-opt %s --scrimp-mixed-precision=to=f8 --split-input-file 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not scrimp-opt %s '--scrimp-mixed-precision=keep-fp32=haed' --split-input-file 2>&1 | FileCheck %s --check-prefix=PATTERN

// TYPE: error: cannot compute in 'f8'; there are bf16 and f16
// PATTERN: error: keep-fp32 pattern 'haed' matches no layer, module or parameter

// Parameters stay in f32 and their gradients come out so: of matmul as it sums, of a bias from the gradient that is
// widened where it is read. Bias and norm read the masters; of a weight there is one cast, for forward and backward.
// Values in between are of 16 bits where they are stored: the bias is added in f32 and rounded once, gelu's gradient is a
// chain in f32 that is rounded at its end. Statistics and the loss are f32.
// CHECK-LABEL: func.func @train(
// CHECK-SAME:  %[[X:[a-z0-9]+]]: tensor<8x4xf32> {{.*}} %[[W:[a-z0-9]+]]: tensor<4x16xf32> {{.*}} %[[B:[a-z0-9]+]]: tensor<16xf32> {{.*}} %[[S:[a-z0-9]+]]: tensor<16xf32> {{.*}} %[[V:[a-z0-9]+]]: tensor<16x10xf32>
// CHECK-SAME:  tensor<4x16xf32> {scrimp.gradient = "up.weight"}, tensor<16xf32> {scrimp.gradient = "up.bias"}, tensor<16xf32> {scrimp.gradient = "norm.weight"}, tensor<16x10xf32> {scrimp.gradient = "head.weight"}
// CHECK:       %[[XL:.*]] = scrimp.cast %[[X]] : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK-NEXT:  %[[WL:.*]] = scrimp.cast %[[W]] : tensor<4x16xf32> -> tensor<4x16xbf16>
// CHECK-NEXT:  %[[Y:.*]] = scrimp.matmul %[[XL]], %[[WL]] : tensor<8x4xbf16>, tensor<4x16xbf16> -> tensor<8x16xbf16>
// CHECK-NEXT:  %[[YW:.*]] = scrimp.cast %[[Y]] : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[BB:.*]] = scrimp.broadcast %[[B]] : tensor<16xf32> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[H:.*]] = scrimp.add %[[YW]], %[[BB]] : tensor<8x16xf32>
// CHECK-NEXT:  %[[HL:.*]] = scrimp.cast %[[H]] : tensor<8x16xf32> -> tensor<8x16xbf16>
// CHECK-NEXT:  %[[HW:.*]] = scrimp.cast %[[HL]] : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[G:.*]] = scrimp.gelu %[[HW]] : tensor<8x16xf32>
// CHECK-NEXT:  %[[GL:.*]] = scrimp.cast %[[G]] : tensor<8x16xf32> -> tensor<8x16xbf16>
// CHECK-NEXT:  %[[N:.*]], %[[RSTD:.*]] = scrimp.rms_norm %[[GL]] scale(%[[S]] : tensor<16xf32>) {{.*}} : tensor<8x16xbf16> -> tensor<8xf32>
// CHECK-NEXT:  %[[VL:.*]] = scrimp.cast %[[V]] : tensor<16x10xf32> -> tensor<16x10xbf16>
// CHECK-NEXT:  %[[LOGITS:.*]] = scrimp.matmul %[[N]], %[[VL]] : tensor<8x16xbf16>, tensor<16x10xbf16> -> tensor<8x10xbf16>
// CHECK-NEXT:  scrimp.cross_entropy %[[LOGITS]], %{{.*}} : tensor<8x10xbf16>, tensor<8xi64> -> tensor<8xf32>
// CHECK-NEXT:  %[[LOSS:.*]] = scrimp.reduce sum, %{{.*}} [0] : tensor<8xf32> -> tensor<f32>
// CHECK-NEXT:  %[[DLOGITS:.*]] = scrimp.cross_entropy_grad {{.*}} : tensor<8x10xbf16>
// CHECK-NEXT:  %[[DN:.*]] = scrimp.matmul %[[DLOGITS]], %[[VL]] {transpose_b} : {{.*}} -> tensor<8x16xbf16>
// CHECK-NEXT:  %[[DV:.*]] = scrimp.matmul %[[N]], %[[DLOGITS]] {transpose_a} : tensor<8x16xbf16>, tensor<8x10xbf16> -> tensor<16x10xf32>
// CHECK-NEXT:  %[[DG:.*]] = scrimp.rms_norm_grad %[[GL]], %[[RSTD]], %[[DN]] scale(%[[S]] : tensor<16xf32>) {{.*}} : tensor<8x16xbf16>, tensor<8xf32>
// CHECK-NEXT:  %[[DGW:.*]] = scrimp.cast %[[DG]] : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[DS:.*]] = scrimp.rms_norm_parameter_grad %[[GL]], %[[RSTD]], %[[DN]] {{.*}} -> tensor<16xf32>
// CHECK-NOT:   bf16
// CHECK:       %[[DH:.*]] = scrimp.mul %[[DGW]], %{{.*}} : tensor<8x16xf32>
// CHECK-NEXT:  %[[DHL:.*]] = scrimp.cast %[[DH]] : tensor<8x16xf32> -> tensor<8x16xbf16>
// CHECK-NEXT:  %[[DHW:.*]] = scrimp.cast %[[DHL]] : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[DB:.*]] = scrimp.reduce sum, %[[DHW]] [0] : tensor<8x16xf32> -> tensor<16xf32>
// CHECK-NEXT:  %[[DW:.*]] = scrimp.matmul %[[XL]], %[[DHL]] {transpose_a} : tensor<8x4xbf16>, tensor<8x16xbf16> -> tensor<4x16xf32>
// CHECK-NEXT:  return %[[LOSS]], %[[DW]], %[[DB]], %[[DS]], %[[DV]]

// A module that is kept, forward and backward; the loss reads its scores in f32.
// KEEP:        scrimp.matmul %{{.*}} : tensor<8x4xf16>, tensor<4x16xf16> -> tensor<8x16xf16>
// KEEP:        %[[LOGITS:.*]] = scrimp.matmul %{{.*}} : tensor<8x16xf32>, tensor<16x10xf32> -> tensor<8x10xf32>
// KEEP-NEXT:   scrimp.cross_entropy %[[LOGITS]],
// KEEP:        scrimp.cross_entropy_grad {{.*}} : tensor<8x10xf32>
// KEEP:        scrimp.matmul %{{.*}} {transpose_b} : tensor<8x10xf32>, tensor<16x10xf32> -> tensor<8x16xf32>
// KEEP:        scrimp.matmul %{{.*}} {transpose_a} : tensor<8x4xf16>, tensor<8x16xf16> -> tensor<4x16xf32>

// Without masters contractions and norms read parameters as they are.
// NONE-LABEL:  func.func @train(
// NONE-SAME:   %[[W:[a-z0-9]+]]: tensor<4x16xbf16> {{.*}} %[[B:[a-z0-9]+]]: tensor<16xbf16> {{.*}} %[[S:[a-z0-9]+]]: tensor<16xbf16>
// NONE-SAME:   tensor<4x16xf32> {scrimp.gradient = "up.weight"}
// NONE:        scrimp.matmul %{{.*}}, %[[W]] : tensor<8x4xbf16>, tensor<4x16xbf16>
// NONE:        scrimp.rms_norm %{{.*}} scale(%[[S]] : tensor<16xbf16>)
func.func @main(%x: tensor<8x4xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %labels: tensor<8xi64> {scrimp.name = "labels", scrimp.input = 0 : i64},
                %w: tensor<4x16xf32> {scrimp.name = "up.weight", scrimp.param = "trainable"},
                %b: tensor<16xf32> {scrimp.name = "up.bias", scrimp.param = "trainable"},
                %scale: tensor<16xf32> {scrimp.name = "norm.weight", scrimp.param = "trainable"},
                %v: tensor<16x10xf32> {scrimp.name = "head.weight", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %0 = scrimp.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32> loc("up/node_matmul")
  %1 = scrimp.broadcast %b : tensor<16xf32> -> tensor<8x16xf32> loc("up/node_add")
  %2 = scrimp.add %0, %1 : tensor<8x16xf32> loc("up/node_add")
  %3 = scrimp.gelu %2 : tensor<8x16xf32> loc("act/node_gelu")
  %4, %rstd = scrimp.rms_norm %3 scale(%scale : tensor<16xf32>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<8x16xf32> -> tensor<8xf32> loc("norm/node_norm")
  %5 = scrimp.matmul %4, %v : tensor<8x16xf32>, tensor<16x10xf32> -> tensor<8x10xf32> loc("head/node_matmul")
  %6, %lse = scrimp.cross_entropy %5, %labels : tensor<8x10xf32>, tensor<8xi64> -> tensor<8xf32> loc("loss/node_ce")
  %7 = scrimp.reduce sum, %6 [0] : tensor<8xf32> -> tensor<f32> loc("loss/node_sum")
  return %7 : tensor<f32>
}

// -----

// What depends on data alone (positions, a target) or on parameters alone (the norm of a weight) is not lowered, nor are
// products of such values; a statistic is not, and after the last contraction nothing is but what contractions give.
// A table is read as it is, the rows are rounded.
// CHECK-LABEL: func.func @train(
// CHECK:       scrimp.matmul %{{.*}} : tensor<8x1xf32>, tensor<1x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:  %[[ANGLE:.*]] = scrimp.cos %{{.*}} : tensor<8x4xf32>
// CHECK-NEXT:  %[[ROWS:.*]] = scrimp.gather %{{.*}} : tensor<9x4xf32>, tensor<8xi64> -> tensor<8x4xf32>
// CHECK-NEXT:  %[[H:.*]] = scrimp.mul %[[ROWS]], %[[ANGLE]] : tensor<8x4xf32>
// CHECK-NEXT:  %[[HL:.*]] = scrimp.cast %[[H]] : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK:       scrimp.reduce sum, %{{.*}} [0, 1] : tensor<8x4xf32> -> tensor<f32>
// CHECK:       scrimp.mul %{{.*}} : tensor<4x2xf32>
// CHECK-NEXT:  %[[SCALED:.*]] = scrimp.cast %{{.*}} : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK-NEXT:  %[[Y:.*]] = scrimp.matmul %{{.*}}, %[[SCALED]] : tensor<8x4xbf16>, tensor<4x2xbf16> -> tensor<8x2xbf16>
// CHECK-NEXT:  %[[YW:.*]] = scrimp.cast %[[Y]]
// CHECK-NEXT:  %[[D:.*]] = scrimp.sub %[[YW]], %{{.*}} : tensor<8x2xf32>
// CHECK-NEXT:  scrimp.mul %[[D]], %[[D]] : tensor<8x2xf32>
// The gradient of the product's weight, and of what only a table's gradient comes from, are not lowered either.
// CHECK:       scrimp.matmul %{{.*}} {transpose_b} : tensor<8x2xbf16>, tensor<4x2xbf16> -> tensor<8x4xf32>
// CHECK-NEXT:  scrimp.matmul %{{.*}} {transpose_a} : tensor<8x4xbf16>, tensor<8x2xbf16> -> tensor<4x2xf32>
// CHECK-NOT:   bf16
func.func @main(%ids: tensor<8xi64> {scrimp.name = "ids", scrimp.input = 0 : i64},
                %positions: tensor<8x1xf32> {scrimp.name = "positions", scrimp.input = 0 : i64},
                %target: tensor<8x2xf32> {scrimp.name = "target", scrimp.input = 0 : i64},
                %table: tensor<9x4xf32> {scrimp.name = "table", scrimp.param = "trainable"},
                %w: tensor<4x2xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %frequencies = scrimp.iota {dim = 1 : i64, start = 0.5 : f64, step = 0.1 : f64} : tensor<1x4xf32>
  %angles = scrimp.matmul %positions, %frequencies : tensor<8x1xf32>, tensor<1x4xf32> -> tensor<8x4xf32> loc("rotary")
  %cos = scrimp.cos %angles : tensor<8x4xf32> loc("rotary")
  %rows = scrimp.gather %table, %ids {dim = 0 : i64} : tensor<9x4xf32>, tensor<8xi64> -> tensor<8x4xf32> loc("head/embedding")
  %h = scrimp.mul %rows, %cos : tensor<8x4xf32> loc("rotary")
  %sum = scrimp.reduce sum, %h [0, 1] : tensor<8x4xf32> -> tensor<f32> loc("norm")
  %spread = scrimp.broadcast %sum : tensor<f32> -> tensor<8x4xf32> loc("norm")
  %n = scrimp.add %h, %spread : tensor<8x4xf32> loc("norm")
  %norm = scrimp.reduce sum, %w [0, 1] : tensor<4x2xf32> -> tensor<f32> loc("weight")
  %norms = scrimp.broadcast %norm : tensor<f32> -> tensor<4x2xf32> loc("weight")
  %scaled = scrimp.mul %w, %norms : tensor<4x2xf32> loc("weight")
  %y = scrimp.matmul %n, %scaled : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32> loc("product")
  %d = scrimp.sub %y, %target : tensor<8x2xf32> loc("loss")
  %dd = scrimp.mul %d, %d : tensor<8x2xf32> loc("loss")
  %loss = scrimp.reduce sum, %dd [0, 1] : tensor<8x2xf32> -> tensor<f32> loc("loss")
  return %loss : tensor<f32>
}
