#include "Fault.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::scrimp;

/// What threads share of what lies in `op`'s regions: its buffers by loads or stores.
template <typename Access> static llvm::SmallDenseSet<Value> getShared(Operation *op) {
  llvm::SmallDenseSet<Value> shared;
  op->walk([&](Access access) {
    if (access.getMemRefType().getMemorySpace())
      shared.insert(access.getMemRef());
  });
  return shared;
}

/// Of a block's threads, or of a warp's.
static bool isBarrier(Operation *op) { return isa<gpu::BarrierOp, NVVM::SyncWarpOp>(op); }

/// Whether the next thing behind the barrier reads what others wrote: without it the result is another.
static bool isNeeded(Operation *barrier) {
  for (Operation *next = barrier->getNextNode(); next; next = next->getNextNode())
    if (auto load = dyn_cast<memref::LoadOp>(next))
      return load.getMemRefType().getMemorySpace() != nullptr;
    else if (next->getNumRegions()) {
      // A loop behind another one, of tiles, whose elements go to other threads; in a loop with barriers there is
      // another before something is read.
      Operation *before = barrier->getPrevNode();
      if (!before || !isa<scf::ForOp>(before) || !isa<scf::ForOp>(next) ||
          next->walk([](Operation *op) { return isBarrier(op) ? WalkResult::interrupt() : WalkResult::advance(); })
              .wasInterrupted())
        return false;
      llvm::SmallDenseSet<Value> read = getShared<memref::LoadOp>(next);
      return llvm::any_of(getShared<memref::StoreOp>(before), [&](Value buffer) { return read.contains(buffer); });
    }
  return false;
}

/// Where an op stores in a buffer of the kernel.
static OpOperand *getStoredIndex(Operation *op) {
  if (auto store = dyn_cast<memref::StoreOp>(op); store && isa<BlockArgument>(store.getMemRef()))
    return &store.getIndicesMutable()[0];
  if (auto store = dyn_cast<vector::StoreOp>(op))
    return &store.getIndicesMutable()[0];
  return nullptr;
}

/// How many elements an op stores.
static int64_t getWidth(Operation *op) {
  auto store = dyn_cast<vector::StoreOp>(op);
  return store ? store.getVectorType().getNumElements() : 1;
}

static void moveIndex(OpBuilder &b, OpOperand &index, int64_t by) {
  Location loc = index.getOwner()->getLoc();
  index.set(arith::AddIOp::create(b, loc, index.get(), arith::ConstantIndexOp::create(b, loc, by)));
}

static bool plant(func::FuncOp kernel, Fault fault) {
  bool isPlanted = false;
  kernel.walk([&](Operation *op) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    if (isBarrier(op) && fault == Fault::BarrierRemoved && isNeeded(op)) {
      op->erase();
    } else if (isBarrier(op) && fault == Fault::BarrierDivergent) {
      Value thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
      Value three = arith::ConstantIndexOp::create(b, loc, 3);
      Value isOther = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, thread, three);
      auto branch = scf::IfOp::create(b, loc, isOther, /*withElseRegion=*/false);
      op->moveBefore(branch.thenYield());
    } else if (OpOperand *index = getStoredIndex(op); index && fault == Fault::Index) {
      moveIndex(b, *index, getWidth(op));
    } else if (index && fault == Fault::Misaligned && getWidth(op) > 1) {
      moveIndex(b, *index, 1);
    } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op); shuffle && fault == Fault::Mask) {
      shuffle.getWidthMutable().assign(arith::ConstantIntOp::create(b, loc, 16, 32)); // the mask follows from it
    } else {
      return WalkResult::advance();
    }
    isPlanted = true;
    return WalkResult::interrupt();
  });
  return isPlanted;
}

bool mlir::scrimp::plantFault(ModuleOp kernels, Fault fault, unsigned kernel) {
  for (auto function : kernels.getOps<func::FuncOp>()) {
    func::FuncOp trial = function.clone();
    bool hasPlace = plant(trial, fault);
    trial.erase();
    if (hasPlace && kernel-- == 0)
      return plant(function, fault);
  }
  return false;
}
