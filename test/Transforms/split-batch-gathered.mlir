// What is made of gathered parameters alone is made for each micro-batch where these are gathered for each use, and once
// before the loop where they are kept.
// RUN: scrimp-opt %s --scrimp-split-batch=micro-batches=2 --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: @for_each_use
// CHECK-NOT:   scrimp.all_gather
// CHECK:       scrimp.accumulate 2 shared(%arg1 : tensor<2xf32>)
// CHECK:       %[[START:.*]] = scrimp.all_gather %{{.*}} world 2 use 0
// CHECK-NEXT:  %[[WHOLE:.*]] = scrimp.wait %[[START]]
// CHECK-NEXT:  %[[SCALE:.*]] = scrimp.exp %[[WHOLE]]
// CHECK:       scrimp.yield
// CHECK-NOT:   scrimp.all_gather
func.func @for_each_use(%x: tensor<6x4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                        %p: tensor<2xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %start = scrimp.all_gather %p world 2 use 0 : tensor<2xf32> -> tensor<4xf32>
  %whole = scrimp.wait %start : tensor<4xf32>
  %scale = scrimp.exp %whole : tensor<4xf32>
  %rows = scrimp.broadcast %scale : tensor<4xf32> -> tensor<6x4xf32>
  %y = scrimp.mul %x, %rows : tensor<6x4xf32>
  %loss = scrimp.reduce sum, %y [0, 1] : tensor<6x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: @kept
// CHECK:       %[[START:.*]] = scrimp.all_gather %{{.*}} world 2 :
// CHECK-NEXT:  %[[WHOLE:.*]] = scrimp.wait %[[START]]
// CHECK-NEXT:  %[[SCALE:.*]] = scrimp.exp %[[WHOLE]]
// CHECK:       scrimp.accumulate 2 shared(%[[SCALE]] : tensor<4xf32>)
func.func @kept(%x: tensor<6x4xf32> {scrimp.input = 0 : i64, scrimp.name = "x"},
                %p: tensor<2xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %start = scrimp.all_gather %p world 2 : tensor<2xf32> -> tensor<4xf32>
  %whole = scrimp.wait %start : tensor<4xf32>
  %scale = scrimp.exp %whole : tensor<4xf32>
  %rows = scrimp.broadcast %scale : tensor<4xf32> -> tensor<6x4xf32>
  %y = scrimp.mul %x, %rows : tensor<6x4xf32>
  %loss = scrimp.reduce sum, %y [0, 1] : tensor<6x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
