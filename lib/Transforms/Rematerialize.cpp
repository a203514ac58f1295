// scrimp-rematerialize: states a policy as the problem of what to keep (Planner/Rematerialization.h), has it solved,
// and the clones built (RecomputeBuilder).
#include "RecomputeBuilder.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/Blocks.h"
#include "scrimp/Analysis/FusionLegality.h"
#include "scrimp/Transforms/Passes.h"
#include "scrimp/Transforms/RematPolicy.h"
#include "scrimp/Transforms/RematPrices.h"

using namespace mlir;
using namespace mlir::scrimp;
using planner::RematChoice;
using planner::RematProblem;

namespace mlir::scrimp {
#define GEN_PASS_DEF_REMATERIALIZE
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

static constexpr double kFewestBytes = std::numeric_limits<double>::infinity();

/// A map op that only moves elements.
static bool isMove(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  auto cost = dyn_cast<CostOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Map && cost && cost.getFlops() == 0;
}

/// Whether an op multiplies matrices, by a library or by kernels of a device.
static bool isContraction(Operation *op) {
  auto precision = dyn_cast<PrecisionOp>(op);
  return precision && precision.getPrecisionRule().precision == Precision::Low;
}

namespace {
/// The problem of one block under a policy.
class BlockProblem {
public:
  BlockProblem(const ResidualGraph &graph, Dependence &dependence, const DeviceRates &rates)
      : graph(graph), dependence(dependence), rates(rates) {
    for (Operation *op : graph.getOps()) {
      // What comes from constants alone reads nothing that could wait for a gradient.
      Dependence::Kinds kinds = dependence.get(op->getResult(0));
      bool mayRepeat =
          isa<KernelOp>(op) && isMemoryEffectFree(op) && (kinds.onParameters || kinds.onData) && mayExchangeAgain(op);
      problem.ops.push_back({secondsOf(op), mayRepeat, SmallVector<unsigned>(graph.getReads(problem.ops.size()))});
    }
    // A value that is updated in place is no longer there for a second reader; but what is made once alone (a sum of a
    // loop that holds both passes, which the backward pass goes on with) has no choice.
    for (auto [v, value] : llvm::enumerate(graph.getValues()))
      problem.values.push_back({graph.getOpOf(v), graph.isGiven(v) ? 0.0 : static_cast<double>(bytesOf(value)),
                                !graph.getBackwardReads(v).empty(),
                                !isOverwritten(value) || !problem.ops[graph.getOpOf(v)].mayRepeat});
  }

  RematProblem problem;

  /// Keeps what `mayRepeat` does not allow.
  void restrict(function_ref<bool(unsigned op)> mayRepeat) {
    for (unsigned o = 0; o < problem.ops.size(); ++o)
      problem.ops[o].mayRepeat = problem.ops[o].mayRepeat && (isForOneUse(getOp(o)) || mayRepeat(o));
  }

  Operation *getOp(unsigned o) const { return graph.getOps()[o]; }

  KernelFamily familyOf(unsigned o) const { return cast<KernelOp>(getOp(o)).getKernelFamily(); }

  /// Whether op `o` copies what the backward pass reads anyway.
  bool copiesResidual(unsigned o) const {
    return isMove(getOp(o)) && !graph.getReads(o).empty() &&
           llvm::all_of(graph.getReads(o), [&](unsigned v) { return problem.values[v].required; });
  }

  /// Whether op `o` depends on parameters, but on nothing else that changes.
  bool isOfParameters(unsigned o) const {
    Dependence::Kinds kinds = dependence.get(getOp(o)->getResult(0));
    return kinds.onParameters && !kinds.onData;
  }

  /// Marks what one block leaves to another: it may not be computed again, lest blocks do one after the other. Casts of
  /// parameters may.
  void keepWhatLeaves(ArrayRef<int> blocks) {
    for (unsigned v = 0; v < problem.values.size(); ++v) {
      unsigned o = problem.values[v].op;
      if (!isOfParameters(o) &&
          llvm::any_of(graph.getForwardReaders(v), [&](unsigned reader) { return blocks[reader] != blocks[o]; }))
        problem.ops[o].mayRepeat = false;
    }
  }

