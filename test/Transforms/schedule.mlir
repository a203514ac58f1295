// RUN: scrimp-opt %s --scrimp-schedule --split-input-file | FileCheck %s
// RUN: scrimp-opt %s --scrimp-schedule=keep-order --split-input-file | FileCheck %s --check-prefix=KEEP
// RUN: scrimp-opt %s --scrimp-schedule --scrimp-plan-memory --split-input-file -o /dev/null

// Both gradients come before both updates; each update frees a gradient, so it runs as soon as its gradient is there:
// the second gradient needs the first parameter no more.
// CHECK-LABEL: @updates_early
// KEEP-LABEL: @updates_early
// KEEP: scrimp.mul
// KEEP-NEXT: scrimp.mul
func.func @updates_early(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                         %p: tensor<8xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                         %q: tensor<8xf32> {scrimp.name = "q", scrimp.param = "trainable"})
    -> (tensor<8xf32> {scrimp.updates = 1 : i64}, tensor<8xf32> {scrimp.updates = 2 : i64}) {
  // CHECK: %[[G:.*]] = scrimp.mul
  // CHECK: scrimp.sub %{{.*}}, %[[G]]
  // CHECK: %[[H:.*]] = scrimp.mul
  // CHECK: scrimp.sub %{{.*}}, %[[H]]
  %g = scrimp.mul %x, %p : tensor<8xf32>
  %h = scrimp.mul %x, %q : tensor<8xf32>
  %p1 = scrimp.sub %p, %g : tensor<8xf32>
  %q1 = scrimp.sub %q, %h : tensor<8xf32>
  return %p1, %q1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// A tied parameter: the second gradient still reads the old p, through a view of the bucket, so p's update waits for
// it. Nothing but the shared bytes says so.
// CHECK-LABEL: @update_waits_for_reader
func.func @update_waits_for_reader(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                                   %p: tensor<16xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<16xf32> {scrimp.updates = 1 : i64}) {
  %p0 = scrimp.view %p at 0 : tensor<16xf32> -> tensor<8xf32>
  %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<8xf32>
  %all = scrimp.view %p at 0 : tensor<16xf32> -> tensor<16xf32>
  // CHECK: scrimp.mul
  // CHECK: scrimp.reduce
  // CHECK: scrimp.sub
  %g0 = scrimp.mul %x, %p0 : tensor<8xf32>
  %norm = scrimp.reduce sum, %all [0] : tensor<16xf32> -> tensor<f32>
  %scale = scrimp.broadcast %norm : tensor<f32> -> tensor<8xf32>
  %q0 = scrimp.sub %p0, %g0 : tensor<8xf32>
  %q1 = scrimp.mul %p1, %scale : tensor<8xf32>
  %b0 = scrimp.pack %q0 into %p at 0 : tensor<8xf32>, tensor<16xf32>
  %b1 = scrimp.pack %q1 into %b0 at 8 : tensor<8xf32>, tensor<16xf32>
  return %b1 : tensor<16xf32>
}

// -----

// The given order reads p after its bytes have been replaced; the value is the old p, so that read goes first.
// CHECK-LABEL: @late_reader_moves_up
// KEEP-LABEL: @late_reader_moves_up
// KEEP: scrimp.mul
// KEEP: scrimp.sub
func.func @late_reader_moves_up(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                                %p: tensor<16xf32> {scrimp.name = "p", scrimp.param = "trainable"})
    -> (tensor<16xf32> {scrimp.updates = 1 : i64}, tensor<8xf32> {scrimp.output = "y"}) {
  // CHECK: scrimp.mul
  // CHECK: scrimp.sub
  %p1 = scrimp.view %p at 8 : tensor<16xf32> -> tensor<8xf32>
  %q1 = scrimp.sub %p1, %x : tensor<8xf32>
  %b1 = scrimp.pack %q1 into %p at 8 : tensor<8xf32>, tensor<16xf32>
  %y = scrimp.mul %x, %p1 : tensor<8xf32>
  return %b1, %y : tensor<16xf32>, tensor<8xf32>
}

// -----

// A running statistic is updated after the loss is known, although the given order has it before: a step whose loss is
// not finite changes nothing.
// CHECK-LABEL: @updates_after_loss
func.func @updates_after_loss(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                              %s: tensor<8xf32> {scrimp.name = "mean", scrimp.state})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<8xf32> {scrimp.updates = 1 : i64}) {
  // CHECK: scrimp.reduce
  // CHECK: scrimp.add
  %new = scrimp.add %s, %x : tensor<8xf32>
  %loss = scrimp.reduce sum, %x [0] : tensor<8xf32> -> tensor<f32>
  return %loss, %new : tensor<f32>, tensor<8xf32>
}

// -----

