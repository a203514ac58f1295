#include "scrimp/Driver/SuggestChunks.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/Blocks.h"
#include "scrimp/Analysis/TrainingParts.h"

using namespace mlir;
using namespace mlir::scrimp;

/// "transformer.h.*.mlp" of 'transformer.h.0.mlp'.
static std::string withoutNumbers(StringRef scope) {
  std::string pattern;
  while (!scope.empty()) {
    size_t end = std::min(scope.find_first_of("./"), scope.size());
    StringRef part = scope.take_front(end);
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    pattern += isNumber ? "*" : part.str();
    pattern += scope.substr(end, 1);
    scope = scope.drop_front(std::min(end + 1, scope.size()));
  }
  return pattern;
}

static StringRef parentOf(StringRef scope) {
  size_t dot = scope.find_last_of("./");
  return dot == StringRef::npos ? StringRef() : scope.take_front(dot);
}

namespace {
/// A contraction of data by a weight: how many elements it makes of one, and along which rows.
struct Projection {
  StringRef scope;
  double growth;
  int64_t rows;
};
} // namespace

/// A projection, by what the op's tensors run over (BatchSplitOp): it sums over features that data and weight share,
/// and gives every row of the data others, which only the weight has.
static std::optional<Projection> findProjection(Operation *op, Dependence &dependence) {
  auto split = dyn_cast<BatchSplitOp>(op);
  if (!split || op->getNumResults() != 1)
    return std::nullopt;
  DimensionRule rule = split.getDimensionRule();
  auto has = [](const DimensionFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](ArrayRef<unsigned> dimension) { return llvm::is_contained(dimension, factor); });
  };
  for (unsigned d = 0; d < op->getNumOperands(); ++d)
    for (unsigned w = 0; w < op->getNumOperands(); ++w) {
      if (!dependence.get(op->getOperand(d)).onData || dependence.get(op->getOperand(w)).onData)
        continue;
      int64_t rows = 1, summed = 1, made = 1;
      for (auto [f, factor] : llvm::enumerate(rule.factors)) {
        bool inData = has(rule.operands[d], f), inWeight = has(rule.operands[w], f), inResult = has(rule.results[0], f);
        if (inResult && (inData || inWeight))
          (inData ? rows : made) *= factor.size;
        else if (inData && inWeight)
          summed *= factor.size;
      }
      if (summed > 1 && made > 1)
        return Projection{"", double(made) / summed, rows};
    }
  return std::nullopt;
}

SuggestedChunks mlir::scrimp::suggestChunks(func::FuncOp main) {
  Dependence dependence;
  SmallVector<Projection> projections;
  std::vector<std::string> names; // whose scopes are looked at
  for (Operation &op : main.getBody().front().without_terminator())
    if (std::optional<Projection> projection = findProjection(&op, dependence)) {
      names.push_back(userNameOf(&op));
      projections.push_back(*projection);
    }
  for (auto [projection, name] : llvm::zip(projections, names))
    projection.scope = moduleScopeOf(name);
  SuggestedChunks suggested;
  auto add = [](std::vector<std::string> &patterns, std::string pattern) {
    if (!llvm::is_contained(patterns, pattern))
      patterns.push_back(std::move(pattern));
  };
  for (const Projection &wide : projections) {
    // Less than that, and what is inside is worth no more than the loop's own copies of what goes in and comes out.
    if (wide.scope.empty() || wide.growth < 2.5)
      continue;
    suggested.rows = std::max(suggested.rows, wide.rows);
    StringRef parent = parentOf(wide.scope);
    bool isNarrowedAgain = !parent.empty() && llvm::any_of(projections, [&](const Projection &other) {
      return other.growth <= 0.5 && parentOf(other.scope) == parent;
    });
    if (isNarrowedAgain)
      add(suggested.insides, withoutNumbers(parent));
    else if (&wide == &projections.back())
      add(suggested.heads, withoutNumbers(wide.scope));
  }
  return suggested;
}