  /// PyTorch's min-cut partitioner weighs a value that fusion would not store twice, for its store and its load, and
  /// keeps small results of reductions (torch/_functorch/partitioners.py).
  void weighAsPyTorch() {
    restrict([&](unsigned o) {
      if (familyOf(o) != KernelFamily::Rows)
        return familyOf(o) == KernelFamily::Map;
      return 4 * bytesOfAll(getOp(o)->getResults()) > bytesOfAll(getOp(o)->getOperands());
    });
    for (RematProblem::Value &value : problem.values)
      if (isFusibleMap(getOp(value.op)) && onlyKernelsRead(getOp(value.op)))
        value.bytes *= 2;
  }

  /// What crosses the border before each op: values that depend on parameters and data.
  std::vector<Crossing> computeCrossing() const {
    std::vector<Crossing> crossing(problem.ops.size() + 1);
    for (unsigned v = 0; v < problem.values.size(); ++v) {
      Dependence::Kinds kinds = dependence.get(graph.getValues()[v]);
      if (!kinds.onParameters || !kinds.onData || graph.getForwardReaders(v).empty())
        continue;
      int64_t bytes = bytesOf(graph.getValues()[v]);
      for (unsigned i = problem.values[v].op + 1; i <= graph.getForwardReaders(v).back(); ++i) {
        ++crossing[i].values;
        crossing[i].bytes += bytes;
      }
    }
    return crossing;
  }

  /// Takes adjacent blocks together where that saves bytes.
  void group(MutableArrayRef<int> blocks) const {
    int count = blocks.empty() ? 0 : *llvm::max_element(blocks) + 1;
    std::vector<int64_t> inputs(count), inside(count);
    for (unsigned v = 0; v < problem.values.size(); ++v) {
      if (isOfParameters(problem.values[v].op)) // made again anywhere
        continue;
      int block = blocks[problem.values[v].op];
      int64_t bytes = problem.values[v].bytes;
      // A block's input is what an earlier one, or what is before them all, leaves to it.
      llvm::SmallSetVector<int, 4> readers;
      for (unsigned reader : graph.getForwardReaders(v))
        if (blocks[reader] >= 0 && blocks[reader] != block)
          readers.insert(blocks[reader]);
      if (!readers.empty())
        inputs[*llvm::min_element(readers)] += bytes;
      else if (problem.values[v].required && block >= 0)
        inside[block] += bytes;
    }
    std::vector<unsigned> starts = planner::groupBlocks(inputs, inside);
    for (int &block : blocks)
      if (block >= 0)
        block = llvm::upper_bound(starts, static_cast<unsigned>(block)) - starts.begin() - 1;
  }

private:
  /// What ranks exchange is not exchanged again, unless it is for one use and that is not one of the backward pass.
  bool mayExchangeAgain(Operation *op) const {
    auto start = dyn_cast<AsyncOp>(op);
    Operation *end = start ? start.getEnd() : op;
    if (!start && getEndedOps(op).empty())
      return true;
    return end && isForOneUse(end) &&
           graph.getBackwardReads(graph.getNumber(cast<OpResult>(end->getResult(0)))).empty();
  }

  /// Whether an op that has code updates the value in place.
  static bool isOverwritten(Value value) {
    return llvm::any_of(value.getUses(), [](OpOperand &use) {
      auto alias = dyn_cast<AliasOp>(use.getOwner());
      if (!alias || !alias.hasCode())
        return false;
      for (unsigned r = 0; r < use.getOwner()->getNumResults(); ++r)
        if (std::optional<Tie> tie = alias.getTie(r); tie && tie->operand == use.getOperandNumber())
          return true;
      return false;
    });
  }

  static int64_t bytesOfAll(ValueRange values) {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += bytesOf(value);
    return bytes;
  }

  /// Whether all forward readers can compute the op in their kernels, directly or through what is free there.
  bool onlyKernelsRead(Operation *op) const {
    SmallVector<Operation *> seen{op};
    for (size_t i = 0; i < seen.size(); ++i)
      for (OpOperand &use : seen[i]->getUses()) {
        Operation *user = use.getOwner();
        if (!graph.getParts().isForward(user))
          continue;
        if (graph.isTransparent(user) && !isViewLike(user))
          seen.push_back(user);
        else if (getPointwiseSource(use) != op)
          return false;
      }
    return true;
  }

