// What runs beside other ops starts as soon as nothing like it is under way and is waited for where it is read, as far as
// that costs no more memory than it may.
// RUN: scrimp-opt %s --scrimp-schedule --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-schedule=overlap=false --split-input-file | FileCheck %s --check-prefix=OFF
// RUN: scrimp-opt %s --scrimp-schedule=overlap-bytes=4096 --split-input-file | FileCheck %s --check-prefix=ROOM
// RUN: scrimp-opt %s --scrimp-schedule=overlap-bytes=4096 --scrimp-plan-memory --split-input-file -o /dev/null

// Gathered parameters, of 64 floats each when whole. The second starts when the first is there; waits stand before the
// reader.
// CHECK-LABEL: @gathers_ahead
// CHECK-NEXT: %[[A:.*]] = scrimp.all_gather %{{.*}} world 2
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: %[[FIRST:.*]] = scrimp.wait %[[A]]
// CHECK-NEXT: %[[B:.*]] = scrimp.all_gather %{{.*}} world 2
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

// -----

// What a gather in 16 bits waits for is the cast of a part, which moves along, for several uses of it too.
// CHECK-LABEL: @casts_along
// CHECK-NEXT: scrimp.cast
// CHECK-NEXT: %[[A:.*]] = scrimp.all_gather %{{.*}} world 2 use 0
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: %[[FIRST:.*]] = scrimp.wait %[[A]]
// CHECK-NEXT: %[[B:.*]] = scrimp.all_gather %{{.*}} world 2 use 1
// CHECK-NEXT: scrimp.mul %{{.*}}, %[[FIRST]]
// CHECK-NEXT: scrimp.exp
// CHECK-NEXT: %[[SECOND:.*]] = scrimp.wait %[[B]]
// CHECK-NEXT: scrimp.mul %{{.*}}, %[[SECOND]]
func.func @casts_along(%x: tensor<64xbf16> {scrimp.name = "x", scrimp.input = 0 : i64},
                       %p: tensor<32xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<bf16> {scrimp.output = "loss"}) {
  %e = scrimp.exp %x : tensor<64xbf16>
  %f = scrimp.exp %e : tensor<64xbf16>
  %low = scrimp.cast %p : tensor<32xf32> -> tensor<32xbf16>
  %a = scrimp.all_gather %low world 2 use 0 : tensor<32xbf16> -> tensor<64xbf16>
  %first = scrimp.wait %a : tensor<64xbf16>
  %h = scrimp.mul %f, %first : tensor<64xbf16>
  %g = scrimp.exp %h : tensor<64xbf16>
  %b = scrimp.all_gather %low world 2 use 1 : tensor<32xbf16> -> tensor<64xbf16>
  %second = scrimp.wait %b : tensor<64xbf16>
  %y = scrimp.mul %g, %second : tensor<64xbf16>
  %k = scrimp.concat %y, %e, %f, %h, %g {dim = 0 : i64} : tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16> -> tensor<320xbf16>
  %loss = scrimp.reduce sum, %k [0] : tensor<320xbf16> -> tensor<bf16>
  return %loss : tensor<bf16>
}

// -----

// An update has time: it waits for the sum until the next is reduced, and for as long the gradient is held. That is worth
// some bytes only where they are given.
// CHECK-LABEL: @updates_late
// CHECK: scrimp.reduce_scatter
// CHECK-NEXT: scrimp.wait
// CHECK: scrimp.reduce_scatter
// ROOM-LABEL: @updates_late
// ROOM: %[[A:.*]] = scrimp.reduce_scatter
// ROOM-NEXT: scrimp.mul
// ROOM-NEXT: scrimp.exp
// ROOM-NEXT: scrimp.exp
// ROOM-NEXT: %[[SUM:.*]] = scrimp.wait %[[A]]
// ROOM-NEXT: scrimp.reduce_scatter
// ROOM-NEXT: scrimp.sub %{{.*}}, %[[SUM]]
// ROOM-NEXT: scrimp.wait
func.func @updates_late(%x: tensor<64xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                        %p: tensor<32xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                        %q: tensor<32xf32> {scrimp.name = "q", scrimp.param = "trainable"})
    -> (tensor<32xf32> {scrimp.updates = 1 : i64}, tensor<32xf32> {scrimp.updates = 2 : i64}) {
  %e = scrimp.exp %x : tensor<64xf32>
  %a = scrimp.reduce_scatter %e world 2 : tensor<64xf32> -> tensor<32xf32>
  %first = scrimp.wait %a : tensor<32xf32>
  %u = scrimp.sub %p, %first : tensor<32xf32>
  %f = scrimp.mul %x, %x : tensor<64xf32>
  %g = scrimp.exp %f : tensor<64xf32>
  %h = scrimp.exp %g : tensor<64xf32>
  %b = scrimp.reduce_scatter %h world 2 : tensor<64xf32> -> tensor<32xf32>
  %second = scrimp.wait %b : tensor<32xf32>
  %v = scrimp.sub %q, %second : tensor<32xf32>
  return %u, %v : tensor<32xf32>, tensor<32xf32>
}
