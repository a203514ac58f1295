// Plans made by hand, each with one fault; the verifier alone judges them.
// RUN: scrimp-opt %s --scrimp-plan-memory=verify-only -verify-diagnostics -split-input-file

// expected-error @+1 {{has no plan; run scrimp-plan-memory}}
module {}

// -----

// expected-error @+1 {{a segment needs name, offset and bytes, found {bytes = 64 : i64, name = "inputs"}}}
module attributes {scrimp.plan = {arena_bytes = 64 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", bytes = 64 : i64}]}} {}

// -----

// A gap between two segments.
// expected-error @+1 {{segment 'activations' lies at 128 with 64 bytes, expected it at 64}}
module attributes {scrimp.plan = {arena_bytes = 192 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 128 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 128 : i64, bytes = 64 : i64}]}} {}

// -----

// expected-error @+1 {{the segments end at 64 of 128 bytes}}
module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 128 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}]}} {}

// -----

// expected-error @+1 {{the arena has 64 bytes, less than the lower bound 128}}
module attributes {scrimp.plan = {arena_bytes = 64 : i64, lower_bound_bytes = 128 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}]}} {}

// -----

// Two arguments on the same bytes.
// expected-error @+1 {{'a' and 'b' overlap at 0}}
module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 64 : i64}]}} {
  func.func @f(%a: tensor<4xf32> {scrimp.name = "a", scrimp.input = 0 : i64, scrimp.offset = 0 : i64},
               %b: tensor<4xf32> {scrimp.name = "b", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) {
    return
  }
}

// -----

// A parameter that has moved between training and evaluation.
module attributes {scrimp.plan = {arena_bytes = 192 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 128 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 128 : i64}, {name = "activations", offset = 128 : i64, bytes = 64 : i64}]}} {
  func.func @train(%a: tensor<4xf32> {scrimp.name = "a", scrimp.param = "trainable", scrimp.offset = 0 : i64}) {
    return
  }
  // expected-error @+1 {{'a' lies at 64 with 16 bytes here, but at 0 with 16 bytes in another function}}
  func.func @eval(%a: tensor<4xf32> {scrimp.name = "a", scrimp.param = "trainable", scrimp.offset = 64 : i64}) {
    return
  }
}

// -----

// y is still needed when z is written over it.
module attributes {scrimp.plan = {arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 192 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) -> tensor<4xf32> {
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    %z = scrimp.neg %x {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    // expected-error @+1 {{reads 'scrimp.exp' after 'scrimp.neg' has been written over it}}
    %w = scrimp.add %y, %z {scrimp.offsets = array<i64: 128>} : tensor<4xf32>
    return %w : tensor<4xf32>
  }
}

// -----

// A result that nobody reads clobbers a live value (case 37).
module attributes {scrimp.plan = {arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 192 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) -> tensor<4xf32> {
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    %unused = scrimp.neg %x {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    // expected-error @+1 {{reads 'scrimp.exp' after 'scrimp.neg' has been written over it}}
    return %y : tensor<4xf32>
  }
}

// -----

// In place where the op reads other elements than it writes.
module attributes {scrimp.plan = {arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 192 : i64}]}} {
  func.func @f(%x: tensor<2x2xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) -> tensor<2x2xf32> {
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 64>} : tensor<2x2xf32>
    // expected-error @+1 {{'scrimp.transpose' is written over the operand 'scrimp.exp' while it is read}}
    %z = scrimp.transpose %y [1, 0] {scrimp.offsets = array<i64: 64>} : tensor<2x2xf32> -> tensor<2x2xf32>
    return %z : tensor<2x2xf32>
  }
}

// -----

// Two results of one op on the same bytes.
module attributes {scrimp.plan = {arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 192 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) {
    // expected-error @+1 {{'scrimp.kernel:0' and 'scrimp.kernel:1' overlap at 64}}
    %y, %z = scrimp.kernel(%x) attributes {scrimp.offsets = array<i64: 64, 64>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    ^bb0(%a: tensor<4xf32>):
      %b = scrimp.neg %a : tensor<4xf32>
      %c = scrimp.exp %a : tensor<4xf32>
      scrimp.yield %b, %c : tensor<4xf32>, tensor<4xf32>
    }
    return
  }
}

// -----

// A parameter is overwritten, by a function that has no business with it.
module attributes {scrimp.plan = {arena_bytes = 192 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 128 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 64 : i64}, {name = "inputs", offset = 64 : i64, bytes = 64 : i64},
                {name = "activations", offset = 128 : i64, bytes = 64 : i64}]}} {
  func.func @train(%p: tensor<4xf32> {scrimp.name = "p", scrimp.param = "trainable", scrimp.offset = 0 : i64}) {
    return
  }
  func.func @eval(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 64 : i64}) {
    // expected-error @+1 {{'scrimp.exp' is written over 'p', which this function does not update}}
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 0>} : tensor<4xf32>
    return
  }
}

// -----

