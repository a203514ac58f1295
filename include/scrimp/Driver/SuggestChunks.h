// Which modules --memory-budget tries to run in chunks.
#ifndef SCRIMP_DRIVER_SUGGESTCHUNKS_H
#define SCRIMP_DRIVER_SUGGESTCHUNKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace mlir::scrimp {

/// Patterns of module scopes, as --chunk takes them.
struct SuggestedChunks {
  std::vector<std::string> heads;   // the last projection, if it makes much of little: logits of a vocabulary
  std::vector<std::string> insides; // modules that widen and narrow again: MLPs
  int64_t rows = 0;                 // tokens, or samples, of the largest of them
};

/// Looks at the forward graph @main, as imported.
SuggestedChunks suggestChunks(func::FuncOp main);

} // namespace mlir::scrimp

#endif
