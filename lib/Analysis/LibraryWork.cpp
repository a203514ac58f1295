#include "scrimp/Analysis/LibraryWork.h"

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

/// The first integers of a call, as the struct of the runtime that lists them.
template <typename T> static T readInts(const LibraryCall &call) {
  assert(call.ints.size() * sizeof(int64_t) >= sizeof(T) && "the library's integers have changed");
  T value;
  memcpy(&value, call.ints.data(), sizeof(T));
  return value;
}

/// Scores of all queries: of as many rows as are computed at a time those with all keys that any of them may see.
static int64_t countScores(const rt::AttentionCall &call, int64_t rows) {
  const rt::AttentionShape &s = call.shape;
  int64_t pairs = 0, shift = call.whole[2] - call.whole[1];
  if (call.hasOrigin) // where the piece lies is known when it runs
    return s.B * s.Hq * s.Sq * s.Sk;
  for (int64_t i = 0; i < s.Sq; i += rows) {
    int64_t count = std::min(rows, s.Sq - i), p = i + shift;
    pairs += count * std::max<int64_t>(0, std::min(s.Sk, p + count + call.right) - std::max<int64_t>(0, p - call.left));
  }
  return s.B * s.Hq * pairs;
}

/// A score takes products with `perKey` elements of queries and keys and with `perValue` of values, and some 30 other
/// operations: 20 of them are the library's exponential.
static void addAttention(LibraryWork &work, const LibraryCall &call, int64_t sumBytes, bool isNarrow) {
  auto attention = readInts<rt::AttentionCall>(call);
  const rt::AttentionShape &s = attention.shape;
  auto [scores, results, keys] = rt::attentionProducts(s, sumBytes, isNarrow);
  work.products = {scores, results, keys};
  bool isGradient = call.function == "attention_grad";
  int64_t perKey = isGradient ? 6 : 2, perValue = isGradient ? 4 : 2, philox = attention.hasDropout ? 40 : 0;
  int64_t computed = countScores(attention, rt::attentionRows(s, sumBytes));
  work.repeatedFlops = isGradient ? computed * 2 * s.D : 0; // the scores
  work.productFlops = computed * (perKey * s.D + perValue * s.Dv);
  work.otherFlops = computed * (30 + philox);
}

LibraryWork mlir::scrimp::computeLibraryWork(KernelOp op) {
  LibraryCall call = op.getLibraryCall();
  Type operand = tensorType(op->getOperand(0)).getElementType(), sums = getComputeType(operand);
  bool isNarrow = operand != sums;
  rt::ElementBytes each{elementBytesOf(operand), elementBytesOf(sums),
                        elementBytesOf(tensorType(op->getResult(0)).getElementType())};
  LibraryWork work;
  if (StringRef(call.function).starts_with("attention")) {
    addAttention(work, call, each.sum, isNarrow);
    return work;
  }
  work.productFlops = cast<CostOp>(op.getOperation()).getFlops();
  if (call.function == "gemm")
    work.products = {rt::gemmProduct(readInts<rt::GemmCall>(call), each.sum, isNarrow)};
  if (call.function == "linear")
    work.products = {rt::gemmProduct(readInts<rt::LinearCall>(call).product(), each.sum, isNarrow)};
  for (auto [function, kind] : {std::pair{"conv2d", rt::Conv2dKind::forward},
                                {"conv2d_input_grad", rt::Conv2dKind::inputGrad},
                                {"conv2d_weight_grad", rt::Conv2dKind::weightGrad}})
    if (call.function == function)
      work.products = {rt::conv2dProduct(kind, readInts<rt::Conv2dShape>(call), each)};
  return work;
}
