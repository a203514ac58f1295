// What runs beside other ops starts as soon as its operands are known and is waited for where it is read, as far as that
// costs no memory.
// RUN: scrimp-opt %s --scrimp-schedule --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-schedule=overlap=false --split-input-file | FileCheck %s --check-prefix=OFF
// RUN: scrimp-opt %s --scrimp-schedule --scrimp-plan-memory --split-input-file -o /dev/null

// Gathered parameters, of 64 floats each when whole. At the last product are x, two factors, g and its results: room enough
// for the second to be on its way from the first op on. Waits stand before the reader, and what is needed first starts first.
// CHECK-LABEL: @gathers_ahead
// CHECK-NEXT: %[[A:.*]] = scrimp.all_gather %{{.*}} world 2
// CHECK-NEXT: %[[B:.*]] = scrimp.all_gather %{{.*}} world 2
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: %[[FIRST:.*]] = scrimp.wait %[[A]]
// CHECK-NEXT: scrimp.mul %{{.*}}, %[[FIRST]]
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: %[[SECOND:.*]] = scrimp.wait %[[B]]
// CHECK-NEXT: scrimp.mul %{{.*}}, %[[SECOND]]
// OFF-LABEL: @gathers_ahead
// OFF: scrimp.all_gather
// OFF: scrimp.mul
// OFF: scrimp.all_gather
func.func @gathers_ahead(%x: tensor<64xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                         %p: tensor<32xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                         %q: tensor<32xf32> {scrimp.name = "q", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %e = scrimp.exp %x : tensor<64xf32>
  %a = scrimp.all_gather %p world 2 : tensor<32xf32> -> tensor<64xf32>
  %first = scrimp.wait %a : tensor<64xf32>
  %h = scrimp.mul %e, %first : tensor<64xf32>
  %g = scrimp.exp %h : tensor<64xf32>
  %b = scrimp.all_gather %q world 2 : tensor<32xf32> -> tensor<64xf32>
  %second = scrimp.wait %b : tensor<64xf32>
  %y = scrimp.mul %g, %second : tensor<64xf32>
  %k = scrimp.concat %y, %e, %h, %g {dim = 0 : i64} : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32> -> tensor<256xf32>
  %loss = scrimp.reduce sum, %k [0] : tensor<256xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
