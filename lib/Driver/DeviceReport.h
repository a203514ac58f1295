// What the report says of a device's code.
#ifndef SCRIMP_LIB_DRIVER_DEVICEREPORT_H
#define SCRIMP_LIB_DRIVER_DEVICEREPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::scrimp {

/// Adds `device_code` to the report: the PTX's bytes, each image's, and for each kernel the op it was made for, its threads,
/// registers, shared memory, spilled bytes and the occupancy on each architecture. Without ptxas it says so. Fails after an
/// error in the kernels of the planned `module`.
LogicalResult addDeviceCode(llvm::json::Object &report, ModuleOp module);

} // namespace mlir::scrimp

#endif
