// Which ops of a training graph are its forward and which its backward pass, told from what results are for, so that it
// holds at any level; and the values that the one leaves to the other.
#ifndef SCRIMP_ANALYSIS_TRAININGPARTS_H
#define SCRIMP_ANALYSIS_TRAININGPARTS_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// Forward: the loss depends on it. Backward: not, but what is learned depends on it (a result with scrimp.gradient, or
/// one that updates a trainable parameter or its optimizer state). Aside: neither (running statistics, other outputs).
enum class TrainingPart { Forward, Backward, Aside };

/// The metadata of a fused location around that of an op that rematerialization has made again.
constexpr llvm::StringLiteral kRecomputed = "recomputed";
bool isRecomputed(Operation *op);

/// Of a function's ops, those in bodies (BodyOp) included: what a body yields is for what the op's result is for.
class TrainingParts {
public:
  explicit TrainingParts(func::FuncOp function);

  TrainingPart getPart(Operation *op) const { return parts.lookup(op); }
  bool isForward(Operation *op) const { return getPart(op) == TrainingPart::Forward; }
  bool isBackward(Operation *op) const { return getPart(op) == TrainingPart::Backward; }

private:
  /// What a terminator's operand is for.
  enum class Role { Loss, Learned, Other };
  /// Values that the loss, and what is learned, are computed from.
  struct Needed {
    DenseSet<Value> forLoss, forLearning;
  };
  void addBlock(Block &block, ArrayRef<Role> roles, Needed &needed);

  llvm::DenseMap<Operation *, TrainingPart> parts;
};

/// Whether a value depends on trainable parameters, and whether on anything that differs from step to step (inputs, the
/// step's number): through bodies, which read what their op's operands are. Values are asked once and remembered.
class Dependence {
public:
  struct Kinds {
    bool onParameters = false, onData = false;
  };
  Kinds get(Value value);

private:
  llvm::DenseMap<Value, Kinds> known;
};

} // namespace mlir::scrimp

#endif
