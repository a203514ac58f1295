// RUN: scrimp-opt --scrimp-derive-eval --scrimp-autodiff "--scrimp-optimizer=kind=sgd no-decay=1d" %s | FileCheck %s
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd clip-grad-norm=true" %s | FileCheck %s --check-prefix=CLIP
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd wait-for-norm=true" %s | FileCheck %s --check-prefix=WAIT
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd no-decay=hea*,?" %s | FileCheck %s --check-prefix=PATTERN
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd" %s | FileCheck %s --check-prefix=NONE
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=adamw no-decay=1d" --mlir-print-debuginfo %s | FileCheck %s --check-prefix=ADAMW

// Parameters that decay and those that do not have buckets of their own, of 256 bytes, which is 64 floats. The frozen f has
// one without states. The state that the graph updates was argument 4 and is argument 1 now.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<3x1xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<1xf32> {scrimp.name = "s", scrimp.state},
// CHECK-SAME: %[[PB:[a-z0-9]+]]: tensor<64xf32> {scrimp.bucket = #scrimp.bucket<group = "no_decay", elements = 64, members = [
// CHECK-SAME:   #scrimp.member<name = "b", offset = 0, shape = [1], reason = "an initializer">]>,
// CHECK-SAME:   scrimp.name = "bucket.no_decay.f32", scrimp.param = "trainable"},
// CHECK-SAME: %[[PW:[a-z0-9]+]]: tensor<64xf32> {scrimp.bucket = #scrimp.bucket<group = "decay", elements = 64, members = [
// CHECK-SAME:   #scrimp.member<name = "w", offset = 0, shape = [1, 3], aliases = ["head"]>]>,
// CHECK-SAME:   scrimp.name = "bucket.decay.f32", scrimp.param = "trainable"},
// CHECK-SAME: %[[F:[a-z0-9]+]]: tensor<64xf32> {scrimp.bucket = #scrimp.bucket<elements = 64, members = [
// CHECK-SAME:   #scrimp.member<name = "f", offset = 0, shape = [], init = {a = 2.000000e+00 : f64, kind = "constant"}>]>,
// CHECK-SAME:   scrimp.name = "bucket.frozen.f32", scrimp.param = "frozen"},
// CHECK-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {scrimp.name = "lr", scrimp.scalar = "lr"},
// CHECK-SAME: %[[WD:[a-z0-9]+]]: tensor<f32> {scrimp.name = "weight_decay", scrimp.scalar = "weight_decay"})
// CHECK-SAME: -> (tensor<f32> {scrimp.output = "loss"}, tensor<f64> {scrimp.output = "grad_norm"},
// CHECK-SAME:     tensor<1xf32> {scrimp.updates = 1 : i64}, tensor<64xf32> {scrimp.updates = 2 : i64},
// CHECK-SAME:     tensor<64xf32> {scrimp.updates = 3 : i64}) {
// The gradient of b is there first, so b is updated before that of w is computed.
// CHECK:      %[[DB:.*]] = scrimp.reduce sum, {{.*}} -> tensor<1xf32>
// CHECK-NEXT: %[[BB:.*]] = scrimp.sum_squares %[[DB]]
// CHECK-NEXT: %[[B1:.*]] = scrimp.reshape %[[BB]]
// CHECK-NEXT: %[[B0:.*]] = scrimp.after %[[LOSS:.*]], %[[B1]]
// CHECK-NEXT: %[[B2:.*]] = scrimp.check_finite %[[B0]] of "b" : tensor<f64>
// CHECK-NEXT: %[[B:.*]] = scrimp.view %[[PB]] at 0
// CHECK-NEXT: %[[LRB:.*]] = scrimp.broadcast %[[LR]]
// CHECK-NEXT: %[[STEPB:.*]] = scrimp.mul %[[DB]], %[[LRB]]
// CHECK-NEXT: %[[NEWB:.*]] = scrimp.sub %[[B]], %[[STEPB]]
// CHECK:      %[[DW:.*]] = scrimp.matmul {{.*}} -> tensor<1x3xf32>
// CHECK:      scrimp.sum_squares
// CHECK:      %[[SUM2:.*]] = scrimp.add %[[B2]], %{{.*}} : tensor<f64>
// CHECK-NEXT: %[[NORM2:.*]] = scrimp.check_finite %[[SUM2]] of "w" : tensor<f64>
// CHECK:      %[[W:.*]] = scrimp.view %[[PW]] at 0 : tensor<64xf32> -> tensor<3xf32>
// CHECK:      %[[WDW:.*]] = scrimp.broadcast %[[WD]]
// CHECK-NEXT: %[[DECAY:.*]] = scrimp.mul %[[W]], %[[WDW]]
// CHECK-NEXT: scrimp.add %{{.*}}, %[[DECAY]]
// CHECK:      %[[NEWW:.*]] = scrimp.sub %[[W]],
// CHECK-NEXT: %[[NORM:.*]] = scrimp.sqrt %[[NORM2]]
// CHECK-NEXT: %[[QB:.*]] = scrimp.pack %[[NEWB]] into %[[PB]] at 0
// CHECK-NEXT: %[[QW:.*]] = scrimp.pack %[[NEWW]] into %[[PW]] at 0
// CHECK-NEXT: return %[[LOSS]], %[[NORM]], %{{.*}}, %[[QB]], %[[QW]]

