// From the planned module to scrimp.cmd ops: every value becomes the bytes that the plan gave it, every op that has
// code a command, and what arguments say of themselves the tables.
#include "scrimp/Driver/Program.h"

#include "Addresses.h"
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Analysis/StepTime.h"
#include "scrimp/Codegen/Kernels.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class CommandLowering {
public:
  CommandLowering(ModuleOp module, const ProgramOptions &options)
      : module(module), options(options), world(std::max(options.world, getNumRanks(module))),
        builder(module.getContext()) {}
  FailureOr<OwningOpRef<ModuleOp>> lower();

private:
  LogicalResult addFunction(func::FuncOp function);
  LogicalResult addArgument(func::FuncOp function, unsigned index);
  void addTensor(StringRef name, ArrayAttr aliases, RankedTensorType type, int64_t offset, StringRef role,
                 DictionaryAttr init, StringRef reason, ElementsAttr constant = {}, int64_t partElements = 0,
                 int64_t bucketOffset = 0);
  void addCarried(const CarriedTensor &tensor);
  void takeName(StringRef name) {
    if (!tensorNames.insert(name).second)
      repeated = name;
  }
  LogicalResult addOps(Block &block, const Addresses &addresses, unsigned loops);
  LogicalResult addBody(BodyOp body, const Addresses &addresses, unsigned loops);
  LogicalResult addCommand(Operation &op, const Addresses &addresses, unsigned loops);
  FloatAttr secondsAttr(Operation &op);
  void useKernel(StringAttr symbol, int64_t numBuffers) {
    if (kernels.insert(symbol.getValue()).second)
      CmdKernelOp::create(builder, module.getLoc(), symbol.getValue(), numBuffers);
  }
  int64_t takeEvent(Operation &op);

  void addFill(BodyOp body, BlockArgument argument, const Addresses &addresses, unsigned loops);
  void addCheck(StringRef kind, StringRef name, Value value, const Addresses &addresses);

  ModuleOp module;
  const ProgramOptions &options;
  int64_t world;     // ranks
  OpBuilder builder; // at the end of the tables
  OpBuilder commands{builder.getContext()};
  llvm::StringSet<> tensorNames, kernels;
  std::string repeated;          // the last name that two tensors have
  llvm::StringMap<int64_t> seen; // names of arguments already in the tables
  int64_t batch = 1, wholeBatch = 0, tokensPerSample = 0, storedBytes = 0;
  Operation *lossOp = nullptr; // of the function under way
  Value loss;
  bool updatesSomething = false;
  SmallVector<Operation *> events;          // what each one is busy with; null: free
  std::optional<RankInvariance> invariance; // of the function under way; none for one rank
};
} // namespace

void CommandLowering::addTensor(StringRef name, ArrayAttr aliases, RankedTensorType type, int64_t offset,
                                StringRef role, DictionaryAttr init, StringRef reason, ElementsAttr constant,
                                int64_t partElements, int64_t bucketOffset) {
  StringRef kind = constant ? "file" : "zeros";
  double a = 0, b = 0;
  if (init) {
    if (auto attr = init.getAs<StringAttr>("kind"))
      kind = attr.getValue();
    if (auto attr = init.getAs<FloatAttr>("a"))
      a = attr.getValueAsDouble();
    if (auto attr = init.getAs<FloatAttr>("b"))
      b = attr.getValueAsDouble();
  }
  IntegerAttr weightsOffset;
  if (kind == "file") {
    weightsOffset = builder.getI64IntegerAttr(storedBytes);
    storedBytes += bytesOf(type);
  }
  SmallVector<StringRef> further;
  if (aliases)
    for (auto alias : aliases.getAsRange<StringAttr>())
      further.push_back(alias.getValue());
  takeName(name);
  for (StringRef each : further)
    takeName(each);
  CmdTensorOp::create(builder, module.getLoc(), name, type, offset, role, kind, APFloat(a), APFloat(b), weightsOffset,
                      builder.getStrArrayAttr(further), reason, constant, partElements, bucketOffset);
}

