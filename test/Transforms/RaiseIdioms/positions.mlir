// Masks that are functions of positions, at a length at which [T,T] is 2^28 elements: nothing is evaluated.
// RUN: scrimp-opt %s --scrimp-raise-idioms --cse 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks --implicit-check-not='remark:'

// A triangle cut out of a larger one, transposed and spread: key > query, seen from the other side.
// CHECK-LABEL: @moved(
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @moved(%q: tensor<2x1x16384x4xf32>, %k: tensor<2x1x16384x4xf32>, %v: tensor<2x1x16384x4xf32>) -> tensor<2x1x16384x4xf32> {
  %i = scrimp.iota {dim = 0 : i64} : tensor<20000x1xi64>
  %j = scrimp.iota {dim = 1 : i64} : tensor<1x20000xi64>
  %is = scrimp.broadcast %i : tensor<20000x1xi64> -> tensor<20000x20000xi64>
  %js = scrimp.broadcast %j : tensor<1x20000xi64> -> tensor<20000x20000xi64>
  %upper = scrimp.compare ge, %js, %is : tensor<20000x20000xi64> -> tensor<20000x20000xi1>
  %cut = scrimp.slice %upper [7, 7] [1, 1] : tensor<20000x20000xi1> -> tensor<16384x16384xi1>
  %lower = scrimp.transpose %cut [1, 0] : tensor<16384x16384xi1> -> tensor<16384x16384xi1>
  %shaped = scrimp.reshape %lower : tensor<16384x16384xi1> -> tensor<1x1x16384x16384xi1>
  %mask = scrimp.broadcast %shaped : tensor<1x1x16384x16384xi1> -> tensor<2x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<2x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  return %y : tensor<2x1x16384x4xf32>
}

// Distances in floats, doubled; queries at the end of the keys.
// CHECK-LABEL: @distances(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64}
func.func @distances(%q: tensor<1x1x8192x4xf32>, %k: tensor<1x1x16384x4xf32>, %v: tensor<1x1x16384x4xf32>) -> tensor<1x1x8192x4xf32> {
  %i = scrimp.iota {dim = 2 : i64, start = 8192.0 : f64} : tensor<1x1x8192x16384xi32>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x8192x16384xi32>
  %d = scrimp.sub %i, %j : tensor<1x1x8192x16384xi32>
  %f = scrimp.cast %d : tensor<1x1x8192x16384xi32> -> tensor<1x1x8192x16384xf32>
  %two = scrimp.constant dense<2.0> : tensor<1x1x8192x16384xf32>
  %twice = scrimp.mul %f, %two : tensor<1x1x8192x16384xf32>
  %minus = scrimp.constant dense<-1.0> : tensor<1x1x8192x16384xf32>
  %sees = scrimp.compare gt, %twice, %minus : tensor<1x1x8192x16384xf32> -> tensor<1x1x8192x16384xi1>
  %zero = scrimp.constant dense<0.0> : tensor<1x1x8192x16384xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<1x1x8192x16384xf32>
  %mask = scrimp.select %sees, %zero, %lowest : tensor<1x1x8192x16384xf32>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x8192x16384xf32>) {scale = 1.0 : f64}
    : tensor<1x1x8192x4xf32>, tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32> -> tensor<1x1x8192x4xf32>, tensor<1x1x8192xf32>
  return %y : tensor<1x1x8192x4xf32>
}

// Products of positions are no function of the distance, and that is told.
// REMARK: remark: attention reads a mask of 'tensor<1x1x16384x16384xi1>', 256 MiB: it is not known to depend on the distance from query to key alone
// CHECK-LABEL: @products(
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%{{.*}} : tensor<1x1x16384x16384xi1>) {scale = 1.000000e+00 : f64}
func.func @products(%q: tensor<1x1x16384x4xf32>, %k: tensor<1x1x16384x4xf32>, %v: tensor<1x1x16384x4xf32>) -> tensor<1x1x16384x4xf32> {
  %i = scrimp.iota {dim = 2 : i64} : tensor<1x1x16384x16384xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x16384x16384xi64>
  %p = scrimp.mul %i, %j : tensor<1x1x16384x16384xi64>
  %mask = scrimp.compare le, %p, %i : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32>, tensor<1x1x16384x4xf32> -> tensor<1x1x16384x4xf32>, tensor<1x1x16384xf32>
  return %y : tensor<1x1x16384x4xf32>
}

// A sliding window of 7 keys, the conjunction under what spreads it.
// CHECK-LABEL: @window(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64, window = array<i64: 6, 0>}
func.func @window(%q: tensor<2x1x16384x4xf32>, %k: tensor<2x1x16384x4xf32>, %v: tensor<2x1x16384x4xf32>) -> tensor<2x1x16384x4xf32> {
  %i = scrimp.iota {dim = 0 : i64} : tensor<16384x16384xi64>
  %j = scrimp.iota {dim = 1 : i64} : tensor<16384x16384xi64>
  %seven = scrimp.constant dense<7> : tensor<16384x16384xi64>
  %start = scrimp.sub %i, %seven : tensor<16384x16384xi64>
  %near = scrimp.compare gt, %j, %start : tensor<16384x16384xi64> -> tensor<16384x16384xi1>
  %earlier = scrimp.compare le, %j, %i : tensor<16384x16384xi64> -> tensor<16384x16384xi1>
  %both = scrimp.and %near, %earlier : tensor<16384x16384xi1>
  %mask = scrimp.reshape %both : tensor<16384x16384xi1> -> tensor<1x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%mask : tensor<1x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  return %y : tensor<2x1x16384x4xf32>
}

