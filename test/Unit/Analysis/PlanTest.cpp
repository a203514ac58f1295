// Random graphs are scheduled and planned; the plan's own verifier, which runs in every compile, judges. Besides, plans
// are broken on purpose, and the verifier has to notice.
#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Analysis/PlanVerifier.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include "gtest/gtest.h"

#include <ctime>
#include <random>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

/// Builds @train and @eval over `count` random ops: members of a bucket that are read at random, loops with
/// accumulators and loops in them (at most `loops`), a loss, gradients by arbitrary formulas, updates in place. For more
/// than one rank with collectives, several in flight at a time, and ranks' parts.
class RandomGraph {
public:
  RandomGraph(MLIRContext &context, unsigned seed, int count, int loops = std::numeric_limits<int>::max(),
              int64_t world = 1)
      : random(seed), count(count), loops(loops), world(world), builder(&context), loc(builder.getUnknownLoc()) {}

  OwningOpRef<ModuleOp> build() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    for (StringRef name : {"train", "eval"}) {
      builder.setInsertionPointToEnd(module->getBody());
      buildFunction(name);
    }
    return module;
  }

private:
  static constexpr int64_t kMember = 96, kMembers = 6;

  int pick(int below) { return random() % below; }
  Value pickValue() { return values[values.size() - 1 - pick(std::min<int>(values.size(), pick(4) ? 6 : 60))]; }
  RankedTensorType type(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getF32Type()); }
  RankedTensorType pickType() {
    static const int64_t sizes[] = {0, 1, 3, 8, 16, 40};
    return type({sizes[pick(6)], sizes[1 + pick(5)]});
  }
  Value sumOf(Value x) { return ReduceOp::create(builder, loc, ReduceKind::sum, x, ArrayRef<int64_t>{0, 1}); }

  void buildFunction(StringRef name) {
    bool isTrain = name == "train";
    SmallVector<Type> results{type({})};
    if (isTrain)
      results.push_back(type({kMember * kMembers}));
    auto function = func::FuncOp::create(
        builder, loc, name, builder.getFunctionType({type({16, 40}), type({kMember * kMembers})}, results));
    if (world > 1) {
      auto scalar = RankedTensorType::get({}, builder.getI64Type());
      (void)function.insertArgument(2, scalar, builder.getDictionaryAttr({}), loc);
      function.setArgAttr(2, "scrimp.scalar", builder.getStringAttr("rank"));
    }
    function.setArgAttr(0, "scrimp.name", builder.getStringAttr("x"));
    function.setArgAttr(0, "scrimp.input", builder.getI64IntegerAttr(0));
    function.setArgAttr(1, "scrimp.name", builder.getStringAttr("bucket"));
    function.setArgAttr(1, "scrimp.param", builder.getStringAttr("trainable"));
    function.setResultAttr(0, "scrimp.output", builder.getStringAttr("loss"));
    if (isTrain)
      function.setResultAttr(1, "scrimp.updates", builder.getI64IntegerAttr(1));
    builder.setInsertionPointToStart(function.addEntryBlock());
    Value bucket = function.getArgument(1);
    SmallVector<Value> members;
    values.assign(1, function.getArgument(0));
    for (int64_t m = 0; m < kMembers; ++m) {
      members.push_back(ViewOp::create(builder, loc, type({kMember}), bucket, m * kMember));
      values.push_back(ReshapeOp::create(builder, loc, type({8, 12}), members[m]));
    }
    rank = world > 1 ? function.getArgument(2) : Value();
    for (int i = 0; i < count; ++i)
      addOp();
    waitForAll();
    SmallVector<Value> returned{sumOf(pickValue())};
    if (isTrain) {
      // All gradients come before the first update: some read other members.
      SmallVector<Value> gradients;
      for (Value member : members) {
        Value factor = BroadcastOp::create(builder, loc, type({kMember}), sumOf(pickValue()));
        gradients.push_back(MulOp::create(builder, loc, member, factor));
      }
      for (auto [m, member] : llvm::enumerate(members))
        bucket = PackOp::create(builder, loc, bucket, SubOp::create(builder, loc, member, gradients[m]), m * kMember);
      returned.push_back(bucket);
    }
    func::ReturnOp::create(builder, loc, returned);
  }

  void addOp() {
    Value x = pickValue();
    if (world > 1 && pick(3) == 0)
      return addCollective(x);
    switch (pick(8)) {
    case 0:
      values.push_back(ExpOp::create(builder, loc, x));
      return;
    case 1:
      values.push_back(TransposeOp::create(builder, loc, x, ArrayRef<int64_t>{1, 0}));
      return;
    case 2:
      for (int tries = 0; tries < 20; ++tries)
        if (Value y = pickValue(); y.getType() == x.getType()) {
          values.push_back(AddOp::create(builder, loc, x, y));
          return;
        }
      values.push_back(TanhOp::create(builder, loc, x));
      return;
    case 3:
      values.push_back(MatmulOp::create(builder, loc, x, x, false, true));
      return;
    case 4:
      values.push_back(BroadcastOp::create(builder, loc, pickType(), sumOf(x)));
      return;
    case 5:
      values.push_back(ReshapeOp::create(builder, loc, type({1, tensorType(x).getNumElements()}), x));
      return;
    case 6:
      addKernel(x);
      return;
    default:
      addLoop(x);
    }
  }

  /// Starts something, waits for what has been started, or takes this rank's part.
  void addCollective(Value x) {
    bool divides = shapeOf(x)[0] % world == 0;
    switch (pick(6)) {
    case 0:
      started.push_back(AllReduceOp::create(builder, loc, ReduceKind::sum, x, world));
      return;
    case 1:
      if (tensorType(x).getNumElements() < 2000)
        started.push_back(AllGatherOp::create(builder, loc, x, world));
      return;
    case 2:
      if (divides)
        started.push_back(ReduceScatterOp::create(builder, loc, x, world));
      return;
    case 3:
      if (divides && depth == 0)
        values.push_back(ShardOp::create(builder, loc, x, rank, world));
      return;
    default:
      if (!started.empty())
        waitFor(pick(started.size()));
    }
  }

  void waitFor(unsigned number) {
    values.push_back(WaitOp::create(builder, loc, started[number]));
    started.erase(started.begin() + number);
  }

  void waitForAll() {
    while (!started.empty())
      waitFor(0);
  }

  /// Adds up over pieces of x something random of each, together with something of a value from outside. Every argument
  /// of the body is read, so that every byte of theirs counts.
  void addLoop(Value x) {
    int64_t rows = shapeOf(x)[0], iterations = rows % 3 == 0 ? 3 : 2;
    if (depth == 2 || rows % iterations || loops-- <= 0)
      return;
    Value shared = pickValue();
    SmallVector<Value> inits{ExpOp::create(builder, loc, pickValue()), TanhOp::create(builder, loc, x)};
    SmallVector<int64_t> pieceShape(shapeOf(x));
    pieceShape[0] /= iterations;
    auto loop =
        AccumulateOp::create(builder, loc, iterations, ValueRange{shared}, ValueRange{x}, ArrayRef<int64_t>{0}, inits);
    OpBuilder::InsertionGuard guard(builder);
    Type index = RankedTensorType::get({}, builder.getI64Type());
    Block *body = builder.createBlock(
        &loop.getBody(), {}, {index, shared.getType(), type(pieceShape), inits[0].getType(), inits[1].getType()},
        SmallVector<Location>(5, loc));
    ++depth;
    std::vector<Value> around = std::exchange(values, {body->getArgument(1), body->getArgument(2)}),
                       startedAround = std::exchange(started, {});
    for (int i = pick(6); i >= 0; --i)
      addOp();
    waitForAll();
    Value sum = AddOp::create(builder, loc, sumOf(body->getArgument(1)), sumOf(body->getArgument(2)));
    sum = MulOp::create(builder, loc, sum, CastOp::create(builder, loc, type({}), body->getArgument(0)));
    sum = AddOp::create(builder, loc, sum, sumOf(pickValue()));
    SmallVector<Value> yielded;
    for (Value accumulator : body->getArguments().take_back(2))
      yielded.push_back(
          AddOp::create(builder, loc, accumulator, BroadcastOp::create(builder, loc, accumulator.getType(), sum)));
    YieldOp::create(builder, loc, yielded);
    --depth;
    values = std::move(around);
    started = std::move(startedAround);
    llvm::append_range(values, loop.getResults());
  }

  /// A kernel with two results, one of which is perhaps read by nobody. Sometimes one is a transpose.
  void addKernel(Value x) {
    auto kernel = KernelRegionOp::create(builder, loc, TypeRange{x.getType(), x.getType()}, ValueRange{x});
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&kernel.getBody(), {}, x.getType(), loc);
    Value a = TanhOp::create(builder, loc, body->getArgument(0)), b;
    if (pick(2) || shapeOf(x)[0] != shapeOf(x)[1])
      b = NegOp::create(builder, loc, a);
    else
      b = TransposeOp::create(builder, loc, a, ArrayRef<int64_t>{1, 0});
    YieldOp::create(builder, loc, ValueRange{a, b});
    values.push_back(kernel.getResult(pick(2)));
  }

  std::mt19937 random;
  int count, loops, depth = 0;
  int64_t world;
  OpBuilder builder;
  Location loc;
  Value rank;
  std::vector<Value> values, started;
};

