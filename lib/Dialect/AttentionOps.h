// What attention and its gradients say of their scores, for the interpreter, the library and kernels alike.
#ifndef SCRIMP_LIB_DIALECT_ATTENTIONOPS_H
#define SCRIMP_LIB_DIALECT_ATTENTIONOPS_H

#include "IndexMath.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/runtime/workspace.h"

namespace mlir::scrimp {
namespace rt = ::scrimp::runtime;

template <typename Op> rt::AttentionShape attentionShape(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK()), v = shapeOf(op.getV());
  return {q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
}

/// [heads, queries, keys] of the scores that the op's are a piece of, or of its own.
template <typename Op> SmallVector<int64_t> wholeScores(Op op) {
  rt::AttentionShape s = attentionShape(op);
  return llvm::to_vector(op.getWhole().value_or(ArrayRef<int64_t>{s.Hq, s.Sq, s.Sk}));
}

/// Where a mask's elements lie: that of [b, h, i, j] at offset + the sum of index times stride.
template <typename Op> rt::AttentionMask maskLayout(Op op, Value mask) {
  rt::AttentionMask layout{tensorType(mask).getElementType().isInteger(1) ? 2 : 1, 0, {}};
  ArrayRef<int64_t> shape = shapeOf(mask);
  if (shape.size() == 2)
    return {layout.kind, attentionShape(op).Sq - 1, {0, shape[0] == 1 ? 0 : shape[1], -1, 1}};
  for (auto [result, stride, size] : llvm::zip(layout.strides, rowMajorStrides(shape), shape))
    result = size == 1 ? 0 : stride;
  return layout;
}

} // namespace mlir::scrimp

#endif
