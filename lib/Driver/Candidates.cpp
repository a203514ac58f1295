#include "scrimp/Driver/Candidates.h"

#include "RankLayouts.h"
#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Analysis/StepTime.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Driver/SuggestChunks.h"
#include "scrimp/Transforms/RematPrices.h"

#include "mlir/IR/Threading.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::BlasBlocks;

/// 1, 2, 3, 4, 6, 8, 12, ... up to the batch: each at most half as much again as the one before.
static std::vector<int64_t> microBatchCounts(int64_t batch) {
  std::vector<int64_t> counts;
  for (int64_t power = 1; power <= batch; power *= 2) {
    counts.push_back(power);
    if (power > 1 && power + power / 2 < batch)
      counts.push_back(power + power / 2);
  }
  if (counts.empty() || counts.back() != batch)
    counts.push_back(batch);
  return counts;
}

/// Rules of --chunk for `count` micro-batches, each a way to begin with: none, the head, the head and MLPs. Chunks of
/// fewer than 512 tokens would make the library's products slow.
static std::vector<std::vector<std::string>> chunkRules(const SuggestedChunks &suggested, int64_t count) {
  constexpr int64_t fewestRows = 512, mostChunks = 64;
  std::vector<std::vector<std::string>> ways{{}};
  int64_t chunks = std::min(suggested.rows / count / fewestRows, mostChunks);
  if (chunks < 2)
    return ways;
  std::vector<std::string> rules;
  for (const std::vector<std::string> *patterns : {&suggested.heads, &suggested.insides}) {
    for (const std::string &pattern : *patterns)
      rules.push_back(pattern + "=" + std::to_string(chunks));
    if (!rules.empty() && rules != ways.back())
      ways.push_back(rules);
  }
  return ways;
}

/// The policy of a price, which is read back to the bit.
static std::string tradeoffAt(double price) {
  if (std::isinf(price))
    return "tradeoff=inf";
  char digits[32];
  return "tradeoff=" + std::string(digits, std::to_chars(digits, digits + sizeof(digits), price).ptr);
}

/// What tells graphs apart that were computed again in different ways: how many ops there are, what they do and give.
static size_t fingerprint(ModuleOp module) {
  llvm::hash_code hash = 0;
  module.walk([&](Operation *op) {
    hash = llvm::hash_combine(hash, op->getName().getAsOpaquePointer(), op->getNumOperands());
    for (Type type : op->getResultTypes())
      hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
  });
  return hash;
}

static LogicalResult runPipeline(ModuleOp module, const CompileOptions &options,
                                 function_ref<void(OpPassManager &, const TrainPipelineOptions &)> build) {
  TrainPipelineOptions pipeline;
  readOptions(pipeline, options);
  PassManager manager(module.getContext());
  build(manager, pipeline);
  return manager.run(module);
}

namespace {
/// Candidates that differ in what is computed again alone: they share a graph.
struct Group {
  CompileOptions options; // but remat
  std::string flags;
  OwningOpRef<ModuleOp> graph;
  std::string failure; // where there is no graph
  std::string column;  // the flags of its layout and precision
  bool isSplit = false;
  unsigned stage = 0; // later ones are for where no plan of an earlier one fits
  int64_t floor = 0;  // bytes of any plan, once there is a graph
  /// What is computed again, in steps that keep ever fewer bytes: nothing, then what each of these prices asks for.
  std::vector<double> prices;
  bool hasPrices = false;
  llvm::DenseMap<size_t, size_t> known; // fingerprints of what has been planned, and which plan that is
  std::set<size_t> tried;               // steps
  std::vector<Candidate> plans;
  std::vector<std::optional<size_t>> steps; // of the plans; none: another policy

  std::string policyOf(size_t step) const { return step == 0 ? "none" : tradeoffAt(prices[step - 1]); }

  /// The untried step in the middle between a tried one and the next tried one above or below it.
  std::optional<size_t> between(size_t step, bool above) const {
    auto here = tried.find(step);
    if (above ? std::next(here) == tried.end() : here == tried.begin())
      return std::nullopt;
    size_t other = *(above ? std::next(here) : std::prev(here)), middle = (step + other) / 2;
    return tried.count(middle) ? std::nullopt : std::optional(middle);
  }
};

class FamilyPlanner {
public:
  FamilyPlanner(ModuleOp module, const CompileOptions &options, const Device &device, ArrayRef<BlasBlocks> kernels)
      : module(module), options(options), device(device), kernels(kernels) {}

