#include "scrimp/Driver/Budget.h"

#include "scrimp/Driver/Device.h"
#include "scrimp/Planner/Report.h"
#include "scrimp/runtime/MemoryLimit.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::scrimp;
using ::scrimp::runtime::BlasBlocks;

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

//===-- Choosing -------------------------------------------------------------------------------------------------===//

/// The largest values that are alive at the peak of `candidate`, one after the other.
static std::string describeHolders(ModuleOp module, const Candidate &candidate) {
  FailureOr<SmallVector<BlasBlocks>> kernels = findBlasKernels(candidate.options, module.getContext());
  OwningOpRef<ModuleOp> clone = module.clone();
  PassManager manager(module.getContext());
  buildPipeline(manager, candidate.options);
  if (failed(kernels) || failed(manager.run(*clone)))
    return "";
  FailureOr<llvm::json::Object> report = buildMemoryReport(*clone, *kernels, std::nullopt);
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

/// Of plans that differ in what is computed again alone, the fastest within the budget, or else the smallest.
static std::vector<const Candidate *> bestOfEach(const Family &family, int64_t budget) {
  std::vector<const Candidate *> rows;
  auto choices = [](const Candidate *candidate) { return StringRef(candidate->flags).split("--remat").first; };
  for (const Candidate &candidate : family.plans) {
    auto row = llvm::find_if(rows, [&](const Candidate *other) { return choices(other) == choices(&candidate); });
    if (row == rows.end())
      rows.push_back(&candidate);
    else if ((*row)->processBytes > budget && candidate.processBytes < (*row)->processBytes)
      *row = &candidate;
  }
  llvm::sort(rows, [](const Candidate *a, const Candidate *b) {
    return std::tie(a->seconds, a->flags) < std::tie(b->seconds, b->flags);
  });
  return rows;
}

void mlir::scrimp::printFamily(raw_ostream &os, const Family &family, const Candidate *chosen,
                               std::optional<int64_t> budget) {
  bool hasRanks = llvm::any_of(family.plans, [](const Candidate &candidate) { return candidate.sentBytes > 0; });
  os << "         process  est. step  " << (hasRanks ? "  waiting         sends  " : "") << "flags\n";
  for (const Candidate *candidate : hasRanks &&budget ? bestOfEach(family, *budget) : paretoFront(family.plans)) {
    os << (candidate == chosen ? "  * " : "    ") << llvm::right_justify(inMiB(candidate->processBytes), 12)
       << llvm::format("%9.3g s  ", candidate->seconds);
    if (hasRanks)
      os << llvm::format("%7.3g s  ", candidate->exposed) << llvm::right_justify(inMiB(candidate->sentBytes), 12)
         << "  ";
    os << candidate->flags << "\n";
  }
  for (const Refusal &refusal : family.refusals) {
    os << "  not possible: " << refusal.flags.front();
    if (refusal.flags.size() > 1)
      os << " (and " << refusal.flags.size() - 1 << " more)";
    os << ": " << refusal.why << "\n";
  }
}

static llvm::json::Object describeSearch(const Family &family, const Candidate &chosen, int64_t budget,
                                         const Device &device) {
  llvm::json::Array candidates, refusals;
  for (const Candidate &candidate : family.plans)
    candidates.push_back(llvm::json::Object{{"flags", candidate.flags},
                                            {"arena_bytes", candidate.arenaBytes},
                                            {"process_bytes", candidate.processBytes},
                                            {"seconds", candidate.seconds},
                                            {"exposed_seconds", candidate.exposed},
                                            {"sent_bytes", candidate.sentBytes}});
  for (const Refusal &refusal : family.refusals)
    refusals.push_back(llvm::json::Object{{"flags", llvm::json::Array(refusal.flags)}, {"why", refusal.why}});
  return llvm::json::Object{{"budget_bytes", budget},
                            {"device", device.name},
                            {"chosen", chosen.flags},
                            {"candidates", std::move(candidates)},
                            {"impossible", std::move(refusals)}};
}

FailureOr<llvm::json::Object> mlir::scrimp::chooseWithinBudget(ModuleOp module, CompileOptions &options,
                                                               const Device &device) {
  Location loc = UnknownLoc::get(module.getContext());
  std::optional<int64_t> budget = parseMemorySize(options.memoryBudget);
  if (!budget)
    return emitError(loc) << "--memory-budget '" << options.memoryBudget
                          << "' is no size; write 6GiB, 512MiB, 1500MB or max",
           failure();
  FailureOr<Family> family = planFamily(module, options, device, *budget);
  if (failed(family))
    return failure();
  const std::vector<Candidate> &plans = family->plans;
  auto fits = [&](const Candidate &c) { return c.processBytes <= *budget; };
  if (auto chosen = llvm::find_if(plans, fits); chosen != plans.end()) {
    if (!options.quiet) {
      llvm::errs() << "memory budget " << inMiB(*budget) << ": " << plans.size() << " plans for " << device.name << ", "
                   << llvm::count_if(plans, fits) << " fit\n";
      printFamily(llvm::errs(), *family, &*chosen, *budget);
    }
    std::string report = options.report;
    options = chosen->options;
    options.report = report;
    return describeSearch(*family, *chosen, *budget, device);
  }
  const Candidate &smallest = *paretoFront(plans).back();
  InFlightDiagnostic diagnostic = emitError(loc)
                                  << "no plan fits --memory-budget " << options.memoryBudget << ": the smallest takes "
                                  << inMiB(smallest.processBytes) << " (" << inMiB(smallest.arenaBytes)
                                  << " planned, the rest code and pools) with " << smallest.flags
                                  << "; at its peak it holds " << describeHolders(module, smallest);
  for (const Refusal &refusal : family->refusals)
    diagnostic << "; " << refusal.flags.front() << " is not possible: " << refusal.why;
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
    os << llvm::formatv("<circle cx=\"{0:f1}\" cy=\"{1:f1}\" r=\"3\" fill=\"{2}\"><title>{3}: {4}, {5:f3} s</title>"
                        "</circle>\n",
                        x(candidate.processBytes / 0x1p20), y(candidate.seconds),
                        llvm::is_contained(front, &candidate) ? "#06c" : "#bbb", candidate.flags,
                        inMiB(candidate.processBytes), candidate.seconds);
  os << "</svg>\n";
  return text;
}
