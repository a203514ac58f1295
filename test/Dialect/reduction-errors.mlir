// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @out_of_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims must be increasing and lie in [0, 2), found 2}}
  %y = scrimp.reduce sum, %x [2] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @repeated(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims must be increasing and lie in [0, 2), found 1}}
  %y = scrimp.reduce sum, %x [1, 1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @negative(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims must be increasing and lie in [0, 2), found -1}}
  %y = scrimp.reduce sum, %x [-1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @kept_dimension(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{result type must be 'tensor<2xf32>', found 'tensor<2x1xf32>'}}
  %y = scrimp.reduce max, %x [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  return
}

// -----

func.func @another_type(%x: tensor<2x3xbf16>) {
  // expected-error@+1 {{result type must be 'tensor<2xbf16>', found 'tensor<2xf64>'}}
  %y = scrimp.reduce sum, %x [1] : tensor<2x3xbf16> -> tensor<2xf64>
  return
}