  FailureOr<Family> plan() {
    makeGroups(/*isSearch=*/false);
    std::vector<Group *> all;
    for (Group &group : groups)
      all.push_back(&group);
    buildGraphs(all);
    parallelFor(module.getContext(), 0, groups.size(), [&](size_t i) { findPrices(groups[i]); });
    // A few choices everywhere; then those between them where they lead.
    std::vector<std::vector<size_t>> wanted(groups.size());
    for (auto [group, steps] : llvm::zip(groups, wanted)) {
      size_t last = group.prices.size();
      steps = {0, last / 3, 2 * last / 3};
      if (group.options.chunk.size() == options.chunk.size()) // beside chunks, which are for tight budgets, no more
        steps.push_back(last);
    }
    do
      if (failed(planSteps(wanted)))
        return failure();
    while (refine(wanted));
    return collect();
  }

  /// The fastest of each layout and precision that fits `budget`. Its family does not depend on the budget either: what
  /// is computed again is halved into ever smaller steps, whatever fits; but of these only those around the budget are
  /// looked at, as computing more again takes fewer bytes and more time.
  FailureOr<Family> search(int64_t budget) {
    makeGroups(/*isSearch=*/true);
    leaveOut(budget);
    std::map<std::string, std::vector<Group *>> columns;
    for (Group &group : groups)
      columns[group.column].push_back(&group);
    if (failed(failableParallelForEach(module.getContext(), columns,
                                       [&](auto &column) { return searchColumn(column.second, budget); })))
      return failure();
    return collect();
  }

private:
  void makeGroups(bool isSearch) {
    auto main = module.lookupSymbol<func::FuncOp>("main");
    int64_t batch = getBatchSize(main).samples, share = llvm::divideCeil(batch, options.world), // of a rank
        given = options.microBatchSize > 0 ? llvm::divideCeil(share, options.microBatchSize) : options.microBatches;
    std::vector<int64_t> counts{0};
    if (given == 0)
      counts = microBatchCounts(share);
    SuggestedChunks suggested;
    if (options.chunk.empty())
      suggested = suggestChunks(main);
    bool choosesOverlap = isSearch && options.overlapBytes == 0;
    suggested.rows /= options.world;
    for (int64_t count : counts) {
      int64_t microBatches = std::max<int64_t>({count, given, 1});
      for (const RankLayout &layout : listLayouts(main, options, microBatches))
        for (const std::vector<std::string> &rules : chunkRules(suggested, microBatches))
          for (size_t i = 0; i < std::max<size_t>(1, options.precisions.size()); ++i) {
            std::string precision = options.precisions.size() > 1 ? options.precisions[i] : "";
            if (choosesOverlap && rules.empty())
              addGroup(layout, count, rules, precision, microBatches > 1, /*overlaps=*/true);
            addGroup(layout, count, rules, precision, microBatches > 1, /*overlaps=*/false);
          }
    }
  }

  void addGroup(const RankLayout &layout, int64_t count, const std::vector<std::string> &rules,
                const std::string &precision, bool isSplit, bool overlaps) {
    Group &group = groups.emplace_back();
    group.options = options;
    group.options.report.clear();
    group.options.memoryBudget.clear();
    group.options.precisions.clear();
    if (!precision.empty()) {
      group.options.import.precision = precision;
      group.flags = "--precision " + precision + " ";
    }
    layout.apply(group.options);
    group.column = group.flags += layout.getFlags();
    if (count) {
      group.options.microBatches = count;
      group.flags += llvm::formatv("--micro-batches {0} ", count);
    }
    if (overlaps) {
      group.options.overlapBytes = kMostOverlapBytes;
      group.flags += "--overlap-bytes max ";
    }
    for (const std::string &rule : rules) {
      group.options.chunk.push_back(rule);
      group.flags += "--chunk '" + rule + "' ";
    }
    group.isSplit = isSplit;
    group.stage = rules.size() + !overlaps;
  }

  /// What no plan goes without is the same for all numbers of micro-batches but one: where that does not fit, nothing
  /// is planned. The least of all stays: it tells what would fit.
  void leaveOut(int64_t budget) {
    std::map<std::pair<std::string, bool>, Group *> kinds;
    std::vector<Group *> first;
    for (Group &group : groups)
      if (kinds.try_emplace({group.column, group.isSplit}, &group).second)
        first.push_back(&group);
    buildGraphs(first);
    std::optional<int64_t> least;
    for (Group *group : first)
      if (group->graph)
        least = std::min(group->floor, least.value_or(group->floor));
    budget = std::max(budget, least.value_or(0));
    for (Group &group : groups)
      if (int64_t floor = kinds.at({group.column, group.isSplit})->floor; floor > budget)
        group.failure = llvm::formatv("what every plan of it holds takes {0:f2} MiB", floor / 0x1p20);
    for (Group *group : first)
      if (!group->failure.empty())
        group->graph = nullptr;
  }