// The big values are made one by one instead of all at first: a, its sum, b, its sum.
// CHECK-LABEL: @free_first
func.func @free_first(%x: tensor<1024xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> tensor<f32> {
  // CHECK: scrimp.exp
  // CHECK-NEXT: scrimp.reduce
  // CHECK-NEXT: scrimp.tanh
  // CHECK-NEXT: scrimp.reduce
  %a = scrimp.exp %x : tensor<1024xf32>
  %b = scrimp.tanh %x : tensor<1024xf32>
  %c = scrimp.reduce sum, %a [0] : tensor<1024xf32> -> tensor<f32>
  %d = scrimp.reduce sum, %b [0] : tensor<1024xf32> -> tensor<f32>
  %y = scrimp.add %c, %d : tensor<f32>
  return %y : tensor<f32>
}

// -----

// Nothing to gain: the given order stays.
// CHECK-LABEL: @order_stays
func.func @order_stays(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> tensor<8xf32> {
  // CHECK: scrimp.exp
  // CHECK-NEXT: scrimp.tanh
  // CHECK-NEXT: scrimp.add
  %a = scrimp.exp %x : tensor<8xf32>
  %b = scrimp.tanh %x : tensor<8xf32>
  %y = scrimp.add %a, %b : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A gate: the state is updated only once the norm is known, though its update depends on nothing; without the gate it
// would come first.
// CHECK-LABEL: @updates_wait_for_gate
// KEEP-LABEL: @updates_wait_for_gate
// KEEP: scrimp.sqrt
// KEEP: scrimp.sub
func.func @updates_wait_for_gate(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                                 %s: tensor<8xf32> {scrimp.name = "s", scrimp.state})
    -> (tensor<f64> {scrimp.output = "grad_norm", scrimp.gate}, tensor<8xf32> {scrimp.updates = 1 : i64}) {
  // CHECK: scrimp.sqrt
  // CHECK: scrimp.sub
  %new = scrimp.sub %s, %x : tensor<8xf32>
  %squares = scrimp.sum_squares %x : tensor<8xf32> -> tensor<1xf64>
  %sum = scrimp.reshape %squares : tensor<1xf64> -> tensor<f64>
  %checked = scrimp.check_finite %sum of "w" : tensor<f64>
  %norm = scrimp.sqrt %checked : tensor<f64>
  return %norm, %new : tensor<f64>, tensor<8xf32>
}

// -----

// A body is ordered by itself: both 128 elements at once would be the peak of each iteration.
// CHECK-LABEL: @body
// CHECK: scrimp.accumulate
// CHECK: %[[E:.*]] = scrimp.exp
// CHECK: scrimp.reduce sum, %[[E]]
// CHECK: %[[T:.*]] = scrimp.tanh
// CHECK: scrimp.reduce sum, %[[T]]
// KEEP-LABEL: @body
// KEEP: scrimp.exp
// KEEP-NEXT: scrimp.tanh
func.func @body(%x: tensor<4x128xf32> {scrimp.name = "x", scrimp.input = 0 : i64}) -> (tensor<1xf32> {scrimp.output = "y"}) {
  %first = scrimp.iota {dim = 0 : i64} : tensor<1xf32>
  %y = scrimp.accumulate 4 split(%x along [0] : tensor<4x128xf32>) init(%first : tensor<1xf32>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<1x128xf32>, %s: tensor<1xf32>):
    %e = scrimp.exp %piece : tensor<1x128xf32>
    %t = scrimp.tanh %piece : tensor<1x128xf32>
    %a = scrimp.reduce sum, %e [1] : tensor<1x128xf32> -> tensor<1xf32>
    %b = scrimp.reduce sum, %t [1] : tensor<1x128xf32> -> tensor<1xf32>
    %c = scrimp.add %a, %b : tensor<1xf32>
    %d = scrimp.add %s, %c : tensor<1xf32>
    scrimp.yield %d : tensor<1xf32>
  }
  return %y : tensor<1xf32>
}

// -----

// What reads the accumulator's old contents comes before the new ones, wherever it stands in the body.
// CHECK-LABEL: @old_accumulator
// CHECK: ^bb0(%{{.*}}, %[[S:.*]]: tensor<4xf32>, %[[T:.*]]: tensor<4xf32>):
// CHECK-NEXT: scrimp.exp %[[S]]
// CHECK-NEXT: scrimp.add %[[S]], %{{.*}}
// KEEP-LABEL: @old_accumulator
// KEEP: scrimp.exp
// KEEP-NEXT: scrimp.add
func.func @old_accumulator(%x: tensor<8xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
    -> (tensor<4xf32> {scrimp.output = "y"}, tensor<4xf32> {scrimp.output = "z"}) {
  %a = scrimp.iota {dim = 0 : i64} : tensor<4xf32>
  %b = scrimp.iota {dim = 0 : i64, start = 1.0 : f64} : tensor<4xf32>
  %y, %z = scrimp.accumulate 2 split(%x along [0] : tensor<8xf32>) init(%a, %b : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %piece: tensor<4xf32>, %s: tensor<4xf32>, %t: tensor<4xf32>):
    %s1 = scrimp.add %s, %piece : tensor<4xf32>
    %e = scrimp.exp %s : tensor<4xf32>
    %t1 = scrimp.mul %t, %e : tensor<4xf32>
    scrimp.yield %s1, %t1 : tensor<4xf32>, tensor<4xf32>
  }
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A piece of a bucket, computed in its bytes, would be overwritten by what gives the rest: it comes after that, also where
// the order is kept.
// CHECK-LABEL: @piece_behind_its_bucket
// CHECK: scrimp.reduce
// CHECK: scrimp.tanh
// CHECK: scrimp.pack
// KEEP-LABEL: @piece_behind_its_bucket
// KEEP: scrimp.reduce
// KEEP: scrimp.tanh
func.func @piece_behind_its_bucket(%x: tensor<4x32xf32>, %g: tensor<16xf32>) -> tensor<32xf32> {
  %piece = scrimp.kernel(%g) : (tensor<16xf32>) -> tensor<16xf32> {
  ^bb0(%a: tensor<16xf32>):
    %0 = scrimp.tanh %a : tensor<16xf32>
    scrimp.yield %0 : tensor<16xf32>
  }
  %rest = scrimp.kernel(%x) : (tensor<4x32xf32>) -> tensor<32xf32> {
  ^bb0(%a: tensor<4x32xf32>):
    %0 = scrimp.reduce sum, %a [0] : tensor<4x32xf32> -> tensor<32xf32>
    scrimp.yield %0 : tensor<32xf32>
  }
  %bucket = scrimp.pack %piece into %rest at 16 : tensor<16xf32>, tensor<32xf32>
  return %bucket : tensor<32xf32>
}