void CommandLowering::addCarried(const CarriedTensor &tensor) {
  SmallVector<StringRef> aliases;
  for (StringRef name : tensor.names) {
    takeName(name);
    if (name != tensor.names[0])
      aliases.push_back(name);
  }
  const WeightSource &source = tensor.source;
  int64_t bytes = source.getLength();
  CmdCarriedOp::create(builder, module.getLoc(), tensor.names[0], builder.getStrArrayAttr(aliases), source.typeName,
                       source.shape, bytes, storedBytes);
  storedBytes += bytes;
}

LogicalResult CommandLowering::addArgument(func::FuncOp function, unsigned index) {
  auto attr = [&]<typename T>(StringRef name, T) { return function.getArgAttrOfType<T>(index, name); };
  auto type = cast<RankedTensorType>(function.getArgument(index).getType());
  auto name = attr(ScrimpDialect::kName, StringAttr());
  auto scalar = attr(ScrimpDialect::kScalar, StringAttr());
  std::string key = scalar ? "scalar " + scalar.str() : name ? name.str() : "";
  if (key.empty())
    return function.emitError() << "argument " << index << " has neither scrimp.name nor scrimp.scalar";
  int64_t offset = attr(ScrimpDialect::kOffset, IntegerAttr()).getInt();
  if (auto [it, isNew] = seen.try_emplace(key, offset); !isNew) {
    if (it->second != offset)
      return function.emitError() << "'" << key << "' lies at " << offset << " here and at " << it->second
                                  << " in another function";
    return success();
  }
  if (scalar) {
    CmdScalarOp::create(builder, function.getLoc(), scalar.getValue(), type.getElementType(), offset);
    return success();
  }
  if (auto batchDim = attr(ScrimpDialect::kInput, IntegerAttr())) {
    bool streamed = bool(function.getArgAttr(index, ScrimpDialect::kStreamed));
    CmdInputOp::create(builder, function.getLoc(), name.getValue(), type, streamed ? 0 : offset, batchDim.getInt(),
                       attr(ScrimpDialect::kValid, DenseI64ArrayAttr()), attr(ScrimpDialect::kIgnore, IntegerAttr()),
                       streamed);
    return success();
  }
  auto param = attr(ScrimpDialect::kParam, StringAttr());
  bool isState = bool(function.getArgAttr(index, ScrimpDialect::kState));
  if (!param && !isState)
    return function.emitError() << "argument '" << key << "' has no role";
  auto bucket = attr(ScrimpDialect::kBucket, BucketAttr());
  StringRef role = !isState ? (param.getValue() == "frozen" ? "frozen_parameter" : "parameter")
                   : bucket ? "optimizer_state"
                            : "buffer";
  if (!bucket) {
    auto reason = attr(ScrimpDialect::kReason, StringAttr());
    addTensor(key, attr(ScrimpDialect::kAliases, ArrayAttr()), type, offset, role,
              attr(ScrimpDialect::kInit, DictionaryAttr()), reason ? reason.getValue() : "");
    return success();
  }
  int64_t elementBytes = elementBytesOf(type.getElementType());
  bool isPart = type.getNumElements() < bucket.getElements();
  for (MemberAttr member : bucket.getTensors()) {
    int64_t place = isPart ? offset : offset + member.getOffset() * elementBytes;
    addTensor(member.getName(), member.getAliases(),
              RankedTensorType::get(member.getShape().asArrayRef(), type.getElementType()), place, role,
              member.getInit(), member.getReason() ? member.getReason().getValue() : "", /*constant=*/{},
              isPart ? type.getNumElements() : 0, isPart ? member.getOffset() : 0);
  }
  return success();
}

/// Whether a result lies in the operand's bytes.
static bool isTied(OpOperand &operand) {
  auto alias = dyn_cast<AliasOp>(operand.getOwner());
  return alias && llvm::any_of(operand.getOwner()->getResults(), [&](OpResult result) {
           std::optional<Tie> tie = alias.getTie(result.getResultNumber());
           return tie && tie->operand == operand.getOperandNumber();
         });
}

