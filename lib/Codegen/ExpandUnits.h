// From what a unit of work says (parallel loops, reductions, buffers of its own) to what a target runs.
#ifndef SCRIMP_LIB_CODEGEN_EXPANDUNITS_H
#define SCRIMP_LIB_CODEGEN_EXPANDUNITS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp {

/// For one thread of a processor: parallel loops become loops that are marked so. Elements of a reduction go to 16
/// lanes (element j to lane j mod 16, in order), in blocks of 4096 elements; each block's lanes are combined as a tree
/// 8-4-2-1, and the blocks added in order.
void expandUnitsForCpu(func::FuncOp kernel);

/// For a device: the loop over units is shared out over a grid of threads, each taking its own, or over blocks whose
/// threads work together on one. Then element j of a loop or reduction goes to thread j mod threads, in order; threads'
/// values are combined as a butterfly over the 32 lanes of a warp, and those of the warps in order. Buffers of a unit
/// then lie in what the threads of a block share (allocations in gpu.address_space<workgroup>).
struct DeviceShape {
  int64_t threads = 128;      // of a block
  bool isCooperative = false; // a block takes a unit; otherwise a thread does
};
DeviceShape expandUnitsForDevice(func::FuncOp kernel);

} // namespace mlir::scrimp

#endif
