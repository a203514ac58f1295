// Every op against itself cut into pieces (BatchSplitOp), on the values of all gradient cases and of their gradients:
// what the pieces give must be, joined or added up, what the whole op gives.
#include "CheckGradients.h"
#include "DrawArguments.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Ops without a gradient, or along dimensions that the gradient cases have not.
static const char *const kMoreCases[] = {
    R"(func.func @main(%x: tensor<4x3xf64>, %i: tensor<4x3xi64>) -> tensor<4xi64> {
      %0 = scrimp.iota {dim = 0 : i64, start = 2.0, step = 3.0} : tensor<4x3xi64>
      %1 = scrimp.iota {dim = 1 : i64, start = 0.5, step = 0.25} : tensor<3x6xf64>
      %2 = scrimp.constant dense<3.0> : tensor<4x3xf64>
      %3 = scrimp.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
      %4 = scrimp.and %i, %0 : tensor<4x3xi64>
      %5 = scrimp.or %i, %4 : tensor<4x3xi64>
      %6 = scrimp.xor %i, %5 : tensor<4x3xi64>
      %7 = scrimp.compare lt, %i, %6 : tensor<4x3xi64> -> tensor<4x3xi1>
      %8 = scrimp.cast %7 : tensor<4x3xi1> -> tensor<4x3xi64>
      %9 = scrimp.arg_max %x {dim = 1 : i64} : tensor<4x3xf64> -> tensor<4xi64>
      %10 = scrimp.reduce sum, %i [0] : tensor<4x3xi64> -> tensor<3xi64>
      return %9 : tensor<4xi64> })",
    R"(func.func @main(%x: tensor<4x3xf64>, %w: tensor<3x8xf64>, %v: tensor<8x8xf64>, %u: tensor<8x3xf64>, %b: tensor<8xf64>, %r: tensor<4x8xf64>) -> tensor<8xf64> {
      %0 = scrimp.linear %x, %w plus(%r : tensor<4x8xf64>) bias(%b : tensor<8xf64>) relu : tensor<4x3xf64>, tensor<3x8xf64> -> tensor<4x8xf64>
      %1:2 = scrimp.linear %x, %w gelu : tensor<4x3xf64>, tensor<3x8xf64> -> tensor<4x8xf64>, tensor<4x8xf64>
      %2 = scrimp.linear %0, %v gelu_grad at(%r : tensor<4x8xf64>) {transpose_b} : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
      %3:2 = scrimp.linear %x, %0 sums b {transpose_a} : tensor<4x3xf64>, tensor<4x8xf64> -> tensor<3x8xf64>, tensor<8xf64>
      %4:2 = scrimp.linear %0, %x onto(%u : tensor<8x3xf64>) sums a {transpose_a} : tensor<4x8xf64>, tensor<4x3xf64> -> tensor<8x3xf64>, tensor<8xf64>
      %5 = scrimp.gelu_tanh_grad %0, %r : tensor<4x8xf64>
      return %3#1 : tensor<8xf64> })",
    R"(func.func @main(%seed: tensor<i64>, %step: tensor<i64>, %base: tensor<i64>, %x: tensor<3x8xf64>) -> tensor<3x8xf64> {
      %0 = scrimp.random_uniform %seed, %step, %base {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = 0.0,
        high = 1.0} : tensor<8x3xf64>
      %1 = scrimp.dropout %x, %seed, %step, %base {key = 2 : i64, batch_dim = 1 : i64, samples = 4 : i64, p = 0.5}
        : tensor<3x8xf64>
      return %1 : tensor<3x8xf64> })",
    R"(func.func @main(%seed: tensor<i64>, %step: tensor<i64>, %base: tensor<i64>, %x: tensor<8x3xf32>) -> tensor<8x3xbf16> {
      %0 = scrimp.stochastic_round %x, %seed, %step, %base {key = 3 : i64, batch_dim = 0 : i64, samples = 4 : i64}
        : tensor<8x3xf32> -> tensor<8x3xbf16>
      return %0 : tensor<8x3xbf16> })",
    R"(func.func @main(%x: tensor<12xf64>, %p: tensor<2x3xf64>) -> tensor<1xf64> {
      %0 = scrimp.view %x at 4 : tensor<12xf64> -> tensor<2x2xf64>
      %1 = scrimp.pack %p into %x at 6 : tensor<2x3xf64>, tensor<12xf64>
      %2 = scrimp.sum_squares %x : tensor<12xf64> -> tensor<1xf64>
      return %2 : tensor<1xf64> })",
    R"(func.func @main(%x: tensor<2x4x4x4xf64>) -> tensor<2x4x4x4xf64> {
      %0 = scrimp.im2col %x kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2
        : tensor<2x4x4x4xf64> -> tensor<2x12x12xf64>
      %1 = scrimp.col2im %0 kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2
        : tensor<2x12x12xf64> -> tensor<2x4x4x4xf64>
      return %1 : tensor<2x4x4x4xf64> })",
    R"(func.func @main(%x: tensor<4x3xf64>, %n: tensor<f64>) -> tensor<4x3xf64> {
      %0 = scrimp.check_finite %n of "w" : tensor<f64>
      %1 = scrimp.after %0, %x : tensor<f64>, tensor<4x3xf64>
      return %1 : tensor<4x3xf64> })",
    // Batches that are merged, split off and moved; halves of a batch that was joined of two.
    R"(func.func @main(%x: tensor<4x6x2xf64>, %y: tensor<4x6x2xf64>) -> tensor<4x6x2xf64> {
      %0 = scrimp.reshape %x : tensor<4x6x2xf64> -> tensor<24x2xf64>
      %1 = scrimp.reshape %0 : tensor<24x2xf64> -> tensor<4x2x3x2xf64>
      %2 = scrimp.reshape %x : tensor<4x6x2xf64> -> tensor<4x4x3xf64>
      %3 = scrimp.transpose %x [1, 0, 2] : tensor<4x6x2xf64> -> tensor<6x4x2xf64>
      %4 = scrimp.reshape %3 : tensor<6x4x2xf64> -> tensor<24x2xf64>
      %5 = scrimp.concat %x, %y {dim = 0 : i64} : tensor<4x6x2xf64>, tensor<4x6x2xf64> -> tensor<8x6x2xf64>
      %6 = scrimp.slice %5 [4, 0, 0] [1, 1, 1] : tensor<8x6x2xf64> -> tensor<4x6x2xf64>
      %7 = scrimp.pad %6 [4, 0, 0] [1, 1, 1] {value = 0.5} : tensor<4x6x2xf64> -> tensor<8x6x2xf64>
      %8 = scrimp.slice %0 [1, 0] [3, 1] : tensor<24x2xf64> -> tensor<8x2xf64>
      %9 = scrimp.pad %8 [2, 0] [3, 1] : tensor<8x2xf64> -> tensor<24x2xf64>
      return %6 : tensor<4x6x2xf64> })",
    R"(func.func @main(%u: tensor<3x2xf64>, %i: tensor<3x1xi64>) -> tensor<4x2xf64> {
      %0 = scrimp.constant dense<0.0> : tensor<4x2xf64>
      %1 = scrimp.scatter_nd add, %0, %i, %u : tensor<4x2xf64>, tensor<3x1xi64>, tensor<3x2xf64>
      return %1 : tensor<4x2xf64> })",
    R"(func.func @main(%x: tensor<4x6xf64>) -> tensor<2x6xf64> {
      %rank = scrimp.constant dense<1> : tensor<i64>
      %0 = scrimp.all_reduce sum, %x world 2 : tensor<4x6xf64>
      %1 = scrimp.wait %0 : tensor<4x6xf64>
      %2 = scrimp.all_reduce max, %x world 2 : tensor<4x6xf64>
      %3 = scrimp.wait %2 : tensor<4x6xf64>
      %4 = scrimp.reduce_scatter %x world 2 : tensor<4x6xf64> -> tensor<2x6xf64>
      %5 = scrimp.wait %4 : tensor<2x6xf64>
      %6 = scrimp.all_gather %x world 2 : tensor<4x6xf64> -> tensor<8x6xf64>
      %7 = scrimp.wait %6 : tensor<8x6xf64>
      %8 = scrimp.collective_broadcast %x root 1 world 2 : tensor<4x6xf64>
      %9 = scrimp.wait %8 : tensor<4x6xf64>
      %10 = scrimp.shard %x, %rank world 2 : tensor<4x6xf64> -> tensor<2x6xf64>
      return %10 : tensor<2x6xf64> })",
};

