// RUN: scrimp-opt --scrimp-autodiff -verify-diagnostics -split-input-file %s

// expected-error @below {{no function @main, which scrimp-autodiff starts from}}
module {}

// -----

// expected-error @below {{the graph has no loss: no result of @main has scrimp.output = "loss"; name one with --loss}}
func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"}) -> tensor<f32> {
  return %w : tensor<f32>
}

// -----

func.func @main(%w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<2xf32> {scrimp.output = "loss"}) {
  // expected-error @below {{the loss must be a scalar, found 'tensor<2xf32>'; reduce it by a mean or a sum}}
  %y = scrimp.exp %w : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<i64> {scrimp.output = "loss"}) {
  // expected-error @below {{the loss must be of a float type, found 'tensor<i64>'}}
  %y = scrimp.cast %w : tensor<f32> -> tensor<i64>
  return %y : tensor<i64>
}

// -----

// expected-error @below {{nothing to train: @main has no trainable parameter; choose some with --trainable PATTERN}}
func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "frozen"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  return %w : tensor<f32>
}

// -----

// expected-warning @below {{the loss does not depend on the trainable parameter 'w'}}
func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"},
                // expected-error @below {{the loss depends on no trainable parameter}}
                %x: tensor<f32> {scrimp.name = "x", scrimp.input = -1 : i64})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  return %x : tensor<f32>
}

// -----

// The path through an integer carries no gradient, so nothing is trained.
// expected-warning @below {{the loss does not depend on the trainable parameter 'w'}}
func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %i = scrimp.cast %w : tensor<f32> -> tensor<i64>
  // expected-error @below {{the loss depends on no trainable parameter}}
  %y = scrimp.cast %i : tensor<i64> -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  // expected-error @below {{'arith.negf' op has no gradient but lies between trainable parameters and the loss; freeze what comes before it, or compute it by differentiable ops}}
  %y = arith.negf %w : tensor<f32>
  return %y : tensor<f32>
}

// -----

// Off the path the same op is no concern of the pass.
func.func @main(%w: tensor<f32> {scrimp.name = "w", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<f32>) {
  %y = arith.negf %w : tensor<f32>
  return %w, %y : tensor<f32>, tensor<f32>
}
