// The machine that a program is meant for, as costs and budgets see it.
#ifndef SCRIMP_DRIVER_DEVICE_H
#define SCRIMP_DRIVER_DEVICE_H

#include "scrimp/Analysis/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

struct Device {
  std::string name;
  DeviceRates rates;
  int64_t capacityBytes = 0; // of its memory; 0: unknown
};

/// `name` is one of a table of data sheets (h100, a100-40g, ...), a JSON file that `scrimp-calibrate` wrote, or `cpu` (also empty): this
/// machine, measured once for `workers` threads and then read from the user's cache folder. Fails after an error.
FailureOr<Device> findDevice(StringRef name, int64_t workers, MLIRContext *context);

/// The names of the table.
std::vector<std::string> knownDevices();

/// Seconds of one run of a planned graph, command by command: a model, whose order of candidates counts more than its
/// values.
double estimateSeconds(func::FuncOp function, const DeviceRates &rates);

} // namespace mlir::scrimp

#endif
