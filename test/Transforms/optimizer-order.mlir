// RUN: scrimp-opt --scrimp-autodiff --scrimp-optimizer=kind=sgd %s | FileCheck %s

// y = s * (x w): the gradient of s is ready before that of (x w) is, which still reads the old s. The update of s
// waits for this last reader.
// CHECK:      %[[S:.*]] = scrimp.view %[[P:.*]] at 16 : tensor<64xf32> -> tensor<2xf32>
// CHECK:      %[[XW:.*]] = scrimp.mul %{{.*}}, %{{.*}} : tensor<2xf32>
// CHECK:      scrimp.tanh
// CHECK:      %[[DS:.*]] = scrimp.mul %[[DY:.*]], %[[XW]] : tensor<2xf32>
// CHECK-NEXT: %[[DXW:.*]] = scrimp.mul %[[DY]], %[[S]] : tensor<2xf32>
// CHECK-NEXT: scrimp.sum_squares %[[DS]]
// CHECK:      %[[OLD:.*]] = scrimp.view %[[P]] at 16
// CHECK:      scrimp.sub %[[OLD]]
// CHECK:      scrimp.mul %[[DXW]], %{{.*}}
func.func @main(%x: tensor<2xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                %s: tensor<2xf32> {scrimp.name = "s", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %xw = scrimp.mul %x, %w : tensor<2xf32>
  %y = scrimp.mul %s, %xw : tensor<2xf32>
  %e = scrimp.tanh %y : tensor<2xf32>
  %loss = scrimp.reduce sum, %e [0] : tensor<2xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
