// At which prices of a byte scrimp-rematerialize chooses what.
#ifndef SCRIMP_TRANSFORMS_REMATPRICES_H
#define SCRIMP_TRANSFORMS_REMATPRICES_H

#include "scrimp/Transforms/Passes.h"

#include <vector>

namespace mlir::scrimp {

/// Prices for the policy `tradeoff`, seconds per byte, rising: one for each choice that is worth having, the last
/// infinite. At most `most` of them, their bytes the widest apart. For a module as the pass takes it; `options` but the
/// policy are the pass's. Empty where nothing can be computed again.
std::vector<double> findTradeoffPrices(ModuleOp module, const RematerializeOptions &options, size_t most);

} // namespace mlir::scrimp

#endif
