#include "scrimp/Driver/Compile.h"

#include "DeviceReport.h"

#include "scrimp/Codegen/DeviceCode.h"
#include "scrimp/Codegen/Kernels.h"
#include "scrimp/Codegen/Verify.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Budget.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Driver/Link.h"
#include "scrimp/Driver/PassReport.h"
#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Planner/Report.h"
#include "scrimp/Planner/Timeline.h"
#include "scrimp/Support/Messages.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/ToolOutputFile.h"

#include <cmath>
#include <thread>

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::BlasBlocks;
namespace fs = llvm::sys::fs;

void mlir::scrimp::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<ScrimpDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect, memref::MemRefDialect,
                  scf::SCFDialect>();
  registerCodegenDialects(registry);
}

void mlir::scrimp::registerCompilerPasses() {
  registerScrimpPasses();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerTrainPipeline();
}

//===-- First values ---------------------------------------------------------------------------------------------===//

static double readElement(const char *bytes, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    uint64_t bits = 0;
    memcpy(&bits, bytes, floatType.getWidth() / 8);
    APFloat value(floatType.getFloatSemantics(), APInt(floatType.getWidth(), bits));
    bool lost;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble();
  }
  int64_t value = 0;
  unsigned width = std::max(8u, type.getIntOrFloatBitWidth());
  memcpy(&value, bytes, width / 8);
  return static_cast<double>(width == 64 ? value : APInt(64, value).trunc(width).getSExtValue());
}

/// Stores a value in the tensor's type, rounded. False if it is too large for the type.
static bool writeElement(char *bytes, Type type, double value) {
  bool fits = true;
  if (type.isF32()) {
    float narrow = static_cast<float>(value);
    memcpy(bytes, &narrow, sizeof(narrow));
    fits = !std::isinf(narrow) || std::isinf(value);
  } else if (type.isF64()) {
    memcpy(bytes, &value, sizeof(value));
  } else if (auto floatType = dyn_cast<FloatType>(type)) {
    APFloat converted(value);
    bool lost;
    converted.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    uint64_t bits = converted.bitcastToAPInt().getZExtValue();
    memcpy(bytes, &bits, floatType.getWidth() / 8);
    fits = !converted.isInfinity() || std::isinf(value);
  } else {
    unsigned width = type.getIntOrFloatBitWidth();
    fits = value == std::trunc(value) && std::abs(value) <= 0x1p53 &&
           (width == 1 ? value == 0 || value == 1 : width == 64 || llvm::isIntN(width, static_cast<int64_t>(value)));
    int64_t whole = fits ? static_cast<int64_t>(value) : 0;
    memcpy(bytes, &whole, std::max(8u, type.getIntOrFloatBitWidth()) / 8);
  }
  return fits;
}