// Keys on both sides; and only those before the query, whose other bound is the largest distance.
// CHECK-LABEL: @local(
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64, window = array<i64: 5, 5>}
// CHECK-NEXT: scrimp.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64, window = array<i64: 32768, -1>}
func.func @local(%q: tensor<2x1x16384x4xf32>, %k: tensor<2x1x16384x4xf32>, %v: tensor<2x1x16384x4xf32>) -> (tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>) {
  %i = scrimp.iota {dim = 2 : i64} : tensor<1x1x16384x16384xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x16384x16384xi64>
  %d = scrimp.sub %i, %j : tensor<1x1x16384x16384xi64>
  %away = scrimp.abs %d : tensor<1x1x16384x16384xi64>
  %five = scrimp.constant dense<5> : tensor<1x1x16384x16384xi64>
  %near = scrimp.compare le, %away, %five : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %y, %lse = scrimp.attention %q, %k, %v mask(%near : tensor<1x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  %before = scrimp.compare lt, %j, %i : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %y2, %lse2 = scrimp.attention %q, %k, %v mask(%before : tensor<1x1x16384x16384xi1>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  return %y, %y2 : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>
}

// Slopes times distances go by distance, slopes times positions of keys by key; a causal mask beside them is an
// attribute, although it only lowers.
// CHECK-LABEL: @alibi(
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%{{.*}} : tensor<2x32767xf32>) {causal, scale = 1.000000e+00 : f64}
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%{{.*}} : tensor<1x2x1x16384xf32>) {scale = 1.000000e+00 : f64}
func.func @alibi(%q: tensor<2x2x16384x4xf32>, %k: tensor<2x2x16384x4xf32>, %v: tensor<2x2x16384x4xf32>) -> (tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32>) {
  %i = scrimp.iota {dim = 2 : i64} : tensor<1x1x16384x16384xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x16384x16384xi64>
  %d = scrimp.sub %j, %i : tensor<1x1x16384x16384xi64>
  %f = scrimp.cast %d : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xf32>
  %fs = scrimp.broadcast %f : tensor<1x1x16384x16384xf32> -> tensor<1x2x16384x16384xf32>
  %slopes = scrimp.constant dense<[[[[0.5]], [[0.25]]]]> : tensor<1x2x1x1xf32>
  %ss = scrimp.broadcast %slopes : tensor<1x2x1x1xf32> -> tensor<1x2x16384x16384xf32>
  %bias = scrimp.mul %fs, %ss : tensor<1x2x16384x16384xf32>
  %sees = scrimp.compare le, %j, %i : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %zero = scrimp.constant dense<0.0> : tensor<1x1x16384x16384xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<1x1x16384x16384xf32>
  %low = scrimp.select %sees, %zero, %lowest : tensor<1x1x16384x16384xf32>
  %lows = scrimp.broadcast %low : tensor<1x1x16384x16384xf32> -> tensor<1x2x16384x16384xf32>
  %mask = scrimp.add %bias, %lows : tensor<1x2x16384x16384xf32>
  %y, %lse = scrimp.attention %q, %k, %v mask(%bias, %low : tensor<1x2x16384x16384xf32>, tensor<1x1x16384x16384xf32>) {scale = 1.0 : f64}
    : tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32> -> tensor<2x2x16384x4xf32>, tensor<2x2x16384xf32>
  %jf = scrimp.cast %j : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xf32>
  %jfs = scrimp.broadcast %jf : tensor<1x1x16384x16384xf32> -> tensor<1x2x16384x16384xf32>
  %byKey = scrimp.mul %ss, %jfs : tensor<1x2x16384x16384xf32>
  %y2, %lse2 = scrimp.attention %q, %k, %v mask(%byKey : tensor<1x2x16384x16384xf32>) {scale = 1.0 : f64}
    : tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32> -> tensor<2x2x16384x4xf32>, tensor<2x2x16384xf32>
  return %y, %y2 : tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32>
}

