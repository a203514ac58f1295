// Which dimensions of their operands and results the ops run over together (BatchSplitOp), by kind. Ops that work
// element by element have the interface's default.
#include "IndexMath.h"

#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

/// The last operand is what the op adds to: once, so nothing may be summed up by pieces.
static void addAcc(DimensionRule &rule) {
  rule.operands.back() = rule.results[0];
  for (auto [number, factor] : llvm::enumerate(rule.factors))
    if (llvm::none_of(rule.results[0], [&](auto &dim) { return llvm::is_contained(dim, number); }))
      factor.kind = FactorKind::Whole;
}

/// Whether exactly the operands in `wanted` are sums.
static bool areExactly(ArrayRef<bool> sums, std::initializer_list<unsigned> wanted) {
  for (auto [i, isSum] : llvm::enumerate(sums))
    if (isSum != llvm::is_contained(wanted, static_cast<unsigned>(i)))
      return false;
  return true;
}

static bool areAll(ArrayRef<bool> sums) {
  return llvm::all_of(sums, [](bool b) { return b; });
}

/// Every dimension of the first operand and the first result but `dim`, which both have.
static DimensionRule allBut(Operation *op, int64_t dim) {
  DimensionRule rule(op);
  for (auto [d, size] : llvm::enumerate(shapeOf(op->getOperand(0))))
    if (static_cast<int64_t>(d) != dim)
      rule.operands[0][d] = rule.results[0][d] = {rule.add(size)};
  return rule;
}

//===-- Elementwise
//------------------------------------------------------------------------------------------------===//

bool SelectOp::isLinearIn(ArrayRef<bool> sums) { return areExactly(sums, {1, 2}); }

/// A wider float holds every value of a narrower one; f16 and bf16 hold others.
bool CastOp::isLinearIn(ArrayRef<bool>) {
  auto from = dyn_cast<FloatType>(tensorType(getX()).getElementType());
  auto to = dyn_cast<FloatType>(tensorType(getY()).getElementType());
  return from && to && (from == to || from.getWidth() < to.getWidth());
}

//===-- Shapes
//-----------------------------------------------------------------------------------------------------===//

DimensionRule ConstantOp::getDimensionRule() {
  DimensionRule rule(*this);
  if (isa<SplatElementsAttr>(getValue()))
    rule.shareLeading({&rule.results[0]}, shapeOf(getY()), shapeOf(getY()).size());
  return rule;
}

SmallVector<Value> ConstantOp::buildPiece(OpBuilder &builder, ValueRange, TypeRange types, const BatchPiece &) {
  auto splat = cast<SplatElementsAttr>(getValue());
  return {ConstantOp::create(builder, getLoc(), splat.resizeSplat(cast<RankedTensorType>(types[0])))};
}

DimensionRule IotaOp::getDimensionRule() {
  DimensionRule rule(*this);
  for (auto [d, size] : llvm::enumerate(shapeOf(getY())))
    rule.results[0][d] = {rule.add(size, d == getDim() ? FactorKind::InOrder : FactorKind::Split)};
  return rule;
}

/// start + step * (i + begin), in f64 as the whole iota is.
SmallVector<Value> IotaOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types,
                                      const BatchPiece &piece) {
  if (piece.factor != getDim())
    return cloneForPiece(*this, builder, operands, types);
  auto type = cast<RankedTensorType>(types[0]);
  RankedTensorType wide = type.clone(builder.getF64Type());
  Value first =
      CastOp::create(builder, getLoc(), wide.clone(ArrayRef<int64_t>()), firstIndexOf(builder, getLoc(), piece));
  GraphExpr index(
      builder, getLoc(),
      IotaOp::create(builder, getLoc(), wide, getDimAttr(), builder.getF64FloatAttr(0), builder.getF64FloatAttr(1)));
  index = index + index.with(broadcastTo(builder, getLoc(), first, type.getShape()));
  GraphExpr value = getStart().convertToDouble() + getStep().convertToDouble() * index;
  return {castToType(builder, getLoc(), value.value, type)};
}