static llvm::Error fail(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// The first value of `tensor` into `bytes`: a constant of the graph, or the model's weights, converted to the
/// tensor's type and turned if the file has it transposed. What is carried is taken as it is.
static llvm::Error readStored(const Compilation &compilation, const StoredTensor &tensor, MutableArrayRef<char> bytes) {
  if (tensor.carried) {
    if (failed(readWeightBytes(*tensor.carried, 0, bytes, UnknownLoc::get(compilation.module.get().getContext()))))
      return fail("cannot read '" + tensor.name + "'");
    return llvm::Error::success();
  }
  Type to = tensor.type.getElementType();
  int64_t toBytes = elementBytesOf(to), count = tensor.type.getNumElements();
  if (tensor.constant) {
    HostTensor value = HostTensor::get(tensor.constant);
    for (int64_t i = 0; i < count; ++i) {
      if (value.isFloat())
        writeElement(bytes.data() + i * toBytes, to, value.floats()[i]);
      else
        memcpy(bytes.data() + i * toBytes, &value.ints()[i], toBytes);
    }
    return llvm::Error::success();
  }
  auto found = compilation.weights.find(tensor.name);
  if (found == compilation.weights.end())
    return fail("no value for parameter '" + tensor.name + "'; give one by --init-from");
  const WeightSource &source = found->second;
  MLIRContext *context = tensor.type.getContext();
  int64_t fromBytes = elementBytesOf(source.elementType);
  if (source.getLength() != static_cast<uint64_t>(count * fromBytes))
    return fail("parameter '" + tensor.name + "' has " + Twine(source.getLength()) + " bytes, expected " +
                Twine(count * fromBytes));
  Location loc = NameLoc::get(StringAttr::get(context, tensor.name));
  if (source.elementType == to && !source.transposed) {
    if (failed(readWeightBytes(source, 0, bytes, loc)))
      return fail("cannot read '" + tensor.name + "'");
    return llvm::Error::success();
  }
  std::vector<char> raw(source.getLength());
  if (failed(readWeightBytes(source, 0, raw, loc)))
    return fail("cannot read '" + tensor.name + "'");
  int64_t columns = source.transposed ? source.shape[1] : 1, rows = count / std::max<int64_t>(columns, 1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t target = source.transposed ? i % columns * rows + i / columns : i;
    double value = readElement(raw.data() + i * fromBytes, source.elementType);
    if (!writeElement(bytes.data() + target * toBytes, to, value)) {
      std::string message;
      llvm::raw_string_ostream(message) << "element " << i << " of parameter '" << tensor.name << "' is "
                                        << llvm::format("%g", value) << ", which its type in the model, " << to
                                        << ", does not hold";
      return fail(message);
    }
  }
  return llvm::Error::success();
}

//===-- Compiling ------------------------------------------------------------------------------------------------===//

int64_t mlir::scrimp::workersOf(const CompileOptions &options) {
  return options.workers > 0 ? options.workers : std::max(1u, std::thread::hardware_concurrency());
}

LogicalResult mlir::scrimp::writeOutput(StringRef path, StringRef contents, MLIRContext *context) {
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return emitError(UnknownLoc::get(context)) << message;
  file->os() << contents;
  file->os().flush();
  if (file->os().has_error()) {
    std::error_code code = file->os().error();
    file->os().clear_error();
    return emitError(UnknownLoc::get(context)) << "cannot write '" << path << "': " << code.message();
  }
  file->keep();
  return success();
}

/// A mistyped output must not cost the user a model or its weights.
static LogicalResult checkOverwrites(const CompileOptions &options, const Compilation &compilation,
                                     MLIRContext *context) {
  SmallVector<StringRef> read{options.model, options.initFrom};
  for (const auto &entry : compilation.weights)
    read.push_back(entry.second.path);
  for (const auto &[flag, output] : {std::pair{"--output", &options.output}, {"--report", &options.report}})
    for (StringRef path : read)
      if (!path.empty() && !output->empty() && fs::equivalent(path, *output))
        return emitError(UnknownLoc::get(context))
               << flag << " '" << *output << "' would replace '" << path << "', which the model is read from";
  if (!options.report.empty() && options.report == options.output)
    return emitError(UnknownLoc::get(context)) << "--output and --report are both '" << options.output << "'";
  return success();
}

LogicalResult mlir::scrimp::settlePrecision(CompileOptions &options, func::FuncOp main) {
  std::string &precision = options.import.precision;
  for (unsigned i = 0; precision.empty() && i < main.getNumArguments(); ++i)
    if (auto role = main.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kParam); role && role == "trainable") {
      Type type = cast<RankedTensorType>(main.getArgument(i).getType()).getElementType();
      precision = type.isBF16() ? "bf16" : type.isF16() ? "fp16" : "";
    }
  bool isMixed = precision == "bf16" || precision == "fp16";
  if (!options.keepFp32.empty() && !isMixed)
    return emitError(main.getLoc()) << "--keep-fp32 keeps what --precision bf16 or fp16 would lower; give one of them";
  if (options.master == "none" && precision != "bf16")
    return emitError(main.getLoc()) << "--master none needs --precision bf16, found "
                                    << (precision.empty() ? "fp32" : precision)
                                    << ": in fp16 small parameters would not hold their updates";
  if (options.moments == "bf16" && precision == "fp64")
    return emitError(main.getLoc()) << "--moments bf16 and --precision fp64 exclude each other";
  return success();
}

static CpuOptions cpuOf(const CompileOptions &options) {
  return {options.march == "native" ? "host" : options.march, ""};
}

static FailureOr<Processor> processorOf(const CompileOptions &options, MLIRContext *context) {
  llvm::Expected<Processor> processor = describeProcessor(cpuOf(options));
  if (!processor)
    return emitError(UnknownLoc::get(context)) << llvm::toString(processor.takeError()), failure();
  return std::move(*processor);
}

FailureOr<SmallVector<BlasBlocks>> mlir::scrimp::findBlasKernels(const CompileOptions &options, MLIRContext *context) {
  FailureOr<Processor> processor = processorOf(options, context);
  if (failed(processor))
    return failure();
  return findBlasKernels(processor->features, /*isExact=*/options.march == "native");
}

