#include "scrimp/Driver/Budget.h"

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Driver/Pipeline.h"
#include "scrimp/Driver/SuggestChunks.h"
#include "scrimp/Planner/Report.h"
#include "scrimp/runtime/MemoryLimit.h"

#include "mlir/IR/Threading.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <mutex>

using namespace mlir;
using namespace mlir::scrimp;

//===-- Sizes ----------------------------------------------------------------------------------------------------===//

/// Bytes that a process started now could take.
static int64_t measureFreeBytes() {
  int64_t free = std::numeric_limits<int64_t>::max();
  for (const ::scrimp::runtime::MemoryLimit &limit : ::scrimp::runtime::findMemoryLimits())
    free = std::min(free, std::max<int64_t>(0, limit.bytes - limit.used));
  return free;
}

std::optional<int64_t> mlir::scrimp::parseMemorySize(StringRef text) {
  text = text.trim();
  if (text == "max")
    return measureFreeBytes();
  size_t digits = text.find_first_not_of("0123456789.");
  double number;
  if (text.take_front(digits).getAsDouble(number))
    return std::nullopt;
  StringRef unit = digits == StringRef::npos ? "" : text.drop_front(digits).trim();
  double factor = llvm::StringSwitch<double>(unit.lower())
                      .Cases({"", "b"}, 1)
                      .Cases({"k", "kib"}, 0x1p10)
                      .Cases({"m", "mib"}, 0x1p20)
                      .Cases({"g", "gib"}, 0x1p30)
                      .Cases({"t", "tib"}, 0x1p40)
                      .Case("kb", 1e3)
                      .Case("mb", 1e6)
                      .Case("gb", 1e9)
                      .Case("tb", 1e12)
                      .Default(0);
  double bytes = number * factor;
  if (factor == 0 || !(bytes >= 1) || bytes > 0x1p60)
    return std::nullopt;
  return static_cast<int64_t>(bytes);
}

static std::string inMiB(int64_t bytes) { return llvm::formatv("{0:f2} MiB", bytes / 0x1p20).str(); }

//===-- Candidates -----------------------------------------------------------------------------------------------===//

/// The batch of a whole update; 1 where no input has one.
static int64_t getBatch(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument argument : main.getArguments())
    if (auto dim = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), ScrimpDialect::kInput);
        dim && dim.getInt() >= 0)
      return shapeOf(argument)[dim.getInt()];
  return 1;
}

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

/// Prices of a byte that is kept: from less than it takes to move one, which no recomputation is cheaper than, to more
/// than a large product takes for each byte of its result; then any price, and what a block begins with alone.
static std::vector<std::string> rematPolicies(const DeviceRates &rates) {
  std::vector<std::string> policies{"none"};
  for (double moves = 0.3; moves < 5000; moves *= std::sqrt(10.0))
    policies.push_back(llvm::formatv("tradeoff={0:e1}", moves / rates.bytes).str());
  policies.insert(policies.end(), {"tradeoff=inf", "full"});
  return policies;
}

/// Candidates that differ in what is computed again alone.
using Group = std::vector<Candidate>;

