// RUN: scrimp-opt "--scrimp-partition=world=2 batch-stats=global" --canonicalize --cse %s | FileCheck %s --check-prefix=GLOBAL
// RUN: scrimp-opt "--scrimp-partition=world=2 batch-stats=per-rank" --canonicalize --cse %s | FileCheck %s --check-prefix=OWN
// RUN: not scrimp-opt --scrimp-partition=world=2 %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not scrimp-opt "--scrimp-partition=world=2 batch-stats=ours" %s 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not scrimp-opt "--scrimp-partition=world=3 batch-stats=global" %s 2>&1 | FileCheck %s --check-prefix=DIVIDE
// RUN: not scrimp-opt --scrimp-partition=world=0 %s 2>&1 | FileCheck %s --check-prefix=NONE

// Sums over a rank's 2 samples are added up; the mean is that of all 4 x 5 elements of a channel, and so is the mean square.
// GLOBAL-NOT: scrimp.all_gather
// GLOBAL:     %[[PART:.*]] = scrimp.reduce sum, %{{.*}} [0, 2] : tensor<2x3x5xf32> -> tensor<3xf32>
// GLOBAL:     %[[START:.*]] = scrimp.all_reduce sum, %[[PART]] world 2 per_step : tensor<3xf32>
// GLOBAL:     %[[SUM:.*]] = scrimp.wait %[[START]]
// GLOBAL:     %[[MEAN:.*]] = scrimp.div %[[SUM]], %{{.*}} : tensor<3xf32>
// GLOBAL:     scrimp.all_reduce sum, %{{.*}} world 2 per_step : tensor<3xf32>
// GLOBAL:     scrimp.reduce sum, %{{.*}} [0, 1, 2] : tensor<2x3x5xf32> -> tensor<f32>
// GLOBAL:     return %{{.*}}, %[[MEAN]]

// OWN:     scrimp.batch_norm {{.*}}tensor<2x3x5xf32>
// OWN:     scrimp.collective_broadcast %{{.*}} root 0 world 2 : tensor<3xf32>

// ERROR:  error: 'scrimp.batch_norm' op takes statistics over the batch, which 2 ranks share: --batch-stats global takes those of all ranks, as one process does, --batch-stats per-rank lets each have its own
// KIND:   error: batch-stats is 'ours'; there are global and per-rank
// DIVIDE: error: a batch of 4 samples does not divide into 3 ranks, and the loss is not proved to be a sum over samples; use a multiple of 3 (--dim)
// NONE:   error: a world of 0 ranks; expected at least 1
func.func @train(%x: tensor<4x3x5xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                 %w: tensor<3xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                 %mean: tensor<3xf32> {scrimp.name = "mean", scrimp.state}, %var: tensor<3xf32> {scrimp.name = "var", scrimp.state})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<3xf32> {scrimp.updates = 2 : i64}) {
  %y:4 = scrimp.batch_norm %x, %w, %w, %mean, %var {epsilon = 1.0e-2 : f64}
      : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %s = scrimp.mul %y#0, %x : tensor<4x3x5xf32>
  %loss = scrimp.reduce sum, %s [0, 1, 2] : tensor<4x3x5xf32> -> tensor<f32>
  return %loss, %y#1 : tensor<f32>, tensor<3xf32>
}
