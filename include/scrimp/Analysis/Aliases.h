// The one alias model: which bytes a value shares with others. Views and packs (AliasOp), donated results
// (scrimp.updates) and in-place operands all come together here; the planner, the scheduler and codegen ask this.
#ifndef SCRIMP_ANALYSIS_ALIASES_H
#define SCRIMP_ANALYSIS_ALIASES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <string>

namespace mlir::scrimp {

/// Bytes of a tensor in the arena; i1 takes a byte an element.
int64_t bytesOf(Value value);

/// The user's name of a value or op, for messages and reports: scrimp.name of an argument, the innermost name of a
/// location, or the op's own name.
std::string userNameOf(Value value);
std::string userNameOf(Operation *op);

/// Where that is in what the user wrote: file:line:column, or the name of the model's node, parameter or file; empty
/// when the location is unknown.
std::string userLocation(Location loc);

/// A block of bytes. `root` is its whole extent: an argument, or the op result that makes it.
struct Storage {
  Value root;
  int64_t bytes;
};

/// Where a value lies: `bytes` bytes at `offset` of storage number `storage`.
struct Place {
  unsigned storage;
  int64_t offset, bytes;
};

/// The storages of one function and the place of every value in them.
///
/// A view lies inside its operand, and a pack is its bucket. A piece that is packed is computed at its place in the
/// bucket, and a result that updates an argument in that argument's bytes; nothing is ever copied.
class Aliases {
public:
  /// Fails after an error at the pack or result that cannot be laid out: the piece is an argument, a constant or part
  /// of another value, or is needed in two places.
  static FailureOr<Aliases> compute(func::FuncOp function);

  ArrayRef<Storage> getStorages() const { return storages; }
  Place getPlace(Value value) const { return places.lookup(value); }

private:
  friend class AliasBuilder;
  SmallVector<Storage, 0> storages;
  llvm::DenseMap<Value, Place> places;
};

/// Whether `op` gives its results no bytes of their own and touches none: a view or a pack.
bool isViewLike(Operation *op);

/// Whether the op's result is a tensor of the program that is filled before the first step, never by a command.
bool isProgramConstant(Operation *op);

/// Whether `result` may lie exactly where `operand` lies: every element of the result is written after the last read
/// of the operand's element in its bytes. Asks KernelOp::mayOverwrite; inside a scrimp.kernel, everything that the
/// operand flows into must be read pointwise at the result's shape.
bool mayOverwrite(Operation *op, unsigned operand, unsigned result);

/// The scratch buffers of an op, or of all ops inside a scrimp.kernel in their order (KernelOp::getWorkspaceTypes).
SmallVector<RankedTensorType> getWorkspaceTypes(Operation *op, int64_t workers);

} // namespace mlir::scrimp

#endif
