// The library function "gemm": a batch of row-major matrix products, cut into tiles by shape.
#include "ArgumentCheck.h"
#include "Blas.h"
#include "PanelGemm.h"
#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

static GemmCall callOf(const LibraryArguments &arguments) {
  GemmCall call;
  memcpy(&call, arguments.ints.data(), sizeof(call));
  return call;
}

/// Calls product(member, i, j, isFirst, isLast, worker) for the products of all tiles at (i, j) and batch members,
/// those that add to one tile one after the other.
template <typename Body> static void forEachTile(const GemmCall &s, GemmCut cut, ThreadPool &pool, Body product) {
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

template <typename T> static void runTyped(const LibraryArguments &arguments, ThreadPool &pool) {
  GemmCall s = callOf(arguments);
  const T *a = reinterpret_cast<const T *>(arguments.buffers[0]),
          *b = reinterpret_cast<const T *>(arguments.buffers[1]);
  T *c = reinterpret_cast<T *>(arguments.buffers[2]);
  GemmCut cut = cutGemm(s);
  int64_t rowA = s.transA ? s.m : s.k, rowB = s.transB ? s.k : s.n;
  forEachTile(s, cut, pool, [&](int64_t member, int64_t i, int64_t j, bool isFirst, bool, int) {
    gemm<T>(smallerOf(cut.tileM, s.m - i), smallerOf(cut.tileN, s.n - j), s.k, T(1),
            {a + member * s.strideA + (s.transA ? i : i * rowA), largerOf(rowA, 1), s.transA != 0},
            {b + member * s.strideB + (s.transB ? j * rowB : j), largerOf(rowB, 1), s.transB != 0},
            s.accumulate || !isFirst ? T(1) : T(0), c + member * s.strideC + i * s.n + j, s.n);
  });
}

/// Operands of 16 bits. So may C be: then the sums are kept in the worker's tile.
static void runNarrow(const LibraryArguments &arguments, ThreadPool &pool) {
  GemmCall s = callOf(arguments);
  GemmCut cut = cutNarrowGemm(s);
  DType typeC = arguments.typeOf(2);
  StoredMatrix a(arguments.buffers[0], arguments.typeOf(0), largerOf(s.transA ? s.m : s.k, 1), s.transA),
      b(arguments.buffers[1], arguments.typeOf(1), largerOf(s.transB ? s.k : s.n, 1), s.transB);
  char *c = arguments.buffers[2], *workspace = arguments.buffers[3];
  int64_t slotBytes = gemmSlotBytes(s), panelBytes = gemmPanelBytes(cut.tileM, cut.tileN, s.k);
  auto memberOf = [](StoredMatrix matrix, int64_t elements) {
    matrix.data += elements * elementBytes(matrix.type);
    return matrix;
  };
  forEachTile(s, cut, pool, [&](int64_t member, int64_t i, int64_t j, bool isFirst, bool isLast, int worker) {
    int64_t rows = smallerOf(cut.tileM, s.m - i), columns = smallerOf(cut.tileN, s.n - j);
    char *panels = workspace + worker * slotBytes,
         *stored = c + (member * s.strideC + i * s.n + j) * elementBytes(typeC);
    bool inPlace = typeC == DType::f32, accumulate = s.accumulate || !isFirst;
    auto *sums = reinterpret_cast<float *>(inPlace ? stored : panels + panelBytes);
    int64_t stride = inPlace ? s.n : cut.tileN;
    auto rowOfC = [&](int64_t r) { return reinterpret_cast<uint16_t *>(stored) + r * s.n; };
    if (!inPlace && isFirst && s.accumulate)
      for (int64_t r = 0; r < rows; ++r)
        widenRow(typeC, rowOfC(r), sums + r * stride, columns);
    gemm(PanelProduct{rows, columns, s.k, 1, memberOf(a, member * s.strideA).from(i, 0),
                      memberOf(b, member * s.strideB).from(0, j), accumulate ? 1.0f : 0.0f, sums, stride, panels,
                      arguments.bf16Dot});
    if (!inPlace && isLast)
      for (int64_t r = 0; r < rows; ++r)
        narrowRow(typeC, sums + r * stride, rowOfC(r), columns);
  });
}

static bool hasNarrow(const LibraryArguments &arguments) {
  return isNarrow(arguments.typeOf(0)) || isNarrow(arguments.typeOf(2));
}

static void run(const LibraryArguments &arguments, ThreadPool &pool) {
  if (hasNarrow(arguments))
    runNarrow(arguments, pool);
  else if (arguments.dtype == DType::f32)
    runTyped<float>(arguments, pool);
  else
    runTyped<double>(arguments, pool);
}

static Status verify(const LibraryArguments &arguments) {
  ArgumentCheck check("gemm", arguments);
  check.floatType();
  for (size_t i = 0; i < 3; ++i)
    check.storedType(i);
  if (arguments.typeOf(0) != arguments.typeOf(1))
    check.fail("A and B differ in type");
  if (arguments.typeOf(2) != arguments.typeOf(0) && arguments.typeOf(2) != arguments.dtype)
    check.fail("C has neither the operands' type nor that of the sums");
  check.counts(3 + hasNarrow(arguments), gemmCallInts, 0);
  static constexpr const char *extents[] = {"batch", "m", "n", "k"};
  for (size_t i = 0; i < 4; ++i)
    check.range(i, extents[i], 0, maxExtent);
  check.range(4, "transA", 0, 1);
  check.range(5, "transB", 0, 1);
  static constexpr const char *strides[] = {"strideA", "strideB", "strideC"};
  for (size_t i = 0; i < 3; ++i)
    check.range(6 + i, strides[i], 0, INT64_MAX);
  check.range(9, "accumulate", 0, 1);
  if (check.failed())
    return check.take();
  GemmCall s = callOf(arguments);
  static constexpr const char *operands[] = {"A", "B", "C"};
  const int64_t matrices[3][2] = {{s.m, s.k}, {s.k, s.n}, {s.m, s.n}};
  const int64_t stride[3] = {s.strideA, s.strideB, s.strideC};
  for (size_t i = 0; i < 3; ++i) {
    int64_t bytesEach = elementBytes(arguments.typeOf(i));
    check.buffer(i, operands[i], {smallerOf(s.batch, 1), matrices[i][0], matrices[i][1]}, bytesEach);
    if (s.batch > 1 && stride[i]) {
      if (i == 2 && stride[i] < s.m * s.n)
        check.fail("batch members of C overlap");
      // The last member, (batch - 1) strides in, still lies inside.
      __int128 elements = static_cast<__int128>(s.batch - 1) * stride[i] + __int128{matrices[i][0]} * matrices[i][1];
      if (elements > INT64_MAX)
        check.fail("the batch does not fit its buffer");
      else
        check.buffer(i, operands[i], {static_cast<int64_t>(elements)}, bytesEach);
    }
  }
  if (hasNarrow(arguments))
    check.buffer(3, "workspace", {gemmSlotBytes(s), arguments.workers}, 1);
  return check.take();
}

const LibraryFunction gemmFunction = {"gemm", verify, run};

} // namespace scrimp::runtime
