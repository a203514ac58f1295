#include "ResidualGraph.h"

#include "scrimp/Analysis/FusionLegality.h"

using namespace mlir;
using namespace mlir::scrimp;

bool ResidualGraph::isTransparent(Operation *op) const {
  if (isViewLike(op))
    return llvm::all_of(op->getResults(), [](Value result) {
      std::optional<Tie> tie = getViewTie(result);
      return tie && !tie->placed;
    });
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (!isFreeProducer(op))
    return false;
  auto [known, isNew] = transparent.try_emplace(op, false);
  if (isNew)
    known->second = !mustBeStored(op);
  return known->second;
}

SmallVector<OpOperand *, 1> mlir::scrimp::getSources(Operation *transparent) {
  SmallVector<OpOperand *, 1> sources;
  if (isViewLike(transparent)) {
    for (Value result : transparent->getResults())
      sources.push_back(&transparent->getOpOperand(getViewTie(result)->operand));
    return sources;
  }
  for (OpOperand &operand : transparent->getOpOperands())
    sources.push_back(&operand);
  return sources;
}

ResidualGraph::ResidualGraph(Block &block, const TrainingParts &parts) : block(block), parts(parts) {
  for (Operation &op : block.without_terminator()) {
    if (!parts.isForward(&op) || isTransparent(&op))
      continue;
    numberOf[&op] = ops.size();
    ops.push_back(&op);
    firstValue.push_back(values.size());
    llvm::append_range(values, op.getResults());
  }
  reads.resize(ops.size());
  forwardReaders.resize(values.size());
  backwardReads.resize(values.size());
  given.resize(values.size());
  for (auto [o, op] : llvm::enumerate(ops)) {
    llvm::SetVector<unsigned> read;
    for (Value operand : op->getOperands())
      collectValues(operand, read);
    reads[o].assign(read.begin(), read.end());
    for (unsigned v : read)
      forwardReaders[v].push_back(o);
  }
  for (Operation &op : block.without_terminator())
    if (parts.isBackward(&op) && !isTransparent(&op))
      for (OpOperand &operand : op.getOpOperands()) {
        llvm::SetVector<unsigned> read;
        collectValues(operand.get(), read);
        for (unsigned v : read)
          backwardReads[v].push_back(&operand);
      }
  llvm::SetVector<unsigned> results;
  for (Value value : block.getTerminator()->getOperands())
    collectValues(value, results);
  for (unsigned v : results)
    given.set(v);
}

void ResidualGraph::collectValues(Value value, llvm::SetVector<unsigned> &out) const {
  auto result = dyn_cast<OpResult>(value);
  if (!result || result.getOwner()->getBlock() != &block)
    return;
  if (isNode(result.getOwner()))
    out.insert(getNumber(result));
  else if (isTransparent(result.getOwner()))
    for (OpOperand *source : getSources(result.getOwner()))
      collectValues(source->get(), out);
}