struct Plan : testing::Test {
  Plan() {
    static const bool registered = (registerScrimpPasses(), true);
    (void)registered;
    context.loadDialect<ScrimpDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) { lastError = diagnostic.str(); });
  }

  LogicalResult run(ModuleOp module, StringRef pipeline) {
    PassManager manager(&context);
    std::string error;
    llvm::raw_string_ostream stream(error);
    if (failed(parsePassPipeline(pipeline, manager, stream)))
      ADD_FAILURE() << error;
    return manager.run(module);
  }

  int64_t planned(ModuleOp module, StringRef name) {
    return cast<IntegerAttr>(module->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan).get(name)).getInt();
  }

  MLIRContext context;
  std::string lastError;
};

constexpr StringLiteral kPlan = "scrimp-plan-memory", kBoth = "func.func(scrimp-schedule),scrimp-plan-memory";
} // namespace

TEST_F(Plan, RandomGraphsAreValidAndNearTheBound) {
  double worst = 1, saved = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    OwningOpRef<ModuleOp> module = RandomGraph(context, seed, 5 + seed).build();
    ASSERT_TRUE(succeeded(verify(*module))) << seed << ": " << lastError;
    ASSERT_TRUE(succeeded(run(*module, kPlan))) << seed << ": " << lastError;
    int64_t given = planned(*module, "lower_bound_bytes");
    ASSERT_TRUE(succeeded(run(*module, kBoth))) << seed << ": " << lastError;
    int64_t peak = planned(*module, "arena_bytes"), bound = planned(*module, "lower_bound_bytes");
    EXPECT_LE(bound, given) << seed;
    EXPECT_GE(peak, bound) << seed;
    EXPECT_LE(peak, 1.25 * bound) << seed;
    worst = std::max(worst, double(peak) / bound);
    saved += 1 - double(bound) / given;
  }
  RecordProperty("worst_peak_over_bound", std::to_string(worst));
  RecordProperty("mean_saved_by_schedule", std::to_string(saved / 150));
}

