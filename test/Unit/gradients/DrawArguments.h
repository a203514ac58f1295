// Arguments for a @main that is run as it is: the same in every run.
#ifndef SCRIMP_TEST_UNIT_GRADIENTS_DRAWARGUMENTS_H
#define SCRIMP_TEST_UNIT_GRADIENTS_DRAWARGUMENTS_H

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/HostTensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// Floats in [-2, 2), integers in [0, 3), or as test.range says (CheckGradients.h).
inline std::vector<HostTensor> drawArguments(func::FuncOp function, uint64_t seed) {
  std::vector<HostTensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    HostTensor &value = arguments.emplace_back(tensorType(argument));
    double low = value.isFloat() ? -2 : 0, high = value.isFloat() ? 2 : 3;
    if (auto range = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "test.range")) {
      low = cast<FloatAttr>(range[0]).getValueAsDouble();
      high = cast<FloatAttr>(range[1]).getValueAsDouble();
    }
    auto draw = [&] {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      return low + (high - low) * static_cast<double>(seed >> 11) * 0x1p-53;
    };
    for (double &element : value.floats())
      element = draw();
    for (int64_t &element : value.ints())
      element = static_cast<int64_t>(draw());
  }
  return arguments;
}

} // namespace mlir::scrimp

#endif