FloatAttr CommandLowering::secondsAttr(Operation &op) {
  return options.rates ? builder.getF64FloatAttr(secondsAlone(&op, *options.rates)) : FloatAttr();
}

/// The number of what the op starts, the lowest that is free from there to its end, or of what it ends.
int64_t CommandLowering::takeEvent(Operation &op) {
  for (AsyncOp start : getEndedOps(&op)) {
    auto busy = llvm::find(events, start.getOperation());
    *busy = nullptr;
    return busy - events.begin();
  }
  auto free = llvm::find(events, nullptr);
  if (free == events.end())
    free = events.insert(events.end(), nullptr);
  *free = &op;
  return free - events.begin();
}

LogicalResult CommandLowering::addCommand(Operation &op, const Addresses &addresses, unsigned loops) {
  SmallVector<Attribute> buffers, types;
  auto add = [&](Value value) {
    buffers.push_back(addresses.get(value, loops));
    types.push_back(TypeAttr::get(tensorType(value).getElementType()));
  };
  auto kernel = dyn_cast<KernelOp>(op);
  bool isCall = kernel && kernel.getKernelFamily() == KernelFamily::Library;
  for (OpOperand &operand : op.getOpOperands())
    if (!isCall || !isTied(operand)) // the library updates its result
      add(operand.get());
  int64_t reads = buffers.size(); // what it updates in place it writes as a result
  for (Value value : op.getResults())
    add(value);
  if (auto workspace = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kWorkspace))
    for (auto [offset, type] : llvm::zip_equal(workspace.asArrayRef(), getWorkspaceTypes(&op)))
      buffers.push_back(RangeAttr::get(op.getContext(), offset, bytesOf(type)));
  ArrayAttr bufferAttr = builder.getArrayAttr(buffers);
  if (kernel && kernel.getKernelFamily() == KernelFamily::Command) {
    SmallVector<RangeAttr> ranges(llvm::map_range(buffers, [](Attribute range) { return cast<RangeAttr>(range); }));
    kernel.buildCommand(commands, ranges, takeEvent(op), secondsAttr(op));
    return success();
  }
  FloatAttr seconds = secondsAttr(op);
  if (isCall) {
    LibraryCall call = kernel.getLibraryCall();
    // The library counts in 32 bits.
    for (Type type :
         llvm::concat<const Type>(SmallVector<Type>(op.getOperandTypes()), SmallVector<Type>(op.getResultTypes())))
      for (int64_t size : cast<RankedTensorType>(type).getShape())
        if (size > INT32_MAX)
          return op.emitError() << "has a dimension of " << size << ", but '" << call.function << "' takes at most "
                                << INT32_MAX << "; try a smaller batch";
    Type sums = getComputeType(tensorType(op.getResult(0)).getElementType());
    bool isNarrow = llvm::any_of(types, [&](Attribute type) {
      Type element = cast<TypeAttr>(type).getValue();
      return isa<FloatType>(element) && element != sums;
    });
    CmdCallOp::create(commands, op.getLoc(), call.function, sums, call.ints, call.floats, bufferAttr, seconds,
                      isNarrow ? builder.getArrayAttr(types) : nullptr, reads,
                      /*tf32=*/TargetAttr::of(module).getTf32() && sums.isF32() && !isNarrow);
    return success();
  }
  auto symbol = op.getAttrOfType<StringAttr>(ScrimpDialect::kSymbol);
  if (!symbol)
    return op.emitError() << "has no code";
  useKernel(symbol, buffers.size());
  int64_t none[3] = {};
  auto shape = op.getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kLaunch);
  ArrayRef<int64_t> launch = shape ? shape.asArrayRef() : ArrayRef(none);
  CmdLaunchOp::create(commands, op.getLoc(), symbol.getValue(),
                      op.getAttrOfType<IntegerAttr>(ScrimpDialect::kUnits).getInt(),
                      op.getAttrOfType<IntegerAttr>(ScrimpDialect::kGrain).getInt(), bufferAttr, seconds, reads,
                      launch[0], launch[1], launch[2]);
  return success();
}