// Starting early and waiting late never costs memory, and what is in flight is never touched.
TEST_F(Plan, RandomGraphsOfRanksAreValid) {
  int moved = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    OwningOpRef<ModuleOp> module = RandomGraph(context, seed, 20 + seed, /*loops=*/8, /*world=*/2 + seed % 3).build();
    ASSERT_TRUE(succeeded(verify(*module))) << seed << ": " << lastError;
    ASSERT_TRUE(succeeded(run(*module, kPlan))) << seed << ": " << lastError;
    OwningOpRef<ModuleOp> overlapped = module->clone();
    ASSERT_TRUE(succeeded(run(*module, "func.func(scrimp-schedule{overlap=false}),scrimp-plan-memory")))
        << seed << ": " << lastError;
    ASSERT_TRUE(succeeded(run(*overlapped, kBoth))) << seed << ": " << lastError;
    EXPECT_LE(planned(*overlapped, "lower_bound_bytes"), planned(*module, "lower_bound_bytes")) << seed;
    auto distance = [](ModuleOp of) {
      int64_t ops = 0;
      of.walk([&](AsyncOp start) {
        for (Operation *at = start; at && at != start.getEnd(); at = at->getNextNode())
          ops += !isViewLike(at);
      });
      return ops;
    };
    EXPECT_GE(distance(*overlapped), distance(*module)) << seed;
    moved += distance(*overlapped) > distance(*module);
  }
  EXPECT_GT(moved, 50);
}