  /// The groups of one layout and precision, those with fewer micro-batches first. Plain first: where that fits, it is
  /// the fastest. Exchanges that start no earlier than costs no byte, and chunks, come last.
  LogicalResult searchColumn(ArrayRef<Group *> column, int64_t budget) {
    std::optional<double> best;
    std::map<unsigned, std::vector<Group *>> stages;
    for (Group *group : column)
      stages[group->stage].push_back(group);
    if (options.remat.empty()) {
      std::vector<Bounds> plain{{column.front()}};
      if (failed(startSearch(plain, budget, best)))
        return failure();
      if (best)
        return success();
    }
    for (auto &[stage, ofStage] : stages) {
      if (failed(searchGroups(ofStage, budget, best)))
        return failure();
      for (Group *group : ofStage)
        group->graph = nullptr;
      if (best)
        break;
    }
    return success();
  }

  /// Where the search of a group is: step `below`, which is the plan `low`, does not fit; step `above`, the plan
  /// `high`, does.
  struct Bounds {
    Group *group;
    size_t below = 0, above = 0, low = 0, high = 0, middle = 0;

    double lowSeconds() const { return group->plans[low].seconds; }
    double highSeconds() const { return group->plans[high].seconds; }
  };

  /// Makes a plan for each, in parallel: the number of it goes to `out`. Afterwards `best` is the time of the fastest
  /// that fits of all known ones, so what is looked at next does not depend on threads.
  LogicalResult planEach(MutableArrayRef<Bounds> all, int64_t budget, std::optional<double> &best,
                         function_ref<FailureOr<size_t>(Bounds &)> make, size_t Bounds::*out) {
    if (failed(failableParallelForEach(module.getContext(), all, [&](Bounds &bounds) {
          FailureOr<size_t> plan = make(bounds);
          if (succeeded(plan))
            bounds.*out = *plan;
          return success(succeeded(plan));
        })))
      return failure();
    for (Bounds &bounds : all)
      if (const Candidate &plan = bounds.group->plans[bounds.*out]; plan.processBytes <= budget)
        best = std::min(plan.seconds, best.value_or(plan.seconds));
    return success();
  }

  static bool fits(const Bounds &bounds, size_t Bounds::*plan, int64_t budget) {
    return bounds.group->plans[bounds.*plan].processBytes <= budget;
  }

  FailureOr<size_t> planStep(Group &group, size_t step) {
    if (auto known = llvm::find(group.steps, std::optional(step)); known != group.steps.end())
      return known - group.steps.begin();
    return planOne(group, group.policyOf(step), step);
  }

  /// Nothing computed again, or what is given. Those that cannot be, and those that fit, leave `all`.
  LogicalResult startSearch(std::vector<Bounds> &all, int64_t budget, std::optional<double> &best) {
    std::vector<Group *> wanted;
    for (const Bounds &bounds : all)
      if (bounds.group->failure.empty() && !bounds.group->graph)
        wanted.push_back(bounds.group);
    buildGraphs(wanted);
    llvm::erase_if(all, [](const Bounds &bounds) { return !bounds.group->graph; });
    auto make = [&](Bounds &bounds) {
      return options.remat.empty() ? planStep(*bounds.group, 0) : planOne(*bounds.group, options.remat, std::nullopt);
    };
    if (failed(planEach(all, budget, best, make, &Bounds::low)))
      return failure();
    llvm::erase_if(all, [&](const Bounds &bounds) { return fits(bounds, &Bounds::low, budget); });
    return success();
  }