  /// To compute the op again: what the kernels of its readers can compute costs its arithmetic, in each.
  double secondsOf(Operation *op) const {
    SmallVector<OpOperand *> reads;
    for (OpResult result : op->getResults())
      llvm::append_range(reads, graph.getBackwardReads(graph.getNumber(result)));
    bool isPart = isFusibleMap(op);
    for (OpOperand *use : reads)
      isPart &= getPointwiseSource(*use) == op;
    if (reads.empty()) // read by other clones
      isPart &= onlyKernelsRead(op);
    return isPart ? secondsInKernel(op, rates) * std::max<size_t>(1, reads.size()) : secondsAlone(op, rates);
  }

  const ResidualGraph &graph;
  Dependence &dependence;
  DeviceRates rates;
};

struct Rematerialize : scrimp::impl::RematerializeBase<Rematerialize> {
  using RematerializeBase::RematerializeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(prepare(module)))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(rematerialize(function)))
        return signalPassFailure();
    if (failed(checkUsed(nameUsed, chosen.texts, "rematerialization", "op of the forward pass")) ||
        failed(checkUsed(blockUsed, blocks, "block", "module")))
      signalPassFailure();
  }

  /// Of the body where most could be kept.
  std::vector<double> findPrices(ModuleOp module, size_t most) {
    RematProblem largest;
    double mostBytes = 0;
    if (failed(prepare(module)))
      return {};
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        forEachBody(function, [&](const ResidualGraph &graph, Dependence &dependence) {
          BlockProblem block(graph, dependence, rates);
          priceBytes(graph, block);
          double bytes = 0;
          for (const RematProblem::Value &value : block.problem.values)
            bytes += value.required ? value.bytes : 0;
          if (bytes > mostBytes)
            largest = std::move(block.problem);
          mostBytes = std::max(mostBytes, bytes);
        });
    return mostBytes > 0 ? planner::findPrices(largest, most) : std::vector<double>();
  }

