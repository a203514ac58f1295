#include "scrimp/runtime/TensorPart.h"
#include <algorithm>

namespace scrimp::runtime {

ElementRange Sharing::rangeOf(int64_t elements, int rank) const {
  if (!isShared())
    return {0, elements};
  // Where the parts of the ranks meet, counted from the tensor's first element.
  auto border = [&](int before) {
    __int128 at = static_cast<__int128>(before) * partElements - bucketOffset;
    return static_cast<int64_t>(std::clamp<__int128>(at, 0, elements));
  };
  return {border(rank), border(rank + 1) - border(rank)};
}

TensorPart partOf(const program::Tensor *tensor, int rank) {
  Sharing sharing = sharingOf(tensor);
  TensorPart part{sharing.rangeOf(elementCount(tensor->shape()), rank), tensor->offset()};
  if (sharing.isShared() && part.count) {
    int64_t inPart = sharing.bucketOffset + part.begin - rank * sharing.partElements;
    part.offset += static_cast<uint64_t>(inPart * elementBytes(tensor->dtype()));
  }
  return part;
}

} // namespace scrimp::runtime
