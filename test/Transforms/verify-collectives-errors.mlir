// RUN: scrimp-opt %s --scrimp-verify-collectives -verify-diagnostics -split-input-file

// Nothing is wrong: a loop is run alike by all, and on a check they agree.
func.func @train(%x: tensor<4x2xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                 %p: tensor<2xf32> {scrimp.name = "p", scrimp.param = "trainable"},
                 %rank: tensor<i64> {scrimp.scalar = "rank"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<2xf32> {scrimp.updates = 1 : i64}) {
  %zero = scrimp.constant dense<0.0> : tensor<f32>
  %sum = scrimp.accumulate 2 shared(%p : tensor<2xf32>) split(%x along [0] : tensor<4x2xf32>) init(%zero : tensor<f32>) {
  ^bb0(%i: tensor<i64>, %q: tensor<2xf32>, %piece: tensor<2x2xf32>, %s: tensor<f32>):
    %b = scrimp.broadcast %q : tensor<2xf32> -> tensor<2x2xf32>
    %c = scrimp.mul %b, %piece : tensor<2x2xf32>
    %d = scrimp.reduce sum, %c [0, 1] : tensor<2x2xf32> -> tensor<f32>
    %flying = scrimp.all_reduce sum, %d world 2 : tensor<f32>
    %e = scrimp.wait %flying : tensor<f32>
    %t = scrimp.add %s, %e : tensor<f32>
    scrimp.yield %t : tensor<f32>
  }
  %checked = scrimp.check_finite %sum of "p" : tensor<f32>
  %spread = scrimp.broadcast %checked : tensor<f32> -> tensor<2xf32>
  %mine = scrimp.shard %p, %rank world 2 : tensor<2xf32> -> tensor<1xf32>
  %new = scrimp.mul %mine, %mine : tensor<1xf32>
  %gathering = scrimp.all_gather %new world 2 : tensor<1xf32> -> tensor<2xf32>
  %whole = scrimp.wait %gathering : tensor<2xf32>
  %p1 = scrimp.mul %whole, %spread : tensor<2xf32>
  return %sum, %p1 : tensor<f32>, tensor<2xf32>
}

// -----

func.func @two_worlds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = scrimp.all_reduce sum, %x world 2 : tensor<4xf32>
  %b = scrimp.wait %a : tensor<4xf32>
  // expected-error @+1 {{is for 4 ranks, but the program for 2}}
  %c = scrimp.all_reduce sum, %x world 4 : tensor<4xf32>
  %d = scrimp.wait %c : tensor<4xf32>
  return %b, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @nobody_waits(%x: tensor<4xf32>) {
  // expected-error @+1 {{is started, but nothing waits for it}}
  %a = scrimp.all_reduce sum, %x world 2 : tensor<4xf32>
  return
}

// -----

// A number that happens to be one of the ranks' is not what the runtime goes by.
func.func @part_of_another(%x: tensor<4xf32>, %which: tensor<i64> {scrimp.scalar = "step"}) -> tensor<2xf32> {
  // expected-error @+1 {{gives a rank's part, but by another number than that of the rank; expected the argument with scrimp.scalar = "rank"}}
  %a = scrimp.shard %x, %which world 2 : tensor<4xf32> -> tensor<2xf32>
  return %a : tensor<2xf32>
}

// -----

// The dialect itself keeps collectives out of what may not run.
func.func @conditional(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = scrimp.conditional %c init(%x : tensor<4xf32>) : tensor<i1> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{is not elementwise}}
    %b = scrimp.all_reduce sum, %a world 2 : tensor<4xf32>
    %d = scrimp.wait %b : tensor<4xf32>
    scrimp.yield %d : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
