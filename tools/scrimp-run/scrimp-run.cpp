// scrimp-run: interprets a function of a module and prints its results, in fp64 or exactly typed; what several ranks
// run, on all of them at once.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Support/Messages.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Prints values as nested lists, 17 significant digits in fp64 and 9 otherwise: enough to tell any two apart.
static void print(raw_ostream &os, const HostTensor &value, Rounding rounding, int64_t &position, size_t dim) {
  if (dim == value.getShape().size()) {
    if (value.isFloat())
      os << llvm::format(rounding == Rounding::Exact ? "%.17g" : "%.9g", value.floats()[position]);
    else
      os << value.ints()[position];
    ++position;
    return;
  }
  os << "[";
  for (int64_t i = 0; i < value.getShape()[dim]; ++i) {
    if (i)
      os << ", ";
    print(os, value, rounding, position, dim + 1);
  }
  os << "]";
}

static void printLine(const HostTensor &value, Rounding rounding) {
  int64_t position = 0;
  print(llvm::outs(), value, rounding, position, 0);
  llvm::outs() << "\n";
}

static bool areSame(const HostTensor &a, const HostTensor &b) {
  auto bitsOf = [](double value) { return llvm::bit_cast<uint64_t>(value); };
  return a.ints() == b.ints() &&
         llvm::equal(a.floats(), b.floats(), [&](double x, double y) { return bitsOf(x) == bitsOf(y); });
}

/// Whether the runtime gives the argument: the number of the rank.
static bool isRank(func::FuncOp function, unsigned argument) {
  auto scalar = function.getArgAttrOfType<StringAttr>(argument, ScrimpDialect::kScalar);
  return scalar && scalar.getValue() == "rank";
}

/// Evaluates the function on one rank: where arguments are the rank it takes that, for others `given` in their order.
/// Fails after an error where there are more or fewer, or they have other types.
static LogicalResult evaluate(func::FuncOp function, int64_t rank, ArrayRef<HostTensor> given, Rounding rounding,
                              SmallVectorImpl<HostTensor> &results) {
  SmallVector<HostTensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (isRank(function, argument.getArgNumber())) {
      arguments.push_back(HostTensor::splat(type, rank));
      continue;
    }
    if (given.empty())
      return emitError(function.getLoc()) << "argument " << argument.getArgNumber() << " of @" << function.getName()
                                          << " is " << type << ", but nothing gives it a value; name a function whose "
                                          << "results are the arguments with --inputs";
    if (given.front().getType() != type)
      return emitError(function.getLoc())
             << "argument " << argument.getArgNumber() << " of @" << function.getName() << " is " << type
             << ", but what --inputs gives for it is " << given.front().getType();
    arguments.push_back(given.front());
    given = given.drop_front();
  }
  if (!given.empty())
    return emitError(function.getLoc()) << "@" << function.getName() << " has no argument for the last " << given.size()
                                        << " results of --inputs";
  return evalFunction(function, arguments, results, rounding);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (auto &option : llvm::cl::getRegisteredOptions()) // LLVM's own; --help is about this tool's
    option.second->setHiddenFlag(llvm::cl::Hidden);
  static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("FILE.mlir"), llvm::cl::init("-"));
  static llvm::cl::opt<std::string> entry("entry", llvm::cl::desc("Function to run"), llvm::cl::init("main"));
  static llvm::cl::opt<std::string> inputs(
      "inputs", llvm::cl::desc("Function whose results are the arguments of the one to run, in their order"));
  static llvm::cl::opt<int64_t> world("world", llvm::cl::desc("Run on so many ranks, in this process"),
                                      llvm::cl::init(1));
  static llvm::cl::opt<bool> typed("typed", llvm::cl::desc("Round every value to its type instead of running in fp64"));
  llvm::cl::ParseCommandLineOptions(argc, argv, R"(Interprets scrimp IR

An argument with scrimp.scalar = "rank" is the number of the rank, 0 to world - 1, also one of the function that --inputs
names: so inputs differ by rank. Other arguments come from --inputs. A result that is the same on all ranks, bit for
bit, is printed once, any other as "rank R: VALUE" for each.
)");

  DialectRegistry registry;
  registry.insert<ScrimpDialect, func::FuncDialect, arith::ArithDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  std::string error;
  if (std::string problem = whyNotReadable(input); input != "-" && !problem.empty()) {
    llvm::errs() << "scrimp-run: error: '" << input << "' " << problem << "\n";
    return 1;
  }
  auto file = openInputFile(input, &error);
  if (!file) {
    llvm::errs() << "scrimp-run: error: " << error << "\n";
    return 1;
  }
  sources.AddNewSourceBuffer(std::move(file), SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;
  auto lookUp = [&](StringRef name, StringRef flag) {
    auto function = module->lookupSymbol<func::FuncOp>(name);
    if (function && !function.isExternal())
      return function;
    llvm::errs() << "scrimp-run: error: no function @" << name << " in " << input << "; name one with " << flag << "\n";
    return func::FuncOp();
  };
  func::FuncOp function = lookUp(entry, "--entry"), maker;
  if (!function || (!inputs.empty() && !(maker = lookUp(inputs, "--inputs"))))
    return 1;
  if (world < 1 || world > 1024) {
    llvm::errs() << "scrimp-run: error: --world is " << world << "; expected 1 to 1024\n";
    return 1;
  }
  Rounding rounding = typed ? Rounding::Typed : Rounding::Exact;
  std::vector<SmallVector<HostTensor>> results(world);
  auto runRank = [&](int64_t rank) -> LogicalResult {
    SmallVector<HostTensor> given;
    if (maker && failed(evaluate(maker, rank, {}, rounding, given)))
      return failure();
    return evaluate(function, rank, given, rounding, results[rank]);
  };
  if (failed(evalOnRanks(world, runRank)))
    return 1;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (llvm::all_of(results, [&](auto &ofRank) { return areSame(ofRank[i], results[0][i]); })) {
      printLine(results[0][i], rounding);
      continue;
    }
    for (auto [rank, ofRank] : llvm::enumerate(results)) {
      llvm::outs() << "rank " << rank << ": ";
      printLine(ofRank[i], rounding);
    }
  }
}
