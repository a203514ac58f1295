// RUN: scrimp-opt --scrimp-convert-precision %s | FileCheck %s
// RUN: scrimp-opt --scrimp-convert-precision=to=f32 %s | FileCheck %s --check-prefix=F32
// RUN: not scrimp-opt --scrimp-convert-precision=to=f8 %s 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: cannot convert all floats to 'f8'; f64 and f32 are possible

// Types and the values of constants become f64: .1 is what it was in f32. Attributes that are no types stay, and so do
// other types.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  tensor<2xf64> {scrimp.init = {a = 5.000000e-01 : f64, kind = "constant"}, scrimp.name = "w", scrimp.param = "trainable"},
// CHECK-SAME:  tensor<2xi64> {scrimp.input = 0 : i64, scrimp.name = "i"},
// CHECK-SAME:  tensor<2xf64> {scrimp.name = "h", scrimp.param = "frozen"}) -> (tensor<f64> {scrimp.output = "loss"}) {
// CHECK-NEXT:  scrimp.constant dense<0.10000000149011612> : tensor<2xf64>
// CHECK-NEXT:  scrimp.constant dense<[1.000000e+00, 2.500000e-01]> : tensor<2xf64>
// CHECK-NEXT:  scrimp.constant dense<[1, 0]> : tensor<2xi64>
// CHECK-NEXT:  scrimp.constant dense<> : tensor<0xf64>
// CHECK-NEXT:  scrimp.constant dense<[0.0999755859375, 1.000000e+00]> : tensor<2xf64>
// CHECK-NEXT:  scrimp.cast %{{.*}} : tensor<2xf64> -> tensor<2xf64>
// CHECK-NEXT:  scrimp.clip %{{.*}} {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64} : tensor<2xf64>
// CHECK-NOT:   f32

// F32-LABEL: func.func @main(
// F32-NOT:   f16
// F32-COUNT-2: tensor<2xf32>
// F32:       scrimp.constant dense<[0.0999755859, 1.000000e+00]> : tensor<2xf32>
// F32-NOT:   f16
// F32-LABEL: func.func @double(
// F32-NEXT:  scrimp.constant dense<[-3.40282347E+38, 0xFF800000, 1.000000e-01]> : tensor<3xf32>
// F32-NEXT:  scrimp.cast %{{.*}} : tensor<3xf32> -> tensor<3xf32>
// F32-NOT:   f64>
func.func @main(%w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable",
                                   scrimp.init = {kind = "constant", a = 0.5 : f64}},
                %i: tensor<2xi64> {scrimp.name = "i", scrimp.input = 0 : i64},
                %h: tensor<2xf16> {scrimp.name = "h", scrimp.param = "frozen"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %tenth = scrimp.constant dense<0.1> : tensor<2xf32>
  %c = scrimp.constant dense<[1.0, 0.25]> : tensor<2xf32>
  %j = scrimp.constant dense<[1, 0]> : tensor<2xi64>
  %none = scrimp.constant dense<> : tensor<0xf32>
  %half = scrimp.constant dense<[0.1, 1.0]> : tensor<2xf16>
  %hf = scrimp.cast %h : tensor<2xf16> -> tensor<2xf32>
  %clip = scrimp.clip %hf {low = -1.0 : f64, high = 1.0 : f64} : tensor<2xf32>
  %k = scrimp.add %i, %j : tensor<2xi64>
  %a = scrimp.mul %w, %tenth : tensor<2xf32>
  %b = scrimp.add %a, %clip : tensor<2xf32>
  %d = scrimp.add %b, %c : tensor<2xf32>
  %loss = scrimp.reduce sum, %d [0] : tensor<2xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

func.func @double() -> tensor<3xf32> {
  %mask = scrimp.constant dense<[-1.7976931348623157e308, 0xFFF0000000000000, 0.1]> : tensor<3xf64>
  %0 = scrimp.cast %mask : tensor<3xf64> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
