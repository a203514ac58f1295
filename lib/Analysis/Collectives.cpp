#include "scrimp/Analysis/Collectives.h"

#include "scrimp/Analysis/Aliases.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Of how many ranks the op's results are parts; 1: of none.
static int64_t getNumParts(Operation *op) {
  int64_t ranks = 1;
  if (auto alias = dyn_cast<AliasOp>(op))
    for (unsigned r = 0; r < op->getNumResults(); ++r)
      if (std::optional<Tie> tie = alias.getTie(r); tie && tie->rankStride)
        ranks = std::max(ranks, tie->ranks);
  return ranks;
}

int64_t mlir::scrimp::getNumRanks(ModuleOp module) {
  int64_t ranks = 1;
  module.walk([&](Operation *op) {
    auto collective = dyn_cast<CollectiveOp>(op);
    ranks = collective ? collective.getNumRanks() : getNumParts(op);
    return ranks == 1 ? WalkResult::advance() : WalkResult::interrupt();
  });
  return ranks;
}

/// What the runtime gives each rank a value of its own for.
static bool isScalarOfRank(StringRef name) {
  return name == "rank" || name == "sample_base" || name == "valid_samples";
}

//===-- What is the same on all ranks ----------------------------------------------------------------------------===//

RankInvariance::RankInvariance(func::FuncOp function) {
  Block &block = function.getBody().front();
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto scalar = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kScalar);
    auto bucket = function.getArgAttrOfType<BucketAttr>(index, ScrimpDialect::kBucket);
    if (function.getArgAttr(index, ScrimpDialect::kInput) || (scalar && isScalarOfRank(scalar.getValue())) ||
        (bucket && bucket.getElements() != tensorType(argument).getNumElements()))
      mark(argument);
  }
  for (bool changed = true; std::exchange(changed, false);) {
    changed |= visit(block);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (auto updates = function.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates);
          updates && !isInvariant(value))
        changed |= mark(function.getArgument(updates.getInt()));
  }
}

/// Whether more turned out to differ.
bool RankInvariance::visit(Block &block) {
  bool changed = false;
  auto differs = [this](Value value) { return !isInvariant(value); };
  for (Operation &op : block.without_terminator()) {
    auto body = dyn_cast<BodyOp>(op);
    if (!body) {
      auto collective = dyn_cast<CollectiveOp>(op);
      if (collective ? !collective.givesSameOnAllRanks() : llvm::any_of(op.getOperands(), differs))
        for (Value result : op.getResults())
          changed |= mark(result);
      continue;
    }
    // Where the body may not run, whether it does is a part of the result.
    std::optional<unsigned> condition = body.getConditionOperand();
    bool runsApart = condition && differs(op.getOperand(*condition));
    for (BlockArgument argument : body.getBodyBlock().getArguments()) {
      BodyArgument means = body.getBodyArgument(argument.getArgNumber());
      if (means.kind == BodyArgument::Index)
        continue;
      bool isCarried = means.kind == BodyArgument::Carried;
      if (differs(op.getOperand(means.operand)) ||
          (isCarried && differs(body.getBodyBlock().getTerminator()->getOperand(means.result))))
        changed |= mark(argument);
      if (isCarried && (runsApart || differs(argument)))
        changed |= mark(op.getResult(means.result));
    }
    changed |= visit(body.getBodyBlock());
  }
  return changed;
}

//===-- The proof ------------------------------------------------------------------------------------------------===//

/// Whether the value is the number of the rank, perhaps handed into a loop.
static bool isRank(Value value) {
  while (true) {
    if (std::optional<Tie> tie = getViewTie(value); tie && !tie->placed) {
      value = value.getDefiningOp()->getOperand(tie->operand);
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return false;
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto function = dyn_cast<func::FuncOp>(parent)) {
      auto scalar = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ScrimpDialect::kScalar);
      return scalar && scalar.getValue() == "rank";
    }
    auto body = dyn_cast<BodyOp>(parent);
    if (!body)
      return false;
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    if (means.kind != BodyArgument::Shared)
      return false;
    value = body->getOperand(means.operand);
  }
}

/// Whether every rank comes to `op`, and equally often.
static LogicalResult verifyReached(Operation *op) {
  for (Operation *parent = op->getParentOp(); !isa<func::FuncOp>(parent); parent = parent->getParentOp()) {
    auto body = dyn_cast<BodyOp>(parent);
    if (body && !body.getConditionOperand())
      continue;
    InFlightDiagnostic diag = op->emitOpError() << "must run on all ranks, but stands in '" << parent->getName()
                                                << "', which may not run; put it before or behind that";
    diag.attachNote(parent->getLoc()) << "it stands in this op";
    return diag;
  }
  return success();
}

LogicalResult mlir::scrimp::verifyCollectives(ModuleOp module) {
  int64_t ranks = getNumRanks(module);
  return success(!module
                      .walk([&](Operation *op) -> WalkResult {
                        auto collective = dyn_cast<CollectiveOp>(op);
                        int64_t parts = getNumParts(op), own = collective ? collective.getNumRanks() : parts;
                        if ((collective || parts > 1) && own != ranks)
                          return op->emitOpError() << "is for " << own << " ranks, but the program for " << ranks;
                        if (parts > 1 && llvm::none_of(op->getOperands(), isRank))
                          return op->emitOpError()
                                 << "gives a rank's part, but by another number than that of the rank; expected the "
                                 << "argument with scrimp.scalar = \"rank\"";
                        if (auto start = dyn_cast<AsyncOp>(op); start && !start.getEnd())
                          return op->emitOpError() << "is started, but nothing waits for it";
                        return collective ? verifyReached(op) : success();
                      })
                      .wasInterrupted());
}

SmallVector<Traffic> mlir::scrimp::collectTraffic(func::FuncOp function, const planner::Network &network) {
  SmallVector<Traffic> all;
  function.walk([&](CollectiveOp op) {
    int64_t times = 1;
    for (Operation *parent = op->getParentOp(); parent != function; parent = parent->getParentOp())
      times *= cast<BodyOp>(parent).getIterations();
    StringRef name = op->getName().stripDialect();
    auto *traffic = llvm::find_if(all, [&](const Traffic &t) { return t.collective == name; });
    if (traffic == all.end())
      traffic = all.insert(all.end(), {name.str()});
    traffic->count += times;
    planner::ExchangeCost cost = planner::estimateExchange(op.getExchange(), network);
    traffic->bytes += times * cast<CostOp>(op.getOperation()).getLinkBytes();
    traffic->betweenBytes += times * cost.betweenBytes;
    traffic->seconds += static_cast<double>(times) * cost.seconds;
  });
  return all;
}
