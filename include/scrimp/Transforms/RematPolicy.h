// The policies of scrimp-rematerialize as users write them.
#ifndef SCRIMP_TRANSFORMS_REMATPOLICY_H
#define SCRIMP_TRANSFORMS_REMATPOLICY_H

#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <vector>

namespace mlir::scrimp {

/// none, full, selective, min-cut, tradeoff=SECONDS_PER_BYTE, save=GLOB,... or recompute=GLOB,...
struct RematPolicy {
  enum Kind { None, Full, Selective, MinCut, Tradeoff, Save, Recompute } kind = None;
  double secondsPerByte = 0;            // Tradeoff
  std::vector<llvm::GlobPattern> names; // Save, Recompute
  std::vector<std::string> texts;       // of names, for messages

  /// Fails with what is wrong in `text`.
  static llvm::Expected<RematPolicy> parse(llvm::StringRef text);
};

} // namespace mlir::scrimp

#endif
