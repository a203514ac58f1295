// A thread of a device takes several neighbouring iterations of a loop at once: then what it reads and writes is as
// wide as the memory of the device likes it.
#ifndef SCRIMP_LIB_CODEGEN_LANES_H
#define SCRIMP_LIB_CODEGEN_LANES_H

#include "ExpandUnits.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::scrimp {

/// Whether two values are equal by how they are computed, `ivA` standing for `ivB`.
bool isSameExpression(Value a, Value b, Value ivA = nullptr, Value ivB = nullptr);

/// `width` iterations of a loop whose iterations are independent, in lockstep: every op for all of them before the next
/// op. Called lanes: iteration first + k is lane k.
class Lanes {
public:
  /// `first` will be a multiple of `factor`, a power of two.
  Lanes(scf::ParallelOp loop, int64_t width, int64_t factor, const KernelBuffers &buffers);

  int64_t getWidth() const { return width; }
  /// The elements that one instruction loads or stores: 1 unless the lanes' are neighbours and aligned.
  int64_t getPiece(Operation *access) const;
  /// Whether all lanes load or store the same element, in nearly all groups.
  bool isUniform(Operation *access) const;

  /// What an emission needs besides: buffers of a unit that this thread keeps to itself, with lane 0's place in them;
  /// loads whose values are known already, and those that this emission has loaded. The values of a load are its pieces
  /// in order, or its lanes'.
  struct Context {
    const llvm::DenseMap<Value, Value> *own = nullptr;
    int64_t slot = 0;
    llvm::DenseMap<Operation *, SmallVector<Value>> known, loaded;
  };
  /// Emits the lanes; gives what each reduces.
  SmallVector<SmallVector<Value>> emit(OpBuilder &b, Value first, Context &context) const;
  /// The types of the values that a load gives.
  SmallVector<Type> getLoadedTypes(memref::LoadOp load) const;

private:
  /// What a value is in the lanes: the same, lane 0's plus the lane's number, the same but where lanes pass a multiple
  /// of a large number, or anything. `factor` divides lane 0's.
  struct Form {
    enum Kind { Same, Next, Mostly, Other } kind = Other;
    int64_t factor = 1;
  };
  Form formOf(Value value) const;
  Form computeForm(Operation *op) const;
  void emitLoad(OpBuilder &b, memref::LoadOp load, MutableArrayRef<IRMapping> lanes, Context &context) const;
  bool emitDivision(OpBuilder &b, Operation &op, MutableArrayRef<IRMapping> lanes) const;
  void emitStore(OpBuilder &b, memref::StoreOp store, MutableArrayRef<IRMapping> lanes, Context &context) const;

  mutable scf::ParallelOp loop; // its accessors are not const
  int64_t width;
  const KernelBuffers &buffers;
  llvm::DenseMap<Value, Form> forms; // of what the body computes
};

/// How many iterations of the loop a thread should take at once: 8, 4 or 2 where most of what it loads and stores is
/// then as wide as one instruction can be, otherwise 1. `count` is about how many there are; `factor` divides
/// the first.
int64_t chooseWidth(scf::ParallelOp loop, int64_t count, int64_t factor, const KernelBuffers &buffers);

/// A measure of the code of an iteration.
int64_t measureBody(scf::ParallelOp loop);

/// The largest power of two that is known to divide an index.
int64_t factorOf(Value index);

} // namespace mlir::scrimp

#endif
