// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @iota_dim() {
  // expected-error@+1 {{dim 1 is not below the rank 1}}
  %y = scrimp.iota {dim = 1 : i64} : tensor<3xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor}}
  %y = scrimp.exp %x : tensor<?xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<2xf32>) {
  // expected-error@+1 {{'tensor<2xf32>' does not broadcast to 'tensor<3xf32>'}}
  %y = scrimp.broadcast %x : tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @broadcast_rank(%x: tensor<1x3xf32>) {
  // expected-error@+1 {{'tensor<1x3xf32>' does not broadcast to 'tensor<3xf32>'}}
  %y = scrimp.broadcast %x : tensor<1x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @broadcast_type(%x: tensor<1xf32>) {
  // expected-error@+1 {{'tensor<1xf32>' does not broadcast to 'tensor<3xf64>'}}
  %y = scrimp.broadcast %x : tensor<1xf32> -> tensor<3xf64>
  return
}

// -----

func.func @reshape_size(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'tensor<2x3xf32>' cannot be seen as 'tensor<5xf32>'}}
  %y = scrimp.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  return
}

// -----

func.func @reshape_type(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'tensor<2x3xf32>' cannot be seen as 'tensor<6xi32>'}}
  %y = scrimp.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  return
}

// -----

func.func @transpose_twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{not a permutation: [1, 1]}}
  %y = scrimp.transpose %x [1, 1] : tensor<2x3xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @transpose_rank(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{the permutation has 3 entries for rank 2}}
  %y = scrimp.transpose %x [1, 0, 2] : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @transpose_result(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{result dimension 0 must be 3, found 2}}
  %y = scrimp.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_rank(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operand, result, starts and strides must have one rank}}
  %y = scrimp.slice %x [0] [1] : tensor<4x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_stride(%x: tensor<4xf32>) {
  // expected-error@+1 {{stride of dimension 0 is 0}}
  %y = scrimp.slice %x [0] [0] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @slice_end(%x: tensor<4xf32>) {
  // expected-error@+1 {{dimension 0 runs from 1 to 5, outside [0, 4)}}
  %y = scrimp.slice %x [1] [2] : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @slice_backwards(%x: tensor<4xf32>) {
  // expected-error@+1 {{dimension 0 runs from 1 to -1, outside [0, 4)}}
  %y = scrimp.slice %x [1] [-1] : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @pad_type(%x: tensor<2xf32>) {
  // expected-error@+1 {{element types differ}}
  %y = scrimp.pad %x [1] [1] : tensor<2xf32> -> tensor<4xf64>
  return
}

// -----

func.func @pad_end(%x: tensor<3xf32>) {
  // expected-error@+1 {{dimension 0 runs from 2 to 4, outside [0, 4)}}
  %y = scrimp.pad %x [2] [1] : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @concat_dim(%x: tensor<2xf32>) {
  // expected-error@+1 {{needs an operand and a dimension below the rank 1, found 1}}
  %y = scrimp.concat %x, %x {dim = 1} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @concat_rank(%x: tensor<2xf32>, %z: tensor<2x1xf32>) {
  // expected-error@+1 {{operands must have rank 1}}
  %y = scrimp.concat %x, %z {dim = 0} : tensor<2xf32>, tensor<2x1xf32> -> tensor<4xf32>
  return
}

// -----

func.func @concat_other_dimension(%x: tensor<2x3xf32>, %z: tensor<2x4xf32>) {
  // expected-error@+1 {{'tensor<2x4xf32>' does not fit into 'tensor<4x3xf32>' along dimension 0}}
  %y = scrimp.concat %x, %z {dim = 0} : tensor<2x3xf32>, tensor<2x4xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @concat_sum(%x: tensor<2xf32>) {
  // expected-error@+1 {{operands add up to 4 along dimension 0, the result has 5}}
  %y = scrimp.concat %x, %x {dim = 0} : tensor<2xf32>, tensor<2xf32> -> tensor<5xf32>
  return
}

// -----

func.func @gather_dim(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{dim 2 is not in [0, 2)}}
  %y = scrimp.gather %x, %i {dim = 2} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  return
}

// -----

func.func @gather_padding(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{padding 2 is not in [0, 2)}}
  %y = scrimp.gather %x, %i {dim = 0, padding = 2} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  return
}

// -----

func.func @gather_result(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expected 'tensor<4x3xf32>', found 'tensor<2x4xf32>'}}
  %y = scrimp.gather %x, %i {dim = 0} : tensor<2x3xf32>, tensor<4xi64> -> tensor<2x4xf32>
  return
}

// -----

func.func @scatter_add_updates(%u: tensor<4x2xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expected 'tensor<4x3xf32>', found 'tensor<4x2xf32>'}}
  %y = scrimp.scatter_add %u, %i {dim = 0} : tensor<4x2xf32>, tensor<4xi64> -> tensor<2x3xf32>
  return
}

// -----

func.func @scatter_add_narrow(%u: tensor<4x3xbf16>, %i: tensor<4xi64>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 32-bit float or 64-bit float values, but got 'tensor<4x3xbf16>'}}
  %y = scrimp.scatter_add %u, %i {dim = 0} : tensor<4x3xbf16>, tensor<4xi64> -> tensor<2x3xbf16>
  return
}
