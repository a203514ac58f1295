// What of a graph in f32 is computed from, and stored in, 16 bits: decided here, written out by scrimp-mixed-precision.
#ifndef SCRIMP_LIB_TRANSFORMS_PRECISIONPLAN_H
#define SCRIMP_LIB_TRANSFORMS_PRECISIONPLAN_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// Values that depend on data and on parameters are activations (and gradients): these are stored in 16 bits. What
/// depends on data alone (targets, positions) or on parameters alone stays as it is; so do statistics, what becomes a
/// result of the function without another use, what no contraction follows (the loss, gradients of parameters), and
/// what the caller keeps.
class PrecisionPlan {
public:
  /// `isKept` tells ops that stay in f32.
  PrecisionPlan(func::FuncOp function, llvm::function_ref<bool(Operation *)> isKept);

  /// Whether `value` is in 16 bits where it is stored.
  bool isActivation(Value value) const { return activations.contains(value); }

  /// Whether the op computes from 16-bit operands of kind Data, into results of that kind of 16 bits. Of an op that
  /// moves elements this is so if all of these operands are.
  bool isLow(Operation *op) const { return low.contains(op); }

  /// Whether only one kernel reads the op's result, that which computes it: such a value is never stored. The greedy
  /// phase of scrimp-form-kernels that needs no analysis of paths finds the same.
  bool isInternal(Operation *op) const { return internal.contains(op); }

  /// Whether the op, of the forward pass, adds numbers that are not learned to activations, for an op that computes in
  /// f32 (softmax). These numbers may be a mask, with the least f32 for "never".
  bool mayMask(Operation *op) const { return masking.contains(op); }

private:
  void findWanted(Block &block);
  void findInternal(Block &block);
  void findLate(func::FuncOp function);
  void classify(Operation *op, bool isKept);
  bool addsMask(Operation *op);

  struct Sources {
    bool data = false, parameters = false;
    bool areBoth() const { return data && parameters; }
  };
  DenseMap<Value, Sources> sources;
  DenseSet<Value> wanted; // in f32 by all that read them
  DenseSet<Value> activations;
  DenseSet<Operation *> forward, late, low, internal, masking;
};

/// Whether the pass may change the type of such a value: f32 alone is lowered.
bool isF32(Value value);

/// The rule of an op that has one, null otherwise.
std::optional<PrecisionRule> precisionRuleOf(Operation *op);

} // namespace mlir::scrimp

#endif
