// The serialisation of scrimp.cmd ops. The module says all of it: one op, one table.
#include "scrimp/Driver/Program.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Codegen/DeviceCode.h"

#include "scrimp/runtime/program_generated.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace fb = ::scrimp::program;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

static constexpr uint32_t kProgramVersion = 3;

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

/// The element type of a tensor, or the type itself.
static fb::DType dtypeOfTensor(Type type) { return dtypeOf(getElementTypeOrSelf(type)); }

/// The member of an enum of the schema with that name. Fails after an error at `op`.
template <typename Enum> static FailureOr<Enum> enumOf(Operation *op, StringRef name, const char *(*nameOf)(Enum)) {
  for (int k = static_cast<int>(Enum::MIN); k <= static_cast<int>(Enum::MAX); ++k)
    if (name == nameOf(static_cast<Enum>(k)))
      return static_cast<Enum>(k);
  return op->emitError() << "'" << name << "' is not known to the runtime";
}

namespace {
class ProgramWriter {
public:
  ProgramWriter(ArrayRef<CarriedTensor> carried, const DeviceCode *code) : carriedSources(carried), code(code) {}
  FailureOr<Program> write(CmdProgramOp op);

private:
  using Text = Offset<flatbuffers::String>;
  using Commands = Offset<flatbuffers::Vector<Offset<fb::Command>>>;

  LogicalResult write(CmdSegmentOp op);
  LogicalResult write(CmdTensorOp op);
  LogicalResult write(CmdCarriedOp op);
  void write(CmdInputOp op);
  LogicalResult write(CmdGraphOp op);
  FailureOr<Commands> writeCommands(Block &block);
  FailureOr<Offset<fb::Command>> writeCommand(Operation &op);
  Offset<flatbuffers::Vector<Offset<fb::DeviceImage>>> writeImages();
  Offset<fb::Range> range(RangeAttr attr);
  Offset<flatbuffers::Vector<Offset<fb::Range>>> ranges(ArrayAttr attr);
  Text text(StringRef value) { return builder.CreateString(value.str()); }
  /// The user's name for what a command computes.
  Text location(Operation &op);

  ArrayRef<CarriedTensor> carriedSources;
  const DeviceCode *code;
  FlatBufferBuilder builder;
  Program program;
  llvm::DenseMap<Attribute, Offset<fb::Range>> knownRanges; // equal ranges are one table
  llvm::StringMap<uint32_t> kernelIndices, inputIndices;
  std::vector<Offset<fb::Segment>> segments;
  std::vector<Offset<fb::Tensor>> tensors;
  std::vector<Offset<fb::Carried>> carried;
  std::vector<Offset<fb::Input>> inputs;
  std::vector<Offset<fb::Scalar>> scalars;
  std::vector<Offset<fb::Hyperparameter>> hyperparameters;
  std::vector<Offset<fb::Graph>> graphs;
  std::vector<Offset<fb::Kernel>> kernels;
};
} // namespace

ProgramWriter::Text ProgramWriter::location(Operation &op) {
  std::string name = userNameOf(&op);
  return text(name == op.getName().getStringRef() ? "" : name);
}

Offset<fb::Range> ProgramWriter::range(RangeAttr attr) {
  auto [known, isNew] = knownRanges.try_emplace(attr);
  if (isNew) {
    Offset<flatbuffers::Vector<int64_t>> strides;
    if (!attr.getStrides().empty())
      strides = builder.CreateVector(attr.getStrides().data(), attr.getStrides().size());
    known->second = fb::CreateRange(builder, attr.getOffset(), attr.getBytes(), strides, attr.getRankStride(),
                                    static_cast<fb::MemorySpace>(attr.getSpace()));
  }
  return known->second;
}

Offset<flatbuffers::Vector<Offset<fb::Range>>> ProgramWriter::ranges(ArrayAttr attr) {
  std::vector<Offset<fb::Range>> list;
  for (auto each : attr.getAsRange<RangeAttr>())
    list.push_back(range(each));
  return builder.CreateVector(list);
}

LogicalResult ProgramWriter::write(CmdSegmentOp op) {
  FailureOr<fb::SegmentKind> kind = enumOf(op, op.getName(), fb::EnumNameSegmentKind);
  if (succeeded(kind))
    segments.push_back(fb::CreateSegment(builder, *kind, op.getPlace().getOffset(), op.getPlace().getBytes()));
  return success(succeeded(kind));
}

