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
