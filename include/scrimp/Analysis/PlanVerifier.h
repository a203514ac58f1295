// The independent judge of a memory plan: it believes the attributes alone and runs each function over an abstract
// arena in which every byte knows who wrote it last.
#ifndef SCRIMP_ANALYSIS_PLANVERIFIER_H
#define SCRIMP_ANALYSIS_PLANVERIFIER_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::scrimp {

/// Checks the plan that the module's attributes state (scrimp.plan, scrimp.offset, scrimp.offsets, scrimp.body_offsets,
/// scrimp.workspace; see scrimp-plan-memory):
///
/// - the segments tile the arena; everything lies inside it and is aligned; arguments and constants are apart from each
///   other, and arguments of the same name share their bytes in all functions;
/// - whatever an op or the caller reads is what the graph says, byte for byte: nothing was written over it since
///   (live ranges, order of reads and updates, results that nobody reads, scratch buffers);
/// - the same of bodies (BodyOp), of which up to three iterations are run: the second meets what the first has spoilt;
/// - what an op has started (AsyncOp) is not written over until the op that ends it;
/// - where a rank's part lies depends on the rank (Tie::rankStride): the first, second and last rank are run;
/// - a result overlaps an operand of its own op only where the alias model allows it, and no other result or workspace;
/// - only arguments that the function updates are written, and only in the very bytes of their new value.
///
/// Fails after located errors. Shares nothing with the planner but what ops say of themselves, and mayOverwrite.
LogicalResult verifyPlan(ModuleOp module);

} // namespace mlir::scrimp

#endif
