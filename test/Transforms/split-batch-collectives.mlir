// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=2 --canonicalize | FileCheck %s
// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=2 --canonicalize --scrimp-form-kernels --scrimp-schedule --scrimp-plan-memory --scrimp-verify-collectives -o /dev/null

// Sums over the batch: reducing one over the ranks makes it no smaller, so that waits for the whole; scattering one does, so
// that is done for each micro-batch, with its wait, unless it is asked for once a step.
// CHECK-LABEL: @sums
// CHECK: %[[SUMS:.*]]:3 = scrimp.accumulate 2
// CHECK-NOT: scrimp.all_reduce
// CHECK: %[[FLYING:.*]] = scrimp.reduce_scatter %{{.*}} world 2 :
// CHECK-NEXT: %[[PART:.*]] = scrimp.wait %[[FLYING]]
// CHECK-NOT: scrimp.reduce_scatter
// CHECK: scrimp.yield {{.*}} : tensor<32xf32>, tensor<32xf32>, tensor<16xf32>
// CHECK: }
// CHECK: %[[A:.*]] = scrimp.all_reduce sum, %[[SUMS]]#{{[0-2]}} world 2
// CHECK: scrimp.wait %[[A]]
// CHECK: scrimp.reduce_scatter %[[SUMS]]#{{[0-2]}} world 2 per_step
func.func @sums(%x: tensor<4x32xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %p: tensor<32xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<32xf32>, tensor<16xf32>, tensor<16xf32>) {
  %ps = scrimp.broadcast %p : tensor<32xf32> -> tensor<4x32xf32>
  %y = scrimp.mul %x, %ps : tensor<4x32xf32>
  %z = scrimp.exp %y : tensor<4x32xf32>
  %a = scrimp.reduce sum, %y [0] : tensor<4x32xf32> -> tensor<32xf32>
  %reducing = scrimp.all_reduce sum, %a world 2 : tensor<32xf32>
  %sum = scrimp.wait %reducing : tensor<32xf32>
  %b = scrimp.reduce sum, %z [0] : tensor<4x32xf32> -> tensor<32xf32>
  %scattering = scrimp.reduce_scatter %b world 2 : tensor<32xf32> -> tensor<16xf32>
  %part = scrimp.wait %scattering : tensor<16xf32>
  %zz = scrimp.mul %z, %y : tensor<4x32xf32>
  %c = scrimp.reduce sum, %zz [0] : tensor<4x32xf32> -> tensor<32xf32>
  %later = scrimp.reduce_scatter %c world 2 per_step : tensor<32xf32> -> tensor<16xf32>
  %once = scrimp.wait %later : tensor<16xf32>
  return %sum, %part, %once : tensor<32xf32>, tensor<16xf32>, tensor<16xf32>
}

// A bucket that is exchanged once a step is put together behind the loop: its members are added up where they lie in it, one of
// them not in the loop at all.
// CHECK-LABEL: @bucket
// CHECK: scrimp.accumulate 2
// CHECK-NOT: scrimp.pack
// CHECK: scrimp.yield {{.*}} : tensor<8xf32>, tensor<16xf32>
// CHECK: }
// CHECK-COUNT-3: scrimp.pack
// CHECK: scrimp.reduce_scatter {{.*}} per_step
func.func @bucket(%x: tensor<4x8xf32> {scrimp.name = "u", scrimp.input = 0 : i64},
                  %z: tensor<4x16xf32> {scrimp.name = "v", scrimp.input = 0 : i64},
                  %p: tensor<8xf32> {scrimp.name = "r", scrimp.param = "trainable"}) -> tensor<16xf32> {
  %none = scrimp.constant dense<0.0> : tensor<32xf32>
  %a = scrimp.reduce sum, %x [0] : tensor<4x8xf32> -> tensor<8xf32>
  %b = scrimp.reduce sum, %z [0] : tensor<4x16xf32> -> tensor<16xf32>
  %one = scrimp.pack %a into %none at 0 : tensor<8xf32>, tensor<32xf32>
  %two = scrimp.pack %b into %one at 16 : tensor<16xf32>, tensor<32xf32>
  %q = scrimp.exp %p : tensor<8xf32>
  %three = scrimp.pack %q into %two at 8 : tensor<8xf32>, tensor<32xf32>
  %flying = scrimp.reduce_scatter %three world 2 per_step : tensor<32xf32> -> tensor<16xf32>
  %part = scrimp.wait %flying : tensor<16xf32>
  return %part : tensor<16xf32>
}
