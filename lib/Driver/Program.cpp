#include "scrimp/Driver/Program.h"

#include "Addresses.h"
#include "scrimp/Dialect/Scrimp.h"

#include "scrimp/runtime/program_generated.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace fb = ::scrimp::program;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

static constexpr uint32_t kProgramVersion = 2;

int64_t mlir::scrimp::tensorBytes(RankedTensorType type) {
  return type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

static fb::DType dtypeOf(Type type) {
  if (type.isF32())
    return fb::DType::f32;
  if (type.isF64())
    return fb::DType::f64;
  if (type.isBF16())
    return fb::DType::bf16;
  if (type.isF16())
    return fb::DType::f16;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return fb::DType::i1;
  case 8:
    return fb::DType::i8;
  case 32:
    return fb::DType::i32;
  default:
    return fb::DType::i64;
  }
}

/// The user's name for an op: the innermost name of its location.
static std::string locationName(Location loc) {
  std::string name;
  loc->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    return WalkResult::advance();
  });
  return name;
}

namespace {
/// Builds the tables of one program.
class ProgramWriter {
public:
  ProgramWriter(ModuleOp module, const ProgramOptions &options) : module(module), options(options) {}
  FailureOr<Program> write();

private:
  LogicalResult addFunction(func::FuncOp function);
  LogicalResult addArgument(func::FuncOp function, unsigned index);
  void addTensor(StringRef name, ArrayAttr aliases, RankedTensorType type, int64_t offset, fb::TensorRole role,
                 DictionaryAttr init, StringRef reason, DenseElementsAttr constant = {});
  void addCarried(const CarriedTensor &tensor);
  void takeName(StringRef name) {
    if (!tensorNames.insert(name).second)
      repeated = name;
  }
  LogicalResult addCommand(Operation &op, const Addresses &addresses, std::vector<Offset<fb::Command>> &commands);
  FailureOr<uint32_t> kernelIndex(Operation &op, size_t buffers);

  ModuleOp module;
  const ProgramOptions &options;
  FlatBufferBuilder builder;
  Program program;
  llvm::StringSet<> tensorNames;
  std::string repeated;          // the last name that two tensors have
  llvm::StringMap<int64_t> seen; // names of arguments already in the tables
  llvm::StringMap<uint32_t> kernelIndices;
  int64_t batch = 0, tokensPerSample = 0;
  std::vector<Offset<fb::Tensor>> tensors;
  std::vector<Offset<fb::Carried>> carried;
  std::vector<Offset<fb::Input>> inputs;
  std::vector<Offset<fb::Scalar>> scalars;
  std::vector<Offset<fb::Graph>> graphs;
  std::vector<Offset<fb::Kernel>> kernels;
};
} // namespace

void ProgramWriter::addTensor(StringRef name, ArrayAttr aliases, RankedTensorType type, int64_t offset,
                              fb::TensorRole role, DictionaryAttr init, StringRef reason, DenseElementsAttr constant) {
  StringRef kind = "zeros";
  double a = 0, b = 0;
  if (init) {
    if (auto attr = init.getAs<StringAttr>("kind"))
      kind = attr.getValue();
    if (auto attr = init.getAs<FloatAttr>("a"))
      a = attr.getValueAsDouble();
    if (auto attr = init.getAs<FloatAttr>("b"))
      b = attr.getValueAsDouble();
  }
  fb::InitKind initKind = fb::InitKind::zeros;
  uint64_t weightsOffset = 0;
  for (int k = static_cast<int>(fb::InitKind::MIN); k <= static_cast<int>(fb::InitKind::MAX); ++k)
    if (kind == fb::EnumNameInitKind(static_cast<fb::InitKind>(k)))
      initKind = static_cast<fb::InitKind>(k);
  if (constant)
    initKind = fb::InitKind::file;
  if (initKind == fb::InitKind::file) {
    weightsOffset = program.storedBytes;
    program.stored.push_back({name.str(), type, program.storedBytes, tensorBytes(type), constant});
    program.storedBytes += tensorBytes(type);
  }
  std::vector<Offset<flatbuffers::String>> names;
  takeName(name);
  if (aliases)
    for (Attribute alias : aliases) {
      StringRef further = cast<StringAttr>(alias).getValue();
      names.push_back(builder.CreateString(further.str()));
      takeName(further);
    }
  std::vector<int64_t> shape(type.getShape());
  tensors.push_back(fb::CreateTensor(builder, builder.CreateString(name.str()), builder.CreateVector(names),
                                     dtypeOf(type.getElementType()), builder.CreateVector(shape), offset, role,
                                     initKind, a, b, weightsOffset, builder.CreateString(reason.str())));
}

