// Matrix products whose operands are stored in 16 bits: of what is stored exactly, summed in f32. A few hundred terms
// of the sum at a time are packed for the processor's own bf16 products, or converted to f32 and multiplied by
// OpenBLAS.
#ifndef SCRIMP_RUNTIME_LIB_CPU_PANELGEMM_H
#define SCRIMP_RUNTIME_LIB_CPU_PANELGEMM_H

#include "NarrowRows.h"

namespace scrimp::runtime {

/// A row-major matrix operand of f32, bf16 or f16: `transposed` means that the stored matrix is the transpose of the
/// one meant.
struct StoredMatrix {
  const char *data;
  DType type;
  int64_t stride; // elements between stored rows
  bool transposed = false;

  StoredMatrix(const char *data, DType type, int64_t stride, bool transposed = false)
      : data(data), type(type), stride(stride), transposed(transposed) {}
  StoredMatrix(const float *data, int64_t stride, bool transposed = false)
      : StoredMatrix(reinterpret_cast<const char *>(data), DType::f32, stride, transposed) {}

  const char *place(int64_t i, int64_t j) const {
    return data + (transposed ? j * stride + i : i * stride + j) * elementBytes(type);
  }
  double at(int64_t i, int64_t j) const { return loadElement(type, place(i, j), 0); }
  /// The same without its first rows and columns.
  StoredMatrix from(int64_t i, int64_t j) const { return {place(i, j), type, stride, transposed}; }
};

/// C[m, n] = alpha A[m, k] B[k, n], or C + that with beta = 1, `strideC` elements between rows of C.
struct PanelProduct {
  int64_t m, n, k;
  float alpha;
  StoredMatrix a, b;
  float beta;
  float *c;
  int64_t strideC;
  char *panels; // gemmPanelBytes(m, n, k) of workspace
  bool bf16Dot; // whether products of bf16 are the processor's own

  void compute() const;
};

/// Any extents may be 0: without a sum C stays, or becomes 0.
void gemm(const PanelProduct &product);

} // namespace scrimp::runtime

#endif
