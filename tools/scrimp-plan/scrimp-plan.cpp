// scrimp-plan: what a model will take, without compiling it: the memory plan, its parameters and why they are what
// they are.
#include "scrimp/Driver/CommandLine.h"
#include "scrimp/Driver/PlanReport.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  mlir::scrimp::registerCompilerPasses();
  mlir::scrimp::CompileOptions options;
  bool parameters = false, dump = false;
  CLI::App app("Plans the memory of training a model, without compiling it");
  mlir::scrimp::addModelFlags(app, options);
  app.add_flag("--parameters", parameters, "List each parameter and buffer with its role and the reason for it");
  app.add_flag("--dump", dump, "Print the program instead: its tables and commands, with the bytes that each touches");
  std::string pareto;
  app.add_option("--pareto", pareto, "Plan every configuration that --memory-budget looks at; draw peak against time")
      ->type_name("FILE.svg");
  CLI11_PARSE(app, argc, argv);

  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::scrimp::ToolDiagnostics diagnostics(context, "scrimp-plan");
  if (parameters)
    return failed(mlir::scrimp::printParameters(options, &context, llvm::outs()));
  if (!pareto.empty())
    return failed(mlir::scrimp::printPareto(options, pareto, &context, llvm::outs()));
  if (dump)
    return failed(mlir::scrimp::printCommands(options, &context, llvm::outs()));
  return failed(mlir::scrimp::printPlan(options, &context, llvm::outs()));
}
