// Every op of the dialect is printed as it is read, in its custom form, and survives bytecode and the generic form.
// RUN: scrimp-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %i: tensor<4xi32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.add %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %add = scrimp.add %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sub %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %sub = scrimp.sub %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.mul %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %mul = scrimp.mul %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.div %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %div = scrimp.div %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.maximum %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %maximum = scrimp.maximum %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.minimum %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %minimum = scrimp.minimum %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.remainder %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %remainder = scrimp.remainder %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.pow %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %pow = scrimp.pow %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.and %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<4xi32>
  %and = scrimp.and %i, %i : tensor<4xi32>
  // CHECK-NEXT: %{{.*}} = scrimp.or %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<4xi32>
  %or = scrimp.or %i, %i : tensor<4xi32>
  // CHECK-NEXT: %{{.*}} = scrimp.xor %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<4xi32>
  %xor = scrimp.xor %i, %i : tensor<4xi32>
  // CHECK-NEXT: %{{.*}} = scrimp.neg %{{[^ ,():]+}} : tensor<2x3xf32>
  %neg = scrimp.neg %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.abs %{{[^ ,():]+}} : tensor<2x3xf32>
  %abs = scrimp.abs %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sign %{{[^ ,():]+}} : tensor<2x3xf32>
  %sign = scrimp.sign %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.exp %{{[^ ,():]+}} : tensor<2x3xf32>
  %exp = scrimp.exp %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.log %{{[^ ,():]+}} : tensor<2x3xf32>
  %log = scrimp.log %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.expm1 %{{[^ ,():]+}} : tensor<2x3xf32>
  %expm1 = scrimp.expm1 %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.log1p %{{[^ ,():]+}} : tensor<2x3xf32>
  %log1p = scrimp.log1p %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sqrt %{{[^ ,():]+}} : tensor<2x3xf32>
  %sqrt = scrimp.sqrt %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.rsqrt %{{[^ ,():]+}} : tensor<2x3xf32>
  %rsqrt = scrimp.rsqrt %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sin %{{[^ ,():]+}} : tensor<2x3xf32>
  %sin = scrimp.sin %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.cos %{{[^ ,():]+}} : tensor<2x3xf32>
  %cos = scrimp.cos %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.erf %{{[^ ,():]+}} : tensor<2x3xf32>
  %erf = scrimp.erf %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.floor %{{[^ ,():]+}} : tensor<2x3xf32>
  %floor = scrimp.floor %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.ceil %{{[^ ,():]+}} : tensor<2x3xf32>
  %ceil = scrimp.ceil %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.round %{{[^ ,():]+}} : tensor<2x3xf32>
  %round = scrimp.round %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.tanh %{{[^ ,():]+}} : tensor<2x3xf32>
  %tanh = scrimp.tanh %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sigmoid %{{[^ ,():]+}} : tensor<2x3xf32>
  %sigmoid = scrimp.sigmoid %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.relu %{{[^ ,():]+}} : tensor<2x3xf32>
  %relu = scrimp.relu %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.silu %{{[^ ,():]+}} : tensor<2x3xf32>
  %silu = scrimp.silu %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gelu %{{[^ ,():]+}} : tensor<2x3xf32>
  %gelu = scrimp.gelu %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gelu_tanh %{{[^ ,():]+}} : tensor<2x3xf32>
  %gelu_tanh = scrimp.gelu_tanh %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gelu_tanh_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %gelu_tanh_grad = scrimp.gelu_tanh_grad %x, %gelu_tanh : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.softplus %{{[^ ,():]+}} : tensor<2x3xf32>
  %softplus = scrimp.softplus %x : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.compare le, %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32> -> tensor<2x3xi1>
  %compare = scrimp.compare le, %x, %y : tensor<2x3xf32> -> tensor<2x3xi1>
  // CHECK-NEXT: %{{.*}} = scrimp.select %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>
  %select = scrimp.select %compare, %x, %y : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.cast %{{[^ ,():]+}} : tensor<2x3xf32> -> tensor<2x3xbf16>
  %cast = scrimp.cast %x : tensor<2x3xf32> -> tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.clip %{{[^ ,():]+}} {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64} : tensor<2x3xf32>
  %clip = scrimp.clip %x {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64} : tensor<2x3xf32>
  // CHECK-NEXT: scrimp.clip %{{[^ ,():]+}} {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64, straight_through} : tensor<2x3xf32>
  %straight = scrimp.clip %x {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64, straight_through} : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.leaky_relu %{{[^ ,():]+}} {alpha = 1.000000e-01 : f64} : tensor<2x3xf32>
  %leaky_relu = scrimp.leaky_relu %x {alpha = 1.000000e-01 : f64} : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.elu %{{[^ ,():]+}} {alpha = 1.000000e+00 : f64} : tensor<2x3xf32>
  %elu = scrimp.elu %x {alpha = 1.000000e+00 : f64} : tensor<2x3xf32>
  return
}

