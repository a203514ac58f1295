#include "PanelGemm.h"
#include "Bf16Dot.h"
#include "Blas.h"
#include "scrimp/runtime/workspace.h"
#include <utility>

namespace scrimp::runtime {

/// `rows` x `columns` of an operand as f32: where they are, or converted into `panel`.
static MatrixOperand<float> asFloats(const StoredMatrix &matrix, int64_t rows, int64_t columns, float *panel) {
  if (matrix.type == DType::f32)
    return {reinterpret_cast<const float *>(matrix.data), matrix.stride, matrix.transposed};
  if (matrix.transposed)
    std::swap(rows, columns);
  auto *stored = reinterpret_cast<const uint16_t *>(matrix.data);
  for (int64_t i = 0; i < rows; ++i)
    widenRow(matrix.type, stored + i * matrix.stride, panel + i * columns, columns);
  return {panel, columns, matrix.transposed};
}

/// A product that is one tile.
static void computeTile(const PanelProduct &p) {
  bool native = p.bf16Dot && p.a.type == DType::bf16 && p.b.type == DType::bf16;
  int64_t most = gemmPanelK(p.k);
  auto *panelA = reinterpret_cast<float *>(p.panels),
       *panelB = reinterpret_cast<float *>(p.panels + roundUpToCacheLine(p.m * most * 4));
  for (int64_t begin = 0; begin < p.k; begin += most) {
    int64_t terms = smallerOf(most, p.k - begin);
    StoredMatrix a = p.a.from(0, begin), b = p.b.from(begin, 0);
    bool accumulate = p.beta != 0 || begin > 0;
    if (native)
      multiplyBf16(p.m, p.n, terms, p.alpha, reinterpret_cast<const uint16_t *>(a.data), a.stride, a.transposed,
                   reinterpret_cast<const uint16_t *>(b.data), b.stride, b.transposed, accumulate, p.c, p.strideC,
                   p.panels);
    else
      gemm<float>(p.m, p.n, terms, p.alpha, asFloats(a, p.m, terms, panelA), asFloats(b, terms, p.n, panelB),
                  accumulate ? 1.0f : 0.0f, p.c, p.strideC);
  }
}

void PanelProduct::compute() const {
  GemmCut cut = cutPanels(m, n);
  for (int64_t j = 0; j < n; j += cut.tileN)
    for (int64_t i = 0; i < m; i += cut.tileM) {
      PanelProduct tile = *this;
      tile.m = smallerOf(cut.tileM, m - i);
      tile.n = smallerOf(cut.tileN, n - j);
      tile.a = a.from(i, 0);
      tile.b = b.from(0, j);
      tile.c = c + i * strideC + j;
      computeTile(tile);
    }
}

void gemm(const PanelProduct &product) {
  if (product.m == 0 || product.n == 0)
    return;
  if (product.k == 0) {
    for (int64_t i = 0; product.beta == 0 && i < product.m; ++i)
      memset(product.c + i * product.strideC, 0, static_cast<size_t>(product.n) * sizeof(float));
    return;
  }
  if (productsAreChecked)
    runChecked(product);
  else
    product.compute();
}

} // namespace scrimp::runtime
