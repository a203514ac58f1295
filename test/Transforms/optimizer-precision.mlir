// RUN: scrimp-opt --scrimp-autodiff=loss-scale=true "--scrimp-optimizer=kind=adam loss-scale=true states=bf16" %s | FileCheck %s
// RUN: scrimp-opt --scrimp-autodiff=loss-scale=true "--scrimp-optimizer=kind=sgd loss-scale=true clip-grad-norm" %s | FileCheck %s --check-prefix=CLIP
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=states=f16" %s 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: states cannot be kept in 'f16'; f32 and bf16 are possible

// The loss is differentiated times loss_scale; the norm that is told, and the gradient that the update reads, are those
// of the loss. The update waits for the norm. Members begin at 64 bytes of bf16, which is 32 elements. What is kept in
// bf16 is rounded by chance, with a key for each tensor's name; the seed is that of the model.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x3xf32>
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"},
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {scrimp.name = "loss_scale", scrimp.scalar = "loss_scale"},
// CHECK-SAME: tensor<128xbf16> {scrimp.bucket = #scrimp.bucket<group = "decay", elements = 128, members = [#scrimp.member<name = "w", offset = 0, shape = [3, 1]>, #scrimp.member<name = "v", offset = 32, shape = []>
// CHECK-SAME: tensor<128xbf16> {{.*}}name = "w.exp_avg"
// CHECK-SAME: tensor<128xbf16> {{.*}}name = "w.exp_avg_sq"
// CHECK-SAME: %[[UNSCALE:[a-z0-9]+]]: tensor<f32> {scrimp.name = "unscale", scrimp.scalar = "unscale"}
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"}
// CHECK-SAME: tensor<f64> {scrimp.gate, scrimp.output = "grad_norm"}
// CHECK:      %[[SCALED:.*]] = scrimp.sqrt %{{.*}} : tensor<f64>
// CHECK-NEXT: %[[U:.*]] = scrimp.cast %[[UNSCALE]] : tensor<f32> -> tensor<f64>
// CHECK-NEXT: %[[NORM:.*]] = scrimp.mul %[[SCALED]], %[[U]] : tensor<f64>
// CHECK-NEXT: %[[G:.*]] = scrimp.after %[[NORM]], %{{.*}}
// CHECK:      %[[U32:.*]] = scrimp.cast %[[U]] : tensor<f64> -> tensor<f32>
// CHECK-NEXT: %[[UB:.*]] = scrimp.broadcast %[[U32]]
// CHECK-NEXT: scrimp.mul %{{.*}}, %[[UB]] : tensor<1xf32>
// CHECK:      scrimp.stochastic_round %{{.*}}, %[[SEED]], %[[STEP]], %{{.*}} {batch_dim = -1 : i64, key = [[V:-?[0-9]+]] : i64, samples = 1 : i64} : tensor<1xf32> -> tensor<1xbf16>
// CHECK-NOT:  key = [[V]] :

// The coefficient of clipping and the scale are one factor.
// CLIP:       %[[SCALED:.*]] = scrimp.sqrt %{{.*}} : tensor<f64>
// CLIP-NEXT:  %[[U:.*]] = scrimp.cast %{{.*}} : tensor<f32> -> tensor<f64>
// CLIP-NEXT:  %[[NORM:.*]] = scrimp.mul %[[SCALED]], %[[U]] : tensor<f64>
// CLIP:       %[[C:.*]] = scrimp.select
// CLIP-NEXT:  scrimp.mul %[[C]], %[[U]] : tensor<f64>
func.func @main(%x: tensor<1x3xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %w: tensor<3x1xbf16> {scrimp.name = "w", scrimp.param = "trainable"},
                %v: tensor<bf16> {scrimp.name = "v", scrimp.param = "trainable"},
                %seed: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %wide = scrimp.cast %w : tensor<3x1xbf16> -> tensor<3x1xf32>
  %y = scrimp.matmul %x, %wide : tensor<1x3xf32>, tensor<3x1xf32> -> tensor<1x1xf32>
  %s = scrimp.reshape %y : tensor<1x1xf32> -> tensor<f32>
  %v32 = scrimp.cast %v : tensor<bf16> -> tensor<f32>
  %loss = scrimp.mul %s, %v32 : tensor<f32>
  return %loss : tensor<f32>
}
