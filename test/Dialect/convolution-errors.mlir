// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @rank(%x: tensor<2x3x4xf32>, %w: tensor<5x3x2xf32>) {
  // expected-error@+1 {{images and weights must have rank 4 and one element type, or the result that of sums, found 'tensor<2x3x4xf32>'}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<2x3x4xf32>, tensor<5x3x2xf32> -> tensor<2x5x3xf32>
  return
}

// -----

func.func @element_types(%x: tensor<1x3x4x4xf32>, %w: tensor<5x3x2x2xf64>) {
  // expected-error@+1 {{images and weights must have rank 4 and one element type, or the result that of sums, found 'tensor<5x3x2x2xf64>'}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<5x3x2x2xf64> -> tensor<1x5x3x3xf32>
  return
}

// -----

func.func @attribute_sizes(%x: tensor<1x3x4x4xf32>, %w: tensor<5x3x2x2xf32>) {
  // expected-error@+1 {{needs 2 strides, 4 pads and 2 dilations, found 1, 2 and 2}}
  %y = scrimp.conv2d %x, %w strides [1] pads [0, 0] dilations [1, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<5x3x2x2xf32> -> tensor<1x5x3x3xf32>
  return
}

// -----

func.func @stride_zero(%x: tensor<1x3x4x4xf32>, %w: tensor<5x3x2x2xf32>) {
  // expected-error@+1 {{strides and dilations must be positive and pads not negative}}
  %y = scrimp.conv2d %x, %w strides [0, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<5x3x2x2xf32> -> tensor<1x5x3x3xf32>
  return
}

// -----

func.func @groups(%x: tensor<1x4x4x4xf32>, %w: tensor<5x2x2x2xf32>) {
  // expected-error@+1 {{2 groups do not divide 4 channels and 5 filters}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 2
    : tensor<1x4x4x4xf32>, tensor<5x2x2x2xf32> -> tensor<1x5x3x3xf32>
  return
}

// -----

func.func @channels(%x: tensor<1x4x4x4xf32>, %w: tensor<6x4x2x2xf32>) {
  // expected-error@+1 {{weights must have 2 input channels, found 4}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 2
    : tensor<1x4x4x4xf32>, tensor<6x4x2x2xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @window_too_large(%x: tensor<1x3x4x4xf32>, %w: tensor<5x3x3x3xf32>) {
  // expected-error@+1 {{a window of 7 x 3 does not fit into the padded image of 6 x 4}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [1, 0, 1, 0] dilations [3, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<5x3x3x3xf32> -> tensor<1x5x1x2xf32>
  return
}

// -----

func.func @result(%x: tensor<1x3x4x4xf32>, %w: tensor<5x3x2x2xf32>) {
  // expected-error@+1 {{the convolution's result must be 'tensor<1x5x3x3xf32>', found 'tensor<1x5x4x4xf32>'}}
  %y = scrimp.conv2d %x, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<5x3x2x2xf32> -> tensor<1x5x4x4xf32>
  return
}

// -----

func.func @input_grad(%g: tensor<1x5x3x3xf32>, %w: tensor<5x3x2x2xf32>) {
  // expected-error@+1 {{the convolution's result must be 'tensor<1x5x4x4xf32>', found 'tensor<1x5x3x3xf32>'}}
  %y = scrimp.conv2d_input_grad %g, %w strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x5x3x3xf32>, tensor<5x3x2x2xf32> -> tensor<1x3x5x5xf32>
  return
}

// -----

func.func @weight_grad(%x: tensor<1x3x4x4xf32>, %g: tensor<1x5x3x3xf32>) {
  // expected-error@+1 {{weights must have 3 input channels, found 2}}
  %y = scrimp.conv2d_weight_grad %x, %g strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1
    : tensor<1x3x4x4xf32>, tensor<1x5x3x3xf32> -> tensor<5x2x2x2xf32>
  return
}

// -----

func.func @pool_shapes(%x: tensor<1x3x4x4xf32>) {
  // expected-error@+1 {{images must have rank 4, one element type, and the same N and C, found 'tensor<1x3x4x4xf32>' and 'tensor<1x2x2x2xf32>'}}
  %y, %i = scrimp.max_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
    : tensor<1x3x4x4xf32> -> tensor<1x2x2x2xf32>, tensor<1x2x2x2xi32>
  return
}

// -----

func.func @pool_indices(%x: tensor<1x3x4x4xf32>) {
  // expected-error@+1 {{indices must have the result's shape}}
  %y, %i = scrimp.max_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
    : tensor<1x3x4x4xf32> -> tensor<1x3x2x2xf32>, tensor<1x3x4xi32>
  return
}

// -----

func.func @pool_attributes(%x: tensor<1x3x4x4xf32>) {
  // expected-error@+1 {{needs 2 kernel sizes, strides and dilations, and 4 pads}}
  %y = scrimp.avg_pool2d %x kernel [2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
    : tensor<1x3x4x4xf32> -> tensor<1x3x2x2xf32>
  return
}

// -----

func.func @pool_kernel_zero(%x: tensor<1x3x4x4xf32>) {
  // expected-error@+1 {{kernel sizes, strides and dilations must be positive and pads not negative}}
  %y = scrimp.avg_pool2d %x kernel [2, 0] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
    : tensor<1x3x4x4xf32> -> tensor<1x3x2x2xf32>
  return
}

// -----

// (5 - 2) / 2 + 1 is 2 rounded down and 3 rounded up.
func.func @pool_result(%x: tensor<1x3x5x4xf32>) {
  // expected-error@+1 {{result dimension 2 must be 2, or 3 rounded up, found 4}}
  %y = scrimp.avg_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1]
    : tensor<1x3x5x4xf32> -> tensor<1x3x4x2xf32>
  return
}

// -----

func.func @pool_only_padding(%x: tensor<1x3x4x4xf32>) {
  // expected-error@+1 {{window 0 of dimension 3 holds nothing but padding}}
  %y = scrimp.avg_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 2, 0, 0] dilations [1, 1]
    : tensor<1x3x4x4xf32> -> tensor<1x3x2x3xf32>
  return
}

// -----

func.func @max_pool_grad_indices(%g: tensor<1x3x2x2xf32>, %i: tensor<1x3x2x1xi32>) {
  // expected-error@+1 {{indices must have the gradient's shape}}
  %dx = scrimp.max_pool2d_grad %g, %i kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x3x2x2xf32>, tensor<1x3x2x1xi32> -> tensor<1x3x4x4xf32>
  return
}

// -----

func.func @max_pool_grad_shapes(%g: tensor<1x3x2x2xf32>, %i: tensor<1x3x2x2xi32>) {
  // expected-error@+1 {{images must have rank 4, one element type, and the same N and C, found 'tensor<1x4x4x4xf32>' and 'tensor<1x3x2x2xf32>'}}
  %dx = scrimp.max_pool2d_grad %g, %i kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x3x2x2xf32>, tensor<1x3x2x2xi32> -> tensor<1x4x4x4xf32>
  return
}

// -----

func.func @batch_norm_rank(%x: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error@+1 {{needs [N, C, ...], found 'tensor<4xf32>'}}
  %y, %m, %r, %var = scrimp.batch_norm %x, %v, %v, %v, %v {epsilon = 1.0e-5}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// The statistics of bf16 images are f32.
func.func @batch_norm_vectors(%x: tensor<4x2xbf16>, %v: tensor<2xf32>, %w: tensor<2xf64>) {
  // expected-error@+1 {{vectors must be 'tensor<2xf32>', found 'tensor<2xf64>'}}
  %y, %m, %r, %var = scrimp.batch_norm %x, %v, %w, %v, %v {epsilon = 1.0e-5}
    : (tensor<4x2xbf16>, tensor<2xf32>, tensor<2xf64>, tensor<2xf32>, tensor<2xf32>)
    -> (tensor<4x2xbf16>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @batch_norm_one_value(%x: tensor<1x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{needs more than one value per channel in training, found 'tensor<1x2xf32>'}}
  %y, %m, %r, %var = scrimp.batch_norm %x, %v, %v, %v, %v {epsilon = 1.0e-5}
    : (tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    -> (tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @batch_norm_result(%x: tensor<4x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{result type must be 'tensor<4x2xf32>', found 'tensor<4x3xf32>'}}
  %y, %m, %r, %var = scrimp.batch_norm %x, %v, %v, %v, %v {epsilon = 1.0e-5}
    : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    -> (tensor<4x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @batch_norm_grad(%g: tensor<4x3xf32>, %x: tensor<4x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{gradients of images must be 'tensor<4x2xf32>', found 'tensor<4x3xf32>'}}
  %dx, %ds, %db = scrimp.batch_norm_grad %g, %x, %v, %v, %v
    : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @columns(%x: tensor<1x4x3x3xf32>) {
  // expected-error@+1 {{columns must be [2, 8, 4], found 'tensor<1x16x4xf32>'}}
  %y = scrimp.im2col %x kernel [2, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 2 : tensor<1x4x3x3xf32> -> tensor<1x16x4xf32>
  return
}

// -----

func.func @columns_groups(%x: tensor<1x4x3x3xf32>) {
  // expected-error@+1 {{needs images of rank 4 whose channels the groups divide, 2 kernel sizes, strides and dilations, and 4 pads, found 'tensor<1x4x3x3xf32>'}}
  %y = scrimp.im2col %x kernel [2, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 3 : tensor<1x4x3x3xf32> -> tensor<3x4x4xf32>
  return
}

// -----

func.func @columns_type(%x: tensor<1x4x3x3xbf16>) {
  // expected-error@+1 {{moves elements, found 'tensor<1x4x3x3xbf16>' and 'tensor<1x16x4xf32>'}}
  %y = scrimp.im2col %x kernel [2, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<1x4x3x3xbf16> -> tensor<1x16x4xf32>
  return
}