LogicalResult ProgramWriter::write(CmdTensorOp op) {
  FailureOr<fb::TensorRole> role = enumOf(op, op.getRole(), fb::EnumNameTensorRole);
  FailureOr<fb::InitKind> init = enumOf(op, op.getInit(), fb::EnumNameInitKind);
  if (failed(role) || failed(init))
    return failure();
  auto type = cast<RankedTensorType>(op.getType());
  int64_t weightsOffset = op.getWeightsOffset().value_or(0);
  if (*init == fb::InitKind::file)
    program.stored.push_back(
        {op.getName().str(), type, weightsOffset, bytesOf(type), cast_or_null<DenseElementsAttr>(op.getValueAttr())});
  std::vector<Text> aliases;
  for (auto alias : op.getAliases().getAsRange<StringAttr>())
    aliases.push_back(text(alias.getValue()));
  std::vector<int64_t> shape(type.getShape());
  tensors.push_back(fb::CreateTensor(builder, text(op.getName()), builder.CreateVector(aliases), dtypeOfTensor(type),
                                     builder.CreateVector(shape), op.getOffset(), *role, *init,
                                     op.getA().convertToDouble(), op.getB().convertToDouble(), weightsOffset,
                                     text(op.getReason()), op.getPartElements(), op.getBucketOffset()));
  return success();
}

LogicalResult ProgramWriter::write(CmdCarriedOp op) {
  auto *source = llvm::find_if(carriedSources, [&](const CarriedTensor &t) { return t.names[0] == op.getName(); });
  if (source == carriedSources.end())
    return op.emitOpError() << "there are no bytes for '" << op.getName() << "'";
  int64_t offset = op.getWeightsOffset(), bytes = op.getBytes();
  program.stored.push_back({op.getName().str(), {}, offset, bytes, {}, &source->source});
  std::vector<Text> aliases;
  for (auto alias : op.getAliases().getAsRange<StringAttr>())
    aliases.push_back(text(alias.getValue()));
  carried.push_back(fb::CreateCarried(builder, text(op.getName()), builder.CreateVector(aliases), text(op.getDtype()),
                                      builder.CreateVector(op.getShape().data(), op.getShape().size()), bytes, offset));
  return success();
}

void ProgramWriter::write(CmdInputOp op) {
  std::optional<ArrayRef<int64_t>> valid = op.getValid();
  std::vector<int64_t> shape(cast<RankedTensorType>(op.getType()).getShape());
  inputs.push_back(fb::CreateInput(builder, text(op.getName()), dtypeOfTensor(op.getType()),
                                   builder.CreateVector(shape), op.getBatchDim(), op.getOffset(),
                                   valid ? (*valid)[0] : 0, valid ? (*valid)[1] : 0, op.getIgnore().has_value(),
                                   op.getIgnore().value_or(0), op.getStreamed()));
  inputIndices[op.getName()] = inputs.size() - 1;
}

static double secondsOf(std::optional<APFloat> seconds) { return seconds ? seconds->convertToDouble() : 0; }