DimensionRule BroadcastOp::getDimensionRule() {
  DimensionRule rule(*this);
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getY());
  rule.shareLeading({&rule.results[0]}, to, to.size());
  size_t leading = to.size() - from.size();
  for (auto [d, size] : llvm::enumerate(from))
    if (size == to[leading + d])
      rule.operands[0][d] = rule.results[0][leading + d];
  return rule;
}

bool BroadcastOp::isLinearIn(ArrayRef<bool>) { return true; }

/// Cuts the dimensions where their sizes, multiplied from the left, reach `products`: there factor numbers[i] ends.
static void cutAt(ArrayRef<int64_t> products, ArrayRef<int64_t> shape, ArrayRef<unsigned> numbers,
                  MutableArrayRef<SmallVector<unsigned, 2>> dims) {
  int64_t before = 1;
  for (auto [size, factors] : llvm::zip(shape, dims)) {
    int64_t after = before * size;
    for (auto [product, number] : llvm::zip(products, numbers))
      if (product > before && product <= after)
        factors.push_back(number);
    before = after;
  }
}

/// Both shapes are cut at every product of leading sizes of either, as far as these divide each other: [6, 4] and
/// [3, 8] are [3 * 2, 4] and [3, 2 * 4]; what lies between products that do not is left uncut.
DimensionRule ReshapeOp::getDimensionRule() {
  DimensionRule rule(*this);
  if (tensorType(getX()).getNumElements() == 0)
    return rule;
  SmallVector<int64_t> products;
  auto addProducts = [&](ArrayRef<int64_t> shape, SmallVectorImpl<int64_t> &to) {
    int64_t product = 1;
    for (int64_t size : shape)
      to.push_back(product *= size);
  };
  SmallVector<int64_t> ofX, ofY;
  addProducts(shapeOf(getX()), ofX);
  addProducts(shapeOf(getY()), ofY);
  llvm::append_range(products, ofX);
  llvm::append_range(products, ofY);
  llvm::sort(products);
  products.erase(llvm::unique(products), products.end());
  // Common products bound groups that do not touch each other.
  SmallVector<int64_t> cuts;
  SmallVector<unsigned> numbers;
  int64_t groupBegin = 1, before = 1;
  bool isChain = true;
  SmallVector<int64_t> group;
  for (int64_t product : products) {
    isChain &= product % before == 0;
    group.push_back(product);
    before = product;
    if (!llvm::is_contained(ofX, product) || !llvm::is_contained(ofY, product))
      continue;
    if (isChain)
      for (int64_t end : group) {
        if (end != groupBegin) {
          cuts.push_back(end);
          numbers.push_back(rule.add(end / groupBegin));
        }
        groupBegin = end;
      }
    groupBegin = product;
    isChain = true;
    group.clear();
  }
  cutAt(cuts, shapeOf(getX()), numbers, rule.operands[0]);
  cutAt(cuts, shapeOf(getY()), numbers, rule.results[0]);
  return rule;
}

bool ReshapeOp::isLinearIn(ArrayRef<bool>) { return true; }

