// scrimp-chunk: a part of a model runs in chunks of its tokens, forward and backward together, so that what it makes of
// all tokens (logits, the inside of an MLP) never exists whole. The loop is that of micro-batches, over a region.
#include "PieceLoop.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/Blocks.h"
#include "scrimp/Analysis/TrainingParts.h"
#include "scrimp/Transforms/Passes.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_CHUNK
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

/// --chunk GLOB=N.
struct ChunkRule {
  std::string text;
  llvm::GlobPattern scopes;
  int64_t count;
  bool isUsed = false;
  bool comesLate = false; ///< what it matches an earlier rule had matched
};

using OpSet = llvm::SmallSetVector<Operation *, 32>;

/// `ops` of the block, and all on a path between two of them, in their order.
OpSet addBetween(Block &block, const OpSet &ops) {
  llvm::DenseSet<Operation *> below(ops.begin(), ops.end()), above(ops.begin(), ops.end());
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return below.contains(v.getDefiningOp()); }))
      below.insert(&op);
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return above.contains(user); }))
      above.insert(&op);
  OpSet all;
  for (Operation &op : block.without_terminator())
    if (below.contains(&op) && above.contains(&op))
      all.insert(&op);
  return all;
}

/// The ops that update accumulators and states: what depends on these and is for their new values alone. It is computed in
/// their bytes, so no loop of its own can give it.
OpSet findUpdates(Block &block) {
  auto body = dyn_cast<BodyOp>(block.getParentOp());
  auto function = dyn_cast<func::FuncOp>(block.getParentOp());
  llvm::DenseSet<Value> dependent;
  for (BlockArgument argument : block.getArguments())
    if (body ? body.getBodyArgument(argument.getArgNumber()).kind == BodyArgument::Carried
             : function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kState) != nullptr)
      dependent.insert(argument);
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return dependent.contains(v); }))
      dependent.insert(op.result_begin(), op.result_end());
  OpSet updates;
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (llvm::any_of(op.getResults(), [&](Value v) { return dependent.contains(v); }) &&
        llvm::all_of(op.getUses(), [&](OpOperand &use) {
          return updates.contains(use.getOwner()) ||
                 (use.getOwner() == block.getTerminator() &&
                  (body || function.getResultAttr(use.getOperandNumber(), ScrimpDialect::kUpdates)));
        }))
      updates.insert(&op);
  return updates;
}

/// One match of a rule in one block.
class Region {
public:
  Region(Block &block, const TrainingParts &parts, Dependence &dependence, int64_t count)
      : block(block), parts(parts), dependence(dependence), count(count), updates(findUpdates(block)) {}

  void add(Operation *op) {
    if (!updates.contains(op))
      matched.insert(op);
  }
  bool empty() const { return matched.empty(); }

  /// Builds the loops. Fails after an error at what cannot run in chunks.
  LogicalResult chunk(StringRef scope) {
    // All at once, with the loss if that lies between; else the backward pass makes again what it needs of the forward.
    OpSet closed = addBetween(block, matched);
    std::optional<BatchAnalysis> analysis;
    for (const OpSet &region : {addBetween(block, addLoss(closed)), closed})
      if (!hasOtherWeights(region))
        if (analysis = analyse(region); analysis)
          if (OpSet cut = cutOps(region, *analysis); !cut.empty())
            return build(cut, cut, *analysis);
    OpSet forward, backward;
    for (Operation *op : matched)
      (parts.isBackward(op) ? backward : forward).insert(op);
    problem.reset();
    analysis = analyse(matched);
    if (!analysis || cutOps(matched, *analysis).empty()) {
      Operation *at = problem ? problem->op : matched.front();
      std::string none = "nothing in it has tokens or samples apart";
      if (isShort)
        none = ("nothing in it has " + Twine(count) + " tokens or samples apart; ask for fewer chunks").str();
      return at->emitOpError() << "cannot run in chunks with '" << scope << "': " << (problem ? problem->reason : none);
    }
    OpSet inside = cutOps(matched, *analysis);
    auto part = [&](const OpSet &ops) {
      OpSet some;
      for (Operation *op : ops)
        if (inside.contains(op))
          some.insert(op);
      return some;
    };
    if (failed(build(part(backward), inside, *analysis)))
      return failure();
    return build(part(forward), inside, *analysis);
  }

private:
  /// The region and what the forward pass makes of it: sums then are all that leaves it.
  OpSet addLoss(const OpSet &closed) const {
    OpSet all = closed;
    bool isTraining = llvm::any_of(matched, [&](Operation *op) { return parts.isForward(op); });
    for (Operation &op : block.without_terminator())
      if ((isTraining ? parts.isForward(&op) : !parts.isBackward(&op)) && !isa<BodyOp>(op) && !updates.contains(&op) &&
          llvm::any_of(op.getOperands(), [&](Value v) { return all.contains(v.getDefiningOp()); }))
        all.insert(&op);
    return all;
  }

