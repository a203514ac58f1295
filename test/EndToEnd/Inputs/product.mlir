// A model of one large product, whose operands the BLAS library packs.
module {
  func.func @main(%x: tensor<2048x1024xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                  %w: tensor<1024x1536xf32> {scrimp.name = "w", scrimp.param = "trainable",
                                             scrimp.init = {kind = "uniform", a = -0.1 : f64, b = 0.1 : f64}})
      -> (tensor<f32> {scrimp.output = "loss"}) {
    %y = scrimp.matmul %x, %w : tensor<2048x1024xf32>, tensor<1024x1536xf32> -> tensor<2048x1536xf32>
    %z = scrimp.mul %y, %y : tensor<2048x1536xf32>
    %loss = scrimp.reduce sum, %z [0, 1] : tensor<2048x1536xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
