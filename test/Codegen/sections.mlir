// A kernel of several sections: lengths of a piece and more, of one element and of none; types, an index that is not the
// element's own, and a result in the bytes of what its own section reads. No section may overwrite what another reads.
// RUN: scrimp-kernel-test %s
// RUN: scrimp-kernel-test --target emulated %s
func.func @main() -> (tensor<9000xf32>, tensor<9000xf32>, tensor<3x2xbf16>, tensor<f64>, tensor<0xf32>, tensor<4096xf32>) {
  %a = scrimp.iota {dim = 0 : i64, start = -3.0 : f64, step = 0.375 : f64} : tensor<9000xf32>
  %g = scrimp.iota {dim = 0 : i64, start = 1.0 : f64, step = 0.25 : f64} : tensor<9000xf32>
  %b = scrimp.iota {dim = 1 : i64, start = 0.5 : f64, step = 0.5 : f64} : tensor<2x3xbf16>
  %c = scrimp.iota {dim = 0 : i64, start = 2.0 : f64} : tensor<1xf64>
  %d = scrimp.reshape %c : tensor<1xf64> -> tensor<f64>
  %e = scrimp.iota {dim = 0 : i64} : tensor<0xf32>
  %f = scrimp.iota {dim = 0 : i64, start = 7.0 : f64} : tensor<4096xf32>
  %sa = scrimp.exp %d : tensor<f64>
  %x, %y, %z, %u, %v, %w = scrimp.kernel(%a, %g, %b, %sa, %e, %f)
      attributes {sections = array<i64: 2, 1, 1, 1, 1>}
      : (tensor<9000xf32>, tensor<9000xf32>, tensor<2x3xbf16>, tensor<f64>, tensor<0xf32>, tensor<4096xf32>)
      -> (tensor<9000xf32>, tensor<9000xf32>, tensor<3x2xbf16>, tensor<f64>, tensor<0xf32>, tensor<4096xf32>) {
  ^bb0(%p: tensor<9000xf32>, %q: tensor<9000xf32>, %r: tensor<2x3xbf16>, %s: tensor<f64>, %t: tensor<0xf32>, %o: tensor<4096xf32>):
    %0 = scrimp.add %p, %q : tensor<9000xf32>
    %1 = scrimp.mul %0, %q : tensor<9000xf32>
    %2 = scrimp.transpose %r [1, 0] : tensor<2x3xbf16> -> tensor<3x2xbf16>
    %3 = scrimp.mul %s, %s : tensor<f64>
    %4 = scrimp.neg %t : tensor<0xf32>
    %5 = scrimp.neg %o : tensor<4096xf32>
    scrimp.yield %0, %1, %2, %3, %4, %5 : tensor<9000xf32>, tensor<9000xf32>, tensor<3x2xbf16>, tensor<f64>, tensor<0xf32>, tensor<4096xf32>
  }
  return %x, %y, %z, %u, %v, %w : tensor<9000xf32>, tensor<9000xf32>, tensor<3x2xbf16>, tensor<f64>, tensor<0xf32>, tensor<4096xf32>
}
