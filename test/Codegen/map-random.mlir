// Draws in compiled code are the interpreter's, bit for bit: masks to the last element, and uniform numbers rounded once.
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 0.5 --march baseline -
func.func @main() -> (tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<1000xbf16>, tensor<8xbf16>) {
  %seed = scrimp.constant dense<-81985529216486896> : tensor<i64>
  %step = scrimp.constant dense<4294967299> : tensor<i64>
  %base = scrimp.constant dense<64> : tensor<i64>
  %x = scrimp.constant dense<1.5> : tensor<8x3x17xTYPE>
  %a = scrimp.dropout %x, %seed, %step, %base {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<8x3x17xTYPE>
  %b = scrimp.dropout %x, %seed, %step, %base {key = 2 : i64, batch_dim = 1 : i64, samples = 3 : i64, p = 0.75 : f64} : tensor<8x3x17xTYPE>
  %c = scrimp.dropout %x, %seed, %step, %base {key = 3 : i64, batch_dim = -1 : i64, samples = 1 : i64, p = 0.5 : f64} : tensor<8x3x17xTYPE>
  %u = scrimp.random_uniform %seed, %step, %base {key = 4 : i64, batch_dim = 0 : i64, samples = 8 : i64, low = -0.3 : f64, high = 1.7 : f64} : tensor<8x3x17xTYPE>
  %i = scrimp.iota {dim = 0 : i64, start = -3.0 : f64, step = 0.00731 : f64} : tensor<1000xf32>
  %r = scrimp.stochastic_round %i, %seed, %step, %base {key = 5 : i64, batch_dim = -1 : i64, samples = 1 : i64} : tensor<1000xf32> -> tensor<1000xbf16>
  // Zeros, infinities and NaN stay, denormal numbers and the largest are rounded like others.
  %odd = scrimp.constant dense<[0.0, -0.0, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000123, 0x7F7FFFFF, 0xFF7F8000]> : tensor<8xf32>
  %s = scrimp.stochastic_round %odd, %seed, %step, %base {key = 6 : i64, batch_dim = -1 : i64, samples = 1 : i64} : tensor<8xf32> -> tensor<8xbf16>
  return %a, %b, %c, %u, %r, %s : tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<1000xbf16>, tensor<8xbf16>
}
