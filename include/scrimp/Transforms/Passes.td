//===- Passes.td - the graph passes --------------------------------------------------------------------------------===//
#ifndef SCRIMP_TRANSFORMS_PASSES_TD
#define SCRIMP_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif
