// A classifier of images whose convolution, attention and matrix products work on TYPE: parameters and loss are f32, casts
// stand in the graph.
func.func @main(%x: tensor<12x3x8x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                %y: tensor<12xi64> {scrimp.name = "y", scrimp.input = 0 : i64, scrimp.valid = array<i64: 0, 7>},
                %filters: tensor<8x3x3x3xf32> {scrimp.name = "filters", scrimp.param = "trainable",
                    scrimp.init = {kind = "normal", a = 0.0, b = 0.2}},
                %proj: tensor<64x192xf32> {scrimp.name = "proj", scrimp.param = "trainable",
                    scrimp.init = {kind = "normal", a = 0.0, b = 0.1}},
                %head: tensor<512x7xf32> {scrimp.name = "head", scrimp.param = "trainable",
                    scrimp.init = {kind = "normal", a = 0.0, b = 0.05}})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %xn = scrimp.cast %x : tensor<12x3x8x8xf32> -> tensor<12x3x8x8xTYPE>
  %fn = scrimp.cast %filters : tensor<8x3x3x3xf32> -> tensor<8x3x3x3xTYPE>
  %c = scrimp.conv2d %xn, %fn strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 1
    : tensor<12x3x8x8xTYPE>, tensor<8x3x3x3xTYPE> -> tensor<12x8x8x8xTYPE>
  %r = scrimp.silu %c : tensor<12x8x8x8xTYPE>
  %tokens = scrimp.reshape %r : tensor<12x8x8x8xTYPE> -> tensor<96x64xTYPE>
  %pn = scrimp.cast %proj : tensor<64x192xf32> -> tensor<64x192xTYPE>
  %qkv = scrimp.matmul %tokens, %pn : tensor<96x64xTYPE>, tensor<64x192xTYPE> -> tensor<96x192xTYPE>
  %split = scrimp.reshape %qkv : tensor<96x192xTYPE> -> tensor<12x8x6x32xTYPE>
  %heads = scrimp.transpose %split [0, 2, 1, 3] : tensor<12x8x6x32xTYPE> -> tensor<12x6x8x32xTYPE>
  %q = scrimp.slice %heads [0, 0, 0, 0] [1, 1, 1, 1] : tensor<12x6x8x32xTYPE> -> tensor<12x2x8x32xTYPE>
  %k = scrimp.slice %heads [0, 2, 0, 0] [1, 1, 1, 1] : tensor<12x6x8x32xTYPE> -> tensor<12x2x8x32xTYPE>
  %v = scrimp.slice %heads [0, 4, 0, 0] [1, 1, 1, 1] : tensor<12x6x8x32xTYPE> -> tensor<12x2x8x32xTYPE>
  %a, %lse = scrimp.attention %q, %k, %v {causal, scale = 0.17677 : f64}
    : tensor<12x2x8x32xTYPE>, tensor<12x2x8x32xTYPE>, tensor<12x2x8x32xTYPE>
    -> tensor<12x2x8x32xTYPE>, tensor<12x2x8xf32>
  %flat = scrimp.reshape %a : tensor<12x2x8x32xTYPE> -> tensor<12x512xTYPE>
  %hn = scrimp.cast %head : tensor<512x7xf32> -> tensor<512x7xTYPE>
  %logits = scrimp.matmul %flat, %hn : tensor<12x512xTYPE>, tensor<512x7xTYPE> -> tensor<12x7xTYPE>
  %z = scrimp.cast %logits : tensor<12x7xTYPE> -> tensor<12x7xf32>
  %l, %le = scrimp.cross_entropy %z, %y : tensor<12x7xf32>, tensor<12xi64> -> tensor<12xf32>
  %s = scrimp.reduce sum, %l [0] : tensor<12xf32> -> tensor<f32>
  %twelfth = scrimp.constant dense<0.0833333358> : tensor<f32>
  %loss = scrimp.mul %s, %twelfth : tensor<f32>
  return %loss : tensor<f32>
}
