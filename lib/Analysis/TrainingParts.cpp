#include "scrimp/Analysis/TrainingParts.h"

using namespace mlir;
using namespace mlir::scrimp;

bool mlir::scrimp::isRecomputed(Operation *op) {
  bool found = false;
  op->getLoc()->walk([&](Location inner) {
    if (auto fused = dyn_cast<FusedLoc>(inner))
      if (auto mark = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
        found |= mark.getValue() == kRecomputed;
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

/// Whether the function's result `index` is a gradient, or what a trainable parameter or its optimizer state becomes.
static bool isLearned(func::FuncOp function, unsigned index) {
  if (function.getResultAttr(index, ScrimpDialect::kGradient))
    return true;
  auto updates = function.getResultAttrOfType<IntegerAttr>(index, ScrimpDialect::kUpdates);
  if (!updates)
    return false;
  unsigned argument = updates.getInt();
  auto param = function.getArgAttrOfType<StringAttr>(argument, ScrimpDialect::kParam);
  return (param && param.getValue() == "trainable") || function.getArgAttr(argument, ScrimpDialect::kBucket);
}

TrainingParts::TrainingParts(func::FuncOp function) {
  SmallVector<Role> roles;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto output = function.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kOutput);
    roles.push_back(output && output.getValue() == "loss" ? Role::Loss
                    : isLearned(function, i)              ? Role::Learned
                                                          : Role::Other);
  }
  Needed needed;
  addBlock(function.getBody().front(), roles, needed);
}

void TrainingParts::addBlock(Block &block, ArrayRef<Role> roles, Needed &needed) {
  for (auto [value, role] : llvm::zip(block.getTerminator()->getOperands(), roles)) {
    if (role == Role::Loss)
      needed.forLoss.insert(value);
    if (role == Role::Learned)
      needed.forLearning.insert(value);
  }
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    SmallVector<Role> ofResults;
    for (Value result : op.getResults())
      ofResults.push_back(needed.forLoss.contains(result)       ? Role::Loss
                          : needed.forLearning.contains(result) ? Role::Learned
                                                                : Role::Other);
    TrainingPart part = llvm::is_contained(ofResults, Role::Loss)      ? TrainingPart::Forward
                        : llvm::is_contained(ofResults, Role::Learned) ? TrainingPart::Backward
                                                                       : TrainingPart::Aside;
    parts[&op] = part;
    if (auto body = dyn_cast<BodyOp>(op)) {
      // A loop may hold both passes: of its operands each is for what reads it inside.
      Needed inside;
      addBlock(body.getBodyBlock(), ofResults, inside);
      for (BlockArgument argument : body.getBodyBlock().getArguments()) {
        BodyArgument means = body.getBodyArgument(argument.getArgNumber());
        if (means.kind == BodyArgument::Index)
          continue;
        if (inside.forLoss.contains(argument))
          needed.forLoss.insert(op.getOperand(means.operand));
        if (inside.forLearning.contains(argument))
          needed.forLearning.insert(op.getOperand(means.operand));
      }
      continue;
    }
    if (part == TrainingPart::Forward)
      needed.forLoss.insert(op.operand_begin(), op.operand_end());
    if (part == TrainingPart::Backward)
      needed.forLearning.insert(op.operand_begin(), op.operand_end());
  }
}

Dependence::Kinds Dependence::get(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  // What a value comes from, in an order in which every value follows its sources. (A body's carried arguments begin as
  // the operand; what the body adds to them depends on the body's other arguments too, but nothing here asks for that.)
  auto sourcesOf = [](Value v) -> SmallVector<Value> {
    if (auto result = dyn_cast<OpResult>(v))
      return SmallVector<Value>(result.getOwner()->getOperands());
    auto argument = cast<BlockArgument>(v);
    auto body = dyn_cast<BodyOp>(argument.getOwner()->getParentOp());
    if (!body)
      return {};
    BodyArgument means = body.getBodyArgument(argument.getArgNumber());
    return means.kind == BodyArgument::Index ? SmallVector<Value>()
                                             : SmallVector<Value>{body->getOperand(means.operand)};
  };
  SmallVector<std::pair<Value, bool>> stack{{value, false}};
  while (!stack.empty()) {
    auto [v, isOpened] = stack.pop_back_val();
    if (known.contains(v))
      continue;
    SmallVector<Value> sources = sourcesOf(v);
    if (!isOpened) {
      stack.push_back({v, true});
      for (Value source : sources)
        if (!known.contains(source))
          stack.push_back({source, false});
      continue;
    }
    Kinds kinds;
    for (Value source : sources) {
      Kinds of = known.lookup(source);
      kinds.onParameters |= of.onParameters;
      kinds.onData |= of.onData;
    }
    if (auto argument = dyn_cast<BlockArgument>(v); argument && sources.empty()) {
      auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      bool isParameter = function && function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kParam);
      kinds = {isParameter, !isParameter};
    }
    known[v] = kinds;
  }
  return known.lookup(value);
}
