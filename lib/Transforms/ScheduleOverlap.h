// The second half of scrimp-schedule: what runs beside other ops (AsyncOp) starts early and is waited for late.
#ifndef SCRIMP_LIB_TRANSFORMS_SCHEDULEOVERLAP_H
#define SCRIMP_LIB_TRANSFORMS_SCHEDULEOVERLAP_H

#include "scrimp/Analysis/MemoryUse.h"

namespace mlir::scrimp {

/// A better order of a block's `ops`, which stand in `order` (a permutation of their numbers) and must come before
/// `successors`: an op that starts something moves up to where its operands are known, but not before what is needed
/// earlier, and the op that ends it down to the first that reads it or writes over what it holds. Each moves as far as
/// the largest live set by `use`, which is of this order, rises by `room` bytes at most. Without such ops the order
/// stays.
SmallVector<unsigned> overlapStarts(Block &block, ArrayRef<Operation *> ops,
                                    ArrayRef<SmallVector<unsigned, 4>> successors, ArrayRef<unsigned> order,
                                    const MemoryUse &use, const Aliases &aliases, int64_t room);

} // namespace mlir::scrimp

#endif
