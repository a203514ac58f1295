// Which ops may share a kernel. Kernel formation asks it, and so does whoever weighs recomputing a value inside its
// consumer's kernel. Which bytes a kernel may overwrite is Aliases.h's to say.
#ifndef SCRIMP_ANALYSIS_FUSIONLEGALITY_H
#define SCRIMP_ANALYSIS_FUSIONLEGALITY_H

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Dialect/Scrimp.h"

namespace mlir::scrimp {

/// Whether the op is computed again in each kernel that reads it, and stored only for those that are no kernels.
bool isFreeProducer(Operation *op);

/// A constant that is stored with the program.
bool isStoredConstant(Operation *op);

/// Has every operand whose bytes an op writes, or another op computes for it, be that op's alone where every kernel
/// could compute it for itself: what others read too (0, from which several sums begin) is made again. After that
/// nothing may merge equal ops.
void separateWrittenOperands(func::FuncOp function);

/// Whether generated code computes the op: it will be in a kernel.
bool becomesKernel(Operation *op);

/// A free producer is stored only for a reader that is no kernel; everything else is.
bool mustBeStored(Operation *op);

/// A map op that is worth storing: what fusion groups are made of.
bool isFusibleMap(Operation *op);

/// Whether the user's kernel may compute the operand's elements where it reads them: both ends are fusible map ops of
/// one shape, and the user reads element i for its own element i.
bool isPointwiseUse(OpOperand &use);

/// The fusible map op whose elements the user reads for its own, itself or through free producers (a cast that widens);
/// null if there is none.
Operation *getPointwiseSource(OpOperand &use);

/// The map ops that read `result`, of a rows op, element by element, themselves or through free producers, and can
/// finish it where it is stored (KernelOp::mayFinish); empty if anything else reads it.
SmallVector<Operation *> getFinishers(OpResult result);

/// In a scrimp.kernel: the result of its rows op that its maps finish; null if there is none.
OpResult getFinishedResult(Operation *rows);

/// The places that `op` reads, seen through free producers, which its kernel will copy; of what ends something
/// (AsyncOp) also those that are read until then.
SmallVector<Place> getReads(Operation *op, const Aliases &aliases);

/// A partition of a block's ops into groups that each may become one kernel. An op starts alone; groups stay convex:
/// no path leaves a group and comes back.
class FusionGroups {
public:
  /// `aliases` is of the function that the block is, or lies in, the body of.
  FusionGroups(Block &block, const Aliases &aliases);

  /// The ops of `op`'s group, in block order.
  ArrayRef<Operation *> getMembers(Operation *op) const { return members[getGroup(op)]; }
  bool sameGroup(Operation *a, Operation *b) const { return getGroup(a) == getGroup(b); }

  /// Whether the groups of two fusible map ops, joined by a pointwise use, can become one.
  bool mayFuse(Operation *producer, Operation *consumer) const;

  /// Whether the group of `finisher`, one of the maps that finish `result` of a rows op, can become one with that op:
  /// their kernel then computes them where it would store the result.
  bool mayFinish(OpResult result, Operation *finisher) const;

  /// Makes them one.
  void fuse(Operation *a, Operation *b);

  /// The ops that read, themselves or through a free producer, what `op` then overwrites (a parameter that it updates,
  /// an accumulator). They must stay before it, though no value says so.
  ArrayRef<Operation *> getReadersBefore(Operation *op) const {
    auto found = readersBefore.find(op);
    return found == readersBefore.end() ? ArrayRef<Operation *>() : ArrayRef<Operation *>(found->second);
  }

  /// Whether `op` is such a reader.
  bool isReadBeforeUpdate(Operation *op) const { return updatesAfter.contains(op); }

private:
  unsigned getGroup(Operation *op) const { return groupAt[position.lookup(op)]; }
  /// Whether an op of `group` reads `value`, itself or through free producers.
  bool isReadBy(Value value, unsigned group) const;
  bool pathLeavesAndReturns(unsigned from, unsigned to) const;
  /// The ops that must come after `op`: its readers, and those that overwrite what it reads.
  void collectSuccessors(Operation *op, SmallVectorImpl<Operation *> &successors) const;
  void collectUpdates(const Aliases &aliases);

  Block &block;
  DenseMap<Operation *, SmallVector<Operation *>> readersBefore, updatesAfter;
  DenseMap<Operation *, unsigned> position;
  // By position in the block:
  std::vector<unsigned> groupAt;
  std::vector<SmallVector<unsigned, 4>> successors; ///< what must come after the op
  std::vector<SmallVector<Operation *, 1>> members; ///< by group
  std::vector<unsigned> reach; ///< by position: where the last group ends that begins there or before
};

} // namespace mlir::scrimp

#endif
