// What an op wants of the float types of its operands and results: the vocabulary of PrecisionOp. Kept apart from the
// dialect so that interfaces need no more than this.
#ifndef SCRIMP_DIALECT_PRECISIONRULE_H
#define SCRIMP_DIALECT_PRECISIONRULE_H

#include "mlir/IR/Operation.h"

namespace mlir::scrimp {

/// How an op computes.
enum class Precision {
  Low,    ///< products of 16-bit numbers, summed in f32 (contractions)
  Inside, ///< in f32 within its own code, whatever its operands are (norms, softmax, losses, reductions)
  Follow, ///< element by element, in f32, to be rounded where the value is stored
  Exact,  ///< not at all: it moves elements
};

/// The types that one float operand or result may have.
enum class ElementKind {
  Data, ///< any, the same for all of this kind
  Own,  ///< that of the data or f32, whatever the others have (weights of a norm, sums of a contraction)
  Wide, ///< the type that sums are in: f32 for 16-bit data (statistics)
};

/// What PrecisionOp::getPrecisionRule answers: an entry per operand and result, those that are no floats not read.
struct PrecisionRule {
  PrecisionRule(Operation *op, Precision precision)
      : precision(precision), operands(op->getNumOperands(), ElementKind::Data),
        results(op->getNumResults(), ElementKind::Data) {}

  Precision precision;
  SmallVector<ElementKind> operands, results;
  /// Results are few numbers that stand for many: keeping them in f32 costs nothing.
  bool givesStatistics = false;
};

} // namespace mlir::scrimp

#endif
