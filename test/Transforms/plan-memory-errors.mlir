// RUN: scrimp-opt %s --scrimp-plan-memory -verify-diagnostics -split-input-file

// Case 36 of an in-place update that reads itself: the new bytes 1..3 of the bucket are computed from the old 0..2.
func.func @reads_itself(%b: tensor<4xf32> {scrimp.name = "b", scrimp.state})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  %old = scrimp.view %b at 0 : tensor<4xf32> -> tensor<3xf32>
  // expected-error @+1 {{'scrimp.neg' is written over the operand 'scrimp.view' while it is read}}
  %new = scrimp.neg %old : tensor<3xf32>
  %c = scrimp.pack %new into %b at 1 : tensor<3xf32>, tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @piece_is_argument(%b: tensor<4xf32> {scrimp.name = "b", scrimp.state},
                             %x: tensor<2xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  // expected-error @+1 {{the piece 'x' cannot be computed in the bytes it replaces: it lies inside argument 'x'}}
  %c = scrimp.pack %x into %b at 1 : tensor<2xf32>, tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @piece_is_part(%b: tensor<4xf32> {scrimp.name = "b", scrimp.state},
                         %x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  %y = scrimp.neg %x : tensor<4xf32>
  // expected-note @+1 {{it is computed here}}
  %z = scrimp.view %y at 2 : tensor<4xf32> -> tensor<2xf32>
  // expected-error @+1 {{the piece 'scrimp.view' cannot be computed in the bytes it replaces: it is 8 bytes at 8 of 'scrimp.neg', which has 16}}
  %c = scrimp.pack %z into %b at 1 : tensor<2xf32>, tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @piece_in_two_places(%b: tensor<4xf32> {scrimp.name = "b", scrimp.state},
                               %x: tensor<2xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  // expected-note @+1 {{it is computed here}}
  %y = scrimp.neg %x : tensor<2xf32>
  %c = scrimp.pack %y into %b at 0 : tensor<2xf32>, tensor<4xf32>
  // expected-error @+1 {{it has its place already, 0 bytes into the same storage instead of 8}}
  %d = scrimp.pack %y into %c at 2 : tensor<2xf32>, tensor<4xf32>
  return %d : tensor<4xf32>
}

// -----

func.func @update_is_argument(%a: tensor<4xf32> {scrimp.name = "a", scrimp.state},
                              %b: tensor<4xf32> {scrimp.name = "b", scrimp.state})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  // expected-error @+1 {{the new value of 'a', 'b' cannot be computed in the bytes it replaces: it lies inside argument 'b'}}
  return %b : tensor<4xf32>
}

// -----

// The old value is read after the new one has been written.
func.func @read_after_update(%a: tensor<4xf32> {scrimp.name = "a", scrimp.state})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}, tensor<4xf32>) {
  %new = scrimp.neg %a : tensor<4xf32>
  // expected-error @+1 {{reads 'a' after 'scrimp.neg' has been written over it}}
  %late = scrimp.exp %a : tensor<4xf32>
  return %new, %late : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two pieces overlap in the bucket: element 1 belongs to both.
func.func @pieces_overlap(%b: tensor<4xf32> {scrimp.name = "b", scrimp.state},
                          %x: tensor<2xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.updates = 0 : i64}) {
  %first = scrimp.neg %x : tensor<2xf32>
  %second = scrimp.exp %x : tensor<2xf32>
  %c = scrimp.pack %second into %b at 0 : tensor<2xf32>, tensor<4xf32>
  %d = scrimp.pack %first into %c at 1 : tensor<2xf32>, tensor<4xf32>
  // expected-error @+1 {{reads 'scrimp.pack' after 'scrimp.exp' has been written over it}}
  return %d : tensor<4xf32>
}

// -----

func.func @train(%a: tensor<4xf32> {scrimp.name = "a", scrimp.state}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
// expected-error @+1 {{'a' has 32 bytes in @eval but 16 in @train}}
func.func @eval(%a: tensor<8xf32> {scrimp.name = "a", scrimp.state}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}

// -----

// expected-error @+1 {{result 0 updates argument 3 of 1}}
func.func @no_such_argument(%a: tensor<4xf32> {scrimp.name = "a", scrimp.state})
    -> (tensor<4xf32> {scrimp.updates = 3 : i64}) {
  return %a : tensor<4xf32>
}

// -----

// The next iteration would find a changed value where the loop read the whole one.
func.func @yields_shared(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> (tensor<4xf32> {scrimp.output = "y"}) {
  // expected-note @+1 {{it is computed here}}
  %a = scrimp.exp %x : tensor<4xf32>
  %b = scrimp.tanh %x : tensor<4xf32>
  %y = scrimp.accumulate 2 shared(%a : tensor<4xf32>) init(%b : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>, %t: tensor<4xf32>):
    // expected-error @+1 {{the new value of accumulator 0, 'scrimp.exp' cannot be computed in the bytes it replaces: it is computed outside of the loop}}
    scrimp.yield %s : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @swaps(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> (tensor<4xf32> {scrimp.output = "y"}) {
  %a = scrimp.exp %x : tensor<4xf32>
  // expected-note @+1 {{it is computed here}}
  %b = scrimp.tanh %x : tensor<4xf32>
  %y, %z = scrimp.accumulate 2 init(%a, %b : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>, %t: tensor<4xf32>):
    // expected-error @+1 {{the new value of accumulator 0, 'scrimp.tanh' cannot be computed in the bytes it replaces: it is computed outside of the loop}}
    scrimp.yield %t, %s : tensor<4xf32>, tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @begins_as_constant() -> (tensor<2xf32> {scrimp.output = "y"}) {
  %a = scrimp.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-error @+1 {{'scrimp.constant' cannot be updated in place: it is a constant}}
  %y = scrimp.accumulate 2 init(%a : tensor<2xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<2xf32>):
    %t = scrimp.exp %s : tensor<2xf32>
    scrimp.yield %t : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// -----

func.func @updates_a_piece(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) {
  scrimp.accumulate 2 split(%x along [0] : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<2xf32>):
    // expected-error @+1 {{'x' cannot be updated in place: it is a piece of what the loop around reads}}
    %y = scrimp.accumulate 2 init(%piece : tensor<2xf32>) {
    ^bb0(%j: tensor<i64>, %s: tensor<2xf32>):
      %t = scrimp.exp %s : tensor<2xf32>
      scrimp.yield %t : tensor<2xf32>
    }
    scrimp.yield
  }
  return
}

// -----

// The accumulator begins in an argument that the function does not update.
func.func @argument(%x: tensor<4xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> (tensor<4xf32> {scrimp.output = "y"}) {
  // expected-error @+1 {{is written over 'x', which this function does not update}}
  %y = scrimp.accumulate 2 init(%x : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>):
    %t = scrimp.exp %s : tensor<4xf32>
    scrimp.yield %t : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