/// The command of one op. Fails after an error at an op that is none.
FailureOr<Offset<fb::Command>> ProgramWriter::writeCommand(Operation &op) {
  auto command = [&](fb::CommandBody kind, auto body) { return fb::CreateCommand(builder, kind, body.Union()); };
  if (auto launch = dyn_cast<CmdLaunchOp>(op))
    return command(fb::CommandBody::Launch,
                   fb::CreateLaunch(builder, kernelIndices.lookup(launch.getKernel()), ranges(launch.getBuffers()),
                                    launch.getUnits(), launch.getGrain(), location(op), secondsOf(launch.getSeconds()),
                                    launch.getReads(), launch.getGrid(), launch.getBlock(), launch.getShared()));
  if (auto call = dyn_cast<CmdCallOp>(op)) {
    auto ints = builder.CreateVector(call.getInts().data(), call.getInts().size());
    auto floats = builder.CreateVector(call.getFloats().data(), call.getFloats().size());
    std::vector<fb::DType> types;
    if (ArrayAttr attr = call.getTypesAttr())
      for (Type type : attr.getAsValueRange<TypeAttr>())
        types.push_back(dtypeOfTensor(type));
    return command(fb::CommandBody::Call,
                   fb::CreateCall(builder, text(call.getFunction()), ranges(call.getBuffers()), ints, floats,
                                  dtypeOfTensor(call.getType()), location(op), secondsOf(call.getSeconds()),
                                  builder.CreateVector(types), call.getReads(), call.getTf32()));
  }
  if (auto copy = dyn_cast<CmdCopyOp>(op))
    return command(fb::CommandBody::Copy, fb::CreateCopy(builder, range(copy.getSource()), range(copy.getTarget())));
  if (auto fill = dyn_cast<CmdFillOp>(op))
    return command(fb::CommandBody::Fill, fb::CreateFill(builder, inputIndices.lookup(fill.getInput()), fill.getFirst(),
                                                         fill.getSamples(), range(fill.getTarget())));
  if (auto check = dyn_cast<CmdCheckFiniteOp>(op)) {
    FailureOr<fb::CheckKind> kind = enumOf(&op, check.getKind(), fb::EnumNameCheckKind);
    if (failed(kind))
      return failure();
    return command(fb::CommandBody::CheckFinite,
                   fb::CreateCheckFinite(builder, *kind, text(check.getName()), dtypeOfTensor(check.getType()),
                                         check.getOffset(), check.getAgreed(),
                                         check.getKernel() ? kernelIndices.lookup(*check.getKernel()) : 0));
  }
  if (auto collective = dyn_cast<CmdCollectiveOp>(op)) {
    FailureOr<fb::CollectiveKind> kind = enumOf(&op, collective.getKind(), fb::EnumNameCollectiveKind);
    if (failed(kind))
      return failure();
    Type type = collective.getType();
    return command(fb::CommandBody::Collective,
                   fb::CreateCollective(builder, *kind, range(collective.getSource()), range(collective.getTarget()),
                                        dtypeOf(type), dtypeOf(collective.getWire().value_or(type)),
                                        collective.getRoot().value_or(0), collective.getEvent(), location(op),
                                        secondsOf(collective.getSeconds())));
  }
  if (auto wait = dyn_cast<CmdWaitOp>(op))
    return command(fb::CommandBody::Wait, fb::CreateWait(builder, wait.getEvent()));
  if (auto repeat = dyn_cast<CmdRepeatOp>(op)) {
    FailureOr<Commands> inner = writeCommands(repeat.getBody().front());
    if (failed(inner))
      return failure();
    return command(fb::CommandBody::Repeat,
                   fb::CreateRepeat(builder, repeat.getCount(), range(repeat.getIndex()), *inner, location(op)));
  }
  if (auto conditional = dyn_cast<CmdConditionalOp>(op)) {
    FailureOr<Commands> inner = writeCommands(conditional.getBody().front());
    if (failed(inner))
      return failure();
    return command(fb::CommandBody::Conditional,
                   fb::CreateConditional(builder, range(conditional.getCondition()), *inner, location(op)));
  }
  return op.emitOpError() << "is no command that the runtime knows";
}

FailureOr<ProgramWriter::Commands> ProgramWriter::writeCommands(Block &block) {
  std::vector<Offset<fb::Command>> commands;
  for (Operation &op : block) {
    if (isa<CmdOutputOp>(op))
      continue;
    FailureOr<Offset<fb::Command>> command = writeCommand(op);
    if (failed(command))
      return failure();
    commands.push_back(*command);
  }
  return builder.CreateVector(commands);
}

LogicalResult ProgramWriter::write(CmdGraphOp op) {
  FailureOr<Commands> commands = writeCommands(op.getBody().front());
  if (failed(commands))
    return failure();
  std::vector<Offset<fb::Output>> outputs;
  for (auto output : op.getBody().front().getOps<CmdOutputOp>())
    outputs.push_back(fb::CreateOutput(builder, text(output.getName()), dtypeOfTensor(output.getType()),
                                       output.getOffset(), output.getPartial()));
  graphs.push_back(
      fb::CreateGraph(builder, text(op.getSymName()), *commands, builder.CreateVector(outputs), op.getUpdatesWait()));
  return success();
}

