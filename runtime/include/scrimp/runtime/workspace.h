/* How the library functions of the runtime cut their work into blocks, and the workspace that this takes. The
 * compiler plans the workspace with these functions and the runtime checks it with the same ones. The cut is a
 * function of shapes and types alone, never of the number of threads: bits depend on it.
 *
 * Depends on nothing but <cstdint>. */
#ifndef SCRIMP_RUNTIME_WORKSPACE_H
#define SCRIMP_RUNTIME_WORKSPACE_H

#include <cstdint>

namespace scrimp::runtime {

/* Each worker's slot starts on a cache line of its own. */
constexpr int64_t roundUpToCacheLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t smallerOf(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t largerOf(int64_t a, int64_t b) { return a < b ? b : a; }

/* The integers of a call of "gemm", in this order (Library.h says what they mean). */
struct GemmCall {
  int64_t batch, m, n, k, transA, transB, strideA, strideB, strideC, accumulate;

  /* A shared C receives a sum, so its batch members follow one another inside a tile. */
  constexpr bool sumsBatch() const { return strideC == 0; }
};
constexpr int64_t gemmCallInts = sizeof(GemmCall) / sizeof(int64_t);

/* The integers of a call of "linear", in this order (Library.h says what they mean), and the values of some. */
struct LinearCall {
  int64_t m, n, k, transA, transB, addend, bias, epilogue, sums;

  /* The product by itself. */
  constexpr GemmCall product() const { return {1, m, n, k, transA, transB, m * k, k * n, m * n, addend != 0}; }
};
constexpr int64_t linearCallInts = sizeof(LinearCall) / sizeof(int64_t);
enum LinearAddend : int64_t { noAddend, ownAddend, addendInPlace };
enum LinearEpilogue : int64_t { noEpilogue, reluEpilogue, geluEpilogue, geluKeepingEpilogue, geluGradEpilogue };
enum LinearSums : int64_t { noSums, sumsOfA, sumsOfB };
/* The columns that a matrix has a multiple of which an epilogue reads or writes beside the result. */
constexpr int64_t epilogueColumns = 8;

/* Extents of the tiles of a product. */
struct GemmCut {
  int64_t tileM, tileN;
};

/* Pieces of whole multiples of 16 rows or columns (the register tiles of OpenBLAS's kernels divide 16). */
constexpr int64_t gemmPiece(int64_t extent, int64_t pieces) {
  return largerOf(divideUp(divideUp(extent, pieces), 16) * 16, 16);
}

/* About 4 million multiplications a tile at least, at most 16 tiles in all: few enough that packing an operand again
 * for each tile costs little, enough for several threads. The larger of m and n is cut; the other only when the first
 * has no room left. k is never cut: its sum is one call's. */
constexpr GemmCut cutGemm(const GemmCall &s) {
  constexpr double tileWork = 1 << 22;
  constexpr int64_t mostTiles = 16;
  int64_t members = s.sumsBatch() ? 1 : largerOf(s.batch, 1);
  double work =
      static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) * (s.sumsBatch() ? s.batch : 1);
  int64_t tiles =
      smallerOf(mostTiles, work >= tileWork * mostTiles ? mostTiles : static_cast<int64_t>(work / tileWork));
  tiles = largerOf(1, smallerOf(tiles, divideUp(mostTiles, members)));
  GemmCut cut{largerOf(s.m, 1), largerOf(s.n, 1)};
  if (tiles == 1)
    return cut;
  /* Each tile packs both its operands anew, so narrow tiles cost; a product too narrow for four wide tiles gets
   * narrower ones, and a very long sum makes up for tiles narrower still. */
  int64_t larger = largerOf(s.m, s.n), smaller = smallerOf(s.m, s.n);
  int64_t narrow = s.k >= 4096 ? 32 : 64;
  int64_t first = largerOf(larger / 128, smallerOf(4, larger / narrow));
  first = largerOf(1, smallerOf(tiles, first));
  int64_t second = largerOf(1, smallerOf(tiles / first, smaller / 128));
  int64_t largerTile = first > 1 ? gemmPiece(larger, first) : larger;
  int64_t smallerTile = second > 1 ? gemmPiece(smaller, second) : smaller;
  return s.m >= s.n ? GemmCut{largerTile, smallerTile} : GemmCut{smallerTile, largerTile};
}

/* Products of matrices that are stored in 16 bits are computed in tiles of at most 256 x 256, of which `gemmPanelK`
 * terms of the sum at a time are converted to f32 (or packed for the processor's own bf16 products, which takes less).
 */
constexpr int64_t mostPanelRows = 256, mostPanelK = 256;
constexpr GemmCut cutPanels(int64_t m, int64_t n) {
  constexpr int64_t most = mostPanelRows;
  return {m <= most ? largerOf(m, 1) : gemmPiece(m, divideUp(m, most)),
          n <= most ? largerOf(n, 1) : gemmPiece(n, divideUp(n, most))};
}
constexpr int64_t gemmPanelK(int64_t k) {
  return k <= mostPanelK ? largerOf(k, 1) : gemmPiece(k, divideUp(k, mostPanelK));
}

/* Rows of one panel of packed bf16, and the bytes of `rows` rows of k elements in such panels. */
constexpr int64_t packedRows = 16;
constexpr int64_t packedBytes(int64_t rows, int64_t k) {
  return divideUp(rows, packedRows) * packedRows * divideUp(k, 2) * 4;
}

/* Bytes that any product of up to m x k and k x n takes for converted operands. */
constexpr int64_t gemmPanelBytes(int64_t m, int64_t n, int64_t k) {
  int64_t panel = smallerOf(k, mostPanelK), rows = smallerOf(m, mostPanelRows), columns = smallerOf(n, mostPanelRows);
  return largerOf(roundUpToCacheLine(rows * panel * 4) + roundUpToCacheLine(columns * panel * 4),
                  packedBytes(rows, panel) + packedBytes(columns, panel));
}

/* The tiles of a call of "gemm" with such operands. A result of 16 bits is summed in a tile of f32. */
constexpr GemmCut cutNarrowGemm(const GemmCall &s) {
  GemmCut cut = cutGemm(s), most = cutPanels(s.m, s.n);
  return {smallerOf(cut.tileM, most.tileM), smallerOf(cut.tileN, most.tileN)};
}
/* Bytes of one worker's slot: panels, then the tile. */
constexpr int64_t gemmSlotBytes(const GemmCall &s) {
  GemmCut cut = cutNarrowGemm(s);
  return gemmPanelBytes(cut.tileM, cut.tileN, s.k) + roundUpToCacheLine(cut.tileM * cut.tileN * 4);
}
constexpr int64_t gemmWorkspaceBytes(const GemmCall &s, int64_t workers) { return gemmSlotBytes(s) * workers; }

/* Bytes of workspace that every product has in a program for a CUDA device, with operands of `operandBytes` an element and
 * results of `resultBytes`. cuBLASLt keeps parts of sums there that it splits over k, in the type of sums. 32 MiB is what
 * NVIDIA recommends for sm_90, and a part for each multiprocessor of a larger chip; a product gets no more than its
 * matrices take, so that small plans stay small. The chip is not known when memory is planned, so it has no say. */
constexpr int64_t productAlignment = 256, mostProductWorkspace = int64_t{32} << 20;
constexpr int64_t productWorkspaceBytes(const GemmCall &s, int64_t operandBytes, int64_t resultBytes) {
  int64_t members = largerOf(s.batch, 1);
  auto matrix = [&](int64_t elements, int64_t stride, int64_t bytes) {
    return divideUp(elements * (stride == 0 ? 1 : members) * bytes, productAlignment) * productAlignment;
  };
  return smallerOf(mostProductWorkspace, matrix(s.m * s.k, s.strideA, operandBytes) +
                                             matrix(s.k * s.n, s.strideB, operandBytes) +
                                             matrix(s.m * s.n, s.strideC, resultBytes));
}

/* A 2-D convolution, NCHW: x[N, C, H, W], w[O, C/groups, KH, KW], y[N, O, outH, outW]. */
struct Conv2dShape {
  int64_t N, C, H, W, O, KH, KW, strideH, strideW, padTop, padLeft, padBottom, padRight, dilH, dilW, groups;

