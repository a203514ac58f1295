// --memory-budget on random graphs: the plan that is chosen fits, or an error names the smallest there is; a smaller
// budget never takes more, and never runs faster. SCRIMP_BUDGET_GRAPHS=COUNT asks for more graphs than a check has.
#include "RandomGraph.h"
#include "Training.h"

#include "scrimp/Driver/Budget.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Planner/ProcessMemory.h"

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

class Budgets : public testing::Test {
protected:
  Budgets() : context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    device.name = "test";
    options.quiet = true;
    options.workers = 1;
  }

  /// What the passes really come to with these options.
  int64_t measure(ModuleOp module, const CompileOptions &chosen) {
    OwningOpRef<ModuleOp> planned = module.clone();
    PassManager manager(&context);
    buildPipeline(manager, chosen);
    EXPECT_TRUE(succeeded(manager.run(*planned)));
    auto plan = (*planned)->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
    auto kernels = findBlasKernels(chosen, &context);
    EXPECT_TRUE(succeeded(kernels));
    return plan.getAs<IntegerAttr>("arena_bytes").getInt() + computeBesideArena(*planned, *kernels).getBytes();
  }

  /// What --memory-budget makes of the options; the error is in `message` where it fails.
  FailureOr<CompileOptions> choose(ModuleOp module, int64_t budget, std::string &message) {
    CompileOptions chosen = options;
    chosen.memoryBudget = std::to_string(budget) + "b";
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
    if (failed(chooseWithinBudget(module, chosen, device)))
      return failure();
    return chosen;
  }

  MLIRContext context;
  Device device;
  CompileOptions options;
};

TEST_F(Budgets, AreKeptAndMonotone) {
  const char *asked = std::getenv("SCRIMP_BUDGET_GRAPHS");
  int graphs = asked ? std::atoi(asked) : 6, apart = 0;
  for (int seed = 0; seed < graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphOptions shape;
    shape.type = "f32";
    shape.size = 8 + seed % 9;
    OwningOpRef<ModuleOp> module = makeRandomGraph(context, 1000 + seed, shape);
    FailureOr<Family> family = planFamily(*module, options, device);
    ASSERT_TRUE(succeeded(family));
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (const Candidate &candidate : family->plans) {
      least = std::min(least, candidate.processBytes);
      most = std::max(most, candidate.processBytes);
    }
    apart += least < most;
    // Eight budgets: above everything, in equal steps down to the smallest plan, and a byte below it. The first of the
    // family that fits is the one.
    const Candidate *last = nullptr;
    for (int i = 0; i < 8; ++i) {
      int64_t budget = i == 0 ? most + 1000 : i == 7 ? least - 1 : most - (most - least) * (i - 1) / 5;
      auto found = llvm::find_if(family->plans, [&](const Candidate &c) { return c.processBytes <= budget; });
      ASSERT_EQ(found == family->plans.end(), budget < least);
      // The whole way for a few: it plans the family anew.
      if (seed < 2 && (i == 3 || i == 7)) {
        std::string message;
        FailureOr<CompileOptions> chosen = choose(*module, budget, message);
        ASSERT_EQ(succeeded(chosen), i == 3) << message;
        if (succeeded(chosen)) {
          EXPECT_TRUE(chosen->memoryBudget.empty());
          EXPECT_EQ(measure(*module, *chosen), found->processBytes);
        }
        for (StringRef part : {"no plan fits --memory-budget", "the smallest takes", "at its peak it holds '"})
          EXPECT_EQ(StringRef(message).contains(part), i == 7) << message;
      }
      if (found == family->plans.end())
        continue;
      EXPECT_EQ(measure(*module, found->options), found->processBytes) << found->flags;
      if (last) {
        EXPECT_LE(found->processBytes, last->processBytes) << "a smaller budget takes more";
        EXPECT_GE(found->seconds, last->seconds) << "a smaller budget runs faster";
      }
      last = &*found;
    }
  }
  EXPECT_GT(apart, graphs / 2) << "most graphs have but one plan: nothing is tested";
}

/// Over ranks what is shared out, when sums are taken and what stays gathered is chosen as well, by a search that does not
/// plan all of it. A smaller budget never takes more.
TEST_F(Budgets, AreKeptAndMonotoneOverRanks) {
  const char *asked = std::getenv("SCRIMP_BUDGET_GRAPHS");
  int graphs = asked ? std::atoi(asked) : 2, apart = 0;
  for (int seed = 0; seed < graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphOptions shape;
    shape.type = "f32";
    shape.size = 8 + seed % 9;
    shape.batch = 6;
    OwningOpRef<ModuleOp> module = makeRandomGraph(context, 2000 + seed, shape);
    options.world = 2 + seed % 2;
    options.batchStats = "global";
    int64_t budget = int64_t(1) << 40, last = budget;
    // All there is, a little more than that takes, just that, a byte less than that, and so on.
    for (int i = 0; i < 8; ++i) {
      std::string message;
      FailureOr<CompileOptions> chosen = choose(*module, budget, message);
      if (failed(chosen)) {
        EXPECT_EQ(i % 3, 0) << message;
        EXPECT_NE(message.find("no plan fits --memory-budget"), std::string::npos) << message;
        break;
      }
      int64_t bytes = measure(*module, *chosen);
      EXPECT_LE(bytes, budget);
      EXPECT_LE(bytes, last) << "within " << budget << " bytes";
      apart += i % 3 == 0 && i > 0;
      last = bytes;
      budget = i % 3 == 0 ? std::min(budget - 1, bytes + bytes / 50) : i % 3 == 1 ? bytes : bytes - 1;
    }
  }
  EXPECT_GT(apart, graphs / 2) << "most graphs have but one plan: nothing is tested";
}

} // namespace
