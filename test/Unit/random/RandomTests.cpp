// Philox against the published vectors of Random123 (kat_vectors), the layout of draws, and the code emitted for a draw
// against the interpreter.
#include "scrimp/Codegen/Philox.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::scrimp;

static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  std::array<PhiloxWord, 4> words = philox4x32<PhiloxWord>(
      {PhiloxWord{c[0]}, PhiloxWord{c[1]}, PhiloxWord{c[2]}, PhiloxWord{c[3]}}, {PhiloxWord{k[0]}, PhiloxWord{k[1]}});
  return {words[0].value, words[1].value, words[2].value, words[3].value};
}

TEST(Philox, MatchesPublishedVectors) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The layout is part of what a checkpoint resumes: it must not change.
TEST(Philox, DrawsHaveTheDocumentedLayout) {
  uint64_t seed = 0x0123456789abcdef, key = seed ^ mix64(5);
  for (uint64_t element : {0, 1, 6, 4000003}) {
    std::array<uint32_t, 4> block = philox({static_cast<uint32_t>(element / 4), 17, 9, 2},
                                           {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    EXPECT_EQ(drawBits(seed, /*step=*/9, /*opKey=*/5, /*sample=*/17, element), block[element % 4]);
  }
}

// Of SplitMix64's first output from the state 0.
TEST(Philox, MixesAsSplitMix64) { EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFu); }

/// The value that code emitted for constants folds to.
static double folded(Value value) {
  SmallVector<OpFoldResult> results;
  Operation *op = value.getDefiningOp();
  Attribute constant;
  if (!matchPattern(value, m_Constant(&constant))) {
    for (Value operand : op->getOperands())
      folded(operand);
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      Attribute attr;
      EXPECT_TRUE(matchPattern(operand, m_Constant(&attr)));
      operands.push_back(attr);
    }
    EXPECT_TRUE(succeeded(op->fold(operands, results)) && results.size() == 1) << op->getName().getStringRef().str();
    if (results.empty())
      return 0;
    OpBuilder builder(op);
    Operation *replacement;
    if (auto other = dyn_cast<Value>(results[0])) {
      replacement = other.getDefiningOp();
      constant = cast<arith::ConstantOp>(replacement).getValue();
    } else {
      constant = cast<Attribute>(results[0]);
      replacement = arith::ConstantOp::create(builder, op->getLoc(), cast<TypedAttr>(constant));
    }
    value.replaceAllUsesWith(replacement->getResult(0));
  }
  if (auto number = dyn_cast<FloatAttr>(constant))
    return number.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(constant).getInt());
}

/// Emits every element of `op` with `operands` loaded as constants and compares with the interpreter, bit for bit.
template <typename Op> static void expectEmittedEqualsEvaluated(Op op, ArrayRef<HostTensor> operands) {
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &operand : operands)
    pointers.push_back(&operand);
  SmallVector<HostTensor> expected{HostTensor(tensorType(op.getY()))};
  ASSERT_TRUE(succeeded(op.eval(pointers, expected)));
  expected[0].roundToType();
  forEachIndex(shapeOf(op.getY()), [&](ArrayRef<int64_t> index, int64_t i) {
    OwningOpRef<ModuleOp> scratch = ModuleOp::create(op.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(scratch->getBody());
    SmallVector<Value> ivs;
    for (int64_t at : index)
      ivs.push_back(emitIndex(builder, op.getLoc(), at));
    auto load = [&](OpBuilder &b, unsigned operand, ValueRange) -> Value {
      Type type = operands[operand].getType().getElementType();
      if (operands[operand].isFloat())
        return emitConstant(b, op.getLoc(), type, operands[operand].floats()[i]);
      return arith::ConstantOp::create(b, op.getLoc(), b.getIntegerAttr(type, operands[operand].ints()[0]));
    };
    SmallVector<Value> values = op.emitElement(builder, op.getLoc(), ivs, load);
    EXPECT_EQ(folded(values[0]), expected[0].floats()[i]) << "element " << i;
  });
}

class EmittedDraws : public testing::Test {
protected:
  EmittedDraws() : module(nullptr) {
    context.loadDialect<ScrimpDialect, arith::ArithDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
    for (int64_t value : {int64_t{-7}, int64_t{0x500000003}, int64_t{0x7fffffff0}}) {
      scalars.push_back(HostTensor(RankedTensorType::get({}, IntegerType::get(&context, 64))));
      scalars.back().ints()[0] = value;
    }
  }
  Value scalar(OpBuilder &builder, int i) {
    return ConstantOp::create(builder, builder.getUnknownLoc(), scalars[i].toAttr());
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallVector<HostTensor> scalars; // seed, step, sample_base
};

TEST_F(EmittedDraws, DropoutEqualsTheInterpreter) {
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  for (auto [dim, samples] : {std::pair<int64_t, int64_t>(0, 2), {1, 3}, {1, 1}, {-1, 1}}) {
    auto type = RankedTensorType::get({4, 3, 2}, builder.getF32Type());
    Value x = splatConstant(builder, builder.getUnknownLoc(), type, 0.3);
    auto op =
        DropoutOp::create(builder, builder.getUnknownLoc(), type, x, scalar(builder, 0), scalar(builder, 1),
                          scalar(builder, 2), Value(), int64_t{11}, dim, samples, DenseI64ArrayAttr(), APFloat(0.4));
    HostTensor values = HostTensor::splat(type, 0.25);
    expectEmittedEqualsEvaluated(op, {values, scalars[0], scalars[1], scalars[2]});
  }
}

TEST_F(EmittedDraws, UniformEqualsTheInterpreter) {
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  // An inexact rounding to f32 would not fold.
  auto type = RankedTensorType::get({2, 9}, builder.getF64Type());
  auto op = RandomUniformOp::create(builder, builder.getUnknownLoc(), type, scalar(builder, 0), scalar(builder, 1),
                                    scalar(builder, 2), Value(), int64_t{12}, int64_t{0}, int64_t{2},
                                    DenseI64ArrayAttr(), APFloat(-0.3), APFloat(1.7));
  expectEmittedEqualsEvaluated(op, scalars);
}
