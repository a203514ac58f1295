// What a call of the runtime's library computes, by the integers that it is called with and the cut that these decide
// (runtime/include/scrimp/runtime/blas_packs.h).
#ifndef SCRIMP_ANALYSIS_LIBRARYWORK_H
#define SCRIMP_ANALYSIS_LIBRARYWORK_H

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/runtime/blas_packs.h"

namespace mlir::scrimp {

struct LibraryWork {
  /// The largest that the function leaves to the BLAS library, one of each kind.
  SmallVector<::scrimp::runtime::BlasProduct, 3> products;
  /// What it really computes, by whole tiles: floating-point operations of products, and others.
  int64_t productFlops = 0, otherFlops = 0;
  int64_t repeatedFlops = 0; // of productFlops, what the forward pass has computed before
};

/// `op` is of the family Library. Of a function that is not known here the products have all the op's FLOPs.
LibraryWork computeLibraryWork(KernelOp op);

} // namespace mlir::scrimp

#endif
