// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @does_not_divide(%x: tensor<7xf32>) {
  // expected-error@+1 {{dimension 0 of 'tensor<7xf32>' has 7 elements, which 3 ranks do not divide; pad it to a multiple}}
  %y = scrimp.reduce_scatter %x world 3 : tensor<7xf32> -> tensor<2xf32>
  return
}

// -----

func.func @shard_does_not_divide(%x: tensor<7x3xf32>, %rank: tensor<i64>) {
  // expected-error@+1 {{dimension 0 of 'tensor<7x3xf32>' has 7 elements, which 3 ranks do not divide}}
  %y = scrimp.shard %x, %rank world 3 : tensor<7x3xf32> -> tensor<7x1xf32>
  return
}

// -----

func.func @one_number(%x: tensor<f32>) {
  // expected-error@+1 {{single numbers have no dimension to lie behind one another; expected rank 1 or more}}
  %y = scrimp.all_gather %x world 3 : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @wrong_part(%x: tensor<6xf32>) {
  // expected-error@+2 {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %y = scrimp.reduce_scatter %x world 3 : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @other_element(%x: tensor<2xf32>) {
  // expected-error@+2 {{inferred type(s) 'tensor<6xf32>' are incompatible with return type(s) of operation 'tensor<6xbf16>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %y = scrimp.all_gather %x world 3 : tensor<2xf32> -> tensor<6xbf16>
  return
}

// -----

func.func @no_ranks(%x: tensor<6xf32>) {
  // expected-error@+1 {{attribute 'world' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1}}
  %y = scrimp.all_reduce sum, %x world 0 : tensor<6xf32>
  return
}

// -----

func.func @kind(%x: tensor<6xf32>) {
  // expected-error@+1 {{ranks have no 'prod'; there are sum and max}}
  %y = scrimp.all_reduce prod, %x world 2 : tensor<6xf32>
  return
}

// -----

func.func @sum_of_booleans(%x: tensor<6xi1>) {
  // expected-error@+1 {{sums numbers of more than 8 bits, found elements of type 'i1'; max tells whether one is set}}
  %y = scrimp.all_reduce sum, %x world 2 : tensor<6xi1>
  return
}

// -----

func.func @sum_of_bytes(%x: tensor<6xi8>) {
  // expected-error@+1 {{sums numbers of more than 8 bits, found elements of type 'i8'}}
  %y = scrimp.reduce_scatter %x world 2 : tensor<6xi8> -> tensor<3xi8>
  return
}

// -----

func.func @wire_wider(%x: tensor<6xbf16>) {
  // expected-error@+1 {{sends elements of type 'bf16' as 'f32'; only f32 can be sent as another type, bf16 or f16}}
  %y = scrimp.all_reduce sum, %x world 2 wire f32 : tensor<6xbf16>
  return
}

// -----

func.func @wire_of_max(%x: tensor<6xf32>) {
  // expected-error@+1 {{the largest is sent as it is; 'wire' belongs to a sum}}
  %y = scrimp.all_reduce max, %x world 2 wire bf16 : tensor<6xf32>
  return
}

// -----

func.func @root(%x: tensor<6xf32>) {
  // expected-error@+1 {{the root is rank 2 of 2; expected 0 to 1}}
  %y = scrimp.collective_broadcast %x root 2 world 2 : tensor<6xf32>
  return
}

// -----

func.func @read_in_flight(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{the result is in flight until a scrimp.wait, but 'scrimp.neg' reads it}}
  %y = scrimp.all_reduce sum, %x world 2 : tensor<6xf32>
  %z = scrimp.wait %y : tensor<6xf32>
  // expected-note@+1 {{it is read here}}
  %w = scrimp.neg %y : tensor<6xf32>
  return %w : tensor<6xf32>
}

// -----

func.func @returned_in_flight(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{the result is in flight until a scrimp.wait, but 'func.return' reads it}}
  %y = scrimp.all_reduce sum, %x world 2 : tensor<6xf32>
  // expected-note@+1 {{it is read here}}
  return %y : tensor<6xf32>
}

// -----

func.func @two_waits(%x: tensor<6xf32>) {
  // expected-error@+1 {{the result arrives once, but two ops wait for it}}
  %y = scrimp.all_gather %x world 2 : tensor<6xf32> -> tensor<12xf32>
  // expected-note@+1 {{one of them}}
  %z = scrimp.wait %y : tensor<12xf32>
  %w = scrimp.wait %y : tensor<12xf32>
  return
}

// -----

func.func @nothing_in_flight(%x: tensor<6xf32>) {
  // expected-error@+1 {{waits for a value that is not in flight; expected the result of a collective}}
  %y = scrimp.wait %x : tensor<6xf32>
  return
}
