#include "RankLayouts.h"

#include "scrimp/Analysis/Blocks.h"
#include "scrimp/Analysis/TrainingParts.h"
#include "scrimp/Dialect/Scrimp.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::scrimp;

void RankLayout::apply(CompileOptions &options) const {
  if (zero)
    options.zero = zero;
  if (!sync.empty())
    options.sync = sync;
  if (!unshard.empty())
    options.unshard = {unshard};
}

std::string RankLayout::getFlags() const {
  return (zero ? "--zero " + std::to_string(*zero) + " " : "") + (sync.empty() ? "" : "--sync " + sync + " ") +
         (unshard.empty() ? "" : "--unshard '" + unshard + "' ");
}

/// A pattern of the later half of the blocks of `main`: between the passes theirs are kept for the shortest time.
static std::string laterBlocks(func::FuncOp main, const CompileOptions &options) {
  SmallVector<llvm::GlobPattern> patterns;
  for (const std::string &text : options.blocks)
    if (auto pattern = llvm::GlobPattern::create(text))
      patterns.push_back(*pattern);
    else
      llvm::consumeError(pattern.takeError());
  SmallVector<bool> used(patterns.size());
  llvm::SetVector<StringRef> blocks;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (main.getArgAttr(i, ScrimpDialect::kParam))
      if (auto name = main.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kName))
        if (StringRef block = findBlockPrefix(name.getValue(), patterns, used); !block.empty())
          blocks.insert(block);
  // More alternatives than a pattern may have are none.
  if (blocks.size() < 2 || blocks.size() > 1024)
    return "";
  return "{" + llvm::join(blocks.getArrayRef().drop_front(blocks.size() / 2), ",") + "}";
}

std::vector<RankLayout> mlir::scrimp::listLayouts(func::FuncOp main, const CompileOptions &options,
                                                  int64_t microBatches) {
  std::vector<RankLayout> layouts;
  for (int64_t zero : {0, 1, 2, 3}) {
    if (options.zero ? *options.zero != zero : options.world == 1 && zero > 0)
      continue;
    bool isSplit = microBatches > 1, syncIsGiven = !options.sync.empty() && options.sync != "auto";
    // Stages 1 and 2 differ in when gradients are added up alone.
    if (!options.zero && zero == 2 && (!isSplit || syncIsGiven))
      continue;
    RankLayout layout;
    if (!options.zero && options.world > 1)
      layout.zero = zero;
    layouts.push_back(layout);
    if (options.world > 1 && zero == 3 && options.unshard.empty())
      for (const std::string &pattern : {laterBlocks(main, options), std::string("*")})
        if (!pattern.empty()) {
          layouts.push_back(layout);
          layouts.back().unshard = pattern;
        }
    // The other than what `auto` does, where it keeps or sends less than another stage: all ranks' sums of a stage 0 do
    // not.
    if (options.world == 1 || !isSplit || !options.sync.empty() || zero == 0 || (!options.zero && zero != 3))
      continue;
    layout.sync = zero == 1 ? "per-micro-batch" : "per-step";
    layouts.push_back(layout);
  }
  return layouts;
}

/// Whether the forward and the backward pass, or a loop, read what `gather` gives.
static bool isKept(Operation *gather, const TrainingParts &parts) {
  bool forward = false, backward = false;
  SmallVector<Value> values{gather->getResult(0)};
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      if (isViewLike(user) || user == cast<AsyncOp>(gather).getEnd()) {
        values.push_back(user->getResult(0));
        continue;
      }
      forward |= isa<BodyOp>(user) || parts.isForward(user);
      backward |= isa<BodyOp>(user) || parts.isBackward(user);
    }
  return forward && backward;
}

int64_t mlir::scrimp::computeFloor(ModuleOp graph) {
  auto train = graph.lookupSymbol<func::FuncOp>("train");
  Block &block = train.getBody().front();
  TrainingParts parts(train);
  int64_t floor = 0, mostCarried = 0;
  for (BlockArgument argument : block.getArguments())
    floor += bytesOf(argument);
  for (Operation &op : block.without_terminator()) {
    if (auto collective = dyn_cast<CollectiveOp>(op)) {
      if (collective.getExchange().pattern == planner::Pattern::AllGather && !collective.isForOneUse() &&
          isKept(&op, parts))
        floor += bytesOf(op.getResult(0));
    } else if (auto body = dyn_cast<BodyOp>(op)) {
      int64_t carried = 0;
      for (BlockArgument argument : body.getBodyBlock().getArguments())
        if (BodyArgument means = body.getBodyArgument(argument.getArgNumber());
            means.kind == BodyArgument::Carried && !isa<BlockArgument>(op.getOperand(means.operand)))
          carried += bytesOf(argument);
      mostCarried = std::max(mostCarried, carried);
    }
  }
  return floor + mostCarried;
}
