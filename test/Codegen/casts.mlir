// Conversions are exactly rounded, to nearest even, also between ops of one kernel: a pair of casts that narrows is
// never folded away. Arithmetic on bf16 and f16 is rounded once per op. No tolerance.
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 0 -
// RUN: sed -e 's/TYPE/f16/g' %s | scrimp-kernel-test --ulps 0 -
// RUN: sed -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 0 --march baseline -
// RUN: sed -e 's/TYPE/f16/g' %s | scrimp-kernel-test --ulps 0 --march baseline -
func.func @main() -> (tensor<999xf32>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>,
    tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xi32>, tensor<999xi1>, tensor<8xf32>) {
  // 1 + k / 4096: ties of both types are among them; and their neighbours in f64.
  %x = scrimp.iota {dim = 0 : i64, start = 1.0 : f64, step = 0.000244140625 : f64} : tensor<999xf32>
  %xt = scrimp.cast %x : tensor<999xf32> -> tensor<999xTYPE>
  %back = scrimp.cast %xt : tensor<999xTYPE> -> tensor<999xf32>
  %error = scrimp.sub %x, %back : tensor<999xf32>
  %wide = scrimp.iota {dim = 0 : i64, start = -1.0 : f64, step = 0.000244140625 : f64} : tensor<999xf64>
  %nudge = scrimp.constant dense<1.0e-15> : tensor<999xf64>
  %nudged = scrimp.add %wide, %nudge : tensor<999xf64>
  %fromWide = scrimp.cast %wide : tensor<999xf64> -> tensor<999xTYPE>
  %fromNudged = scrimp.cast %nudged : tensor<999xf64> -> tensor<999xTYPE>
  %int = scrimp.iota {dim = 0 : i64, start = -40000.0 : f64, step = 81.0 : f64} : tensor<999xi64>
  %fromInt = scrimp.cast %int : tensor<999xi64> -> tensor<999xTYPE>
  %bt = scrimp.iota {dim = 0 : i64, start = 3.0 : f64, step = 0.037 : f64} : tensor<999xTYPE>
  %sum = scrimp.add %xt, %bt : tensor<999xTYPE>
  %product = scrimp.mul %sum, %bt : tensor<999xTYPE>
  %quotient = scrimp.div %product, %xt : tensor<999xTYPE>
  %root = scrimp.sqrt %quotient : tensor<999xTYPE>
  %whole = scrimp.cast %product : tensor<999xTYPE> -> tensor<999xi32>
  %true = scrimp.cast %fromInt : tensor<999xTYPE> -> tensor<999xi1>
  // Overflow, underflow, infinities and NaN.
  %edges = scrimp.constant dense<[3.4028235e38, -65519.0, 65520.0, 1.0e-45, 5.9e-8, 0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<8xf32>
  %edgesNarrow = scrimp.cast %edges : tensor<8xf32> -> tensor<8xTYPE>
  %edgesBack = scrimp.cast %edgesNarrow : tensor<8xTYPE> -> tensor<8xf32>
  return %error, %fromWide, %fromNudged, %fromInt, %sum, %product, %quotient, %root, %whole, %true, %edgesBack
      : tensor<999xf32>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xTYPE>,
      tensor<999xTYPE>, tensor<999xTYPE>, tensor<999xi32>, tensor<999xi1>, tensor<8xf32>
}
