// The scrimp dialect: ops, attributes, interfaces.
#ifndef SCRIMP_DIALECT_SCRIMP_H
#define SCRIMP_DIALECT_SCRIMP_H

#include "scrimp/Codegen/Emit.h"
#include "scrimp/Dialect/AliasTypes.h"
#include "scrimp/Dialect/DimensionRule.h"
#include "scrimp/Dialect/GraphExpr.h"
#include "scrimp/Dialect/KernelTypes.h"
#include "scrimp/Dialect/PrecisionRule.h"
#include "scrimp/Eval/HostTensor.h"
#include "scrimp/Planner/Communication.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"

namespace mlir::scrimp {

/// Runs a body on the values of its arguments and fills in what it yields.
using RunBodyFn = llvm::function_ref<LogicalResult(Block &body, ArrayRef<const HostTensor *> arguments,
                                                   MutableArrayRef<HostTensor> yielded)>;

/// The type as what all scrimp values have.
inline RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }
inline ArrayRef<int64_t> shapeOf(Value value) { return tensorType(value).getShape(); }
/// The type with i1 elements.
inline RankedTensorType boolLike(RankedTensorType type) {
  return type.clone(IntegerType::get(type.getContext(), 1));
}
inline bool isFloatTensor(Value value) { return isa<FloatType>(tensorType(value).getElementType()); }

/// One per element of the largest result or operand.
int64_t defaultFlops(Operation *op);
/// Every operand once, and every result; an op without code moves nothing.
int64_t defaultMovedBytes(Operation *op);

/// What PrecisionOp::getPrecisionRule answers by default.
PrecisionRule defaultPrecisionRule(Operation *op);

/// The result of evaluating `op` on constants, if that involves no rounding that could depend on the machine: integer
/// results only. Null otherwise.
OpFoldResult foldExactly(Operation *op, ArrayRef<Attribute> operands);

/// What an op with `acc`, its last operand, says as an AliasOp: result 0 lies there; without it (null) nowhere.
std::optional<Tie> tieToAcc(Operation *op, Value acc);
/// Checks that `acc`, where there is one, has the type of result 0.
LogicalResult verifyAcc(Operation *op, Value acc);

/// Whether `value` is a splat of exactly `expected`, the sign of zero included; false for no expectation.
bool isSplatOf(Attribute value, std::optional<double> expected);

inline double divide(double a, double b) { return a / b; }
/// The least integer by -1 is itself: two's complement wraps.
inline int64_t divide(int64_t a, int64_t b) {
  return b == 0 ? a : b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
inline ScalarExpr divide(ScalarExpr a, ScalarExpr b) { return a / b; }
inline int64_t abs(int64_t a) { return a < 0 ? -a : a; }
inline int64_t bitAnd(int64_t a, int64_t b) { return a & b; }
inline int64_t bitOr(int64_t a, int64_t b) { return a | b; }
inline int64_t bitXor(int64_t a, int64_t b) { return a ^ b; }
ScalarExpr bitAnd(ScalarExpr a, ScalarExpr b);
ScalarExpr bitOr(ScalarExpr a, ScalarExpr b);
ScalarExpr bitXor(ScalarExpr a, ScalarExpr b);

} // namespace mlir::scrimp

#include "scrimp/Dialect/ScrimpDialect.h.inc"
#include "scrimp/Dialect/ScrimpEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "scrimp/Dialect/ScrimpAttributes.h.inc"
#include "scrimp/Dialect/ScrimpInterfaces.h.inc"

#define GET_OP_CLASSES
#include "scrimp/Dialect/ScrimpOps.h.inc"

namespace mlir::scrimp {

/// Whether `op` is a view or a pack: its results lie in bytes of operands and it has no code. A view (without `placed`)
/// leaves its operand's bytes as they are.
inline bool isViewLike(Operation *op) {
  auto alias = dyn_cast<AliasOp>(op);
  return alias && !alias.hasCode();
}

/// The ops that `op` ends.
SmallVector<AsyncOp, 1> getEndedOps(Operation *op);

/// Whether the op is a collective whose result is for one use alone, or the end of one.
bool isForOneUse(Operation *op);

/// The tie of a value that an op without code makes; none for a value that is computed, or an argument.
std::optional<Tie> getViewTie(Value value);

/// Whether `op`, a map, computes its one result element by element from operands of its shape.
bool isPointwise(Operation *op);

/// The op that computes `value`, seen through views and packs (of these, the bucket); null for an argument.
Operation *getComputingOp(Value value);

} // namespace mlir::scrimp

#endif