  /// Of what each group computes again, the least that fits, to a fiftieth of its time: the steps are halved in rounds,
  /// all groups at once; whatever is no faster than the best of the rounds before is not looked at.
  LogicalResult searchGroups(ArrayRef<Group *> wanted, int64_t budget, std::optional<double> &best) {
    std::vector<Bounds> all;
    for (Group *group : wanted)
      all.push_back({group});
    if (failed(startSearch(all, budget, best)))
      return failure();
    if (!options.remat.empty())
      return success();
    auto dropSlow = [&] {
      llvm::erase_if(all, [&](const Bounds &bounds) { return best && bounds.lowSeconds() >= *best; });
    };
    dropSlow();
    auto makeLast = [&](Bounds &bounds) {
      findPrices(*bounds.group);
      bounds.above = bounds.group->prices.size();
      return planStep(*bounds.group, bounds.above);
    };
    if (failed(planEach(all, budget, best, makeLast, &Bounds::high)))
      return failure();
    std::vector<Bounds> tight;
    for (const Bounds &bounds : all)
      if (!fits(bounds, &Bounds::high, budget))
        tight.push_back(bounds);
    auto makeFull = [&](Bounds &bounds) { return planOne(*bounds.group, "full", std::nullopt); };
    if (failed(planEach(tight, budget, best, makeFull, &Bounds::high)))
      return failure();
    llvm::erase_if(all, [&](const Bounds &bounds) { return !fits(bounds, &Bounds::high, budget); });
    while (true) {
      dropSlow();
      llvm::erase_if(all, [](const Bounds &bounds) {
        return bounds.above - bounds.below <= 1 || bounds.highSeconds() <= 1.02 * bounds.lowSeconds();
      });
      if (all.empty())
        return success();
      auto makeMiddle = [&](Bounds &bounds) { return planStep(*bounds.group, (bounds.below + bounds.above) / 2); };
      if (failed(planEach(all, budget, best, makeMiddle, &Bounds::middle)))
        return failure();
      for (Bounds &bounds : all) {
        bool isWithin = fits(bounds, &Bounds::middle, budget);
        (isWithin ? bounds.above : bounds.below) = (bounds.below + bounds.above) / 2;
        (isWithin ? bounds.high : bounds.low) = bounds.middle;
      }
    }
  }

