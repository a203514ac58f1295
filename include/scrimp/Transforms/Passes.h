// The graph passes; Passes.td documents them.
#ifndef SCRIMP_TRANSFORMS_PASSES_H
#define SCRIMP_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::scrimp {

#define GEN_PASS_DECL
#include "scrimp/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scrimp/Transforms/Passes.h.inc"

} // namespace mlir::scrimp

#endif