// CHECK-LABEL: @shape
func.func @shape(%x: tensor<2x3xf32>, %n: tensor<4xi64>, %u: tensor<4x3xf32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.constant dense<[1, 2]> : tensor<2xi8>
  %constant = scrimp.constant dense<[1, 2]> : tensor<2xi8>
  // CHECK-NEXT: %{{.*}} = scrimp.constant dense<5.000000e-01> : tensor<f16>
  %half = scrimp.constant dense<5.000000e-01> : tensor<f16>
  // CHECK-NEXT: %{{.*}} = scrimp.iota {dim = 1 : i64, start = 2.000000e+00 : f64} : tensor<2x3xi64>
  %iota = scrimp.iota {dim = 1 : i64, start = 2.000000e+00 : f64} : tensor<2x3xi64>
  // CHECK-NEXT: %{{.*}} = scrimp.broadcast %{{[^ ,():]+}} : tensor<2x3xf32> -> tensor<5x2x3xf32>
  %broadcast = scrimp.broadcast %x : tensor<2x3xf32> -> tensor<5x2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.reshape %{{[^ ,():]+}} : tensor<2x3xf32> -> tensor<3x2x1xf32>
  %reshape = scrimp.reshape %x : tensor<2x3xf32> -> tensor<3x2x1xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.transpose %{{[^ ,():]+}} [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %transpose = scrimp.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.slice %{{[^ ,():]+}} [1, 2] [1, -2] : tensor<2x3xf32> -> tensor<1x2xf32>
  %slice = scrimp.slice %x [1, 2] [1, -2] : tensor<2x3xf32> -> tensor<1x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.pad %{{[^ ,():]+}} [0, 1] [2, 1] {value = 1.000000e+00 : f64} : tensor<2x3xf32> -> tensor<3x5xf32>
  %pad = scrimp.pad %x [0, 1] [2, 1] {value = 1.000000e+00 : f64} : tensor<2x3xf32> -> tensor<3x5xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.concat %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 0 : i64} : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<6x3xf32>
  %concat = scrimp.concat %x, %u {dim = 0 : i64} : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<6x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gather %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 0 : i64} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  %gather = scrimp.gather %x, %n {dim = 0 : i64} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gather %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 0 : i64, padding = 1 : i64} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  %padded = scrimp.gather %x, %n {dim = 0 : i64, padding = 1 : i64} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.scatter_add %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 0 : i64} : tensor<4x3xf32>, tensor<4xi64> -> tensor<2x3xf32>
  %scatter_add = scrimp.scatter_add %u, %n {dim = 0 : i64} : tensor<4x3xf32>, tensor<4xi64> -> tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.scatter_add %{{[^ ,():]+}}, %{{[^ ,():]+}} onto(%{{[^ ,():]+}} : tensor<2x3xf32>) {dim = 0 : i64} : tensor<4x3xf32>, tensor<4xi64> -> tensor<2x3xf32>
  %scatter_onto = scrimp.scatter_add %u, %n onto(%scatter_add : tensor<2x3xf32>) {dim = 0 : i64} : tensor<4x3xf32>, tensor<4xi64> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: @reduction
