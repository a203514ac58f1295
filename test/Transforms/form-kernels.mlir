// RUN: scrimp-opt --scrimp-form-kernels --split-input-file %s | FileCheck %s
// RUN: scrimp-opt --scrimp-form-kernels=fuse=false --split-input-file %s | FileCheck %s --check-prefix=UNFUSED

// A chain of one shape is one kernel; only what others read is a result.
// CHECK-LABEL: @chain
// CHECK: %[[K:.+]] = scrimp.kernel(%arg0, %arg1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK: scrimp.add
// CHECK: scrimp.tanh
// CHECK: scrimp.yield %{{.+}} : tensor<4x8xf32>
// CHECK: return %[[K]]
// UNFUSED-LABEL: @chain
// UNFUSED-COUNT-2: scrimp.kernel
func.func @chain(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = scrimp.add %a, %b : tensor<4x8xf32>
  %1 = scrimp.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// The sum is read by the product (which is no kernel) and by the second sum, which waits for the product: fusing the
// two sums would make the kernel wait for itself.
// CHECK-LABEL: @not_convex
// CHECK: %[[A:.+]] = scrimp.kernel
// CHECK: %[[M:.+]] = scrimp.matmul %[[A]], %[[A]]
// CHECK: scrimp.kernel(%[[A]], %[[M]])
func.func @not_convex(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = scrimp.add %a, %a : tensor<4x4xf32>
  %1 = scrimp.matmul %0, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = scrimp.add %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// The mask of the backward pass depends on the forward value alone, but only the backward kernel reads it: it is
// computed there and never stored.
// CHECK-LABEL: @mask_stays_in_its_reader
// CHECK: %[[Y:.+]] = scrimp.kernel(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK: scrimp.relu
// CHECK: %[[M:.+]] = scrimp.matmul
// CHECK: scrimp.kernel(%[[Y]], %[[M]]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK: scrimp.compare
// CHECK: scrimp.select
func.func @mask_stays_in_its_reader(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = scrimp.constant dense<0.0> : tensor<4x4xf32>
  %y = scrimp.relu %x : tensor<4x4xf32>
  %mask = scrimp.compare gt, %y, %zero : tensor<4x4xf32> -> tensor<4x4xi1>
  %g = scrimp.matmul %y, %y : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dx = scrimp.select %mask, %g, %zero : tensor<4x4xf32>
  return %dx : tensor<4x4xf32>
}

// -----

// A broadcast is copied into the map kernel and into the reduction's; the product needs it stored.
// CHECK-LABEL: @free_producers
// CHECK-DAG: %[[B:.+]] = scrimp.kernel(%arg0) : (tensor<4xf32>) -> tensor<4x4xf32> {
// CHECK: scrimp.kernel(%arg1, %arg0) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
// CHECK: scrimp.broadcast
// CHECK: scrimp.add
// CHECK: scrimp.kernel(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: scrimp.broadcast
// CHECK: scrimp.reduce
// CHECK: scrimp.matmul %{{.+}}, %[[B]]
func.func @free_producers(%b: tensor<4xf32>, %x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  %0 = scrimp.broadcast %b : tensor<4xf32> -> tensor<4x4xf32>
  %1 = scrimp.add %x, %0 : tensor<4x4xf32>
  %2 = scrimp.reduce sum, %0 [1] : tensor<4x4xf32> -> tensor<4xf32>
  %3 = scrimp.matmul %1, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4x4xf32>
}

// -----

// Momentum: both updates of one parameter are one kernel, though the new moment leaves it.
// CHECK-LABEL: @update
// CHECK-COUNT-2: scrimp.view
// CHECK: %[[K:.+]]:2 = scrimp.kernel
// CHECK-DAG: scrimp.pack %[[K]]#0 into %arg1
// CHECK-DAG: scrimp.pack %[[K]]#1 into %arg0
func.func @update(%params: tensor<16xf32>, %moments: tensor<16xf32>, %g: tensor<2x4xf32>)
    -> (tensor<16xf32>, tensor<16xf32>) {
  %p = scrimp.view %params at 8 : tensor<16xf32> -> tensor<2x4xf32>
  %m = scrimp.view %moments at 8 : tensor<16xf32> -> tensor<2x4xf32>
  %beta = scrimp.constant dense<0.9> : tensor<2x4xf32>
  %0 = scrimp.mul %m, %beta : tensor<2x4xf32>
  %1 = scrimp.add %0, %g : tensor<2x4xf32>
  %moments2 = scrimp.pack %1 into %moments at 8 : tensor<2x4xf32>, tensor<16xf32>
  %2 = scrimp.sub %p, %1 : tensor<2x4xf32>
  %params2 = scrimp.pack %2 into %params at 8 : tensor<2x4xf32>, tensor<16xf32>
  return %params2, %moments2 : tensor<16xf32>, tensor<16xf32>
}

// -----

// A constant that is no splat stays, dead ops go.
// CHECK-LABEL: @constants
// CHECK-NEXT: %[[C:.+]] = scrimp.constant dense<[1.{{.*}}, 2.{{.*}}]>
// CHECK-NEXT: return %[[C]]
func.func @constants(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = scrimp.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = scrimp.exp %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// The product reads the parameter that @sub replaces. Fused with the sum, which comes later, it still stays before the
// update, although no value says so.
// CHECK-LABEL: func.func @reader_before_update
// CHECK: %[[SUM:.*]] = scrimp.kernel
// CHECK: scrimp.mul
// CHECK: scrimp.add
// CHECK: %[[NEW:.*]] = scrimp.kernel
// CHECK: scrimp.sub
// CHECK: scrimp.pack %[[NEW]] into
func.func @reader_before_update(%bucket: tensor<16xf32> {scrimp.name = "bucket", scrimp.param = "trainable"},
                                %x: tensor<4x16xf32>, %g: tensor<16xf32>)
    -> (tensor<4x16xf32>, tensor<16xf32> {scrimp.updates = 0 : i64}) {
  %w = scrimp.view %bucket at 0 : tensor<16xf32> -> tensor<16xf32>
  %wide = scrimp.broadcast %w : tensor<16xf32> -> tensor<4x16xf32>
  %product = scrimp.mul %x, %wide : tensor<4x16xf32>
  %new = scrimp.sub %w, %g : tensor<16xf32>
  %sum = scrimp.add %product, %x : tensor<4x16xf32>
  %packed = scrimp.pack %new into %bucket at 0 : tensor<16xf32>, tensor<16xf32>
  return %sum, %packed : tensor<4x16xf32>, tensor<16xf32>
}

// -----

// A body is grouped by itself. One splat begins two accumulators: each gets zeros of its own. The sum into the first is
// fused with what is added; the kernel reads and writes the same bytes.
// CHECK-LABEL: @body
// CHECK: %[[A:.+]] = scrimp.kernel() : () -> tensor<4xf32>
// CHECK: %[[B:.+]] = scrimp.kernel() : () -> tensor<4xf32>
// CHECK: scrimp.accumulate 2 split({{.*}}) init(%[[B]], %[[A]] : tensor<4xf32>, tensor<4xf32>) {
// CHECK: ^bb0(%{{.+}}: tensor<i64>, %[[PIECE:.+]]: tensor<4xf32>, %[[S:.+]]: tensor<4xf32>, %[[T:.+]]: tensor<4xf32>):
// CHECK-NEXT: %[[K:.+]]:2 = scrimp.kernel({{.*}}%[[PIECE]]
// CHECK: scrimp.exp
// CHECK: scrimp.yield
// CHECK-NOT: scrimp.kernel
// CHECK: scrimp.yield %[[K]]#{{[01]}}, %[[K]]#{{[01]}}
// UNFUSED-LABEL: @body
// UNFUSED: scrimp.accumulate
// UNFUSED-COUNT-3: scrimp.kernel
func.func @body(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = scrimp.constant dense<0.0> : tensor<4xf32>
  %y:2 = scrimp.accumulate 2 split(%x along [0] : tensor<8xf32>) init(%zero, %zero : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<4xf32>, %s: tensor<4xf32>, %t: tensor<4xf32>):
    %e = scrimp.exp %piece : tensor<4xf32>
    %s1 = scrimp.add %s, %e : tensor<4xf32>
    %t1 = scrimp.mul %t, %e : tensor<4xf32>
    scrimp.yield %s1, %t1 : tensor<4xf32>, tensor<4xf32>
  }
  return %y#0, %y#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The second select waits for the mask, through a view that comes after both; its kernel makes the product, for which the
// first select waits. So mask and first select stay apart.
// CHECK-LABEL: @kernels_would_wait_for_each_other
// CHECK: %[[M:.+]] = scrimp.kernel(%arg2, %arg3) : {{.*}} -> tensor<2xi1> {
// CHECK: %[[V:.+]] = scrimp.reshape %[[M]]
// CHECK: %[[P:.+]]:2 = scrimp.kernel(%arg0, {{.*}}%[[V]]{{.*}}) : {{.*}} -> (tensor<2x12xf32>, tensor<2x12xf32>) {
// CHECK: %[[R:.+]] = scrimp.kernel(%[[P]]#0) : (tensor<2x12xf32>) -> tensor<2xf32> {
// CHECK: %[[S:.+]] = scrimp.kernel({{.*}}%[[R]]{{.*}}) : {{.*}} -> tensor<2xf32> {
// CHECK: return %[[S]], %[[P]]#1
func.func @kernels_would_wait_for_each_other(%a: tensor<2x12xf32>, %b: tensor<2x12xf32>, %p: tensor<2xi64>, %q: tensor<2xi64>) -> (tensor<2xf32>, tensor<2x12xf32>) {
  %z = scrimp.constant dense<0.0> : tensor<2x12xf32>
  %z2 = scrimp.constant dense<0.0> : tensor<2xf32>
  %0 = scrimp.mul %a, %a : tensor<2x12xf32>
  %1 = scrimp.mul %0, %b : tensor<2x12xf32>
  %2 = scrimp.reduce min, %0 [1] : tensor<2x12xf32> -> tensor<2xf32>
  %mask = scrimp.compare lt, %p, %q : tensor<2xi64> -> tensor<2xi1>
  %3 = scrimp.select %mask, %2, %z2 : tensor<2xf32>
  %view = scrimp.reshape %mask : tensor<2xi1> -> tensor<2x1xi1>
  %wide = scrimp.broadcast %view : tensor<2x1xi1> -> tensor<2x12xi1>
  %4 = scrimp.select %wide, %1, %z : tensor<2x12xf32>
  return %3, %4 : tensor<2xf32>, tensor<2x12xf32>
}

// -----

// The wide value is stored for the view; the product, which shares the kernel of what it widens, does not wait for that.
// CHECK-LABEL: @stored_and_copied
// CHECK: %[[K:.+]]:2 = scrimp.kernel(%arg0) : (tensor<2x4xf16>) -> (tensor<2x4xf16>, tensor<2x4xf32>) {
// CHECK: %[[W:.+]] = scrimp.kernel(%[[K]]#0) : (tensor<2x4xf16>) -> tensor<2x4xf32> {
// CHECK: scrimp.reshape %[[W]]
func.func @stored_and_copied(%x: tensor<2x4xf16>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %0 = scrimp.tanh %x : tensor<2x4xf16>
  %1 = scrimp.cast %0 : tensor<2x4xf16> -> tensor<2x4xf32>
  %2 = scrimp.mul %1, %1 : tensor<2x4xf32>
  %3 = scrimp.reshape %1 : tensor<2x4xf32> -> tensor<8xf32>
  return %3, %2 : tensor<8xf32>, tensor<2x4xf32>
}

// -----

// What only maps of one kernel read of a norm's gradient, they compute where it would be stored.
// CHECK-LABEL: @finished
// CHECK:      %[[K:.+]] = scrimp.kernel(%arg0, %arg1, %arg2, %arg3, %arg4)
// CHECK-SAME:   -> tensor<4x8xbf16> {
// CHECK:        %[[DX:.+]] = scrimp.layer_norm_grad
// CHECK-NEXT:   %[[W:.+]] = scrimp.cast %[[DX]]
// CHECK-NEXT:   %[[O:.+]] = scrimp.cast
// CHECK-NEXT:   %[[S:.+]] = scrimp.add %[[W]], %[[O]]
// CHECK-NEXT:   %[[Y:.+]] = scrimp.cast %[[S]]
// CHECK-NEXT:   scrimp.yield %[[Y]]
// CHECK:      return %[[K]]
func.func @finished(%x: tensor<4x8xbf16>, %mean: tensor<4xf32>, %rstd: tensor<4xf32>, %g: tensor<4x8xbf16>, %h: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %g {axis = 1 : i64} : tensor<4x8xbf16>, tensor<4xf32>
  %w = scrimp.cast %dx : tensor<4x8xbf16> -> tensor<4x8xf32>
  %o = scrimp.cast %h : tensor<4x8xbf16> -> tensor<4x8xf32>
  %s = scrimp.add %w, %o : tensor<4x8xf32>
  %y = scrimp.cast %s : tensor<4x8xf32> -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// -----

// Not where something else reads it too, where a path leaves the kernel, or where the row op reads back what it stores.
// CHECK-LABEL: @not_finished
// CHECK:      scrimp.kernel(
// CHECK:        scrimp.layer_norm_grad
// CHECK-NEXT:   scrimp.yield
// CHECK:      scrimp.matmul
// CHECK:      scrimp.kernel(
// CHECK:        scrimp.layer_norm
// CHECK-NEXT:   scrimp.yield
// CHECK:      scrimp.kernel(
// CHECK:        scrimp.softmax
// CHECK-NEXT:   scrimp.yield
func.func @not_finished(%x: tensor<4x4xf32>, %mean: tensor<4xf32>, %rstd: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %dx = scrimp.layer_norm_grad %x, %mean, %rstd, %x {axis = 1 : i64} : tensor<4x4xf32>, tensor<4xf32>
  %m = scrimp.matmul %dx, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %a = scrimp.add %dx, %m : tensor<4x4xf32>
  %y, %mean2, %rstd2 = scrimp.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-05 : f64} : tensor<4x4xf32> -> tensor<4xf32>
  %c = scrimp.reshape %mean2 : tensor<4xf32> -> tensor<4x1xf32>
  %d = scrimp.matmul %a, %c : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x1xf32>
  %e = scrimp.broadcast %d : tensor<4x1xf32> -> tensor<4x4xf32>
  %b = scrimp.mul %y, %e : tensor<4x4xf32>
  %s = scrimp.softmax %x : tensor<4x4xf32>
  %t = scrimp.tanh %s : tensor<4x4xf32>
  return %a, %b, %t : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
