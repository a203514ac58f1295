#include "Bf16Dot.h"
#include "scrimp/runtime/workspace.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace scrimp::runtime {

#ifdef __x86_64__

#define SCRIMP_BF16_DOT [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]

bool hasBf16Dot() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bf16");
}

namespace {

constexpr int64_t width = packedRows, tileRows = 8;

/// The first `count` of 16 or 32 lanes.
constexpr uint32_t firstLanes(int64_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// 16 rows of 16 words become columns.
SCRIMP_BF16_DOT inline void transposeWords(__m512i (&rows)[16]) {
  __m512i pairs[16];
  for (int i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  // quads[4 i + c], lane l: words 4 l + c of rows 4 i to 4 i + 3.
  __m512i quads[16];
  for (int i = 0; i < 4; ++i)
    for (int c = 0; c < 2; ++c) {
      quads[4 * i + 2 * c] = _mm512_unpacklo_epi64(pairs[4 * i + c], pairs[4 * i + 2 + c]);
      quads[4 * i + 2 * c + 1] = _mm512_unpackhi_epi64(pairs[4 * i + c], pairs[4 * i + 2 + c]);
    }
  for (int c = 0; c < 4; ++c) {
    __m512i evenLow = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0x88);
    __m512i oddLow = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0xdd);
    __m512i evenHigh = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0x88);
    __m512i oddHigh = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0xdd);
    rows[c] = _mm512_shuffle_i32x4(evenLow, evenHigh, 0x88);
    rows[4 + c] = _mm512_shuffle_i32x4(oddLow, oddHigh, 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(evenLow, evenHigh, 0xdd);
    rows[12 + c] = _mm512_shuffle_i32x4(oddLow, oddHigh, 0xdd);
  }
}

/// Packs up to 16 rows of k elements: word p of the panel's row p holds elements 2 p and 2 p + 1 of the stored row.
/// What is not there is 0.
SCRIMP_BF16_DOT void packRows(const uint16_t *data, int64_t stride, int64_t rows, int64_t k, uint32_t *panel) {
  for (int64_t begin = 0; begin < k; begin += 2 * width) {
    __mmask32 inside = firstLanes(k - begin);
    __m512i words[16];
    for (int64_t r = 0; r < 16; ++r)
      words[r] = r < rows ? _mm512_maskz_loadu_epi16(inside, data + r * stride + begin) : _mm512_setzero_si512();
    transposeWords(words);
    int64_t pairs = smallerOf(width, divideUp(k - begin, 2));
    for (int64_t p = 0; p < pairs; ++p)
      _mm512_storeu_si512(panel + (begin / 2 + p) * width, words[p]);
  }
}

/// The same where the elements of one row lie `stride` apart; up to 32 rows, a cache line, fill two panels that are
/// `pairs` words of 16 apart.
SCRIMP_BF16_DOT void packColumns(const uint16_t *data, int64_t stride, int64_t rows, int64_t k, uint32_t *panel) {
  __mmask32 inside = firstLanes(rows);
  int64_t pairs = divideUp(k, 2);
  // Quarters that the unpacking below leaves: 0, 2 and so on are the lower halves of 8 rows, the others the upper ones.
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  for (int64_t p = 0; p < pairs; ++p) {
    const uint16_t *at = data + 2 * p * stride;
    __m512i even = _mm512_maskz_loadu_epi16(inside, at);
    __m512i odd = 2 * p + 1 < k ? _mm512_maskz_loadu_epi16(inside, at + stride) : _mm512_setzero_si512();
    __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    _mm512_storeu_si512(panel + p * width, _mm512_permutex2var_epi64(low, first, high));
    if (rows > width)
      _mm512_storeu_si512(panel + (pairs + p) * width, _mm512_permutex2var_epi64(low, second, high));
  }
}

void pack(const uint16_t *data, int64_t stride, bool kIsRow, int64_t rows, int64_t k, uint32_t *panels) {
  int64_t pairs = divideUp(k, 2);
  if (kIsRow)
    for (int64_t r = 0; r < rows; r += width)
      packRows(data + r * stride, stride, smallerOf(width, rows - r), k, panels + r * pairs);
  else
    for (int64_t r = 0; r < rows; r += 2 * width)
      packColumns(data + r, stride, smallerOf(2 * width, rows - r), k, panels + r * pairs);
}

/// 8 rows of a panel of A by one or two panels of B: the most sums that registers hold beside their operands. Of C
/// `rows` x `columns` exist.
template <int Panels>
SCRIMP_BF16_DOT void multiplyPanels(int64_t pairs, const uint32_t *a, const uint32_t *b, float alpha, bool accumulate,
                                    float *c, int64_t strideC, int64_t rows, int64_t columns) {
  __m512 sums[tileRows][Panels];
#pragma GCC unroll 8
  for (int r = 0; r < tileRows; ++r)
    for (int j = 0; j < Panels; ++j)
      sums[r][j] = _mm512_setzero_ps();
  for (int64_t p = 0; p < pairs; ++p) {
    __m512bh ofB[Panels];
    for (int j = 0; j < Panels; ++j)
      ofB[j] = (__m512bh)_mm512_loadu_si512(b + (j * pairs + p) * width);
#pragma GCC unroll 8
    for (int r = 0; r < tileRows; ++r) {
      auto ofA = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[p * width + r]));
      for (int j = 0; j < Panels; ++j)
        sums[r][j] = _mm512_dpbf16_ps(sums[r][j], ofA, ofB[j]);
    }
  }
  __m512 factor = _mm512_set1_ps(alpha);
#pragma GCC unroll 8
  for (int r = 0; r < tileRows; ++r) {
    if (r >= rows)
      break;
    for (int j = 0; j < Panels; ++j) {
      auto inside = static_cast<__mmask16>(firstLanes(columns - j * width));
      float *at = c + r * strideC + j * width;
      __m512 value = _mm512_mul_ps(sums[r][j], factor);
      if (accumulate)
        value = _mm512_add_ps(_mm512_maskz_loadu_ps(inside, at), value);
      _mm512_mask_storeu_ps(at, inside, value);
    }
  }
}

} // namespace

void multiplyBf16(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *a, int64_t strideA, bool transA,
                  const uint16_t *b, int64_t strideB, bool transB, bool accumulate, float *c, int64_t strideC,
                  char *panels) {
  int64_t pairs = divideUp(k, 2);
  auto *packedA = reinterpret_cast<uint32_t *>(panels),
       *packedB = reinterpret_cast<uint32_t *>(panels + packedBytes(m, k));
  pack(a, strideA, !transA, m, k, packedA);
  pack(b, strideB, transB, n, k, packedB);
  for (int64_t j = 0; j < n; j += 2 * width)
    for (int64_t i = 0; i < m; i += tileRows) {
      auto multiply = n - j > width ? multiplyPanels<2> : multiplyPanels<1>;
      multiply(pairs, packedA + i / width * width * pairs + i % width, packedB + j * pairs, alpha, accumulate,
               c + i * strideC + j, strideC, smallerOf(tileRows, m - i), smallerOf(2 * width, n - j));
    }
}

#else

bool hasBf16Dot() { return false; }

void multiplyBf16(int64_t, int64_t, int64_t, float, const uint16_t *, int64_t, bool, const uint16_t *, int64_t, bool,
                  bool, float *, int64_t, char *) {
  __builtin_unreachable(); // a program that asks for it is refused (VerifyProgram.cpp)
}

#endif

} // namespace scrimp::runtime
