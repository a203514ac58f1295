// Builds what is computed again: clones of forward ops before their first readers in the backward pass, tied to the
// gradients that arrive there.
#ifndef SCRIMP_LIB_TRANSFORMS_RECOMPUTEBUILDER_H
#define SCRIMP_LIB_TRANSFORMS_RECOMPUTEBUILDER_H

#include "ResidualGraph.h"

#include "scrimp/Analysis/Cost.h"
#include "scrimp/Planner/Rematerialization.h"

namespace mlir::scrimp {

class RecomputeBuilder {
public:
  RecomputeBuilder(const ResidualGraph &graph, const planner::RematChoice &choice, const DeviceRates &rates);

  /// Has every backward op read clones of what the choice does not keep.
  void build();

private:
  /// Who asks for a value: the operand that reads it, the op before which clones go, and what they wait for.
  struct Demand {
    OpOperand *use;
    Operation *before;
    Value event;
  };

  Operation *computes(Value value) const;
  void findArrivals();
  bool isRepeated(Value value);
  bool fitsReader(Operation *op, OpOperand &use) const;
  Value rebuild(Value value, const Demand &demand);
  Operation *clone(Operation *op, const Demand &demand);
  Operation *findOtherUse(Operation *op, const Demand &demand);
  Value tie(Value value, const Demand &demand);

  const ResidualGraph &graph;
  const planner::RematChoice &choice;
  DeviceRates rates;
  OpBuilder builder;
  DenseMap<Operation *, unsigned> position; // in the given order
  DenseMap<Operation *, Value> arrival;     // of backward ops: see findArrivals
  DenseMap<Operation *, Operation *> otherStarts; // of the forward pass's gathers: see findOtherUse
  DenseMap<Value, bool> repeated;
  DenseMap<Operation *, Operation *> shared;                     // clones that are stored
  DenseMap<std::pair<Operation *, Value>, Operation *> inKernel; // clones for kernels that wait for an event
  DenseMap<std::pair<Value, Value>, Value> tied;                 // by value and event
};

/// Moves the ops that write in place (an update of a parameter) behind the ops that a clone of the forward pass has put
/// after them although they read the old contents. Fails if the alias model does.
LogicalResult delayUpdates(func::FuncOp function);

} // namespace mlir::scrimp

#endif