FailureOr<std::string> mlir::scrimp::describeNarrowProducts(ModuleOp module, const CompileOptions &options) {
  bool bf16 = false, half = false;
  module.walk([&](KernelOp kernel) {
    if (kernel.getKernelFamily() != KernelFamily::Library)
      return;
    for (Value operand : kernel->getOperands()) {
      bf16 |= tensorType(operand).getElementType().isBF16();
      half |= tensorType(operand).getElementType().isF16();
    }
  });
  if (!bf16 && !half)
    return std::string();
  FailureOr<Processor> processor = processorOf(options, module.getContext());
  if (failed(processor))
    return failure();
  constexpr StringRef dot = "avx512bf16";
  if (!bf16 || !llvm::is_contained(processor->features, dot))
    return "converted to f32 in panels (" + processor->name + ")";
  return (dot + " of " + processor->name + (half ? "; f16 converted to f32 in panels" : "")).str();
}

FailureOr<Compilation> mlir::scrimp::planModel(const CompileOptions &options, MLIRContext *context) {
  FailureOr<Compilation> compilation = loadModel(options, context);
  if (failed(compilation) || failed(checkOverwrites(options, *compilation, context)))
    return failure();
  if (options.precisions.size() > 1 && options.memoryBudget.empty())
    return emitError(UnknownLoc::get(context))
               << "--precision names several, which --memory-budget chooses from; give one",
           failure();
  std::optional<llvm::json::Object> search;
  CompileOptions &chosen = compilation->options;
  chosen = options;
  if (failed(settlePrecision(chosen, compilation->module->lookupSymbol<func::FuncOp>("main"))))
    return failure();
  if (!options.device.empty() || !options.memoryBudget.empty() || options.nodes > 0) {
    FailureOr<Device> device = findDevice(options, context);
    if (failed(device))
      return failure();
    chosen.rates = device->rates;
    compilation->rates = device->rates;
    if (!options.memoryBudget.empty()) {
      FailureOr<llvm::json::Object> found = chooseWithinBudget(*compilation->module, chosen, *device);
      if (failed(found))
        return failure();
      search = std::move(*found);
    }
  }
  OwningOpRef<ModuleOp> imported;
  if (!options.report.empty())
    imported = compilation->module->clone();
  PassManager manager(context);
  buildPipeline(manager, chosen);
  if (failed(manager.run(*compilation->module)))
    return failure();
  if (!options.report.empty()) {
    FailureOr<SmallVector<BlasBlocks>> kernels = findBlasKernels(options, context);
    if (failed(kernels))
      return failure();
    FailureOr<llvm::json::Object> report = buildMemoryReport(*compilation->module, *kernels, compilation->rates);
    std::string text;
    llvm::raw_string_ostream os(text);
    FailureOr<std::string> products = describeNarrowProducts(*compilation->module, options);
    if (failed(report) || failed(products) || failed(addPasses(*report, *imported, chosen)))
      return failure();
    if (!products->empty())
      report->insert({"products_of_16_bits", *products});
    report->insert({"tf32", options.tf32});
    if (search)
      report->insert({"search", std::move(*search)});
    if (chosen.target == "cuda" && failed(addDeviceCode(*report, *compilation->module)))
      return failure();
    if (StringRef(options.report).ends_with(".html"))
      os << drawReport(*report);
    else
      os << llvm::formatv("{0:2}", llvm::json::Value(std::move(*report))) << "\n";
    if (failed(writeOutput(options.report, text, context)))
      return failure();
  }
  return compilation;
}