DimensionRule TransposeOp::getDimensionRule() {
  DimensionRule rule(*this);
  rule.shareLeading({&rule.operands[0]}, shapeOf(getX()), shapeOf(getX()).size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    rule.results[0][i] = rule.operands[0][d];
  return rule;
}

bool TransposeOp::isLinearIn(ArrayRef<bool>) { return true; }

/// `small` is `large` from `start` on in steps of `stride`. A part that consists of whole runs of s elements, out of
/// runs of s, is cut within them: [B; B] (outer 2) gives its second half. Of every stride-th element, each belongs to a
/// run of its own.
static void relatePart(DimensionRule &rule, int64_t smallSize, int64_t largeSize, int64_t start, int64_t stride,
                       SmallVector<unsigned, 2> &small, SmallVector<unsigned, 2> &large) {
  if (smallSize == 0 || stride < 1)
    return;
  if (stride == 1) {
    int64_t run = std::gcd(std::gcd(smallSize, largeSize), start);
    unsigned within = rule.add(run);
    if (smallSize != run)
      small.push_back(rule.add(smallSize / run, FactorKind::Whole));
    if (largeSize != run)
      large.push_back(rule.add(largeSize / run, FactorKind::Whole));
    small.push_back(within);
    large.push_back(within);
    return;
  }
  if (start >= stride || smallSize * stride != largeSize)
    return;
  small = {rule.add(smallSize)};
  large = {small[0], rule.add(stride, FactorKind::Whole)};
}

/// Where the part starts when the large tensor's dimensions have other sizes: starts count runs.
static SmallVector<int64_t> scaledStarts(ArrayRef<int64_t> starts, ArrayRef<int64_t> strides,
                                         ArrayRef<int64_t> largeBefore, ArrayRef<int64_t> largeAfter) {
  SmallVector<int64_t> scaled(starts);
  for (auto [start, stride, before, after] : llvm::zip(scaled, strides, largeBefore, largeAfter))
    if (stride == 1 && before != after)
      start = start * after / before;
  return scaled;
}

DimensionRule SliceOp::getDimensionRule() {
  DimensionRule rule(*this);
  for (size_t d = 0; d < getStarts().size(); ++d)
    relatePart(rule, shapeOf(getY())[d], shapeOf(getX())[d], getStarts()[d], getStrides()[d], rule.results[0][d],
               rule.operands[0][d]);
  return rule;
}

bool SliceOp::isLinearIn(ArrayRef<bool>) { return true; }

SmallVector<Value> SliceOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types, const BatchPiece &) {
  return {SliceOp::create(builder, getLoc(), types[0], operands[0],
                          scaledStarts(getStarts(), getStrides(), shapeOf(getX()), shapeOf(operands[0])),
                          getStrides())};
}

DimensionRule PadOp::getDimensionRule() {
  DimensionRule rule(*this);
  for (size_t d = 0; d < getStarts().size(); ++d)
    relatePart(rule, shapeOf(getX())[d], shapeOf(getY())[d], getStarts()[d], getStrides()[d], rule.operands[0][d],
               rule.results[0][d]);
  return rule;
}

bool PadOp::isLinearIn(ArrayRef<bool>) { return getValue().isZero(); }

SmallVector<Value> PadOp::buildPiece(OpBuilder &builder, ValueRange operands, TypeRange types, const BatchPiece &) {
  auto type = cast<RankedTensorType>(types[0]);
  return {PadOp::create(builder, getLoc(), type, operands[0],
                        scaledStarts(getStarts(), getStrides(), shapeOf(getY()), type.getShape()), getStrides(),
                        getValue())};
}

/// Operands of one size each give every piece of the result a piece: it is [n operands, size].
DimensionRule ConcatOp::getDimensionRule() {
  DimensionRule rule(*this);
  int64_t dim = getDim(), size = shapeOf(getXs()[0])[dim];
  bool isEven = llvm::all_of(getXs(), [&](Value x) { return shapeOf(x)[dim] == size; });
  for (auto [d, total] : llvm::enumerate(shapeOf(getY()))) {
    bool isJoined = static_cast<int64_t>(d) == dim;
    if (isJoined && !isEven)
      continue;
    unsigned factor = rule.add(isJoined ? size : total);
    for (DimensionFactors &operand : rule.operands)
      operand[d] = {factor};
    if (isJoined)
      rule.results[0][d] = {rule.add(getXs().size(), FactorKind::Whole)};
    rule.results[0][d].push_back(factor);
  }
  return rule;
}

bool ConcatOp::isLinearIn(ArrayRef<bool> sums) { return areAll(sums); }

//===-- Indexing
//---------------------------------------------------------------------------------------------------===//

/// [a..., indices..., b...] is `chosen`, [a..., `dim`, b...] is `table`.
static void relateGather(DimensionRule &rule, int64_t dim, ArrayRef<int64_t> chosenShape, DimensionFactors &chosen,
                         DimensionFactors &table, DimensionFactors &indices) {
  size_t rank = indices.size();
  rule.shareLeading({&chosen}, chosenShape, chosenShape.size());
  for (size_t d = 0; d < chosen.size(); ++d) {
    if (static_cast<int64_t>(d) < dim)
      table[d] = chosen[d];
    else if (d < dim + rank)
      indices[d - dim] = chosen[d];
    else
      table[d - rank + 1] = chosen[d];
  }
}

