// scrimp-reduce: shrinks a .mlir file while a test script still finds it interesting.
#include "scrimp/Driver/Compile.h"

#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  mlir::scrimp::registerCompilerPasses();
  mlir::MLIRContext context(registry);
  return failed(mlir::mlirReduceMain(argc, argv, context));
}
