// scrimp-lsp-server: language server for .mlir files in the scrimp dialect.
#include "scrimp/Driver/Compile.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
