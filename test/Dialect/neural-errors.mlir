// RUN: scrimp-opt %s -verify-diagnostics -split-input-file

func.func @softmax_scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{needs a dimension to normalize over, found 'tensor<f32>'}}
  %y = scrimp.softmax %x : tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @norm_axis(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{axis 2 must lie in [0, 2), the rank of x}}
  %y, %m, %r = scrimp.layer_norm %x {axis = 2 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xf32> -> tensor<2xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @norm_scale(%x: tensor<2x3xf32>, %w: tensor<2xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{scale must be 'tensor<3xf32>', the normalized dimensions of x, found 'tensor<2xf32>'}}
  %y, %r = scrimp.rms_norm %x scale(%w : tensor<2xf32>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xf32> -> tensor<2xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @norm_statistics(%x: tensor<2x3xbf16>) -> tensor<2x3xbf16> {
  // expected-error@+1 {{statistics must be 'tensor<2xf32>', found 'tensor<2xf64>'}}
  %y, %m, %r = scrimp.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x3xbf16> -> tensor<2xf64>
  return %y : tensor<2x3xbf16>
}

// -----

func.func @norm_epsilon(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{epsilon must not be negative, found -1}}
  %y, %m, %r = scrimp.layer_norm %x {axis = 1 : i64, epsilon = -1.0 : f64} : tensor<2x3xf32> -> tensor<2xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @labels(%x: tensor<4x5xf32>, %l: tensor<5xi64>) -> tensor<4xf32> {
  // expected-error@+1 {{labels must have the logits' shape without the classes, found 'tensor<4x5xf32>' and 'tensor<5xi64>'}}
  %loss, %lse = scrimp.cross_entropy %x, %l : tensor<4x5xf32>, tensor<5xi64> -> tensor<4xf32>
  return %loss : tensor<4xf32>
}

// -----

func.func @heads(%q: tensor<1x3x4x8xf32>, %k: tensor<1x2x4x8xf32>) -> tensor<1x3x4x8xf32> {
  // expected-error@+1 {{the query heads must be a multiple of the key-value heads, found 3 and 2}}
  %y, %l = scrimp.attention %q, %k, %k {scale = 1.0 : f64} : tensor<1x3x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x3x4x8xf32>, tensor<1x3x4xf32>
  return %y : tensor<1x3x4x8xf32>
}

// -----

func.func @mask(%q: tensor<2x3x4x8xf32>, %m: tensor<2x1x4x5xi1>) -> tensor<2x3x4x8xf32> {
  // expected-error@+1 {{the mask must be i1 or 'f32' and broadcast to [2, 3, 4, 4], or go by distance, [1 or 3, 7], found 'tensor<2x1x4x5xi1>'}}
  %y, %l = scrimp.attention %q, %q, %q mask(%m : tensor<2x1x4x5xi1>) {scale = 1.0 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32> -> tensor<2x3x4x8xf32>, tensor<2x3x4xf32>
  return %y : tensor<2x3x4x8xf32>
}

// -----

func.func @segments(%q: tensor<1x1x4x8xf32>, %k: tensor<1x1x6x8xf32>, %s: tensor<1x6xi64>) -> tensor<1x1x4x8xf32> {
  // expected-error@+1 {{segments must be [1, 6] with as many queries as keys, found 'tensor<1x6xi64>' for 4 queries}}
  %y, %l = scrimp.attention %q, %k, %k segments(%s : tensor<1x6xi64>) {scale = 1.0 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x6x8xf32>, tensor<1x1x6x8xf32> -> tensor<1x1x4x8xf32>, tensor<1x1x4xf32>
  return %y : tensor<1x1x4x8xf32>
}

// -----

func.func @lse(%q: tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32> {
  // expected-error@+1 {{lse must be 'tensor<1x1x4xf32>', found 'tensor<1x1x4xf64>'}}
  %y, %l = scrimp.attention %q, %q, %q {scale = 1.0 : f64} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32> -> tensor<1x1x4x8xf32>, tensor<1x1x4xf64>
  return %y : tensor<1x1x4x8xf32>
}

// -----

func.func @dropout_by_halves(%q: tensor<2x1x4x8xf32>, %s: tensor<i64>) -> tensor<2x1x4x8xf32> {
  // expected-error@+1 {{dropout takes seed, step, sample_base, `p` and `key`, all or none}}
  %y, %l = scrimp.attention %q, %q, %q dropout(%s, %s, %s) {scale = 1.0 : f64, p = 0.5 : f64} : tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32> -> tensor<2x1x4x8xf32>, tensor<2x1x4xf32>
  return %y : tensor<2x1x4x8xf32>
}

// -----

func.func @attention_samples(%q: tensor<2x1x4x8xf32>, %s: tensor<i64>) -> tensor<2x1x4x8xf32> {
  // expected-error@+1 {{a batch of 2 does not divide into 3 samples}}
  %y, %l = scrimp.attention %q, %q, %q dropout(%s, %s, %s) {scale = 1.0 : f64, p = 0.5 : f64, key = 0 : i64, samples = 3 : i64} : tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32> -> tensor<2x1x4x8xf32>, tensor<2x1x4xf32>
  return %y : tensor<2x1x4x8xf32>
}

// -----

func.func @attention_piece(%q: tensor<2x1x4x8xf32>, %o: tensor<3xi64>) -> tensor<2x1x4x8xf32> {
  // expected-error@+1 {{a piece of [1, 4, 4] needs an origin of 3 elements in a whole that holds it, found 'tensor<3xi64>' in [1, 3, 8]}}
  %y, %l = scrimp.attention %q, %q, %q origin(%o : tensor<3xi64>) {scale = 1.0 : f64, whole = array<i64: 1, 3, 8>} : tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32> -> tensor<2x1x4x8xf32>, tensor<2x1x4xf32>
  return %y : tensor<2x1x4x8xf32>
}

// -----

func.func @dropout_piece(%x: tensor<4x2xf32>, %s: tensor<i64>) -> tensor<4x2xf32> {
  // expected-error@+1 {{`origin` and `whole` come together}}
  %y = scrimp.dropout %x, %s, %s, %s {key = 0 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 0.5 : f64, whole = array<i64: 1, 2>} : tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

func.func @probability(%x: tensor<4xf32>, %s: tensor<i64>) -> tensor<4xf32> {
  // expected-error@+1 {{p must lie in [0, 1), found 1}}
  %y = scrimp.dropout %x, %s, %s, %s {key = 0 : i64, batch_dim = 0 : i64, samples = 4 : i64, p = 1.0 : f64} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @samples(%x: tensor<4x6xf32>, %s: tensor<i64>) -> tensor<4x6xf32> {
  // expected-error@+1 {{dimension 1 of size 6 does not divide into 4 samples}}
  %y = scrimp.dropout %x, %s, %s, %s {key = 0 : i64, batch_dim = 1 : i64, samples = 4 : i64, p = 0.5 : f64} : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

func.func @no_batch(%s: tensor<i64>) -> tensor<4xf32> {
  // expected-error@+1 {{without a batch dimension `samples` must be 1, found 2}}
  %y = scrimp.random_uniform %s, %s, %s {key = 0 : i64, batch_dim = -1 : i64, samples = 2 : i64, low = 0.0 : f64, high = 1.0 : f64} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @mask_by_distance(%q: tensor<2x3x4x8xf32>, %m: tensor<2x7xf32>) -> tensor<2x3x4x8xf32> {
  // expected-error@+1 {{the mask must be i1 or 'f32' and broadcast to [2, 3, 4, 4], or go by distance, [1 or 3, 7], found 'tensor<2x7xf32>'}}
  %y, %l = scrimp.attention %q, %q, %q mask(%m : tensor<2x7xf32>) {scale = 1.0 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32> -> tensor<2x3x4x8xf32>, tensor<2x3x4xf32>
  return %y : tensor<2x3x4x8xf32>
}

// -----

func.func @window(%q: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // expected-error@+1 {{the window must be two numbers, how far a query sees before and after itself, found 1}}
  %y, %l = scrimp.attention %q, %q, %q {scale = 1.0 : f64, window = array<i64: 4>} : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32> -> tensor<2x3x4x8xf32>, tensor<2x3x4xf32>
  return %y : tensor<2x3x4x8xf32>
}

// -----

func.func @mask_grad(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>, %m: tensor<3x7xi1>) -> tensor<3x7xf32> {
  // expected-error@+1 {{index must name one of the 1 masks, of floats and of the result's shape, found 0 for 'tensor<3x7xf32>'}}
  %d = scrimp.attention_mask_grad %q, %q, %q, %q, %l, %q mask(%m : tensor<3x7xi1>) {scale = 1.0 : f64, index = 0 : i64} : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32> -> tensor<3x7xf32>
  return %d : tensor<3x7xf32>
}

// -----

func.func @log_sum_exp_type(%x: tensor<2x3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{result type must be 'tensor<2xf32>', found 'tensor<3xf32>'}}
  %y = scrimp.log_sum_exp %x : tensor<2x3xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}
