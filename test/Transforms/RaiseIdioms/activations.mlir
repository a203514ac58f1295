// RUN: scrimp-opt %s --scrimp-raise-idioms | FileCheck %s
// RUN: scrimp-run %s > %t.before
// RUN: scrimp-opt %s --scrimp-raise-idioms | scrimp-run - > %t.after
// RUN: %python %S/Inputs/compare.py %t.before %t.after 1e-14

// CHECK-LABEL: @gelu(
// CHECK-NEXT: %[[Y:.*]] = scrimp.gelu %arg0
// CHECK-NEXT: return %[[Y]]
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = scrimp.constant dense<1.41421354> : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %half = scrimp.constant dense<0.5> : tensor<4xf32>
  %u = scrimp.div %x, %root : tensor<4xf32>
  %erf = scrimp.erf %u : tensor<4xf32>
  %sum = scrimp.add %erf, %one : tensor<4xf32>
  %scaled = scrimp.mul %half, %sum : tensor<4xf32>
  %y = scrimp.mul %x, %scaled : tensor<4xf32>
  return %y : tensor<4xf32>
}

// The root of two as the exporter rounds it to f32 is no root of two in a double model.
// CHECK-LABEL: @gelu_rounded_constant(
// CHECK: scrimp.erf
// CHECK-NOT: scrimp.gelu
func.func @gelu_rounded_constant(%x: tensor<4xf64>) -> tensor<4xf64> {
  %root = scrimp.constant dense<1.4142135381698608> : tensor<4xf64>
  %one = scrimp.constant dense<1.0> : tensor<4xf64>
  %half = scrimp.constant dense<0.5> : tensor<4xf64>
  %u = scrimp.div %x, %root : tensor<4xf64>
  %erf = scrimp.erf %u : tensor<4xf64>
  %sum = scrimp.add %erf, %one : tensor<4xf64>
  %scaled = scrimp.mul %x, %sum : tensor<4xf64>
  %y = scrimp.mul %scaled, %half : tensor<4xf64>
  return %y : tensor<4xf64>
}