/// A body's ops become the commands of a repeat or a conditional. Its arguments, results and what it yields need none:
/// they are the same bytes.
LogicalResult CommandLowering::addBody(BodyOp body, const Addresses &addresses, unsigned loops) {
  OpBuilder::InsertionGuard guard(commands);
  std::optional<unsigned> condition = body.getConditionOperand();
  Operation *list;
  if (condition)
    list = CmdConditionalOp::create(commands, body.getLoc(), addresses.get(body->getOperand(*condition), loops));
  else
    list = CmdRepeatOp::create(commands, body.getLoc(), body.getIterations(),
                               addresses.get(getOwnArguments(body).front(), loops));
  commands.setInsertionPointToEnd(&list->getRegion(0).emplaceBlock());
  for (BlockArgument argument : getOwnArguments(body))
    addFill(body, argument, addresses, loops);
  return addOps(body.getBodyBlock(), addresses, loops + !condition);
}

/// What the host has to read before an iteration: samples, from where the operand begins in the input.
void CommandLowering::addFill(BodyOp body, BlockArgument argument, const Addresses &addresses, unsigned loops) {
  BodyArgument means = body.getBodyArgument(argument.getArgNumber());
  if (means.kind != BodyArgument::Filled)
    return;
  Value part = body->getOperand(means.operand), whole = part;
  while (std::optional<Tie> tie = getViewTie(whole))
    whole = whole.getDefiningOp()->getOperand(tie->operand);
  auto input = cast<BlockArgument>(whole);
  auto function = cast<func::FuncOp>(input.getOwner()->getParentOp());
  int64_t dim = function.getArgAttrOfType<IntegerAttr>(input.getArgNumber(), ScrimpDialect::kInput).getInt();
  int64_t sampleBytes = bytesOf(whole) / shapeOf(whole)[dim];
  CmdFillOp::create(commands, body.getLoc(), userNameOf(whole),
                    (addresses.getOffset(part) - addresses.getOffset(whole)) / sampleBytes,
                    bytesOf(argument) / sampleBytes, addresses.get(argument, loops));
}

void CommandLowering::addCheck(StringRef kind, StringRef name, Value value, const Addresses &addresses) {
  Type type = tensorType(value).getElementType();
  StringAttr kernel;
  if (TargetAttr::of(module).isDevice()) {
    kernel = builder.getStringAttr(checkSymbolOf(type));
    useKernel(kernel, /*numBuffers=*/2);
  }
  CmdCheckFiniteOp::create(commands, value.getLoc(), kind, name, type, addresses.getOffset(value),
                           /*agreed=*/invariance && invariance->isInvariant(value), kernel);
}

LogicalResult CommandLowering::addOps(Block &block, const Addresses &addresses, unsigned loops) {
  for (Operation &op : block.without_terminator()) {
    if (auto check = dyn_cast<HostCheckOp>(op)) {
      addCheck("gradient", check.getChecked(), op.getResult(0), addresses);
      continue;
    }
    if (isViewLike(&op))
      continue;
    if (isProgramConstant(&op)) {
      int64_t offset = addresses.getOffset(op.getResult(0));
      std::string name = "constant." + std::to_string(offset);
      ElementsAttr value;
      matchPattern(&op, m_Constant(&value));
      if (seen.try_emplace(name, offset).second)
        addTensor(name, {}, tensorType(op.getResult(0)), offset, "constant", {}, "a constant of the graph", value);
      continue;
    }
    auto body = dyn_cast<BodyOp>(op);
    if (failed(body ? addBody(body, addresses, loops) : addCommand(op, addresses, loops)))
      return failure();
    if (&op == lossOp && updatesSomething)
      addCheck("loss", "loss", loss, addresses);
  }
  return success();
}