constexpr StringLiteral kInFlight = R"mlir(
  func.func @train(%x: tensor<32xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                   %rank: tensor<i64> {scrimp.scalar = "rank"}) -> (tensor<f32> {scrimp.output = "loss"}) {
    %g = scrimp.exp %x : tensor<32xf32> loc("g")
    %flying = scrimp.reduce_scatter %g world 2 : tensor<32xf32> -> tensor<16xf32> loc("scatter")
    %a = scrimp.tanh %x : tensor<32xf32> loc("a")
    %b = scrimp.neg %a : tensor<32xf32> loc("b")
    %part = scrimp.wait %flying : tensor<16xf32> loc("part")
    %mine = scrimp.shard %b, %rank world 2 : tensor<32xf32> -> tensor<16xf32>
    %c = scrimp.mul %part, %mine : tensor<16xf32> loc("c")
    %h = scrimp.exp %b : tensor<32xf32> loc("h")
    %reducing = scrimp.all_reduce sum, %h world 2 : tensor<32xf32> loc("reduce")
    %sum = scrimp.wait %reducing : tensor<32xf32> loc("sum")
    %l0 = scrimp.reduce sum, %c [0] : tensor<16xf32> -> tensor<f32> loc("l0")
    %l1 = scrimp.reduce sum, %sum [0] : tensor<32xf32> -> tensor<f32> loc("l1")
    %loss = scrimp.add %l0, %l1 : tensor<f32>
    return %loss : tensor<f32>
  }
)mlir";

// A buffer in flight lives until its wait, whoever else reads it; a reduction in place holds its operand's bytes too.
TEST_F(Plan, BuffersInFlightLiveUntilTheirWait) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kInFlight, &context);
  ASSERT_TRUE(module) << lastError;
  ASSERT_TRUE(succeeded(run(*module, kPlan))) << lastError;
  std::map<std::string, Operation *> ops;
  module->walk([&](Operation *op) { ops[userNameOf(op)] = op; });
  auto function = module->lookupSymbol<func::FuncOp>("train");
  FailureOr<Aliases> aliases = Aliases::compute(function);
  MemoryUse use = computeMemoryUse(function, *aliases);
  auto positionOf = [&](StringRef name) { return llvm::find(use.ops, ops.at(name.str())) - use.ops.begin(); };
  auto blockOf = [&](StringRef name) -> TransientBlock & {
    for (TransientBlock &block : use.transient)
      for (const Tenant &tenant : block.tenants)
        if (tenant.root == ops.at(name.str())->getResult(0))
          return block;
    ADD_FAILURE() << name.str();
    return use.transient.front();
  };
  EXPECT_EQ(blockOf("g").last, positionOf("part"));
  EXPECT_EQ(blockOf("scatter").first, positionOf("scatter"));
  EXPECT_EQ(blockOf("scatter").tenants[0].last, positionOf("c"));
  // In place: one block, from h to the last reader of the sum.
  EXPECT_EQ(&blockOf("h"), &blockOf("reduce"));
  EXPECT_EQ(blockOf("h").last, positionOf("l1"));

  auto offsetOf = [&](StringRef name) {
    return ops.at(name.str())->getAttrOfType<DenseI64ArrayAttr>("scrimp.offsets")[0];
  };
  auto expectFault = [&](StringRef name, int64_t offset, StringRef message) {
    Operation *op = ops.at(name.str());
    Attribute before = op->getAttr("scrimp.offsets");
    op->setAttr("scrimp.offsets", DenseI64ArrayAttr::get(&context, offset));
    EXPECT_TRUE(failed(verifyPlan(*module)));
    EXPECT_EQ(lastError, message.str());
    op->setAttr("scrimp.offsets", before);
    EXPECT_TRUE(succeeded(verifyPlan(*module))) << lastError;
  };
  // Behind its last reader, but still being sent.
  expectFault("a", offsetOf("g"), "'a' is written over 'g', which 'scatter' holds until it has ended");
  expectFault("b", offsetOf("scatter"), "'b' is written over 'scatter', which 'scatter' holds until it has ended");
}

