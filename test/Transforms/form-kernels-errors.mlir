// RUN: scrimp-opt --scrimp-form-kernels --split-input-file --verify-diagnostics %s

func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @leftover(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{'func.call' has no kernel: it must implement KernelOp, or be lowered before scrimp-form-kernels}}
  %0 = func.call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
