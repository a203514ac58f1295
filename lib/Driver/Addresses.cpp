#include "Addresses.h"

#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

FailureOr<Addresses> Addresses::compute(func::FuncOp function) {
  Addresses addresses;
  for (BlockArgument argument : function.getArguments()) {
    auto offset = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "scrimp.offset");
    if (!offset)
      return function.emitError() << "argument " << argument.getArgNumber() << " has no place; run scrimp-plan-memory";
    addresses.offsets[argument] = offset.getInt();
  }
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto offsets = op.getAttrOfType<DenseI64ArrayAttr>("scrimp.offsets")) {
      for (auto [result, offset] : llvm::zip(op.getResults(), offsets.asArrayRef()))
        addresses.offsets[result] = offset;
      continue;
    }
    auto alias = dyn_cast<AliasOp>(op);
    if (!alias)
      return op.emitError() << "has no place; run scrimp-plan-memory";
    int64_t whole = addresses.get(op.getOperand(alias.getAliasOperand()));
    bool isView = alias.getPlacedOperand() < 0;
    addresses.offsets[op.getResult(0)] = whole + (isView ? alias.getAliasOffset() : 0);
  }
  return addresses;
}
