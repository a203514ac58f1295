// Flat buckets: many parameters, or their states, behind one another in one rank-1 tensor argument.
#ifndef SCRIMP_LIB_TRANSFORMS_BUCKETS_H
#define SCRIMP_LIB_TRANSFORMS_BUCKETS_H

#include "scrimp/Transforms/GraphFunction.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::scrimp {

/// A parameter and its place.
struct BucketMember {
  std::string name;
  RankedTensorType type;
  DictionaryAttr attributes; // of the argument it was: aliases, init and reason go into the member table
  bool decay;
  int64_t offset = 0; // elements
};

/// One argument that holds several parameters of one element type. Every member starts at a multiple of 64 bytes; the
/// gaps hold zeros that nothing reads.
struct Bucket {
  std::string kind; // "trainable" or "frozen"
  Type elementType;
  SmallVector<BucketMember> members;
  Type narrowest = nullptr; // of states of the same layout, where that is narrower

  /// Orders the members (those that decay first, else as added) and sets their offsets.
  void layOut();
  int64_t size() const;
  const BucketMember *find(StringRef name) const;

  /// The argument's attributes for the parameters themselves.
  DictionaryAttr parameterAttributes(MLIRContext *context) const;
  /// The same for a state of every member, "exp_avg" say, that starts as 0.
  DictionaryAttr stateAttributes(MLIRContext *context, StringRef state) const;

private:
  int64_t alignedElements(const BucketMember &member) const;
};

/// Adds an argument after the others.
BlockArgument appendArgument(func::FuncOp function, Type type, DictionaryAttr attributes, Location loc);

/// Replaces the parameters of `function` that are members by views of bucket arguments, appended for every bucket, and
/// drops them. The indices of scrimp.updates follow. Returns one argument per bucket.
SmallVector<BlockArgument> replaceByBuckets(func::FuncOp function, ArrayRef<Bucket> buckets);

} // namespace mlir::scrimp

#endif
