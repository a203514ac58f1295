// The forward pass of one block as the problem of what to keep sees it: ops that compute something, and their values
// seen through what costs nothing (views, and what every kernel computes for itself).
#ifndef SCRIMP_LIB_TRANSFORMS_RESIDUALGRAPH_H
#define SCRIMP_LIB_TRANSFORMS_RESIDUALGRAPH_H

#include "scrimp/Analysis/TrainingParts.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::scrimp {

/// The operands that a transparent op's value is made from: a view's own, not what else it waits for.
SmallVector<OpOperand *, 1> getSources(Operation *transparent);

class ResidualGraph {
public:
  ResidualGraph(Block &block, const TrainingParts &parts);

  /// Whether the op makes no bytes of its own: a view, a constant, or a free producer that nothing stores.
  bool isTransparent(Operation *op) const;

  Block &getBlock() const { return block; }
  const TrainingParts &getParts() const { return parts; }

  /// Forward ops that compute, in the block's order, and their results.
  ArrayRef<Operation *> getOps() const { return ops; }
  ArrayRef<OpResult> getValues() const { return values; }
  bool isNode(Operation *op) const { return op && numberOf.contains(op); }
  unsigned getNumber(Operation *op) const { return numberOf.lookup(op); }
  unsigned getNumber(OpResult value) const {
    return firstValue[numberOf.lookup(value.getOwner())] + value.getResultNumber();
  }
  unsigned getOpOf(unsigned value) const { return numberOf.lookup(values[value].getOwner()); }

  /// The numbers of the values that `value` is, or is made from by transparent ops.
  void collectValues(Value value, llvm::SetVector<unsigned> &out) const;

  /// Values that op `number` reads.
  ArrayRef<unsigned> getReads(unsigned number) const { return reads[number]; }
  /// The forward ops that read a value, by number.
  ArrayRef<unsigned> getForwardReaders(unsigned value) const { return forwardReaders[value]; }
  /// The operands of the backward pass that read a value, also through transparent ops.
  ArrayRef<OpOperand *> getBackwardReads(unsigned value) const { return backwardReads[value]; }
  /// Whether the value is given by the block (a loss, say), so that it is kept in any case.
  bool isGiven(unsigned value) const { return given.test(value); }

private:
  Block &block;
  const TrainingParts &parts;
  SmallVector<Operation *, 0> ops;
  SmallVector<OpResult, 0> values;
  SmallVector<unsigned, 0> firstValue; // by op
  DenseMap<Operation *, unsigned> numberOf;
  mutable DenseMap<Operation *, bool> transparent; // as asked: a free producer may have very many readers
  std::vector<SmallVector<unsigned, 4>> reads, forwardReaders;
  std::vector<SmallVector<OpOperand *, 2>> backwardReads;
  llvm::BitVector given;
};

} // namespace mlir::scrimp

#endif