namespace {
/// A part of a tensor: [outer, samples begin to begin + count, rest] of dimension dim.
HostTensor take(const HostTensor &whole, BatchPlacement split, int64_t batch, int64_t begin, int64_t count) {
  HostTensor part(pieceType(whole.getType(), split, batch, count));
  int64_t rest = whole.getShape()[split.dim] / (split.outer * batch);
  SmallVector<int64_t> strides = rowMajorStrides(whole.getShape());
  forEachIndex(part.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t from = 0, d = index[split.dim], outer = d / (count * rest), within = d % (count * rest);
    for (auto [k, stride] : llvm::enumerate(strides))
      from += (static_cast<int64_t>(k) == split.dim ? (outer * batch + begin) * rest + within : index[k]) * stride;
    if (part.isFloat())
      part.floats()[i] = whole.floats()[from];
    else
      part.ints()[i] = whole.ints()[from];
  });
  return part;
}

class Pieces {
public:
  explicit Pieces(MLIRContext &context) : context(context) {}

  /// All ops of all functions of `text` and of its gradient.
  void check(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text.str();
    auto main = module->lookupSymbol<func::FuncOp>("main");
    checkFunction(main);
    Builder builder(&context);
    Operation *terminator = main.getBody().front().getTerminator();
    unsigned trainable = 0;
    for (BlockArgument argument : main.getArguments())
      if (isFloatTensor(argument) && !main.getArgAttr(argument.getArgNumber(), "test.fixed")) {
        main.setArgAttr(argument.getArgNumber(), ScrimpDialect::kName, builder.getStringAttr("p" + Twine(trainable++)));
        main.setArgAttr(argument.getArgNumber(), ScrimpDialect::kParam, builder.getStringAttr("trainable"));
      }
    // Results squared, so that no gradient is constant.
    OpBuilder body(terminator);
    Value loss;
    for (Value y : terminator->getOperands()) {
      if (!isFloatTensor(y))
        continue;
      SmallVector<int64_t> dims(tensorType(y).getRank());
      std::iota(dims.begin(), dims.end(), 0);
      Value sum = ReduceOp::create(body, y.getLoc(), ReduceKind::sum, MulOp::create(body, y.getLoc(), y, y), dims);
      loss = loss && loss.getType() == sum.getType() ? AddOp::create(body, y.getLoc(), loss, sum).getResult() : sum;
    }
    if (!loss || !trainable)
      return;
    eraseResults(main, llvm::BitVector(main.getNumResults(), true));
    appendResult(main, loss, ScrimpDialect::kOutput, builder.getStringAttr("loss"));
    PassManager passes(&context);
    passes.addPass(createAutodiff());
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (succeeded(passes.run(*module)))
      checkFunction(module->lookupSymbol<func::FuncOp>("train"));
  }

