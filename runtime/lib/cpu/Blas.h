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

  T at(int64_t i, int64_t j) const { return transposed ? data[j * stride + i] : data[i * stride + j]; }
};

/// C[m, n] = alpha A[m, k] B[k, n] + beta C, row-major, `strideC` elements between rows of C. beta = 0 does not read
/// C. All extents are positive and at most 2^31 - 1.
template <typename T> struct Product {
  int64_t m, n, k;
  T alpha;
  MatrixOperand<T> a, b;
  T beta;
  T *c;
  int64_t strideC;

  void compute() const {
    auto transA = a.transposed ? CblasTrans : CblasNoTrans, transB = b.transposed ? CblasTrans : CblasNoTrans;
    auto M = static_cast<blasint>(m), N = static_cast<blasint>(n), K = static_cast<blasint>(k);
    auto lda = static_cast<blasint>(a.stride), ldb = static_cast<blasint>(b.stride),
         ldc = static_cast<blasint>(strideC);
    if constexpr (sizeof(T) == 4)
      cblas_sgemm(CblasRowMajor, transA, transB, M, N, K, alpha, a.data, lda, b.data, ldb, beta, c, ldc);
    else
      cblas_dgemm(CblasRowMajor, transA, transB, M, N, K, alpha, a.data, lda, b.data, ldb, beta, c, ldc);
  }
};

/// While set, every product is compared with plain sums (BlasCheck.cpp). Changes only while no product runs.
extern bool productsAreChecked;
void runChecked(const Product<float> &product);
void runChecked(const Product<double> &product);
struct PanelProduct;
void runChecked(const PanelProduct &product);

/// A product whose extents may be 0: without a sum (k = 0) C becomes beta C.
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
  Product<T> product{m, n, k, alpha, a, b, beta, c, strideC};
  if (productsAreChecked)
    runChecked(product);
  else
    product.compute();
}

} // namespace scrimp::runtime

#endif
