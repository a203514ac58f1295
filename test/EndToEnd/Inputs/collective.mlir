// A linear layer trained by hand on WORLD ranks, of which each has ROWS of 12 samples: per sample e = x w - t, the loss is
// the sum of e * e, the gradient the sum of x^T e. Twice the same: `w` with its gradient scattered, momentum `m` of a
// rank's PART alone and the new parts gathered; `v` with all of that on every rank. The parameter p is there for the
// compiler, which wants one; it stays 0.
func.func @main(%x: tensor<ROWSx16xf64> {scrimp.name = "x", scrimp.input = 0 : i64},
                %t: tensor<ROWSx12xf64> {scrimp.name = "t", scrimp.input = 0 : i64},
                %w: tensor<192xf64> {scrimp.name = "w", scrimp.state, scrimp.init = {kind = "ones"}},
                %m: tensor<PARTxf64> {scrimp.name = "m", scrimp.state},
                %v: tensor<192xf64> {scrimp.name = "v", scrimp.state, scrimp.init = {kind = "ones"}},
                %n: tensor<192xf64> {scrimp.name = "n", scrimp.state},
                %rank: tensor<i64> {scrimp.scalar = "rank"},
                %p: tensor<2xf64> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<f64> {scrimp.output = "loss"}, tensor<192xf64> {scrimp.updates = 2 : i64},
        tensor<PARTxf64> {scrimp.updates = 3 : i64}, tensor<192xf64> {scrimp.updates = 4 : i64},
        tensor<192xf64> {scrimp.updates = 5 : i64}) {
  %matrix = scrimp.reshape %w : tensor<192xf64> -> tensor<16x12xf64>
  %y = scrimp.matmul %x, %matrix : tensor<ROWSx16xf64>, tensor<16x12xf64> -> tensor<ROWSx12xf64>
  %e = scrimp.sub %y, %t : tensor<ROWSx12xf64>
  %square = scrimp.mul %e, %e : tensor<ROWSx12xf64>
  %own = scrimp.reduce sum, %square [0, 1] : tensor<ROWSx12xf64> -> tensor<f64>
  %summing = scrimp.all_reduce sum, %own world WORLD : tensor<f64>
  %loss = scrimp.wait %summing : tensor<f64>
  %g = scrimp.matmul %x, %e {transpose_a} : tensor<ROWSx16xf64>, tensor<ROWSx12xf64> -> tensor<16x12xf64>
  %flat = scrimp.reshape %g : tensor<16x12xf64> -> tensor<192xf64>

  %half = scrimp.constant dense<0.5> : tensor<PARTxf64>
  %rate = scrimp.constant dense<0.015625> : tensor<PARTxf64>
  %scattering = scrimp.reduce_scatter %flat world WORLD : tensor<192xf64> -> tensor<PARTxf64>
  %gPart = scrimp.wait %scattering : tensor<PARTxf64>
  %wPart = scrimp.shard %w, %rank world WORLD : tensor<192xf64> -> tensor<PARTxf64>
  %m0 = scrimp.mul %m, %half : tensor<PARTxf64>
  %m1 = scrimp.add %m0, %gPart : tensor<PARTxf64>
  %stepPart = scrimp.mul %m1, %rate : tensor<PARTxf64>
  %newPart = scrimp.sub %wPart, %stepPart : tensor<PARTxf64>
  %gathering = scrimp.all_gather %newPart world WORLD : tensor<PARTxf64> -> tensor<192xf64>
  %w1 = scrimp.wait %gathering : tensor<192xf64>

  %halves = scrimp.constant dense<0.5> : tensor<192xf64>
  %rates = scrimp.constant dense<0.015625> : tensor<192xf64>
  %reducing = scrimp.all_reduce sum, %flat world WORLD : tensor<192xf64>
  %gWhole = scrimp.wait %reducing : tensor<192xf64>
  %n0 = scrimp.mul %n, %halves : tensor<192xf64>
  %n1 = scrimp.add %n0, %gWhole : tensor<192xf64>
  %step = scrimp.mul %n1, %rates : tensor<192xf64>
  %v1 = scrimp.sub %v, %step : tensor<192xf64>

  %pp = scrimp.mul %p, %p : tensor<2xf64>
  %none = scrimp.reduce sum, %pp [0] : tensor<2xf64> -> tensor<f64>
  %all = scrimp.add %loss, %none : tensor<f64>
  return %all, %w1, %m1, %v1, %n1 : tensor<f64>, tensor<192xf64>, tensor<PARTxf64>, tensor<192xf64>, tensor<192xf64>
}
