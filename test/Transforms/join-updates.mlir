// On a device kernels that update pieces of the same arguments become one, at the place of the last, as far as that costs no
// memory; on a CPU nothing changes.
// RUN: scrimp-opt %s --scrimp-attach-target=kind=emulated --scrimp-join-updates --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-attach-target=kind=emulated --scrimp-join-updates --scrimp-plan-memory --split-input-file -o /dev/null
// RUN: scrimp-opt %s --scrimp-attach-target --scrimp-join-updates --split-input-file | FileCheck %s --check-prefix=CPU
// CPU-NOT: sections

// More was live before, so the first gradient may wait for the second. What both updates read is one operand; what has been
// put into the bucket in between comes behind.
// CHECK-LABEL: @joined
// CHECK:      %[[G0:.+]] = scrimp.mul %{{.+}}, %arg0
// CHECK-NEXT: %[[G1:.+]] = scrimp.mul %{{.+}}, %arg1
// CHECK-NEXT: %[[K:.+]]:2 = scrimp.kernel(%[[P0:.+]], %[[G0]], %arg4, %[[P1:.+]], %[[G1]])
// CHECK-SAME:   sections = array<i64: 1, 1>
// CHECK-NEXT:   ^bb0(%[[P:[^:]+]]: tensor<4xf32>, %[[G:[^:]+]]: tensor<4xf32>, %[[LR:[^:]+]]: tensor<f32>, %[[Q:[^:]+]]: tensor<2x4xf32>
// CHECK-NEXT:   scrimp.broadcast %[[LR]] : tensor<f32> -> tensor<4xf32>
// CHECK:        %[[Y0:.+]] = scrimp.sub %[[P]]
// CHECK-NEXT:   scrimp.broadcast %[[LR]] : tensor<f32> -> tensor<2x4xf32>
// CHECK:        %[[Y1:.+]] = scrimp.sub %[[Q]]
// CHECK-NEXT:   scrimp.yield %[[Y0]], %[[Y1]]
// CHECK:      %[[R:.+]] = scrimp.pack %[[K]]#0 into %arg2 at 0
// CHECK-NEXT: scrimp.pack %[[K]]#1 into %[[R]] at 8
module {
  func.func @joined(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                    %z: tensor<2x4xf32> {scrimp.name = "z", scrimp.input = 0 : i64},
                    %p: tensor<16xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                    %w: tensor<256xf32> {scrimp.name = "w", scrimp.param = "frozen"},
                    %lr: tensor<f32> {scrimp.scalar = "lr"})
      -> (tensor<16xf32> {scrimp.updates = 2 : i64}, tensor<f32> {scrimp.output = "loss"}) {
    %p0 = scrimp.view %p at 0 : tensor<16xf32> -> tensor<4xf32>
    %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<2x4xf32>
    %e = scrimp.exp %w : tensor<256xf32>
    %loss = scrimp.reduce sum, %e [0] : tensor<256xf32> -> tensor<f32>
    %g0 = scrimp.mul %p0, %x : tensor<4xf32>
    %q0 = scrimp.kernel(%p0, %g0, %lr) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<f32>):
      %d = scrimp.broadcast %c : tensor<f32> -> tensor<4xf32>
      %f = scrimp.mul %b, %d : tensor<4xf32>
      %g = scrimp.sub %a, %f : tensor<4xf32>
      scrimp.yield %g : tensor<4xf32>
    }
    %r0 = scrimp.pack %q0 into %p at 0 : tensor<4xf32>, tensor<16xf32>
    %g1 = scrimp.mul %p1, %z : tensor<2x4xf32>
    %q1 = scrimp.kernel(%p1, %g1, %lr) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> {
    ^bb0(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>, %c: tensor<f32>):
      %d = scrimp.broadcast %c : tensor<f32> -> tensor<2x4xf32>
      %f = scrimp.mul %b, %d : tensor<2x4xf32>
      %g = scrimp.sub %a, %f : tensor<2x4xf32>
      scrimp.yield %g : tensor<2x4xf32>
    }
    %r1 = scrimp.pack %q1 into %r0 at 8 : tensor<2x4xf32>, tensor<16xf32>
    return %r1, %loss : tensor<16xf32>, tensor<f32>
  }
}

// -----

// Nothing else is live: two gradients at once would be the peak.
// CHECK-LABEL: @no_room
// CHECK-COUNT-2: scrimp.kernel
// CHECK-NOT: sections
// CHECK: return
module {
  func.func @no_room(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                     %p: tensor<16xf32> {scrimp.name = "p", scrimp.param = "trainable"})
      -> (tensor<16xf32> {scrimp.updates = 1 : i64}) {
    %p0 = scrimp.view %p at 0 : tensor<16xf32> -> tensor<8xf32>
    %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<8xf32>
    %g0 = scrimp.mul %p0, %x : tensor<8xf32>
    %q0 = scrimp.kernel(%p0, %g0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %c = scrimp.sub %a, %b : tensor<8xf32>
      scrimp.yield %c : tensor<8xf32>
    }
    %g1 = scrimp.mul %p1, %x : tensor<8xf32>
    %q1 = scrimp.kernel(%p1, %g1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %c = scrimp.sub %a, %b : tensor<8xf32>
      scrimp.yield %c : tensor<8xf32>
    }
    %r0 = scrimp.pack %q0 into %p at 0 : tensor<8xf32>, tensor<16xf32>
    %r1 = scrimp.pack %q1 into %r0 at 8 : tensor<8xf32>, tensor<16xf32>
    return %r1 : tensor<16xf32>
  }
}

// -----

// What the first reads is overwritten before the second comes; and a kernel that gives something else too is no update.
// CHECK-LABEL: @cannot_wait
// CHECK-NOT: sections
// CHECK: return
module {
  func.func @cannot_wait(%p: tensor<24xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                         %s: tensor<8xf32> {scrimp.name = "s", scrimp.state})
      -> (tensor<24xf32> {scrimp.updates = 0 : i64}, tensor<8xf32> {scrimp.updates = 1 : i64}, tensor<8xf32>) {
    %p0 = scrimp.view %p at 0 : tensor<24xf32> -> tensor<8xf32>
    %p1 = scrimp.view %p at 8 : tensor<24xf32> -> tensor<8xf32>
    %p2 = scrimp.view %p at 16 : tensor<24xf32> -> tensor<8xf32>
    %q0 = scrimp.kernel(%p0, %s) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %c = scrimp.sub %a, %b : tensor<8xf32>
      scrimp.yield %c : tensor<8xf32>
    }
    %t = scrimp.exp %s : tensor<8xf32>
    %q1 = scrimp.kernel(%p1) : (tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>):
      %c = scrimp.neg %a : tensor<8xf32>
      scrimp.yield %c : tensor<8xf32>
    }
    %q2, %o = scrimp.kernel(%p2) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: tensor<8xf32>):
      %c = scrimp.neg %a : tensor<8xf32>
      %d = scrimp.exp %a : tensor<8xf32>
      scrimp.yield %c, %d : tensor<8xf32>, tensor<8xf32>
    }
    %r0 = scrimp.pack %q0 into %p at 0 : tensor<8xf32>, tensor<24xf32>
    %r1 = scrimp.pack %q1 into %r0 at 8 : tensor<8xf32>, tensor<24xf32>
    %r2 = scrimp.pack %q2 into %r1 at 16 : tensor<8xf32>, tensor<24xf32>
    return %r2, %t, %o : tensor<24xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