  llvm::StringSet<> seen;
  /// How often an op was cut, and found linear.
  int cuts = 0, linears = 0;

private:
  void checkFunction(func::FuncOp function) {
    llvm::DenseMap<Value, HostTensor> values;
    SmallVector<HostTensor> results;
    std::vector<HostTensor> arguments = drawArguments(function, /*seed=*/20);
    for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
      values[argument] = value;
    ASSERT_TRUE(succeeded(evalFunction(function, arguments, results, Rounding::Exact,
                                       [&](Value value, const HostTensor &tensor) { values[value] = tensor; })));
    for (Operation &op : function.getBody().front().without_terminator()) {
      auto split = dyn_cast<BatchSplitOp>(op);
      if (!split)
        continue;
      seen.insert(op.getName().getStringRef());
      SmallVector<HostTensor> operands, wholes;
      for (Value operand : op.getOperands())
        operands.push_back(values[operand]);
      for (Value result : op.getResults())
        wholes.push_back(values[result]);
      checkCuts(split, operands, wholes);
      checkLinearity(split, operands);
    }
  }

  void checkCuts(BatchSplitOp op, ArrayRef<HostTensor> operands, ArrayRef<HostTensor> wholes) {
    DimensionRule rule = op.getDimensionRule();
    checkSizes(op, rule);
    for (auto [number, factor] : llvm::enumerate(rule.factors)) {
      auto f = static_cast<unsigned>(number);
      if (factor.kind == FactorKind::Whole || factor.kind == FactorKind::Statistics || factor.size < 2)
        continue;
      checkCut(op, rule, {f, 1}, factor.size, operands, wholes);
      if (factor.size % 2 == 0 && factor.size > 2) {
        checkCut(op, rule, {f, 1}, factor.size / 2, operands, wholes);
        if (factor.kind == FactorKind::Split)
          checkCut(op, rule, {f, 2}, factor.size / 2, operands, wholes);
      }
    }
  }