// The last rank's part, too, must be what the graph means: here only that part is spoilt.
TEST_F(Plan, VerifierRunsTheLastRank) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"mlir(
  func.func @train(%x: tensor<48xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                   %rank: tensor<i64> {scrimp.scalar = "rank"}) -> (tensor<f32> {scrimp.output = "loss"}) {
    %g = scrimp.exp %x : tensor<48xf32> loc("g")
    %part = scrimp.shard %g, %rank world 3 : tensor<48xf32> -> tensor<16xf32>
    %h = scrimp.tanh %part : tensor<16xf32> loc("h")
    %c = scrimp.mul %part, %h : tensor<16xf32> loc("c")
    %loss = scrimp.reduce sum, %c [0] : tensor<16xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  )mlir",
                                                                 &context);
  ASSERT_TRUE(module) << lastError;
  ASSERT_TRUE(succeeded(run(*module, kPlan))) << lastError;
  std::map<std::string, Operation *> ops;
  module->walk([&](Operation *op) { ops[userNameOf(op)] = op; });
  int64_t whole = ops.at("g")->getAttrOfType<DenseI64ArrayAttr>("scrimp.offsets")[0];
  // h over the part of 64 bytes of rank 2, while that is read. Ranks 0 and 1 would not notice.
  ops.at("h")->setAttr("scrimp.offsets", DenseI64ArrayAttr::get(&context, whole + 128));
  EXPECT_TRUE(failed(verifyPlan(*module)));
  EXPECT_EQ(lastError, "reads 'scrimp.shard' after 'h' has been written over it");
}

/// Whether a body needs less and less of the value as it runs: an accumulator's contents are dead from where they are
/// read to where the new ones are written, and a piece once its iteration is done.
static bool isUsedUp(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isViewLike(user))
      return llvm::any_of(user->getResults(), isUsedUp);
    auto body = dyn_cast<BodyOp>(user);
    return body && llvm::any_of(body.getBodyBlock().getArguments(), [&](BlockArgument argument) {
             BodyArgument means = body.getBodyArgument(argument.getArgNumber());
             return means.operand == use.getOperandNumber() &&
                    (means.kind == BodyArgument::Carried || means.kind == BodyArgument::Piece);
           });
  });
}

/// Whether all that is in the block is needed from its first op to its last; the number of an iteration is written
/// anew.
static bool isLiveThroughout(const TransientBlock &block) {
  return isa<OpResult>(block.tenants[0].root) && !isUsedUp(block.tenants[0].root);
}

// Moving one buffer onto another that is live at the same op must be noticed, wherever it is.
TEST_F(Plan, VerifierNoticesAnyOverlap) {
  int broken = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    OwningOpRef<ModuleOp> module = RandomGraph(context, seed, 30).build();
    ASSERT_TRUE(succeeded(run(*module, kBoth))) << seed << ": " << lastError;
    auto function = module->lookupSymbol<func::FuncOp>("train");
    FailureOr<Aliases> aliases = Aliases::compute(function);
    MemoryUse use = computeMemoryUse(function, *aliases);
    std::vector<std::pair<TransientBlock *, TransientBlock *>> pairs;
    for (TransientBlock &a : use.transient)
      for (TransientBlock &b : use.transient)
        // b is written while a is live, and read later than that.
        if (a.bytes > 0 && b.bytes > 0 && a.tenants.size() == 1 && b.tenants.size() == 1 && a.first < b.first &&
            a.last > b.first && b.last > b.first && isa<OpResult>(b.tenants[0].root) && isLiveThroughout(a))
          pairs.push_back({&a, &b});
    llvm::shuffle(pairs.begin(), pairs.end(), std::mt19937(seed));
    for (auto [a, b] : ArrayRef(pairs).take_front(10)) {
      auto x = cast<OpResult>(a->tenants[0].root), y = cast<OpResult>(b->tenants[0].root);
      auto offsetsOf = [](OpResult r) {
        return r.getOwner()->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kOffsets);
      };
      DenseI64ArrayAttr before = offsetsOf(y);
      SmallVector<int64_t> offsets(before.asArrayRef());
      offsets[y.getResultNumber()] = offsetsOf(x)[x.getResultNumber()];
      y.getOwner()->setAttr(ScrimpDialect::kOffsets, DenseI64ArrayAttr::get(&context, offsets));
      EXPECT_TRUE(failed(verifyPlan(*module))) << seed;
      y.getOwner()->setAttr(ScrimpDialect::kOffsets, before);
      ++broken;
    }
    EXPECT_TRUE(succeeded(verifyPlan(*module)));
  }
  EXPECT_GT(broken, 100);
}

