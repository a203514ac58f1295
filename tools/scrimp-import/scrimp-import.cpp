// scrimp-import: prints what an ONNX model becomes, or interprets it on given data: the importer's test bench.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Import/NodeTests.h"
#include "scrimp/Import/Onnx.h"
#include "scrimp/Support/Messages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::scrimp;

static LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "scrimp-import: error: " << message << "\n";
  return failure();
}

/// The first rows of a .npy file (format version 1, C order) as a tensor of `type`.
static FailureOr<HostTensor> readNpy(StringRef path, RankedTensorType type) {
  if (std::string problem = whyNotReadable(path); !problem.empty())
    return fail("'" + path + "' " + problem);
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer || (*buffer)->getBuffer().size() < 10 || !(*buffer)->getBuffer().starts_with("\x93NUMPY"))
    return fail("'" + path + "' is not a .npy file");
  StringRef bytes = (*buffer)->getBuffer();
  size_t header = static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  StringRef description = bytes.substr(10, header);
  bytes = bytes.substr(10 + header);
  HostTensor value(type);
  auto read = [&](auto sample) -> LogicalResult {
    if (bytes.size() < value.size() * sizeof(sample))
      return fail("'" + path + "' is too short");
    for (int64_t i = 0; i < value.size(); ++i) {
      std::memcpy(&sample, bytes.data() + i * sizeof(sample), sizeof(sample));
      if (value.isFloat())
        value.floats()[i] = static_cast<double>(sample);
      else
        value.ints()[i] = static_cast<int64_t>(sample);
    }
    return success();
  };
  LogicalResult result = description.contains("'<f4'")   ? read(float())
                         : description.contains("'<f8'") ? read(double())
                         : description.contains("'<i8'") ? read(int64_t())
                         : description.contains("'<i4'") ? read(int32_t())
                         : description.contains("'|b1'") ? read(char())
                                                         : fail("'" + path + "' has elements of another type");
  if (failed(result))
    return failure();
  return value;
}

