// Random graphs under combinations of all passes: the same is learned. A bounded number of graphs, each under a few
// combinations that together hold every pair of choices; more by
//   SCRIMP_RANDOM_GRAPHS=COUNT or FIRST:COUNT    which graphs
//   SCRIMP_ALL_COMBINATIONS=1                    every combination for each
// A failure prints the graph's seed and leaves the graph, reduced, in a file, with the command that repeats it.
#include "RandomGraph.h"
#include "Reduce.h"
#include "Training.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Compile.h"
#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

//===-- Combinations ---------------------------------------------------------------------------------------------===//

/// A choice for each axis.
using Combination = std::vector<std::string>;
using Axes = std::vector<std::vector<std::string>>;

std::string textOf(const Combination &combination) {
  std::string text;
  for (const std::string &choice : combination)
    text += (text.empty() || choice.empty() ? "" : " ") + choice;
  return text;
}

std::vector<Combination> allCombinations(const Axes &axes) {
  std::vector<Combination> all{{}};
  for (const auto &axis : axes) {
    std::vector<Combination> longer;
    for (const Combination &combination : all)
      for (const std::string &choice : axis) {
        longer.push_back(combination);
        longer.back().push_back(choice);
      }
    all = std::move(longer);
  }
  return all;
}

/// Few combinations in which any two choices of different axes meet.
std::vector<Combination> pairwise(const Axes &axes) {
  using Pair = std::tuple<size_t, size_t, size_t, size_t>;
  std::set<Pair> missing;
  for (size_t a = 0; a < axes.size(); ++a)
    for (size_t b = a + 1; b < axes.size(); ++b)
      for (size_t i = 0; i < axes[a].size(); ++i)
        for (size_t j = 0; j < axes[b].size(); ++j)
          missing.insert({a, b, i, j});
  std::vector<Combination> rows;
  while (!missing.empty()) {
    auto [a, b, i, j] = *missing.begin();
    std::vector<std::optional<size_t>> row(axes.size());
    row[a] = i;
    row[b] = j;
    auto key = [](size_t a, size_t i, size_t b, size_t j) { return a < b ? Pair{a, b, i, j} : Pair{b, a, j, i}; };
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (row[axis])
        continue;
      size_t best = 0, most = 0;
      for (size_t choice = 0; choice < axes[axis].size(); ++choice) {
        size_t gained = 0;
        for (size_t other = 0; other < axes.size(); ++other)
          if (row[other])
            gained += missing.count(key(axis, choice, other, *row[other]));
        if (gained > most)
          std::tie(best, most) = std::pair(choice, gained);
      }
      // Nothing is missing: something else each time.
      row[axis] = most ? best : rows.size() % axes[axis].size();
    }
    Combination combination;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      combination.push_back(axes[axis][*row[axis]]);
      for (size_t other = axis + 1; other < axes.size(); ++other)
        missing.erase({axis, other, *row[axis], *row[other]});
    }
    rows.push_back(std::move(combination));
  }
  return rows;
}

/// What is learned differs in the order of sums alone.
const Axes kExactAxes = {
    {"optimizer=sgd", "optimizer=adamw", "optimizer=sgd momentum=true", "optimizer=adam no-decay=1d",
     "optimizer=sgd momentum=true nesterov=true"},
    {"", "clip-grad-norm=true", "wait-for-norm=true"},
    {"", "micro-batches=2", "micro-batches=3", "micro-batch-size=1", "micro-batch-size=2"},
    {"", "chunk=layers.0=2", "chunk=layers.*=3", "chunk=head=2"},
    {"", "remat=full", "remat=selective", "remat=min-cut", "remat=tradeoff=1e-9", "remat=tradeoff=inf"},
    {"", "fuse=false"},
    {"", "schedule=false"},
    {"", "stream-inputs=false"},
};

/// On ranks; the batch is shared out, then split and chunked as on one.
const Axes kRankAxes = {
    {"world=2", "world=3"},
    {"", "zero=1", "zero=2", "zero=3", "zero=2 bucket-layout=matrices"},
    {"batch-stats=global", "batch-stats=whole"},
    {"optimizer=sgd", "optimizer=adamw", "optimizer=adam no-decay=1d"},
    {"", "clip-grad-norm=true", "wait-for-norm=true"},
    {"", "micro-batches=2", "micro-batch-size=1"},
    {"", "remat=full", "remat=tradeoff=1e-9", "remat=tradeoff=inf"},
    {"", "fuse=false"},
    {"", "schedule=false"},
};