// Evaluation reads the same buckets and changes none.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME: scrimp.name = "bucket.no_decay.f32"
// CHECK-SAME: %[[EP:[a-z0-9]+]]: tensor<64xf32> {{.*}}scrimp.name = "bucket.decay.f32"
// CHECK-SAME: scrimp.name = "bucket.frozen.f32", scrimp.param = "frozen"}) -> (tensor<f32> {scrimp.output = "loss"}) {
// CHECK:      scrimp.view %[[EP]] at 0 : tensor<64xf32> -> tensor<1x3xf32>

// With clipping every update comes after the norm, and reads the gradient times the coefficient.
// CLIP:       %[[NORM:.*]] = scrimp.sqrt %{{.*}} : tensor<f64>
// CLIP:       %[[SUM:.*]] = scrimp.add %[[NORM]], %{{.*}} : tensor<f64>
// CLIP-NEXT:  %[[RATIO:.*]] = scrimp.div %{{.*}}, %[[SUM]]
// CLIP:       %[[C:.*]] = scrimp.select %{{.*}}, %{{.*}}, %[[RATIO]]
// CLIP:       %[[C1:.*]] = scrimp.cast %[[C]] : tensor<f64> -> tensor<f32>
// CLIP:       %[[C2:.*]] = scrimp.broadcast %[[C1]]
// CLIP-NEXT:  %[[G:.*]] = scrimp.mul %{{.*}}, %[[C2]]
// CLIP:       scrimp.sub

// So does it without clipping where updates wait: they read the gradient only once the norm is known. What the graph
// itself updates waits for the gate.
// WAIT:       tensor<f64> {scrimp.gate, scrimp.output = "grad_norm"}
// WAIT:       %[[NORM:.*]] = scrimp.sqrt %{{.*}} : tensor<f64>
// WAIT:       %[[G:.*]] = scrimp.after %[[NORM]], %{{.*}} : tensor<f64>, tensor<1xf32>
// WAIT:       scrimp.mul %{{.*}}, %{{.*}}
// WAIT-NOT:   scrimp.check_finite

// PATTERN: group = "no_decay"{{.*}}name = "b"{{.*}}name = "w"
// PATTERN-NOT: scrimp.scalar = "weight_decay"
// NONE: #scrimp.bucket<group = "decay", elements = 64, members = [#scrimp.member<name = "b", offset = 0, {{.*}}#scrimp.member<name = "w", offset = 16

// Every state has a bucket of the parameters' layout, and the ops of an update the parameter's name.
// ADAMW: #scrimp.member<name = "b.exp_avg", offset = 0, shape = [1], init = {kind = "zeros"}>]>, scrimp.name = "bucket.no_decay.exp_avg.f32", scrimp.state}
// ADAMW: scrimp.name = "bucket.no_decay.exp_avg_sq.f32", scrimp.state}
// ADAMW: scrimp.sqrt {{.*}} loc(#[[B:.*]])
// ADAMW: #[[NAME:.*]] = loc("b")
// ADAMW: #[[B]] = loc(fused<"update">[#[[NAME]]])
func.func @main(%x: tensor<3x1xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %b: tensor<1xf32> {scrimp.name = "b", scrimp.param = "trainable", scrimp.reason = "an initializer"},
                %w: tensor<1x3xf32> {scrimp.name = "w", scrimp.param = "trainable", scrimp.aliases = ["head"]},
                %f: tensor<f32> {scrimp.name = "f", scrimp.param = "frozen", scrimp.init = {kind = "constant", a = 2.0}},
                %s: tensor<1xf32> {scrimp.name = "s", scrimp.state})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<1xf32> {scrimp.updates = 4 : i64}) {
  %xw = scrimp.matmul %w, %x : tensor<1x3xf32>, tensor<3x1xf32> -> tensor<1x1xf32>
  %bias = scrimp.broadcast %b : tensor<1xf32> -> tensor<2x1xf32>
  %scale = scrimp.broadcast %f : tensor<f32> -> tensor<1x1xf32>
  %scaled = scrimp.mul %xw, %scale : tensor<1x1xf32>
  %both = scrimp.broadcast %scaled : tensor<1x1xf32> -> tensor<2x1xf32>
  %y = scrimp.add %both, %bias : tensor<2x1xf32>
  %square = scrimp.mul %y, %y : tensor<2x1xf32>
  %loss = scrimp.reduce sum, %square [0, 1] : tensor<2x1xf32> -> tensor<f32>
  %moved = scrimp.add %s, %b : tensor<1xf32>
  return %loss, %moved : tensor<f32>, tensor<1xf32>
}
