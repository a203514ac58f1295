// What a plan says about memory and work: the content of `--report memory.json` and of `scrimp-plan`.
#ifndef SCRIMP_PLANNER_REPORT_H
#define SCRIMP_PLANNER_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::scrimp {

/// What a process needs beside the arena, at most: code and libraries (8 MiB on Debian 12), and of each thread what
/// OpenBLAS packs operands into and a stack.
constexpr int64_t getBytesBesideArena(int64_t workers) { return (int64_t(8) << 20) + workers * (int64_t(9) << 19); }

/// The report of a planned module:
///
///   peak_bytes             the arena: what is allocated, to the byte
///   lower_bound_bytes      no placement of this schedule takes less
///   process_bytes          the arena and getBytesBesideArena
///   unshared_bytes         what a step would take if no two values shared bytes
///   segments               {parameters, optimizer_state, gradients, activations, workspace, inputs}: bytes; their sum is
///                          the arena. The transient three are what each holds at the peak; activations has the rest
///   peak                   {graph, op, location, live_bytes}: where the largest live set is
///   holders                of the persistent bytes and of those live at that op, largest first:
///                          [{name, location, kind, bytes}]
///   graphs                 by name: {ops, buffers, live_bytes}: transient buffers, and the most of them at once
///   flops                  of one training step: {forward, backward, recompute}. Forward is what the loss depends on,
///                          recompute what scrimp-rematerialize has repeated, backward everything else, updates included
///   residuals              what the forward pass keeps for the backward pass: [{name, location, bytes}] by the op that
///                          computes it, in a loop those of one iteration
///   recomputed             what the backward pass computes again: [{name, location, flops}]
/// scrimp-compile adds
///   products_of_16_bits    how the library multiplies what is stored in 16 bits, where something is
///
/// Buckets are listed by member. Fails after an error if the module has no plan.
FailureOr<llvm::json::Object> buildMemoryReport(ModuleOp module);

} // namespace mlir::scrimp

#endif
