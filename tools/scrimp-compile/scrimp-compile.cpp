// scrimp-compile: a model and its options become an executable that trains it.
#include "scrimp/Driver/CommandLine.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  mlir::scrimp::registerCompilerPasses();
  mlir::scrimp::CompileOptions options;
  CLI::App app("Compiles a model into an executable that trains it");
  mlir::scrimp::addModelFlags(app, options);
  app.add_option("-o,--output", options.output, "Where to write the result")->required();
  app.add_option("--emit", options.emit, "Stop at a level: import, mlir, commands, kernels, llvm, ptx, exe")
      ->check(CLI::IsMember({"import", "mlir", "commands", "kernels", "llvm", "ptx", "exe"}))
      ->capture_default_str();
  app.add_option("--chip", options.chip, "The GPU of --emit ptx")->capture_default_str();
  app.add_flag("--verify", options.verify, "Run every kernel on random values and compare with the interpreter");
  CLI11_PARSE(app, argc, argv);

  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::scrimp::ToolDiagnostics diagnostics(context, "scrimp-compile");
  return failed(mlir::scrimp::compileModel(options, &context));
}