/// In 16 bits, where sums in another order may round to something else, only the bits behind the graph are compared.
const Axes kNarrowAxes = {
    {"precision=bf16", "precision=fp16", "precision=bf16 master=none moments=bf16", "precision=bf16 moments=bf16"},
    {"optimizer=sgd", "optimizer=adamw"},
    {"", "clip-grad-norm=true"},
    {"", "micro-batches=2", "micro-batches=3 accumulate=bf16"},
    {"", "chunk=layers.*=2"},
    {"", "remat=full", "remat=selective", "remat=min-cut", "remat=tradeoff=1e-9", "remat=tradeoff=inf"},
    {"", "fuse=false"},
    {"", "schedule=false"},
};

//===-- One graph ------------------------------------------------------------------------------------------------===//

struct Outcome {
  std::string kind; // of a failure; empty: none
  std::string message;
  bool isRefused = false; // what cannot be split, and said so
};

constexpr int kSteps = 2;

bool splits(StringRef options) {
  return options.contains("micro-batch") || options.contains("chunk") || options.contains("world");
}

/// Samples of a batch of @main.
int64_t batchOf(ModuleOp graph) {
  auto main = graph.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument argument : main.getArguments())
    if (auto dim = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kInput);
        dim && dim.getInt() >= 0)
      return shapeOf(argument)[dim.getInt()];
  return 1;
}

/// What is learned by the graph under `options` against the plain run, the graph's bits against those of the plan, and
/// with `compiled` those of its machine code.
Outcome check(ModuleOp graph, const std::string &options, uint64_t seed, bool compiled) {
  bool isNarrow = StringRef(options).contains("precision=");
  std::string why, told;
  ScopedDiagnosticHandler quiet(graph.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && told.empty())
      told = diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> whole = runPasses(graph, options, Stage::Graph, &why);
  if (!whole) {
    if (splits(options) && !why.empty())
      return {"", why, true};
    return {"graph", why};
  }
  if (failed(verify(*whole)))
    return {"verifier", "the graph is not valid"};
  int64_t world = parsePipeline(options)->world, batch = batchOf(graph);
  FailureOr<Learned> found = interpretOnRanks(*whole, seed, kSteps, world, batch);
  if (failed(found))
    return {"interpreter", "of the graph: " + told};
  if (!isNarrow) {
    OwningOpRef<ModuleOp> plain = runPasses(graph, options, Stage::Plain, &why);
    if (!plain)
      return {"plain", why};
    FailureOr<Learned> expected = interpret(*plain, seed, kSteps);
    if (failed(expected))
      return {"plain", "of the plain graph: " + told};
    if (std::string difference = compareLearned(*found, *expected, 1e-12); !difference.empty())
      return {"difference", difference};
  }
  OwningOpRef<ModuleOp> planned = runPlanPasses(*whole, options, &why);
  if (!planned)
    return {"plan", why};
  FailureOr<Learned> bits = interpretOnRanks(*planned, seed, kSteps, world, batch);
  if (failed(bits))
    return {"interpreter", "of the plan: " + told};
  // What a target lacks is made of other ops, whose sums have another order.
  FailureOr<Learned> expanded = found;
  if (parsePipeline(options)->target != "cpu") {
    PassManager manager(whole->getContext());
    manager.addPass(createExpandForTarget());
    if (failed(manager.run(*whole)))
      return {"expansion", told};
    expanded = interpretOnRanks(*whole, seed, kSteps, world, batch);
    if (failed(expanded))
      return {"interpreter", "of the expanded graph: " + told};
  }
  if (std::string difference = compareLearned(*bits, *expanded, 0); !difference.empty())
    return {"bits", difference};
  if (compiled) {
    FailureOr<Learned> code = execute(*planned, options, seed, kSteps, batch);
    if (failed(code))
      return {"code", told};
    if (std::string difference = compareLearned(*code, *found, isNarrow ? 0.05 : 1e-10); !difference.empty())
      return {"code", difference};
  }
  return {};
}

//===-- The tests ------------------------------------------------------------------------------------------------===//

