#include "IndexMath.h"
#include "ProductWorkspace.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::GemmCall;

static SmallVector<int64_t> matmulShape(Value a, Value b, bool transposeA, bool transposeB) {
  SmallVector<int64_t> shape(shapeOf(a));
  size_t rank = shape.size();
  shape[rank - 2] = shapeOf(a)[transposeA ? rank - 1 : rank - 2];
  shape[rank - 1] = shapeOf(b)[transposeB ? rank - 2 : rank - 1];
  return shape;
}

int64_t MatmulOp::getM() { return shapeOf(getY())[tensorType(getY()).getRank() - 2]; }
int64_t MatmulOp::getN() { return shapeOf(getY()).back(); }
int64_t MatmulOp::getK() {
  ArrayRef<int64_t> shape = shapeOf(getA());
  return shape[shape.size() - (getTransposeA() ? 2 : 1)];
}
int64_t MatmulOp::getBatch() { return productOf(shapeOf(getY()).drop_back(2)); }

/// Takes the operand of a transpose that exchanges the last two dimensions alone in its place, with the flag turned
/// over: exporters write x W^T with a transpose, and a copy of the weight at every step would be the largest thing in
/// many a graph.
static void absorbTranspose(Value &operand, bool &flag) {
  auto transpose = operand.getDefiningOp<TransposeOp>();
  if (!transpose || transpose.getPermutation().size() < 2)
    return;
  SmallVector<int64_t> permutation(transpose.getPermutation());
  size_t rank = permutation.size();
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  if (!llvm::is_sorted(permutation))
    return;
  operand = transpose.getX();
  flag = !flag;
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value a, Value b, bool transposeA, bool transposeB) {
  absorbTranspose(a, transposeA);
  absorbTranspose(b, transposeB);
  build(builder, state, tensorType(a).clone(matmulShape(a, b, transposeA, transposeB)), a, b, transposeA, transposeB,
        /*acc=*/nullptr);
}

/// Another library call, so other bits: transposes settle while the graph is built, before rematerialization.
LogicalResult MatmulOp::canonicalize(MatmulOp op, PatternRewriter &rewriter) {
  Value a = op.getA(), b = op.getB();
  bool transposeA = op.getTransposeA(), transposeB = op.getTransposeB();
  absorbTranspose(a, transposeA);
  absorbTranspose(b, transposeB);
  if (a == op.getA() && b == op.getB())
    return failure();
  rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), a, b, transposeA, transposeB, op.getAcc());
  return success();
}

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  if (a.size() < 2 || a.size() != b.size())
    return emitOpError() << "operands must have one rank of at least 2, found " << a.size() << " and " << b.size();
  if (a.drop_back(2) != b.drop_back(2))
    return emitOpError() << "batch dimensions differ: " << getA().getType() << " and " << getB().getType();
  int64_t ka = a[a.size() - (getTransposeA() ? 2 : 1)], kb = b[b.size() - (getTransposeB() ? 1 : 2)];
  if (ka != kb)
    return emitOpError() << "contracted dimensions differ: " << ka << " and " << kb;
  Type types[] = {tensorType(getA()).getElementType(), tensorType(getB()).getElementType(),
                  tensorType(getY()).getElementType()};
  if (types[0] != types[1] || (types[0] != types[2] && getComputeType(types[0]) != types[2]))
    return emitOpError() << "operands and result must have one element type, or the result that of sums, found "
                         << types[0] << ", " << types[1] << " and " << types[2];
  auto expected = RankedTensorType::get(matmulShape(getA(), getB(), getTransposeA(), getTransposeB()), types[2]);
  if (getY().getType() != expected)
    return emitOpError() << "result type must be " << expected << ", found " << getY().getType();
  return verifyAcc(*this, getAcc());
}

std::optional<Tie> MatmulOp::getTie(unsigned) { return tieToAcc(*this, getAcc()); }
bool MatmulOp::hasCode() { return true; }
bool MatmulOp::mayOverwrite(unsigned operand, unsigned) { return operand == 2; }

int64_t MatmulOp::getFlops() { return 2 * getBatch() * getM() * getN() * getK(); }

static GemmCall gemmCall(MatmulOp op) {
  int64_t m = op.getM(), n = op.getN(), k = op.getK();
  return {op.getBatch(), m, n, k, op.getTransposeA(), op.getTransposeB(), m * k, k * n, m * n, bool(op.getAcc())};
}

SmallVector<RankedTensorType> mlir::scrimp::productWorkspace(Operation *op, const GemmCall &call, int64_t workers) {
  Type operand = tensorType(op->getOperand(0)).getElementType(), result = tensorType(op->getResult(0)).getElementType();
  int64_t bytes = 0;
  if (TargetAttr::of(op).hasProductWorkspace())
    bytes = ::scrimp::runtime::productWorkspaceBytes(call, elementBytesOf(operand), elementBytesOf(result));
  else if (operand != getComputeType(operand))
    bytes = ::scrimp::runtime::gemmWorkspaceBytes(call, workers);
  else
    return {};
  return {RankedTensorType::get({bytes}, IntegerType::get(op->getContext(), 8))};
}

LibraryCall MatmulOp::getLibraryCall() {
  auto ints = llvm::bit_cast<std::array<int64_t, ::scrimp::runtime::gemmCallInts>>(gemmCall(*this));
  return {"gemm", SmallVector<int64_t>(ints.begin(), ints.end()), {}};
}

SmallVector<RankedTensorType> MatmulOp::getWorkspaceTypes(int64_t workers) {
  return productWorkspace(*this, gemmCall(*this), workers);
}

LogicalResult MatmulOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  ArrayRef<double> a = operands[0]->floats(), b = operands[1]->floats();
  MutableArrayRef<double> y = results[0].floats();
  int64_t m = getM(), n = getN(), k = getK(), batch = getBatch();
  int64_t aRow = getTransposeA() ? 1 : k, aColumn = getTransposeA() ? m : 1;
  int64_t bRow = getTransposeB() ? 1 : n, bColumn = getTransposeB() ? k : 1;
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a[s * m * k + i * aRow + l * aColumn] * b[s * k * n + l * bRow + j * bColumn];
        int64_t at = (s * m + i) * n + j;
        y[at] = getAcc() ? operands[2]->floats()[at] + sum : sum;
      }
  return success();
}

void MatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) {
  // With A' = op(A) and B' = op(B): dA' = G B'^T and dB' = A'^T G; a transposed operand takes the transpose.
  Value a = getA(), b = getB();
  Value g = castToType(builder, getLoc(), resultGrads[0], tensorType(getY()).clone(tensorType(a).getElementType()));
  bool ta = getTransposeA(), tb = getTransposeB();
  if (needed[0])
    operandGrads[0] = ta ? MatmulOp::create(builder, getLoc(), b, g, tb, true)
                         : MatmulOp::create(builder, getLoc(), g, b, false, !tb);
  if (needed[1])
    operandGrads[1] = tb ? MatmulOp::create(builder, getLoc(), g, a, true, ta)
                         : MatmulOp::create(builder, getLoc(), a, g, !ta, false);
  if (getAcc() && needed[2])
    operandGrads[2] = resultGrads[0];
}
