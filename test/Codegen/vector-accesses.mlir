// What a device loads and stores at once: 16 bytes, where that is as many neighbours and their address allows it.
// REQUIRES: ptxas
// RUN: scrimp-kernel-test --target cuda --emit ptx %s > %t.ptx
// RUN: FileCheck %s --implicit-check-not=bar.warp < %t.ptx
// RUN: %ptxas -arch=sm_80 -o %t.cubin %t.ptx

func.func @main(%x: tensor<30x130xf32>, %h: tensor<600x256xbf16>, %w: tensor<256xf32>, %r: tensor<600x256xf32>,
                %odd: tensor<64x1001xf32>, %flat: tensor<4096xf32>, %t: tensor<64x96xf32>,
                %logits: tensor<16x8192xf32>, %labels: tensor<16xi64>)
    -> (tensor<30x130xf32>, tensor<600x256xf32>, tensor<600x256xbf16>, tensor<600xf32>, tensor<600xf32>,
        tensor<600x256xf32>, tensor<64x1001xf32>, tensor<31xf32>, tensor<96x64xf32>, tensor<16xf32>) {
  // 3900 elements: 975 groups of 4.
  // CHECK-LABEL: .entry k0(
  // CHECK: ld.global.v4.b32
  // CHECK: st.global.v4.b32
  // CHECK-NOT: ld.global
  %y = scrimp.exp %x : tensor<30x130xf32>

  // Eight of 16 bits become two times four of 32.
  // CHECK-LABEL: .entry k1(
  // CHECK: ld.global.v4.b32
  // CHECK-NOT: ld.global
  // CHECK-COUNT-2: st.global.v4.b32
  %wide = scrimp.cast %h : tensor<600x256xbf16> -> tensor<600x256xf32>

  // A row of 256 is a warp's, which keeps it: one load of the row, two of the scale. Two warps make a block, without a
  // barrier.
  // CHECK-LABEL: .entry k2(
  // CHECK-COUNT-3: ld.global.v4.b32
  // CHECK-NOT: ld.global
  // CHECK: shfl.sync
  // CHECK-NOT: ld.global
  %ln, %mean, %rstd = scrimp.layer_norm %h scale(%w : tensor<256xf32>) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<600x256xbf16> -> tensor<600xf32>

  // What is the same for a row is loaded once for four elements.
  // CHECK-LABEL: .entry k3(
  // CHECK-NOT: .entry
  // CHECK-DAG: ld.global.b32
  // CHECK-DAG: ld.global.v4.b32
  // CHECK: st.global.v4.b32
  %column = scrimp.reshape %mean : tensor<600xf32> -> tensor<600x1xf32>
  %spread = scrimp.broadcast %column : tensor<600x1xf32> -> tensor<600x256xf32>
  %centred = scrimp.sub %r, %spread : tensor<600x256xf32>

  // Rows of an odd length are not aligned.
  // CHECK-LABEL: .entry k4(
  // CHECK-NOT: global.v
  // CHECK-LABEL: .entry k5(
  %p = scrimp.softmax %odd : tensor<64x1001xf32>

  // A view that begins at an odd element is not aligned, its result is.
  // CHECK-NOT: ld.global.v
  %part = scrimp.view %flat at 33 : tensor<4096xf32> -> tensor<31xf32>
  %e = scrimp.exp %part : tensor<31xf32>

  // Neighbours of a transposed tensor are not neighbours in memory.
  // CHECK-LABEL: .entry k6(
  // CHECK-NOT: ld.global.v
  %turned = scrimp.transpose %t [1, 0] : tensor<64x96xf32> -> tensor<96x64xf32>

  // Maximum and sum of exponentials are one pass over the classes; of the label's logit there is one more load.
  // CHECK-LABEL: .entry k7(
  // CHECK: ld.global.v4.b32
  // CHECK-NOT: ld.global.v
  // CHECK-LABEL: .entry
  %loss, %lse = scrimp.cross_entropy %logits, %labels : tensor<16x8192xf32>, tensor<16xi64> -> tensor<16xf32>
  return %y, %wide, %ln, %mean, %rstd, %centred, %p, %e, %turned, %loss : tensor<30x130xf32>, tensor<600x256xf32>,
      tensor<600x256xbf16>, tensor<600xf32>, tensor<600xf32>, tensor<600x256xf32>, tensor<64x1001xf32>, tensor<31xf32>,
      tensor<96x64xf32>, tensor<16xf32>
}
