// RUN: scrimp-opt %s --scrimp-plan-memory=capacity=1000 -verify-diagnostics

// x takes 4096 bytes, y overwrites nothing (x is an input): 8192 in all.
// expected-error @+1 {{the plan needs 8192 bytes but the capacity is 1000; the largest block at the peak is 'x' with 4096 bytes}}
func.func @train(%x: tensor<1024xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> tensor<1024xf32> {
  %y = scrimp.exp %x : tensor<1024xf32> loc("body.exp")
  return %y : tensor<1024xf32>
}