class RandomGraphs : public testing::Test {
protected:
  RandomGraphs() : context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// [first, last) of the seeds; `bounded` in a check.
  static std::pair<uint64_t, uint64_t> seeds(uint64_t bounded) {
    const char *asked = std::getenv("SCRIMP_RANDOM_GRAPHS");
    if (!asked)
      return {0, bounded};
    auto [first, count] = StringRef(asked).split(':');
    uint64_t begin = 0, number = 0;
    (count.empty() ? first : count).getAsInteger(10, number);
    if (!count.empty())
      first.getAsInteger(10, begin);
    return {begin, begin + number};
  }

  OwningOpRef<ModuleOp> makeGraph(uint64_t seed, const std::string &type, int64_t batch) {
    // Every entry comes in turn, so that a few graphs have them all.
    static const std::vector<std::string> entries = randomGraphEntries();
    RandomGraphOptions options;
    options.type = type;
    options.batch = batch;
    options.size = static_cast<int>(seed % 8);
    for (uint64_t i = 0; i < 4; ++i)
      options.ops.push_back(entries[(seed * 4 + i) % entries.size()]);
    return makeRandomGraph(context, seed, options);
  }

  void checkGraph(uint64_t seed, const std::string &type, ArrayRef<Combination> combinations, bool compiled = false,
                  int64_t batch = 0) {
    OwningOpRef<ModuleOp> graph = makeGraph(seed, type, batch);
    ASSERT_TRUE(succeeded(verify(*graph))) << "seed " << seed;
    if (isLong()) // should the compiler crash
      write(*graph, llvm::formatv("random-graph-{0}.mlir", type));
    std::vector<std::string> all;
    for (const Combination &combination : combinations) {
      all.push_back(textOf(combination) + (compiled ? " workers=2" : ""));
      if (compiled && !StringRef(all.back()).contains("world"))
        all.push_back(all.back() + " target=emulated");
    }
    for (const std::string &options : all) {
      if (isLong())
        llvm::errs() << "seed " << seed << " " << options << "\r";
      Outcome outcome = check(*graph, options, seed, compiled);
      Count &count = StringRef(options).contains("chunk") ? chunked : splits(options) ? parted : whole;
      ++count.runs;
      count.refused += outcome.isRefused;
      if (outcome.isRefused && isLong())
        llvm::errs() << "\nrefused: " << outcome.message << "\n";
      if (outcome.kind.empty())
        continue;
      OwningOpRef<ModuleOp> reduced = reduceGraph(
          *graph, [&](ModuleOp module) { return check(module, options, seed, compiled).kind == outcome.kind; });
      std::string file = llvm::formatv("random-graph-{0}-{1}.mlir", type, seed);
      write(*reduced, file);
      ADD_FAILURE() << "seed " << seed << ", " << outcome.kind << ": " << outcome.message << "\n  scrimp-opt " << file
                    << " --scrimp-train-pipeline='" << options
                    << "'\n  reduced: " << check(*reduced, options, seed, compiled).message;
      return;
    }
  }

  static bool isLong() { return std::getenv("SCRIMP_RANDOM_GRAPHS"); }

  static void write(ModuleOp module, const std::string &file) {
    std::error_code error;
    llvm::raw_fd_ostream os(file, error);
    module.print(os, OpPrintingFlags().enableDebugInfo(true, false));
  }

  /// Of all rows those that are the graph's turn.
  static std::vector<Combination> some(ArrayRef<Combination> rows, uint64_t seed, size_t count) {
    if (std::getenv("SCRIMP_ALL_COMBINATIONS"))
      return rows;
    std::vector<Combination> chosen;
    for (size_t i = 0; i < count; ++i)
      chosen.push_back(rows[(seed * count + i) % rows.size()]);
    return chosen;
  }

  static std::vector<Combination> rowsOf(const Axes &axes) {
    return std::getenv("SCRIMP_ALL_COMBINATIONS") ? allCombinations(axes) : pairwise(axes);
  }

  MLIRContext context;
  struct Count {
    int runs = 0, refused = 0;
  } whole, parted, chunked;
};

