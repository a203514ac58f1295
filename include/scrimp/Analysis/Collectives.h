// What one program that all ranks run must hold so that they never wait for each other in vain.
#ifndef SCRIMP_ANALYSIS_COLLECTIVES_H
#define SCRIMP_ANALYSIS_COLLECTIVES_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// The number of ranks that the program is for, as its first collective or part of a rank (Tie::rankStride) says; 1
/// where there is none.
int64_t getNumRanks(ModuleOp module);

/// Which values of a function are the same on all ranks, bit for bit: what a collective gives to all, and what is
/// computed from such values alone. Inputs, the rank and what counts its samples differ, and so do parts of buckets;
/// parameters and states do where what they are updated with does.
class RankInvariance {
public:
  explicit RankInvariance(func::FuncOp function);

  /// False is always safe.
  bool isInvariant(Value value) const { return !differing.contains(value); }

private:
  bool visit(Block &block);
  bool mark(Value value) { return differing.insert(value).second; }

  llvm::DenseSet<Value> differing;
};

/// What a step of one rank sends in collectives of one name: how often it runs them, the bytes, on average over the
/// ranks, those of them that go to other nodes, and the seconds that they take one after the other.
struct Traffic {
  std::string collective;
  int64_t count = 0, bytes = 0, betweenBytes = 0;
  double seconds = 0;
};

/// Of the whole function, loops included, by name in the order of first appearance.
SmallVector<Traffic> collectTraffic(func::FuncOp function, const planner::Network &network);

/// Proves that all ranks run the same collectives, of the same sizes, in the same order. They run one program of static
/// shapes, and where one may end a step early they agree on it (CmdCheckFiniteOp), so it is enough that
///
/// - all collectives and parts are for one number of ranks;
/// - a collective stands where every rank comes equally often: in a function or a loop, not in a body that may not run;
/// - what is started is waited for;
/// - a rank's part is chosen by the number of the rank, which the runtime knows.
///
/// Fails after a located error at the first that does not hold.
LogicalResult verifyCollectives(ModuleOp module);

} // namespace mlir::scrimp

#endif
