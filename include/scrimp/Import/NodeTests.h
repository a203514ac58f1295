// The ONNX backend's node tests, run through the importer and the interpreter.
#ifndef SCRIMP_IMPORT_NODETESTS_H
#define SCRIMP_IMPORT_NODETESTS_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::scrimp {

struct NodeTestOptions {
  /// A folder with one folder a test: model.onnx and test_data_set_0/{input,output}_N.pb.
  std::string root;
  /// Tests of supported ops that cannot pass, one `name: reason` a line. A test that fails without being listed, or
  /// passes although listed, is an error.
  std::string exceptions;
  /// Print the table of ops (markdown) instead of the failures.
  bool table = false;
};

/// Runs every test whose ops the importer has; returns the exit status and prints a line per failure and a summary.
int runNodeTests(const NodeTestOptions &options, llvm::raw_ostream &os);

} // namespace mlir::scrimp

#endif
