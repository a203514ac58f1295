// Pooling and batch normalisation with their gradients.
// RUN: sed -e 's/TYPE/f32/g' %s | scrimp-kernel-test --ulps 64 -
// RUN: sed -e 's/TYPE/f64/g' %s | scrimp-kernel-test --ulps 64 -
func.func @main() -> (tensor<2x3x3x4xTYPE>, tensor<2x3x3x4xi32>, tensor<2x3x5x7xTYPE>, tensor<2x3x3x4xTYPE>,
    tensor<2x3x5x7xTYPE>, tensor<2x3x5x7xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>, tensor<2x3x5x7xTYPE>, tensor<3xTYPE>) {
  %i = scrimp.iota {dim = 3 : i64, start = 1.0 : f64} : tensor<2x3x5x7xf32>
  %j = scrimp.iota {dim = 2 : i64, start = 2.0 : f64} : tensor<2x3x5x7xf32>
  %k = scrimp.iota {dim = 1 : i64, start = 3.0 : f64} : tensor<2x3x5x7xf32>
  %l = scrimp.iota {dim = 0 : i64, start = 1.0 : f64} : tensor<2x3x5x7xf32>
  %ij = scrimp.mul %i, %j : tensor<2x3x5x7xf32>
  %ijk = scrimp.mul %ij, %k : tensor<2x3x5x7xf32>
  %all = scrimp.mul %ijk, %l : tensor<2x3x5x7xf32>
  %sin = scrimp.sin %all : tensor<2x3x5x7xf32>
  %cos = scrimp.cos %all : tensor<2x3x5x7xf32>
  %x = scrimp.cast %sin : tensor<2x3x5x7xf32> -> tensor<2x3x5x7xTYPE>
  %g = scrimp.cast %cos : tensor<2x3x5x7xf32> -> tensor<2x3x5x7xTYPE>
  %scale = scrimp.iota {dim = 0 : i64, start = 0.5 : f64} : tensor<3xTYPE>
  %bias = scrimp.iota {dim = 0 : i64, start = -1.0 : f64} : tensor<3xTYPE>

  %max, %where = scrimp.max_pool2d %x kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] dilations [1, 1] : tensor<2x3x5x7xTYPE> -> tensor<2x3x3x4xTYPE>, tensor<2x3x3x4xi32>
  %dmax = scrimp.max_pool2d_grad %max, %where kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] dilations [1, 1] : tensor<2x3x3x4xTYPE>, tensor<2x3x3x4xi32> -> tensor<2x3x5x7xTYPE>
  %avg = scrimp.avg_pool2d %x kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] dilations [1, 1] : tensor<2x3x5x7xTYPE> -> tensor<2x3x3x4xTYPE>
  %davg = scrimp.avg_pool2d_grad %avg kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] dilations [1, 1] : tensor<2x3x3x4xTYPE> -> tensor<2x3x5x7xTYPE>
  %y, %mean, %rstd, %rv = scrimp.batch_norm %x, %scale, %bias, %bias, %scale {epsilon = 1.0e-5 : f64} : (tensor<2x3x5x7xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>) -> (tensor<2x3x5x7xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>)
  %dx, %dscale, %dbias = scrimp.batch_norm_grad %g, %x, %scale, %mean, %rstd : (tensor<2x3x5x7xTYPE>, tensor<2x3x5x7xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>) -> (tensor<2x3x5x7xTYPE>, tensor<3xTYPE>, tensor<3xTYPE>)
  return %max, %where, %dmax, %avg, %davg, %y, %mean, %rv, %dx, %dscale : tensor<2x3x3x4xTYPE>, tensor<2x3x3x4xi32>,
      tensor<2x3x5x7xTYPE>, tensor<2x3x3x4xTYPE>, tensor<2x3x5x7xTYPE>, tensor<2x3x5x7xTYPE>, tensor<3xTYPE>,
      tensor<3xTYPE>, tensor<2x3x5x7xTYPE>, tensor<3xTYPE>
}
