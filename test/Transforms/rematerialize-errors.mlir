// RUN: not scrimp-opt %s --scrimp-rematerialize=policy=some 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not scrimp-opt %s --scrimp-rematerialize=policy=full=1 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not scrimp-opt %s --scrimp-rematerialize=policy=tradeoff=-1 2>&1 | FileCheck %s --check-prefix=PRICE
// RUN: not scrimp-opt %s --scrimp-rematerialize=policy=save=[ 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not scrimp-opt %s --scrimp-rematerialize=policy=recompute=tanh,nothing 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not scrimp-opt %s --scrimp-rematerialize="policy=full block=h.*" 2>&1 | FileCheck %s --check-prefix=BLOCK

// POLICY: error: rematerialization policy: expected none, full, selective, min-cut, tradeoff=SECONDS_PER_BYTE, save=GLOB,... or recompute=GLOB,..., found 'some'
// VALUE: error: rematerialization policy: expected none, full, {{.*}} found 'full=1'
// PRICE: error: rematerialization policy: a price is a number of seconds per byte, at least 0, found '-1'
// GLOB: error: rematerialization policy: '[': invalid glob pattern, unmatched '['
// UNUSED: error: rematerialization pattern 'nothing' matches no op of the forward pass; the remarks of `list` and --report tell their names
// BLOCK: error: block pattern 'h.*' matches no module
func.func @train(%x: tensor<4xf32> {scrimp.name = "x", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<4xf32> {scrimp.gradient = "x"}) {
  %y = scrimp.tanh %x : tensor<4xf32> loc("tanh")
  %z = scrimp.mul %y, %y : tensor<4xf32>
  %loss = scrimp.reduce sum, %z [0] : tensor<4xf32> -> tensor<f32>
  %g = scrimp.add %y, %y : tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}
