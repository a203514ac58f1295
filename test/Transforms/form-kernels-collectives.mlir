// RUN: scrimp-opt %s --scrimp-form-kernels | FileCheck %s

// Neither the start nor the wait is in a kernel. The update of p, with all that is fused with it, comes after p has been sent.
// CHECK-LABEL: @held
// CHECK-NEXT: %[[FLYING:.*]] = scrimp.all_gather %{{.*}} world 2
// CHECK-NEXT: scrimp.wait %[[FLYING]]
// CHECK-NEXT: scrimp.kernel
// CHECK: scrimp.sub
// CHECK-NOT: scrimp.kernel
func.func @held(%x: tensor<16xf32> {scrimp.name = "x", scrimp.input = -1 : i64},
                %p: tensor<16xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<16xf32> {scrimp.updates = 1 : i64}, tensor<16xf32>, tensor<32xf32>) {
  %flying = scrimp.all_gather %p world 2 : tensor<16xf32> -> tensor<32xf32>
  %e = scrimp.exp %x : tensor<16xf32>
  %whole = scrimp.wait %flying : tensor<32xf32>
  %p1 = scrimp.sub %p, %e : tensor<16xf32>
  return %p1, %e, %whole : tensor<16xf32>, tensor<16xf32>, tensor<32xf32>
}