// A learned table looked up by a function of the distance; data that hide keys keep a lowering causal mask a mask, by
// distance: where all of a row is lowered alike, lowering is not hiding.
// CHECK-LABEL: @learned(
// CHECK: %[[BUCKETS:.*]] = scrimp.minimum %{{.*}} : tensor<1x32767xi64>
// CHECK: scrimp.gather %arg2, %[[BUCKETS]] {dim = 0 : i64} : tensor<8x2xf32>, tensor<1x32767xi64> -> tensor<1x32767x2xf32>
// CHECK: scrimp.attention {{.*}} mask(%arg3, %{{.*}}, %{{.*}} : tensor<2x1x1x16384xf32>, tensor<1x32767xf32>, tensor<2x32767xf32>) {scale = 1.000000e+00 : f64}
func.func @learned(%q: tensor<2x2x16384x4xf32>, %k: tensor<2x2x16384x4xf32>, %table: tensor<8x2xf32>, %padding: tensor<2x1x1x16384xf32>) -> tensor<2x2x16384x4xf32> {
  %i = scrimp.iota {dim = 0 : i64} : tensor<16384x1xi64>
  %j = scrimp.iota {dim = 1 : i64} : tensor<1x16384xi64>
  %is = scrimp.broadcast %i : tensor<16384x1xi64> -> tensor<16384x16384xi64>
  %js = scrimp.broadcast %j : tensor<1x16384xi64> -> tensor<16384x16384xi64>
  %d = scrimp.sub %is, %js : tensor<16384x16384xi64>
  %away = scrimp.abs %d : tensor<16384x16384xi64>
  %seven = scrimp.constant dense<7> : tensor<16384x16384xi64>
  %bucket = scrimp.minimum %away, %seven : tensor<16384x16384xi64>
  %values = scrimp.gather %table, %bucket {dim = 0 : i64} : tensor<8x2xf32>, tensor<16384x16384xi64> -> tensor<16384x16384x2xf32>
  %heads = scrimp.transpose %values [2, 0, 1] : tensor<16384x16384x2xf32> -> tensor<2x16384x16384xf32>
  %bias = scrimp.reshape %heads : tensor<2x16384x16384xf32> -> tensor<1x2x16384x16384xf32>
  %sees = scrimp.compare le, %js, %is : tensor<16384x16384xi64> -> tensor<16384x16384xi1>
  %zero = scrimp.constant dense<0.0> : tensor<16384x16384xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<16384x16384xf32>
  %low = scrimp.select %sees, %zero, %lowest : tensor<16384x16384xf32>
  %lows = scrimp.reshape %low : tensor<16384x16384xf32> -> tensor<1x1x16384x16384xf32>
  %y, %lse = scrimp.attention %q, %k, %k mask(%padding, %lows, %bias : tensor<2x1x1x16384xf32>, tensor<1x1x16384x16384xf32>, tensor<1x2x16384x16384xf32>) {scale = 1.0 : f64}
    : tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32>, tensor<2x2x16384x4xf32> -> tensor<2x2x16384x4xf32>, tensor<2x2x16384xf32>
  return %y : tensor<2x2x16384x4xf32>
}

// Two lowering masks, of which each could hide what the other leaves, are one (GPT-Neo); lowering beside something else
// is a mask of its own (Falcon).
// CHECK-LABEL: @lowered(
// CHECK: scrimp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64, window = array<i64: 6, 0>}
// CHECK: scrimp.attention %arg0, %arg1, %arg2 mask(%arg3 : tensor<1x1x1x16384xf32>) {causal, scale = 1.000000e+00 : f64}
func.func @lowered(%q: tensor<2x1x16384x4xf32>, %k: tensor<2x1x16384x4xf32>, %v: tensor<2x1x16384x4xf32>, %alibi: tensor<1x1x1x16384xf32> {scrimp.param = "trainable"}) -> (tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>) {
  %i = scrimp.iota {dim = 2 : i64} : tensor<1x1x16384x16384xi64>
  %j = scrimp.iota {dim = 3 : i64} : tensor<1x1x16384x16384xi64>
  %seven = scrimp.constant dense<7> : tensor<1x1x16384x16384xi64>
  %start = scrimp.sub %i, %seven : tensor<1x1x16384x16384xi64>
  %near = scrimp.compare gt, %j, %start : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %earlier = scrimp.compare le, %j, %i : tensor<1x1x16384x16384xi64> -> tensor<1x1x16384x16384xi1>
  %zero = scrimp.constant dense<0.0> : tensor<1x1x16384x16384xf32>
  %lowest = scrimp.constant dense<-3.40282347E+38> : tensor<1x1x16384x16384xf32>
  %a = scrimp.select %near, %zero, %lowest : tensor<1x1x16384x16384xf32>
  %b = scrimp.select %earlier, %zero, %lowest : tensor<1x1x16384x16384xf32>
  %y, %lse = scrimp.attention %q, %k, %v mask(%a, %b : tensor<1x1x16384x16384xf32>, tensor<1x1x16384x16384xf32>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  %spread = scrimp.broadcast %alibi : tensor<1x1x1x16384xf32> -> tensor<1x1x16384x16384xf32>
  %c = scrimp.select %earlier, %spread, %lowest : tensor<1x1x16384x16384xf32>
  %y2, %lse2 = scrimp.attention %q, %k, %v mask(%c : tensor<1x1x16384x16384xf32>) {scale = 1.0 : f64}
    : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32> -> tensor<2x1x16384x4xf32>, tensor<2x1x16384xf32>
  return %y, %y2 : tensor<2x1x16384x4xf32>, tensor<2x1x16384x4xf32>
}
