// scrimp-opt: runs passes over textual IR, as mlir-opt does.
#include "scrimp/Driver/Compile.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::scrimp::registerCompilerDialects(registry);
  mlir::scrimp::registerCompilerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Scrimp's optimizer driver\n", registry));
}
