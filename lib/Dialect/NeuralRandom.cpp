// dropout, random_uniform and stochastic_round: Philox as integer arithmetic, so that a draw takes no memory and can be
// made again.
#include "NeuralRows.h"
#include "RandomOps.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// A 32-bit word computed in a kernel.
struct PhiloxValue {
  OpBuilder *builder;
  Location loc;
  Value value;

  PhiloxValue with(Value v) const { return {builder, loc, v}; }
  PhiloxValue constant(uint32_t v) const {
    return with(arith::ConstantIntOp::create(*builder, loc, static_cast<int32_t>(v), 32));
  }
  friend PhiloxValue operator^(PhiloxValue a, PhiloxValue b) {
    return a.with(arith::XOrIOp::create(*a.builder, a.loc, a.value, b.value));
  }
  friend PhiloxValue operator+(PhiloxValue a, uint32_t b) {
    return a.with(arith::AddIOp::create(*a.builder, a.loc, a.value, a.constant(b).value));
  }
  std::array<PhiloxValue, 2> multiply(uint32_t factor) const {
    Type wide = builder->getI64Type(), word = builder->getI32Type();
    Value product = arith::MulIOp::create(*builder, loc, arith::ExtUIOp::create(*builder, loc, wide, value),
                                          arith::ConstantIntOp::create(*builder, loc, int64_t{factor}, 64));
    Value high = arith::ShRUIOp::create(*builder, loc, product, arith::ConstantIntOp::create(*builder, loc, 32, 64));
    return {with(arith::TruncIOp::create(*builder, loc, word, high)),
            with(arith::TruncIOp::create(*builder, loc, word, product))};
  }
};
} // namespace

//===-- Which draw an element takes
//--------------------------------------------------------------------------------===//

/// The shape of what `op` has of one sample: its batch dimension divided by the samples.
template <typename Op> static SmallVector<int64_t> sampleShape(Op op) {
  SmallVector<int64_t> result(shapeOf(op.getY()));
  if (int64_t dim = op.getBatchDim(); dim >= 0)
    result[dim] /= static_cast<int64_t>(op.getSamples());
  return result;
}

template <typename Op> static LogicalResult verifySamples(Op op) {
  int64_t dim = op.getBatchDim(), samples = op.getSamples();
  ArrayRef<int64_t> shape = shapeOf(op.getY());
  if (dim < -1 || dim >= static_cast<int64_t>(shape.size()))
    return op.emitOpError() << "batch_dim must be -1 or a dimension of " << op.getY().getType() << ", found " << dim;
  if (dim == -1 && samples != 1)
    return op.emitOpError() << "without a batch dimension `samples` must be 1, found " << samples;
  if (dim >= 0 && (samples < 1 || shape[dim] % samples))
    return op.emitOpError() << "dimension " << dim << " of size " << shape[dim] << " does not divide into " << samples
                            << " samples";
  SmallVector<int64_t> within = sampleShape(op);
  if (failed(verifyPiece(op, within)))
    return failure();
  int64_t elements = productOf(op.getWhole().value_or(within));
  if (elements > (int64_t{1} << 34))
    return op.emitOpError() << "a sample may have 2^34 elements, found " << elements;
  return success();
}

/// The key of an element and where the tensor begins that it is of: one for all, but for several tensors in one.
template <typename Op> static std::pair<int64_t, int64_t> keyAt(Op op, int64_t) { return {op.getKey(), 0}; }
static std::pair<int64_t, int64_t> keyAt(StochasticRoundOp op, int64_t element) {
  if (!op.getBegins())
    return {op.getKey(), 0};
  size_t tensor = llvm::upper_bound(*op.getBegins(), element) - op.getBegins()->begin() - 1;
  return {(*op.getKeys())[tensor], (*op.getBegins())[tensor]};
}
/// The same in a kernel, the key mixed.
template <typename Op> static std::pair<Value, Value> emitKeyAt(Op op, OpBuilder &builder, Location loc, Value) {
  return {arith::ConstantIntOp::create(builder, loc, static_cast<int64_t>(mix64(op.getKey())), 64), Value()};
}
static std::pair<Value, Value> emitKeyAt(StochasticRoundOp op, OpBuilder &builder, Location loc, Value element) {
  auto constant = [&](uint64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, static_cast<int64_t>(value), 64);
  };
  if (!op.getBegins())
    return {constant(mix64(op.getKey())), Value()};
  Value key = constant(mix64(op.getKeys()->front())), begin = constant(0);
  for (auto [from, ofTensor] : llvm::drop_begin(llvm::zip(*op.getBegins(), *op.getKeys()))) {
    Value start = constant(from);
    Value isIn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, element, start);
    key = arith::SelectOp::create(builder, loc, isIn, constant(mix64(ofTensor)), key);
    begin = arith::SelectOp::create(builder, loc, isIn, start, begin);
  }
  return {key, begin};
}