private:
  /// Reads the options.
  LogicalResult prepare(ModuleOp module) {
    llvm::Expected<RematPolicy> parsed = RematPolicy::parse(policy);
    if (!parsed) {
      return module.emitError() << "rematerialization policy: " << llvm::toString(parsed.takeError());
    }
    chosen = std::move(*parsed);
    nameUsed.assign(chosen.names.size(), false);
    for (const std::string &text : blocks) {
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
      if (!pattern) {
        return module.emitError() << "block pattern '" << text << "': " << llvm::toString(pattern.takeError());
      }
      blockPatterns.push_back(std::move(*pattern));
    }
    blockUsed.assign(blockPatterns.size(), false);
    rates.library16 = rates.library32 = rates.library64 = flopsPerSecond;
    rates.kernelFlops = mapFlopsPerSecond;
    rates.bytes = bytesPerSecond;
    rates.launch = secondsPerLaunch;
    return success();
  }

  LogicalResult checkUsed(ArrayRef<bool> used, ArrayRef<std::string> texts, StringRef kind, StringRef things) {
    for (auto [isUsed, text] : llvm::zip(used, texts))
      if (!isUsed)
        return getOperation().emitError() << kind << " pattern '" << text << "' matches no " << things
                                          << "; the remarks of `list` and --report tell their names";
    return success();
  }

  /// The function's body and those inside it that hold some of the backward pass.
  void forEachBody(func::FuncOp function, function_ref<void(const ResidualGraph &, Dependence &)> visit) {
    TrainingParts parts(function);
    Dependence dependence;
    SmallVector<Block *> inner{&function.getBody().front()};
    function.walk([&](BodyOp body) { inner.push_back(&body.getBodyBlock()); });
    for (Block *block : inner)
      if (llvm::any_of(*block, [&](Operation &op) { return parts.isBackward(&op); }))
        visit(ResidualGraph(*block, parts), dependence);
  }

  LogicalResult rematerialize(func::FuncOp function) {
    bool changed = false;
    forEachBody(function, [&](const ResidualGraph &graph, Dependence &dependence) {
      RematChoice choice = choose(graph, dependence);
      if (list)
        remark(graph, choice);
      if (choice.repeated.none())
        return;
      RecomputeBuilder(graph, choice, rates).build();
      changed = true;
    });
    return changed ? delayUpdates(function) : success();
  }

  RematChoice choose(const ResidualGraph &graph, Dependence &dependence) {
    BlockProblem block(graph, dependence, rates);
    double price = kFewestBytes;
    switch (chosen.kind) {
    case RematPolicy::None:
      block.restrict([&](unsigned o) { return block.copiesResidual(o); });
      break;
    case RematPolicy::Full:
    case RematPolicy::Save:
      restrictToBlocks(graph, block);
      break;
    case RematPolicy::Selective:
      block.restrict([&](unsigned o) { return !isContraction(block.getOp(o)); });
      break;
    case RematPolicy::MinCut:
      block.weighAsPyTorch();
      break;
    case RematPolicy::Tradeoff:
      priceBytes(graph, block);
      price = chosen.secondsPerByte;
      break;
    case RematPolicy::Recompute:
      block.restrict([&](unsigned o) { return block.copiesResidual(o) || matchesName(block.getOp(o)); });
      for (RematProblem::Value &value : block.problem.values)
        value.mayKeep &= !block.problem.ops[value.op].mayRepeat || !matchesName(block.getOp(value.op));
      break;
    }
    return planner::chooseKept(block.problem, price);
  }

  /// The problem of a price for every byte.
  void priceBytes(const ResidualGraph &graph, BlockProblem &block) {
    BlockNumbers numbers = findBlocksOf(graph, block);
    block.keepWhatLeaves(numbers);
    // What follows the last block (logits) is read again at once, where the peak is: to drop it would free nothing.
    unsigned end = numbers.size();
    while (end > 0 && numbers[end - 1] < 0)
      --end;
    block.restrict([&](unsigned o) { return end == 0 || o < end; });
    planner::preferEarliest(block.problem);
  }

  BlockNumbers findBlocksOf(const ResidualGraph &graph, const BlockProblem &block) {
    BlockNumbers numbers = findBlocks(graph.getOps(), block.computeCrossing(), blockPatterns, blockUsed);
    if (numbers.empty())
      numbers.assign(graph.getOps().size(), -1);
    block.group(numbers);
    return numbers;
  }

  void restrictToBlocks(const ResidualGraph &graph, BlockProblem &block) {
    BlockNumbers numbers = findBlocksOf(graph, block);
    block.restrict([&](unsigned o) { return numbers[o] >= 0 || block.isOfParameters(o) || block.copiesResidual(o); });
    block.keepWhatLeaves(numbers);
    if (chosen.kind == RematPolicy::Save)
      block.restrict([&](unsigned o) { return !matchesName(block.getOp(o)); });
  }

  bool matchesName(Operation *op) {
    std::string name = userNameOf(op);
    bool matches = false;
    for (auto [i, pattern] : llvm::enumerate(chosen.names))
      if (pattern.match(name))
        matches = nameUsed[i] = true;
    return matches;
  }

  /// What becomes of each residual, in the order of the forward pass.
  static void remark(const ResidualGraph &graph, const RematChoice &choice) {
    for (auto [v, value] : llvm::enumerate(graph.getValues())) {
      bool isRequired = !graph.getBackwardReads(v).empty();
      if (!isRequired && !choice.kept.test(v))
        continue;
      InFlightDiagnostic remark = emitRemark(value.getLoc());
      remark << "'" << userNameOf(value) << "' " << value.getType()
             << (choice.kept.test(v) ? " is kept: " : " is computed again: ") << bytesOf(value) << " bytes";
    }
  }

  RematPolicy chosen;
  SmallVector<llvm::GlobPattern> blockPatterns;
  SmallVector<bool> nameUsed, blockUsed;
  DeviceRates rates;
};
} // namespace

std::vector<double> mlir::scrimp::findTradeoffPrices(ModuleOp module, const RematerializeOptions &options,
                                                     size_t most) {
  return Rematerialize(options).findPrices(module, most);
}
