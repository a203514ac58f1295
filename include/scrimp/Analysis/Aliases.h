// The one alias model: which bytes a value shares with others. Views and packs (AliasOp), donated results
// (scrimp.updates) and in-place operands all come together here; the planner, the scheduler and codegen ask this.
#ifndef SCRIMP_ANALYSIS_ALIASES_H
#define SCRIMP_ANALYSIS_ALIASES_H

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <numeric>
#include <string>

namespace mlir::scrimp {

/// The user's name of a value or op, for messages and reports: scrimp.name of an argument, the innermost name of a
/// location, or the op's own name.
std::string userNameOf(Value value);
std::string userNameOf(Operation *op);

/// Where that is in what the user wrote: file:line:column, or the name of the model's node, parameter or file; empty
/// when the location is unknown.
std::string userLocation(Location loc);

/// A block of bytes. `root` is its whole extent: an argument of the function, the number of a body's iteration, or the
/// op result that makes it.
struct Storage {
  Value root;
  int64_t bytes;
};

/// Where a value lies: `bytes` bytes at `offset` of storage number `storage`; a piece of what a loop splits moves over
/// `span` bytes more in multiples of `step`, and so does a rank's part from rank to rank.
struct Place {
  unsigned storage;
  int64_t offset, bytes, span = 0, step = 0;

  int64_t getEnd() const { return offset + bytes + span; }
  /// What the address is a multiple of, storages beginning at multiples of kAlignment.
  int64_t getAlignment() const { return std::gcd(kAlignment, std::gcd(offset, step)); }
  bool overlaps(Place other) const {
    return storage == other.storage && offset < other.getEnd() && other.offset < getEnd();
  }
};

/// The storages of one function and the place of every value in them.
///
/// A view lies inside its operand, and a pack is its bucket. A piece that is packed is computed at its place in the
/// bucket, and a result that updates an argument in that argument's bytes. Arguments of bodies (BodyOp) lie where what
/// they stand for lies, and what a body yields is computed in the bytes that it replaces. Nothing is ever copied.
class Aliases {
public:
  /// Fails after an error at the pack, yield or result that cannot be laid out: the value is an argument, a constant,
  /// part of another value or made outside of the loop, or is needed in two places.
  static FailureOr<Aliases> compute(func::FuncOp function);

  ArrayRef<Storage> getStorages() const { return storages; }
  /// The value is one of the function, its bodies included; any other ends the program.
  Place getPlace(Value value) const;
  Value getRoot(Value value) const { return storages[getPlace(value).storage].root; }

private:
  friend class AliasBuilder;
  SmallVector<Storage, 0> storages;
  llvm::DenseMap<Value, Place> places;
};

/// The arguments of a body that have bytes of their own: the number of the iteration, if there is one, then pieces of
/// inputs that the host fills.
SmallVector<BlockArgument> getOwnArguments(BodyOp body);

/// The values that must keep their contents until `op` has run: its operands, and those of what it ends (AsyncOp).
SmallVector<Value> getHeldOperands(Operation *op);

/// Whether the value is an input of a function that is never whole in memory (ScrimpDialect::kStreamed).
bool isStreamed(Value value);

/// Whether the op's result is a tensor of the program that is filled before the first step, never by a command.
bool isProgramConstant(Operation *op);

/// Whether the op computes each element of `result` from the element of `operand` at the same place, and from no other
/// of that operand. Asks KernelOp::isPointwiseOperand, inside a scrimp.kernel of all that the operand flows into.
bool readsElementwise(Operation *op, unsigned operand, unsigned result);

/// Whether `result` may lie exactly where `operand` lies: every element of the result is written after the last read
/// of the operand's element in its bytes. Asks KernelOp::mayOverwrite; inside a scrimp.kernel, everything that the
/// operand flows into must be read pointwise at the result's shape.
bool mayOverwrite(Operation *op, unsigned operand, unsigned result);

/// The scratch buffers of an op, or of all ops inside a scrimp.kernel in their order (KernelOp::getWorkspaceTypes). The
/// ops of a body have theirs themselves.
SmallVector<RankedTensorType> getWorkspaceTypes(Operation *op);

} // namespace mlir::scrimp

#endif
