// Pooling beside the interpreter: overlapping and disjoint windows, padding, dilation, rounding up, narrow types.
// RUN: scrimp-kernel-test %s

func.func @main() -> (tensor<3x5x7x9xf32>, tensor<3x5x7x9xi32>, tensor<3x5x13x17xf32>, tensor<3x5x7x9xf32>, tensor<3x5x13x17xf32>, tensor<3x5x7x9xf32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x6x8xi32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x13x17xf32>, tensor<2x3x5x3xf64>, tensor<2x3x5x3xi32>, tensor<2x3x6x7xf64>, tensor<2x3x5x3xf64>, tensor<2x3x6x7xf64>, tensor<2x3x5x3xf64>, tensor<2x3x6x7xf64>, tensor<1x2x3x2xbf16>, tensor<1x2x3x2xi32>, tensor<1x2x5x5xbf16>, tensor<1x2x3x2xbf16>, tensor<1x2x5x5xbf16>, tensor<1x2x3x2xbf16>, tensor<1x2x5x5xbf16>) {
  %x_i = scrimp.iota {dim = 0 : i64, start = 0.1 : f64, step = 1.7 : f64} : tensor<3315xf32>
  %x_s = scrimp.sin %x_i : tensor<3315xf32>
  %x = scrimp.reshape %x_s : tensor<3315xf32> -> tensor<3x5x13x17xf32>
  %ay, %ai = scrimp.max_pool2d %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<3x5x13x17xf32> -> tensor<3x5x7x9xf32>, tensor<3x5x7x9xi32>
  %ad = scrimp.max_pool2d_grad %ay, %ai kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<3x5x7x9xf32>, tensor<3x5x7x9xi32> -> tensor<3x5x13x17xf32>
  %ae = scrimp.avg_pool2d %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<3x5x13x17xf32> -> tensor<3x5x7x9xf32>
  %aeg = scrimp.avg_pool2d_grad %ay kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] : tensor<3x5x7x9xf32> -> tensor<3x5x13x17xf32>
  %ap = scrimp.avg_pool2d %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] {count_include_pad} : tensor<3x5x13x17xf32> -> tensor<3x5x7x9xf32>
  %apg = scrimp.avg_pool2d_grad %ay kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] dilations [1, 1] {count_include_pad} : tensor<3x5x7x9xf32> -> tensor<3x5x13x17xf32>
  %by, %bi = scrimp.max_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<3x5x13x17xf32> -> tensor<3x5x6x8xf32>, tensor<3x5x6x8xi32>
  %bd = scrimp.max_pool2d_grad %by, %bi kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<3x5x6x8xf32>, tensor<3x5x6x8xi32> -> tensor<3x5x13x17xf32>
  %be = scrimp.avg_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<3x5x13x17xf32> -> tensor<3x5x6x8xf32>
  %beg = scrimp.avg_pool2d_grad %by kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<3x5x6x8xf32> -> tensor<3x5x13x17xf32>
  %bp = scrimp.avg_pool2d %x kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<3x5x13x17xf32> -> tensor<3x5x6x8xf32>
  %bpg = scrimp.avg_pool2d_grad %by kernel [2, 2] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<3x5x6x8xf32> -> tensor<3x5x13x17xf32>
  %z_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<252xf64>
  %z_s = scrimp.sin %z_i : tensor<252xf64>
  %z = scrimp.reshape %z_s : tensor<252xf64> -> tensor<2x3x6x7xf64>
  %cy, %ci = scrimp.max_pool2d %z kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] : tensor<2x3x6x7xf64> -> tensor<2x3x5x3xf64>, tensor<2x3x5x3xi32>
  %cd = scrimp.max_pool2d_grad %cy, %ci kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] : tensor<2x3x5x3xf64>, tensor<2x3x5x3xi32> -> tensor<2x3x6x7xf64>
  %ce = scrimp.avg_pool2d %z kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] : tensor<2x3x6x7xf64> -> tensor<2x3x5x3xf64>
  %ceg = scrimp.avg_pool2d_grad %cy kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] : tensor<2x3x5x3xf64> -> tensor<2x3x6x7xf64>
  %cp = scrimp.avg_pool2d %z kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] {count_include_pad} : tensor<2x3x6x7xf64> -> tensor<2x3x5x3xf64>
  %cpg = scrimp.avg_pool2d_grad %cy kernel [3, 2] strides [1, 2] pads [1, 0, 2, 1] dilations [2, 3] {count_include_pad} : tensor<2x3x5x3xf64> -> tensor<2x3x6x7xf64>
  %h_i = scrimp.iota {dim = 0 : i64, start = 0.7 : f64, step = 1.7 : f64} : tensor<50xf32>
  %h_s = scrimp.sin %h_i : tensor<50xf32>
  %h_c = scrimp.cast %h_s : tensor<50xf32> -> tensor<50xbf16>
  %h = scrimp.reshape %h_c : tensor<50xbf16> -> tensor<1x2x5x5xbf16>
  %dy, %di = scrimp.max_pool2d %h kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x2x5x5xbf16> -> tensor<1x2x3x2xbf16>, tensor<1x2x3x2xi32>
  %dd = scrimp.max_pool2d_grad %dy, %di kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x2x3x2xbf16>, tensor<1x2x3x2xi32> -> tensor<1x2x5x5xbf16>
  %de = scrimp.avg_pool2d %h kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x2x5x5xbf16> -> tensor<1x2x3x2xbf16>
  %deg = scrimp.avg_pool2d_grad %dy kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] : tensor<1x2x3x2xbf16> -> tensor<1x2x5x5xbf16>
  %dp = scrimp.avg_pool2d %h kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<1x2x5x5xbf16> -> tensor<1x2x3x2xbf16>
  %dpg = scrimp.avg_pool2d_grad %dy kernel [2, 3] strides [2, 2] pads [0, 0, 0, 0] dilations [1, 1] {count_include_pad} : tensor<1x2x3x2xbf16> -> tensor<1x2x5x5xbf16>
  return %ay, %ai, %ad, %ae, %aeg, %ap, %apg, %by, %bi, %bd, %be, %beg, %bp, %bpg, %cy, %ci, %cd, %ce, %ceg, %cp, %cpg, %dy, %di, %dd, %de, %deg, %dp, %dpg
    : tensor<3x5x7x9xf32>, tensor<3x5x7x9xi32>, tensor<3x5x13x17xf32>, tensor<3x5x7x9xf32>, tensor<3x5x13x17xf32>, tensor<3x5x7x9xf32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x6x8xi32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x13x17xf32>, tensor<3x5x6x8xf32>, tensor<3x5x13x17xf32>, tensor<2x3x5x3xf64>, tensor<2x3x5x3xi32>, tensor<2x3x6x7xf64>, tensor<2x3x5x3xf64>, tensor<2x3x6x7xf64>, tensor<2x3x5x3xf64>, tensor<2x3x6x7xf64>, tensor<1x2x3x2xbf16>, tensor<1x2x3x2xi32>, tensor<1x2x5x5xbf16>, tensor<1x2x3x2xbf16>, tensor<1x2x5x5xbf16>, tensor<1x2x3x2xbf16>, tensor<1x2x5x5xbf16>
}