void ProgramWriter::addCarried(const CarriedTensor &tensor) {
  std::vector<Offset<flatbuffers::String>> aliases;
  for (StringRef name : tensor.names) {
    takeName(name);
    if (name != tensor.names[0])
      aliases.push_back(builder.CreateString(name.str()));
  }
  const WeightSource &source = tensor.source;
  int64_t bytes = source.getLength();
  carried.push_back(fb::CreateCarried(builder, builder.CreateString(tensor.names[0]), builder.CreateVector(aliases),
                                      builder.CreateString(source.typeName),
                                      builder.CreateVector(source.shape.data(), source.shape.size()), bytes,
                                      program.storedBytes));
  program.stored.push_back({tensor.names[0], {}, program.storedBytes, bytes, {}, &source});
  program.storedBytes += bytes;
}

LogicalResult ProgramWriter::addArgument(func::FuncOp function, unsigned index) {
  auto attr = [&]<typename T>(StringRef name, T) { return function.getArgAttrOfType<T>(index, name); };
  auto type = cast<RankedTensorType>(function.getArgument(index).getType());
  auto name = attr(ScrimpDialect::kName, StringAttr());
  auto scalar = attr(ScrimpDialect::kScalar, StringAttr());
  std::string key = scalar ? "scalar " + scalar.str() : name ? name.str() : "";
  if (key.empty())
    return function.emitError() << "argument " << index << " has neither scrimp.name nor scrimp.scalar";
  int64_t offset = attr("scrimp.offset", IntegerAttr()).getInt();
  if (auto [it, isNew] = seen.try_emplace(key, offset); !isNew) {
    if (it->second != offset)
      return function.emitError() << "'" << key << "' lies at " << offset << " here and at " << it->second
                                  << " in another function";
    return success();
  }
  if (scalar) {
    scalars.push_back(
        fb::CreateScalar(builder, builder.CreateString(scalar.str()), dtypeOf(type.getElementType()), offset));
    return success();
  }
  if (auto batchDim = attr(ScrimpDialect::kInput, IntegerAttr())) {
    int64_t begin = 0, end = 0, dim = batchDim.getInt();
    if (auto valid = attr("scrimp.valid", DenseI64ArrayAttr())) {
      begin = valid[0];
      end = valid[1];
    }
    auto ignore = attr("scrimp.ignore", IntegerAttr());
    std::vector<int64_t> shape(type.getShape());
    if (dim >= 0 && dim < type.getRank()) {
      batch = std::max(batch, shape[dim]);
      // Token ids: an integer for every position of a sample.
      if (type.getElementTypeBitWidth() >= 32 && type.getElementType().isInteger() && type.getRank() == 2 && dim == 0 &&
          shape[1] > 1)
        tokensPerSample = std::max(tokensPerSample, shape[1]);
    }
    inputs.push_back(fb::CreateInput(builder, builder.CreateString(name.str()), dtypeOf(type.getElementType()),
                                     builder.CreateVector(shape), dim, offset, begin, end, bool(ignore),
                                     ignore ? ignore.getInt() : 0));
    return success();
  }
  auto param = attr(ScrimpDialect::kParam, StringAttr());
  bool isState = bool(function.getArgAttr(index, ScrimpDialect::kState));
  if (!param && !isState)
    return function.emitError() << "argument '" << key << "' has no role";
  auto members = attr("scrimp.members", ArrayAttr());
  fb::TensorRole role =
      !isState  ? (param.getValue() == "frozen" ? fb::TensorRole::frozen_parameter : fb::TensorRole::parameter)
      : members ? fb::TensorRole::optimizer_state
                : fb::TensorRole::buffer;
  if (!members) {
    auto reason = attr("scrimp.reason", StringAttr());
    addTensor(key, attr("scrimp.aliases", ArrayAttr()), type, offset, role, attr("scrimp.init", DictionaryAttr()),
              reason ? reason.getValue() : "");
    return success();
  }
  int64_t elementBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (Attribute entry : members) {
    auto member = cast<DictionaryAttr>(entry);
    SmallVector<int64_t> shape;
    if (auto dense = member.getAs<DenseI64ArrayAttr>("shape"))
      shape.assign(dense.asArrayRef().begin(), dense.asArrayRef().end());
    auto reason = member.getAs<StringAttr>("reason");
    addTensor(member.getAs<StringAttr>("name").getValue(), member.getAs<ArrayAttr>("aliases"),
              RankedTensorType::get(shape, type.getElementType()),
              offset + member.getAs<IntegerAttr>("offset").getInt() * elementBytes, role,
              member.getAs<DictionaryAttr>("init"), reason ? reason.getValue() : "");
  }
  return success();
}

