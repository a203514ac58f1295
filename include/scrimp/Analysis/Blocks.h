// The blocks of a model (layers, stages): what full rematerialization computes again from its input.
#ifndef SCRIMP_ANALYSIS_BLOCKS_H
#define SCRIMP_ANALYSIS_BLOCKS_H

#include "scrimp/Dialect/Scrimp.h"

#include "llvm/Support/GlobPattern.h"

namespace mlir::scrimp {

/// A list of ops falls into blocks; -1: outside of any.
using BlockNumbers = SmallVector<int>;

/// The module that an op belongs to, as exporters name it: "transformer.h.0.mlp" of 'transformer.h.0.mlp/node_add'.
/// Empty where the name has none.
StringRef moduleScopeOf(StringRef name);

/// The module that a name belongs to, as blocks go: up to the first part of the scope that is a number ("h.0" of
/// "h.0.attn.weight"), or with patterns the shortest prefix that one matches; `used[i]` is set where pattern i did.
/// Empty if there is none.
StringRef findBlockPrefix(StringRef scope, ArrayRef<llvm::GlobPattern> patterns, MutableArrayRef<bool> used);

/// What the ops before one leave to those from it on.
struct Crossing {
  int64_t values = 0, bytes = 0;
};

/// Blocks of `ops`, numbered in their order; `crossing[i]` is what crosses the border before op i. By `patterns`, glob
/// patterns of scopes, if there are any: all ops whose scope begins with the same match are one block, and `used[i]` is
/// set where pattern i matched. Else by the first numbered module in each scope (`layer1.0`), provided there are two at
/// least; else by repetition, where that covers half of the ops: runs of ops that repeat at once with the same names,
/// attributes and types, longest first, cut where least crosses; else between borders that one value crosses. Empty if
/// nothing is found.
BlockNumbers findBlocks(ArrayRef<Operation *> ops, ArrayRef<Crossing> crossing, ArrayRef<llvm::GlobPattern> patterns,
                        MutableArrayRef<bool> used);

} // namespace mlir::scrimp

#endif
