// Builds the updates of a function's parameters and decides where they stand.
#ifndef SCRIMP_LIB_TRANSFORMS_UPDATEBUILDER_H
#define SCRIMP_LIB_TRANSFORMS_UPDATEBUILDER_H

#include "Buckets.h"
#include "UpdateRule.h"

namespace mlir::scrimp {

/// Elements [begin, begin + size) of a bucket, one member or all, and everything that their update reads. Of a bucket
/// that ranks share out, size is that of a part, and the rank's part is meant.
struct Update {
  const Bucket *bucket;
  unsigned bucketIndex;
  std::string name; // for reports
  int64_t begin, size;
  ArrayRef<BucketMember> members;
  Value gradient;             // of `size` elements
  size_t position;            // among the gradients
  Operation *after = nullptr; // the last op that must come before the update
};

/// What the updates of a function have in common.
struct UpdateOptions {
  bool clip = false;        ///< gradients by their norm; implies `wait`
  bool wait = false;        ///< no update before the norm of all gradients
  bool scaledLoss = false;  ///< gradients are those of the loss times the scalar loss_scale
  Type stateType = nullptr; ///< of the states of all parameters; null: what their updates are computed in
};

/// Builds the updates of one function, given its gradients, which are sums over all ranks. Adds the arguments of states
/// and hyperparameters.
class UpdateBuilder {
public:
  /// `whole` holds the argument of each bucket.
  UpdateBuilder(func::FuncOp function, const UpdateRule &rule, ArrayRef<Bucket> buckets, ArrayRef<BlockArgument> whole,
                UpdateOptions options);

  /// Places the updates, builds them and returns the gradients' norm (f64), that of the unscaled loss. An update stands
  /// right after its gradient and the last reader of the old parameter, or after the norm.
  Value build(MutableArrayRef<Update> updates);

  /// Puts the new pieces into their buckets, which become results.
  void pack();

private:
  Operation *earliestPlace(const Update &update);
  Value addSquares(OpBuilder &builder, const Update &update, Value squares);
  Value check(OpBuilder &builder, Location loc, Value squares, StringRef name);
  Value clipCoefficient(OpBuilder &builder, Location loc, Value norm);
  void buildUpdate(OpBuilder &builder, const Update &update, Value coefficient);
  BlockArgument scalarArgument(StringRef name, Type type = nullptr);
  Value store(OpBuilder &builder, const Update &update, Value value, RankedTensorType type, StringRef state);
  Location locationOf(const Update &update);

  func::FuncOp function;
  const UpdateRule &rule;
  ArrayRef<BlockArgument> whole;
  UpdateOptions options;
  Block &block;
  Value loss;      // null without one
  Type scalarType; // of hyperparameters
  ArrayRef<Bucket> buckets;
  SmallVector<SmallVector<BlockArgument>> states; // per bucket
  llvm::StringMap<BlockArgument> scalars;
  llvm::MapVector<Value, SmallVector<std::pair<int64_t, Value>>> pieces; // per bucket argument: offset, new value
};

} // namespace mlir::scrimp

#endif