DimensionRule GatherOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateGather(rule, getDim(), shapeOf(getY()), rule.results[0], rule.operands[0], rule.operands[1]);
  return rule;
}

bool GatherOp::isLinearIn(ArrayRef<bool> sums) { return areExactly(sums, {0}); }

DimensionRule ScatterAddOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateGather(rule, getDim(), shapeOf(getUpdates()), rule.operands[0], rule.results[0], rule.operands[1]);
  if (getAcc())
    addAcc(rule);
  return rule;
}

bool ScatterAddOp::isLinearIn(ArrayRef<bool> sums) {
  return getAcc() ? areExactly(sums, {0, 2}) : areExactly(sums, {0});
}

/// `chosen` has the shape of `indices`; apart from `dim` it runs along `table` where that is as large.
static void relateElements(DimensionRule &rule, int64_t dim, ArrayRef<int64_t> chosenShape,
                           ArrayRef<int64_t> tableShape, DimensionFactors &chosen, DimensionFactors &table,
                           DimensionFactors &indices) {
  for (size_t d = 0; d < chosenShape.size(); ++d) {
    bool isChosen = static_cast<int64_t>(d) == dim;
    if (!isChosen && chosenShape[d] != tableShape[d])
      continue;
    chosen[d] = indices[d] = {rule.add(chosenShape[d])};
    if (!isChosen)
      table[d] = chosen[d];
  }
}

DimensionRule GatherElementsOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateElements(rule, getDim(), shapeOf(getY()), shapeOf(getX()), rule.results[0], rule.operands[0], rule.operands[1]);
  return rule;
}

DimensionRule ScatterElementsAddOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateElements(rule, getDim(), shapeOf(getUpdates()), shapeOf(getY()), rule.operands[0], rule.results[0],
                 rule.operands[1]);
  return rule;
}

/// `chosen` is [batch..., tuples..., rest...], `table` [batch..., k dimensions, rest...], `indices` [batch...,
/// tuples..., k].
static void relateTuples(DimensionRule &rule, size_t batchDims, ArrayRef<int64_t> chosenShape,
                         ArrayRef<int64_t> indicesShape, DimensionFactors &chosen, ArrayRef<DimensionFactors *> tables,
                         DimensionFactors &indices) {
  rule.shareLeading({&chosen}, chosenShape, chosenShape.size());
  size_t tuples = indicesShape.size() - 1, k = indicesShape.back();
  for (size_t d = 0; d < chosen.size(); ++d) {
    if (d < tuples)
      indices[d] = chosen[d];
    for (DimensionFactors *table : tables) {
      if (d < batchDims)
        (*table)[d] = chosen[d];
      else if (d >= tuples)
        (*table)[batchDims + k + d - tuples] = chosen[d];
    }
  }
}

DimensionRule GatherNdOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateTuples(rule, getBatchDims(), shapeOf(getY()), shapeOf(getIndices()), rule.results[0], {&rule.operands[0]},
               rule.operands[1]);
  return rule;
}

/// Pieces of the tuples would add x each, so they make no pieces unless it is 0.
DimensionRule ScatterNdOp::getDimensionRule() {
  DimensionRule rule(*this);
  relateTuples(rule, getBatchDims(), shapeOf(getUpdates()), shapeOf(getIndices()), rule.operands[2],
               {&rule.operands[0], &rule.results[0]}, rule.operands[1]);
  auto base = getX().getDefiningOp<ConstantOp>();
  bool addsToZero = getReduction() == ScatterReduction::add && base &&
                    (isSplatOf(base.getValue(), 0.0) || isSplatOf(base.getValue(), -0.0));
  for (size_t d = getBatchDims(); d + 1 < shapeOf(getIndices()).size() && !addsToZero; ++d)
    rule.factors[rule.operands[1][d][0]].kind = FactorKind::Whole;
  return rule;
}

