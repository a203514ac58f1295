// scrimp-plan: what a model will take, without compiling it: the memory plan, its parameters and why they are what
// they are.
#include "scrimp/Driver/CommandLine.h"
#include "scrimp/Driver/PlanReport.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  mlir::scrimp::registerCompilerPasses();
  mlir::scrimp::CompileOptions options;
  bool parameters = false;
  CLI::App app("Plans the memory of training a model, without compiling it");
  mlir::scrimp::addModelFlags(app, options);
  app.add_flag("--parameters", parameters, "List each parameter and buffer with its role and the reason for it");
  CLI11_PARSE(app, argc, argv);

  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::scrimp::ToolDiagnostics diagnostics(context, "scrimp-plan");
  if (parameters)
    return failed(mlir::scrimp::printParameters(options, &context, llvm::outs()));
  return failed(mlir::scrimp::printPlan(options, &context, llvm::outs()));
}
