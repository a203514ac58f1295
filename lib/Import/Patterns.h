// --frozen and --trainable: glob patterns over parameter names, the more exact of which decides.
#ifndef SCRIMP_LIB_IMPORT_PATTERNS_H
#define SCRIMP_LIB_IMPORT_PATTERNS_H

#include "scrimp/Import/Onnx.h"

namespace mlir::scrimp::onnx_import {

struct PatternChoice {
  enum Kind { None, Frozen, Trainable, Tie } kind = None;
  std::string frozen, trainable; // the pattern of each flag that matches best; empty where none does
};

/// The choice for a parameter: of the patterns that match its name the one with the most literal characters (those
/// that are no *, ? or [class]). A tie between the flags is for the caller to report.
PatternChoice choosePattern(const ImportOptions &options, StringRef name);

/// Reports patterns that are malformed, and a parameter over which the flags tie.
LogicalResult checkPatterns(const ImportOptions &options, MLIRContext *context);
LogicalResult checkNoTie(const ImportOptions &options, StringRef name, MLIRContext *context);

} // namespace mlir::scrimp::onnx_import

#endif
