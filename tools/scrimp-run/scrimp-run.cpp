// scrimp-run: interprets a function of a module and prints its results, in fp64 or exactly typed.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
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

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (auto &option : llvm::cl::getRegisteredOptions()) // LLVM's own; --help is about this tool's
    option.second->setHiddenFlag(llvm::cl::Hidden);
  static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("FILE.mlir"), llvm::cl::init("-"));
  static llvm::cl::opt<std::string> entry("entry", llvm::cl::desc("Function to run"), llvm::cl::init("main"));
  static llvm::cl::opt<bool> typed("typed", llvm::cl::desc("Round every value to its type instead of running in fp64"));
  llvm::cl::ParseCommandLineOptions(argc, argv, "Interprets scrimp IR\n");

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
  auto function = module->lookupSymbol<func::FuncOp>(entry);
  if (!function || function.isExternal()) {
    llvm::errs() << "scrimp-run: error: no function @" << entry << " in " << input << "; name one with --entry\n";
    return 1;
  }
  if (function.getNumArguments()) {
    function.emitError() << "@" << entry << " takes " << function.getNumArguments()
                         << " arguments; scrimp-run runs functions without any";
    return 1;
  }
  Rounding rounding = typed ? Rounding::Typed : Rounding::Exact;
  SmallVector<HostTensor> results;
  if (failed(evalFunction(function, {}, results, rounding)))
    return 1;
  for (const HostTensor &result : results) {
    int64_t position = 0;
    print(llvm::outs(), result, rounding, position, 0);
    llvm::outs() << "\n";
  }
}