/// Calls `fn(element, random bits)` for all elements of `op`'s result. `scalars` are its seed, step, sample_base and
/// origin if it has one.
template <typename Op>
static void forEachDraw(Op op, ArrayRef<const HostTensor *> scalars, function_ref<void(int64_t, uint32_t)> fn) {
  int64_t seed = scalars[0]->ints()[0], step = scalars[1]->ints()[0], base = scalars[2]->ints()[0];
  int64_t dim = op.getBatchDim();
  SmallVector<int64_t> within = sampleShape(op), strides = rowMajorStrides(op.getWhole().value_or(within));
  forEachIndex(shapeOf(op.getY()), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t sample = dim < 0 ? 0 : base + index[dim] / within[dim], element = 0;
    for (size_t d = 0; d < index.size(); ++d)
      element += ((static_cast<int64_t>(d) == dim ? index[d] % within[d] : index[d]) +
                  (op.getOrigin() ? scalars[3]->ints()[d] : 0)) *
                 strides[d];
    auto [key, begin] = keyAt(op, element);
    fn(i, drawBits(seed, step, key, sample, element - begin));
  });
}

Value mlir::scrimp::emitDrawBits(OpBuilder &builder, Location loc, Value key, Value sample, Value step, Value element) {
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 64); };
  auto asWord = [&](Value value) {
    return PhiloxValue{&builder, loc, arith::TruncIOp::create(builder, loc, builder.getI32Type(), value)};
  };
  PhiloxValue block = asWord(arith::ShRUIOp::create(builder, loc, element, constant(2)));
  PhiloxValue keyHigh = asWord(arith::ShRUIOp::create(builder, loc, key, constant(32)));
  std::array<PhiloxValue, 4> words =
      philox4x32<PhiloxValue>({block, asWord(sample), asWord(step), block.constant(2)}, {asWord(key), keyHigh});
  // Word element % 4, by its two bits.
  auto bit = [&](int64_t mask) -> Value {
    Value masked = arith::AndIOp::create(builder, loc, element, constant(mask));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, masked, constant(0));
  };
  Value odd = bit(1), upper = bit(2);
  auto pick = [&](Value condition, Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  };
  return pick(upper, pick(odd, words[3].value, words[2].value), pick(odd, words[1].value, words[0].value));
}

/// The random bits (i32) of the element at `ivs`; `first` is the operand number of the seed.
template <typename Op>
static Value emitDraw(Op op, OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load, unsigned first) {
  Type wide = builder.getI64Type();
  int64_t dim = op.getBatchDim();
  SmallVector<int64_t> within = sampleShape(op);
  Value sample = arith::ConstantIntOp::create(builder, loc, 0, 64);
  SmallVector<Value> index(ivs);
  if (dim >= 0) {
    Value rest = emitIndex(builder, loc, within[dim]);
    sample = emitConvert(builder, loc, arith::DivUIOp::create(builder, loc, index[dim], rest), wide);
    sample = arith::AddIOp::create(builder, loc, sample, load(builder, first + 2, {}));
    index[dim] = arith::RemUIOp::create(builder, loc, index[dim], rest);
  }
  if (op.getOrigin())
    for (auto [d, at] : llvm::enumerate(index)) {
      Value from = load(builder, first + 3, {emitIndex(builder, loc, d)});
      at = arith::AddIOp::create(builder, loc, at, emitConvert(builder, loc, from, builder.getIndexType()));
    }
  Value element = emitConvert(builder, loc, emitLinearize(builder, loc, index, op.getWhole().value_or(within)), wide);
  auto [mixed, begin] = emitKeyAt(op, builder, loc, element);
  if (begin)
    element = arith::SubIOp::create(builder, loc, element, begin);
  Value key = arith::XOrIOp::create(builder, loc, load(builder, first, {}), mixed);
  return emitDrawBits(builder, loc, key, sample, load(builder, first + 1, {}), element);
}

//===-- dropout
//----------------------------------------------------------------------------------------------------===//

LogicalResult DropoutOp::verify() {
  if (failed(verifyProbability(*this, getP())))
    return failure();
  return verifySamples(*this);
}

OpFoldResult DropoutOp::fold(FoldAdaptor) { return getP().isZero() ? OpFoldResult(getX()) : OpFoldResult(); }

bool DropoutOp::isPointwiseOperand(unsigned operand) { return operand == 0; }

SmallVector<Value> DropoutOp::buildEvaluation(OpBuilder &) { return {getX()}; }

