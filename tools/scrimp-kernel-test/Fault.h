// Faults on purpose in the kernels of a device: what an emulated one must find.
#ifndef SCRIMP_TOOLS_SCRIMP_KERNEL_TEST_FAULT_H
#define SCRIMP_TOOLS_SCRIMP_KERNEL_TEST_FAULT_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::scrimp {

enum class Fault { None, BarrierRemoved, BarrierDivergent, Index, Misaligned, Mask };

/// Plants one in the kernel with the number `kernel` among those that have a place for it. Whether there is such a
/// kernel.
bool plantFault(ModuleOp kernels, Fault fault, unsigned kernel);

} // namespace mlir::scrimp

#endif
