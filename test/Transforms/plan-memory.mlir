// RUN: scrimp-opt %s --scrimp-plan-memory --split-input-file | FileCheck %s
// The plan must satisfy the verifier by itself, too.
// RUN: scrimp-opt %s --scrimp-plan-memory --scrimp-plan-memory=verify-only --split-input-file -o /dev/null

// 100 f32 are 400 bytes, 448 with the alignment. x is an input at 0. a: transient, so at 448. b reads a by another
// index, so it cannot overwrite it: 896. c comes after a has died: 448 again. d overwrites c, which is read pointwise.
// The output has bytes of its own among the inputs: 448, and the region of the step begins at 512.
// CHECK-LABEL: module {{.*}}arena_bytes = 1408
// CHECK-SAME: lower_bound_bytes = 1408
// CHECK-SAME: {bytes = 0 : i64, name = "parameters", offset = 0 : i64}
// CHECK-SAME: {bytes = 0 : i64, name = "optimizer_state", offset = 0 : i64}
// CHECK-SAME: {bytes = 512 : i64, name = "inputs", offset = 0 : i64}
// CHECK-SAME: {bytes = 0 : i64, name = "gradients", offset = 512 : i64}
// CHECK-SAME: {bytes = 896 : i64, name = "activations", offset = 512 : i64}
// CHECK-SAME: {bytes = 0 : i64, name = "workspace", offset = 1408 : i64}
module {
  // CHECK: @train(%{{.*}}: tensor<10x10xf32> {scrimp.input = 0 : i64, scrimp.name = "x", scrimp.offset = 0 : i64})
  func.func @train(%x: tensor<10x10xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
      -> (tensor<f32> {scrimp.output = "loss"}) {
    // CHECK: scrimp.exp {{.*}}scrimp.offsets = array<i64: 512>
    %a = scrimp.exp %x : tensor<10x10xf32>
    // CHECK: scrimp.transpose {{.*}}scrimp.offsets = array<i64: 960>
    %b = scrimp.transpose %a [1, 0] : tensor<10x10xf32> -> tensor<10x10xf32>
    // CHECK: scrimp.matmul {{.*}}scrimp.offsets = array<i64: 512>
    %c = scrimp.matmul %b, %x : tensor<10x10xf32>, tensor<10x10xf32> -> tensor<10x10xf32>
    // CHECK: scrimp.tanh {{.*}}scrimp.offsets = array<i64: 512>
    %d = scrimp.tanh %c : tensor<10x10xf32>
    // CHECK: scrimp.reduce {{.*}}scrimp.offsets = array<i64: 448>
    %loss = scrimp.reduce sum, %d [0, 1] : tensor<10x10xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A bucket of two members is updated by two kernels, each in the bytes of its member: the bucket is at 0, its second
// member 32 bytes in. The state bucket follows at 64. @eval reads the same bytes. The gradient of the second member
// is live while the first is computed, so they lie apart, from 192 on (inputs: x at 128).
// CHECK-LABEL: module {{.*}}arena_bytes = 320
// CHECK-SAME: {bytes = 64 : i64, name = "parameters", offset = 0 : i64}
// CHECK-SAME: {bytes = 64 : i64, name = "optimizer_state", offset = 64 : i64}
// CHECK-SAME: {bytes = 64 : i64, name = "inputs", offset = 128 : i64}
// CHECK-SAME: {bytes = 128 : i64, name = "gradients", offset = 192 : i64}
// CHECK-SAME: {bytes = 0 : i64, name = "activations", offset = 320 : i64}
module {
  func.func @train(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                   %p: tensor<16xf32> {scrimp.name = "bucket", scrimp.param = "trainable", scrimp.bucket = #scrimp.bucket<elements = 16, members = []>},
                   %m: tensor<16xf32> {scrimp.name = "state", scrimp.state, scrimp.bucket = #scrimp.bucket<elements = 16, members = []>})
      -> (tensor<16xf32> {scrimp.updates = 1 : i64}, tensor<16xf32> {scrimp.updates = 2 : i64}) {
    %p0 = scrimp.view %p at 0 : tensor<16xf32> -> tensor<8xf32>
    %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<8xf32>
    %m0 = scrimp.view %m at 0 : tensor<16xf32> -> tensor<8xf32>
    %m1 = scrimp.view %m at 8 : tensor<16xf32> -> tensor<8xf32>
    // CHECK: scrimp.mul {{.*}}scrimp.offsets = array<i64: 192>
    %g0 = scrimp.mul %p0, %x : tensor<8xf32>
    // CHECK: scrimp.mul {{.*}}scrimp.offsets = array<i64: 256>
    %g1 = scrimp.mul %p1, %x : tensor<8xf32>
    // CHECK: scrimp.kernel
    // CHECK-SAME: scrimp.offsets = array<i64: 0, 64>
    %q0, %n0 = scrimp.kernel(%p0, %m0, %g0) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>):
      %d = scrimp.add %b, %c : tensor<8xf32>
      %e = scrimp.sub %a, %d : tensor<8xf32>
      scrimp.yield %e, %d : tensor<8xf32>, tensor<8xf32>
    }
    // CHECK: scrimp.kernel
    // CHECK-SAME: scrimp.offsets = array<i64: 32, 96>
    %q1, %n1 = scrimp.kernel(%p1, %m1, %g1) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>):
      %d = scrimp.add %b, %c : tensor<8xf32>
      %e = scrimp.sub %a, %d : tensor<8xf32>
      scrimp.yield %e, %d : tensor<8xf32>, tensor<8xf32>
    }
    %r0 = scrimp.pack %q0 into %p at 0 : tensor<8xf32>, tensor<16xf32>
    %r1 = scrimp.pack %q1 into %r0 at 8 : tensor<8xf32>, tensor<16xf32>
    %s0 = scrimp.pack %n0 into %m at 0 : tensor<8xf32>, tensor<16xf32>
    %s1 = scrimp.pack %n1 into %s0 at 8 : tensor<8xf32>, tensor<16xf32>
    return %r1, %s1 : tensor<16xf32>, tensor<16xf32>
  }
  // CHECK: @eval({{.*}}scrimp.name = "x", scrimp.offset = 128{{.*}}scrimp.name = "bucket", scrimp.offset = 0
  func.func @eval(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                  %p: tensor<16xf32> {scrimp.name = "bucket", scrimp.param = "trainable", scrimp.bucket = #scrimp.bucket<elements = 16, members = []>})
      -> tensor<8xf32> {
    %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<8xf32>
    // CHECK: scrimp.add {{.*}}scrimp.offsets = array<i64: 192>
    %y = scrimp.add %x, %p1 : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// The second result of the kernel is read by nobody, but it is written: it has bytes of its own (64), apart from %a
// (which is live) and from the first result (128).
// CHECK-LABEL: @unused_result
func.func @unused_result(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> tensor<8xf32> {
  // CHECK: scrimp.exp {{.*}}scrimp.offsets = array<i64: 64>
  %a = scrimp.exp %x : tensor<8xf32>
  // CHECK: scrimp.kernel
  // CHECK-SAME: scrimp.offsets = array<i64: 128, 192>
  %b, %unused = scrimp.kernel(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%c: tensor<8xf32>):
    %d = scrimp.neg %c : tensor<8xf32>
    %e = scrimp.abs %c : tensor<8xf32>
    scrimp.yield %d, %e : tensor<8xf32>, tensor<8xf32>
  }
  %y = scrimp.add %a, %b : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// z - a is read again after t is used: no t may take z's bytes while z lives. The last one may.
// CHECK-LABEL: @live_value_is_kept
func.func @live_value_is_kept(%a: tensor<8xf32> {scrimp.name = "a", scrimp.input = 0 : i64}) -> tensor<8xf32> {
  // CHECK: scrimp.neg {{.*}}scrimp.offsets = array<i64: [[Z:[0-9]+]]>
  %z = scrimp.neg %a : tensor<8xf32>
  // CHECK: scrimp.sub %0, {{.*}}scrimp.offsets = array<i64: [[T:[0-9]+]]>
  %t0 = scrimp.sub %z, %a : tensor<8xf32>
  // CHECK: scrimp.exp {{.*}}scrimp.offsets = array<i64: [[T]]>
  %u0 = scrimp.exp %t0 : tensor<8xf32>
  // CHECK: scrimp.sub %0, {{.*}}scrimp.offsets = array<i64: [[Z]]>
  %t1 = scrimp.sub %z, %a : tensor<8xf32>
  %y = scrimp.add %u0, %t1 : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// The transpose inside reads the operand at another index, so the kernel's result cannot take its bytes, although both
// have 256. The second kernel reads it through pointwise ops alone.
// CHECK-LABEL: @in_place_in_kernels
func.func @in_place_in_kernels(%x: tensor<8x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> tensor<8x8xf32> {
  // CHECK: scrimp.exp {{.*}}scrimp.offsets = array<i64: [[A:[0-9]+]]>
  %a = scrimp.exp %x : tensor<8x8xf32>
  // CHECK: scrimp.kernel
  // CHECK-NOT: array<i64: [[A]]>
  // CHECK-SAME: scrimp.offsets = array<i64: [[B:[0-9]+]]>
  %b = scrimp.kernel(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%c: tensor<8x8xf32>):
    %d = scrimp.neg %c : tensor<8x8xf32>
    %e = scrimp.transpose %d [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
    %f = scrimp.add %c, %e : tensor<8x8xf32>
    scrimp.yield %f : tensor<8x8xf32>
  }
  // CHECK: scrimp.kernel
  // CHECK-SAME: scrimp.offsets = array<i64: [[B]]>
  %g = scrimp.kernel(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%c: tensor<8x8xf32>):
    %d = scrimp.neg %c : tensor<8x8xf32>
    %f = scrimp.add %c, %d : tensor<8x8xf32>
    scrimp.yield %f : tensor<8x8xf32>
  }
  return %g : tensor<8x8xf32>
}

// -----

// A loop of four iterations, planned once. x has 256 bytes at 0, the output y 64 at 256: it is the accumulator from the
// iota on. From 320 on: the factor, 64 bytes, which every iteration reads, so it lives through the loop; the number of
// the iteration, 8 bytes; e, 64 bytes. The product takes e's bytes, and the sum the accumulator's.
// CHECK-LABEL: module {{.*}}arena_bytes = 512
// CHECK-SAME: lower_bound_bytes = 512
module {
  func.func @train(%x: tensor<4x16xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
      -> (tensor<16xf32> {scrimp.output = "y"}) {
    // CHECK: scrimp.iota {{.*}}scrimp.offsets = array<i64: 256>
    %first = scrimp.iota {dim = 0 : i64} : tensor<16xf32>
    // CHECK: scrimp.reduce {{.*}}scrimp.offsets = array<i64: 320>
    %factor = scrimp.reduce sum, %x [0] : tensor<4x16xf32> -> tensor<16xf32>
    // CHECK: scrimp.accumulate
    // CHECK-SAME: scrimp.body_offsets = array<i64: 448>, scrimp.offsets = array<i64: 256>
    %y = scrimp.accumulate 4 shared(%factor : tensor<16xf32>) split(%x along [0] : tensor<4x16xf32>)
        init(%first : tensor<16xf32>) {
    ^bb0(%i: tensor<i64>, %f: tensor<16xf32>, %piece: tensor<1x16xf32>, %s: tensor<16xf32>):
      // CHECK: scrimp.exp {{.*}}scrimp.offsets = array<i64: 384>
      %e = scrimp.exp %piece : tensor<1x16xf32>
      %row = scrimp.reshape %e : tensor<1x16xf32> -> tensor<16xf32>
      // CHECK: scrimp.mul {{.*}}scrimp.offsets = array<i64: 384>
      %p = scrimp.mul %row, %f : tensor<16xf32>
      // CHECK: scrimp.add {{.*}}scrimp.offsets = array<i64: 256>
      %t = scrimp.add %s, %p : tensor<16xf32>
      scrimp.yield %t : tensor<16xf32>
    }
    return %y : tensor<16xf32>
  }
}
