// What a plan says about memory and work: the content of `--report memory.json` and of `scrimp-plan`.
#ifndef SCRIMP_PLANNER_REPORT_H
#define SCRIMP_PLANNER_REPORT_H

#include "scrimp/Analysis/Cost.h"
#include "scrimp/Planner/ProcessMemory.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::scrimp {

/// The report of a planned module, for processes that use these kernels of the BLAS library:
///
///   peak_bytes             the arena: what is allocated, to the byte
///   lower_bound_bytes      no placement of this schedule takes less
///   process_bytes          the arena, and what the process takes beside it at most:
///   beside_arena           {code, data, library}: bytes (ProcessMemory.h)
///   unshared_bytes         what a step would take if no two values shared bytes
///   segments               {parameters, optimizer_state, gradients, activations, workspace, inputs}: bytes; their
///                          sum is the arena.
///                          The transient three are what each holds at the peak; activations has the rest. Pieces of
///                          inputs that are read as a loop runs are inputs there
///   peak                   {graph, op, location, live_bytes}: where the largest live set is
///   holders                of the persistent bytes and of those live at that op, largest first:
///                          [{name, location, kind, role, bytes}]: kind is the segment, role more of it (MemoryUse.h)
///   graphs                 by name: {ops, buffers, live_bytes}: transient buffers, and the most of them at once
///   flops                  of one training step: {forward, backward, recompute}. Forward is what the loss depends on,
///                          recompute what scrimp-rematerialize has repeated, backward everything else, updates
///                          included
///   residuals              what the forward pass keeps for the backward pass: [{name, location, bytes}] by the op that
///                          computes it, in a loop those of one iteration
///   recomputed             what the backward pass computes again: [{name, location, flops}]
///   communication          what a rank sends in a step, by collective: [{collective, count, bytes,
///   between_nodes_bytes}] step                   where the device is known, seconds of a step and what they come to:
///   {seconds,
///                          computing_seconds, communicating_seconds, exposed_seconds, overlapped_seconds, nodes, mfu,
///                          samples_per_second, tokens_per_second} (StepTime.h, Communication.h); exposed is what
///                          computing waits for, the last 0 where the model reads no tokens. `communication` then has
///                          `seconds`, one after the other
/// scrimp-compile adds
///   passes                 the program without passes that save memory or time ("plain"), then with one more at a
///                          time:
///                          [{pass, flags, arena_bytes, saved_bytes, seconds, added_seconds}]; seconds of a step are
///                          estimated, for --device where it is given
///   timeline               {plain, chosen}: what is alive during a step (Timeline.h), without and with the flags given
///   products_of_16_bits    how the library multiplies what is stored in 16 bits, where something is
///   search                 of --memory-budget: {budget_bytes, device, chosen, candidates, impossible}: flags; of each
///                          candidate {flags, arena_bytes, process_bytes, seconds, exposed_seconds, sent_bytes},
///                          fastest first; for each reason why a configuration is not possible {flags: [...], why}
///
/// Buckets are listed by member. `rates`: of the device, where it is known. Fails after an error if the module has no
/// plan.
FailureOr<llvm::json::Object> buildMemoryReport(ModuleOp module, llvm::ArrayRef<::scrimp::runtime::BlasBlocks> kernels,
                                                const std::optional<DeviceRates> &rates);

} // namespace mlir::scrimp

#endif