  void checkSizes(Operation *op, const DimensionRule &rule) {
    auto check = [&](Value value, const DimensionFactors &dims) {
      ASSERT_EQ(dims.size(), shapeOf(value).size());
      for (auto [size, factors] : llvm::zip(shapeOf(value), dims)) {
        int64_t product = 1;
        for (unsigned number : factors)
          product *= rule.factors[number].size;
        EXPECT_TRUE(factors.empty() || product == size) << op->getName().getStringRef().str();
      }
    };
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      check(operand, dims);
    for (auto [result, dims] : llvm::zip(op->getResults(), rule.results))
      check(result, dims);
  }

  /// One sample, then the others.
  void checkCut(BatchSplitOp op, const DimensionRule &rule, BatchCut cut, int64_t batch, ArrayRef<HostTensor> operands,
                ArrayRef<HostTensor> wholes) {
    ++cuts;
    SCOPED_TRACE(op->getName().getStringRef().str() + ", factor " + std::to_string(cut.factor) + ", outer " +
                 std::to_string(cut.outer) + ", " + std::to_string(batch) + " samples");
    SmallVector<HostTensor> sums(wholes.size());
    for (auto [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, batch - 1}}) {
      SmallVector<HostTensor> parts;
      for (auto [operand, dims] : llvm::zip(operands, rule.operands)) {
        std::optional<BatchPlacement> split = splitBy(rule, dims, cut);
        if (split) {
          // The way back: what tells the analysis where to cut.
          EXPECT_EQ(cutOf(rule, dims, *split, batch), std::optional(cut));
        }
        parts.push_back(split ? take(operand, *split, batch, begin, count) : operand);
      }
      SmallVector<HostTensor> results = evalPiece(op, rule, cut, batch, begin, count, parts);
      ASSERT_EQ(results.size(), wholes.size());
      for (auto [i, whole] : llvm::enumerate(wholes)) {
        if (std::optional<BatchPlacement> split = splitBy(rule, rule.results[i], cut)) {
          compare(results[i], take(whole, *split, batch, begin, count));
          continue;
        }
        if (begin == 0) {
          sums[i] = results[i];
        } else {
          add(sums[i], results[i]);
          compare(sums[i], whole);
        }
      }
    }
  }

  SmallVector<HostTensor> evalPiece(BatchSplitOp op, const DimensionRule &rule, BatchCut cut, int64_t batch,
                                    int64_t begin, int64_t count, ArrayRef<HostTensor> parts) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(op.getLoc());
    SmallVector<Type> operandTypes, types;
    for (const HostTensor &part : parts)
      operandTypes.push_back(part.getType());
    for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
      std::optional<BatchPlacement> split = splitBy(rule, dims, cut);
      types.push_back(split ? pieceType(tensorType(result), *split, batch, count) : tensorType(result));
    }
    OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
    auto function = func::FuncOp::create(builder, op.getLoc(), "piece", builder.getFunctionType(operandTypes, types));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    auto scalar = RankedTensorType::get({}, builder.getI64Type());
    Value first = ConstantOp::create(builder, op.getLoc(), DenseElementsAttr::get(scalar, begin));
    int64_t perSample = rule.factors[cut.factor].size / (cut.outer * batch);
    SmallVector<Value> results = op.buildPiece(builder, block->getArguments(), types, {cut.factor, perSample, first});
    func::ReturnOp::create(builder, op.getLoc(), results);
    // What is in flight is no function's to take or give.
    EXPECT_TRUE(isa<AsyncOp>(*op) || !getEndedOps(op).empty() || succeeded(verify(*module)));
    SmallVector<HostTensor> values;
    EXPECT_TRUE(succeeded(evalFunction(function, parts, values, Rounding::Exact)));
    return values;
  }

  /// f(a + b, c) = f(a, c) + f(b, c), where that is finite.
  void checkLinearity(BatchSplitOp op, ArrayRef<HostTensor> operands) {
    unsigned n = operands.size();
    for (unsigned mask = 1; mask < (1u << std::min(n, 4u)); ++mask) {
      SmallVector<bool> sums(n);
      bool allFloat = true;
      for (unsigned i = 0; i < n; ++i) {
        sums[i] = i < 4 && (mask >> i & 1);
        allFloat &= !sums[i] || operands[i].isFloat();
      }
      if (!allFloat || !op.isLinearIn(sums))
        continue;
      ++linears;
      SmallVector<HostTensor> left(operands), right(operands);
      for (unsigned i = 0; i < n; ++i)
        for (int64_t j = 0; sums[i] && j < operands[i].size(); ++j) {
          left[i].floats()[j] = 0.25 * static_cast<double>(j % 5) - 0.3;
          right[i].floats()[j] -= left[i].floats()[j];
        }
      SmallVector<HostTensor> whole = eval(op, operands), a = eval(op, left), b = eval(op, right);
      SCOPED_TRACE(op->getName().getStringRef().str() + " is linear in " + std::to_string(mask));
      for (auto [w, x, y] : llvm::zip(whole, a, b)) {
        add(x, y);
        if (llvm::all_of(w.floats(), [](double value) { return std::isfinite(value); }))
          compare(x, w);
      }
    }
  }

  static SmallVector<HostTensor> eval(Operation *op, ArrayRef<HostTensor> operands) {
    SmallVector<const HostTensor *> pointers;
    for (const HostTensor &operand : operands)
      pointers.push_back(&operand);
    SmallVector<HostTensor> results;
    for (Type type : op->getResultTypes())
      results.emplace_back(cast<RankedTensorType>(type));
    EXPECT_TRUE(succeeded(cast<EvalOp>(op).eval(pointers, results)));
    return results;
  }

  static void add(HostTensor &sum, const HostTensor &value) {
    for (int64_t i = 0; i < sum.size(); ++i) {
      if (sum.isFloat())
        sum.floats()[i] += value.floats()[i];
      else
        sum.ints()[i] += value.ints()[i];
    }
  }

  static void compare(const HostTensor &found, const HostTensor &expected) {
    ASSERT_EQ(found.getType(), expected.getType());
    for (int64_t i = 0; i < found.size(); ++i) {
      double x = found.asDouble(i), y = expected.asDouble(i);
      if (x != y && !(std::isnan(x) && std::isnan(y)))
        EXPECT_NEAR(x, y, 1e-13 * (1 + std::abs(y))) << "element " << i;
    }
  }

  MLIRContext &context;
};

TEST(Pieces, OfEveryOpMakeTheWhole) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  context.allowUnregisteredDialects(); // test.range, test.fixed
  EqualRanks ranks(2);
  Pieces pieces(context);
  for (const std::string &text : gradientCaseTexts())
    pieces.check(text);
  for (const char *text : kMoreCases)
    pieces.check(text);
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    if (!op.hasInterface<KernelOp>())
      continue;
    std::string name = op.getStringRef().str();
    EXPECT_TRUE(op.hasInterface<BatchSplitOp>()) << name << ": say how it is split (BatchSplitOp)";
    EXPECT_TRUE(pieces.seen.contains(name)) << name << ": add a case of it";
  }
  EXPECT_GT(pieces.cuts, 500);
  EXPECT_GT(pieces.linears, 100);
}
} // namespace
