#include "ProductWorkspace.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

int64_t LinearOp::getM() { return shapeOf(getY())[0]; }
int64_t LinearOp::getN() { return shapeOf(getY())[1]; }
int64_t LinearOp::getK() { return shapeOf(getA())[getTransposeA() ? 0 : 1]; }

LogicalResult LinearOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  if (a.size() != 2 || b.size() != 2)
    return emitOpError() << "operands must have rank 2, found " << getA().getType() << " and " << getB().getType();
  int64_t m = a[getTransposeA() ? 1 : 0], n = b[getTransposeB() ? 0 : 1], k = b[getTransposeB() ? 1 : 0];
  if (a[getTransposeA() ? 0 : 1] != k)
    return emitOpError() << "contracted dimensions differ: " << a[getTransposeA() ? 0 : 1] << " and " << k;
  Type operand = tensorType(getA()).getElementType(), result = tensorType(getY()).getElementType();
  if (tensorType(getB()).getElementType() != operand || (result != operand && result != getComputeType(operand)))
    return emitOpError() << "operands must have one element type, and the result that or the one of sums, found "
                         << getA().getType() << ", " << getB().getType() << " and " << getY().getType();
  auto check = [&](Value value, StringRef what, ArrayRef<int64_t> shape) {
    auto expected = RankedTensorType::get(shape, result);
    if (value && value.getType() != expected)
      return LogicalResult(emitOpError() << what << " must be " << expected << ", found " << value.getType());
    return success();
  };
  int64_t matrix[] = {m, n};
  if (failed(check(getY(), "the result", matrix)) || failed(check(getAddend(), "'plus'", matrix)) ||
      failed(check(getBias(), "'bias'", n)) || failed(check(getAt(), "'at'", matrix)) ||
      failed(verifyAcc(*this, getAcc())))
    return failure();
  if (getAddend() && getAcc())
    return emitOpError() << "adds to 'plus' or 'onto', not both";
  if (bool(getAt()) != (getEpilogue() == Epilogue::gelu_grad))
    return emitOpError() << "'at' is where gelu_grad takes the derivative";
  if (getSums()) {
    if (!getBeside() || getBias() || getEpilogue() || result != getComputeType(operand))
      return emitOpError() << "with 'sums' has a second result, neither bias nor epilogue, and gives sums that are not "
                              "rounded";
    return check(getBeside(), "the sums", getSums() == OperandSums::a ? m : n);
  }
  if (getBeside() && getEpilogue() != Epilogue::gelu)
    return emitOpError() << "has a second result with 'sums' or gelu alone";
  if ((getBeside() || getAt()) && n % rt::epilogueColumns != 0)
    return emitOpError() << "an epilogue that reads or keeps a matrix needs a multiple of " << rt::epilogueColumns
                         << " columns, found " << n;
  return check(getBeside(), "what gelu is computed of", matrix);
}

std::optional<Tie> LinearOp::getTie(unsigned result) { return result == 0 ? tieToAcc(*this, getAcc()) : std::nullopt; }
bool LinearOp::hasCode() { return true; }

bool LinearOp::mayOverwrite(unsigned operand, unsigned result) {
  auto isSegment = [&](unsigned segment) {
    auto [first, count] = getODSOperandIndexAndLength(segment);
    return count && first == operand;
  };
  return result == 0 && (isSegment(2) || isSegment(5));
}

int64_t LinearOp::getFlops() { return 2 * getM() * getN() * getK(); }

static rt::LinearCall linearCall(LinearOp op) {
  using namespace rt;
  rt::LinearCall call{op.getM(),          op.getN(),  op.getK(), op.getTransposeA(), op.getTransposeB(), noAddend,
                      bool(op.getBias()), noEpilogue, noSums};
  call.addend = op.getAcc() ? addendInPlace : op.getAddend() ? ownAddend : noAddend;
  if (std::optional<Epilogue> epilogue = op.getEpilogue())
    call.epilogue = *epilogue == Epilogue::relu        ? reluEpilogue
                    : *epilogue == Epilogue::gelu_grad ? geluGradEpilogue
                    : op.getBeside()                   ? geluKeepingEpilogue
                                                       : geluEpilogue;
  if (std::optional<OperandSums> sums = op.getSums())
    call.sums = *sums == OperandSums::a ? sumsOfA : sumsOfB;
  return call;
}

LibraryCall LinearOp::getLibraryCall() {
  auto ints = llvm::bit_cast<std::array<int64_t, rt::linearCallInts>>(linearCall(*this));
  return {"linear", SmallVector<int64_t>(ints.begin(), ints.end()), {}};
}

SmallVector<RankedTensorType> LinearOp::getWorkspaceTypes(int64_t workers) {
  return productWorkspace(*this, linearCall(*this).product(), workers);
}

/// As LinearOp's own ops would compute it.
static double applyEpilogue(Epilogue epilogue, double x, double at) {
  const double c = 0.7978845608028654, d = 0.044715;
  double where = epilogue == Epilogue::gelu_grad ? at : x;
  double t = std::tanh(c * (where + d * (where * where * where)));
  switch (epilogue) {
  case Epilogue::relu:
    return x > 0 || std::isnan(x) ? x : 0;
  case Epilogue::gelu:
    return 0.5 * x * (1 + t);
  case Epilogue::gelu_grad:
    return x * (0.5 * (1 + t) + 0.5 * at * ((1 - t * t) * (c * (1 + 3 * d * (at * at)))));
  }
  llvm_unreachable("unknown epilogue");
}

LogicalResult LinearOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  int64_t m = getM(), n = getN(), k = getK();
  auto valuesOf = [&](unsigned segment) -> ArrayRef<double> {
    auto [first, count] = getODSOperandIndexAndLength(segment);
    return count ? ArrayRef<double>(operands[first]->floats()) : ArrayRef<double>();
  };
  ArrayRef<double> a = valuesOf(0), b = valuesOf(1), addend = valuesOf(2), bias = valuesOf(3), at = valuesOf(4),
                   acc = valuesOf(5);
  auto elementA = [&](int64_t i, int64_t l) { return a[getTransposeA() ? l * m + i : i * k + l]; };
  auto elementB = [&](int64_t l, int64_t j) { return b[getTransposeB() ? j * k + l : l * n + j]; };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t place = i * n + j;
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += elementA(i, l) * elementB(l, j);
      sum += !addend.empty() ? addend[place] : !acc.empty() ? acc[place] : 0;
      sum += bias.empty() ? 0 : bias[j];
      if (getBeside() && !getSums())
        results[1].floats()[place] = sum;
      results[0].floats()[place] = getEpilogue() ? applyEpilogue(*getEpilogue(), sum, at.empty() ? 0 : at[place]) : sum;
    }
  if (std::optional<OperandSums> sums = getSums())
    for (int64_t line = 0; line < static_cast<int64_t>(results[1].size()); ++line) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += *sums == OperandSums::a ? elementA(line, l) : elementB(l, line);
      results[1].floats()[line] = sum;
    }
  return success();
}
