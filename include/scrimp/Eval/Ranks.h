// Evaluation of a program that many ranks run: all of them in this process, a thread each, of which one runs at a time.
#ifndef SCRIMP_EVAL_RANKS_H
#define SCRIMP_EVAL_RANKS_H

#include "scrimp/Eval/Interpreter.h"

#include <memory>

namespace mlir::scrimp {

/// What all ranks give to a collective, by rank.
using RankValues = std::shared_ptr<const std::vector<HostTensor>>;

/// Calls `evaluate(rank)` for ranks 0 to world - 1, so that collectives inside (exchange) meet. Ranks take turns, in
/// their order, each until it ends or waits for others; so they may share the context and what they print has an order.
/// Fails if one fails, or, after an error that names both places, if two wait in different ops or one has ended.
LogicalResult evalOnRanks(int64_t world, llvm::function_ref<LogicalResult(int64_t rank)> evaluate);

/// As long as this lives, evaluation on this thread is that of rank 0 of `world`, all of which give to collectives what this
/// one gives.
class EqualRanks {
public:
  explicit EqualRanks(int64_t world);
  ~EqualRanks();
  EqualRanks(const EqualRanks &) = delete;

private:
  int64_t outer;
};

/// For the `eval` of a collective of `world` ranks: gives this rank's operand to the others and returns those of all.
/// On one rank, and outside of evalOnRanks, that is the operand itself. Fails after an error at `op` if there are not
/// as many ranks, or if another rank has failed.
FailureOr<RankValues> exchange(Operation *op, int64_t world, const HostTensor &mine);

/// The rank that this is; 0 outside of evalOnRanks.
int64_t currentRank();

} // namespace mlir::scrimp

#endif
