// A batch of row-major matrix products, cut into tiles by shape, with what is done to each row of sums at the end.
#ifndef SCRIMP_RUNTIME_LIB_CPU_GEMMTILES_H
#define SCRIMP_RUNTIME_LIB_CPU_GEMMTILES_H

#include "Blas.h"
#include "PanelGemm.h"
#include "scrimp/runtime/ThreadPool.h"
#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

/// The buffers of products. `addend` holds what they are added to if the call accumulates: C itself or another matrix
/// in its form; which of the two changes no bit.
struct GemmBuffers {
  const char *a, *b;
  char *c, *workspace;
  const char *addend;
  DType operands, result; // the types of elements
  bool bf16Dot;
};

/// Calls product(member, i, j, isFirst, isLast, worker) for the products of all tiles at (i, j) and batch members,
/// those that add to one tile one after the other.
template <typename Body> void forEachTile(const GemmCall &s, GemmCut cut, ThreadPool &pool, Body product) {
  if (s.m == 0 || s.n == 0 || s.batch == 0)
    return;
  int64_t tilesN = divideUp(s.n, cut.tileN), tiles = divideUp(s.m, cut.tileM) * tilesN;
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t tile = s.sumsBatch() ? unit : unit % tiles, i = tile / tilesN * cut.tileM, j = tile % tilesN * cut.tileN;
      if (!s.sumsBatch()) {
        product(unit / tiles, i, j, true, true, worker);
        continue;
      }
      for (int64_t member = 0; member < s.batch; ++member)
        product(member, i, j, member == 0, member + 1 == s.batch, worker);
    }
  };
  pool.parallelFor(s.sumsBatch() ? tiles : tiles * s.batch, 1, body);
}

/// Operands and C are of the type of sums. `finish(sums, i, j, count)`: a row of final sums, at [i, j] of C.
template <typename T, typename Finish>
void multiply(const GemmCall &s, const GemmBuffers &buffers, ThreadPool &pool, Finish finish) {
  const T *a = reinterpret_cast<const T *>(buffers.a), *b = reinterpret_cast<const T *>(buffers.b),
          *addend = reinterpret_cast<const T *>(buffers.addend);
  T *c = reinterpret_cast<T *>(buffers.c);
  GemmCut cut = cutGemm(s);
  int64_t rowA = s.transA ? s.m : s.k, rowB = s.transB ? s.k : s.n;
  forEachTile(s, cut, pool, [&](int64_t member, int64_t i, int64_t j, bool isFirst, bool isLast, int) {
    int64_t rows = smallerOf(cut.tileM, s.m - i), columns = smallerOf(cut.tileN, s.n - j);
    int64_t place = member * s.strideC + i * s.n + j;
    if (isFirst && s.accumulate && addend != c)
      for (int64_t r = 0; r < rows; ++r)
        memcpy(c + place + r * s.n, addend + place + r * s.n, static_cast<size_t>(columns) * sizeof(T));
    gemm<T>(rows, columns, s.k, T(1),
            {a + member * s.strideA + (s.transA ? i : i * rowA), largerOf(rowA, 1), s.transA != 0},
            {b + member * s.strideB + (s.transB ? j * rowB : j), largerOf(rowB, 1), s.transB != 0},
            s.accumulate || !isFirst ? T(1) : T(0), c + place, s.n);
    if (isLast)
      for (int64_t r = 0; r < rows; ++r)
        finish(c + place + r * s.n, i + r, j, columns);
  });
}

/// Operands of 16 bits, sums of f32. So may C be: then the sums are kept in the worker's tile and rounded behind
/// `finish`.
template <typename Finish>
void multiplyNarrow(const GemmCall &s, const GemmBuffers &buffers, ThreadPool &pool, Finish finish) {
  GemmCut cut = cutNarrowGemm(s);
  DType typeC = buffers.result;
  StoredMatrix a(buffers.a, buffers.operands, largerOf(s.transA ? s.m : s.k, 1), s.transA),
      b(buffers.b, buffers.operands, largerOf(s.transB ? s.k : s.n, 1), s.transB);
  int64_t slotBytes = gemmSlotBytes(s), panelBytes = gemmPanelBytes(cut.tileM, cut.tileN, s.k);
  auto memberOf = [](StoredMatrix matrix, int64_t elements) {
    matrix.data += elements * elementBytes(matrix.type);
    return matrix;
  };
  forEachTile(s, cut, pool, [&](int64_t member, int64_t i, int64_t j, bool isFirst, bool isLast, int worker) {
    int64_t rows = smallerOf(cut.tileM, s.m - i), columns = smallerOf(cut.tileN, s.n - j);
    auto rowAt = [&](auto *matrix, int64_t r) {
      return matrix + (member * s.strideC + (i + r) * s.n + j) * elementBytes(typeC);
    };
    char *panels = buffers.workspace + worker * slotBytes, *stored = rowAt(buffers.c, 0);
    bool inPlace = typeC == DType::f32, accumulate = s.accumulate || !isFirst;
    auto *sums = reinterpret_cast<float *>(inPlace ? stored : panels + panelBytes);
    int64_t stride = inPlace ? s.n : cut.tileN;
    if (isFirst && s.accumulate && !(inPlace && buffers.addend == buffers.c))
      for (int64_t r = 0; r < rows; ++r) {
        const char *from = rowAt(buffers.addend, r);
        if (inPlace)
          memcpy(sums + r * stride, from, static_cast<size_t>(columns) * sizeof(float));
        else
          widenRow(typeC, reinterpret_cast<const uint16_t *>(from), sums + r * stride, columns);
      }
    gemm(PanelProduct{rows, columns, s.k, 1, memberOf(a, member * s.strideA).from(i, 0),
                      memberOf(b, member * s.strideB).from(0, j), accumulate ? 1.0f : 0.0f, sums, stride, panels,
                      buffers.bf16Dot});
    if (!isLast)
      return;
    for (int64_t r = 0; r < rows; ++r) {
      finish(sums + r * stride, i + r, j, columns);
      if (!inPlace)
        narrowRow(typeC, sums + r * stride, reinterpret_cast<uint16_t *>(rowAt(buffers.c, r)), columns);
    }
  });
}

} // namespace scrimp::runtime

#endif
