#include "Addresses.h"

#include "scrimp/Analysis/Aliases.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::scrimp;

FailureOr<Addresses> Addresses::compute(func::FuncOp function) {
  Addresses result;
  for (BlockArgument argument : function.getArguments()) {
    auto offset = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kOffset);
    if (!offset)
      return function.emitError() << "argument " << argument.getArgNumber() << " has no place; run scrimp-plan-memory";
    result.addresses[argument] = {offset.getInt()};
  }
  if (failed(result.addBlock(function.getBody().front(), 0)))
    return failure();
  return result;
}

LogicalResult Addresses::addBlock(Block &block, unsigned loops) {
  for (Operation &op : block.without_terminator()) {
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kOffsets);
    bool isPlaced = offsets && static_cast<unsigned>(offsets.size()) == op.getNumResults();
    if (!isViewLike(&op) && !isPlaced)
      return op.emitError() << "has no place; run scrimp-plan-memory";
    for (OpResult result : op.getResults()) {
      Address address;
      if (std::optional<Tie> tie = getViewTie(result)) {
        address = lookUp(op.getOperand(tie->operand));
        address.offset += tie->getResultOffset();
        address.rankStride += tie->rankStride;
      } else {
        address.offset = offsets[result.getResultNumber()];
      }
      addresses[result] = std::move(address);
    }
    if (auto body = dyn_cast<BodyOp>(op); body && failed(addBody(body, loops)))
      return failure();
  }
  return success();
}

LogicalResult Addresses::addBody(BodyOp body, unsigned loops) {
  auto own = body->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kBodyOffsets);
  SmallVector<BlockArgument> arguments = getOwnArguments(body);
  if (!own || static_cast<size_t>(own.size()) != arguments.size())
    return body.emitError() << "has no place for the number of its iteration; run scrimp-plan-memory";
  for (auto [argument, offset] : llvm::zip(arguments, own.asArrayRef()))
    addresses[argument] = {offset};
  for (BlockArgument argument : body.getBodyBlock().getArguments()) {
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (means.hasOwnBytes())
      continue;
    Address address = lookUp(body->getOperand(means.operand));
    if (means.stride) {
      address.strides.resize(loops, 0);
      address.strides.push_back(means.stride);
    }
    addresses[argument] = std::move(address);
  }
  return addBlock(body.getBodyBlock(), loops + !body.getConditionOperand());
}

const Addresses::Address &Addresses::lookUp(Value value) const {
  auto address = addresses.find(value);
  if (address == addresses.end())
    llvm::reportFatalInternalError("'" + Twine(userNameOf(value)) + "' has no address");
  return address->second;
}

RangeAttr Addresses::get(Value value, unsigned loops) const {
  const Address &address = lookUp(value);
  SmallVector<int64_t> strides(ArrayRef(address.strides));
  if (!strides.empty())
    strides.resize(loops, 0);
  return RangeAttr::get(value.getContext(), address.offset, bytesOf(value), strides, address.rankStride,
                        MemorySpace::device);
}