// CHECK-LABEL: @gelu_of_other_value(
// CHECK-NOT: scrimp.gelu
func.func @gelu_of_other_value(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %root = scrimp.constant dense<0.707106769> : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %half = scrimp.constant dense<0.5> : tensor<4xf32>
  %u = scrimp.mul %z, %root : tensor<4xf32>
  %erf = scrimp.erf %u : tensor<4xf32>
  %sum = scrimp.add %erf, %one : tensor<4xf32>
  %scaled = scrimp.mul %half, %sum : tensor<4xf32>
  %y = scrimp.mul %x, %scaled : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @gelu_tanh(
// CHECK-NEXT: %[[Y:.*]] = scrimp.gelu_tanh %arg0
// CHECK-NEXT: return %[[Y]]
func.func @gelu_tanh(%x: tensor<4xf64>) -> tensor<4xf64> {
  %half = scrimp.constant dense<0.5> : tensor<4xf64>
  %a = scrimp.constant dense<0.044715> : tensor<4xf64>
  %c = scrimp.constant dense<0.79788456080286541> : tensor<4xf64>
  %one = scrimp.constant dense<1.0> : tensor<4xf64>
  %x2 = scrimp.mul %x, %x : tensor<4xf64>
  %x3 = scrimp.mul %x2, %x : tensor<4xf64>
  %ax3 = scrimp.mul %x3, %a : tensor<4xf64>
  %sum = scrimp.add %x, %ax3 : tensor<4xf64>
  %u = scrimp.mul %sum, %c : tensor<4xf64>
  %t = scrimp.tanh %u : tensor<4xf64>
  %t1 = scrimp.add %t, %one : tensor<4xf64>
  %hx = scrimp.mul %x, %half : tensor<4xf64>
  %y = scrimp.mul %hx, %t1 : tensor<4xf64>
  return %y : tensor<4xf64>
}

// With a power, and the factored form x (1 + a x^2).
// CHECK-LABEL: @gelu_tanh_forms(
// CHECK-DAG: %[[P:.*]] = scrimp.gelu_tanh %arg0
// CHECK-DAG: %[[F:.*]] = scrimp.gelu_tanh %arg1
// CHECK: return %[[P]], %[[F]]
func.func @gelu_tanh_forms(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = scrimp.constant dense<0.5> : tensor<4xf32>
  %a = scrimp.constant dense<0.044715> : tensor<4xf32>
  %c = scrimp.constant dense<0.79788456> : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %three = scrimp.constant dense<3.0> : tensor<4xf32>
  %x3 = scrimp.pow %x, %three : tensor<4xf32>
  %ax3 = scrimp.mul %a, %x3 : tensor<4xf32>
  %sum = scrimp.add %x, %ax3 : tensor<4xf32>
  %u = scrimp.mul %c, %sum : tensor<4xf32>
  %t = scrimp.tanh %u : tensor<4xf32>
  %t1 = scrimp.add %one, %t : tensor<4xf32>
  %hx = scrimp.mul %half, %x : tensor<4xf32>
  %y = scrimp.mul %hx, %t1 : tensor<4xf32>
  %az = scrimp.mul %a, %z : tensor<4xf32>
  %az2 = scrimp.mul %az, %z : tensor<4xf32>
  %p = scrimp.add %one, %az2 : tensor<4xf32>
  %cz = scrimp.mul %z, %c : tensor<4xf32>
  %v = scrimp.mul %cz, %p : tensor<4xf32>
  %tz = scrimp.tanh %v : tensor<4xf32>
  %tz1 = scrimp.add %one, %tz : tensor<4xf32>
  %hz = scrimp.mul %half, %z : tensor<4xf32>
  %w = scrimp.mul %hz, %tz1 : tensor<4xf32>
  return %y, %w : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @gelu_tanh_squared(
// CHECK-NOT: scrimp.gelu_tanh
func.func @gelu_tanh_squared(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = scrimp.constant dense<0.5> : tensor<4xf32>
  %a = scrimp.constant dense<0.044715> : tensor<4xf32>
  %c = scrimp.constant dense<0.79788456> : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %x2 = scrimp.mul %x, %x : tensor<4xf32>
  %ax2 = scrimp.mul %a, %x2 : tensor<4xf32>
  %sum = scrimp.add %x, %ax2 : tensor<4xf32>
  %u = scrimp.mul %c, %sum : tensor<4xf32>
  %t = scrimp.tanh %u : tensor<4xf32>
  %t1 = scrimp.add %one, %t : tensor<4xf32>
  %hx = scrimp.mul %half, %x : tensor<4xf32>
  %y = scrimp.mul %hx, %t1 : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @silu(
// CHECK-DAG: %[[A:.*]] = scrimp.silu %arg0
// CHECK-DAG: %[[B:.*]] = scrimp.silu %arg1
// CHECK: return %[[A]], %[[B]]
func.func @silu(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %y = scrimp.mul %s, %x : tensor<4xf32>
  %one = scrimp.constant dense<1.0> : tensor<4xf32>
  %n = scrimp.neg %z : tensor<4xf32>
  %e = scrimp.exp %n : tensor<4xf32>
  %d = scrimp.add %e, %one : tensor<4xf32>
  %q = scrimp.div %z, %d : tensor<4xf32>
  return %y, %q : tensor<4xf32>, tensor<4xf32>
}

// A gate is no SiLU.
// CHECK-LABEL: @gate(
// CHECK-NOT: scrimp.silu
func.func @gate(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %s = scrimp.sigmoid %x : tensor<4xf32>
  %y = scrimp.mul %s, %z : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @main(
// CHECK-DAG: scrimp.gelu %
// CHECK-DAG: scrimp.gelu_tanh %
// CHECK-DAG: scrimp.silu %
func.func @main() -> (tensor<64xf64>, tensor<64xf64>, tensor<64xf64>) {
  %x = scrimp.iota {dim = 0 : i64, start = -6.0 : f64, step = 0.19 : f64} : tensor<64xf64>
  %half = scrimp.constant dense<0.5> : tensor<64xf64>
  %one = scrimp.constant dense<1.0> : tensor<64xf64>
  %root = scrimp.constant dense<1.4142135623730951> : tensor<64xf64>
  %ux = scrimp.div %x, %root : tensor<64xf64>
  %erf = scrimp.erf %ux : tensor<64xf64>
  %erf1 = scrimp.add %erf, %one : tensor<64xf64>
  %xerf = scrimp.mul %x, %erf1 : tensor<64xf64>
  %gelu = scrimp.mul %xerf, %half : tensor<64xf64>
  %a = scrimp.constant dense<0.044715> : tensor<64xf64>
  %c = scrimp.constant dense<0.79788456080286541> : tensor<64xf64>
  %x2 = scrimp.mul %x, %x : tensor<64xf64>
  %x3 = scrimp.mul %x2, %x : tensor<64xf64>
  %ax3 = scrimp.mul %x3, %a : tensor<64xf64>
  %sum = scrimp.add %x, %ax3 : tensor<64xf64>
  %u = scrimp.mul %sum, %c : tensor<64xf64>
  %t = scrimp.tanh %u : tensor<64xf64>
  %t1 = scrimp.add %t, %one : tensor<64xf64>
  %hx = scrimp.mul %x, %half : tensor<64xf64>
  %gelu_tanh = scrimp.mul %hx, %t1 : tensor<64xf64>
  %s = scrimp.sigmoid %x : tensor<64xf64>
  %silu = scrimp.mul %s, %x : tensor<64xf64>
  return %gelu, %gelu_tanh, %silu : tensor<64xf64>, tensor<64xf64>, tensor<64xf64>
}
