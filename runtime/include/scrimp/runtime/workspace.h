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

/* Bytes of one worker's slot: the panel of columns, and one of outputs where a block may span samples. */
constexpr int64_t conv2dSlotBytes(Conv2dKind kind, const Conv2dShape &s, int64_t elementBytes) {
  Conv2dCut cut = cutConv2d(kind, s, elementBytes);
  int64_t channels = kind == Conv2dKind::forward ? s.channels() : cut.channels;
  int64_t filters = kind == Conv2dKind::weightGrad ? cut.filters : s.filters();
  return roundUpToCacheLine(channels * s.taps() * cut.positions * elementBytes) +
         roundUpToCacheLine(filters * cut.positions * elementBytes);
}

constexpr int64_t conv2dWorkspaceBytes(Conv2dKind kind, const Conv2dShape &shape, int64_t elementBytes,
                                       int64_t workers) {
  return conv2dSlotBytes(kind, shape, elementBytes) * workers;
}

/* Scaled dot-product attention: q[B, Hq, Sq, D], k[B, Hkv, Sk, D], v[B, Hkv, Sk, Dv]. */
struct AttentionShape {
  int64_t B, Hq, Hkv, Sq, Sk, D, Dv;
};

/* The integers of a call of attention or its gradients, in this order (Library.h says what they mean); then come those of
 * each mask. */
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

constexpr int64_t attentionSlotBytes(const AttentionShape &s, int64_t elementBytes) {
  return roundUpToCacheLine(attentionRows(s, elementBytes) * s.Sk * elementBytes);
}
constexpr int64_t attentionWorkspaceBytes(const AttentionShape &s, int64_t elementBytes, int64_t workers) {
  return attentionSlotBytes(s, elementBytes) * workers;
}
/* The gradient holds the probabilities and their gradient. */
constexpr int64_t attentionGradWorkspaceBytes(const AttentionShape &s, int64_t elementBytes, int64_t workers) {
  return 2 * attentionSlotBytes(s, elementBytes) * workers;
}

/* That of a mask as well. */
constexpr int64_t attentionMaskGradWorkspaceBytes(const AttentionShape &s, int64_t elementBytes, int64_t workers) {
  return 2 * attentionSlotBytes(s, elementBytes) * workers;
}

} // namespace scrimp::runtime

#endif
