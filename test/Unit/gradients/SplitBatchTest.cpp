// scrimp-split-batch and scrimp-partition on every gradient case, each argument's every dimension taken for the batch
// in turn: loss and gradients of micro-batches, and of ranks, are those of the whole batch.
#include "CheckGradients.h"
#include "DrawArguments.h"

#include "scrimp/Analysis/BatchAnalysis.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
class SplitCases {
public:
  explicit SplitCases(MLIRContext &context) : context(context) {}

  void check(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    auto main = module->lookupSymbol<func::FuncOp>("main");
    for (BlockArgument argument : main.getArguments())
      for (auto [dim, size] : llvm::enumerate(shapeOf(argument)))
        if (size > 1)
          checkAlong(*module, argument.getArgNumber(), dim, size);
  }

  int splits = 0, refusals = 0, partitions = 0;

private:
  void checkAlong(ModuleOp source, unsigned input, int64_t dim, int64_t batch) {
    OwningOpRef<ModuleOp> whole = source.clone();
    auto main = whole->lookupSymbol<func::FuncOp>("main");
    Builder builder(&context);
    bool any = false;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      main.setArgAttr(i, ScrimpDialect::kName, builder.getStringAttr("arg" + Twine(i)));
      if (i == input) {
        main.setArgAttr(i, ScrimpDialect::kInput, builder.getI64IntegerAttr(dim));
      } else if (isFloatTensor(main.getArgument(i)) && !main.getArgAttr(i, "test.fixed")) {
        main.setArgAttr(i, ScrimpDialect::kParam, builder.getStringAttr("trainable"));
        any = true;
      }
    }
    buildLoss(main);
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    PassManager autodiff(&context);
    autodiff.addPass(createAutodiff());
    // Nothing to train: the loss alone is split.
    if (any && failed(autodiff.run(*whole)))
      return;
    auto function = *whole->getOps<func::FuncOp>().begin();
    std::vector<HostTensor> arguments = drawArguments(function, /*seed=*/7);
    SmallVector<HostTensor> expected;
    ASSERT_TRUE(succeeded(evalFunction(function, arguments, expected, Rounding::Exact)));
    for (int64_t world : {int64_t(2), int64_t(3), batch})
      if (world <= batch) {
        SCOPED_TRACE(std::to_string(world) + " ranks along dimension " + std::to_string(dim) + " of argument " +
                     std::to_string(input));
        checkRanks(*whole, input, dim, world, arguments, expected);
      }
    // A parameter along what is taken for the batch has a gradient for every sample.
    BatchAnalysis analysis(function);
    bool hasResultsBySample = llvm::any_of(function.getBody().front().getTerminator()->getOperands(), [&](Value v) {
      return analysis.getPlacement(v).kind == BatchPlacement::Split;
    });
    if (!analysis.getProblems().empty() || hasResultsBySample) {
      ++refusals;
      return;
    }
    for (int64_t count : {int64_t(2), int64_t(3), batch}) {
      if (count > batch)
        continue;
      SCOPED_TRACE(std::to_string(count) + " parts along dimension " + std::to_string(dim) + " of argument " +
                   std::to_string(input));
      OwningOpRef<ModuleOp> parts = whole->clone();
      PassManager split(&context);
      SplitBatchOptions options;
      options.microBatches = count;
      split.addPass(createSplitBatch(options));
      split.addPass(createCanonicalizerPass());
      split.addPass(createCSEPass());
      ASSERT_TRUE(succeeded(split.run(*parts)));
      SmallVector<HostTensor> found;
      ASSERT_TRUE(succeeded(evalFunction(*parts->getOps<func::FuncOp>().begin(), arguments, found, Rounding::Exact)));
      compare(found, expected);
      ++splits;
    }
  }

  /// Every rank has its samples of the input; gradients are what the ranks' parts add up to, all else is the same on
  /// each.
  void checkRanks(ModuleOp whole, unsigned input, int64_t dim, int64_t world, ArrayRef<HostTensor> arguments,
                  ArrayRef<HostTensor> expected) {
    // Where the ranks do not divide the batch, only what is masked can be shared out.
    int64_t batch = arguments[input].getType().getDimSize(dim);
    OwningOpRef<ModuleOp> ranks = whole.clone();
    PassManager passes(&context);
    PartitionOptions options;
    options.world = world;
    options.batchStats = "global";
    passes.addPass(createPartition(options));
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    if (batch % world != 0) {
      EXPECT_TRUE(failed(passes.run(*ranks)));
      return;
    }
    ASSERT_TRUE(succeeded(passes.run(*ranks)));
    auto function = *ranks->getOps<func::FuncOp>().begin();
    std::vector<SmallVector<HostTensor>> found(world);
    ASSERT_TRUE(succeeded(evalOnRanks(world, [&](int64_t rank) {
      std::vector<HostTensor> own(arguments.begin(), arguments.end());
      own[input] = takeShare(arguments[input], tensorType(function.getArgument(input)), dim, rank);
      for (unsigned i = own.size(); i < function.getNumArguments(); ++i)
        own.emplace_back(RankedTensorType::get({}, IntegerType::get(&context, 64))).ints()[0] =
            argumentName(function, i) == "rank" ? rank : rank * (batch / world);
      return evalFunction(function, own, found[rank], Rounding::Exact);
    })));
    SmallVector<HostTensor> sums(found[0]);
    for (int64_t rank = 1; rank < world; ++rank)
      for (unsigned i = 0; i < sums.size(); ++i) {
        if (!function.getResultAttr(i, ScrimpDialect::kGradient)) {
          compare(found[rank][i], found[0][i]);
          continue;
        }
        for (auto [sum, part] : llvm::zip(sums[i].floats(), found[rank][i].floats()))
          sum += part;
      }
    compare(sums, expected);
    ++partitions;
  }

  static HostTensor takeShare(const HostTensor &whole, RankedTensorType type, int64_t dim, int64_t rank) {
    HostTensor share(type);
    int64_t size = type.getDimSize(dim), inner = productOf(type.getShape().drop_front(dim + 1));
    for (int64_t i = 0; i < share.size(); ++i) {
      int64_t outer = i / (size * inner), at = i / inner % size;
      int64_t from = (outer * whole.getType().getDimSize(dim) + rank * size + at) * inner + i % inner;
      if (share.isFloat())
        share.floats()[i] = whole.floats()[from];
      else
        share.ints()[i] = whole.ints()[from];
    }
    return share;
  }

  /// The sum over all float results of their squares, each weighted by a constant of its own.
  void buildLoss(func::FuncOp main) {
    OpBuilder body(main.getBody().front().getTerminator());
    Location loc = main.getLoc();
    Value loss = splatConstant(body, loc, RankedTensorType::get({}, body.getF64Type()), 0);
    for (Value y : main.getBody().front().getTerminator()->getOperands()) {
      if (!isFloatTensor(y))
        continue;
      HostTensor weights(tensorType(y));
      for (int64_t i = 0; i < weights.size(); ++i)
        weights.floats()[i] = 0.5 + 0.25 * static_cast<double>(i % 7);
      Value weight = ConstantOp::create(body, loc, cast<ElementsAttr>(Attribute(weights.toAttr())));
      SmallVector<int64_t> dims(tensorType(y).getRank());
      std::iota(dims.begin(), dims.end(), 0);
      Value square = MulOp::create(body, loc, MulOp::create(body, loc, y, y), weight);
      Value sum = ReduceOp::create(body, loc, ReduceKind::sum, square, dims);
      if (sum.getType() != loss.getType())
        sum = CastOp::create(body, loc, loss.getType(), sum);
      loss = AddOp::create(body, loc, loss, sum);
    }
    eraseResults(main, llvm::BitVector(main.getNumResults(), true));
    appendResult(main, loss, ScrimpDialect::kOutput, body.getStringAttr("loss"));
  }

  static void compare(ArrayRef<HostTensor> found, ArrayRef<HostTensor> expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (auto [result, pair] : llvm::enumerate(llvm::zip(found, expected))) {
      auto &[a, b] = pair;
      ASSERT_EQ(a.getType(), b.getType());
      double largest = 1;
      for (double value : b.floats())
        if (std::isfinite(value))
          largest = std::max(largest, std::abs(value));
      for (int64_t i = 0; i < a.size(); ++i) {
        double x = a.asDouble(i), y = b.asDouble(i);
        if (x != y && !(std::isnan(x) && std::isnan(y)))
          EXPECT_NEAR(x, y, 1e-12 * largest) << "result " << result << ", element " << i;
      }
    }
  }

  MLIRContext &context;
};

TEST(SplitBatch, MicroBatchesAddUpToTheBatch) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  context.allowUnregisteredDialects(); // test.range, test.fixed
  SplitCases cases(context);
  for (const std::string &text : gradientCaseTexts()) {
    SCOPED_TRACE(text);
    cases.check(text);
  }
  EXPECT_GT(cases.splits, 200) << cases.refusals << " do not split";
  EXPECT_GT(cases.partitions, 300);
}
} // namespace
