// The library function "gemm": a batch of row-major matrix products.
#include "../common/GemmArguments.h"
#include "GemmTiles.h"

namespace scrimp::runtime {

static void run(const LibraryArguments &arguments, ThreadPool &pool) {
  GemmCall s = gemmCallOf(arguments);
  char *c = arguments.buffers[2], *workspace = isNarrowGemm(arguments) ? arguments.buffers[3] : nullptr;
  GemmBuffers buffers{arguments.buffers[0], arguments.buffers[1], c, workspace, c, arguments.typeOf(0),
                      arguments.typeOf(2),  arguments.bf16Dot};
  auto finish = [](auto *, int64_t, int64_t, int64_t) {};
  if (isNarrowGemm(arguments))
    multiplyNarrow(s, buffers, pool, finish);
  else if (arguments.dtype == DType::f32)
    multiply<float>(s, buffers, pool, finish);
  else
    multiply<double>(s, buffers, pool, finish);
}

const LibraryFunction gemmFunction = {"gemm", verifyGemm, run};

} // namespace scrimp::runtime
