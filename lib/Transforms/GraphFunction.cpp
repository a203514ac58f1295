#include "scrimp/Transforms/GraphFunction.h"

using namespace mlir;
using namespace mlir::scrimp;

func::FuncOp mlir::scrimp::lookupGraph(ModuleOp module, StringRef name, StringRef wantedBy) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal()) {
    module.emitError() << "no function @" << name << ", which " << wantedBy << " starts from";
    return nullptr;
  }
  if (!llvm::hasSingleElement(function.getBody())) {
    function.emitError() << "@" << name << " must have one block, found " << function.getBody().getBlocks().size();
    return nullptr;
  }
  return function;
}

std::string mlir::scrimp::argumentName(func::FuncOp function, unsigned index) {
  if (auto name = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kName))
    return name.str();
  return "#" + std::to_string(index);
}

bool mlir::scrimp::isParameter(func::FuncOp function, unsigned index, StringRef kind) {
  auto attr = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kParam);
  return attr && attr.getValue() == kind;
}

int mlir::scrimp::findOutput(func::FuncOp function, StringRef name) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
      if (output.getValue() == name)
        return i;
  return -1;
}

BlockArgument mlir::scrimp::appendArgument(func::FuncOp function, Type type, DictionaryAttr attributes, Location loc) {
  (void)function.insertArgument(function.getNumArguments(), type, attributes, loc);
  return function.getArguments().back();
}

BlockArgument mlir::scrimp::findScalarArgument(func::FuncOp function, StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (auto scalar = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ScrimpDialect::kScalar))
      if (scalar.getValue() == name)
        return argument;
  return nullptr;
}

BlockArgument mlir::scrimp::getScalarArgument(func::FuncOp function, StringRef name, Type type) {
  if (BlockArgument argument = findScalarArgument(function, name))
    return argument;
  Builder builder(function.getContext());
  auto attributes =
      builder.getDictionaryAttr({builder.getNamedAttr(ScrimpDialect::kName, builder.getStringAttr(name)),
                                 builder.getNamedAttr(ScrimpDialect::kScalar, builder.getStringAttr(name))});
  return appendArgument(function, RankedTensorType::get({}, type), attributes, function.getLoc());
}

void mlir::scrimp::appendResult(func::FuncOp function, Value value, StringRef attribute, Attribute attributeValue) {
  Operation *terminator = function.getBody().front().getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), value);
  auto attributes = DictionaryAttr::get(
      function.getContext(), NamedAttribute(StringAttr::get(function.getContext(), attribute), attributeValue));
  (void)function.insertResult(function.getNumResults(), value.getType(), attributes);
}

void mlir::scrimp::eraseResults(func::FuncOp function, const llvm::BitVector &erased) {
  function.getBody().front().getTerminator()->eraseOperands(erased);
  (void)function.eraseResults(erased);
}
