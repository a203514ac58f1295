// Batch normalisation beside the interpreter: rows, sequences, images, channels larger than a block of lanes.
// RUN: scrimp-kernel-test %s

func.func @main() -> (tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<7x5xf32>, tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3x9x11xf32>, tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<3x2x2x3xf64>, tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x40xbf16>, tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2x1x70x80xf32>) {
  %ax_i = scrimp.iota {dim = 0 : i64, start = 0.1 : f64, step = 1.7 : f64} : tensor<35xf32>
  %ax_s = scrimp.sin %ax_i : tensor<35xf32>
  %ax = scrimp.reshape %ax_s : tensor<35xf32> -> tensor<7x5xf32>
  %ag_i = scrimp.iota {dim = 0 : i64, start = 0.6 : f64, step = 1.7 : f64} : tensor<35xf32>
  %ag_s = scrimp.sin %ag_i : tensor<35xf32>
  %ag = scrimp.reshape %ag_s : tensor<35xf32> -> tensor<7x5xf32>
  %as_i = scrimp.iota {dim = 0 : i64, start = 0.1 : f64, step = 1.7 : f64} : tensor<5xf32>
  %as_s = scrimp.sin %as_i : tensor<5xf32>
  %as = scrimp.reshape %as_s : tensor<5xf32> -> tensor<5xf32>
  %ab_i = scrimp.iota {dim = 0 : i64, start = 1.1 : f64, step = 1.7 : f64} : tensor<5xf32>
  %ab_s = scrimp.sin %ab_i : tensor<5xf32>
  %ab = scrimp.reshape %ab_s : tensor<5xf32> -> tensor<5xf32>
  %am_i = scrimp.iota {dim = 0 : i64, start = 2.1 : f64, step = 1.7 : f64} : tensor<5xf32>
  %am_s = scrimp.sin %am_i : tensor<5xf32>
  %am = scrimp.reshape %am_s : tensor<5xf32> -> tensor<5xf32>
  %av = scrimp.mul %am, %am : tensor<5xf32>
  %ay, %amean, %arstd, %abv = scrimp.batch_norm %ax, %as, %ab, %am, %av {epsilon = 1.0e-5 : f64}
    : (tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>)
  %adx, %ads, %adb = scrimp.batch_norm_grad %ag, %ax, %as, %amean, %arstd : (tensor<7x5xf32>, tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>)
  %bx_i = scrimp.iota {dim = 0 : i64, start = 0.2 : f64, step = 1.7 : f64} : tensor<1188xf32>
  %bx_s = scrimp.sin %bx_i : tensor<1188xf32>
  %bx = scrimp.reshape %bx_s : tensor<1188xf32> -> tensor<4x3x9x11xf32>
  %bg_i = scrimp.iota {dim = 0 : i64, start = 0.7 : f64, step = 1.7 : f64} : tensor<1188xf32>
  %bg_s = scrimp.sin %bg_i : tensor<1188xf32>
  %bg = scrimp.reshape %bg_s : tensor<1188xf32> -> tensor<4x3x9x11xf32>
  %bs_i = scrimp.iota {dim = 0 : i64, start = 0.2 : f64, step = 1.7 : f64} : tensor<3xf32>
  %bs_s = scrimp.sin %bs_i : tensor<3xf32>
  %bs = scrimp.reshape %bs_s : tensor<3xf32> -> tensor<3xf32>
  %bb_i = scrimp.iota {dim = 0 : i64, start = 1.2 : f64, step = 1.7 : f64} : tensor<3xf32>
  %bb_s = scrimp.sin %bb_i : tensor<3xf32>
  %bb = scrimp.reshape %bb_s : tensor<3xf32> -> tensor<3xf32>
  %bm_i = scrimp.iota {dim = 0 : i64, start = 2.2 : f64, step = 1.7 : f64} : tensor<3xf32>
  %bm_s = scrimp.sin %bm_i : tensor<3xf32>
  %bm = scrimp.reshape %bm_s : tensor<3xf32> -> tensor<3xf32>
  %bv = scrimp.mul %bm, %bm : tensor<3xf32>
  %by, %bmean, %brstd, %bbv = scrimp.batch_norm %bx, %bs, %bb, %bm, %bv {epsilon = 1.0e-5 : f64}
    : (tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %bdx, %bds, %bdb = scrimp.batch_norm_grad %bg, %bx, %bs, %bmean, %brstd : (tensor<4x3x9x11xf32>, tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>)
  %cx_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<36xf64>
  %cx_s = scrimp.sin %cx_i : tensor<36xf64>
  %cx = scrimp.reshape %cx_s : tensor<36xf64> -> tensor<3x2x2x3xf64>
  %cg_i = scrimp.iota {dim = 0 : i64, start = 0.8 : f64, step = 1.7 : f64} : tensor<36xf64>
  %cg_s = scrimp.sin %cg_i : tensor<36xf64>
  %cg = scrimp.reshape %cg_s : tensor<36xf64> -> tensor<3x2x2x3xf64>
  %cs_i = scrimp.iota {dim = 0 : i64, start = 0.3 : f64, step = 1.7 : f64} : tensor<2xf64>
  %cs_s = scrimp.sin %cs_i : tensor<2xf64>
  %cs = scrimp.reshape %cs_s : tensor<2xf64> -> tensor<2xf64>
  %cb_i = scrimp.iota {dim = 0 : i64, start = 1.3 : f64, step = 1.7 : f64} : tensor<2xf64>
  %cb_s = scrimp.sin %cb_i : tensor<2xf64>
  %cb = scrimp.reshape %cb_s : tensor<2xf64> -> tensor<2xf64>
  %cm_i = scrimp.iota {dim = 0 : i64, start = 2.3 : f64, step = 1.7 : f64} : tensor<2xf64>
  %cm_s = scrimp.sin %cm_i : tensor<2xf64>
  %cm = scrimp.reshape %cm_s : tensor<2xf64> -> tensor<2xf64>
  %cv = scrimp.mul %cm, %cm : tensor<2xf64>
  %cy, %cmean, %crstd, %cbv = scrimp.batch_norm %cx, %cs, %cb, %cm, %cv {epsilon = 1.0e-5 : f64}
    : (tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>)
  %cdx, %cds, %cdb = scrimp.batch_norm_grad %cg, %cx, %cs, %cmean, %crstd : (tensor<3x2x2x3xf64>, tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>)
  %dx_i = scrimp.iota {dim = 0 : i64, start = 0.4 : f64, step = 1.7 : f64} : tensor<240xf32>
  %dx_s = scrimp.sin %dx_i : tensor<240xf32>
  %dx_c = scrimp.cast %dx_s : tensor<240xf32> -> tensor<240xbf16>
  %dx = scrimp.reshape %dx_c : tensor<240xbf16> -> tensor<2x3x40xbf16>
  %dg_i = scrimp.iota {dim = 0 : i64, start = 0.9 : f64, step = 1.7 : f64} : tensor<240xf32>
  %dg_s = scrimp.sin %dg_i : tensor<240xf32>
  %dg_c = scrimp.cast %dg_s : tensor<240xf32> -> tensor<240xbf16>
  %dg = scrimp.reshape %dg_c : tensor<240xbf16> -> tensor<2x3x40xbf16>
  %ds_i = scrimp.iota {dim = 0 : i64, start = 0.4 : f64, step = 1.7 : f64} : tensor<3xf32>
  %ds_s = scrimp.sin %ds_i : tensor<3xf32>
  %ds = scrimp.reshape %ds_s : tensor<3xf32> -> tensor<3xf32>
  %db_i = scrimp.iota {dim = 0 : i64, start = 1.4 : f64, step = 1.7 : f64} : tensor<3xf32>
  %db_s = scrimp.sin %db_i : tensor<3xf32>
  %db = scrimp.reshape %db_s : tensor<3xf32> -> tensor<3xf32>
  %dm_i = scrimp.iota {dim = 0 : i64, start = 2.4 : f64, step = 1.7 : f64} : tensor<3xf32>
  %dm_s = scrimp.sin %dm_i : tensor<3xf32>
  %dm = scrimp.reshape %dm_s : tensor<3xf32> -> tensor<3xf32>
  %dv = scrimp.mul %dm, %dm : tensor<3xf32>
  %dy, %dmean, %drstd, %dbv = scrimp.batch_norm %dx, %ds, %db, %dm, %dv {epsilon = 1.0e-5 : f64}
    : (tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %ddx, %dds, %ddb = scrimp.batch_norm_grad %dg, %dx, %ds, %dmean, %drstd : (tensor<2x3x40xbf16>, tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>)
  %ex_i = scrimp.iota {dim = 0 : i64, start = 0.6 : f64, step = 1.7 : f64} : tensor<11200xf32>
  %ex_s = scrimp.sin %ex_i : tensor<11200xf32>
  %ex = scrimp.reshape %ex_s : tensor<11200xf32> -> tensor<2x1x70x80xf32>
  %eg_i = scrimp.iota {dim = 0 : i64, start = 1.1 : f64, step = 1.7 : f64} : tensor<11200xf32>
  %eg_s = scrimp.sin %eg_i : tensor<11200xf32>
  %eg = scrimp.reshape %eg_s : tensor<11200xf32> -> tensor<2x1x70x80xf32>
  %es_i = scrimp.iota {dim = 0 : i64, start = 0.6 : f64, step = 1.7 : f64} : tensor<1xf32>
  %es_s = scrimp.sin %es_i : tensor<1xf32>
  %es = scrimp.reshape %es_s : tensor<1xf32> -> tensor<1xf32>
  %eb_i = scrimp.iota {dim = 0 : i64, start = 1.6 : f64, step = 1.7 : f64} : tensor<1xf32>
  %eb_s = scrimp.sin %eb_i : tensor<1xf32>
  %eb = scrimp.reshape %eb_s : tensor<1xf32> -> tensor<1xf32>
  %em_i = scrimp.iota {dim = 0 : i64, start = 2.6 : f64, step = 1.7 : f64} : tensor<1xf32>
  %em_s = scrimp.sin %em_i : tensor<1xf32>
  %em = scrimp.reshape %em_s : tensor<1xf32> -> tensor<1xf32>
  %ev = scrimp.mul %em, %em : tensor<1xf32>
  %ey, %emean, %erstd, %ebv = scrimp.batch_norm %ex, %es, %eb, %em, %ev {epsilon = 1.0e-5 : f64}
    : (tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
  %edx, %eds, %edb = scrimp.batch_norm_grad %eg, %ex, %es, %emean, %erstd : (tensor<2x1x70x80xf32>, tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>)
  return %ay, %amean, %arstd, %abv, %ads, %adb, %adx, %by, %bmean, %brstd, %bbv, %bds, %bdb, %bdx, %cy, %cmean, %crstd, %cbv, %cds, %cdb, %cdx, %dy, %dmean, %drstd, %dbv, %dds, %ddb, %ddx, %ey, %emean, %erstd, %ebv, %eds, %edb, %edx
    : tensor<7x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<7x5xf32>, tensor<4x3x9x11xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3x9x11xf32>, tensor<3x2x2x3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<3x2x2x3xf64>, tensor<2x3x40xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x40xbf16>, tensor<2x1x70x80xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2x1x70x80xf32>
}