/// The elements of a parameter; zeros, ones and constants are made, other initial values are not.
static FailureOr<HostTensor> readParameter(const ImportedModel &model, DictionaryAttr attributes, StringRef name,
                                           RankedTensorType type) {
  HostTensor value(type);
  auto source = model.weights.find(name);
  if (source == model.weights.end()) {
    auto init = attributes.getAs<DictionaryAttr>(ScrimpDialect::kInit);
    StringRef kind = init ? init.getAs<StringAttr>("kind").getValue() : "";
    if (kind != "zeros" && kind != "ones")
      return fail("'" + name + "' has no value in the file");
    return HostTensor::splat(type, kind == "ones");
  }
  const WeightSource &weight = source->second;
  std::vector<char> bytes(weight.getLength());
  if (failed(readWeightBytes(weight, 0, bytes, UnknownLoc::get(type.getContext()))))
    return failure();
  int64_t columns = weight.shape.size() == 2 ? weight.shape[1] : 1, rows = value.size() / std::max<int64_t>(columns, 1);
  for (int64_t i = 0; i < value.size(); ++i) {
    int64_t to = weight.transposed ? i % columns * rows + i / columns : i;
    if (weight.elementType.isF32()) {
      float element;
      std::memcpy(&element, bytes.data() + 4 * i, 4);
      value.floats()[to] = element;
    } else if (weight.elementType.isF64()) {
      std::memcpy(&value.floats()[to], bytes.data() + 8 * i, 8);
    } else {
      return fail("'" + name + "' is neither f32 nor f64");
    }
  }
  return value;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (auto &option : llvm::cl::getRegisteredOptions()) // LLVM's own; --help is about this tool's
    option.second->setHiddenFlag(llvm::cl::Hidden);
  static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("MODEL.onnx"));
  static NodeTestOptions tests;
  static llvm::cl::opt<std::string, true> root("node-tests", llvm::cl::desc("Run the ONNX node tests of this folder"),
                                               llvm::cl::location(tests.root));
  static llvm::cl::opt<std::string, true> exceptions(
      "exceptions", llvm::cl::desc("Tests that cannot pass, with reasons"), llvm::cl::location(tests.exceptions));
  static llvm::cl::opt<bool, true> table("op-table", llvm::cl::desc("Print the table of ops from --node-tests"),
                                         llvm::cl::location(tests.table));
  static llvm::cl::list<std::string> dims("dim", llvm::cl::desc("NAME=SIZE of a symbolic dimension"));
  static llvm::cl::list<std::string> data("data", llvm::cl::desc("NAME or NAME=FILE.npy of a data input"));
  static llvm::cl::list<std::string> trainable("trainable", llvm::cl::desc("Pattern of parameters to train"));
  static llvm::cl::list<std::string> frozen("frozen", llvm::cl::desc("Pattern of parameters to keep"));
  static llvm::cl::opt<std::string> loss("loss", llvm::cl::desc("Loss to add"));
  static llvm::cl::opt<std::string> precision("precision", llvm::cl::desc("fp32 or fp64"));
  static llvm::cl::opt<bool> trainingMode("training-mode", llvm::cl::desc("Dropout and BatchNormalization train"));
  static llvm::cl::opt<bool> evaluate("evaluate", llvm::cl::desc("Interpret @main on the data and print its results"));
  static llvm::cl::opt<bool> typed("typed", llvm::cl::desc("Round every value to its type instead of running in fp64"));
  static llvm::cl::opt<bool> locations("locations", llvm::cl::desc("Print locations"));
  static llvm::cl::opt<bool> quiet("quiet", llvm::cl::desc("Print no IR"));
  llvm::cl::ParseCommandLineOptions(argc, argv, "Imports ONNX models\n");

  if (!tests.root.empty())
    return runNodeTests(tests, llvm::outs());

  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    llvm::errs() << "scrimp-import: error: " << onOneLine(diagnostic.str()) << "\n";
    return success();
  });
  ImportOptions options;
  for (StringRef dim : dims) {
    auto [name, text] = dim.rsplit('=');
    int64_t size;
    if (text.getAsInteger(10, size)) {
      (void)fail("--dim " + dim + ": expected NAME=SIZE");
      return 1;
    }
    options.dims[name] = size;
  }
  llvm::StringMap<std::string> files;
  for (StringRef entry : data) {
    auto [name, file] = entry.split('=');
    options.dataNames.push_back(name.str());
    if (!file.empty())
      files[name] = file.str();
  }
  options.loss = loss;
  options.precision = precision;
  options.trainingMode = trainingMode;
  options.trainable.assign(trainable.begin(), trainable.end());
  options.frozen.assign(frozen.begin(), frozen.end());
  FailureOr<ImportedModel> model = importOnnx(input, options, &context);
  if (failed(model))
    return 1;
  for (const std::string &note : model->notes)
    llvm::errs() << "scrimp-import: " << onOneLine(note) << "\n";
  if (!quiet && !evaluate)
    model->module->print(llvm::outs(), OpPrintingFlags().enableDebugInfo(locations).elideLargeElementsAttrs(16));
  if (!evaluate)
    return 0;

  auto function = model->module->lookupSymbol<func::FuncOp>("main");
  SmallVector<HostTensor> arguments, results;
  for (BlockArgument argument : function.getArguments()) {
    DictionaryAttr attributes = function.getArgAttrDict(argument.getArgNumber());
    auto type = cast<RankedTensorType>(argument.getType());
    StringRef name = attributes.getAs<StringAttr>(ScrimpDialect::kName).getValue();
    FailureOr<HostTensor> value = HostTensor(type);
    if (attributes.contains(ScrimpDialect::kInput))
      value = readNpy(files.lookup(name), type);
    else if (!attributes.contains(ScrimpDialect::kScalar))
      value = readParameter(*model, attributes, name, type);
    if (failed(value))
      return 1;
    arguments.push_back(std::move(*value));
  }
  if (failed(evalFunction(function, arguments, results, typed ? Rounding::Typed : Rounding::Exact)))
    return 1;
  for (auto [i, result] : llvm::enumerate(results))
    if (auto name = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput))
      llvm::outs() << name.getValue() << " " << llvm::format(typed ? "%.9g" : "%.17g", result.asDouble(0)) << "\n";
}