  /// Whether another part of the model lies between: it is to run as it did.
  bool hasOtherWeights(const OpSet &closed) {
    return llvm::any_of(closed, [&](Operation *op) {
      return !matched.contains(op) && llvm::any_of(op->getOperands(), [&](Value v) {
               Dependence::Kinds kinds = dependence.get(v);
               return kinds.onParameters && !kinds.onData;
             });
    });
  }

  /// Splits what the region reads from data along the first dimension that its ops can all be split along, so that the
  /// forward pass is no sum over the pieces (as it would be along features).
  std::optional<BatchAnalysis> analyse(const OpSet &ops) {
    for (Operation *op : ops) {
      auto split = dyn_cast<BatchSplitOp>(op);
      if (!split)
        continue;
      DimensionRule rule = split.getDimensionRule();
      for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands)) {
        if (ops.contains(operand.getDefiningOp()) || !mayBeSplit(operand))
          continue;
        for (auto [dim, ofDim] : llvm::enumerate(factors)) {
          if (ofDim.empty())
            continue;
          if (int64_t size = rule.factors[ofDim[0]].size; size < count) {
            isShort |= size > 1;
            continue;
          }
          BatchAnalysis analysis(ops.getArrayRef(), operand, {BatchPlacement::Split, static_cast<int64_t>(dim), 1},
                                 rule.factors[ofDim[0]].size, [&](Value v) { return mayBeSplit(v); });
          if (analysis.getProblems().empty() && !sumsForward(analysis))
            return analysis;
          if (!problem && !analysis.getProblems().empty())
            problem = analysis.getProblems().front();
        }
      }
    }
    return std::nullopt;
  }

  bool sumsForward(const BatchAnalysis &analysis) const {
    return llvm::any_of(matched, [&](Operation *op) {
      return parts.isForward(op) && llvm::any_of(op->getResults(), [&](Value result) {
               return analysis.getPlacement(result).kind == BatchPlacement::Partial;
             });
    });
  }

  /// Data, and what is computed from it: a weight is read whole.
  bool mayBeSplit(Value value) { return dependence.get(value).onData && tensorType(value).getRank() > 0; }

  static OpSet cutOps(const OpSet &ops, const BatchAnalysis &analysis) {
    OpSet cut;
    for (Operation *op : ops)
      if (analysis.getCut(op))
        cut.insert(op);
    return cut;
  }

  /// A loop that gives what others read of `given`; of `inside`, which is what may run in it, it makes what it needs.
  LogicalResult build(const OpSet &given, const OpSet &inside, const BatchAnalysis &analysis) {
    if (given.empty())
      return success();
    PieceLoop loop(block, given.front()->getLoc(), analysis,
                   [&](Operation &op) { return inside.contains(&op); }, /*remakesOutside=*/false);
    for (Operation *op : given)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !given.contains(user) && isNeeded(user, inside); })) {
          if (analysis.getPlacement(result).kind == BatchPlacement::Partial)
            loop.addSum(result, PieceLoop::getWideType(result));
          else
            loop.addWhole(result);
        }
    if (loop.empty())
      return success();
    loop.close();
    shareGathers(loop, given);
    // The loop stands behind all that it reads; who reads what it gives, behind the loop.
    Operation *last = nullptr;
    for (Value input : loop.getInputs())
      if (Operation *op = input.getDefiningOp(); op && op->getBlock() == &block && (!last || last->isBeforeInBlock(op)))
        last = op;
    llvm::DenseSet<Operation *> readers(given.begin(), given.end());
    SmallVector<Operation *> behind;
    for (Operation &op : block.without_terminator()) {
      if (!readers.contains(&op) &&
          llvm::any_of(op.getOperands(), [&](Value v) { return readers.contains(v.getDefiningOp()); })) {
        readers.insert(&op);
        behind.push_back(&op);
      }
    }
    if (last && readers.contains(last))
      return last->emitOpError() << "lies between parts that are to run in chunks together: it needs all of what the first "
                                    "gives, and the second needs all of it";
    OpBuilder builder(block.getParentOp()->getContext());
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(&block);
    SmallVector<Value> results = loop.build(builder, makeRuns(analysis.getBatch(), count));
    Operation *end = &*std::prev(builder.getInsertionPoint());
    for (Operation *op : behind)
      if (op->isBeforeInBlock(end)) {
        op->moveAfter(end);
        end = op;
      }
    builder.setInsertionPointAfter(results.back().getDefiningOp());
    for (auto [value, result] : llvm::zip(llvm::concat<const Value>(loop.getSums(), loop.getWholes()), results))
      replaceByWide(builder, value, result);
    for (Operation *op : llvm::reverse(given))
      if (isOpTriviallyDead(op))
        op->erase();
    return success();
  }

  /// What is gathered for one use is gathered once, before the loop: of several for the same parameters the loop reads the
  /// last. What the forward pass has gathered for itself is not kept for a loop of the backward pass, which gathers anew.
  void shareGathers(PieceLoop &loop, const OpSet &given) {
    llvm::MapVector<Value, SmallVector<Operation *>> waits; // by the part that is gathered
    for (Value input : loop.getInputs())
      if (Operation *wait = input.getDefiningOp(); wait && isForOneUse(wait))
        waits[wait->getOperand(0).getDefiningOp()->getOperand(0)].push_back(wait);
    bool isBackward = llvm::none_of(given, [&](Operation *op) { return parts.isForward(op); });
    for (auto &[part, ofPart] : waits) {
      Operation *last = *llvm::max_element(
          ofPart, [](Operation *a, Operation *b) { return a != b && a->isBeforeInBlock(b); });
      auto gather = last->getOperand(0).getDefiningOp<AllGatherOp>();
      if (isBackward && gather && isReadForward(last->getResult(0))) {
        int64_t uses = 0;
        for (Operation *user : part.getUsers())
          if (auto other = dyn_cast<AllGatherOp>(user); other && other.getUse())
            uses = std::max<int64_t>(uses, *other.getUse() + 1);
        OpBuilder builder(given.front());
        auto start = cast<AllGatherOp>(builder.clone(*gather));
        start.setUse(uses);
        IRMapping mapping;
        mapping.map(last->getOperand(0), start->getResult(0));
        last = builder.clone(*last, mapping);
      }
      for (Operation *wait : ofPart)
        if (wait != last)
          loop.replaceInput(wait->getResult(0), last->getResult(0));
    }
  }

  /// Whether the forward pass reads the value, or what lies in its bytes.
  bool isReadForward(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return isViewLike(user) ? isReadForward(user->getResult(0)) : parts.isForward(user);
    });
  }

  /// Whether the loops to come still read what the user reads (the backward part makes its own).
  bool isNeeded(Operation *user, const OpSet &inside) const { return !inside.contains(user) || !parts.isBackward(user); }

  Block &block;
  const TrainingParts &parts;
  Dependence &dependence;
  int64_t count;
  OpSet updates, matched;
  std::optional<BatchAnalysis::Problem> problem;
  bool isShort = false; ///< a dimension of data has fewer elements than there are to be chunks
};