/// Rules of --chunk for `count` micro-batches, each a way to begin with: none, the head, the head and MLPs. Chunks of
/// fewer than 512 tokens would make the library's products slow.
static std::vector<std::vector<std::string>> chunkRules(const SuggestedChunks &suggested, int64_t count) {
  constexpr int64_t fewestRows = 512, mostChunks = 64;
  std::vector<std::vector<std::string>> ways{{}};
  int64_t chunks = std::min(suggested.rows / std::max<int64_t>(count, 1) / fewestRows, mostChunks);
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

static std::vector<Group> makeFamily(ModuleOp module, const CompileOptions &options, const Device &device) {
  std::vector<int64_t> counts{0};
  if (options.microBatches == 0 && options.microBatchSize == 0)
    counts = microBatchCounts(getBatch(module));
  SuggestedChunks suggested;
  if (options.chunk.empty())
    suggested = suggestChunks(module.lookupSymbol<func::FuncOp>("main"));
  // One way to begin with: its micro-batches, chunks and precision decide the graph.
  struct Start {
    int64_t count;
    std::vector<std::string> rules;
    std::string precision;
  };
  std::vector<Start> starts;
  for (int64_t count : counts)
    for (const std::vector<std::string> &rules : chunkRules(suggested, std::max(count, options.microBatches)))
      for (size_t i = 0; i < std::max<size_t>(1, options.precisions.size()); ++i)
        starts.push_back({count, rules, options.precisions.size() > 1 ? options.precisions[i] : ""});
  std::vector<Group> family;
  for (const auto &[count, rules, precision] : starts) {
    std::vector<std::string> policies{options.remat};
    if (options.remat.empty())
      policies = rematPolicies(device.rates);
    // Beside chunks, which are for tight budgets, a few.
    if (!rules.empty() && policies.size() > 1)
      policies = {policies[0], policies[2], policies[5], "full"};
    Group &group = family.emplace_back();
    for (const std::string &policy : policies) {
      Candidate candidate;
      candidate.options = options;
      candidate.options.report.clear();
      candidate.options.memoryBudget.clear();
      candidate.options.remat = policy;
      candidate.options.precisions.clear();
      if (!precision.empty()) {
        candidate.options.import.precision = precision;
        candidate.flags = "--precision " + precision + " ";
      }
      if (count) {
        candidate.options.microBatches = count;
        candidate.flags += llvm::formatv("--micro-batches {0} ", count);
      }
      for (const std::string &rule : rules) {
        candidate.options.chunk.push_back(rule);
        candidate.flags += "--chunk '" + rule + "' ";
      }
      candidate.flags += "--remat " + policy;
      // What is worth its price depends on the machine.
      if (StringRef(policy).starts_with("tradeoff"))
        candidate.flags += " --device " + (options.device.empty() ? "cpu" : options.device);
      group.push_back(std::move(candidate));
    }
  }
  return family;
}

/// What tells graphs apart that were computed again in different ways: how many ops there are, what they do and give.
static llvm::hash_code fingerprint(ModuleOp module) {
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

/// Candidates that differ in what is computed again alone share a graph; null where the model does not allow it
/// (micro-batches and batch normalization): then that is what they say of themselves.
static std::vector<OwningOpRef<ModuleOp>> buildGraphs(ModuleOp module, std::vector<Group> &groups) {
  std::vector<OwningOpRef<ModuleOp>> graphs(groups.size());
  std::mutex mutex;
  std::string why;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    std::lock_guard<std::mutex> lock(mutex);
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && why.empty())
      why = diagnostic.str();
    return success();
  });
  parallelFor(module.getContext(), 0, groups.size(), [&](size_t i) {
    graphs[i] = module.clone();
    if (failed(runPipeline(*graphs[i], groups[i].front().options, buildGraphPipeline)))
      graphs[i] = nullptr;
  });
  for (auto [graph, group] : llvm::zip(graphs, groups))
    if (!graph)
      for (Candidate &candidate : group)
        candidate.failure = why;
  return graphs;
}

/// Plans the candidates of a group; a policy that changes nothing against one before costs nothing.
static LogicalResult planGroup(ModuleOp graph, Group &group, const Device &device) {
  llvm::DenseMap<size_t, Candidate *> known;
  for (Candidate &candidate : group) {
    OwningOpRef<ModuleOp> planned = graph.clone();
    if (failed(runPipeline(*planned, candidate.options, buildRematPipeline)))
      return failure();
    auto [same, isNew] = known.try_emplace(fingerprint(*planned), &candidate);
    if (!isNew) {
      std::tie(candidate.arenaBytes, candidate.processBytes, candidate.seconds) =
          std::tie(same->second->arenaBytes, same->second->processBytes, same->second->seconds);
      continue;
    }
    if (failed(runPipeline(*planned, candidate.options, buildPlanPipeline)))
      return failure();
    auto plan = (*planned)->getAttrOfType<DictionaryAttr>(ScrimpDialect::kPlan);
    candidate.arenaBytes = plan.getAs<IntegerAttr>("arena_bytes").getInt();
    candidate.processBytes = candidate.arenaBytes + getBytesBesideArena(workersOf(candidate.options));
    candidate.seconds = estimateSeconds(planned->lookupSymbol<func::FuncOp>("train"), device.rates);
  }
  return success();
}

