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
  int64_t offset = 0;        // elements
};

/// One argument that holds the parameters of one block, element type and group. Every member starts at a multiple of
/// `alignment` bytes, the whole is a multiple of 256 bytes for every rank; the gaps hold zeros that nothing reads.
struct Bucket {
  std::string block; // the module that its members are of; empty: the rest
  std::string group; // "decay" or "no_decay"; empty: nothing in it is updated
  Type elementType;
  Type read = nullptr;  // in which its members are all read, where that is narrower
  bool isSmall = false; // its members are too small to be shared out to ranks
  int64_t number = 0;   // of buckets before it that are alike
  SmallVector<BucketMember> members;
  Type narrowest = nullptr;       // of states of the same layout, where that is narrower
  int64_t alignment = kAlignment; // of members, in bytes
  int64_t ranks = 1;              // that it can be shared out to
  bool keepsWhole = false;        // no member lies in the parts of two ranks
  bool updatesPart = false;       // a rank updates its part of the bucket, and has states of that alone
  bool holdsPart = false;         // the argument is the rank's part; what reads parameters gathers the others
  bool gathersAnew = false;       // for each use (scrimp.all_gather)

  bool isTrained() const { return !group.empty(); }
  bool decays() const { return group == "decay"; }
  /// "bucket.h.0.decay.f32"; of a state "bucket.h.0.decay.exp_avg.f32".
  std::string getName(StringRef state = "") const;

  /// Sets the members' offsets, and with them their order.
  void layOut();
  int64_t size() const { return elements; }
  int64_t partSize() const { return elements / ranks; }
  int64_t updatedSize() const { return updatesPart ? partSize() : elements; }
  RankedTensorType getArgumentType() const {
    return RankedTensorType::get({holdsPart ? partSize() : elements}, elementType);
  }
  const BucketMember *find(StringRef name) const;

  /// The argument's attributes for the parameters themselves.
  DictionaryAttr parameterAttributes(MLIRContext *context) const;
  /// The same for a state of every member, "exp_avg" say, that starts as 0.
  DictionaryAttr stateAttributes(MLIRContext *context, StringRef state) const;

private:
  DictionaryAttr attributes(MLIRContext *context, StringRef state, NamedAttribute role,
                            ArrayRef<Attribute> members) const;
  void layOutWhole(int64_t memberAlignment, int64_t partAlignment);

  int64_t elements = 0;
};

/// If all that reads the parameter casts it to the same narrower type, that type: ranks need gather no more. Null
/// otherwise.
Type getReadType(BlockArgument parameter);
/// The same for all members that `function` reads.
Type getReadType(func::FuncOp function, const Bucket &bucket);

/// Replaces the parameters of `function` that are members by views of bucket arguments, appended for every bucket, and
/// drops them. Where an argument is a rank's part, the bucket is gathered before its first reader, and what is viewed
/// is that, in the type in which it is read. The indices of scrimp.updates follow. Returns one argument per bucket.
SmallVector<BlockArgument> replaceByBuckets(func::FuncOp function, ArrayRef<Bucket> buckets);

} // namespace mlir::scrimp

#endif