FailureOr<uint32_t> ProgramWriter::kernelIndex(Operation &op, size_t buffers) {
  auto symbol = op.getAttrOfType<StringAttr>("scrimp.symbol");
  if (!symbol)
    return op.emitError() << "has no code";
  auto [it, isNew] = kernelIndices.try_emplace(symbol.getValue(), kernels.size());
  if (isNew) {
    kernels.push_back(fb::CreateKernel(builder, builder.CreateString(symbol.str()), buffers));
    program.kernels.push_back(symbol.str());
  }
  return it->second;
}

LogicalResult ProgramWriter::addCommand(Operation &op, const Addresses &addresses,
                                        std::vector<Offset<fb::Command>> &commands) {
  std::vector<fb::Range> buffers;
  for (Value value : llvm::concat<Value>(llvm::to_vector(op.getOperands()), llvm::to_vector(op.getResults())))
    buffers.emplace_back(addresses.get(value), tensorBytes(tensorType(value)));
  // Workspaces: pairs of offset and bytes.
  if (auto workspace = op.getAttrOfType<DenseI64ArrayAttr>("scrimp.workspace")) {
    auto types = [&] {
      if (auto kernel = dyn_cast<KernelOp>(op))
        return kernel.getWorkspaceTypes(options.workers);
      SmallVector<RankedTensorType> all;
      for (Operation &inner : op.getRegion(0).front())
        if (auto kernel = dyn_cast<KernelOp>(inner))
          llvm::append_range(all, kernel.getWorkspaceTypes(options.workers));
      return all;
    }();
    for (auto [offset, type] : llvm::zip(workspace.asArrayRef(), types))
      buffers.emplace_back(offset, tensorBytes(type));
  }
  auto location = builder.CreateString(locationName(op.getLoc()));
  auto kernel = dyn_cast<KernelOp>(op);
  if (kernel && kernel.getKernelFamily() == KernelFamily::Library) {
    LibraryCall call = kernel.getLibraryCall();
    // The library counts in 32 bits.
    for (Type type :
         llvm::concat<const Type>(SmallVector<Type>(op.getOperandTypes()), SmallVector<Type>(op.getResultTypes())))
      for (int64_t size : cast<RankedTensorType>(type).getShape())
        if (size > INT32_MAX)
          return op.emitError() << "has a dimension of " << size << ", but '" << call.function << "' takes at most "
                                << INT32_MAX << "; try a smaller batch";
    std::vector<int64_t> ints(call.ints.begin(), call.ints.end());
    std::vector<double> floats(call.floats.begin(), call.floats.end());
    auto body = fb::CreateCall(builder, builder.CreateString(call.function), builder.CreateVectorOfStructs(buffers),
                               builder.CreateVector(ints), builder.CreateVector(floats),
                               dtypeOf(tensorType(op.getResult(0)).getElementType()), location);
    commands.push_back(fb::CreateCommand(builder, fb::CommandBody::Call, body.Union()));
    return success();
  }
  auto units = op.getAttrOfType<IntegerAttr>("scrimp.units"), grain = op.getAttrOfType<IntegerAttr>("scrimp.grain");
  FailureOr<uint32_t> index = kernelIndex(op, buffers.size());
  if (failed(index))
    return failure();
  auto body = fb::CreateLaunch(builder, *index, builder.CreateVectorOfStructs(buffers), units.getInt(), grain.getInt(),
                               location);
  commands.push_back(fb::CreateCommand(builder, fb::CommandBody::Launch, body.Union()));
  return success();
}

/// The op after which the loss is known; null if it is an argument or a view of one.
static Operation *lossProducer(func::FuncOp function, Value &loss) {
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput);
    if (!output || output.getValue() != "loss")
      continue;
    loss = value;
    Operation *op = value.getDefiningOp();
    while (op && isa<AliasOp>(op))
      op = op->getOperand(cast<AliasOp>(op).getAliasOperand()).getDefiningOp();
    return op;
  }
  return nullptr;
}

