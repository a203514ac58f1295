// Batch normalisation in the interpreter: F.batch_norm(x, mean, var, scale, bias, True, 0, epsilon).
// Expected numbers are PyTorch 2.15's in float64, by the expression beside each (F is torch.nn.functional);
// ar(*shape, m, o) = (torch.arange(prod(shape)) % m - o).reshape(shape).
// RUN: scrimp-run %s | FileCheck %s

func.func @main() -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
  // x = [[1,2],[3,6]]: the last result is the unbiased variance, x.var(0).
  %ax = scrimp.constant dense<[[1.0, 2.0], [3.0, 6.0]]> : tensor<2x2xf32>
  %as = scrimp.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %ab = scrimp.constant dense<[0.0, 0.0]> : tensor<2xf32>
  %arm = scrimp.constant dense<[0.0, 0.0]> : tensor<2xf32>
  %arv = scrimp.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %ady = scrimp.constant dense<[[1.0, -1.0], [2.0, 0.5]]> : tensor<2x2xf32>
  // CHECK: {{\[\[}}{{-0[.]99999500003[0-9]*}}, {{-0[.]99999875000[0-9]*}}], [{{0[.]99999500003[0-9]*}}, {{0[.]99999875000[0-9]*}}]]
  // CHECK-NEXT: [2, 4]
  // CHECK-NEXT: [{{0[.]99999500003[0-9]*}}, {{0[.]49999937500[0-9]*}}]
  // CHECK-NEXT: [2, 8]
  %ay, %am, %ar, %av = scrimp.batch_norm %ax, %as, %ab, %arm, %arv {epsilon = 1.0e-05} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  // CHECK-NEXT: {{\[\[}}{{-4[.]99992500[0-9]*e-06}}, {{-9[.]37496484[0-9]*e-07}}], [{{4[.]99992500[0-9]*e-06}}, {{9[.]37496484[0-9]*e-07}}]]
  // CHECK-NEXT: [{{0[.]99999500003[0-9]*}}, {{1[.]49999812500[0-9]*}}]
  // CHECK-NEXT: [3, -0.5]
  %adx, %ads, %adb = scrimp.batch_norm_grad %ady, %ax, %as, %am, %ar : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  // x = ar(2,2,2,2,m=7), dy = ar(2,2,2,2,m=5,o=2).
  %cx = scrimp.constant dense<[[[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 0.0]]], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [0.0, 1.0]]]]> : tensor<2x2x2x2xf32>
  %cs = scrimp.constant dense<[1.5, -2.0]> : tensor<2xf32>
  %cb = scrimp.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %crm = scrimp.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %crv = scrimp.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %cdy = scrimp.constant dense<[[[[-2.0, -1.0], [0.0, 1.0]], [[2.0, -2.0], [-1.0, 0.0]]], [[[1.0, 2.0], [-2.0, -1.0]], [[0.0, 1.0], [2.0, -2.0]]]]> : tensor<2x2x2x2xf32>
  // CHECK-NEXT: {{\[\[}}{{\[\[}}{{-1[.]94867365422[0-9]*}}, {{-0[.]72433682711[0-9]*}}], [0.5, {{1[.]72433682711[0-9]*}}]], {{\[\[}}{{-0[.]26093344313[0-9]*}}, {{-1[.]07842695215[0-9]*}}], [{{-1[.]89592046116[0-9]*}}, {{3[.]00904059292[0-9]*}}]]], {{\[\[}}[{{-0[.]72433682711[0-9]*}}, 0.5], [{{1[.]72433682711[0-9]*}}, {{2[.]94867365422[0-9]*}}]], {{\[\[}}{{-1[.]07842695215[0-9]*}}, {{-1[.]89592046116[0-9]*}}], [{{3[.]00904059292[0-9]*}}, {{2[.]19154708391[0-9]*}}]]]]
  // CHECK-NEXT: [2, 3.375]
  // CHECK-NEXT: [{{0[.]81622455140[0-9]*}}, {{0[.]40874675450[0-9]*}}]
  // CHECK-NEXT: [{{1[.]71428571428[0-9]*}}, {{6[.]83928571428[0-9]*}}]
  %cy, %cm, %cr, %cv = scrimp.batch_norm %cx, %cs, %cb, %crm, %crv {epsilon = 1.0e-03} : (tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  // CHECK-NEXT: {{\[\[}}{{\[\[}}{{-1[.]93866925638[0-9]*}}, {{-0[.]81629252480[0-9]*}}], [{{0[.]30608420677[0-9]*}}, {{1[.]42846093836[0-9]*}}]], {{\[\[}}{{-1[.]67766884190[0-9]*}}, {{1[.]52401427595[0-9]*}}], [{{0[.]63822984874[0-9]*}}, {{0[.]23048184891[0-9]*}}]]], {{\[\[}}[{{1[.]63238112941[0-9]*}}, {{2[.]75475786100[0-9]*}}], [{{-2[.]24454954297[0-9]*}}, {{-1[.]12217281139[0-9]*}}]], {{\[\[}}{{-0[.]11097274207[0-9]*}}, {{-0[.]99675716928[0-9]*}}], [{{-1[.]40450516911[0-9]*}}, {{1[.]79717794875[0-9]*}}]]]]
  // CHECK-NEXT: [{{0[.]81622455140[0-9]*}}, {{-1[.]63498701803[0-9]*}}]
  // CHECK-NEXT: [-2, 0]
  %cdx, %cds, %cdb = scrimp.batch_norm_grad %cdy, %cx, %cs, %cm, %cr : (tensor<2x2x2x2xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %ay, %am, %ar, %av, %adx, %ads, %adb, %cy, %cm, %cr, %cv, %cdx, %cds, %cdb : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>
}