  constexpr int64_t outH() const { return (H + padTop + padBottom - dilH * (KH - 1) - 1) / strideH + 1; }
  constexpr int64_t outW() const { return (W + padLeft + padRight - dilW * (KW - 1) - 1) / strideW + 1; }
  constexpr int64_t positions() const { return outH() * outW(); }
  constexpr int64_t channels() const { return C / groups; } /* input channels of a group */
  constexpr int64_t filters() const { return O / groups; }  /* output channels of a group */
  constexpr int64_t taps() const { return KH * KW; }
  /* The columns of im2col are the input itself. */
  constexpr bool isPointwise() const {
    return KH == 1 && KW == 1 && strideH == 1 && strideW == 1 && padTop == 0 && padLeft == 0 && padBottom == 0 &&
           padRight == 0;
  }
};

enum class Conv2dKind { forward, inputGrad, weightGrad };

/* The cut of a convolution. Positions are (sample, outH, outW) flattened.
 *   forward     units are (group, block of positions)
 *   inputGrad   units are (group, block of input channels, block of whole samples); a unit walks its samples in steps
 *               of `positions`
 *   weightGrad  units are (group, block of input channels, block of filters); a unit walks all positions in order */
struct Conv2dCut {
  int64_t positions; /* at a time; never across samples unless it is a multiple of a sample's positions */
  int64_t samples;   /* samples per unit (inputGrad) */
  int64_t channels;  /* input channels per unit (inputGrad, weightGrad) */
  int64_t filters;   /* filters per unit (weightGrad) */
};

constexpr Conv2dCut cutConv2d(Conv2dKind kind, const Conv2dShape &s, int64_t elementBytes) {
  constexpr int64_t panelBytes = 1 << 20, units = 16, fewestChannels = 16;
  int64_t perSample = largerOf(s.positions(), 1);
  int64_t rows = largerOf(s.channels() * s.taps(), 1);
  int64_t fit = largerOf(panelBytes / (rows * elementBytes), 64);
  Conv2dCut cut{};
  if (fit >= perSample) {
    int64_t samples = largerOf(smallerOf(fit / perSample, largerOf(s.N, 1)), 1);
    /* Enough units for many threads, as long as the blocks stay wide enough for a GEMM. */
    if (kind != Conv2dKind::weightGrad)
      samples = smallerOf(samples, largerOf(divideUp(largerOf(s.N, 1), units), divideUp(64, perSample)));
    cut.samples = smallerOf(samples, largerOf(s.N, 1));
    cut.positions = cut.samples * perSample;
  } else {
    cut.samples = 1;
    cut.positions = divideUp(perSample, divideUp(perSample, fit));
  }
  cut.channels = largerOf(s.channels(), 1);
  cut.filters = largerOf(s.filters(), 1);
  if (kind == Conv2dKind::forward)
    return cut;
  int64_t have = largerOf(s.groups, 1);
  if (kind == Conv2dKind::inputGrad)
    have *= divideUp(largerOf(s.N, 1), cut.samples);
  int64_t blocks = smallerOf(divideUp(units, have), largerOf(s.channels() / fewestChannels, 1));
  cut.channels = largerOf(divideUp(s.channels(), blocks), 1);
  if (kind == Conv2dKind::weightGrad) {
    have *= divideUp(largerOf(s.channels(), 1), cut.channels);
    /* Each block of filters makes the columns again: two such blocks at most. */
    blocks = smallerOf(divideUp(2, have), largerOf(s.filters() / fewestChannels, 1));
    cut.filters = largerOf(divideUp(s.filters(), blocks), 1);
  }
  return cut;
}

/* Bytes of an element of the operands, of the sums, and of the result. */
struct ElementBytes {
  int64_t operand, sum, result;
};

/* One worker's slot, in bytes: columns and outputs (of the sums' type where the function computes them), a result of 16
 * bits while it is summed, and the panels of products of 16 bits. */
struct Conv2dSlot {
  int64_t columns, outputs, result, panels;
  constexpr int64_t bytes() const { return columns + outputs + result + panels; }
};
constexpr Conv2dSlot conv2dSlot(Conv2dKind kind, const Conv2dShape &s, ElementBytes each) {
  Conv2dCut cut = cutConv2d(kind, s, each.sum);
  int64_t channels = kind == Conv2dKind::forward ? s.channels() : cut.channels, rows = channels * s.taps();
  int64_t filters = kind == Conv2dKind::weightGrad ? cut.filters : s.filters();
  Conv2dSlot slot{};
  slot.columns = roundUpToCacheLine(rows * cut.positions * (kind == Conv2dKind::inputGrad ? each.sum : each.operand));
  slot.outputs = roundUpToCacheLine(filters * cut.positions * (kind == Conv2dKind::forward ? each.sum : each.operand));
  if (each.result != each.sum && kind == Conv2dKind::inputGrad)
    slot.result = roundUpToCacheLine(cut.samples * channels * s.H * s.W * each.sum);
  if (each.result != each.sum && kind == Conv2dKind::weightGrad)
    slot.result = roundUpToCacheLine(filters * rows * each.sum);
  if (each.operand != each.sum)
    slot.panels = kind == Conv2dKind::forward     ? gemmPanelBytes(filters, cut.positions, rows)
                  : kind == Conv2dKind::inputGrad ? gemmPanelBytes(rows, cut.positions, filters)
                                                  : gemmPanelBytes(filters, rows, cut.positions);
  return slot;
}

constexpr int64_t conv2dWorkspaceBytes(Conv2dKind kind, const Conv2dShape &shape, ElementBytes each, int64_t workers) {
  return conv2dSlot(kind, shape, each).bytes() * workers;
}

/* Scaled dot-product attention: q[B, Hq, Sq, D], k[B, Hkv, Sk, D], v[B, Hkv, Sk, Dv]. */
struct AttentionShape {
  int64_t B, Hq, Hkv, Sq, Sk, D, Dv;
};

/* The integers of a call of attention or its gradients, in this order (Library.h says what they mean); then come those
 * of each mask. */
struct AttentionCall {
  AttentionShape shape;
  int64_t left, right, hasSegments;
  int64_t hasDropout, dropoutKey, samples, dropBelow;
  int64_t hasOrigin, whole[3]; /* heads, queries, keys */
  int64_t masks;               /* how many */
};
struct AttentionMask {
  int64_t kind; /* 1 added (of dtype), 2 i1, which keys are seen */
  int64_t offset, strides[4];
};
constexpr int64_t attentionMaskInts = sizeof(AttentionMask) / sizeof(int64_t);
constexpr int64_t attentionCallInts = sizeof(AttentionCall) / sizeof(int64_t);

/* Query rows at a time: a worker holds rows x Sk scores, at most about 1 MiB unless Sk is very long. */
constexpr int64_t attentionRows(const AttentionShape &s, int64_t elementBytes) {
  int64_t fit = (1 << 20) / largerOf(s.Sk * elementBytes, 1) / 16 * 16;
  return smallerOf(largerOf(s.Sq, 1), largerOf(16, smallerOf(64, fit)));
}

/* Keys at a time to whose gradients a block of query rows adds: at most 16 tiles of them, none narrow. */
constexpr int64_t attentionKeyTile(const AttentionShape &s) {
  return largerOf(256, divideUp(divideUp(s.Sk, 16), 16) * 16);
}

/* One worker's slot, in bytes: a panel of scores (gradients have a second for theirs); where q, k and v have 16 bits a
 * tile of rows of a result, panels for products, and in the gradient the sums of dk and dv of one head. */
struct AttentionSlot {
  int64_t scores, tile, panels, keySums;
  int64_t scorePanels;
  constexpr int64_t bytes() const { return scores * scorePanels + tile + panels + keySums; }
};
constexpr AttentionSlot attentionSlot(const AttentionShape &s, int64_t sumBytes, bool isNarrow, bool isGradient) {
  int64_t rows = attentionRows(s, sumBytes);
  AttentionSlot slot{};
  slot.scores = roundUpToCacheLine(rows * s.Sk * sumBytes);
  slot.scorePanels = isGradient ? 2 : 1;
  if (!isNarrow)
    return slot;
  int64_t width = largerOf(s.D, s.Dv), tile = smallerOf(attentionKeyTile(s), s.Sk);
  slot.tile = roundUpToCacheLine(rows * width * 4);
  slot.panels = largerOf(largerOf(gemmPanelBytes(rows, s.Sk, width), gemmPanelBytes(rows, width, s.Sk)),
                         isGradient ? gemmPanelBytes(tile, width, rows) : 0);
  slot.keySums = isGradient ? roundUpToCacheLine(s.Sk * (s.D + s.Dv) * 4) : 0;
  return slot;
}
constexpr int64_t attentionWorkspaceBytes(const AttentionShape &s, int64_t sumBytes, bool isNarrow, bool isGradient,
                                          int64_t workers) {
  return attentionSlot(s, sumBytes, isNarrow, isGradient).bytes() * workers;
}

} // namespace scrimp::runtime

#endif