LogicalResult DropoutOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  double p = getP().convertToDouble(), scale = 1 / (1 - p);
  forEachDraw(*this, operands.drop_front(), [&](int64_t i, uint32_t bits) {
    results[0].floats()[i] = bits < dropBelow(p) ? 0 : operands[0]->floats()[i] * scale;
  });
  return success();
}

SmallVector<Value> DropoutOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  double p = getP().convertToDouble();
  ScalarExpr x = loadCompute(builder, loc, load, 0, ivs);
  Value bits = emitDraw(*this, builder, loc, ivs, load, 1);
  Value threshold = arith::ConstantIntOp::create(builder, loc, static_cast<int32_t>(dropBelow(p)), 32);
  ScalarExpr dropped = x.with(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, bits, threshold));
  return {roundToResult(builder, *this, 0, select(dropped, like(x, 0), x * (1 / (1 - p))).value)};
}

void DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                              MutableArrayRef<Value> operandGrads) {
  operandGrads[0] =
      DropoutOp::create(builder, getLoc(), getX().getType(), resultGrads[0], getSeed(), getStep(), getSampleBase(),
                        getOrigin(), getKeyAttr(), getBatchDimAttr(), getSamplesAttr(), getWholeAttr(), getPAttr());
}

//===-- random_uniform
//---------------------------------------------------------------------------------------------===//

LogicalResult RandomUniformOp::verify() { return verifySamples(*this); }

LogicalResult RandomUniformOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  double low = getLow().convertToDouble(), range = getHigh().convertToDouble() - low;
  forEachDraw(*this, operands,
              [&](int64_t i, uint32_t bits) { results[0].floats()[i] = low + range * ((bits >> 8) * 0x1p-24); });
  return success();
}

SmallVector<Value> RandomUniformOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  double low = getLow().convertToDouble(), range = getHigh().convertToDouble() - low;
  Value bits = arith::ShRUIOp::create(builder, loc, emitDraw(*this, builder, loc, ivs, load, 0),
                                      arith::ConstantIntOp::create(builder, loc, 8, 32));
  ScalarExpr u(builder, loc, emitConvert(builder, loc, bits, builder.getF64Type()));
  return {roundToResult(builder, *this, 0, (low + range * (u * 0x1p-24)).value)};
}

//===-- stochastic_round
//-------------------------------------------------------------------------------------------===//

LogicalResult StochasticRoundOp::verify() {
  ArrayRef<int64_t> begins = getBegins().value_or(ArrayRef<int64_t>()), keys = getKeys().value_or(ArrayRef<int64_t>());
  if (begins.size() != keys.size() || !llvm::is_sorted(begins) || (!begins.empty() && begins.front() != 0))
    return emitOpError() << "the tensors in it begin at " << begins << " and have " << keys.size()
                         << " keys, expected the first at 0, the others in order, and a key for each";
  if (!begins.empty() && tensorType(getY()).getRank() != 1)
    return emitOpError() << "several tensors must lie in rank 1, found " << getY().getType();
  return verifySamples(*this);
}

bool StochasticRoundOp::isPointwiseOperand(unsigned operand) { return operand == 0; }

LogicalResult StochasticRoundOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  forEachDraw(*this, operands.drop_front(), [&](int64_t i, uint32_t random) {
    auto x = static_cast<float>(operands[0]->floats()[i]);
    auto bits = llvm::bit_cast<uint32_t>(x);
    results[0].floats()[i] =
        std::isfinite(x) ? llvm::bit_cast<float>((bits + (random >> 16)) & 0xffff0000u) : static_cast<double>(x);
  });
  return success();
}

SmallVector<Value> StochasticRoundOp::emitElement(OpBuilder &builder, Location loc, ValueRange ivs, LoadFn load) {
  Type word = builder.getI32Type(), half = builder.getI16Type(), type = tensorType(getY()).getElementType();
  auto constant = [&](uint32_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, static_cast<int32_t>(value), 32);
  };
  Value x = load(builder, 0, ivs), bits = arith::BitcastOp::create(builder, loc, word, x);
  Value random = arith::ShRUIOp::create(builder, loc, emitDraw(*this, builder, loc, ivs, load, 1), constant(16));
  Value sum = arith::AddIOp::create(builder, loc, bits, random);
  Value upper = arith::TruncIOp::create(builder, loc, half, arith::ShRUIOp::create(builder, loc, sum, constant(16)));
  Value magnitude = arith::AndIOp::create(builder, loc, bits, constant(0x7fffffff));
  Value isFinite = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, magnitude, constant(0x7f800000));
  return {arith::SelectOp::create(builder, loc, isFinite, arith::BitcastOp::create(builder, loc, type, upper),
                                  emitConvert(builder, loc, x, type))};
}
