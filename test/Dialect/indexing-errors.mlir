// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @gather_elements_dim(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>) {
  // expected-error@+1 {{dim 2 is not in [0, 2)}}
  %y = scrimp.gather_elements %x, %i {dim = 2} : tensor<2x3xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  return
}

// -----

func.func @gather_elements_result(%x: tensor<2x3xf32>, %i: tensor<2x4xi64>) {
  // expected-error@+1 {{expected 'tensor<2x4xf32>', found 'tensor<2x3xf32>'}}
  %y = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3xf32>, tensor<2x4xi64> -> tensor<2x3xf32>
  return
}

// -----

func.func @gather_elements_rank(%x: tensor<2x3xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{indices must have rank 2, found 1}}
  %y = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3xf32>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @gather_elements_larger(%x: tensor<2x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error@+1 {{dimension 0 of the indices must be at most 2, found 4}}
  %y = scrimp.gather_elements %x, %i {dim = 1} : tensor<2x3xf32>, tensor<4x3xi64> -> tensor<4x3xf32>
  return
}

// -----

func.func @scatter_elements_nothing(%u: tensor<2x3xf32>, %i: tensor<2x3xi64>) {
  // expected-error@+1 {{dimension 1 has no elements to choose from}}
  %y = scrimp.scatter_elements_add %u, %i {dim = 1} : tensor<2x3xf32>, tensor<2x3xi64> -> tensor<2x0xf32>
  return
}

// -----

func.func @gather_nd_batch(%x: tensor<2x3xf32>, %i: tensor<2x1xi64>) {
  // expected-error@+1 {{2 batch dimensions do not fit indices 'tensor<2x1xi64>' and 'tensor<2x3xf32>'}}
  %y = scrimp.gather_nd %x, %i {batch_dims = 2} : tensor<2x3xf32>, tensor<2x1xi64> -> tensor<2xf32>
  return
}

// -----

func.func @gather_nd_tuple(%x: tensor<2x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error@+1 {{tuples of 3 indices do not fit 2 dimensions}}
  %y = scrimp.gather_nd %x, %i : tensor<2x3xf32>, tensor<4x3xi64> -> tensor<4xf32>
  return
}

// -----

func.func @gather_nd_batch_size(%x: tensor<2x3xf32>, %i: tensor<3x1xi64>) {
  // expected-error@+1 {{the batch dimensions of indices 'tensor<3x1xi64>' and 'tensor<2x3xf32>' differ}}
  %y = scrimp.gather_nd %x, %i {batch_dims = 1} : tensor<2x3xf32>, tensor<3x1xi64> -> tensor<3xf32>
  return
}

// -----

func.func @gather_nd_result(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>) {
  // expected-error@+1 {{expected 'tensor<4x3xf32>', found 'tensor<4xf32>'}}
  %y = scrimp.gather_nd %x, %i : tensor<2x3xf32>, tensor<4x1xi64> -> tensor<4xf32>
  return
}

// -----

func.func @gather_nd_nothing(%x: tensor<0x3xf32>, %i: tensor<4x1xi64>) {
  // expected-error@+1 {{'tensor<0x3xf32>' has no elements to choose from}}
  %y = scrimp.gather_nd %x, %i : tensor<0x3xf32>, tensor<4x1xi64> -> tensor<4x3xf32>
  return
}

// -----

func.func @scatter_nd_updates(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x2xf32>) {
  // expected-error@+1 {{expected 'tensor<4x3xf32>', found 'tensor<4x2xf32>'}}
  %y = scrimp.scatter_nd none, %x, %i, %u : tensor<2x3xf32>, tensor<4x1xi64>, tensor<4x2xf32>
  return
}

// -----

func.func @scatter_nd_narrow_sums(%x: tensor<2x3xbf16>, %i: tensor<4x1xi64>, %u: tensor<4x3xbf16>) {
  // expected-error@+1 {{adds f32, f64 or integers, found 'bf16'}}
  %y = scrimp.scatter_nd add, %x, %i, %u : tensor<2x3xbf16>, tensor<4x1xi64>, tensor<4x3xbf16>
  return
}

// -----

func.func @cumsum_dim(%x: tensor<f32>) {
  // expected-error@+1 {{dim 0 is not in [0, 0)}}
  %y = scrimp.cumsum %x {dim = 0} : tensor<f32>
  return
}

// -----

func.func @arg_max_result(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected a result of shape [2], found 'tensor<3xi64>'}}
  %y = scrimp.arg_max %x {dim = 1} : tensor<2x3xf32> -> tensor<3xi64>
  return
}

// -----

func.func @arg_max_nothing(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{dimension 1 has no elements to choose from}}
  %y = scrimp.arg_max %x {dim = 1} : tensor<2x0xf32> -> tensor<2xi64>
  return
}

// -----

func.func @top_k_too_many(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{cannot choose 4 of 3 elements}}
  %v, %i = scrimp.top_k %x {dim = 1} : tensor<2x3xf32> -> tensor<2x4xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @top_k_values(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{values must differ from 'tensor<2x3xf32>' in dimension 1 alone, found 'tensor<1x2xf32>'}}
  %v, %i = scrimp.top_k %x {dim = 1} : tensor<2x3xf32> -> tensor<1x2xf32>, tensor<1x2xi64>
  return
}

// -----

func.func @top_k_indices(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{indices must have the values' shape}}
  %v, %i = scrimp.top_k %x {dim = 1} : tensor<2x3xf32> -> tensor<2x2xf32>, tensor<2x1xi64>
  return
}