LogicalResult CommandLowering::addFunction(func::FuncOp function) {
  if (auto whole = function->getAttrOfType<IntegerAttr>(ScrimpDialect::kWholeBatch))
    wholeBatch = whole.getInt();
  BatchSize size = getBatchSize(function);
  batch = std::max(batch, size.samples);
  tokensPerSample = std::max(tokensPerSample, size.tokensPerSample);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(addArgument(function, i)))
      return failure();
  FailureOr<Addresses> addresses = Addresses::compute(function);
  if (failed(addresses))
    return failure();
  if (world > 1)
    invariance.emplace(function);
  Block &block = function.getBody().front();
  SmallVector<std::pair<StringRef, Value>> outputs;
  lossOp = nullptr;
  updatesSomething = false;
  bool waits = false;
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    waits |= bool(function.getResultAttr(i, ScrimpDialect::kGate));
    updatesSomething |= bool(function.getResultAttr(i, ScrimpDialect::kUpdates));
    auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput);
    if (!output)
      continue;
    outputs.emplace_back(output.getValue(), value);
    if (output.getValue() == "loss") {
      loss = value;
      lossOp = getComputingOp(value);
    }
  }
  auto graph = CmdGraphOp::create(builder, function.getLoc(), function.getName(), waits);
  builder.setInsertionPoint(graph); // kernels and constants of this graph go before it
  commands.setInsertionPointToEnd(&graph.getBody().emplaceBlock());
  if (failed(addOps(block, *addresses, 0)))
    return failure();
  for (auto [name, value] : outputs)
    CmdOutputOp::create(commands, value.getLoc(), name, tensorType(value).getElementType(),
                        addresses->getOffset(value));
  builder.setInsertionPointAfter(graph);
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> CommandLowering::lower() {
  auto plan = module->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
  if (!plan)
    return module.emitError() << "has no plan; run scrimp-plan-memory";
  // The fingerprint is of the model and its plan: equal compiles have equal ones.
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  bool evalMasks = false;
  if (auto eval = module.lookupSymbol<func::FuncOp>("eval"))
    for (unsigned i = 0; i < eval.getNumArguments(); ++i) {
      auto scalar = eval.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar);
      evalMasks |= scalar && scalar.getValue() == "valid_samples";
    }
  auto number = [&](StringRef name) { return plan.getAs<IntegerAttr>(name).getInt(); };

  Location loc = module.getLoc();
  OwningOpRef<ModuleOp> result = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(result->getBody());
  SmallVector<StringRef> features(options.cpu.features.begin(), options.cpu.features.end());
  auto program = CmdProgramOp::create(
      builder, loc, options.model, llvm::xxh3_64bits(text), number("arena_bytes"), number("alignment"),
      options.optimizer, /*batch=*/1, /*tokens_per_sample=*/0, TargetAttr::of(module).getWorkers(), /*weights_bytes=*/0,
      /*eval_drops_partial=*/!evalMasks, module->getAttrOfType<ArrayAttr>(ScrimpDialect::kUnusedInputs),
      builder.getStringAttr(options.cpu.name), builder.getStrArrayAttr(features), world,
      stringifyTargetKind(TargetAttr::of(module).getKind()));
  builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
  for (auto segment : plan.getAs<ArrayAttr>("segments").getAsRange<DictionaryAttr>())
    CmdSegmentOp::create(builder, loc, segment.getAs<StringAttr>("name").getValue(),
                         RangeAttr::get(builder.getContext(), segment.getAs<IntegerAttr>("offset").getInt(),
                                        segment.getAs<IntegerAttr>("bytes").getInt()));
  for (auto &[name, value] : options.hyperparameters)
    CmdHyperparameterOp::create(builder, loc, name, APFloat(value));
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function)))
      return failure();
  for (const CarriedTensor &tensor : options.carried)
    addCarried(tensor);
  if (!repeated.empty())
    return emitError(UnknownLoc::get(module.getContext()))
           << "two tensors are named '" << repeated << "': one of the model, one that belongs to training (optimizer "
           << "state takes its parameter's name and adds to it); rename it in the model";
  // A step of a model without batched data counts as one sample.
  // Inputs hold one rank's samples.
  program.setBatch(wholeBatch ? wholeBatch : batch * world);
  program.setTokensPerSample(tokensPerSample);
  program.setWeightsBytes(storedBytes);
  if (failed(verify(*result)))
    return failure();
  return result;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::lowerToCommands(ModuleOp module, const ProgramOptions &options) {
  return CommandLowering(module, options).lower();
}