FailureOr<std::vector<Candidate>> mlir::scrimp::planCandidates(ModuleOp module, const CompileOptions &options,
                                                               const Device &device) {
  std::vector<Group> groups = makeFamily(module, options, device);
  std::vector<OwningOpRef<ModuleOp>> graphs = buildGraphs(module, groups);
  auto numbers = llvm::seq<size_t>(0, groups.size());
  if (failed(failableParallelForEach(module.getContext(), numbers, [&](size_t i) {
        return graphs[i] ? planGroup(*graphs[i], groups[i], device) : success();
      })))
    return failure();
  std::vector<Candidate> family;
  for (Group &group : groups)
    llvm::move(group, std::back_inserter(family));
  // Of equal plans the one with fewer flags comes first.
  auto key = [](const Candidate &c) {
    return std::tuple(!c.failure.empty(), c.seconds, c.processBytes, c.flags.size(), StringRef(c.flags));
  };
  llvm::sort(family, [&](const Candidate &a, const Candidate &b) { return key(a) < key(b); });
  if (!family.front().failure.empty())
    return emitError(UnknownLoc::get(module.getContext())) << family.front().failure, failure();
  return family;
}

std::vector<const Candidate *> mlir::scrimp::paretoFront(const std::vector<Candidate> &candidates) {
  std::vector<const Candidate *> front;
  for (const Candidate &candidate : candidates)
    if (candidate.failure.empty() && (front.empty() || candidate.processBytes < front.back()->processBytes))
      front.push_back(&candidate);
  return front;
}

//===-- Choosing -------------------------------------------------------------------------------------------------===//

/// The largest values that are alive at the peak of `candidate`, one after the other.
static std::string describeHolders(ModuleOp module, const Candidate &candidate) {
  OwningOpRef<ModuleOp> clone = module.clone();
  PassManager manager(module.getContext());
  buildPipeline(manager, candidate.options);
  if (failed(manager.run(*clone)))
    return "";
  FailureOr<llvm::json::Object> report = buildMemoryReport(*clone);
  if (failed(report))
    return "";
  std::string text;
  const llvm::json::Array &holders = *report->getArray("holders");
  for (size_t i = 0; i < std::min<size_t>(3, holders.size()); ++i) {
    const llvm::json::Object &holder = *holders[i].getAsObject();
    text += llvm::formatv("{0}'{1}' ({2}, {3})", text.empty() ? "" : ", ", *holder.getString("name"),
                          *holder.getString("kind"), inMiB(*holder.getInteger("bytes")));
  }
  return text;
}

void mlir::scrimp::printFront(raw_ostream &os, const std::vector<Candidate> &candidates, const Candidate *chosen) {
  os << "         process  est. step  flags\n";
  for (const Candidate *candidate : paretoFront(candidates))
    os << (candidate == chosen ? "  * " : "    ") << llvm::right_justify(inMiB(candidate->processBytes), 12)
       << llvm::format("%9.3g s  ", candidate->seconds) << candidate->flags << "\n";
}

static void printChoice(raw_ostream &os, const std::vector<Candidate> &candidates, const Candidate &chosen,
                        int64_t budget, const Device &device) {
  auto isPlanned = [](const Candidate &c) { return c.failure.empty(); };
  auto fits = [&](const Candidate &c) { return isPlanned(c) && c.processBytes <= budget; };
  os << "memory budget " << inMiB(budget) << ": " << llvm::count_if(candidates, isPlanned) << " plans for "
     << device.name << ", " << llvm::count_if(candidates, fits) << " fit\n";
  printFront(os, candidates, &chosen);
}