struct Chunk : scrimp::impl::ChunkBase<Chunk> {
  using ChunkBase::ChunkBase;

  void runOnOperation() override {
    std::vector<ChunkRule> parsed;
    if (failed(parse(parsed)))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(chunk(function, parsed)))
        return signalPassFailure();
    for (const ChunkRule &rule : parsed)
      if (!rule.isUsed) {
        InFlightDiagnostic error = getOperation().emitError() << "chunk pattern '" << rule.text << "' matches no module";
        if (rule.comesLate)
          error << " that an earlier one does not match";
        return signalPassFailure();
      }
  }

  LogicalResult parse(std::vector<ChunkRule> &parsed) {
    for (const std::string &text : rules) {
      auto [glob, number] = StringRef(text).rsplit('=');
      int64_t count = 0;
      if (number.getAsInteger(10, count) || count < 2)
        return getOperation().emitError() << "a chunk rule is GLOB=N with N from 2 up, found '" << text << "'";
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(glob);
      if (!pattern)
        return getOperation().emitError() << "chunk pattern '" << glob << "': " << llvm::toString(pattern.takeError());
      parsed.push_back({glob.str(), std::move(*pattern), count});
    }
    return success();
  }

  LogicalResult chunk(func::FuncOp function, MutableArrayRef<ChunkRule> parsed) {
    // Under micro-batches the model is in their loops; beside them there are sums only.
    SmallVector<Block *> blocks;
    function.walk([&](BodyOp body) { blocks.push_back(&body.getBodyBlock()); });
    if (blocks.empty())
      blocks.push_back(&function.getBody().front());
    for (Block *block : blocks)
      for (ChunkRule &rule : parsed)
        while (std::optional<StringRef> scope = findScope(rule, *block)) {
          rule.isUsed = true;
          // What loops have changed is looked at anew.
          TrainingParts parts(function);
          Dependence dependence;
          Region region(*block, parts, dependence, rule.count);
          for (Operation &op : block->without_terminator())
            if (!op.hasTrait<OpTrait::ConstantLike>() && match(rule, &op) == scope)
              region.add(&op);
          if (!region.empty() && failed(region.chunk(*scope)))
            return failure();
          done[block].insert(*scope);
        }
    return success();
  }

  /// The first module of the block that the rule matches and that no rule has done yet.
  std::optional<StringRef> findScope(ChunkRule &rule, Block &block) {
    for (Operation &op : block.without_terminator())
      if (!op.hasTrait<OpTrait::ConstantLike>())
        if (std::optional<StringRef> scope = match(rule, &op)) {
          if (!done[&block].contains(*scope))
            return scope;
          rule.comesLate |= !rule.isUsed;
        }
    return std::nullopt;
  }

  /// The shortest module scope around the op that the pattern matches. The text lives as long as the op's location.
  static std::optional<StringRef> match(const ChunkRule &rule, Operation *op) {
    StringRef scope = moduleScopeOf(nameOf(op));
    for (size_t end = scope.find_first_of("./");; end = scope.find_first_of("./", end + 1)) {
      if (!scope.empty() && rule.scopes.match(scope.take_front(end)))
        return scope.take_front(end);
      if (end == StringRef::npos)
        return std::nullopt;
    }
  }

  static StringRef nameOf(Operation *op) {
    StringRef name;
    op->getLoc()->walk([&](Location inner) {
      if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
        name = named.getName().getValue();
      return WalkResult::advance();
    });
    return name;
  }

  llvm::DenseMap<Block *, llvm::StringSet<>> done;
};
} // namespace
