// Random training graphs: a @main with a loss as the importer makes them, of any differentiable op, over random shapes.
// A graph is a function of its seed and options, so a failure is told by them.
#ifndef SCRIMP_TEST_UNIT_EQUIVALENCE_RANDOMGRAPH_H
#define SCRIMP_TEST_UNIT_EQUIVALENCE_RANDOMGRAPH_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace mlir::scrimp {

struct RandomGraphOptions {
  std::string type = "f64";     // of all floats: f64 or f32
  int size = 10;                // how many steps are drawn, beside `ops`
  int64_t batch = 0;            // 0: drawn
  std::vector<std::string> ops; // entries that must be among them
};

/// One input of samples at least, trainable, tied (used several times) and frozen parameters, and a loss that is a sum,
/// a mean or a masked mean over samples. Ops lie in modules `layers.0`, `layers.1`, ... and `head`. Nearly all graphs
/// can be split along the batch.
OwningOpRef<ModuleOp> makeRandomGraph(MLIRContext &context, uint64_t seed, const RandomGraphOptions &options);

/// What RandomGraphOptions::ops may name: ops of the dialect, and some constructs.
std::vector<std::string> randomGraphEntries();

} // namespace mlir::scrimp

#endif