TEST_F(RandomGraphs, EveryDifferentiableOpHasAnEntry) {
  llvm::StringSet<> entries;
  for (const std::string &name : randomGraphEntries())
    entries.insert("scrimp." + name);
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    StringRef name = op.getStringRef();
    // Of integers: these share a class with ops of floats, but no gradient reaches them.
    bool isOfIntegers = name == "scrimp.and" || name == "scrimp.or" || name == "scrimp.xor";
    if (!op.hasInterface<DifferentiableOp>() || isOfIntegers)
      continue;
    EXPECT_TRUE(entries.contains(name)) << name.str() << ": add an entry for it to a file beside this one";
  }
  for (const auto &entry : entries) {
    RandomGraphOptions options;
    options.size = 0;
    options.ops = {entry.first().drop_front(7).str()};
    OwningOpRef<ModuleOp> graph = makeRandomGraph(context, 1, options);
    ASSERT_TRUE(succeeded(verify(*graph))) << entry.first().str();
    if (!RegisteredOperationName::lookup(entry.first(), &context))
      continue;
    bool found = false;
    graph->walk([&](Operation *op) { found |= op->getName().getStringRef() == entry.first(); });
    EXPECT_TRUE(found) << entry.first().str() << " is not in the graph that was made for it";
    EXPECT_EQ(check(*graph, "", 1, false).message, "") << entry.first().str();
  }
}

TEST_F(RandomGraphs, LearnTheSame) {
  std::vector<Combination> rows = rowsOf(kExactAxes);
  auto [first, last] = seeds(60);
  for (uint64_t seed = first; seed < last; ++seed)
    checkGraph(seed, "f64", some(rows, seed, 3));
  // Most can be split, and many modules that were put together at random run in chunks.
  if (last - first >= 20) {
    EXPECT_LT(parted.refused, parted.runs / 3);
    EXPECT_LT(chunked.refused, 2 * chunked.runs / 3);
  }
}

TEST_F(RandomGraphs, LearnTheSameOnRanks) {
  std::vector<Combination> rows = rowsOf(kRankAxes);
  auto [first, last] = seeds(30);
  for (uint64_t seed = first; seed < last; ++seed)
    checkGraph(seed, "f64", some(rows, seed, 2), false, seed % 3 ? 6 : 0); // ranks mostly divide it
  if (last - first >= 20)
    EXPECT_LT(parted.refused, parted.runs / 2);
}

TEST_F(RandomGraphs, KeepTheirBitsIn16Bits) {
  std::vector<Combination> rows = rowsOf(kNarrowAxes);
  auto [first, last] = seeds(40);
  for (uint64_t seed = first; seed < last; ++seed)
    checkGraph(seed, "f32", some(rows, seed, 2));
}

/// Where all stays in f32, gradients times a power of two and back are the same to the bit; clipping rounds one factor.
TEST_F(RandomGraphs, ALossScaleIsUndone) {
  const Axes axes = {
      {"optimizer=sgd", "optimizer=adamw", "optimizer=sgd momentum=true"},
      {"", "clip-grad-norm=true", "wait-for-norm=true"},
      {"", "micro-batches=2", "chunk=layers.*=2"},
  };
  std::vector<Combination> rows = rowsOf(axes);
  auto [first, last] = seeds(20);
  int compared = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    OwningOpRef<ModuleOp> graph = makeGraph(seed, "f32", 0);
    for (const Combination &combination : some(rows, seed, 2)) {
      std::string options = textOf(combination), why;
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      OwningOpRef<ModuleOp> plain = runPasses(*graph, options + " precision=fp32", Stage::Graph, &why);
      OwningOpRef<ModuleOp> scaled = runPasses(*graph, options + " precision=fp16 keep-fp32=*", Stage::Graph, &why);
      ASSERT_EQ(bool(plain), bool(scaled)) << "seed " << seed << " " << options << ": " << why;
      if (!plain)
        continue;
      FailureOr<Learned> expected = interpret(*plain, seed, kSteps), found = interpret(*scaled, seed, kSteps);
      ASSERT_TRUE(succeeded(expected) && succeeded(found)) << "seed " << seed << " " << options;
      double bound = StringRef(options).contains("clip") ? 1e-6 : 0;
      EXPECT_EQ(compareLearned(*found, *expected, bound), "") << "seed " << seed << " " << options;
      ++compared;
    }
  }
  EXPECT_GT(compared, static_cast<int>(last - first));
}

