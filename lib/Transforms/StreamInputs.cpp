// scrimp-stream-inputs: inputs that only loops read, a piece in each iteration, are never whole in memory.
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_STREAMINPUTS
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {
/// A split operand of a loop.
struct Piece {
  AccumulateOp loop;
  int64_t number;
};

/// What is to be done for an input of one name.
struct Input {
  bool mayStream = true; // in all functions that have it
  SmallVector<std::pair<func::FuncOp, unsigned>> arguments;
  SmallVector<Piece> pieces;
};

struct StreamInputs : scrimp::impl::StreamInputsBase<StreamInputs> {
  void runOnOperation() override {
    llvm::MapVector<StringAttr, Input> inputs;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      for (BlockArgument argument : function.getArguments()) {
        unsigned index = argument.getArgNumber();
        auto dim = function.getArgAttrOfType<IntegerAttr>(index, ScrimpDialect::kInput);
        auto name = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kName);
        if (!dim || !name)
          continue;
        Input &input = inputs[name];
        input.arguments.emplace_back(function, index);
        input.mayStream &= findPieces(argument, dim.getInt(), input.pieces);
      }
    }
    for (auto &[name, input] : inputs) {
      if (!input.mayStream || input.pieces.empty())
        continue;
      for (auto [function, index] : input.arguments)
        function.setArgAttr(index, ScrimpDialect::kStreamed, UnitAttr::get(&getContext()));
      for (Piece piece : input.pieces) {
        SmallVector<int64_t> filled(piece.loop.getFilled());
        filled.push_back(piece.number);
        llvm::sort(filled);
        piece.loop.setFilled(filled);
      }
    }
  }

  /// The pieces that loops of the function take of the argument; false where anything else reads it, or where they are
  /// not whole samples, each once at most.
  static bool findPieces(BlockArgument argument, int64_t batchDim, SmallVector<Piece> &pieces) {
    ArrayRef<int64_t> shape = shapeOf(argument);
    if (batchDim < 0 || productOf(shape.take_front(batchDim)) != 1 || bytesOf(argument) == 0)
      return false;
    int64_t sampleBytes = bytesOf(argument) / shape[batchDim], taken = 0;
    SmallVector<std::pair<Value, int64_t>> worklist{{argument, 0}}; // with where they begin
    while (!worklist.empty()) {
      auto [value, offset] = worklist.pop_back_val();
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        if (isViewLike(user)) {
          for (OpResult result : user->getResults()) {
            std::optional<Tie> tie = getViewTie(result);
            if (!tie || tie->placed || tie->operand != use.getOperandNumber())
              return false;
            worklist.push_back({result, offset + tie->offset});
          }
          continue;
        }
        auto loop = dyn_cast<AccumulateOp>(user);
        int64_t number = loop ? use.getOperandNumber() - int64_t(loop.getShared().size()) : -1;
        if (number < 0 || number >= static_cast<int64_t>(loop.getSplit().size()))
          return false;
        int64_t bytes = bytesOf(loop.getPieceType(number));
        taken += bytes * static_cast<int64_t>(loop.getCount());
        if (offset % sampleBytes || bytes % sampleBytes || bytes == 0)
          return false;
        pieces.push_back({loop, number});
      }
    }
    return taken <= bytesOf(argument);
  }
};
} // namespace
