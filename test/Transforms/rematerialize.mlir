// RUN: scrimp-opt %s --scrimp-rematerialize=policy=none | FileCheck %s --check-prefix=NONE
// RUN: scrimp-opt %s --scrimp-rematerialize=policy=recompute=*/gelu --cse -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=GELU
// RUN: scrimp-opt %s --scrimp-rematerialize=policy=full | FileCheck %s --check-prefix=FULL
// RUN: scrimp-opt %s --scrimp-rematerialize=policy=recompute=*/tanh --scrimp-form-kernels | FileCheck %s --check-prefix=KERNELS
// RUN: scrimp-opt %s --scrimp-rematerialize="policy=full list" -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: scrimp-opt %s --scrimp-rematerialize=policy=full --verify-roundtrip -o /dev/null

// Two layers, y = gelu(x w1) and sin(y w2); the backward pass reads the results of both products and y.
// NONE-LABEL: @train
// NONE-NOT:   after
// NONE:       return

// y is made again when the gradient of w2 needs it. Where the backward pass begins it waits for the forward pass. CSE
// leaves the two apart.
// GELU-LABEL: @train
// GELU:       %[[A:.*]] = scrimp.matmul {{.*}} loc("h.0.up/matmul")
// GELU-NEXT:  %[[Y:.*]] = scrimp.gelu %[[A]]
// GELU:       %[[LOSS:.*]] = scrimp.reduce sum
// GELU:       %[[COS:.*]] = scrimp.cos
// GELU-NEXT:  %[[WAIT:.*]] = scrimp.after %[[LOSS]], %[[A]] : {{.*}} loc(fused<"recomputed">["h.0.up/matmul"])
// GELU-NEXT:  %[[AGAIN:.*]] = scrimp.gelu %[[WAIT]] : {{.*}} loc(fused<"recomputed">["h.0.act/gelu"])
// GELU-NEXT:  scrimp.matmul %[[AGAIN]], %[[COS]] {transpose_a}

// Of each layer what it reads from outside is kept, x and y. The product of the first waits for the gradient that arrives
// at the layer's end, so the two are not alive at once.
// LIST:       remark: {{.*}}'h.0.up/matmul' 'tensor<16x8xf32>' is computed again: 512 bytes
// LIST-NEXT:  remark: {{.*}}'h.0.act/gelu' 'tensor<16x8xf32>' is kept: 512 bytes
// LIST-NEXT:  remark: {{.*}}'h.1.down/matmul' 'tensor<16x8xf32>' is computed again: 512 bytes
// FULL-LABEL: func.func @train
// FULL-SAME:  (%[[X:[^:]*]]: {{.*}}, %[[W1:[^:]*]]: {{.*}}, %[[W2:[^:]*]]: {{.*}}) ->
// FULL-NEXT:  %[[A:.*]] = scrimp.matmul %[[X]], %[[W1]]
// FULL-NEXT:  %[[Y:.*]] = scrimp.gelu %[[A]]
// FULL-NEXT:  %[[C:.*]] = scrimp.matmul %[[Y]], %[[W2]]
// FULL-NEXT:  scrimp.sin %[[C]]
// FULL-NEXT:  %[[LOSS:.*]] = scrimp.reduce sum
// FULL-NEXT:  %[[YL:.*]] = scrimp.after %[[LOSS]], %[[Y]]
// FULL-NEXT:  %[[W2L:.*]] = scrimp.after %[[LOSS]], %[[W2]]
// FULL-NEXT:  %[[C2:.*]] = scrimp.matmul %[[YL]], %[[W2L]]
// FULL-NEXT:  scrimp.cos %[[C2]]
// FULL-NEXT:  scrimp.matmul %[[Y]], {{.*}} {transpose_a}
// FULL-NEXT:  %[[GY:.*]] = scrimp.matmul {{.*}} {transpose_b}
// FULL-NEXT:  %[[XG:.*]] = scrimp.after %[[GY]], %[[X]]
// FULL-NEXT:  %[[W1G:.*]] = scrimp.after %[[GY]], %[[W1]]
// FULL-NEXT:  %[[A2:.*]] = scrimp.matmul %[[XG]], %[[W1G]]
// FULL-NEXT:  scrimp.sigmoid %[[A2]]

func.func @train(%x: tensor<16x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                 %w1: tensor<8x8xf32> {scrimp.name = "w1", scrimp.param = "trainable"},
                 %w2: tensor<8x8xf32> {scrimp.name = "w2", scrimp.param = "trainable"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<8x8xf32> {scrimp.gradient = "w1"},
        tensor<8x8xf32> {scrimp.gradient = "w2"}) {
  %a = scrimp.matmul %x, %w1 : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32> loc("h.0.up/matmul")
  %y = scrimp.gelu %a : tensor<16x8xf32> loc("h.0.act/gelu")
  %c = scrimp.matmul %y, %w2 : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32> loc("h.1.down/matmul")
  %d = scrimp.sin %c : tensor<16x8xf32> loc("h.1.act/sin")
  %loss = scrimp.reduce sum, %d [0, 1] : tensor<16x8xf32> -> tensor<f32> loc("sum")
  %gc = scrimp.cos %c : tensor<16x8xf32>
  %gw2 = scrimp.matmul %y, %gc {transpose_a} : tensor<16x8xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %gy = scrimp.matmul %gc, %w2 {transpose_b} : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>
  %s = scrimp.sigmoid %a : tensor<16x8xf32>
  %ga = scrimp.mul %gy, %s : tensor<16x8xf32>
  %gw1 = scrimp.matmul %x, %ga {transpose_a} : tensor<16x8xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  return %loss, %gw1, %gw2 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// A pointwise op is made again within its reader's kernel, which takes the kept product and stores nothing else. The
// kernel does not wait for the gradient in it, only for the product that this comes from.
// KERNELS-LABEL: @pointwise
// KERNELS:       %[[T:.*]] = scrimp.kernel(%[[A:[0-9]+]]) {{.*}} {
// KERNELS:         scrimp.tanh
// KERNELS:       %[[B:.*]] = scrimp.matmul %[[T]]
// KERNELS:       %[[G:[0-9]+]] = scrimp.matmul %[[B]]
// KERNELS:       %[[KEPT:.*]] = scrimp.after %[[G]], %[[A]]
// KERNELS:       scrimp.kernel(%[[G]], %[[KEPT]]) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32> {
// KERNELS:         scrimp.exp
// KERNELS:         scrimp.tanh
// KERNELS-NEXT:    scrimp.mul
// KERNELS-NEXT:    scrimp.yield
func.func @pointwise(%x: tensor<16x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                     %w: tensor<8x8xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                     %v: tensor<8x8xf32> {scrimp.name = "v", scrimp.param = "frozen"})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<8x8xf32> {scrimp.gradient = "w"}) {
  %a = scrimp.matmul %x, %w : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32> loc("up/matmul")
  %t = scrimp.tanh %a : tensor<16x8xf32> loc("act/tanh")
  %b = scrimp.matmul %t, %v : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32> loc("down/matmul")
  %loss = scrimp.reduce sum, %b [0, 1] : tensor<16x8xf32> -> tensor<f32> loc("sum")
  %g = scrimp.matmul %b, %v {transpose_b} : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>
  %e = scrimp.exp %g : tensor<16x8xf32>
  %m = scrimp.mul %e, %t : tensor<16x8xf32>
  %gw = scrimp.matmul %x, %m {transpose_a} : tensor<16x8xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  return %loss, %gw : tensor<f32>, tensor<8x8xf32>
}
