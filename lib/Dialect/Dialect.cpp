#include "scrimp/Dialect/Scrimp.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::scrimp;

#include "scrimp/Dialect/ScrimpDialect.cpp.inc"
#include "scrimp/Dialect/ScrimpEnums.cpp.inc"
#include "scrimp/Dialect/ScrimpInterfaces.cpp.inc"

void ScrimpDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "scrimp/Dialect/ScrimpOps.cpp.inc"
      >();
}

Operation *ScrimpDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

std::optional<Tie> mlir::scrimp::getViewTie(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || !isViewLike(result.getOwner()))
    return std::nullopt;
  return cast<AliasOp>(result.getOwner()).getTie(result.getResultNumber());
}

SmallVector<AsyncOp, 1> mlir::scrimp::getEndedOps(Operation *op) {
  SmallVector<AsyncOp, 1> ended;
  for (Value operand : op->getOperands())
    if (auto start = operand.getDefiningOp<AsyncOp>(); start && start.getEnd() == op)
      ended.push_back(start);
  return ended;
}

bool mlir::scrimp::isForOneUse(Operation *op) {
  auto isIt = [](Operation *start) {
    auto collective = dyn_cast<CollectiveOp>(start);
    return collective && collective.isForOneUse();
  };
  return isIt(op) || llvm::any_of(getEndedOps(op), isIt);
}

Operation *mlir::scrimp::getComputingOp(Value value) {
  while (std::optional<Tie> tie = getViewTie(value))
    value = value.getDefiningOp()->getOperand(tie->operand);
  return value.getDefiningOp();
}

bool mlir::scrimp::isPointwise(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel || kernel.getKernelFamily() != KernelFamily::Map || op->getNumResults() != 1 || op->getNumOperands() == 0)
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    return kernel.isPointwiseOperand(operand.getOperandNumber()) && shapeOf(operand.get()) == shapeOf(op->getResult(0));
  });
}

int64_t mlir::scrimp::defaultFlops(Operation *op) {
  int64_t elements = 0;
  for (Type type : llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()), SmallVector<Type>(op->getResultTypes())))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements = std::max(elements, tensor.getNumElements());
  return isViewLike(op) ? 0 : elements;
}

std::optional<Tie> mlir::scrimp::tieToAcc(Operation *op, Value acc) {
  return acc ? std::optional(Tie{op->getNumOperands() - 1, 0, std::nullopt}) : std::nullopt;
}

LogicalResult mlir::scrimp::verifyAcc(Operation *op, Value acc) {
  if (acc && acc.getType() != op->getResult(0).getType())
    return op->emitOpError() << "what it adds to must have the result's type " << op->getResult(0).getType()
                             << ", found " << acc.getType();
  return success();
}

int64_t mlir::scrimp::defaultMovedBytes(Operation *op) {
  if (isViewLike(op))
    return 0;
  int64_t bytes = 0;
  for (Value operand : llvm::SmallDenseSet<Value>(op->operand_begin(), op->operand_end()))
    bytes += bytesOf(operand);
  for (Value result : op->getResults())
    bytes += bytesOf(result);
  return bytes;
}

bool mlir::scrimp::isSplatOf(Attribute value, std::optional<double> expected) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(value);
  if (!splat || !expected)
    return false;
  if (!isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APInt>().getSExtValue() == static_cast<int64_t>(*expected);
  double found = splat.getSplatValue<APFloat>().convertToDouble();
  return found == *expected && std::signbit(found) == std::signbit(*expected);
}

OpFoldResult mlir::scrimp::foldExactly(Operation *op, ArrayRef<Attribute> operands) {
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  auto eval = dyn_cast<EvalOp>(op);
  // Large results would only move work into the program's constants.
  if (!type || !eval || isa<FloatType>(type.getElementType()) || type.getNumElements() > 65536)
    return {};
  SmallVector<HostTensor> values;
  for (Attribute operand : operands) {
    auto elements = dyn_cast_or_null<DenseElementsAttr>(operand);
    if (!elements)
      return {};
    values.push_back(HostTensor::get(elements));
  }
  SmallVector<const HostTensor *> pointers;
  for (HostTensor &value : values)
    pointers.push_back(&value);
  SmallVector<HostTensor> results{HostTensor(type)};
  if (failed(eval.eval(pointers, results)))
    return {};
  results[0].roundToType();
  return results[0].toAttr();
}
