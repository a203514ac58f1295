// Softmax, norms and cross entropy with their gradients, in every width of a row that the lanes distinguish.
// RUN: sed -e 's/COLS/17/g' -e 's/WIDE/f32/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/1/g' -e 's/WIDE/f32/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/16/g' -e 's/WIDE/f64/g' -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/100/g' -e 's/WIDE/f32/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/4099/g' -e 's/WIDE/f32/g' -e 's/TYPE/f16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/4099/g' -e 's/WIDE/f32/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 --march baseline -
// Widths of which a device's threads keep some or none, in groups of 8, 4, 2 and 1:
// RUN: sed -e 's/COLS/1000/g' -e 's/WIDE/f32/g' -e 's/TYPE/bf16/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/5000/g' -e 's/WIDE/f32/g' -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/COLS/770/g' -e 's/WIDE/f64/g' -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 64 -
func.func @main() -> (tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
    tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>, tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
    tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>, tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>,
    tensor<COLSxTYPE>, tensor<COLSxTYPE>, tensor<COLSxTYPE>, tensor<2x3xTYPE>) {
  %i = scrimp.iota {dim = 2 : i64, start = 1.0 : f64, step = 0.7 : f64} : tensor<2x3xCOLSxf32>
  %j = scrimp.iota {dim = 1 : i64, start = -1.0 : f64, step = 0.9 : f64} : tensor<2x3xCOLSxf32>
  %k = scrimp.iota {dim = 0 : i64, start = 3.0 : f64} : tensor<2x3xCOLSxf32>
  %ij = scrimp.mul %i, %j : tensor<2x3xCOLSxf32>
  %ijk = scrimp.add %ij, %k : tensor<2x3xCOLSxf32>
  %sin = scrimp.sin %ijk : tensor<2x3xCOLSxf32>
  %cos = scrimp.cos %ijk : tensor<2x3xCOLSxf32>
  %three = scrimp.constant dense<3.0> : tensor<2x3xCOLSxf32>
  %sin3 = scrimp.mul %sin, %three : tensor<2x3xCOLSxf32>
  %x = scrimp.cast %sin3 : tensor<2x3xCOLSxf32> -> tensor<2x3xCOLSxTYPE>
  %g = scrimp.cast %cos : tensor<2x3xCOLSxf32> -> tensor<2x3xCOLSxTYPE>
  %w = scrimp.iota {dim = 0 : i64, start = 0.5 : f64, step = 0.01 : f64} : tensor<COLSxTYPE>
  %b = scrimp.constant dense<0.25> : tensor<COLSxTYPE>

  %softmax = scrimp.softmax %x : tensor<2x3xCOLSxTYPE>
  %dsoftmax = scrimp.softmax_grad %softmax, %g : tensor<2x3xCOLSxTYPE>
  %log_softmax = scrimp.log_softmax %x : tensor<2x3xCOLSxTYPE>
  %dlog_softmax = scrimp.log_softmax_grad %log_softmax, %g : tensor<2x3xCOLSxTYPE>
  %log_sum_exp = scrimp.log_sum_exp %x : tensor<2x3xCOLSxTYPE> -> tensor<2x3xTYPE>
  %ln, %mean, %rstd = scrimp.layer_norm %x scale(%w : tensor<COLSxTYPE>) bias(%b : tensor<COLSxTYPE>) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xCOLSxTYPE> -> tensor<2x3xWIDE>
  %dln = scrimp.layer_norm_grad %x, %mean, %rstd, %g scale(%w : tensor<COLSxTYPE>) {axis = 2 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>
  %rms, %scale = scrimp.rms_norm %x scale(%w : tensor<COLSxTYPE>) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xCOLSxTYPE> -> tensor<2x3xWIDE>
  %drms = scrimp.rms_norm_grad %x, %scale, %g scale(%w : tensor<COLSxTYPE>) {axis = 2 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>
  %dw, %db = scrimp.layer_norm_parameter_grad %x, %mean, %rstd, %g {axis = 2 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE> -> tensor<COLSxTYPE>
  %dscale = scrimp.rms_norm_parameter_grad %x, %scale, %g {axis = 2 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE> -> tensor<COLSxTYPE>
  %labels = scrimp.constant dense<[[0, 0, -100], [0, -100, 0]]> : tensor<2x3xi64>
  %loss, %lse = scrimp.cross_entropy %x, %labels {ignore_index = -100 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xi64> -> tensor<2x3xWIDE>
  %one = scrimp.constant dense<0.5> : tensor<2x3xWIDE>
  %dce = scrimp.cross_entropy_grad %x, %labels, %lse, %one {ignore_index = -100 : i64} : tensor<2x3xCOLSxTYPE>, tensor<2x3xi64>, tensor<2x3xWIDE>
  return %softmax, %dsoftmax, %log_softmax, %dlog_softmax, %ln, %mean, %rstd, %dln, %rms, %scale, %drms, %loss, %lse, %dce, %dw, %db, %dscale, %log_sum_exp
      : tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
      tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>, tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xCOLSxTYPE>,
      tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>, tensor<2x3xWIDE>, tensor<2x3xWIDE>, tensor<2x3xCOLSxTYPE>,
      tensor<COLSxTYPE>, tensor<COLSxTYPE>, tensor<COLSxTYPE>, tensor<2x3xTYPE>
}
