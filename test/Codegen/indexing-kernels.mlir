// Indexing ops beside the interpreter: negative and repeated indices, batch dimensions, ties, narrow and integer types.
// RUN: scrimp-kernel-test %s
// RUN: scrimp-kernel-test %S/../Dialect/indexing.mlir

func.func @main() -> (tensor<3x9x70xf32>, tensor<2x9x50xf32>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<5x70xf32>, tensor<3x4x70xf32>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<4x9xi64>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<4x9xi64>, tensor<5x21xbf16>, tensor<3x6xi64>, tensor<3x70xi32>, tensor<4xi64>, tensor<4xi64>, tensor<21xi64>, tensor<3x6x5xf32>, tensor<3x6x5xi64>, tensor<3x6x70xf32>, tensor<3x6x70xi64>, tensor<4x7xi64>, tensor<4x7xi64>, tensor<2x21xbf16>, tensor<2x21xi64>) {
  %x_i = scrimp.iota {dim = 0 : i64, start = 0.1 : f64, step = 1.7 : f64} : tensor<1260xf32>
  %x_s = scrimp.sin %x_i : tensor<1260xf32>
  %x = scrimp.reshape %x_s : tensor<1260xf32> -> tensor<3x6x70xf32>
  %i_i = scrimp.iota {dim = 0 : i64, start = 0.2 : f64, step = 1.7 : f64} : tensor<1890xf64>
  %i_s = scrimp.sin %i_i : tensor<1890xf64>
  %i_a = scrimp.constant dense<5.9988> : tensor<1890xf64>
  %i_b = scrimp.constant dense<0.0> : tensor<1890xf64>
  %i_m = scrimp.mul %i_s, %i_a : tensor<1890xf64>
  %i_n = scrimp.add %i_m, %i_b : tensor<1890xf64>
  %i_f = scrimp.floor %i_n : tensor<1890xf64>
  %i_c = scrimp.cast %i_f : tensor<1890xf64> -> tensor<1890xi64>
  %i = scrimp.reshape %i_c : tensor<1890xi64> -> tensor<3x9x70xi64>
  %j_i = scrimp.iota {dim = 0 : i64, start = 0.4 : f64, step = 1.7 : f64} : tensor<900xf64>
  %j_s = scrimp.sin %j_i : tensor<900xf64>
  %j_a = scrimp.constant dense<5.9988> : tensor<900xf64>
  %j_b = scrimp.constant dense<0.0> : tensor<900xf64>
  %j_m = scrimp.mul %j_s, %j_a : tensor<900xf64>
  %j_n = scrimp.add %j_m, %j_b : tensor<900xf64>
  %j_f = scrimp.floor %j_n : tensor<900xf64>
  %j_c = scrimp.cast %j_f : tensor<900xf64> -> tensor<900xi32>
  %j = scrimp.reshape %j_c : tensor<900xi32> -> tensor<2x9x50xi32>
  %ge = scrimp.gather_elements %x, %i {dim = 1 : i64} : tensor<3x6x70xf32>, tensor<3x9x70xi64> -> tensor<3x9x70xf32>
  %gj = scrimp.gather_elements %x, %j {dim = 1 : i64} : tensor<3x6x70xf32>, tensor<2x9x50xi32> -> tensor<2x9x50xf32>
  %se = scrimp.scatter_elements_add %ge, %i {dim = 1 : i64} : tensor<3x9x70xf32>, tensor<3x9x70xi64> -> tensor<3x6x70xf32>
  %sj = scrimp.scatter_elements_add %gj, %j {dim = 1 : i64} : tensor<2x9x50xf32>, tensor<2x9x50xi32> -> tensor<3x6x70xf32>
  %n_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<10xf64>
  %n_s = scrimp.sin %n_i : tensor<10xf64>
  %n_a = scrimp.constant dense<2.9994> : tensor<10xf64>
  %n_b = scrimp.constant dense<0.0> : tensor<10xf64>
  %n_m = scrimp.mul %n_s, %n_a : tensor<10xf64>
  %n_n = scrimp.add %n_m, %n_b : tensor<10xf64>
  %n_f = scrimp.floor %n_n : tensor<10xf64>
  %n_c = scrimp.cast %n_f : tensor<10xf64> -> tensor<10xi64>
  %n = scrimp.reshape %n_c : tensor<10xi64> -> tensor<5x2xi64>
  %b_i = scrimp.iota {dim = 0 : i64, start = 0.5 : f64, step = 1.7 : f64} : tensor<12xf64>
  %b_s = scrimp.sin %b_i : tensor<12xf64>
  %b_a = scrimp.constant dense<5.9988> : tensor<12xf64>
  %b_b = scrimp.constant dense<0.0> : tensor<12xf64>
  %b_m = scrimp.mul %b_s, %b_a : tensor<12xf64>
  %b_n = scrimp.add %b_m, %b_b : tensor<12xf64>
  %b_f = scrimp.floor %b_n : tensor<12xf64>
  %b_c = scrimp.cast %b_f : tensor<12xf64> -> tensor<12xi32>
  %b = scrimp.reshape %b_c : tensor<12xi32> -> tensor<3x4x1xi32>
  %gn = scrimp.gather_nd %x, %n : tensor<3x6x70xf32>, tensor<5x2xi64> -> tensor<5x70xf32>
  %gb = scrimp.gather_nd %x, %b {batch_dims = 1 : i64} : tensor<3x6x70xf32>, tensor<3x4x1xi32> -> tensor<3x4x70xf32>
  %sn = scrimp.scatter_nd none, %x, %n, %gn : tensor<3x6x70xf32>, tensor<5x2xi64>, tensor<5x70xf32>
  %sa = scrimp.scatter_nd add, %x, %b, %gb {batch_dims = 1 : i64} : tensor<3x6x70xf32>, tensor<3x4x1xi32>, tensor<3x4x70xf32>
  %p_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<36xf64>
  %p_s = scrimp.sin %p_i : tensor<36xf64>
  %p_a = scrimp.constant dense<2.9994> : tensor<36xf64>
  %p_b = scrimp.constant dense<0.0> : tensor<36xf64>
  %p_m = scrimp.mul %p_s, %p_a : tensor<36xf64>
  %p_n = scrimp.add %p_m, %p_b : tensor<36xf64>
  %p_f = scrimp.floor %p_n : tensor<36xf64>
  %p_c = scrimp.cast %p_f : tensor<36xf64> -> tensor<36xi64>
  %p = scrimp.reshape %p_c : tensor<36xi64> -> tensor<4x9xi64>
  %pi_i = scrimp.iota {dim = 0 : i64, start = 0.9 : f64, step = 1.7 : f64} : tensor<12xf64>
  %pi_s = scrimp.sin %pi_i : tensor<12xf64>
  %pi_a = scrimp.constant dense<3.9992> : tensor<12xf64>
  %pi_b = scrimp.constant dense<0.0> : tensor<12xf64>
  %pi_m = scrimp.mul %pi_s, %pi_a : tensor<12xf64>
  %pi_n = scrimp.add %pi_m, %pi_b : tensor<12xf64>
  %pi_f = scrimp.floor %pi_n : tensor<12xf64>
  %pi_c = scrimp.cast %pi_f : tensor<12xf64> -> tensor<12xi64>
  %pi = scrimp.reshape %pi_c : tensor<12xi64> -> tensor<6x1x2xi64>
  %pu_i = scrimp.iota {dim = 0 : i64, start = 0.8 : f64, step = 1.7 : f64} : tensor<6xf64>
  %pu_s = scrimp.sin %pu_i : tensor<6xf64>
  %pu_a = scrimp.constant dense<49.99> : tensor<6xf64>
  %pu_b = scrimp.constant dense<0.0> : tensor<6xf64>
  %pu_m = scrimp.mul %pu_s, %pu_a : tensor<6xf64>
  %pu_n = scrimp.add %pu_m, %pu_b : tensor<6xf64>
  %pu_f = scrimp.floor %pu_n : tensor<6xf64>
  %pu_c = scrimp.cast %pu_f : tensor<6xf64> -> tensor<6xi64>
  %pu = scrimp.reshape %pu_c : tensor<6xi64> -> tensor<6x1xi64>
  %sp = scrimp.scatter_nd add, %p, %pi, %pu : tensor<4x9xi64>, tensor<6x1x2xi64>, tensor<6x1xi64>
  %h_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<105xf32>
  %h_s = scrimp.sin %h_i : tensor<105xf32>
  %h_c = scrimp.cast %h_s : tensor<105xf32> -> tensor<105xbf16>
  %h = scrimp.reshape %h_c : tensor<105xbf16> -> tensor<5x21xbf16>
  %cs0 = scrimp.cumsum %x {dim = 1 : i64} : tensor<3x6x70xf32>
  %cs1 = scrimp.cumsum %x {dim = 2 : i64, exclusive} : tensor<3x6x70xf32>
  %cs2 = scrimp.cumsum %p {dim = 0 : i64, reverse} : tensor<4x9xi64>
  %cs3 = scrimp.cumsum %h {dim = 1 : i64, exclusive, reverse} : tensor<5x21xbf16>
  %am0 = scrimp.arg_max %x {dim = 2 : i64} : tensor<3x6x70xf32> -> tensor<3x6xi64>
  %am1 = scrimp.arg_max %x {dim = 1 : i64} : tensor<3x6x70xf32> -> tensor<3x70xi32>
  %am2 = scrimp.arg_max %p {dim = 1 : i64, last} : tensor<4x9xi64> -> tensor<4xi64>
  %am3 = scrimp.arg_max %p {dim = 1 : i64} : tensor<4x9xi64> -> tensor<4xi64>
  %am4 = scrimp.arg_max %h {dim = 0 : i64, last} : tensor<5x21xbf16> -> tensor<21xi64>
  %tv0, %ti0 = scrimp.top_k %x {dim = 2 : i64} : tensor<3x6x70xf32> -> tensor<3x6x5xf32>, tensor<3x6x5xi64>
  %tv1, %ti1 = scrimp.top_k %x {dim = 1 : i64} : tensor<3x6x70xf32> -> tensor<3x6x70xf32>, tensor<3x6x70xi64>
  %tv2, %ti2 = scrimp.top_k %p {dim = 1 : i64} : tensor<4x9xi64> -> tensor<4x7xi64>, tensor<4x7xi64>
  %tv3, %ti3 = scrimp.top_k %h {dim = 0 : i64} : tensor<5x21xbf16> -> tensor<2x21xbf16>, tensor<2x21xi64>
  return %ge, %gj, %se, %sj, %gn, %gb, %sn, %sa, %sp, %cs0, %cs1, %cs2, %cs3, %am0, %am1, %am2, %am3, %am4, %tv0, %ti0, %tv1, %ti1, %tv2, %ti2, %tv3, %ti3
    : tensor<3x9x70xf32>, tensor<2x9x50xf32>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<5x70xf32>, tensor<3x4x70xf32>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<4x9xi64>, tensor<3x6x70xf32>, tensor<3x6x70xf32>, tensor<4x9xi64>, tensor<5x21xbf16>, tensor<3x6xi64>, tensor<3x70xi32>, tensor<4xi64>, tensor<4xi64>, tensor<21xi64>, tensor<3x6x5xf32>, tensor<3x6x5xi64>, tensor<3x6x70xf32>, tensor<3x6x70xi64>, tensor<4x7xi64>, tensor<4x7xi64>, tensor<2x21xbf16>, tensor<2x21xi64>
}
