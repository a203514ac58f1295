// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd parts=3 whole-buckets" %s | FileCheck %s
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd states=bf16 momentum parts=2 whole-buckets" %s | FileCheck %s --check-prefix=BF16
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd block=h" %s | FileCheck %s --check-prefix=BLOCK
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd block=[" %s 2>&1 | FileCheck %s --check-prefix=ERROR

// Each block has a bucket, which three ranks can share. Gradients are computed in one of the same layout; of two members that
// have the same gradient the second gets a copy. All members are updated at once.
// CHECK:      %[[H0:[a-z0-9]+]]: tensor<192xf32> {scrimp.bucket = #scrimp.bucket<block = "h.0", group = "decay", elements = 192, members = [#scrimp.member<name = "h.0.a", offset = 0, shape = [4, 2]>, #scrimp.member<name = "h.0.b", offset = 16, shape = [2]>, #scrimp.member<name = "h.0.c", offset = 32, shape = [2]>]>, scrimp.name = "bucket.h.0.decay.f32"
// CHECK-SAME: #scrimp.bucket<block = "h.1", group = "decay", {{.*}}"h.1.a"
// CHECK-SAME: #scrimp.bucket<group = "decay", {{.*}}"head"
// CHECK:      scrimp.check_finite %{{.*}} of "bucket.h.1.decay.f32"
// CHECK:      %[[ZERO:.*]] = scrimp.constant dense<0.0{{.*}}> : tensor<192xf32>
// CHECK:      %[[GA:.*]] = scrimp.reshape %{{.*}} : tensor<4x2xf32> -> tensor<8xf32>
// CHECK-NEXT: %[[G1:.*]] = scrimp.pack %[[GA]] into %[[ZERO]] at 0
// CHECK-NEXT: %[[G2:.*]] = scrimp.pack %[[GB:.*]] into %[[G1]] at 16
// CHECK:      %[[G3:.*]] = scrimp.pack %{{.*}} into %[[G2]] at 32
// CHECK:      scrimp.sum_squares %[[G3]] : tensor<192xf32>
// CHECK:      scrimp.check_finite %{{.*}} of "bucket.h.0.decay.f32"
// CHECK:      %[[P:.*]] = scrimp.view %[[H0]] at 0 : tensor<192xf32> -> tensor<192xf32>
// CHECK:      %[[NEW:.*]] = scrimp.sub %[[P]], %{{.*}} : tensor<192xf32>
// CHECK:      scrimp.pack %[[NEW]] into %[[H0]] at 0 : tensor<192xf32>

// Draws are those of the tensors by themselves.
// BF16: scrimp.stochastic_round {{.*}}begins = array<i64: 0, 32, 64>{{.*}}keys = array<i64:{{.*}} : tensor<256xf32> -> tensor<256xbf16>

// BLOCK: block = "h", group = "decay"{{.*}}"h.0.a"{{.*}}"h.1.a"
// BLOCK: #scrimp.bucket<group = "decay"{{.*}}"head"

// ERROR: error: block pattern '[':
func.func @main(%x: tensor<3x4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %a: tensor<4x2xf32> {scrimp.name = "h.0.a", scrimp.param = "trainable"},
                %b: tensor<2xf32> {scrimp.name = "h.0.b", scrimp.param = "trainable"},
                %c: tensor<2xf32> {scrimp.name = "h.0.c", scrimp.param = "trainable"},
                %d: tensor<2x4xf32> {scrimp.name = "h.1.a", scrimp.param = "trainable"},
                %e: tensor<4xf32> {scrimp.name = "head", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %0 = scrimp.matmul %x, %a : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
  %1 = scrimp.broadcast %b : tensor<2xf32> -> tensor<3x2xf32>
  %2 = scrimp.broadcast %c : tensor<2xf32> -> tensor<3x2xf32>
  %3 = scrimp.add %0, %1 : tensor<3x2xf32>
  %4 = scrimp.add %3, %2 : tensor<3x2xf32>
  %5 = scrimp.matmul %4, %d : tensor<3x2xf32>, tensor<2x4xf32> -> tensor<3x4xf32>
  %6 = scrimp.broadcast %e : tensor<4xf32> -> tensor<3x4xf32>
  %7 = scrimp.mul %5, %6 : tensor<3x4xf32>
  %8 = scrimp.mul %7, %7 : tensor<3x4xf32>
  %loss = scrimp.reduce sum, %8 [0, 1] : tensor<3x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
