// What attributes say of the arguments of graph functions, and that nothing else is said: a key that is misspelt, or a
// value that a pass does not expect, is an error where it is read from text and after every pass.
#include "scrimp/Dialect/Scrimp.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::scrimp;

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, int64_t offset,
                                 DenseI64ArrayAttr shape, ArrayAttr aliases, DictionaryAttr, StringAttr) {
  if (offset < 0 || llvm::any_of(shape.asArrayRef(), [](int64_t size) { return size < 0; }))
    return emitError() << "member " << name << " begins at element " << offset << " with the shape " << shape
                       << ", expected no negative number";
  if (aliases && !llvm::all_of(aliases, [](Attribute alias) { return isa<StringAttr>(alias); }))
    return emitError() << "member " << name << " has the aliases " << aliases << ", expected strings";
  return success();
}

LogicalResult BucketAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, StringAttr, int64_t elements,
                                 int64_t owners, ArrayAttr members) {
  if (owners < 1 || elements % owners != 0)
    return emitError() << "a bucket of " << elements << " elements has no " << owners << " equal parts";
  int64_t end = 0;
  for (Attribute entry : members) {
    auto member = dyn_cast<MemberAttr>(entry);
    if (!member)
      return emitError() << "a bucket holds " << entry << ", expected #scrimp.member";
    if (member.getOffset() < end)
      return emitError() << "member " << member.getName() << " begins at element " << member.getOffset()
                         << " of its bucket, inside the one before, which ends at " << end;
    end = member.getEnd();
    int64_t part = elements / owners;
    if (owners > 1 && end > member.getOffset() && member.getOffset() / part != (end - 1) / part)
      return emitError() << "member " << member.getName() << " lies at elements " << member.getOffset() << " to " << end
                         << ", in more than one of the parts of " << part << " elements that owners have";
  }
  if (end > elements)
    return emitError() << "a bucket of " << elements << " elements has members up to element " << end;
  return success();
}

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, TargetKind kind, int64_t workers,
                                 bool tf32) {
  if (tf32 && kind == TargetKind::cpu)
    return emitError() << "a CPU has no TF32; it is of cuda and emulated";
  if (workers < 1)
    return emitError() << "a program needs a thread, found workers = " << workers;
  return success();
}

TargetAttr TargetAttr::of(Operation *op) {
  for (auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>(); module;
       module = module->getParentOfType<ModuleOp>())
    if (auto target = module->getAttrOfType<TargetAttr>(ScrimpDialect::kTarget))
      return target;
  return get(op->getContext(), TargetKind::cpu, 1, /*tf32=*/false);
}

/// What a value must be, by its class: what it may say, those know who read it (CheckModel, for what users write).
/// Null: nothing is known of the key.
using Test = bool (*)(Attribute);

template <typename... Classes> static bool isOf(Attribute attribute) { return isa<Classes...>(attribute); }

static Test testOfArgument(StringRef key) {
  return llvm::StringSwitch<Test>(key)
      .Cases({ScrimpDialect::kName, ScrimpDialect::kScalar, ScrimpDialect::kReason, ScrimpDialect::kParam},
             isOf<StringAttr>)
      .Cases({ScrimpDialect::kInput, ScrimpDialect::kIgnore, ScrimpDialect::kOffset}, isOf<IntegerAttr>)
      .Cases({ScrimpDialect::kState, ScrimpDialect::kStreamed}, isOf<UnitAttr>)
      .Case(ScrimpDialect::kAliases, isOf<ArrayAttr>)
      .Case(ScrimpDialect::kInit, isOf<DictionaryAttr>)
      .Case(ScrimpDialect::kBucket, isOf<BucketAttr>)
      .Case(ScrimpDialect::kValid, isOf<DenseI64ArrayAttr>)
      .Default(nullptr);
}

static Test testOfResult(StringRef key) {
  return llvm::StringSwitch<Test>(key)
      .Cases({ScrimpDialect::kOutput, ScrimpDialect::kGradient}, isOf<StringAttr>)
      .Case(ScrimpDialect::kGate, isOf<UnitAttr>)
      .Case(ScrimpDialect::kUpdates, isOf<IntegerAttr>)
      .Default(nullptr);
}

static Test testOfOp(StringRef key) {
  return llvm::StringSwitch<Test>(key)
      .Case(ScrimpDialect::kPlan, isOf<DictionaryAttr>)
      .Case(ScrimpDialect::kTarget, isOf<TargetAttr>)
      .Cases({ScrimpDialect::kBuffers, ScrimpDialect::kUnusedInputs}, isOf<ArrayAttr>)
      .Cases({ScrimpDialect::kOffsets, ScrimpDialect::kBodyOffsets, ScrimpDialect::kWorkspace, ScrimpDialect::kLaunch},
             isOf<DenseI64ArrayAttr>)
      .Cases({ScrimpDialect::kSymbol, ScrimpDialect::kBatch}, isOf<StringAttr>)
      .Cases({ScrimpDialect::kUnits, ScrimpDialect::kGrain, ScrimpDialect::kWholeBatch}, isOf<IntegerAttr>)
      .Cases({ScrimpDialect::kMap, ScrimpDialect::kParallel, ScrimpDialect::kInnerIndex, ScrimpDialect::kScaled,
              ScrimpDialect::kInReaders},
             isOf<UnitAttr>)
      .Default(nullptr);
}

static LogicalResult verifyKey(Operation *op, const Twine &where, NamedAttribute attribute, Test test) {
  if (!test)
    return op->emitOpError() << where << "has the attribute " << attribute.getName() << ", which nothing reads";
  if (!test(attribute.getValue()))
    return op->emitOpError() << where << "has " << attribute.getName().getValue() << " = " << attribute.getValue()
                             << ", which is no value that it can have";
  return success();
}

LogicalResult ScrimpDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                      NamedAttribute attribute) {
  std::string where = "argument " + std::to_string(index) + " ";
  if (failed(verifyKey(op, where, attribute, testOfArgument(attribute.getName()))))
    return failure();
  auto bucket = dyn_cast<BucketAttr>(attribute.getValue());
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!bucket || !function)
    return success();
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[index]);
  int64_t elements = bucket.getElements();
  if (!type || type.getRank() != 1 ||
      (type.getNumElements() == 0 ? elements != 0 : elements % type.getNumElements() != 0))
    return op->emitOpError() << where << "is a bucket of " << elements << " elements, of which "
                             << function.getArgumentTypes()[index] << " is no part";
  return success();
}

LogicalResult ScrimpDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                         NamedAttribute attribute) {
  return verifyKey(op, "result " + Twine(index) + " ", attribute, testOfResult(attribute.getName()));
}

LogicalResult ScrimpDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verifyKey(op, "", attribute, testOfOp(attribute.getName()));
}
