// What convolutions become on a device.
// RUN: sed -e 's/TYPE/f32/g' -e 's/WIDE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/f64/g' -e 's/WIDE/f64/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/bf16/g' -e 's/WIDE/f32/g' %s | scrimp-kernel-test -
// RUN: sed -e 's/TYPE/f16/g' -e 's/WIDE/f32/g' %s | scrimp-kernel-test -
func.func @main(%plain_x: tensor<2x3x5x6xTYPE>, %plain_c: tensor<1x18x30xWIDE>, %strided_x: tensor<2x4x7x6xTYPE>, %strided_c: tensor<2x18x16xWIDE>, %dilated_x: tensor<1x2x8x9xTYPE>, %dilated_c: tensor<1x12x35xWIDE>, %depthwise_x: tensor<2x3x4x4xTYPE>, %depthwise_c: tensor<3x9x32xWIDE>, %pointwise_x: tensor<2x3x2x3xTYPE>, %pointwise_c: tensor<1x3x12xWIDE>)
    -> (tensor<1x18x30xTYPE>, tensor<2x3x5x6xTYPE>, tensor<2x18x16xTYPE>, tensor<2x4x7x6xTYPE>, tensor<1x12x35xTYPE>, tensor<1x2x8x9xTYPE>, tensor<3x9x32xTYPE>, tensor<2x3x4x4xTYPE>, tensor<1x3x12xTYPE>, tensor<2x3x2x3xTYPE>) {
  %plain = scrimp.im2col %plain_x kernel [3, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x5x6xTYPE> -> tensor<1x18x30xTYPE>
  %plain_s = scrimp.col2im %plain_c kernel [3, 2] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<1x18x30xWIDE> -> tensor<2x3x5x6xTYPE>
  %strided = scrimp.im2col %strided_x kernel [3, 3] strides [2, 3] pads [1, 0, 2, 1] dilations [1, 1] groups 2 : tensor<2x4x7x6xTYPE> -> tensor<2x18x16xTYPE>
  %strided_s = scrimp.col2im %strided_c kernel [3, 3] strides [2, 3] pads [1, 0, 2, 1] dilations [1, 1] groups 2 : tensor<2x18x16xWIDE> -> tensor<2x4x7x6xTYPE>
  %dilated = scrimp.im2col %dilated_x kernel [2, 3] strides [1, 2] pads [2, 1, 0, 3] dilations [3, 2] groups 1 : tensor<1x2x8x9xTYPE> -> tensor<1x12x35xTYPE>
  %dilated_s = scrimp.col2im %dilated_c kernel [2, 3] strides [1, 2] pads [2, 1, 0, 3] dilations [3, 2] groups 1 : tensor<1x12x35xWIDE> -> tensor<1x2x8x9xTYPE>
  %depthwise = scrimp.im2col %depthwise_x kernel [3, 3] strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3 : tensor<2x3x4x4xTYPE> -> tensor<3x9x32xTYPE>
  %depthwise_s = scrimp.col2im %depthwise_c kernel [3, 3] strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 3 : tensor<3x9x32xWIDE> -> tensor<2x3x4x4xTYPE>
  %pointwise = scrimp.im2col %pointwise_x kernel [1, 1] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<2x3x2x3xTYPE> -> tensor<1x3x12xTYPE>
  %pointwise_s = scrimp.col2im %pointwise_c kernel [1, 1] strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups 1 : tensor<1x3x12xWIDE> -> tensor<2x3x2x3xTYPE>
  return %plain, %plain_s, %strided, %strided_s, %dilated, %dilated_s, %depthwise, %depthwise_s, %pointwise, %pointwise_s : tensor<1x18x30xTYPE>, tensor<2x3x5x6xTYPE>, tensor<2x18x16xTYPE>, tensor<2x4x7x6xTYPE>, tensor<1x12x35xTYPE>, tensor<1x2x8x9xTYPE>, tensor<3x9x32xTYPE>, tensor<2x3x4x4xTYPE>, tensor<1x3x12xTYPE>, tensor<2x3x2x3xTYPE>
}
