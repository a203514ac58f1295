// A linear layer trained by hand: four micro-batches of four samples, each in two chunks of two. Per sample e = x w - t;
// the loss is the sum of e * e, the gradient the sum of x^T e, and the new weights w - gradient / 64. The parameter p
// is there for the compiler, which wants one; it stays 0.
func.func @main(%x: tensor<16x3xf64> {scrimp.name = "x", scrimp.input = 0 : i64},
                %t: tensor<16x5xf64> {scrimp.name = "t", scrimp.input = 0 : i64},
                %w: tensor<3x5xf64> {scrimp.name = "w", scrimp.state, scrimp.init = {kind = "ones"}},
                %seen: tensor<i64> {scrimp.name = "seen", scrimp.state},
                %p: tensor<2xf64> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<f64> {scrimp.output = "loss"}, tensor<3x5xf64> {scrimp.updates = 2 : i64},
        tensor<i64> {scrimp.updates = 3 : i64}) {
  %zero = scrimp.constant dense<0.0> : tensor<f64>
  %zeros = scrimp.constant dense<0.0> : tensor<3x5xf64>
  %loss, %gradient, %count = scrimp.accumulate 4 shared(%w : tensor<3x5xf64>)
      split(%x, %t along [0, 0] : tensor<16x3xf64>, tensor<16x5xf64>)
      init(%zero, %zeros, %seen : tensor<f64>, tensor<3x5xf64>, tensor<i64>) {
  ^bb0(%i: tensor<i64>, %v: tensor<3x5xf64>, %xs: tensor<4x3xf64>, %ts: tensor<4x5xf64>, %l: tensor<f64>,
       %g: tensor<3x5xf64>, %n: tensor<i64>):
    %l2, %g2 = scrimp.accumulate 2 shared(%v : tensor<3x5xf64>)
        split(%xs, %ts along [0, 0] : tensor<4x3xf64>, tensor<4x5xf64>)
        init(%l, %g : tensor<f64>, tensor<3x5xf64>) {
    ^bb0(%j: tensor<i64>, %u: tensor<3x5xf64>, %xc: tensor<2x3xf64>, %tc: tensor<2x5xf64>, %a: tensor<f64>,
         %b: tensor<3x5xf64>):
      %y = scrimp.matmul %xc, %u : tensor<2x3xf64>, tensor<3x5xf64> -> tensor<2x5xf64>
      %e = scrimp.sub %y, %tc : tensor<2x5xf64>
      %square = scrimp.mul %e, %e : tensor<2x5xf64>
      %part = scrimp.reduce sum, %square [0, 1] : tensor<2x5xf64> -> tensor<f64>
      %d = scrimp.matmul %xc, %e {transpose_a} : tensor<2x3xf64>, tensor<2x5xf64> -> tensor<3x5xf64>
      %a1 = scrimp.add %a, %part : tensor<f64>
      %b1 = scrimp.add %b, %d : tensor<3x5xf64>
      scrimp.yield %a1, %b1 : tensor<f64>, tensor<3x5xf64>
    }
    // 0 + 1 + 2 + 3 a step.
    %m = scrimp.add %n, %i : tensor<i64>
    scrimp.yield %l2, %g2, %m : tensor<f64>, tensor<3x5xf64>, tensor<i64>
  }
  %rate = scrimp.constant dense<0.015625> : tensor<3x5xf64>
  %step = scrimp.mul %gradient, %rate : tensor<3x5xf64>
  %new = scrimp.sub %w, %step : tensor<3x5xf64>
  %pp = scrimp.mul %p, %p : tensor<2xf64>
  %none = scrimp.reduce sum, %pp [0] : tensor<2xf64> -> tensor<f64>
  %all = scrimp.add %loss, %none : tensor<f64>
  return %all, %new, %count : tensor<f64>, tensor<3x5xf64>, tensor<i64>
}
