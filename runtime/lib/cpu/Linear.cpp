// The library function "linear": a matrix product with what follows it done to its sums before they are rounded. A
// processor plays the library of a device: each epilogue is one pass over the rows of a tile.
#include "../common/LinearArguments.h"
#include "GemmTiles.h"
#include <cmath>

namespace scrimp::runtime {

static constexpr double kGeluScale = 0.7978845608028654, kGeluCube = 0.044715;

template <typename T> static T gelu(T x) {
  return T(0.5) * x * (T(1) + std::tanh(T(kGeluScale) * (x + T(kGeluCube) * (x * x * x))));
}

template <typename T> static T geluGradient(T x) {
  T t = std::tanh(T(kGeluScale) * (x + T(kGeluCube) * (x * x * x)));
  return T(0.5) * (T(1) + t) + (T(0.5) * x) * ((T(1) - t * t) * (T(kGeluScale) * (T(1) + T(3 * kGeluCube) * (x * x))));
}

/// What is done to a row of sums.
template <typename T> struct Epilogue {
  LinearCall call;
  const char *bias, *read;
  char *kept;
  DType type; // of these three

  void operator()(T *sums, int64_t i, int64_t j, int64_t count) const {
    if (bias)
      for (int64_t x = 0; x < count; ++x)
        sums[x] += static_cast<T>(loadElement(type, bias, j + x));
    int64_t place = i * call.n + j;
    for (int64_t x = 0; kept && x < count; ++x)
      storeElement(type, kept, place + x, sums[x]);
    if (call.epilogue == reluEpilogue)
      for (int64_t x = 0; x < count; ++x)
        sums[x] = sums[x] > 0 || sums[x] != sums[x] ? sums[x] : T(0);
    if (call.epilogue == geluEpilogue || call.epilogue == geluKeepingEpilogue)
      for (int64_t x = 0; x < count; ++x)
        sums[x] = gelu(sums[x]);
    for (int64_t x = 0; read && x < count; ++x)
      sums[x] *= geluGradient(static_cast<T>(loadElement(type, read, place + x)));
  }
};

/// Sums over k of op(A)'s rows or op(B)'s columns, from the first on; `lines` elements of the result.
template <typename T>
static void sumOperand(const char *operand, DType type, bool kIsInner, int64_t lines, int64_t k, T *sums,
                       ThreadPool &pool) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      T sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += static_cast<T>(loadElement(type, operand, kIsInner ? line * k + x : x * lines + line));
      sums[line] = sum;
    }
  };
  pool.parallelFor(lines, 16, body);
}

template <typename T> static void runTyped(const LibraryArguments &arguments, ThreadPool &pool) {
  LinearCall s = linearCallOf(arguments);
  bool narrow = isNarrow(arguments.typeOf(0));
  LinearPlaces at(s, narrow);
  auto buffer = [&](int place) { return place < 0 ? nullptr : arguments.buffers[static_cast<size_t>(place)]; };
  DType operands = arguments.typeOf(0), result = arguments.typeOf(static_cast<size_t>(at.result));
  GemmBuffers buffers{buffer(0),
                      buffer(1),
                      buffer(at.result),
                      buffer(at.workspace),
                      buffer(s.addend == ownAddend ? at.addend : at.result),
                      operands,
                      result,
                      arguments.bf16Dot};
  Epilogue<T> epilogue{s, buffer(at.bias), buffer(at.read), buffer(at.kept), result};
  if constexpr (sizeof(T) == sizeof(float))
    if (narrow)
      multiplyNarrow(s.product(), buffers, pool, epilogue);
  if (!narrow)
    multiply<T>(s.product(), buffers, pool, epilogue);
  T *sums = reinterpret_cast<T *>(buffer(at.sums));
  if (s.sums == sumsOfA)
    sumOperand(buffers.a, operands, !s.transA, s.m, s.k, sums, pool);
  if (s.sums == sumsOfB)
    sumOperand(buffers.b, operands, s.transB != 0, s.n, s.k, sums, pool);
}

static void run(const LibraryArguments &arguments, ThreadPool &pool) {
  if (arguments.dtype == DType::f32)
    runTyped<float>(arguments, pool);
  else
    runTyped<double>(arguments, pool);
}

const LibraryFunction linearFunction = {"linear", verifyLinear, run};

} // namespace scrimp::runtime
