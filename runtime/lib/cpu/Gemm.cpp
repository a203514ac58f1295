// The library function "gemm": a batch of row-major matrix products, cut into tiles by shape.
#include "ArgumentCheck.h"
#include "Blas.h"
#include "scrimp/runtime/workspace.h"

namespace scrimp::runtime {

namespace {

struct GemmShape {
  int64_t batch, m, n, k;
  bool transA, transB;
  int64_t strideA, strideB, strideC;
  bool accumulate;

  explicit GemmShape(std::span<const int64_t> ints)
      : batch(ints[0]), m(ints[1]), n(ints[2]), k(ints[3]), transA(ints[4]), transB(ints[5]), strideA(ints[6]),
        strideB(ints[7]), strideC(ints[8]), accumulate(ints[9]) {}
  /// A shared C receives a sum, so its batch members follow one another inside a tile.
  bool sumsBatch() const { return strideC == 0; }
};

/// Tiles per product and their extents.
struct GemmCut {
  int64_t tileM, tileN;
};

} // namespace

// Pieces of whole multiples of 16 rows or columns (the register tiles of OpenBLAS's kernels divide 16).
static int64_t pieceExtent(int64_t extent, int64_t pieces) {
  return largerOf(divideUp(divideUp(extent, pieces), 16) * 16, 16);
}

// About 4 million multiplications a tile at least, at most 16 tiles in all: few enough that packing an operand again
// for each tile costs little, enough for several threads. The larger of m and n is cut; the other only when the first
// has no room left. k is never cut: its sum is one call's.
static GemmCut cutGemm(const GemmShape &s) {
  constexpr double tileWork = 1 << 22;
  constexpr int64_t mostTiles = 16;
  int64_t members = s.sumsBatch() ? 1 : largerOf(s.batch, 1);
  double work = static_cast<double>(s.m) * s.n * s.k * (s.sumsBatch() ? s.batch : 1);
  int64_t tiles =
      smallerOf(mostTiles, work >= tileWork * mostTiles ? mostTiles : static_cast<int64_t>(work / tileWork));
  tiles = largerOf(1, smallerOf(tiles, divideUp(mostTiles, members)));
  GemmCut cut{largerOf(s.m, 1), largerOf(s.n, 1)};
  if (tiles == 1)
    return cut;
  // Each tile packs both its operands anew, so narrow tiles cost; a product too narrow for four wide tiles gets
  // narrower ones, and a very long sum makes up for tiles narrower still.
  int64_t larger = largerOf(s.m, s.n), smaller = smallerOf(s.m, s.n);
  int64_t narrow = s.k >= 4096 ? 32 : 64;
  int64_t first = largerOf(larger / 128, smallerOf(4, larger / narrow));
  first = largerOf(1, smallerOf(tiles, first));
  int64_t second = largerOf(1, smallerOf(tiles / first, smaller / 128));
  int64_t largerTile = first > 1 ? pieceExtent(larger, first) : larger;
  int64_t smallerTile = second > 1 ? pieceExtent(smaller, second) : smaller;
  return s.m >= s.n ? GemmCut{largerTile, smallerTile} : GemmCut{smallerTile, largerTile};
}

template <typename T> static void runTyped(const LibraryArguments &arguments, ThreadPool &pool) {
  GemmShape s(arguments.ints);
  const T *a = reinterpret_cast<const T *>(arguments.buffers[0]),
          *b = reinterpret_cast<const T *>(arguments.buffers[1]);
  T *c = reinterpret_cast<T *>(arguments.buffers[2]);
  if (s.m == 0 || s.n == 0 || s.batch == 0)
    return;
  GemmCut cut = cutGemm(s);
  int64_t tilesM = divideUp(s.m, cut.tileM), tilesN = divideUp(s.n, cut.tileN), tiles = tilesM * tilesN;
  int64_t rowA = s.transA ? s.m : s.k, rowB = s.transB ? s.k : s.n;
  auto product = [&](int64_t member, int64_t tile, bool accumulate) {
    int64_t i = tile / tilesN * cut.tileM, j = tile % tilesN * cut.tileN;
    gemm<T>(smallerOf(cut.tileM, s.m - i), smallerOf(cut.tileN, s.n - j), s.k, T(1),
            {a + member * s.strideA + (s.transA ? i : i * rowA), largerOf(rowA, 1), s.transA},
            {b + member * s.strideB + (s.transB ? j * rowB : j), largerOf(rowB, 1), s.transB}, accumulate ? T(1) : T(0),
            c + member * s.strideC + i * s.n + j, s.n);
  };
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t unit = begin; unit < end; ++unit) {
      if (!s.sumsBatch()) {
        product(unit / tiles, unit % tiles, s.accumulate);
        continue;
      }
      for (int64_t member = 0; member < s.batch; ++member)
        product(member, unit, s.accumulate || member > 0);
    }
  };
  pool.parallelFor(s.sumsBatch() ? tiles : tiles * s.batch, 1, body);
}

static void run(const LibraryArguments &arguments, ThreadPool &pool) {
  if (arguments.dtype == DType::f32)
    runTyped<float>(arguments, pool);
  else
    runTyped<double>(arguments, pool);
}

static Status verify(const LibraryArguments &arguments) {
  ArgumentCheck check("gemm", arguments);
  check.floatType();
  check.counts(3, 10, 0);
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
  GemmShape s(arguments.ints);
  static constexpr const char *operands[] = {"A", "B", "C"};
  const int64_t matrices[3][2] = {{s.m, s.k}, {s.k, s.n}, {s.m, s.n}};
  const int64_t stride[3] = {s.strideA, s.strideB, s.strideC};
  for (size_t i = 0; i < 3; ++i) {
    check.buffer(i, operands[i], {smallerOf(s.batch, 1), matrices[i][0], matrices[i][1]},
                 elementBytes(arguments.dtype));
    if (s.batch > 1 && stride[i]) {
      if (i == 2 && stride[i] < s.m * s.n)
        check.fail("batch members of C overlap");
      // The last member, (batch - 1) strides in, still lies inside.
      __int128 elements = static_cast<__int128>(s.batch - 1) * stride[i] + __int128{matrices[i][0]} * matrices[i][1];
      if (elements > INT64_MAX)
        check.fail("the batch does not fit its buffer");
      else
        check.buffer(i, operands[i], {static_cast<int64_t>(elements)}, elementBytes(arguments.dtype));
    }
  }
  return check.take();
}

const LibraryFunction gemmFunction = {"gemm", verify, run};

} // namespace scrimp::runtime
