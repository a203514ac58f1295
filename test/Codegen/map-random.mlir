// Draws in compiled code are the interpreter's, bit for bit: masks to the last element, and uniform numbers rounded once.
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 0.5 -
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 0.5 --march baseline -
func.func @main() -> (tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>) {
  %seed = scrimp.constant dense<-81985529216486896> : tensor<i64>
  %step = scrimp.constant dense<4294967299> : tensor<i64>
  %base = scrimp.constant dense<64> : tensor<i64>
  %x = scrimp.constant dense<1.5> : tensor<8x3x17xTYPE>
  %a = scrimp.dropout %x, %seed, %step, %base {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<8x3x17xTYPE>
  %b = scrimp.dropout %x, %seed, %step, %base {key = 2 : i64, batch_dim = 1 : i64, samples = 3 : i64, p = 0.75 : f64} : tensor<8x3x17xTYPE>
  %c = scrimp.dropout %x, %seed, %step, %base {key = 3 : i64, batch_dim = -1 : i64, samples = 1 : i64, p = 0.5 : f64} : tensor<8x3x17xTYPE>
  %u = scrimp.random_uniform %seed, %step, %base {key = 4 : i64, batch_dim = 0 : i64, samples = 8 : i64, low = -0.3 : f64, high = 1.7 : f64} : tensor<8x3x17xTYPE>
  return %a, %b, %c, %u : tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>, tensor<8x3x17xTYPE>
}
