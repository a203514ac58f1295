#include "GemmArguments.h"
#include "ArgumentCheck.h"
#include <cstring>

namespace scrimp::runtime {

GemmCall gemmCallOf(const LibraryArguments &arguments) {
  GemmCall call;
  memcpy(&call, arguments.ints.data(), sizeof(call));
  return call;
}

bool isNarrowGemm(const LibraryArguments &arguments) {
  return isNarrow(arguments.typeOf(0)) || isNarrow(arguments.typeOf(2));
}

Status verifyGemm(const LibraryArguments &arguments) {
  ArgumentCheck check("gemm", arguments);
  check.floatType();
  for (size_t i = 0; i < 3; ++i)
    check.storedType(i);
  if (arguments.typeOf(0) != arguments.typeOf(1))
    check.fail("A and B differ in type");
  if (arguments.typeOf(2) != arguments.typeOf(0) && arguments.typeOf(2) != arguments.dtype)
    check.fail("C has neither the operands' type nor that of the sums");
  check.counts(3 + (isNarrowGemm(arguments) || arguments.forCuda), gemmCallInts, 0);
  static constexpr const char *extents[] = {"batch", "m", "n", "k"};
  for (size_t i = 0; i < 4; ++i)
    check.range(i, extents[i], 0, maxExtent);
  check.range(4, "transA", 0, 1);
  check.range(5, "transB", 0, 1);
  static constexpr const char *strides[] = {"strideA", "strideB", "strideC"};
  for (size_t i = 0; i < 3; ++i)
    check.range(6 + i, strides[i], 0, INT64_MAX);
  check.range(9, "accumulate", 0, 1);
  if (check.failed())
    return check.take();
  GemmCall s = gemmCallOf(arguments);
  static constexpr const char *operands[] = {"A", "B", "C"};
  const int64_t matrices[3][2] = {{s.m, s.k}, {s.k, s.n}, {s.m, s.n}};
  const int64_t stride[3] = {s.strideA, s.strideB, s.strideC};
  for (size_t i = 0; i < 3; ++i) {
    int64_t bytesEach = elementBytes(arguments.typeOf(i));
    check.buffer(i, operands[i], {smallerOf(s.batch, 1), matrices[i][0], matrices[i][1]}, bytesEach);
    if (s.batch > 1 && stride[i]) {
      if (i == 2 && stride[i] < s.m * s.n)
        check.fail("batch members of C overlap");
      // The last member, (batch - 1) strides in, still lies inside.
      __int128 elements = static_cast<__int128>(s.batch - 1) * stride[i] + __int128{matrices[i][0]} * matrices[i][1];
      if (elements > INT64_MAX)
        check.fail("the batch does not fit its buffer");
      else
        check.buffer(i, operands[i], {static_cast<int64_t>(elements)}, bytesEach);
    }
  }
  if (arguments.forCuda)
    check.buffer(3, "workspace",
                 {productWorkspaceBytes(s, elementBytes(arguments.typeOf(0)), elementBytes(arguments.typeOf(2)))}, 1);
  else if (isNarrowGemm(arguments))
    check.buffer(3, "workspace", {gemmSlotBytes(s), arguments.workers}, 1);
  return check.take();
}

} // namespace scrimp::runtime
