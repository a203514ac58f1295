// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @rank_one(%a: tensor<3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{operands must have one rank of at least 2, found 1 and 1}}
  %y = scrimp.matmul %a, %b : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @ranks_differ(%a: tensor<2x3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{operands must have one rank of at least 2, found 3 and 2}}
  %y = scrimp.matmul %a, %b : tensor<2x3x4xf32>, tensor<4x5xf32> -> tensor<2x3x5xf32>
  return
}

// -----

func.func @batch(%a: tensor<2x3x4xf32>, %b: tensor<1x4x5xf32>) {
  // expected-error@+1 {{batch dimensions differ: 'tensor<2x3x4xf32>' and 'tensor<1x4x5xf32>'}}
  %y = scrimp.matmul %a, %b : tensor<2x3x4xf32>, tensor<1x4x5xf32> -> tensor<2x3x5xf32>
  return
}

// -----

func.func @contracted(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{contracted dimensions differ: 4 and 5}}
  %y = scrimp.matmul %a, %b {transpose_b} : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @result(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{result type must be 'tensor<3x5xf32>', found 'tensor<5x3xf32>'}}
  %y = scrimp.matmul %a, %b : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<5x3xf32>
  return
}

// -----

func.func @mixed_types(%a: tensor<3x4xf32>, %b: tensor<4x5xf64>) {
  // expected-error@+1 {{operands and result must have one element type, or the result that of sums, found 'f32', 'f64' and 'f32'}}
  %y = scrimp.matmul %a, %b : tensor<3x4xf32>, tensor<4x5xf64> -> tensor<3x5xf32>
  return
}

// -----

func.func @onto(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %c: tensor<5x3xf32>) {
  // expected-error@+1 {{what it adds to must have the result's type 'tensor<3x5xf32>', found 'tensor<5x3xf32>'}}
  %y = scrimp.matmul %a, %b onto(%c : tensor<5x3xf32>) : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  return
}

// -----

// An f16 product is f16, or f32, in which it is summed.
func.func @narrow(%a: tensor<3x4xf16>, %b: tensor<4x5xf16>) {
  %y = scrimp.matmul %a, %b : tensor<3x4xf16>, tensor<4x5xf16> -> tensor<3x5xf32>
  // expected-error@+1 {{or the result that of sums, found 'f16', 'f16' and 'bf16'}}
  %z = scrimp.matmul %a, %b : tensor<3x4xf16>, tensor<4x5xf16> -> tensor<3x5xbf16>
  return
}

// -----

func.func @widened(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{or the result that of sums, found 'f32', 'f32' and 'f64'}}
  %y = scrimp.matmul %a, %b : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf64>
  return
}

// -----

func.func @linear_batch(%a: tensor<1x3x3xf32>) {
  // expected-error@+1 {{operands must have rank 2, found}}
  %y = scrimp.linear %a, %a : tensor<1x3x3xf32>, tensor<1x3x3xf32> -> tensor<1x3x3xf32>
  return
}

// -----

func.func @linear_contracted(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{contracted dimensions differ: 3 and 4}}
  %y = scrimp.linear %a, %b {transpose_a} : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @linear_bias(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>, %c: tensor<3xf32>) {
  // expected-error@+1 {{'bias' must be 'tensor<8xf32>', found 'tensor<3xf32>'}}
  %y = scrimp.linear %a, %b bias(%c : tensor<3xf32>) : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @linear_wide_bias(%a: tensor<3x4xbf16>, %b: tensor<4x8xbf16>, %c: tensor<8xf32>) {
  // expected-error@+1 {{'bias' must be 'tensor<8xbf16>', found 'tensor<8xf32>'}}
  %y = scrimp.linear %a, %b bias(%c : tensor<8xf32>) : tensor<3x4xbf16>, tensor<4x8xbf16> -> tensor<3x8xbf16>
  return
}

// -----

func.func @linear_twice(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>, %c: tensor<3x8xf32>) {
  // expected-error@+1 {{adds to 'plus' or 'onto', not both}}
  %y = scrimp.linear %a, %b plus(%c : tensor<3x8xf32>) onto(%c : tensor<3x8xf32>) : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @linear_nowhere(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{'at' is where gelu_grad takes the derivative}}
  %y = scrimp.linear %a, %b gelu_grad : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @linear_beside(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{has a second result with 'sums' or gelu alone}}
  %y:2 = scrimp.linear %a, %b relu : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @linear_columns(%a: tensor<3x4xf32>, %b: tensor<4x7xf32>) {
  // expected-error@+1 {{needs a multiple of 8 columns, found 7}}
  %y:2 = scrimp.linear %a, %b gelu : tensor<3x4xf32>, tensor<4x7xf32> -> tensor<3x7xf32>, tensor<3x7xf32>
  return
}

// -----

func.func @linear_sums(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{with 'sums' has a second result, neither bias nor epilogue, and gives sums that are not rounded}}
  %y:2 = scrimp.linear %a, %b relu sums b : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @linear_sums_of(%a: tensor<3x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{the sums must be 'tensor<3xf32>', found 'tensor<8xf32>'}}
  %y:2 = scrimp.linear %a, %b sums a : tensor<3x4xf32>, tensor<4x8xf32> -> tensor<3x8xf32>, tensor<8xf32>
  return
}
