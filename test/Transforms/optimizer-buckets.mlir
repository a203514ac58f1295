// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3" %s | FileCheck %s
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3 zero=1" %s | FileCheck %s --check-prefix=ONE
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3 zero=3 persist-below=3 reduce-dtype=bf16" %s | FileCheck %s --check-prefix=THREE
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3 zero=3 unshard=h.1" %s | FileCheck %s --check-prefix=UNSHARD
// RUN: scrimp-opt --scrimp-autodiff --scrimp-mixed-precision "--scrimp-optimizer=kind=sgd world=3 zero=1" %s | FileCheck %s --check-prefix=MIXED
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd states=bf16 momentum world=2 zero=2" %s | FileCheck %s --check-prefix=BF16
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=2 zero=2" --scrimp-split-batch=micro-batches=3 --canonicalize %s | FileCheck %s --check-prefix=LOOP
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3 zero=1 layout=matrices" %s | FileCheck %s --check-prefix=OWNERS
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=3 zero=3 layout=matrices" %s 2>&1 | FileCheck %s --check-prefix=OWNERS3
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd layout=rows" %s 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd block=h bucket-bytes=40" %s | FileCheck %s --check-prefix=BLOCK
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd block=[" %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=2 zero=4" %s 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=2 zero=3 unshard=mlp.*" %s 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd world=2 zero=2 unshard=h.0" %s 2>&1 | FileCheck %s --check-prefix=UNSHARDED
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd sync=never" %s 2>&1 | FileCheck %s --check-prefix=SYNC
// RUN: not scrimp-opt --scrimp-autodiff "--scrimp-optimizer=kind=sgd reduce-dtype=f8" %s 2>&1 | FileCheck %s --check-prefix=WIRE

// Each block has a bucket, which three ranks can share. Gradients are computed in one of the same layout; of two members that
// have the same gradient the second gets a copy. They are added up over the ranks, and all members are updated at once.
// CHECK:      %[[H0:[a-z0-9]+]]: tensor<192xf32> {scrimp.bucket = #scrimp.bucket<block = "h.0", group = "decay", elements = 192, members = [#scrimp.member<name = "h.0.a", offset = 0, shape = [4, 2]>, #scrimp.member<name = "h.0.b", offset = 16, shape = [2]>, #scrimp.member<name = "h.0.c", offset = 32, shape = [2]>]>, scrimp.name = "bucket.h.0.decay.f32"
// CHECK-SAME: #scrimp.bucket<block = "h.1", group = "decay", {{.*}}"h.1.a"
// CHECK-SAME: #scrimp.bucket<group = "decay", {{.*}}"head"
// CHECK:      scrimp.check_finite %{{.*}} of "bucket.h.1.decay.f32"
// CHECK:      %[[ZERO:.*]] = scrimp.constant dense<0.0{{.*}}> : tensor<192xf32>
// CHECK:      %[[GA:.*]] = scrimp.reshape %{{.*}} : tensor<4x2xf32> -> tensor<8xf32>
// CHECK-NEXT: %[[G1:.*]] = scrimp.pack %[[GA]] into %[[ZERO]] at 0
// CHECK-NEXT: %[[G2:.*]] = scrimp.pack %[[GB:.*]] into %[[G1]] at 16
// CHECK:      %[[G3:.*]] = scrimp.pack %{{.*}} into %[[G2]] at 32
// CHECK-NEXT: %[[START:.*]] = scrimp.all_reduce sum, %[[G3]] world 3 per_step : tensor<192xf32>
// CHECK-NEXT: %[[G:.*]] = scrimp.wait %[[START]]
// CHECK:      scrimp.sum_squares %[[G]] : tensor<192xf32>
// CHECK:      scrimp.check_finite %{{.*}} of "bucket.h.0.decay.f32"
// CHECK:      %[[P:.*]] = scrimp.view %[[H0]] at 0 : tensor<192xf32> -> tensor<192xf32>
// CHECK:      %[[NEW:.*]] = scrimp.sub %[[P]], %{{.*}} : tensor<192xf32>
// CHECK:      scrimp.pack %[[NEW]] into %[[H0]] at 0 : tensor<192xf32>

// Stage 1: a rank has its part of the sum, updates its part of the parameters, and all gather the new parts. The norm is added
// up over the parts, once.
// ONE:      %[[H0:[a-z0-9]+]]: tensor<192xf32> {{{.*}}scrimp.name = "bucket.h.0.decay.f32"
// ONE-SAME: %[[RANK:[a-z0-9]+]]: tensor<i64> {scrimp.name = "rank"
// ONE-NOT:  check_finite
// ONE:      %[[START:.*]] = scrimp.reduce_scatter %{{.*}} world 3 per_step : tensor<192xf32> -> tensor<64xf32>
// ONE:      scrimp.sum_squares %{{.*}} : tensor<64xf32>
// ONE:      %[[P:.*]] = scrimp.shard %[[H0]], %[[RANK]] world 3 : tensor<192xf32> -> tensor<64xf32>
// ONE:      %[[NEW:.*]] = scrimp.sub %[[P]], %{{.*}} : tensor<64xf32>
// ONE-NEXT: %[[GATHER:.*]] = scrimp.all_gather %[[NEW]] world 3 : tensor<64xf32> -> tensor<192xf32>
// ONE-NEXT: %[[WHOLE:.*]] = scrimp.wait %[[GATHER]]
// ONE:      scrimp.all_reduce sum, %{{.*}} world 3 per_step : tensor<f64>
// ONE:      scrimp.check_finite %{{.*}} of "the gradients"
// ONE:      scrimp.pack %[[WHOLE]] into %[[H0]] at 0

// Stage 3: a rank has its part of the parameters too, and what reads them gathers them. Small ones stay whole, in a bucket for
// all blocks. Gradients are sent in 16 bits, part by part of the batch.
// THREE:      %[[H0:[a-z0-9]+]]: tensor<64xf32> {scrimp.bucket = #scrimp.bucket<block = "h.0", group = "decay", elements = 192, members = [#scrimp.member<name = "h.0.a"
// THREE-SAME: tensor<192xf32> {scrimp.bucket = #scrimp.bucket<group = "decay", elements = 192, members = [#scrimp.member<name = "h.0.b", offset = 0, {{.*}}#scrimp.member<name = "h.0.c", {{.*}}scrimp.name = "bucket.small.decay.f32"
// THREE:      %[[START:.*]] = scrimp.all_gather %[[H0]] world 3 use 0 : tensor<64xf32> -> tensor<192xf32>
// THREE-NEXT: %[[WHOLE:.*]] = scrimp.wait %[[START]]
// THREE-NEXT: scrimp.view %[[WHOLE]] at 0 : tensor<192xf32> -> tensor<4x2xf32>
// THREE:      scrimp.reduce_scatter %{{.*}} world 3 wire bf16 : tensor<192xf32> -> tensor<64xf32>
// THREE:      scrimp.all_reduce sum, %{{.*}} world 3 wire bf16 : tensor<192xf32>
// THREE:      scrimp.pack %{{.*}} into %[[H0]] at 0 : tensor<64xf32>

// What is to stay unsharded is gathered once for all that reads it; the rest for each use.
// UNSHARD:     scrimp.all_gather %{{.*}} world 3 use 0 : tensor<64xf32> -> tensor<192xf32>
// UNSHARD:     %[[START:.*]] = scrimp.all_gather %{{[a-z0-9]*}} world 3 : tensor<64xf32> -> tensor<192xf32>
// UNSHARD-NEXT: %[[WHOLE:.*]] = scrimp.wait %[[START]]
// UNSHARD-NEXT: scrimp.view %[[WHOLE]] at 0 : tensor<192xf32> -> tensor<2x4xf32>
// UNSHARD:     scrimp.view %[[WHOLE]] at 0 : tensor<192xf32> -> tensor<2x4xf32>

// Where parameters are read in 16 bits, that is what is gathered, and the f32 ones are parts from stage 1 on.
// MIXED:      %[[H1:[a-z0-9]+]]: tensor<64xf32> {scrimp.bucket = #scrimp.bucket<block = "h.1", group = "decay", elements = 192
// MIXED:      %[[LOW:.*]] = scrimp.cast %[[H1]] : tensor<64xf32> -> tensor<64xbf16>
// MIXED-NEXT: %[[START:.*]] = scrimp.all_gather %[[LOW]] world 3 : tensor<64xbf16> -> tensor<192xbf16>
// MIXED:      scrimp.pack %{{.*}} into %[[H1]] at 0 : tensor<64xf32>

// Draws are those of the tensors by themselves, and of the elements' places in them, whatever part of the bucket this is.
// BF16: scrimp.stochastic_round %{{.*}} origin(%{{.*}} : tensor<1xi64>) {{.*}}begins = array<i64: 0, 32, 64>{{.*}}keys = array<i64:{{.*}}whole = array<i64: 256>} : tensor<128xf32> -> tensor<128xbf16>

// Added up per micro-batch, a sum takes the bytes of a part.
// LOOP: scrimp.accumulate 3
// LOOP: scrimp.reduce_scatter
// LOOP: scrimp.yield %{{.*}} : tensor<64xf32>, tensor<f32>, tensor<64xf32>, tensor<64xf32>

// BLOCK: block = "h", group = "decay", {{.*}}"h.0.a"{{.*}}"h.0.b"{{.*}}block = "h"{{.*}}"h.0.c"{{.*}}"h.1.a"{{.*}}"bucket.h.decay.f32.2"
// BLOCK-SAME: #scrimp.bucket<group = "decay"{{.*}}"head"

// Whole matrices: one bucket of all blocks, of 64 elements a rank. The first two ranks have those of 8 elements and, 16 further,
// those of 2; the third has that of 4.
// OWNERS: #scrimp.bucket<group = "decay", elements = 192, owners = 3, members = [#scrimp.member<name = "h.0.a", offset = 0, shape = [4, 2]>, #scrimp.member<name = "h.0.b", offset = 16, shape = [2]>, #scrimp.member<name = "h.1.a", offset = 64, shape = [2, 4]>, #scrimp.member<name = "h.0.c", offset = 80, shape = [2]>, #scrimp.member<name = "head", offset = 128, shape = [4]>]>
// OWNERS: scrimp.reduce_scatter %{{.*}} world 3 per_step : tensor<192xf32> -> tensor<64xf32>
// OWNERS3: error: a layout of whole matrices leaves ranks without a part of most blocks, so stage 3 of ZeRO would share out little; use stage 1 or 2, or the layout elements
// LAYOUT: error: layout is 'rows'; there are elements and matrices

// ERROR: error: block pattern '[':
// STAGE: error: there are stages 0 to 3 of ZeRO, for 1 rank or more; found stage 4 and 2 ranks
// NOTHING: error: unshard pattern 'mlp.*' matches no block and no parameter
// UNSHARDED: error: only stage 3 of ZeRO shards parameters that unshard could keep gathered; found stage 2 and 2 ranks
// SYNC:  error: sync is 'never'; there are auto, per-step and per-micro-batch
// WIRE:  error: gradients cannot be sent as 'f8'; f32, bf16 and f16 are possible
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
