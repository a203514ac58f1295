// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @count(%x: tensor<4xf32>) {
  // expected-error@+1 {{attribute 'count' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1}}
  scrimp.accumulate 0 shared(%x : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @dims(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs a dimension for each of 1 split operands, found 2}}
  scrimp.accumulate 2 split(%x along [0, 0] : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @no_dim(%x: tensor<4xf32>) {
  // expected-error@+1 {{split operand 0 has no dimension 1: it is 'tensor<4xf32>'}}
  scrimp.accumulate 2 split(%x along [1] : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @not_contiguous(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{split operand 0 is 'tensor<2x4xf32>': pieces along dimension 1 are not contiguous; transpose it so that the dimension comes first}}
  scrimp.accumulate 2 split(%x along [1] : tensor<2x4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2x2xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @not_divided(%x: tensor<5x4xf32>) {
  // expected-error@+1 {{dimension 0 of split operand 0 has 5 elements, which 2 iterations do not divide}}
  scrimp.accumulate 2 split(%x along [0] : tensor<5x4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2x4xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @argument_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{the body must have 2 arguments, found 1}}
  scrimp.accumulate 2 shared(%x : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>):
    scrimp.yield
  }
  return
}

// -----

func.func @piece_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{argument 1 of the body must be 'tensor<2xf32>', found 'tensor<4xf32>'}}
  scrimp.accumulate 2 split(%x along [0] : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @yield_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{the body must yield 1 values, one per init operand, found 0}}
  %y = scrimp.accumulate 2 init(%x : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    scrimp.yield
  }
  return
}

// -----

func.func @yield_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{the body must yield 'tensor<4xf32>' as value 0, found 'tensor<i64>'}}
  %y = scrimp.accumulate 2 init(%x : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    scrimp.yield %i : tensor<i64>
  }
  return
}

// -----

func.func @captures(%x: tensor<4xf32>) {
  // expected-note@+1 {{required by region isolation constraints}}
  scrimp.accumulate 2 {
  ^bb0(%i: tensor<i64>):
    // expected-error@+1 {{using value defined outside the region}}
    %y = scrimp.exp %x : tensor<4xf32>
    scrimp.yield
  }
  return
}

// -----

func.func @not_elementwise(%c: tensor<i1>, %x: tensor<2x2xf32>) {
  %y = scrimp.conditional %c init(%x : tensor<2x2xf32>) : tensor<i1> {
  ^bb0(%a: tensor<2x2xf32>):
    // expected-error@+1 {{is not elementwise: it cannot depend on a condition}}
    %b = scrimp.matmul %a, %a : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    scrimp.yield %b : tensor<2x2xf32>
  }
  return
}

// -----

func.func @filled(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no split operand 1 to be filled}}
  scrimp.accumulate 2 split(%x along [0] : tensor<4xf32>) attributes {filled = array<i64: 1>} {
  ^bb0(%i: tensor<i64>, %a: tensor<2xf32>):
    scrimp.yield
  }
  return
}
