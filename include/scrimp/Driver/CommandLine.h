// The flags that scrimp-compile and scrimp-plan share.
#ifndef SCRIMP_DRIVER_COMMANDLINE_H
#define SCRIMP_DRIVER_COMMANDLINE_H

#include "scrimp/Driver/Compile.h"

namespace CLI {
class App;
}

namespace mlir::scrimp {

/// Adds the model, its dimensions, loss, parameters, optimizer and threads to `app`. `options` outlives it.
void addModelFlags(CLI::App &app, CompileOptions &options);

/// Prints errors as `tool: error: [location: ]message`, one line each.
class ToolDiagnostics {
public:
  ToolDiagnostics(MLIRContext &context, llvm::StringRef tool);

private:
  std::string tool;
  std::unique_ptr<ScopedDiagnosticHandler> handler;
};

} // namespace mlir::scrimp

#endif