TEST_F(RandomGraphs, CompiledCodeLearnsTheSame) {
  std::vector<Combination> rows = rowsOf(kExactAxes), narrow = rowsOf(kNarrowAxes);
  auto [first, last] = seeds(6);
  for (uint64_t seed = first; seed < last; ++seed) {
    checkGraph(seed, "f64", some(rows, seed, 1), true);
    checkGraph(seed, "f32", some(narrow, seed, 1), true);
  }
}

TEST_F(RandomGraphs, CompiledCodeLearnsTheSameOnRanks) {
  std::vector<Combination> rows = rowsOf(kRankAxes);
  auto [first, last] = seeds(10);
  for (uint64_t seed = first; seed < last; ++seed)
    checkGraph(seed, "f64", some(rows, seed, 1), true, seed % 3 ? 6 : 0);
  if (last - first >= 10)
    EXPECT_LT(parted.refused, parted.runs / 2);
}

/// A loop that made t = z - a in z's bytes would find another z in the next iteration: t is -a in each of the three.
/// Of 5 samples the second piece's mask begins behind 3 elements of 4 bytes.
TEST_F(RandomGraphs, APieceBeginsAtAnyElement) {
  OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<5x1x2x3xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                    %mask: tensor<5x1x1x1xf32> {scrimp.name = "mask", scrimp.input = 0 : i64},
                    %w: tensor<1x3xf32> {scrimp.name = "w", scrimp.param = "trainable"})
        -> (tensor<f32> {scrimp.output = "loss"}) {
      %wide = scrimp.reshape %w : tensor<1x3xf32> -> tensor<1x1x1x3xf32>
      %ws = scrimp.broadcast %wide : tensor<1x1x1x3xf32> -> tensor<5x1x2x3xf32>
      %q = scrimp.mul %x, %ws : tensor<5x1x2x3xf32>
      %y, %lse = scrimp.attention %q, %x, %x mask(%mask : tensor<5x1x1x1xf32>) {scale = 0.5 : f64}
        : tensor<5x1x2x3xf32>, tensor<5x1x2x3xf32>, tensor<5x1x2x3xf32> -> tensor<5x1x2x3xf32>, tensor<5x1x2xf32>
      %loss = scrimp.reduce sum, %y [0, 1, 2, 3] : tensor<5x1x2x3xf32> -> tensor<f32>
      return %loss : tensor<f32>
    })",
                                                            &context);
  ASSERT_TRUE(graph);
  for (const char *options : {"precision=bf16 optimizer=sgd micro-batches=2 workers=2",
                              "precision=bf16 optimizer=sgd micro-batches=2 workers=2 target=emulated"})
    EXPECT_EQ(check(*graph, options, 1, true).message, "") << options;
}

TEST_F(RandomGraphs, ALoopKeepsWhatItReadsAgain) {
  OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(R"(
    func.func @main(%a: tensor<3x4xf64> {scrimp.name = "a", scrimp.input = 0 : i64},
                    %b: tensor<4xf64> {scrimp.name = "b", scrimp.param = "trainable"},
                    %w: tensor<4xf64> {scrimp.name = "w", scrimp.param = "frozen"})
        -> (tensor<f64> {scrimp.output = "loss"}) {
      %zero = scrimp.sub %w, %w : tensor<4xf64>
      %z = scrimp.broadcast %zero : tensor<4xf64> -> tensor<3x4xf64>
      %t = scrimp.sub %z, %a : tensor<3x4xf64>
      %bs = scrimp.broadcast %b : tensor<4xf64> -> tensor<3x4xf64>
      %d = scrimp.mul %t, %bs : tensor<3x4xf64>
      %q = scrimp.mul %d, %d : tensor<3x4xf64>
      %loss = scrimp.reduce sum, %q [0, 1] : tensor<3x4xf64> -> tensor<f64>
      return %loss : tensor<f64>
    })",
                                                            &context);
  ASSERT_TRUE(graph);
  for (const char *options :
       {"optimizer=sgd", "optimizer=sgd micro-batches=3", "optimizer=sgd micro-batches=3 fuse=false",
        "optimizer=sgd micro-batches=3 remat=full schedule=false workers=2"})
    EXPECT_EQ(check(*graph, options, 1, true).message, "") << options;
}

} // namespace