LogicalResult ProgramWriter::addFunction(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(addArgument(function, i)))
      return failure();
  FailureOr<Addresses> addresses = Addresses::compute(function);
  if (failed(addresses))
    return failure();
  Value loss;
  Operation *lossOp = lossProducer(function, loss);
  bool updatesSomething = llvm::any_of(llvm::seq(function.getNumResults()), [&](unsigned i) {
    return bool(function.getResultAttr(i, ScrimpDialect::kUpdates));
  });
  std::vector<Offset<fb::Command>> commands;
  auto addCheck = [&](fb::CheckKind kind, StringRef name, Value value) {
    auto check = fb::CreateCheckFinite(builder, kind, builder.CreateString(name.str()),
                                       dtypeOf(tensorType(value).getElementType()), addresses->get(value));
    commands.push_back(fb::CreateCommand(builder, fb::CommandBody::CheckFinite, check.Union()));
  };
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto check = dyn_cast<CheckFiniteOp>(op)) {
      addCheck(fb::CheckKind::gradient, check.getOf(), check.getY());
      continue;
    }
    auto kernel = dyn_cast<KernelOp>(op);
    if (kernel && kernel.getKernelFamily() == KernelFamily::View)
      continue;
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      int64_t offset = addresses->get(constant);
      std::string name = "constant." + std::to_string(offset);
      if (seen.try_emplace(name, offset).second)
        addTensor(name, {}, tensorType(constant), offset, fb::TensorRole::constant, {}, "a constant of the graph",
                  cast<DenseElementsAttr>(constant.getValue()));
      continue;
    }
    if (failed(addCommand(op, *addresses, commands)))
      return failure();
    if (&op == lossOp && updatesSomething)
      addCheck(fb::CheckKind::loss, "loss", loss);
  }
  std::vector<Offset<fb::Output>> outputs;
  bool waits = false;
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    waits |= bool(function.getResultAttr(i, ScrimpDialect::kGate));
    if (auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
      outputs.push_back(fb::CreateOutput(builder, builder.CreateString(output.str()),
                                         dtypeOf(tensorType(value).getElementType()), addresses->get(value)));
  }
  graphs.push_back(fb::CreateGraph(builder, builder.CreateString(function.getName().str()),
                                   builder.CreateVector(commands), builder.CreateVector(outputs), waits));
  return success();
}

FailureOr<Program> ProgramWriter::write() {
  auto plan = module->getAttrOfType<DictionaryAttr>("scrimp.plan");
  if (!plan)
    return module.emitError() << "has no plan; run scrimp-plan-memory";
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(addFunction(function)))
      return failure();
  for (const CarriedTensor &tensor : options.carried)
    addCarried(tensor);
  if (!repeated.empty())
    return emitError(UnknownLoc::get(module.getContext()))
           << "two tensors are named '" << repeated << "': one of the model, one that belongs to training (optimizer "
           << "state takes its parameter's name and adds to it); rename it in the model";
  std::vector<std::string> unused;
  if (auto names = module->getAttrOfType<ArrayAttr>("scrimp.unused_inputs"))
    for (Attribute name : names)
      unused.push_back(cast<StringAttr>(name).str());
  std::vector<Offset<fb::Segment>> segments;
  for (Attribute entry : plan.getAs<ArrayAttr>("segments")) {
    auto segment = cast<DictionaryAttr>(entry);
    StringRef name = segment.getAs<StringAttr>("name").getValue();
    for (int k = static_cast<int>(fb::SegmentKind::MIN); k <= static_cast<int>(fb::SegmentKind::MAX); ++k)
      if (name == fb::EnumNameSegmentKind(static_cast<fb::SegmentKind>(k)))
        segments.push_back(fb::CreateSegment(builder, static_cast<fb::SegmentKind>(k),
                                             segment.getAs<IntegerAttr>("offset").getInt(),
                                             segment.getAs<IntegerAttr>("bytes").getInt()));
  }
  std::vector<Offset<fb::Hyperparameter>> hyperparameters;
  for (auto &[name, value] : options.hyperparameters)
    hyperparameters.push_back(fb::CreateHyperparameter(builder, builder.CreateString(name), value));

  // The fingerprint is of the model and its plan: equal compiles have equal ones.
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  uint64_t fingerprint = llvm::xxh3_64bits(text);

  bool evalMasks = false;
  if (auto eval = module.lookupSymbol<func::FuncOp>("eval"))
    for (unsigned i = 0; i < eval.getNumArguments(); ++i) {
      auto scalar = eval.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar);
      evalMasks |= scalar && scalar.getValue() == "valid_samples";
    }
  auto root = fb::CreateProgram(
      builder, kProgramVersion, builder.CreateString(options.model), fingerprint,
      plan.getAs<IntegerAttr>("arena_bytes").getInt(), /*alignment=*/64, builder.CreateVector(segments),
      builder.CreateVector(tensors), builder.CreateVector(inputs), builder.CreateVector(scalars),
      builder.CreateVector(graphs), builder.CreateVector(kernels), builder.CreateVector(hyperparameters),
      // A step of a model without batched data counts as one sample.
      builder.CreateString(options.optimizer), std::max<int64_t>(batch, 1), tokensPerSample, options.workers,
      program.storedBytes,
      /*eval_drops_partial=*/!evalMasks, builder.CreateVector(carried), builder.CreateVectorOfStrings(unused));
  builder.Finish(root, fb::ProgramIdentifier());
  program.bytes.assign(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  return std::move(program);
}

FailureOr<Program> mlir::scrimp::buildProgram(ModuleOp module, const ProgramOptions &options) {
  return ProgramWriter(module, options).write();
}