DimensionRule CumsumOp::getDimensionRule() { return allBut(*this, getDim()); }

/// The results lack `dim`.
static DimensionRule dropping(Operation *op, ArrayRef<int64_t> dims) {
  DimensionRule rule(op);
  size_t kept = 0;
  for (auto [d, size] : llvm::enumerate(shapeOf(op->getOperand(0))))
    if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
      rule.operands[0][d] = rule.results[0][kept++] = {rule.add(size)};
  return rule;
}

DimensionRule ArgMaxOp::getDimensionRule() { return dropping(*this, {static_cast<int64_t>(getDim())}); }

DimensionRule TopKOp::getDimensionRule() {
  DimensionRule rule = allBut(*this, getDim());
  rule.results[1] = rule.results[0];
  return rule;
}

//===-- Reductions and contractions
//--------------------------------------------------------------------------------===//

DimensionRule ReduceOp::getDimensionRule() {
  DimensionRule rule = dropping(*this, getDims());
  if (getKind() == ReduceKind::sum)
    for (int64_t d : getDims())
      rule.operands[0][d] = {rule.add(shapeOf(getX())[d])};
  return rule;
}

bool ReduceOp::isLinearIn(ArrayRef<bool>) { return getKind() == ReduceKind::sum; }

DimensionRule MatmulOp::getDimensionRule() {
  DimensionRule rule(*this);
  DimensionFactors &a = rule.operands[0], &b = rule.operands[1], &y = rule.results[0];
  size_t rank = y.size();
  rule.shareLeading({&a, &b, &y}, shapeOf(getY()), rank - 2);
  y[rank - 2] = a[rank - (getTransposeA() ? 1 : 2)] = {rule.add(getM())};
  y[rank - 1] = b[rank - (getTransposeB() ? 2 : 1)] = {rule.add(getN())};
  a[rank - (getTransposeA() ? 2 : 1)] = b[rank - (getTransposeB() ? 1 : 2)] = {rule.add(getK())};
  if (getAcc())
    addAcc(rule);
  return rule;
}

bool MatmulOp::isLinearIn(ArrayRef<bool> sums) { return sums[0] != sums[1] && (!getAcc() || sums[2]); }

/// What is done to a sum is not done to parts of it.
DimensionRule LinearOp::getDimensionRule() {
  DimensionRule rule(*this);
  DimensionFactors &a = rule.operands[0], &b = rule.operands[1], &y = rule.results[0];
  // Sums of an operand do not have the other one's rows or columns, and are no sums over these. Not every number of
  // columns goes with a matrix beside the result.
  std::optional<OperandSums> sums = getSums();
  bool keepsColumns = sums == OperandSums::a || getAt() || (getBeside() && !sums);
  FactorKind ofA = sums == OperandSums::b ? FactorKind::Whole : FactorKind::Split,
             ofB = keepsColumns ? FactorKind::Whole : FactorKind::Split;
  y[0] = a[getTransposeA() ? 1 : 0] = {rule.add(getM(), ofA)};
  y[1] = b[getTransposeB() ? 0 : 1] = {rule.add(getN(), ofB)};
  a[getTransposeA() ? 0 : 1] = b[getTransposeB() ? 1 : 0] = {rule.add(getK(), FactorKind::Whole)};
  for (unsigned i = 2; i < getNumOperands(); ++i)
    rule.operands[i] = rule.operands[i].size() == 1 ? DimensionFactors{y[1]} : y;
  if (getBeside())
    rule.results[1] = !sums ? y : DimensionFactors{y[sums == OperandSums::a ? 0 : 1]};
  return rule;
}

//===-- Buckets and updates: whole
//---------------------------------------------------------------------------------===//

DimensionRule SumSquaresOp::getDimensionRule() { return DimensionRule(*this); }
DimensionRule ViewOp::getDimensionRule() { return DimensionRule(*this); }
DimensionRule PackOp::getDimensionRule() { return DimensionRule(*this); }
bool ViewOp::isLinearIn(ArrayRef<bool>) { return true; }
bool PackOp::isLinearIn(ArrayRef<bool> sums) { return areAll(sums); }