/// The images that are compiled, and PTX for later cards.
Offset<flatbuffers::Vector<Offset<fb::DeviceImage>>> ProgramWriter::writeImages() {
  std::vector<Offset<fb::DeviceImage>> images;
  auto add = [&](StringRef chip, bool isPtx, StringRef data) {
    int capability = 0;
    chip.drop_front(StringRef("sm_").size()).getAsInteger(10, capability);
    builder.ForceVectorAlignment(data.size(), 1, 16);
    auto bytes = builder.CreateVector(data.bytes_begin(), data.size());
    images.push_back(fb::CreateDeviceImage(builder, capability, isPtx, bytes));
  };
  if (!code)
    return 0;
  for (const DeviceImage &image : code->images)
    add(image.chip, /*isPtx=*/false, image.cubin);
  add(deviceChips().front(), /*isPtx=*/true, StringRef(code->ptx.c_str(), code->ptx.size() + 1));
  program.holdsKernels = true;
  return builder.CreateVector(images);
}

FailureOr<Program> ProgramWriter::write(CmdProgramOp op) {
  Block &tables = op.getBody().front();
  for (auto kernel : tables.getOps<CmdKernelOp>()) {
    kernelIndices[kernel.getSymName()] = kernels.size();
    kernels.push_back(fb::CreateKernel(builder, text(kernel.getSymName()), kernel.getBuffers()));
    program.kernels.push_back(kernel.getSymName().str());
  }
  for (auto parameter : tables.getOps<CmdHyperparameterOp>())
    hyperparameters.push_back(
        fb::CreateHyperparameter(builder, text(parameter.getName()), parameter.getValue().convertToDouble()));
  for (auto scalar : tables.getOps<CmdScalarOp>())
    scalars.push_back(
        fb::CreateScalar(builder, text(scalar.getName()), dtypeOfTensor(scalar.getType()), scalar.getOffset()));
  for (auto input : tables.getOps<CmdInputOp>())
    write(input);
  auto writeAll = [&](auto ops) {
    return success(llvm::all_of(ops, [&](auto each) { return succeeded(write(each)); }));
  };
  if (failed(writeAll(tables.getOps<CmdSegmentOp>())) || failed(writeAll(tables.getOps<CmdTensorOp>())) ||
      failed(writeAll(tables.getOps<CmdCarriedOp>())) || failed(writeAll(tables.getOps<CmdGraphOp>())))
    return failure();
  FailureOr<fb::Target> target = enumOf(op, op.getTarget(), fb::EnumNameTarget);
  if (failed(target))
    return failure();
  program.storedBytes = op.getWeightsBytes();
  auto texts = [&](ArrayAttr names) {
    std::vector<std::string> strings;
    if (names)
      for (auto name : names.getAsRange<StringAttr>())
        strings.push_back(name.str());
    return builder.CreateVectorOfStrings(strings);
  };
  auto root = fb::CreateProgram(
      builder, kProgramVersion, text(op.getModel()), op.getFingerprint(), op.getArenaBytes(), op.getAlignment(),
      builder.CreateVector(segments), builder.CreateVector(tensors), builder.CreateVector(inputs),
      builder.CreateVector(scalars), builder.CreateVector(graphs), builder.CreateVector(kernels),
      builder.CreateVector(hyperparameters), text(op.getOptimizer()), op.getBatch(), op.getTokensPerSample(),
      op.getWorkers(), op.getWeightsBytes(), op.getEvalDropsPartial(), builder.CreateVector(carried),
      texts(op.getUnusedInputsAttr()), text(op.getCpu().value_or("")), texts(op.getCpuFeaturesAttr()), op.getWorld(),
      *target, writeImages());
  builder.Finish(root, fb::ProgramIdentifier());
  program.bytes.assign(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  return std::move(program);
}

FailureOr<Program> mlir::scrimp::buildProgram(ModuleOp commands, ArrayRef<CarriedTensor> carried,
                                              const DeviceCode *code) {
  auto programs = commands.getOps<CmdProgramOp>();
  if (!llvm::hasSingleElement(programs))
    return commands.emitError() << "holds " << std::distance(programs.begin(), programs.end())
                                << " programs, expected one";
  return ProgramWriter(carried, code).write(*programs.begin());
}
