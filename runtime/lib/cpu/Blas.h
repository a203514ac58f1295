// One typed name for OpenBLAS's two GEMMs. Every call is single-threaded (initializeLibrary), so its bits depend on
// its arguments alone.
#ifndef SCRIMP_RUNTIME_LIB_CPU_BLAS_H
#define SCRIMP_RUNTIME_LIB_CPU_BLAS_H

#include <cblas.h>
#include <cstdint>

namespace scrimp::runtime {

/// A row-major matrix operand: `transposed` means that the stored matrix is the transpose of the one meant.
template <typename T> struct MatrixOperand {
  const T *data;
  int64_t stride; // elements between stored rows
  bool transposed = false;
};

/// C[m, n] = alpha A[m, k] B[k, n] + beta C, row-major, `strideC` elements between rows of C. beta = 0 does not read
/// C. All extents are at most 2^31 - 1.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixOperand<T> a, MatrixOperand<T> b, T beta, T *c,
          int64_t strideC) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c[i * strideC + j] = beta == T(0) ? T(0) : beta * c[i * strideC + j];
    return;
  }
  auto transA = a.transposed ? CblasTrans : CblasNoTrans, transB = b.transposed ? CblasTrans : CblasNoTrans;
  auto M = static_cast<blasint>(m), N = static_cast<blasint>(n), K = static_cast<blasint>(k);
  auto lda = static_cast<blasint>(a.stride), ldb = static_cast<blasint>(b.stride), ldc = static_cast<blasint>(strideC);
  if constexpr (sizeof(T) == 4)
    cblas_sgemm(CblasRowMajor, transA, transB, M, N, K, alpha, a.data, lda, b.data, ldb, beta, c, ldc);
  else
    cblas_dgemm(CblasRowMajor, transA, transB, M, N, K, alpha, a.data, lda, b.data, ldb, beta, c, ldc);
}

} // namespace scrimp::runtime

#endif
