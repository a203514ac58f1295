// Matrix products by cuBLASLt (NVIDIA's reference manual of that name, 12 and 13), opened when it is needed.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_BLASLT_H
#define SCRIMP_RUNTIME_LIB_CUDA_BLASLT_H

#include "Driver.h"
#include "scrimp/runtime/Library.h"
#include <map>
#include <memory>

namespace scrimp::runtime::cuda {

using BlasStatus = int; // 0 is success
struct BlasTag;
struct MatmulDescTag;
struct LayoutTag;
struct PreferenceTag;
using Blas = BlasTag *;
using MatmulDesc = MatmulDescTag *;
using Layout = LayoutTag *;
using Preference = PreferenceTag *;

/// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

#define SCRIMP_BLASLT_FUNCTIONS(X)                                                                                     \
  X(BlasStatus, cublasLtCreate, (Blas *))                                                                              \
  X(BlasStatus, cublasLtDestroy, (Blas))                                                                               \
  X(size_t, cublasLtGetVersion, ())                                                                                    \
  X(const char *, cublasLtGetStatusString, (BlasStatus))                                                               \
  X(BlasStatus, cublasLtMatmulDescCreate, (MatmulDesc *, int, int))                                                    \
  X(BlasStatus, cublasLtMatmulDescDestroy, (MatmulDesc))                                                               \
  X(BlasStatus, cublasLtMatmulDescSetAttribute, (MatmulDesc, int, const void *, size_t))                               \
  X(BlasStatus, cublasLtMatrixLayoutCreate, (Layout *, int, uint64_t, uint64_t, int64_t))                              \
  X(BlasStatus, cublasLtMatrixLayoutDestroy, (Layout))                                                                 \
  X(BlasStatus, cublasLtMatrixLayoutSetAttribute, (Layout, int, const void *, size_t))                                 \
  X(BlasStatus, cublasLtMatmulPreferenceCreate, (Preference *))                                                        \
  X(BlasStatus, cublasLtMatmulPreferenceDestroy, (Preference))                                                         \
  X(BlasStatus, cublasLtMatmulPreferenceSetAttribute, (Preference, int, const void *, size_t))                         \
  X(BlasStatus, cublasLtMatmulAlgoGetHeuristic,                                                                        \
    (Blas, MatmulDesc, Layout, Layout, Layout, Layout, Preference, int, Heuristic *, int *))                           \
  X(BlasStatus, cublasLtMatmul,                                                                                        \
    (Blas, MatmulDesc, const void *, const void *, Layout, const void *, Layout, const void *, const void *, Layout,   \
     void *, Layout, const Algorithm *, void *, size_t, Stream))

/// A product that has been asked for, and the algorithm that it has since then.
struct Product;

class BlasLt {
public:
  BlasLt();
  ~BlasLt();
  BlasLt(const BlasLt &) = delete;
  BlasLt &operator=(const BlasLt &) = delete;

  /// Opens the library, from `folder` if one is given, with a handle for the current context.
  Status open(const std::string &folder);
  /// "cuBLASLt 13.0.2 ('/usr/lib/libcublasLt.so.13')"
  std::string describe() const;

  /// Does a call of "gemm" or "linear" (Library.h) on the stream. The first time it asks the library for an algorithm,
  /// by what the call says of itself and how its buffers are aligned within 16 bytes, not by where they are; without
  /// one it fails. Sums are never reduced in the result's type.
  Status gemm(const LibraryArguments &arguments, Stream stream);
  Status linear(const LibraryArguments &arguments, Stream stream);

private:
  struct Request;
  Status run(const LibraryArguments &arguments, const Request &request, Stream stream);
  Result<Product *> find(const LibraryArguments &arguments, const Request &request);
  Status prepare(Product &product, const LibraryArguments &arguments, const Request &request);
  Status check(BlasStatus status, const char *what) const;

#define SCRIMP_DECLARE(type, name, parameters) type(*name) parameters = nullptr;
  SCRIMP_BLASLT_FUNCTIONS(SCRIMP_DECLARE)
#undef SCRIMP_DECLARE

  SharedLibrary library;
  Blas handle = nullptr;
  std::map<std::pair<const int64_t *, unsigned>, std::unique_ptr<Product>>
      products; // by the call's integers, alignment
};

} // namespace scrimp::runtime::cuda

#endif
