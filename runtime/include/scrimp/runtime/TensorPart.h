// What a rank holds of a tensor: all of it, or, where ranks share its bucket out, the elements from one to another.
#ifndef SCRIMP_RUNTIME_TENSORPART_H
#define SCRIMP_RUNTIME_TENSORPART_H

#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

/// Elements [begin, begin + count) of a tensor, row by row.
struct ElementRange {
  int64_t begin = 0, count = 0;
};

/// How ranks share a tensor out: its element i is element bucketOffset + i of a bucket, of which rank r has those from
/// r * partElements on, partElements in all. partElements 0: every rank has the tensor whole.
struct Sharing {
  int64_t partElements = 0, bucketOffset = 0;

  bool isShared() const { return partElements > 0; }
  /// What `rank` has of a tensor of `elements`; maybe nothing.
  ElementRange rangeOf(int64_t elements, int rank) const;
};

/// The elements of a tensor that a rank holds, and where in the arena the first of them lies.
struct TensorPart : ElementRange {
  uint64_t offset = 0;
};

inline Sharing sharingOf(const program::Tensor *tensor) {
  return {static_cast<int64_t>(tensor->part_elements()), static_cast<int64_t>(tensor->bucket_offset())};
}

/// What `rank` holds of a tensor of a verified program.
TensorPart partOf(const program::Tensor *tensor, int rank);

} // namespace scrimp::runtime

#endif
