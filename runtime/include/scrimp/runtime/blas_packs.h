/* What the library functions leave to OpenBLAS, and the bytes that it takes for that beside the arena: the compiler states them
 * for the process (Planner/ProcessMemory.h). Products follow from the cut of a call (workspace.h). */
#ifndef SCRIMP_RUNTIME_BLAS_PACKS_H
#define SCRIMP_RUNTIME_BLAS_PACKS_H

#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

/* A product that a library function leaves to OpenBLAS in one call: C[m, n] = A[m, k] B[k, n], row-major. */
struct BlasProduct {
  int64_t m, n, k, elementBytes;
};

/* What OpenBLAS packs at a time: p columns of B, and q terms of the sum, of f32 and of f64. It packs into a buffer of
 * its own per running call, which it keeps. */
struct BlasBlocks {
  int64_t p32, q32, p64, q64;
};

/* Bytes that a product touches of the two parts of such a buffer (driver/level3/level3.c). */
struct BlasPacks {
  int64_t columns, rows;
};
constexpr BlasPacks blasPacks(const BlasProduct &product, const BlasBlocks &blocks) {
  int64_t p = product.elementBytes == 4 ? blocks.p32 : blocks.p64;
  int64_t q = product.elementBytes == 4 ? blocks.q32 : blocks.q64;
  constexpr int64_t sliver = 64; /* at least the registers' share of rows, threefold, of any kernel */
  int64_t terms = product.k < 2 * q ? (product.k > q ? (product.k + 1) / 2 + sliver : product.k) : q;
  int64_t columns = product.n < p ? product.n : p;
  /* B in one piece is packed once, and A sliver by sliver beside it. */
  int64_t rows = product.n > p || product.m < sliver ? product.m : sliver;
  return {columns * terms * product.elementBytes, rows * terms * product.elementBytes};
}

/* The largest products of a call. */
constexpr BlasProduct panelProduct(int64_t m, int64_t n, int64_t k) {
  return {smallerOf(m, mostPanelRows), smallerOf(n, mostPanelRows), smallerOf(k, mostPanelK), 4};
}
constexpr BlasProduct gemmProduct(const GemmCall &s, int64_t sumBytes, bool isNarrow) {
  GemmCut cut = cutGemm(s);
  return isNarrow ? panelProduct(cut.tileM, cut.tileN, s.k) : BlasProduct{cut.tileM, cut.tileN, s.k, sumBytes};
}

constexpr BlasProduct conv2dProduct(Conv2dKind kind, const Conv2dShape &s, ElementBytes each) {
  Conv2dCut cut = cutConv2d(kind, s, each.sum);
  int64_t rows = (kind == Conv2dKind::forward ? s.channels() : cut.channels) * s.taps();
  BlasProduct product = kind == Conv2dKind::forward     ? BlasProduct{s.filters(), cut.positions, rows, each.sum}
                        : kind == Conv2dKind::inputGrad ? BlasProduct{rows, cut.positions, s.filters(), each.sum}
                                                        : BlasProduct{cut.filters, rows, cut.positions, each.sum};
  return each.operand == each.sum ? product : panelProduct(product.m, product.n, product.k);
}

struct AttentionProducts {
  BlasProduct scores, sums, keyGradients;
};
constexpr AttentionProducts attentionProducts(const AttentionShape &s, int64_t sumBytes, bool isNarrow) {
  int64_t rows = attentionRows(s, sumBytes), width = largerOf(s.D, s.Dv), tile = smallerOf(attentionKeyTile(s), s.Sk);
  if (isNarrow)
    return {panelProduct(rows, s.Sk, width), panelProduct(rows, width, s.Sk), panelProduct(tile, width, rows)};
  return {{rows, s.Sk, width, sumBytes}, {rows, width, s.Sk, sumBytes}, {tile, width, rows, sumBytes}};
}

} // namespace scrimp::runtime

#endif
