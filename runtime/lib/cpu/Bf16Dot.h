// Products of bf16 matrices by the processor's own instruction (AVX512_BF16): a pair of products is added to an f32 sum
// at once. Operands are packed into panels of 16 rows or columns; one call multiplies one packed panel by another.
#ifndef SCRIMP_RUNTIME_LIB_CPU_BF16DOT_H
#define SCRIMP_RUNTIME_LIB_CPU_BF16DOT_H

#include <cstdint>

namespace scrimp::runtime {

/// Whether this processor has it.
bool hasBf16Dot();

/// C[m, n] (+)= alpha A[m, k] B[k, n], `strideC` elements between rows of C; k is at least 1. A transposed operand is
/// stored as its transpose, `stride` is that between stored rows. `panels` holds
/// packedBytes(m, k) + packedBytes(n, k) (workspace.h). The sum over k is of pairs, in order; subnormal numbers count
/// as 0.
void multiplyBf16(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *a, int64_t strideA, bool transA,
                  const uint16_t *b, int64_t strideB, bool transB, bool accumulate, float *c, int64_t strideC,
                  char *panels);

} // namespace scrimp::runtime

#endif
