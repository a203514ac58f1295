// The machine that a program is meant for, as costs and budgets see it.
#ifndef SCRIMP_DRIVER_DEVICE_H
#define SCRIMP_DRIVER_DEVICE_H

#include "scrimp/Driver/Compile.h"

namespace mlir::scrimp {

struct Device {
  std::string name;
  DeviceRates rates;
  int64_t capacityBytes = 0; // of its memory; 0: unknown
  int64_t ranksOfNode = 0;   // in the usual server; 0: all
};

/// `name` is one of a table of data sheets (h100, a100-40g, ...), a JSON file that `scrimp-calibrate` wrote, or `cpu`
/// (also empty): this machine, measured once for `workers` threads and then read from the user's cache folder. Fails
/// after an error.
FailureOr<Device> findDevice(StringRef name, int64_t workers, MLIRContext *context);

/// The names of the table.
std::vector<std::string> knownDevices();

/// That of the options: their device, and its ranks in `nodes`, or for 0 in the fewest whose ranks are equally many and
/// no more than the usual server has. Fails after an error, also where `nodes` do not divide the ranks.
FailureOr<Device> findDevice(const CompileOptions &options, MLIRContext *context);

} // namespace mlir::scrimp

#endif
