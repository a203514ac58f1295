// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @view_rank(%b: tensor<4x4xf32>) {
  // expected-error@+1 {{the bucket must have rank 1 and element type 'f32', found 'tensor<4x4xf32>'}}
  %v = scrimp.view %b at 0 : tensor<4x4xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @view_type(%b: tensor<16xf64>) {
  // expected-error@+1 {{the bucket must have rank 1 and element type 'f32', found 'tensor<16xf64>'}}
  %v = scrimp.view %b at 0 : tensor<16xf64> -> tensor<2x2xf32>
  return
}

// -----

func.func @view_end(%b: tensor<16xf32>) {
  // expected-error@+1 {{4 elements at 13 do not fit into 16}}
  %v = scrimp.view %b at 13 : tensor<16xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @view_before(%b: tensor<16xf32>) {
  // expected-error@+1 {{4 elements at -1 do not fit into 16}}
  %v = scrimp.view %b at -1 : tensor<16xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @pack_end(%b: tensor<16xf32>, %p: tensor<3xf32>) {
  // expected-error@+1 {{3 elements at 14 do not fit into 16}}
  %v = scrimp.pack %p into %b at 14 : tensor<3xf32>, tensor<16xf32>
  return
}

// -----

func.func @pack_type(%b: tensor<16xf32>, %p: tensor<3xf16>) {
  // expected-error@+1 {{the bucket must have rank 1 and element type 'f16', found 'tensor<16xf32>'}}
  %v = scrimp.pack %p into %b at 0 : tensor<3xf16>, tensor<16xf32>
  return
}

// -----

func.func @kernel_arguments(%x: tensor<2xf32>) {
  // expected-error@+1 {{the body's arguments must have the operands' types}}
  %y = scrimp.kernel(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<3xf32>):
    %c = scrimp.constant dense<0.0> : tensor<2xf32>
    scrimp.yield %c : tensor<2xf32>
  }
  return
}

// -----

func.func @kernel_results(%x: tensor<2xf32>) {
  // expected-error@+1 {{the body must yield the results' types}}
  %y = scrimp.kernel(%x) : (tensor<2xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<2xf32>):
    scrimp.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @kernel_body(%x: tensor<2xf32>) {
  %y = scrimp.kernel(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{cannot be part of a kernel}}
    %b = builtin.unrealized_conversion_cast %a : tensor<2xf32> to tensor<2xf32>
    scrimp.yield %b : tensor<2xf32>
  }
  return
}

// -----

func.func @sections_sum(%x: tensor<2xf32>) {
  // expected-error@+1 {{the sections must have 1 results in all, found 2}}
  %y = scrimp.kernel(%x) attributes {sections = array<i64: 1, 1>} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    scrimp.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @sections_empty(%x: tensor<2xf32>) {
  // expected-error@+1 {{a section must have a result, found 0}}
  %y = scrimp.kernel(%x) attributes {sections = array<i64: 0, 1>} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    scrimp.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @sections_shape(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error@+1 {{the results of a section must have one shape, found 'tensor<3xf32>' in one of shape 2}}
  %z, %w = scrimp.kernel(%x, %y) attributes {sections = array<i64: 2>} : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<3xf32>):
    %c = scrimp.neg %a : tensor<2xf32>
    %d = scrimp.neg %b : tensor<3xf32>
    scrimp.yield %c, %d : tensor<2xf32>, tensor<3xf32>
  }
  return
}

// -----

func.func @sections_rows(%x: tensor<2x3xf32>) {
  %z = scrimp.kernel(%x) attributes {sections = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    // expected-error@+1 {{cannot be part of a section: it is not element by element}}
    %c = scrimp.softmax %a : tensor<2x3xf32>
    scrimp.yield %c : tensor<2x3xf32>
  }
  return
}

// -----

func.func @kernel_captures(%x: tensor<2xf32>) {
  // expected-note@+1 {{required by region isolation constraints}}
  %y = scrimp.kernel() : () -> tensor<2xf32> {
    // expected-error@+1 {{using value defined outside the region}}
    %b = scrimp.exp %x : tensor<2xf32>
    scrimp.yield %b : tensor<2xf32>
  }
  return
}

// -----

func.func @check_of_many(%x: tensor<2xf32>) {
  // expected-error@+1 {{looks at one element, found 'tensor<2xf32>'}}
  %y = scrimp.check_finite %x of "w" : tensor<2xf32>
  return
}
