// The library function "gemm": a batch of row-major matrix products.
#include "ArgumentCheck.h"
#include "GemmTiles.h"

namespace scrimp::runtime {

static GemmCall callOf(const LibraryArguments &arguments) {
  GemmCall call;
  memcpy(&call, arguments.ints.data(), sizeof(call));
  return call;
}

static bool hasNarrow(const LibraryArguments &arguments) {
  return isNarrow(arguments.typeOf(0)) || isNarrow(arguments.typeOf(2));
}

static void run(const LibraryArguments &arguments, ThreadPool &pool) {
  GemmCall s = callOf(arguments);
  char *c = arguments.buffers[2], *workspace = hasNarrow(arguments) ? arguments.buffers[3] : nullptr;
  GemmBuffers buffers{arguments.buffers[0], arguments.buffers[1], c, workspace, c, arguments.typeOf(0),
                      arguments.typeOf(2),  arguments.bf16Dot};
  auto finish = [](auto *, int64_t, int64_t, int64_t) {};
  if (hasNarrow(arguments))
    multiplyNarrow(s, buffers, pool, finish);
  else if (arguments.dtype == DType::f32)
    multiply<float>(s, buffers, pool, finish);
  else
    multiply<double>(s, buffers, pool, finish);
}

static Status verify(const LibraryArguments &arguments) {
  ArgumentCheck check("gemm", arguments);
  check.floatType();
  for (size_t i = 0; i < 3; ++i)
    check.storedType(i);
  if (arguments.typeOf(0) != arguments.typeOf(1))
    check.fail("A and B differ in type");
  if (arguments.typeOf(2) != arguments.typeOf(0) && arguments.typeOf(2) != arguments.dtype)
    check.fail("C has neither the operands' type nor that of the sums");
  check.counts(3 + hasNarrow(arguments), gemmCallInts, 0);
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
  GemmCall s = callOf(arguments);
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
  if (hasNarrow(arguments))
    check.buffer(3, "workspace", {gemmSlotBytes(s), arguments.workers}, 1);
  return check.take();
}

const LibraryFunction gemmFunction = {"gemm", verify, run};

} // namespace scrimp::runtime