constexpr StringLiteral kLoop = R"mlir(
  func.func @train(%x: tensor<4x16xf32> {scrimp.name = "x", scrimp.input = 0 : i64})
      -> (tensor<f32> {scrimp.output = "loss"}) {
    %first = scrimp.reduce sum, %x [0] : tensor<4x16xf32> -> tensor<16xf32>
    %factor = scrimp.exp %first : tensor<16xf32> loc("factor")
    %sum = scrimp.accumulate 4 shared(%factor : tensor<16xf32>) split(%x along [0] : tensor<4x16xf32>)
        init(%first : tensor<16xf32>) {
    ^bb0(%i: tensor<i64>, %f: tensor<16xf32>, %piece: tensor<1x16xf32>, %s: tensor<16xf32>):
      %row = scrimp.reshape %piece : tensor<1x16xf32> -> tensor<16xf32>
      %product = scrimp.mul %row, %f : tensor<16xf32> loc("product")
      %next = scrimp.add %s, %product : tensor<16xf32> loc("next")
      %n = scrimp.cast %i : tensor<i64> -> tensor<f32>
      %late = scrimp.broadcast %n : tensor<f32> -> tensor<16xf32> loc("late")
      %last = scrimp.add %next, %late : tensor<16xf32> loc("last")
      scrimp.yield %last : tensor<16xf32>
    }
    %loss = scrimp.reduce sum, %sum [0] : tensor<16xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
)mlir";

// What the body needs has one place for all iterations, and each value of these places is told apart by the second.
TEST_F(Plan, VerifierFindsWhatOneIterationSpoilsForTheNext) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kLoop, &context);
  ASSERT_TRUE(module) << lastError;
  ASSERT_TRUE(succeeded(run(*module, kPlan))) << lastError;
  std::map<std::string, Operation *> ops;
  module->walk([&](Operation *op) { ops[userNameOf(op)] = op; });
  auto loop = cast<AccumulateOp>(ops.at("scrimp.accumulate"));
  auto offsetOf = [&](Operation *op) { return op->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kOffsets)[0]; };
  auto expectFault = [&](Operation *op, StringRef attribute, int64_t offset, const std::string &message) {
    Attribute before = op->getAttr(attribute);
    op->setAttr(attribute, DenseI64ArrayAttr::get(&context, offset));
    EXPECT_TRUE(failed(verifyPlan(*module)));
    EXPECT_EQ(lastError, message);
    op->setAttr(attribute, before);
    EXPECT_TRUE(succeeded(verifyPlan(*module))) << lastError;
  };
  int64_t sum = offsetOf(loop), factor = offsetOf(ops.at("factor"));
  // The accumulator and what is yielded are one place.
  EXPECT_EQ(offsetOf(ops.at("last")), sum);
  // Written after the factor's only reader: the next iteration finds it.
  expectFault(ops.at("late"), ScrimpDialect::kOffsets, factor, "reads 'factor' after 'late' has been written over it");
  // Written before the accumulator is read.
  expectFault(ops.at("product"), ScrimpDialect::kOffsets, sum,
              "reads 'scrimp.reduce' after 'product' has been written over it");
  // The number of the iteration, written before each.
  expectFault(loop, ScrimpDialect::kBodyOffsets, factor,
              "reads 'factor' after 'iteration of scrimp.accumulate' has been written over it");
  expectFault(loop, ScrimpDialect::kBodyOffsets, sum,
              "reads 'scrimp.reduce' after 'iteration of scrimp.accumulate' has been written over it");
  // The new value, elsewhere.
  int64_t elsewhere = offsetOf(ops.at("late"));
  expectFault(
      ops.at("last"), ScrimpDialect::kOffsets, elsewhere,
      ("the new value of accumulator 0 lies at " + Twine(elsewhere) + ", but the accumulator at " + Twine(sum)).str());
}

TEST_F(Plan, TenThousandOpsAreScheduledAndPlannedQuickly) {
  OwningOpRef<ModuleOp> module = RandomGraph(context, 7, 10'000, /*loops=*/2).build();
  // Processor time: the machine may be busy.
  std::clock_t start = std::clock();
  auto seconds = [&] { return double(std::clock() - start) / CLOCKS_PER_SEC; };
  ASSERT_TRUE(succeeded(run(*module, "func.func(scrimp-schedule)"))) << lastError;
  RecordProperty("schedule_seconds", std::to_string(seconds()));
  EXPECT_LT(seconds(), 2);
  ASSERT_TRUE(succeeded(run(*module, kPlan))) << lastError;
  RecordProperty("plan_seconds", std::to_string(seconds()));
  EXPECT_LT(seconds(), 6);
}
