#include "scrimp/Analysis/Blocks.h"

#include "scrimp/Analysis/Aliases.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::scrimp;

StringRef mlir::scrimp::moduleScopeOf(StringRef name) {
  size_t slash = name.rfind('/');
  return slash == StringRef::npos ? StringRef() : name.take_front(slash).ltrim('/');
}

/// Calls `visit` with each prefix of the scope that ends where a module's name does, the shortest first, and that name;
/// stops where it returns true, with that prefix.
static StringRef findPrefix(StringRef scope, function_ref<bool(StringRef prefix, StringRef last)> visit) {
  for (size_t begin = 0; begin < scope.size();) {
    size_t end = std::min(scope.find_first_of("./", begin), scope.size());
    if (visit(scope.take_front(end), scope.slice(begin, end)))
      return scope.take_front(end);
    begin = end + 1;
  }
  return StringRef();
}

StringRef mlir::scrimp::findBlockPrefix(StringRef scope, ArrayRef<llvm::GlobPattern> patterns,
                                        MutableArrayRef<bool> used) {
  return findPrefix(scope, [&](StringRef prefix, StringRef last) {
    bool matches = patterns.empty() && !last.empty() && llvm::all_of(last, llvm::isDigit);
    for (auto [i, pattern] : llvm::enumerate(patterns))
      if (pattern.match(prefix))
        matches = used[i] = true;
    return matches;
  });
}

/// One block for each key in order of first appearance; ops without one are outside.
static BlockNumbers numberKeys(ArrayRef<std::string> keys) {
  llvm::StringMap<int> numbers;
  BlockNumbers blocks;
  for (StringRef key : keys)
    blocks.push_back(key.empty() ? -1 : numbers.try_emplace(key, numbers.size()).first->second);
  return blocks;
}

/// A number that two ops share that do the same to values of the same types (a random op's key apart).
static size_t signatureOf(Operation *op) {
  llvm::hash_code hash = llvm::hash_value(op->getName().getAsOpaquePointer());
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != "key")
      hash =
          llvm::hash_combine(hash, attribute.getName().getAsOpaquePointer(), attribute.getValue().getAsOpaquePointer());
  for (Type type : op->getOperandTypes())
    hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
  for (Type type : op->getResultTypes())
    hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
  return hash;
}

namespace {
/// The ops [first, first + period * times).
struct Run {
  size_t first = 0, period = 0, times = 0;
  size_t size() const { return period * times; }
};
} // namespace

/// A run may begin at any of `spare` + 1 places: where least crosses its borders.
static void chooseBegin(Run &run, size_t spare, ArrayRef<Crossing> crossing) {
  size_t best = run.first;
  for (size_t first = run.first; first <= run.first + spare; ++first)
    if (crossing[first + run.period].bytes < crossing[best + run.period].bytes)
      best = first;
  run.first = best;
}

/// The repetition that covers most of [begin, end), of these the one with the shortest period.
static Run findLongestRun(ArrayRef<size_t> signatures, size_t begin, size_t end, ArrayRef<Crossing> crossing) {
  // Only distances at which some op comes again can be periods.
  llvm::MapVector<size_t, size_t> last;
  llvm::DenseMap<size_t, size_t> distances;
  for (size_t i = begin; i < end; ++i) {
    auto [it, isNew] = last.insert({signatures[i], i});
    if (!isNew) {
      ++distances[i - it->second];
      it->second = i;
    }
  }
  SmallVector<std::pair<size_t, size_t>> periods;
  for (auto [distance, count] : distances)
    if (distance > 1)
      periods.push_back({count, distance});
  llvm::sort(periods, [](auto a, auto b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
  periods.truncate(std::min<size_t>(periods.size(), 16));
  Run best;
  for (auto [count, period] : periods) {
    size_t equal = 0;
    for (size_t i = begin + period; i <= end; ++i) {
      if (i < end && signatures[i] == signatures[i - period]) {
        ++equal;
        continue;
      }
      // `equal` ops before i repeat what is a period before them.
      Run run{i - equal - period, period, equal / period + 1};
      if (run.times > 1 && (run.size() > best.size() || (run.size() == best.size() && run.period < best.period))) {
        chooseBegin(run, equal % period, crossing);
        best = run;
      }
      equal = 0;
    }
  }
  return best;
}

static void addRuns(ArrayRef<size_t> signatures, size_t begin, size_t end, ArrayRef<Crossing> crossing,
                    SmallVectorImpl<Run> &runs) {
  Run run = findLongestRun(signatures, begin, end, crossing);
  if (run.times == 0)
    return;
  addRuns(signatures, begin, run.first, crossing, runs);
  runs.push_back(run);
  addRuns(signatures, run.first + run.size(), end, crossing, runs);
}

static BlockNumbers findScopes(ArrayRef<Operation *> ops, ArrayRef<llvm::GlobPattern> patterns,
                               MutableArrayRef<bool> used) {
  SmallVector<std::string> keys;
  for (Operation *op : ops) {
    std::string name = userNameOf(op);
    keys.push_back(findBlockPrefix(moduleScopeOf(name), patterns, used).str());
  }
  return numberKeys(keys);
}

static BlockNumbers findRepetition(ArrayRef<Operation *> ops, ArrayRef<Crossing> crossing) {
  SmallVector<size_t> signatures = llvm::map_to_vector(ops, signatureOf);
  SmallVector<Run> runs;
  addRuns(signatures, 0, ops.size(), crossing, runs);
  BlockNumbers blocks(ops.size(), -1);
  size_t count = 0, covered = 0;
  for (Run run : runs) {
    for (size_t i = 0; i < run.size(); ++i)
      blocks[run.first + i] = count + i / run.period;
    count += run.times;
    covered += run.size();
  }
  return 2 * covered < ops.size() ? BlockNumbers() : blocks;
}

static BlockNumbers findNarrows(ArrayRef<Operation *> ops, ArrayRef<Crossing> crossing) {
  BlockNumbers blocks;
  int block = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    block += i > 0 && crossing[i].values == 1;
    blocks.push_back(block);
  }
  return block > 0 ? blocks : BlockNumbers();
}

BlockNumbers mlir::scrimp::findBlocks(ArrayRef<Operation *> ops, ArrayRef<Crossing> crossing,
                                      ArrayRef<llvm::GlobPattern> patterns, MutableArrayRef<bool> used) {
  BlockNumbers blocks = findScopes(ops, patterns, used);
  if (!patterns.empty() || llvm::any_of(blocks, [](int block) { return block > 0; }))
    return blocks;
  blocks = findRepetition(ops, crossing);
  return blocks.empty() ? findNarrows(ops, crossing) : blocks;
}
