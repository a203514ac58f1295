// On a device a bucket that is cast member by member is cast at once, in each block that reads it; on a CPU, and where much
// of the bucket stays as it is, nothing changes.
// RUN: scrimp-opt %s --scrimp-attach-target=kind=emulated --scrimp-cast-buckets | FileCheck %s
// RUN: scrimp-opt %s --scrimp-attach-target --scrimp-cast-buckets | FileCheck %s --check-prefix=CPU
// CPU-LABEL: func.func @main
// CPU-COUNT-2: scrimp.cast %{{.*}} : tensor<{{[0-9]+x8}}xf32>
// CPU-NOT:     tensor<160xbf16>

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<160xf32>
// CHECK-NEXT:    %[[B:.*]] = scrimp.view %[[W]] at 128
// CHECK-NEXT:    %[[ALL:.*]] = scrimp.cast %[[W]] : tensor<160xf32> -> tensor<160xbf16>
// CHECK-NEXT:    %[[A:.*]] = scrimp.view %[[ALL]] at 0 : tensor<160xbf16> -> tensor<16x8xbf16>
// CHECK-NEXT:    %[[C:.*]] = scrimp.view %[[ALL]] at 128 : tensor<160xbf16> -> tensor<3x8xbf16>
// CHECK-NEXT:    return %[[A]], %[[C]], %[[B]]
func.func @main(%w: tensor<160xf32>) -> (tensor<16x8xbf16>, tensor<3x8xbf16>, tensor<3x8xf32>) {
  %a = scrimp.view %w at 0 : tensor<160xf32> -> tensor<16x8xf32>
  %b = scrimp.view %w at 128 : tensor<160xf32> -> tensor<3x8xf32>
  %x = scrimp.cast %a : tensor<16x8xf32> -> tensor<16x8xbf16>
  %y = scrimp.cast %b : tensor<3x8xf32> -> tensor<3x8xbf16>
  return %x, %y, %b : tensor<16x8xbf16>, tensor<3x8xbf16>, tensor<3x8xf32>
}

// CHECK-LABEL: func.func @little
// CHECK-NOT:     -> tensor<160xbf16>
// CHECK:         return
func.func @little(%w: tensor<160xf32>) -> (tensor<14x8xbf16>, tensor<3x8xbf16>) {
  %a = scrimp.view %w at 0 : tensor<160xf32> -> tensor<14x8xf32>
  %b = scrimp.view %w at 128 : tensor<160xf32> -> tensor<3x8xf32>
  %x = scrimp.cast %a : tensor<14x8xf32> -> tensor<14x8xbf16>
  %y = scrimp.cast %b : tensor<3x8xf32> -> tensor<3x8xbf16>
  return %x, %y : tensor<14x8xbf16>, tensor<3x8xbf16>
}
