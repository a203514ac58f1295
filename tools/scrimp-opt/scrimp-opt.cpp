// scrimp-opt: runs passes over textual IR, as mlir-opt does.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::scrimp::ScrimpDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  mlir::scrimp::registerScrimpPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Scrimp's optimizer driver\n", registry));
}
