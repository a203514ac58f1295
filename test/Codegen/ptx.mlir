// Kernels assemble for two generations of GPU, in every element type.
// REQUIRES: ptxas, libdevice
// RUN: scrimp-kernel-test --emit ptx --chip sm_80 %s > %t.80.ptx
// RUN: %ptxas -arch=sm_80 -o %t.80.cubin %t.80.ptx
// RUN: scrimp-kernel-test --emit ptx --chip sm_90a %s > %t.90a.ptx
// RUN: %ptxas -arch=sm_90a -o %t.90a.cubin %t.90a.ptx
// RUN: FileCheck %s < %t.80.ptx

// Products and sums keep their roundings: .rn forbids ptxas to contract them.
// CHECK: .target sm_80
// CHECK-DAG: .visible .entry k0
// CHECK-DAG: mul.rn.f32
// CHECK-NOT: .extern
func.func @main() -> (tensor<4x17xf32>, tensor<17x4xf16>, tensor<4x17xbf16>, tensor<4xf32>, tensor<4x17xf64>) {
  %x = scrimp.constant dense<[[0.5,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.],[0.5,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.],[0.5,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.],[0.5,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,2.]]> : tensor<4x17xf32>
  %b = scrimp.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = scrimp.reshape %b : tensor<4xf32> -> tensor<4x1xf32>
  %bb = scrimp.broadcast %r : tensor<4x1xf32> -> tensor<4x17xf32>
  %y = scrimp.mul %x, %bb : tensor<4x17xf32>
  %g = scrimp.gelu %y : tensor<4x17xf32>
  %l = scrimp.log1p %g : tensor<4x17xf32>
  %s = scrimp.sin %l : tensor<4x17xf32>
  %p = scrimp.pow %s, %y : tensor<4x17xf32>
  %h = scrimp.cast %p : tensor<4x17xf32> -> tensor<4x17xf16>
  %t = scrimp.transpose %h [1, 0] : tensor<4x17xf16> -> tensor<17x4xf16>
  %f = scrimp.cast %p : tensor<4x17xf32> -> tensor<4x17xbf16>
  %ff = scrimp.exp %f : tensor<4x17xbf16>
  %d = scrimp.cast %p : tensor<4x17xf32> -> tensor<4x17xf64>
  %dd = scrimp.exp %d : tensor<4x17xf64>
  %sum = scrimp.reduce sum, %p [1] : tensor<4x17xf32> -> tensor<4xf32>
  return %p, %t, %ff, %sum, %dd : tensor<4x17xf32>, tensor<17x4xf16>, tensor<4x17xbf16>, tensor<4xf32>, tensor<4x17xf64>
}