func.func @reduction(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.reduce sum, %{{[^ ,():]+}} [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %sum = scrimp.reduce sum, %x [0, 1] : tensor<2x3xf32> -> tensor<f32>
  // CHECK-NEXT: %{{.*}} = scrimp.reduce max, %{{[^ ,():]+}} [1] : tensor<2x3xf32> -> tensor<2xf32>
  %max = scrimp.reduce max, %x [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.reduce min, %{{[^ ,():]+}} [0] : tensor<2x3xf32> -> tensor<3xf32>
  %min = scrimp.reduce min, %x [0] : tensor<2x3xf32> -> tensor<3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.reduce prod, %{{[^ ,():]+}} [1] : tensor<2x3xf32> -> tensor<2xf32>
  %prod = scrimp.reduce prod, %x [1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// CHECK-LABEL: @contraction
func.func @contraction(%a: tensor<2x4x3xf32>, %b: tensor<2x5x4xf32>, %p: tensor<2x3xf32>, %q: tensor<8x3xf32>, %r: tensor<8xf32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.matmul %{{[^ ,():]+}}, %{{[^ ,():]+}} {transpose_a, transpose_b} : tensor<2x4x3xf32>, tensor<2x5x4xf32> -> tensor<2x3x5xf32>
  %matmul = scrimp.matmul %a, %b {transpose_a, transpose_b} : tensor<2x4x3xf32>, tensor<2x5x4xf32> -> tensor<2x3x5xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.matmul %{{[^ ,():]+}}, %{{[^ ,():]+}} onto(%{{[^ ,():]+}} : tensor<2x3x5xf32>) {transpose_a, transpose_b} : tensor<2x4x3xf32>, tensor<2x5x4xf32> -> tensor<2x3x5xf32>
  %onto = scrimp.matmul %a, %b onto(%matmul : tensor<2x3x5xf32>) {transpose_a, transpose_b} : tensor<2x4x3xf32>, tensor<2x5x4xf32> -> tensor<2x3x5xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.linear %{{[^ ,():]+}}, %{{[^ ,():]+}} {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  %linear = scrimp.linear %p, %q {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.linear %{{[^ ,():]+}}, %{{[^ ,():]+}} plus(%{{[^ ,():]+}} : tensor<2x8xf32>) bias(%{{[^ ,():]+}} : tensor<8xf32>) relu {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  %biased = scrimp.linear %p, %q plus(%linear : tensor<2x8xf32>) bias(%r : tensor<8xf32>) relu {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.linear %{{[^ ,():]+}}, %{{[^ ,():]+}} gelu {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>, tensor<2x8xf32>
  %gelu:2 = scrimp.linear %p, %q gelu {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>, tensor<2x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.linear %{{[^ ,():]+}}, %{{[^ ,():]+}} gelu_grad at(%{{[^ ,():]+}} : tensor<2x8xf32>) {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  %grad = scrimp.linear %p, %q gelu_grad at(%linear : tensor<2x8xf32>) {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.linear %{{[^ ,():]+}}, %{{[^ ,():]+}} onto(%{{[^ ,():]+}} : tensor<2x8xf32>) sums b {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>, tensor<8xf32>
  %sums:2 = scrimp.linear %p, %q onto(%linear : tensor<2x8xf32>) sums b {transpose_b} : tensor<2x3xf32>, tensor<8x3xf32> -> tensor<2x8xf32>, tensor<8xf32>
  return
}

// CHECK-LABEL: @convolution
func.func @convolution(%x: tensor<2x4x4x4xf32>, %w: tensor<6x2x2x3xf32>, %v: tensor<4xf32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.conv2d %{{[^ ,():]+}}, %{{[^ ,():]+}} strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32>, tensor<6x2x2x3xf32> -> tensor<2x6x3x2xf32>
  %conv2d = scrimp.conv2d %x, %w strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32>, tensor<6x2x2x3xf32> -> tensor<2x6x3x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.conv2d_input_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x6x3x2xf32>, tensor<6x2x2x3xf32> -> tensor<2x4x4x4xf32>
  %conv2d_input_grad = scrimp.conv2d_input_grad %conv2d, %w strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x6x3x2xf32>, tensor<6x2x2x3xf32> -> tensor<2x4x4x4xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.conv2d_weight_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32>, tensor<2x6x3x2xf32> -> tensor<6x2x2x3xf32>
  %conv2d_weight_grad = scrimp.conv2d_weight_grad %x, %conv2d strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32>, tensor<2x6x3x2xf32> -> tensor<6x2x2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.im2col %{{[^ ,():]+}} kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32> -> tensor<2x12x12xf32>
  %im2col = scrimp.im2col %x kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x4x4x4xf32> -> tensor<2x12x12xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.col2im %{{[^ ,():]+}} kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x12x12xf32> -> tensor<2x4x4x4xf32>
  %col2im = scrimp.col2im %im2col kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2 : tensor<2x12x12xf32> -> tensor<2x4x4x4xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.max_pool2d %{{[^ ,():]+}} kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<2x4x4x4xf32> -> tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32>
  %max_pool2d, %indices = scrimp.max_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<2x4x4x4xf32> -> tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32>
  // CHECK-NEXT: %{{.*}} = scrimp.max_pool2d_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32> -> tensor<2x4x4x4xf32>
  %max_pool2d_grad = scrimp.max_pool2d_grad %max_pool2d, %indices kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32> -> tensor<2x4x4x4xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.avg_pool2d %{{[^ ,():]+}} kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<2x4x4x4xf32> -> tensor<2x4x2x2xf32>
  %avg_pool2d = scrimp.avg_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<2x4x4x4xf32> -> tensor<2x4x2x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.avg_pool2d_grad %{{[^ ,():]+}} kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<2x4x2x2xf32> -> tensor<2x4x4x4xf32>
  %avg_pool2d_grad = scrimp.avg_pool2d_grad %avg_pool2d kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<2x4x2x2xf32> -> tensor<2x4x4x4xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.batch_norm %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {epsilon = 1.000000e-05 : f64} : (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %y, %mean, %rstd, %var = scrimp.batch_norm %x, %v, %v, %v, %v {epsilon = 1.000000e-05 : f64} : (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK-NEXT: %{{.*}} = scrimp.batch_norm_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %dx, %dscale, %dbias = scrimp.batch_norm_grad %y, %x, %v, %mean, %rstd : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: @indexing
func.func @indexing(%x: tensor<2x3xf32>, %i: tensor<2x4xi64>, %n: tensor<5x1xi32>) {
  // CHECK-NEXT: %{{.*}} = scrimp.gather_elements %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 1 : i64} : tensor<2x3xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
  %gather_elements = scrimp.gather_elements %x, %i {dim = 1 : i64} : tensor<2x3xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.scatter_elements_add %{{[^ ,():]+}}, %{{[^ ,():]+}} {dim = 1 : i64} : tensor<2x4xf32>, tensor<2x4xi64> -> tensor<2x3xf32>
  %scatter_elements_add = scrimp.scatter_elements_add %gather_elements, %i {dim = 1 : i64} : tensor<2x4xf32>, tensor<2x4xi64> -> tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.gather_nd %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>, tensor<5x1xi32> -> tensor<5x3xf32>
  %gather_nd = scrimp.gather_nd %x, %n : tensor<2x3xf32>, tensor<5x1xi32> -> tensor<5x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.scatter_nd add, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>
  %scatter_nd = scrimp.scatter_nd add, %x, %n, %gather_nd : tensor<2x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.cumsum %{{[^ ,():]+}} {dim = 0 : i64, exclusive, reverse} : tensor<2x3xf32>
  %cumsum = scrimp.cumsum %x {dim = 0 : i64, exclusive, reverse} : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.arg_max %{{[^ ,():]+}} {dim = 1 : i64, last} : tensor<2x3xf32> -> tensor<2xi64>
  %arg_max = scrimp.arg_max %x {dim = 1 : i64, last} : tensor<2x3xf32> -> tensor<2xi64>
  // CHECK-NEXT: %{{.*}} = scrimp.top_k %{{[^ ,():]+}} {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2x2xf32>, tensor<2x2xi64>
  %values, %at = scrimp.top_k %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2x2xf32>, tensor<2x2xi64>
  return
}

// CHECK-LABEL: @neural
func.func @neural(%x: tensor<2x3xbf16>, %v: tensor<3xbf16>, %l: tensor<2xi64>, %q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %mask: tensor<1x1x8x8xi1>, %distances: tensor<4x15xf32>, %ids: tensor<2x8xi64>, %s: tensor<i64>, %o: tensor<3xi64>) {
  // CHECK-NEXT: %{{.*}} = scrimp.softmax %{{[^ ,():]+}} : tensor<2x3xbf16>
  %softmax = scrimp.softmax %x : tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.softmax_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xbf16>
  %softmax_grad = scrimp.softmax_grad %softmax, %x : tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.log_softmax %{{[^ ,():]+}} : tensor<2x3xbf16>
  %log_softmax = scrimp.log_softmax %x : tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.log_softmax_grad %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<2x3xbf16>
  %log_softmax_grad = scrimp.log_softmax_grad %log_softmax, %x : tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.log_sum_exp %{{[^ ,():]+}} : tensor<2x3xbf16> -> tensor<2xbf16>
  %log_sum_exp = scrimp.log_sum_exp %x : tensor<2x3xbf16> -> tensor<2xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.layer_norm %{{[^ ,():]+}} scale(%{{[^ ,():]+}} : tensor<3xbf16>) bias(%{{[^ ,():]+}} : tensor<3xbf16>) {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : tensor<2x3xbf16> -> tensor<2xf32>
  %layer_norm, %mean, %rstd = scrimp.layer_norm %x scale(%v : tensor<3xbf16>) bias(%v : tensor<3xbf16>) {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : tensor<2x3xbf16> -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.layer_norm_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32>
  %layer_norm_grad = scrimp.layer_norm_grad %x, %mean, %rstd, %layer_norm {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.rms_norm %{{[^ ,():]+}} {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : tensor<2x3xbf16> -> tensor<2xf32>
  %rms_norm, %scale = scrimp.rms_norm %x {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : tensor<2x3xbf16> -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.rms_norm_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} scale(%{{[^ ,():]+}} : tensor<3xbf16>) {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32>
  %rms_norm_grad = scrimp.rms_norm_grad %x, %scale, %rms_norm scale(%v : tensor<3xbf16>) {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.layer_norm_parameter_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<3xbf16>
  %dw, %db = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %layer_norm {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.layer_norm_parameter_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<2x3xf32>
  %dws, %dbs = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %layer_norm {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.rms_norm_parameter_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<3xbf16>
  %dscale = scrimp.rms_norm_parameter_grad %x, %scale, %rms_norm {axis = 1 : i64} : tensor<2x3xbf16>, tensor<2xf32> -> tensor<3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.cross_entropy %{{[^ ,():]+}}, %{{[^ ,():]+}} {ignore_index = -100 : i64} : tensor<2x3xbf16>, tensor<2xi64> -> tensor<2xf32>
  %loss, %lse = scrimp.cross_entropy %x, %l {ignore_index = -100 : i64} : tensor<2x3xbf16>, tensor<2xi64> -> tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.cross_entropy_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {ignore_index = -100 : i64} : tensor<2x3xbf16>, tensor<2xi64>, tensor<2xf32>
  %dlogits = scrimp.cross_entropy_grad %x, %l, %lse, %loss {ignore_index = -100 : i64} : tensor<2x3xbf16>, tensor<2xi64>, tensor<2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.attention %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} mask(%{{[^ ,():]+}} : tensor<1x1x8x8xi1>) segments(%{{[^ ,():]+}} : tensor<2x8xi64>) {causal, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %attention, %lses = scrimp.attention %q, %k, %k mask(%mask : tensor<1x1x8x8xi1>) segments(%ids : tensor<2x8xi64>) {causal, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.attention_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {causal, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = scrimp.attention_grad %q, %k, %k, %attention, %lses, %q {causal, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.attention_mask_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} mask(%{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<1x1x8x8xi1>, tensor<4x15xf32>) {index = 1 : i64, scale = 2.500000e-01 : f64, window = array<i64: 3, 0>} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32> -> tensor<4x15xf32>
  %dmask = scrimp.attention_mask_grad %q, %k, %k, %attention, %lses, %q mask(%mask, %distances : tensor<1x1x8x8xi1>, tensor<4x15xf32>) {index = 1 : i64, scale = 2.500000e-01 : f64, window = array<i64: 3, 0>} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32> -> tensor<4x15xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.dropout %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {batch_dim = 0 : i64, key = 7 : i64, p = 5.000000e-01 : f64, samples = 2 : i64} : tensor<2x3xbf16>
  %dropout = scrimp.dropout %x, %s, %s, %s {batch_dim = 0 : i64, key = 7 : i64, p = 5.000000e-01 : f64, samples = 2 : i64} : tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.random_uniform %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {batch_dim = -1 : i64, high = 1.000000e+00 : f64, key = 8 : i64, low = 0.000000e+00 : f64, samples = 1 : i64} : tensor<2x3xf32>
  %random_uniform = scrimp.random_uniform %s, %s, %s {batch_dim = -1 : i64, high = 1.000000e+00 : f64, key = 8 : i64, low = 0.000000e+00 : f64, samples = 1 : i64} : tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.stochastic_round %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} {batch_dim = -1 : i64, key = 10 : i64, samples = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xbf16>
  %stochastic_round = scrimp.stochastic_round %random_uniform, %s, %s, %s {batch_dim = -1 : i64, key = 10 : i64, samples = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xbf16>
  // CHECK-NEXT: %{{.*}} = scrimp.matmul %{{[^ ,():]+}}, %{{[^ ,():]+}} {transpose_b} : tensor<2x3xbf16>, tensor<2x3xbf16> -> tensor<2x2xf32>
  %wide_product = scrimp.matmul %x, %x {transpose_b} : tensor<2x3xbf16>, tensor<2x3xbf16> -> tensor<2x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.attention %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} dropout(%{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}) origin(%{{[^ ,():]+}} : tensor<3xi64>) {key = 9 : i64, p = 1.000000e-01 : f64, samples = 2 : i64, scale = 2.500000e-01 : f64, whole = array<i64: 8, 16, 16>} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %piece, %piece_lse = scrimp.attention %q, %k, %k dropout(%s, %s, %s) origin(%o : tensor<3xi64>) {key = 9 : i64, p = 1.000000e-01 : f64, samples = 2 : i64, scale = 2.500000e-01 : f64, whole = array<i64: 8, 16, 16>} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.attention_grad %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} dropout(%{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}) {key = 9 : i64, p = 1.000000e-01 : f64, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq1, %dk1, %dv1 = scrimp.attention_grad %q, %k, %k, %attention, %lses, %q dropout(%s, %s, %s) {key = 9 : i64, p = 1.000000e-01 : f64, scale = 2.500000e-01 : f64} : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.dropout %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}}, %{{[^ ,():]+}} origin(%{{[^ ,():]+}} : tensor<3xi64>) {batch_dim = -1 : i64, key = 7 : i64, p = 5.000000e-01 : f64, samples = 1 : i64, whole = array<i64: 9, 8, 8>} : tensor<2x4x8xf32>
  %dropout_piece = scrimp.dropout %lses, %s, %s, %s origin(%o : tensor<3xi64>) {batch_dim = -1 : i64, key = 7 : i64, p = 5.000000e-01 : f64, samples = 1 : i64, whole = array<i64: 9, 8, 8>} : tensor<2x4x8xf32>
  return
}

// CHECK-LABEL: @structure
func.func @structure(%b: tensor<16xf32>, %n: tensor<f64>) {
  // CHECK-NEXT: %{{.*}} = scrimp.check_finite %{{[^ ,():]+}} of "wte.weight" : tensor<f64>
  %check = scrimp.check_finite %n of "wte.weight" : tensor<f64>
  // CHECK-NEXT: %{{.*}} = scrimp.after %{{[^ ,():]+}}, %{{[^ ,():]+}} : tensor<f64>, tensor<16xf32>
  %after = scrimp.after %check, %b : tensor<f64>, tensor<16xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.view %{{[^ ,():]+}} at 4 : tensor<16xf32> -> tensor<2x3xf32>
  %view = scrimp.view %b at 4 : tensor<16xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.sum_squares %{{[^ ,():]+}} : tensor<16xf32> -> tensor<1xf64>
  %sum_squares = scrimp.sum_squares %b : tensor<16xf32> -> tensor<1xf64>
  // CHECK-NEXT: %{{.*}} = scrimp.pack %{{[^ ,():]+}} into %{{[^ ,():]+}} at 4 : tensor<2x3xf32>, tensor<16xf32>
  %pack = scrimp.pack %view into %b at 4 : tensor<2x3xf32>, tensor<16xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.kernel(%{{[^ ,():]+}}) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  %kernel = scrimp.kernel(%view) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: ^bb0(%{{[^ ,():]+}}: tensor<2x3xf32>):
  ^bb0(%a: tensor<2x3xf32>):
  // CHECK-NEXT: %{{.*}} = scrimp.exp %{{[^ ,():]+}} : tensor<2x3xf32>
    %e = scrimp.exp %a : tensor<2x3xf32>
  // CHECK-NEXT: scrimp.yield %{{[^ ,():]+}} : tensor<2x3xf32>
    scrimp.yield %e : tensor<2x3xf32>
  // CHECK-NEXT: }
  }
  return
}

// CHECK-LABEL: @ranks
func.func @ranks(%x: tensor<6x2xf32>, %rank: tensor<i64>) {
  // CHECK-NEXT: %{{.*}} = scrimp.all_reduce sum, %{{[^ ,():]+}} world 3 wire bf16 per_step : tensor<6x2xf32>
  %all_reduce = scrimp.all_reduce sum, %x world 3 wire bf16 per_step : tensor<6x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.reduce_scatter %{{[^ ,():]+}} world 3 wire f16 : tensor<6x2xf32> -> tensor<2x2xf32>
  %reduce_scatter = scrimp.reduce_scatter %x world 3 wire f16 : tensor<6x2xf32> -> tensor<2x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.all_gather %{{[^ ,():]+}} world 3 : tensor<6x2xf32> -> tensor<18x2xf32>
  %all_gather = scrimp.all_gather %x world 3 : tensor<6x2xf32> -> tensor<18x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.collective_broadcast %{{[^ ,():]+}} root 2 world 3 : tensor<6x2xf32>
  %collective_broadcast = scrimp.collective_broadcast %x root 2 world 3 : tensor<6x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.wait %{{[^ ,():]+}} : tensor<6x2xf32>
  %wait = scrimp.wait %all_reduce : tensor<6x2xf32>
  // CHECK-NEXT: %{{.*}} = scrimp.shard %{{[^ ,():]+}}, %{{[^ ,():]+}} world 3 : tensor<6x2xf32> -> tensor<2x2xf32>
  %shard = scrimp.shard %x, %rank world 3 : tensor<6x2xf32> -> tensor<2x2xf32>
  return
}

// CHECK-LABEL: @bodies
func.func @bodies(%x: tensor<4x2xf32>, %w: tensor<2xf32>, %s: tensor<f32>, %c: tensor<i1>) {
  // CHECK-NEXT: %{{.*}} = scrimp.accumulate 2 shared(%{{[^ ,():]+}} : tensor<2xf32>) split(%{{[^ ,():]+}} along [0] : tensor<4x2xf32>) init(%{{[^ ,():]+}} : tensor<f32>) {
  %sum = scrimp.accumulate 2 shared(%w : tensor<2xf32>) split(%x along [0] : tensor<4x2xf32>) init(%s : tensor<f32>) {
  ^bb0(%i: tensor<i64>, %v: tensor<2xf32>, %p: tensor<2x2xf32>, %a: tensor<f32>):
    scrimp.yield %a : tensor<f32>
  }
  // CHECK: %{{.*}} = scrimp.conditional %{{[^ ,():]+}} shared(%{{[^ ,():]+}} : tensor<2xf32>) init(%{{[^ ,():]+}} : tensor<f32>) : tensor<i1> {
  %new = scrimp.conditional %c shared(%w : tensor<2xf32>) init(%s : tensor<f32>) : tensor<i1> {
  ^bb0(%v: tensor<2xf32>, %a: tensor<f32>):
    scrimp.yield %a : tensor<f32>
  }
  return
}

// CHECK: scrimp.cmd.program "m" attributes
scrimp.cmd.program "m" attributes {alignment = 64 : i64, arena_bytes = 256 : i64, batch = 3 : i64, eval_drops_partial = false, fingerprint = 7 : i64, optimizer = "sgd", tokens_per_sample = 0 : i64, weights_bytes = 4 : i64, workers = 1 : i64} {
  // CHECK-NEXT: scrimp.cmd.segment "inputs" [0 : 256]
  scrimp.cmd.segment "inputs" [0 : 256]
  // CHECK-NEXT: scrimp.cmd.hyperparameter "lr" 1.000000e-03
  scrimp.cmd.hyperparameter "lr" 1.000000e-03
  // CHECK-NEXT: scrimp.cmd.tensor "w" : tensor<2xf32> at 0 "parameter" init "zeros" {aliases = [], reason = ""}
  scrimp.cmd.tensor "w" : tensor<2xf32> at 0 "parameter" init "zeros" {aliases = [], reason = ""}
  // CHECK-NEXT: scrimp.cmd.tensor "v" : tensor<2xf32> at 0 "parameter" init "zeros" {aliases = [], bucket_offset = 1 : i64, part_elements = 4 : i64, reason = ""}
  scrimp.cmd.tensor "v" : tensor<2xf32> at 0 "parameter" init "zeros" {aliases = [], bucket_offset = 1 : i64, part_elements = 4 : i64, reason = ""}
  // CHECK-NEXT: scrimp.cmd.carried "c" : "F32" [1] {aliases = [], bytes = 4 : i64, weights_offset = 0 : i64}
  scrimp.cmd.carried "c" : "F32" [1] {aliases = [], bytes = 4 : i64, weights_offset = 0 : i64}
  // CHECK-NEXT: scrimp.cmd.input "x" : tensor<2xf32> at 64 batch 0
  scrimp.cmd.input "x" : tensor<2xf32> at 64 batch 0
  // CHECK-NEXT: scrimp.cmd.input "parts" : tensor<3xf32> at 0 batch 0 {streamed}
  scrimp.cmd.input "parts" : tensor<3xf32> at 0 batch 0 {streamed}
  // CHECK-NEXT: scrimp.cmd.scalar "lr" : f32 at 128
  scrimp.cmd.scalar "lr" : f32 at 128
  // CHECK-NEXT: scrimp.cmd.kernel @k0 2
  scrimp.cmd.kernel @k0 2
  // CHECK-NEXT: scrimp.cmd.graph @train {
  scrimp.cmd.graph @train {
    // CHECK-NEXT: scrimp.cmd.call "gemm" : f32 ints [1, 2] floats [5.000000e-01] [0 : 8, 64 : 8 rank 8, 128 : 8 in host]
    scrimp.cmd.call "gemm" : f32 ints [1, 2] floats [5.000000e-01] [0 : 8, 64 : 8 rank 8, 128 : 8 in host]
    // CHECK-NEXT: scrimp.cmd.call "gemm" : f32 ints [] floats [] [0 : 8] {types = [bf16]}
    scrimp.cmd.call "gemm" : f32 ints [] floats [] [0 : 8] {types = [bf16]}
    // CHECK-NEXT: scrimp.cmd.collective "all_reduce_sum" : f32 wire bf16 [0 : 8] to [0 : 8] event 1 {seconds = 5.000000e-01 : f64}
    scrimp.cmd.collective "all_reduce_sum" : f32 wire bf16 [0 : 8] to [0 : 8] event 1 {seconds = 5.000000e-01 : f64}
    // CHECK-NEXT: scrimp.cmd.collective "broadcast" : f32 root 0 [64 : 8] to [64 : 8] event 0
    scrimp.cmd.collective "broadcast" : f32 root 0 [64 : 8] to [64 : 8] event 0
    // CHECK-NEXT: scrimp.cmd.wait event 0
    scrimp.cmd.wait event 0
    // CHECK-NEXT: scrimp.cmd.wait event 1
    scrimp.cmd.wait event 1
    // CHECK-NEXT: scrimp.cmd.copy [0 : 8] to [64 : 8]
    scrimp.cmd.copy [0 : 8] to [64 : 8]
    // CHECK-NEXT: scrimp.cmd.check_finite "loss" "loss" : f32 at 128 {agreed}
    scrimp.cmd.check_finite "loss" "loss" : f32 at 128 {agreed}
    // CHECK-NEXT: scrimp.cmd.repeat 3 index [192 : 8] {
    scrimp.cmd.repeat 3 index [192 : 8] {
      // CHECK-NEXT: scrimp.cmd.fill "parts" from 0 samples 1 [64 : 4]
      scrimp.cmd.fill "parts" from 0 samples 1 [64 : 4]
      // CHECK-NEXT: scrimp.cmd.launch @k0 units 2 grain 1 [0 : 8 step [8], 64 : 8] {reads = 1 : i64}
      scrimp.cmd.launch @k0 units 2 grain 1 [0 : 8 step [8], 64 : 8] {reads = 1 : i64}
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: scrimp.cmd.conditional [200 : 1] {
    scrimp.cmd.conditional [200 : 1] {
      // CHECK-NEXT: scrimp.cmd.launch @k0 units 2 grain 1 [0 : 8, 64 : 8]
      scrimp.cmd.launch @k0 units 2 grain 1 [0 : 8, 64 : 8]
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: scrimp.cmd.output "loss" : f32 at 128
    scrimp.cmd.output "loss" : f32 at 128
  }
}