LogicalResult mlir::scrimp::chooseWithinBudget(ModuleOp module, CompileOptions &options, const Device &device) {
  Location loc = UnknownLoc::get(module.getContext());
  std::optional<int64_t> budget = parseMemorySize(options.memoryBudget);
  if (!budget)
    return emitError(loc) << "--memory-budget '" << options.memoryBudget
                          << "' is no size; write 6GiB, 512MiB, 1500MB or max";
  FailureOr<std::vector<Candidate>> planned = planCandidates(module, options, device);
  if (failed(planned))
    return failure();
  const std::vector<Candidate> &candidates = *planned;
  for (const Candidate &candidate : candidates)
    if (candidate.failure.empty() && candidate.processBytes <= *budget) {
      if (!options.quiet)
        printChoice(llvm::errs(), candidates, candidate, *budget, device);
      std::string report = options.report;
      options = candidate.options;
      options.report = report;
      return success();
    }
  const Candidate &smallest = *paretoFront(candidates).back();
  InFlightDiagnostic diagnostic = emitError(loc)
                                  << "no plan fits --memory-budget " << options.memoryBudget << ": the smallest takes "
                                  << inMiB(smallest.processBytes) << " (" << inMiB(smallest.arenaBytes)
                                  << " planned, the rest code and pools) with " << smallest.flags
                                  << "; at its peak it holds " << describeHolders(module, smallest);
  auto refused = llvm::find_if(candidates, [](const Candidate &c) { return !c.failure.empty(); });
  if (refused != candidates.end())
    diagnostic << "; " << refused->flags << " is not possible: " << refused->failure;
  return diagnostic;
}

//===-- Drawing --------------------------------------------------------------------------------------------------===//

std::string mlir::scrimp::drawPareto(const std::vector<Candidate> &candidates) {
  constexpr double width = 720, height = 440, left = 70, right = 20, top = 20, bottom = 50;
  double mostBytes = 0, mostSeconds = 0;
  for (const Candidate &candidate : candidates) {
    mostBytes = std::max(mostBytes, candidate.processBytes / 0x1p20);
    mostSeconds = std::max(mostSeconds, candidate.seconds);
  }
  auto x = [&](double mib) { return left + mib / std::max(mostBytes, 1e-9) * (width - left - right); };
  auto y = [&](double s) { return height - bottom - s / std::max(mostSeconds, 1e-12) * (height - top - bottom); };
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
  auto line = [&](double x1, double y1, double x2, double y2, StringRef color) {
    os << llvm::formatv("<line x1=\"{0:f1}\" y1=\"{1:f1}\" x2=\"{2:f1}\" y2=\"{3:f1}\" stroke=\"{4}\"/>\n", x1, y1, x2,
                        y2, color);
  };
  auto label = [&](double atX, double atY, StringRef anchor, const Twine &what) {
    os << llvm::formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" text-anchor=\"{2}\">{3}</text>\n", atX, atY, anchor,
                        what.str());
  };
  for (int i = 0; i <= 4; ++i) {
    double mib = mostBytes * i / 4, s = mostSeconds * i / 4;
    line(x(mib), y(0), x(mib), y(mostSeconds), "#eee");
    line(x(0), y(s), x(mostBytes), y(s), "#eee");
    label(x(mib), height - bottom + 18, "middle", llvm::formatv("{0:f0}", mib).str());
    label(left - 8, y(s) + 4, "end", llvm::formatv("{0:f3}", s).str());
  }
  label((left + width) / 2, height - 12, "middle", "process, MiB");
  label(left, 14, "middle", "step, s");
  std::vector<const Candidate *> front = paretoFront(candidates);
  for (size_t i = 1; i < front.size(); ++i)
    line(x(front[i - 1]->processBytes / 0x1p20), y(front[i - 1]->seconds), x(front[i]->processBytes / 0x1p20),
         y(front[i]->seconds), "#06c");
  for (const Candidate &candidate : candidates)
    if (candidate.failure.empty())
      os << llvm::formatv("<circle cx=\"{0:f1}\" cy=\"{1:f1}\" r=\"3\" fill=\"{2}\"><title>{3}: {4}, {5:f3} s</title>"
                          "</circle>\n",
                          x(candidate.processBytes / 0x1p20), y(candidate.seconds),
                          llvm::is_contained(front, &candidate) ? "#06c" : "#bbb", candidate.flags,
                          inMiB(candidate.processBytes), candidate.seconds);
  os << "</svg>\n";
  return text;
}