template <typename T> static std::string toText(T op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op.print(os, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  os << "\n";
  return text;
}

static FailureOr<ProgramOptions> programOptionsOf(const Compilation &compilation) {
  const CompileOptions &options = compilation.options;
  ProgramOptions result;
  // A GPU's executable runs on any.
  if (options.target != "cuda") {
    FailureOr<Processor> cpu = processorOf(options, compilation.module.get().getContext());
    if (failed(cpu))
      return failure();
    result.cpu = std::move(*cpu);
  }
  result.model = llvm::sys::path::filename(options.model).str();
  result.optimizer = options.optimizer;
  result.hyperparameters = hyperparameterDefaults(options);
  result.world = options.world;
  result.rates = compilation.rates;
  result.carried = compilation.carried;
  return result;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::scrimp::buildCommands(const CompileOptions &options, MLIRContext *context) {
  FailureOr<Compilation> compilation = planModel(options, context);
  if (failed(compilation) || failed(emitKernels(*compilation->module)))
    return failure();
  FailureOr<ProgramOptions> program = programOptionsOf(*compilation);
  if (failed(program))
    return failure();
  return lowerToCommands(*compilation->module, *program);
}

/// --verify: every graph on random values, its kernels beside the interpreter.
static LogicalResult verifyGraphs(ModuleOp module, ModuleOp kernels, const CpuOptions &cpu) {
  VerifyOptions options;
  options.cpu = cpu;
  options.ulps = 64;
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<HostTensor> results;
    if (failed(verifyKernels(module, function, kernels, makeRandomArguments(function, /*seed=*/1), options, results)))
      return failure();
  }
  return success();
}

LogicalResult mlir::scrimp::compileModel(const CompileOptions &options, MLIRContext *context) {
  Location loc = UnknownLoc::get(context);
  // An output that cannot be written is better known before minutes of work.
  if (options.output != "-") {
    SmallString<256> folder(llvm::sys::path::parent_path(options.output));
    if (folder.empty())
      folder = ".";
    if (fs::is_directory(options.output))
      return emitError(loc) << "cannot write '" << options.output << "': it is a directory";
    // An executable takes the place of what is there: never that of a device.
    if (options.emit == "exe" && fs::exists(options.output) && !fs::is_regular_file(options.output))
      return emitError(loc) << "cannot write '" << options.output << "': it is not a regular file";
    if (!fs::is_directory(folder))
      return emitError(loc) << "cannot write '" << options.output << "': no folder '" << folder << "'";
    if (fs::access(folder, fs::AccessMode::Write))
      return emitError(loc) << "cannot write '" << options.output << "': folder '" << folder << "' is not writable";
  }
  bool isCuda = options.target == "cuda";
  if (isCuda && options.emit == "llvm")
    return emitError(loc) << "there is no --emit llvm of --target cuda; --emit ptx prints its kernels";
  if (options.emit == "import") {
    FailureOr<Compilation> compilation = loadModel(options, context);
    if (failed(compilation) || failed(checkOverwrites(options, *compilation, context)))
      return failure();
    return writeOutput(options.output, toText(*compilation->module), context);
  }
  FailureOr<Compilation> compilation = planModel(options, context);
  if (failed(compilation))
    return failure();
  ModuleOp module = *compilation->module;
  if (options.emit == "mlir")
    return writeOutput(options.output, toText(module), context);

  FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(module);
  if (failed(kernels))
    return failure();
  if (options.emit == "kernels")
    return writeOutput(options.output, toText(kernels->get()), context);
  CpuOptions cpu = cpuOf(options);
  if (options.emit == "llvm") {
    FailureOr<std::string> text = compileKernels(kernels->get(), cpu, CodeKind::LLVM);
    return failed(text) ? failure() : writeOutput(options.output, *text, context);
  }
  if (options.emit == "ptx") {
    FailureOr<std::string> text = emitPtx(kernels->get(), options.chip);
    return failed(text) ? failure() : writeOutput(options.output, *text, context);
  }
  if (options.verify && failed(verifyGraphs(module, kernels->get(), cpu)))
    return failure();

  FailureOr<ProgramOptions> programOptions = programOptionsOf(*compilation);
  if (failed(programOptions))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> commands = lowerToCommands(module, *programOptions);
  if (failed(commands))
    return failure();
  if (options.emit == "commands")
    return writeOutput(options.output, toText(commands->get()), context);
  std::optional<DeviceCode> code;
  if (isCuda) {
    FailureOr<DeviceCode> compiled = compileDeviceCode(kernels->get());
    if (failed(compiled))
      return failure();
    code = std::move(*compiled);
    if (code->images.empty() && !options.quiet)
      emitWarning(loc)
          << "ptxas is not found in PATH, CUDA_HOME or /usr/local/cuda: the executable holds PTX alone, which "
             "the driver compiles where it starts";
  }
  FailureOr<Program> program = buildProgram(commands->get(), compilation->carried, code ? &*code : nullptr);
  if (failed(program))
    return failure();
  SmallString<256> absolute(options.output); // the linker must not take the name for a flag
  if (std::error_code code = fs::make_absolute(absolute))
    return emitError(loc) << "cannot write '" << options.output << "': " << code.message();
  std::string object = (absolute + ".part." + Twine(llvm::sys::Process::getProcessId()) + ".o").str();
  llvm::sys::RemoveFileOnSignal(object);
  llvm::scope_exit cleanup([&] {
    fs::remove(object);
    llvm::sys::DontRemoveFileOnSignal(object);
  });
  if (!isCuda && failed(compileToObject(kernels->get(), cpu, object)))
    return failure();
  llvm::Error failed =
      linkExecutable(*program, object, options.output, [&](const StoredTensor &tensor, MutableArrayRef<char> bytes) {
        return readStored(*compilation, tensor, bytes);
      });
  if (failed)
    return emitError(loc) << llvm::toString(std::move(failed));
  return success();
}
