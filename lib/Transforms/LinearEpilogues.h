// What a target's library computes along with a product, taken out of the graph around it.
#ifndef SCRIMP_LIB_TRANSFORMS_LINEAREPILOGUES_H
#define SCRIMP_LIB_TRANSFORMS_LINEAREPILOGUES_H

#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// Makes a LinearOp of every product of matrices in `module` that something after it can join: a bias, a value added to
/// it, an EpilogueOp, and sums over k of one of its operands.
void formEpilogues(ModuleOp module);

} // namespace mlir::scrimp

#endif
