// RUN: scrimp-kernel-test --emit kernels --workers 1 %s | FileCheck %s

// Accesses at the loop's own indices need no index arithmetic: one flat loop over any range of elements.
// CHECK-LABEL: func.func @k0
// CHECK-SAME: (%[[X:.+]]: memref<24xf32>, %[[OUT:.+]]: memref<24xf32>, %[[BEGIN:.+]]: index, %[[END:.+]]: index)
// CHECK: scf.for %[[I:.+]] = %[[BEGIN]] to %[[END]]
// CHECK-NEXT: %[[E:.+]] = memref.load %[[X]][%[[I]]]
// CHECK-NEXT: %[[R:.+]] = math.exp %[[E]]
// CHECK-NEXT: memref.store %[[R]], %[[OUT]][%[[I]]]
// CHECK-NEXT: } {scrimp.parallel}

// A bias is read by the column alone: units are rows, whatever is before them.
// CHECK-LABEL: func.func @k1
// CHECK: scf.for %[[ROW:.+]] =
// CHECK-NEXT: %[[BASE:.+]] = arith.muli %[[ROW]], %c4
// CHECK-NEXT: scf.for %[[J:.+]] =
// CHECK-DAG: %[[I:.+]] = arith.addi %[[BASE]], %[[J]]
// CHECK-DAG: memref.load %arg0[%[[I]]]
// CHECK-DAG: memref.load %arg1[%[[J]]]

// i1 elements are stored as bytes.
// CHECK-LABEL: func.func @k2
// CHECK-SAME: memref<24xi8>
// CHECK: arith.extui

// Two kernels in all that are equal to k0: emitted once.
// CHECK-NOT: func.func
func.func @main() -> (tensor<2x3x4xf32>, tensor<2x3x4xi1>) {
  %c = scrimp.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %x = scrimp.constant dense_resource<x> : tensor<2x3x4xf32>
  %0 = scrimp.exp %x : tensor<2x3x4xf32>
  %m = scrimp.reshape %0 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %b = scrimp.broadcast %c : tensor<4xf32> -> tensor<2x3x4xf32>
  %1 = scrimp.add %m, %b : tensor<2x3x4xf32>
  %m1 = scrimp.reshape %1 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %2 = scrimp.compare lt, %m1, %m : tensor<2x3x4xf32> -> tensor<2x3x4xi1>
  %m2 = scrimp.reshape %m1 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %3 = scrimp.exp %m2 : tensor<2x3x4xf32>
  return %3, %2 : tensor<2x3x4xf32>, tensor<2x3x4xi1>
}
{-# dialect_resources: { builtin: { x: "0x04000000000080BF666666BFCDCC4CBF333333BF9A9919BF000000BFCDCCCCBE9A9999BECDCC4CBECDCCCCBD00000000CDCCCC3DCDCC4C3E9A99993ECDCCCC3E0000003F9A99193F3333333FCDCC4C3F6666663F0000803FCDCC8C3F9A99993F6666A63F" } } #-}