  /// Where the model does not allow a group (micro-batches and batch normalization), that is what it says of itself.
  void buildGraphs(ArrayRef<Group *> wanted) {
    ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) { return success(); });
    parallelFor(module.getContext(), 0, wanted.size(), [&](size_t i) {
      Group &group = *wanted[i];
      // Passes over a module run where they are called: a message is that of the last group begun on its thread.
      uint64_t thread = llvm::get_threadid();
      ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
        if (llvm::get_threadid() != thread)
          return failure();
        if (group.failure.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
          group.failure = diagnostic.str();
        return success();
      });
      group.graph = module.clone();
      if (failed(runPipeline(*group.graph, group.options, buildGraphPipeline)))
        group.graph = nullptr;
      else
        group.floor = computeFloor(*group.graph);
    });
  }

  void findPrices(Group &group) {
    if (!group.graph || !options.remat.empty() || std::exchange(group.hasPrices, true))
      return;
    constexpr size_t mostChoices = 48;
    TrainPipelineOptions pipeline;
    readOptions(pipeline, group.options);
    group.prices = findTradeoffPrices(*group.graph, getRematOptions(pipeline), mostChoices);
  }

  LogicalResult planSteps(const std::vector<std::vector<size_t>> &wanted) {
    return failableParallelForEach(module.getContext(), llvm::seq<size_t>(0, groups.size()), [&](size_t i) {
      Group &group = groups[i];
      if (!group.graph)
        return success();
      if (!options.remat.empty())
        return success(!group.plans.empty() || succeeded(planOne(group, options.remat, std::nullopt)));
      bool isFirst = group.tried.empty();
      for (size_t step : wanted[i])
        if (group.tried.insert(step).second && failed(planOne(group, group.policyOf(step), step)))
          return failure();
      return success(!isFirst || succeeded(planOne(group, "full", std::nullopt)));
    });
  }

  /// Which plan of the group it is: what is the same as one before is no plan of its own.
  FailureOr<size_t> planOne(Group &group, const std::string &policy, std::optional<size_t> step) {
    Candidate candidate{group.flags + "--remat " + policy, group.options};
    candidate.options.remat = policy;
    // What is worth its price depends on the machine.
    if (StringRef(policy).starts_with("tradeoff"))
      candidate.flags += " --device " + (options.device.empty() ? "cpu" : options.device);
    OwningOpRef<ModuleOp> planned = group.graph->clone();
    if (failed(runPipeline(*planned, candidate.options, buildRematPipeline)))
      return failure();
    auto [known, isNew] = group.known.try_emplace(fingerprint(*planned), group.plans.size());
    if (!isNew)
      return known->second;
    if (failed(runPipeline(*planned, candidate.options, buildPlanPipeline)))
      return failure();
    auto plan = (*planned)->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
    candidate.arenaBytes = plan.getAs<IntegerAttr>("arena_bytes").getInt();
    ProcessMemory beside = computeBesideArena(*planned, kernels);
    candidate.processBytes = candidate.arenaBytes + beside.getBytes();
    auto train = planned->lookupSymbol<func::FuncOp>("train");
    StepTime time = estimateStep(train, device.rates);
    candidate.seconds = time.getSeconds();
    candidate.exposed = time.exposed;
    for (const Traffic &traffic : collectTraffic(train, device.rates.network))
      candidate.sentBytes += traffic.bytes;
    group.plans.push_back(std::move(candidate));
    group.steps.push_back(step);
    return group.plans.size() - 1;
  }

  /// The steps around those of the front, wherever the next plan of the front is more than a fiftieth away. False:
  /// there are none.
  bool refine(std::vector<std::vector<size_t>> &wanted) {
    struct Place {
      const Candidate *plan;
      size_t group;
      std::optional<size_t> step;
    };
    std::vector<Place> places;
    for (auto [g, group] : llvm::enumerate(groups))
      for (auto [plan, step] : llvm::zip(group.plans, group.steps))
        places.push_back({&plan, g, step});
    llvm::sort(places, [](const Place &a, const Place &b) {
      return std::tie(a.plan->seconds, a.plan->processBytes, a.group, a.step) <
             std::tie(b.plan->seconds, b.plan->processBytes, b.group, b.step);
    });
    std::vector<Place> front;
    for (const Place &place : places)
      if (front.empty() || place.plan->processBytes < front.back().plan->processBytes)
        front.push_back(place);
    for (std::vector<size_t> &steps : wanted)
      steps.clear();
    bool any = false;
    for (auto [i, place] : llvm::enumerate(front))
      for (bool above : {false, true}) {
        if (!place.step || (!above && i == 0))
          continue;
        bool isLast = i + 1 == front.size();
        const Candidate &next = *front[above ? (isLast ? i : i + 1) : i - 1].plan;
        double gap = std::abs(double(next.processBytes - place.plan->processBytes));
        if (gap < 0.02 * static_cast<double>(place.plan->processBytes) && !(above && isLast))
          continue;
        std::optional<size_t> step = groups[place.group].between(*place.step, above);
        if (step && added < mostAdded) {
          wanted[place.group].push_back(*step);
          any = true;
          ++added;
        }
      }
    return any;
  }

  FailureOr<Family> collect() {
    Family family;
    for (Group &group : groups) {
      llvm::move(group.plans, std::back_inserter(family.plans));
      if (group.failure.empty())
        continue;
      auto known = llvm::find_if(family.refusals, [&](const Refusal &r) { return r.why == group.failure; });
      if (known == family.refusals.end())
        known = family.refusals.insert(known, {group.failure, {}});
      known->flags.push_back(StringRef(group.flags).trim().str());
    }
    if (family.plans.empty())
      return emitError(UnknownLoc::get(module.getContext()))
                 << (family.refusals.empty() ? "no plan can be made" : family.refusals.front().why),
             failure();
    // Of equal plans the one with fewer flags comes first.
    auto key = [](const Candidate &c) {
      return std::tuple(c.seconds, c.processBytes, c.flags.size(), StringRef(c.flags));
    };
    llvm::sort(family.plans, [&](const Candidate &a, const Candidate &b) { return key(a) < key(b); });
    return family;
  }

  static constexpr size_t mostAdded = 64; // plans, beside the first: a bound on the search's time

  ModuleOp module;
  const CompileOptions &options;
  const Device &device;
  ArrayRef<BlasBlocks> kernels;
  std::deque<Group> groups;
  size_t added = 0;
};
} // namespace

FailureOr<Family> mlir::scrimp::planFamily(ModuleOp module, const CompileOptions &options, const Device &device,
                                           std::optional<int64_t> budget) {
  FailureOr<SmallVector<BlasBlocks>> kernels = findBlasKernels(options, module.getContext());
  if (failed(kernels))
    return failure();
  FamilyPlanner planner(module, options, device, *kernels);
  return budget && options.world > 1 ? planner.search(*budget) : planner.plan();
}

std::vector<const Candidate *> mlir::scrimp::paretoFront(const std::vector<Candidate> &candidates) {
  std::vector<const Candidate *> front;
  for (const Candidate &candidate : candidates)
    if (front.empty() || candidate.processBytes < front.back()->processBytes)
      front.push_back(&candidate);
  return front;
}
