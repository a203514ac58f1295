// --memory-budget on random graphs: the plan that is chosen fits, or an error names the smallest there is; a smaller
// budget never takes more, and never runs faster. SCRIMP_BUDGET_GRAPHS=COUNT asks for more graphs than a check has.
#include "RandomGraph.h"
#include "Training.h"

#include "scrimp/Driver/Budget.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Planner/Report.h"

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

  /// The bytes of a process with the plan that is chosen for `budget`, and its estimated seconds; none, and the error
  /// in `message`, where nothing fits.
  std::optional<std::pair<int64_t, double>> choose(ModuleOp module, int64_t budget, std::string &message) {
    CompileOptions chosen = options;
    chosen.memoryBudget = std::to_string(budget) + "b";
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
    if (failed(chooseWithinBudget(module, chosen, device)))
      return std::nullopt;
    EXPECT_TRUE(chosen.memoryBudget.empty());
    OwningOpRef<ModuleOp> planned = module.clone();
    PassManager manager(&context);
    buildPipeline(manager, chosen);
    EXPECT_TRUE(succeeded(manager.run(*planned))) << message;
    auto plan = (*planned)->getAttrOfType<DictionaryAttr>("scrimp.plan");
    return std::pair(plan.getAs<IntegerAttr>("arena_bytes").getInt() + getBytesBesideArena(1),
                     estimateSeconds(planned->lookupSymbol<func::FuncOp>("train"), device.rates));
  }

  MLIRContext context;
  Device device;
  CompileOptions options;
};

TEST_F(Budgets, AreKeptAndMonotone) {
  const char *asked = std::getenv("SCRIMP_BUDGET_GRAPHS");
  int graphs = asked ? std::atoi(asked) : 3, chosen = 0, refused = 0, apart = 0;
  for (int seed = 0; seed < graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphOptions shape;
    shape.type = "f32";
    shape.size = 8 + seed % 9;
    OwningOpRef<ModuleOp> module = makeRandomGraph(context, 1000 + seed, shape);
    FailureOr<std::vector<Candidate>> family = planCandidates(*module, options, device);
    ASSERT_TRUE(succeeded(family));
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (const Candidate &candidate : *family)
      if (candidate.failure.empty()) {
        least = std::min(least, candidate.processBytes);
        most = std::max(most, candidate.processBytes);
      }
    apart += least < most;
    // Eight budgets: above everything, in equal steps down to the smallest plan, and a byte below it.
    std::optional<std::pair<int64_t, double>> last;
    for (int i = 0; i < 8; ++i) {
      int64_t budget = i == 0 ? most + 1000 : i == 7 ? least - 1 : most - (most - least) * (i - 1) / 5;
      std::string message;
      auto found = choose(*module, budget, message);
      if (budget < least) {
        ++refused;
        ASSERT_FALSE(found) << "a plan of " << found->first << " bytes for " << budget;
        for (StringRef part : {"no plan fits --memory-budget", "the smallest takes", "at its peak it holds '"})
          EXPECT_TRUE(StringRef(message).contains(part)) << message;
        continue;
      }
      ASSERT_TRUE(found) << message;
      ++chosen;
      EXPECT_LE(found->first, budget);
      if (last) {
        EXPECT_LE(found->first, last->first) << "a smaller budget takes more";
        EXPECT_GE(found->second, last->second) << "a smaller budget runs faster";
      }
      last = found;
    }
  }
  EXPECT_EQ(chosen, 7 * graphs);
  EXPECT_EQ(refused, graphs);
  EXPECT_GT(apart, graphs / 2) << "most graphs have but one plan: nothing is tested";
}

} // namespace
