#include "Reduce.h"

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <chrono>

using namespace mlir;
using namespace mlir::scrimp;

/// Erases what nothing reads, arguments too.
static void clean(func::FuncOp main) {
  Block &block = main.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  llvm::BitVector unused(main.getNumArguments());
  for (BlockArgument argument : main.getArguments())
    // An updated state is named by its number; the batch is known by an input.
    if (argument.use_empty() && main.getNumResults() == 1 &&
        !main.getArgAttr(argument.getArgNumber(), ScrimpDialect::kInput))
      unused.set(argument.getArgNumber());
  (void)main.eraseArguments(unused);
}

OwningOpRef<ModuleOp> mlir::scrimp::reduceGraph(ModuleOp module, llvm::function_ref<bool(ModuleOp)> fails) {
  OwningOpRef<ModuleOp> smallest = module.clone();
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  auto mainOf = [](ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); };
  auto countOps = [&](ModuleOp module) {
    return std::distance(mainOf(module).getBody().front().begin(), mainOf(module).getBody().front().end());
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (int64_t i = countOps(*smallest) - 2; i >= 0; --i) {
      if (i >= countOps(*smallest) - 1)
        continue;
      for (int attempt = 0; attempt < 4; ++attempt) {
        if (std::chrono::steady_clock::now() > until)
          return smallest;
        OwningOpRef<ModuleOp> copy = smallest->clone();
        func::FuncOp main = mainOf(*copy);
        Operation *op = &*std::next(main.getBody().front().begin(), i);
        Value replacement;
        if (attempt < 3) {
          if (attempt < static_cast<int>(op->getNumOperands()) && op->getNumResults() == 1 &&
              op->getOperand(attempt).getType() == op->getResult(0).getType())
            replacement = op->getOperand(attempt);
        } else if (op->getNumResults() == 1 && !isa<ConstantOp>(op)) {
          OpBuilder builder(op);
          replacement = splatConstant(builder, op->getLoc(), tensorType(op->getResult(0)), 1);
        }
        if (!replacement)
          continue;
        op->getResult(0).replaceAllUsesWith(replacement);
        clean(main);
        if (succeeded(verify(*copy)) && countOps(*copy) < countOps(*smallest) && fails(*copy)) {
          smallest = std::move(copy);
          changed = true;
          break;
        }
      }
    }
  }
  return smallest;
}
