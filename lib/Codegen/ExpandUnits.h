// From what a unit of work says (parallel loops, reductions, buffers of its own) to what a target runs.
#ifndef SCRIMP_LIB_CODEGEN_EXPANDUNITS_H
#define SCRIMP_LIB_CODEGEN_EXPANDUNITS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::scrimp {

/// For one thread of a processor: parallel loops become loops that are marked so. Elements of a reduction go to 16
/// lanes (element j to lane j mod 16, in order), in blocks of 4096 elements; each block's lanes are combined as a tree
/// 8-4-2-1, and the blocks added in order.
void expandUnitsForCpu(func::FuncOp kernel);

/// What is known of a kernel's buffers, by argument.
struct KernelBuffers {
  SmallVector<int64_t> alignments; // of the address, in bytes
  SmallVector<bool> isReadOnly;    // what the kernel reads there is what was there before it
  SmallVector<unsigned> places;    // buffers of one number may be the same bytes
};

/// For a device: `units`, all there are, are shared out over a grid of threads, each taking its own, or over blocks or
/// warps whose threads work together on one. Then a thread takes `width` neighbouring elements of a loop at a time,
/// which depends on the loop's length and on how elements lie in their buffers: group g of `width` goes to thread g mod
/// threads, the elements behind the last whole group one by one. A thread combines a group as a tree and groups in
/// order; threads' values are combined as a butterfly over the 32 lanes of a warp, and those of the warps in order.
/// Buffers of a unit lie in registers where a thread has elements of its own, otherwise in what the threads of a block
/// share (allocations in gpu.address_space<workgroup>). A kernel of elements is launched with a begin that is a
/// multiple of 8.
struct DeviceShape {
  int64_t threads = 128;      // of a block
  int64_t unitsOfBlock = 128; // that a block takes at a time
};
DeviceShape expandUnitsForDevice(func::FuncOp kernel, int64_t units, const KernelBuffers &buffers);

/// The loops from the inside out, so that what is expanded holds no other.
SmallVector<scf::ParallelOp> collectLoops(func::FuncOp kernel);

/// How reduction `k` of the loop combines two values.
Value cloneCombine(scf::ParallelOp loop, size_t k, OpBuilder &builder, Value a, Value b);

} // namespace mlir::scrimp

#endif