// Outside of the arena, then not aligned, then inside the inputs without being one.
module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 64 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) {
    // expected-error @+1 {{'scrimp.exp' lies at 128 to 144 of 128 bytes}}
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 128>} : tensor<4xf32>
    return
  }
}

// -----

module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 64 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) {
    // expected-error @+1 {{'scrimp.exp' lies at 80, expected a multiple of 64}}
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 80>} : tensor<4xf32>
    return
  }
}

// -----

module attributes {scrimp.plan = {arena_bytes = 192 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 128 : i64,
    segments = [{name = "inputs", offset = 0 : i64, bytes = 128 : i64}, {name = "activations", offset = 128 : i64, bytes = 64 : i64}]}} {
  func.func @f(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64, scrimp.offset = 0 : i64}) {
    // expected-error @+1 {{'scrimp.exp' lies at 64 to 80, outside of the bytes of a step's own values, which begin at 128}}
    %y = scrimp.exp %x {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    return
  }
}

// -----

// An update somewhere else than in the argument's bytes.
module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 64 : i64}]}} {
  func.func @f(%p: tensor<4xf32> {scrimp.name = "p", scrimp.param = "trainable", scrimp.offset = 0 : i64})
      -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
    %y = scrimp.exp %p {scrimp.offsets = array<i64: 64>} : tensor<4xf32>
    // expected-error @+1 {{the new value of 'p' lies at 64, expected it at 0}}
    return %y : tensor<4xf32>
  }
}

// -----

// A piece that is not where its pack wants it.
module attributes {scrimp.plan = {arena_bytes = 128 : i64, lower_bound_bytes = 0 : i64, alignment = 64 : i64, transient_offset = 64 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 64 : i64}]}} {
  func.func @f(%p: tensor<4xf32> {scrimp.name = "p", scrimp.param = "trainable", scrimp.offset = 0 : i64})
      -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
    %v = scrimp.view %p at 2 : tensor<4xf32> -> tensor<2xf32>
    %y = scrimp.exp %v {scrimp.offsets = array<i64: 64>} : tensor<2xf32>
    // expected-error @+1 {{'scrimp.exp' lies at 64, but its place in the bucket is 8}}
    %q = scrimp.pack %y into %p at 2 : tensor<2xf32>, tensor<4xf32>
    return %q : tensor<4xf32>
  }
}

// -----

// The piece that the host has read for an iteration is still read when e is written over it.
module attributes {scrimp.plan = {alignment = 64 : i64, arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, transient_offset = 64 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 64 : i64}, {name = "inputs", offset = 64 : i64, bytes = 64 : i64},
                {name = "activations", offset = 128 : i64, bytes = 128 : i64}]}} {
  func.func @f(%x: tensor<4x16xf32> {scrimp.input = 0 : i64, scrimp.name = "x", scrimp.offset = 64 : i64, scrimp.streamed},
               %acc: tensor<16xf32> {scrimp.name = "acc", scrimp.offset = 0 : i64, scrimp.state}) -> (tensor<16xf32> {scrimp.updates = 1 : i64}) {
    %s = scrimp.accumulate 4 split(%x along [0] : tensor<4x16xf32>) init(%acc : tensor<16xf32>) attributes {filled = array<i64: 0>, scrimp.body_offsets = array<i64: 192, 64>, scrimp.offsets = array<i64: 0>} {
    ^bb0(%i: tensor<i64>, %p: tensor<1x16xf32>, %a: tensor<16xf32>):
      %b = scrimp.reshape %p : tensor<1x16xf32> -> tensor<16xf32>
      %e = scrimp.exp %a {scrimp.offsets = array<i64: 64>} : tensor<16xf32> loc("e")
      // expected-error @+1 {{reads 'scrimp.reshape' after 'e' has been written over it}}
      %n = scrimp.sub %a, %b {scrimp.offsets = array<i64: 0>} : tensor<16xf32>
      scrimp.yield %n : tensor<16xf32>
    }
    return %s : tensor<16xf32>
  }
}

// -----

// Of such an input nothing else is there.
module attributes {scrimp.plan = {alignment = 64 : i64, arena_bytes = 256 : i64, lower_bound_bytes = 0 : i64, transient_offset = 64 : i64,
    segments = [{name = "parameters", offset = 0 : i64, bytes = 64 : i64}, {name = "activations", offset = 64 : i64, bytes = 192 : i64}]}} {
  func.func @f(%x: tensor<4x16xf32> {scrimp.input = 0 : i64, scrimp.name = "x", scrimp.offset = 64 : i64, scrimp.streamed},
               %acc: tensor<16xf32> {scrimp.name = "acc", scrimp.offset = 0 : i64, scrimp.state}) -> (tensor<16xf32> {scrimp.updates = 1 : i64}) {
    // expected-error @+1 {{reads 'x', which is never whole in memory}}
    %n = scrimp.reduce sum, %x [0] {scrimp.offsets = array<i64: 0>} : tensor<4x16xf32> -> tensor<16xf32>
    return %n : tensor<16xf32>
  }
}
