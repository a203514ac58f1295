// scrimp-arrange-moves: has slices, transposes and concats made by the kernels that read or compute what they move. It
// brings them next to those ops and decides which moves are left to their readers; scrimp-form-kernels joins the rest.
#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/FusionLegality.h"
#include "scrimp/Dialect/GraphExpr.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_ARRANGEMOVES
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

//===-- Views and moves change places ----------------------------------------------------------------------------===//

namespace {
/// Dimension `dim` of one shape as dimensions of another that has the same elements in the same order: it begins with
/// dimension `first` there, and an index of that stands for `inner` of its own.
struct SplitDim {
  size_t first;
  int64_t inner;
};
} // namespace

/// All ways to see it so: dimensions of size 1 may belong to what comes before or not.
static SmallVector<SplitDim> findSplits(ArrayRef<int64_t> shape, size_t dim, ArrayRef<int64_t> to) {
  SmallVector<SplitDim> splits;
  int64_t before = productOf(shape.take_front(dim)), size = shape[dim];
  for (size_t first = 0; first < to.size(); ++first) {
    if (productOf(to.take_front(first)) != before)
      continue;
    int64_t inner = 1;
    size_t end = first + 1;
    while (end < to.size() && to[first] * inner < size)
      inner *= to[end++];
    if (to[first] * inner == size)
      splits.push_back({first, inner});
  }
  return splits;
}

/// The one dimension that a slice cuts; none if there are several or it leaves elements out.
static std::optional<size_t> getCutDim(SliceOp slice) {
  std::optional<size_t> cut;
  ArrayRef<int64_t> from = shapeOf(slice.getX()), to = shapeOf(slice.getY());
  for (size_t d = 0; d < from.size(); ++d) {
    if (slice.getStrides()[d] != 1 || (from[d] != to[d] && cut))
      return std::nullopt;
    if (from[d] != to[d])
      cut = d;
  }
  return cut;
}

/// reshape(slice(x)) becomes slice(reshape(x)), so that the slice stands next to what reads it.
static void sliceBehindReshape(ReshapeOp reshape) {
  auto slice = reshape.getX().getDefiningOp<SliceOp>();
  std::optional<size_t> dim = slice ? getCutDim(slice) : std::nullopt;
  if (!dim || tensorType(slice.getY()).getNumElements() == 0)
    return;
  ArrayRef<int64_t> to = shapeOf(reshape.getY());
  int64_t whole = shapeOf(slice.getX())[*dim], start = slice.getStarts()[*dim];
  for (SplitDim split : findSplits(shapeOf(slice.getY()), *dim, to)) {
    if (whole % split.inner || start % split.inner)
      continue;
    OpBuilder builder(reshape);
    SmallVector<int64_t> wholeShape(to), starts(to.size(), 0), strides(to.size(), 1);
    wholeShape[split.first] = whole / split.inner;
    starts[split.first] = start / split.inner;
    Value x = reshapeTo(builder, slice.getLoc(), slice.getX(), wholeShape);
    reshape.getY().replaceAllUsesWith(
        SliceOp::create(builder, slice.getLoc(), reshape.getY().getType(), x, starts, strides));
    return;
  }
}

/// concat(reshape(a), reshape(b)) becomes reshape(concat(a, b)), so that the concat stands next to what computes a and
/// b.
static void concatBeforeReshape(ConcatOp concat) {
  SmallVector<Value> parts;
  for (Value x : concat.getXs()) {
    auto reshape = x.getDefiningOp<ReshapeOp>();
    if (!reshape || !x.hasOneUse() || tensorType(x).getNumElements() == 0)
      return;
    parts.push_back(reshape.getX());
  }
  for (SplitDim split : findSplits(shapeOf(concat.getXs()[0]), concat.getDim(), shapeOf(parts[0]))) {
    int64_t size = 0;
    SmallVector<int64_t> shape(shapeOf(parts[0]));
    bool fits = llvm::all_of(llvm::zip(concat.getXs(), parts), [&](auto pair) {
      auto [x, part] = pair;
      SmallVector<int64_t> expected(shape);
      if (shapeOf(part).size() != shape.size())
        return false;
      expected[split.first] = shapeOf(part)[split.first];
      size += expected[split.first];
      return ArrayRef(expected) == shapeOf(part) && expected[split.first] * split.inner == shapeOf(x)[concat.getDim()];
    });
    if (!fits)
      continue;
    shape[split.first] = size;
    OpBuilder builder(concat);
    Value whole = ConcatOp::create(builder, concat.getLoc(), tensorType(concat.getY()).clone(shape), parts,
                                   static_cast<int64_t>(split.first));
    concat.getY().replaceAllUsesWith(reshapeTo(builder, concat.getLoc(), whole, shapeOf(concat.getY())));
    return;
  }
}

//===-- Results in the order in which they are stored
//--------------------------------------------------------------===//

static bool isRows(Operation *op) {
  auto kernel = dyn_cast_or_null<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Rows;
}

/// A result that is stored transposed for a reader that is no kernel is stored only so: kernels that read it as it is
/// transpose it back.
static void storeTransposed(OpResult result) {
  TransposeOp stored;
  for (Operation *user : result.getUsers())
    if (auto transpose = dyn_cast<TransposeOp>(user);
        transpose && transpose.keepsRows() && mustBeStored(user) && !llvm::all_of(user->getUsers(), becomesKernel))
      if (!stored || user->isBeforeInBlock(stored))
        stored = transpose;
  auto isSame = [&](Operation *user) {
    auto transpose = dyn_cast<TransposeOp>(user);
    return transpose && transpose.getPermutation() == stored.getPermutation();
  };
  if (!stored || result.hasOneUse() || !llvm::all_of(result.getUsers(), [&](Operation *user) {
        return user->getBlock() == stored->getBlock() && (isSame(user) || becomesKernel(user));
      }))
    return;
  stored->moveAfter(result.getOwner());
  OpBuilder builder(stored->getContext());
  SmallVector<int64_t> inverse(stored.getPermutation().size());
  for (auto [i, d] : llvm::enumerate(stored.getPermutation()))
    inverse[d] = i;
  builder.setInsertionPointAfter(stored);
  Value back;
  for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
    Operation *user = use.getOwner();
    if (user == stored)
      continue;
    if (isSame(user)) {
      user->replaceAllUsesWith(stored);
      user->erase();
      continue;
    }
    if (!back)
      back = TransposeOp::create(builder, result.getLoc(), stored, inverse);
    use.set(back);
  }
}

//===-- Moves that their readers make
//------------------------------------------------------------------------------===//

/// Whether a result of the op lies in the operand's bytes, which it updates.
static bool isUpdated(OpOperand &use) {
  auto alias = dyn_cast<AliasOp>(use.getOwner());
  return alias && llvm::any_of(use.getOwner()->getResults(), [&](OpResult result) {
           std::optional<Tie> tie = alias.getTie(result.getResultNumber());
           return tie && tie->operand == use.getOperandNumber();
         });
}

/// Whether kernels read the op's result, and nothing else does.
static bool onlyKernelsRead(Operation *op) {
  return !op->use_empty() && llvm::all_of(op->getUses(), [&](OpOperand &use) {
    return use.getOwner()->getBlock() == op->getBlock() && becomesKernel(use.getOwner()) && !isUpdated(use);
  });
}

/// Whether what computes the operand stores it where the op takes it, for no cost at all.
static bool isMadeByProducer(Operation *op) {
  auto kernel = cast<KernelOp>(op);
  return kernel.placesOperands() && llvm::all_of(op->getOperands(), [](Value value) {
           return value.hasOneUse() && isRows(value.getDefiningOp());
         });
}

namespace {
/// Moves that could be left to the readers of one source, and the casts between them that are made there anyway.
class MovesOfSource {
public:
  void addMove(Operation *op) { moves.insert(op); }
  void addFree(Operation *op) { free.insert(op); }
  ArrayRef<Operation *> getMoves() const { return moves.getArrayRef(); }

  /// Whether that keeps no more in memory: at the last reader the source is there anyway, or the pieces that are read
  /// there are as large.
  bool savesMemory(Value source) const {
    if (isa<BlockArgument>(source))
      return true;
    Operation *last = nullptr;
    for (Operation *op : moves)
      if (Operation *reader = getLastReader(op); reader && (!last || last->isBeforeInBlock(reader)))
        last = reader;
    int64_t bytes = 0;
    for (Operation *op : moves)
      if (Operation *reader = getLastReader(op); reader && isTogether(reader, last))
        bytes += bytesOf(op->getResult(0));
    return bytes >= bytesOf(source) || isReadBehind(source, last);
  }

private:
  /// The last kernel that would read what the op makes, if it were stored; null where other moves alone do.
  Operation *getLastReader(Operation *op) const {
    Operation *last = nullptr;
    for (Operation *user : op->getUsers()) {
      if (moves.contains(user))
        continue;
      Operation *reader = free.contains(user) ? getLastReader(user) : user;
      if (reader && (!last || last->isBeforeInBlock(reader)))
        last = reader;
    }
    return last;
  }

  /// Whether nothing but kernels lies between the two.
  static bool isTogether(Operation *first, Operation *last) {
    for (; first != last; first = first->getNextNode())
      if (!becomesKernel(first) && !isViewLike(first) && !isStoredConstant(first))
        return false;
    return true;
  }

  bool isReadBehind(Value value, Operation *last) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (moves.contains(user) || free.contains(user))
        return false;
      if (isViewLike(user))
        return llvm::any_of(user->getResults(), [&](Value view) { return isReadBehind(view, last); });
      return !user->isBeforeInBlock(last);
    });
  }

  llvm::SmallSetVector<Operation *, 4> moves, free;
};

struct ArrangeMoves : scrimp::impl::ArrangeMovesBase<ArrangeMoves> {
  void runOnOperation() override {
    if (!TargetAttr::of(getOperation()).isDevice())
      return;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      SmallVector<Block *> blocks{&function.getBody().front()};
      function.walk([&](BodyOp body) { blocks.push_back(&body.getBodyBlock()); });
      for (Block *block : blocks)
        arrange(*block);
    }
  }

  static void arrange(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        sliceBehindReshape(reshape);
    for (Operation &op : llvm::make_early_inc_range(block))
      if (auto concat = dyn_cast<ConcatOp>(op))
        concatBeforeReshape(concat);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    SmallVector<Operation *> rows;
    for (Operation &op : block)
      if (isRows(&op))
        rows.push_back(&op);
    for (Operation *op : rows)
      for (OpResult result : op->getResults())
        storeTransposed(result);
    leaveToReaders(block);
  }

  static void leaveToReaders(Block &block) {
    llvm::MapVector<Value, MovesOfSource> bySource;
    llvm::DenseMap<Value, Value> sourceOf;
    for (Operation &op : block) {
      auto kernel = dyn_cast<KernelOp>(op);
      bool isMove = kernel && kernel.keepsRows() && !isMadeByProducer(&op);
      bool isFree = kernel && op.getNumOperands() == 1 && isFreeProducer(&op);
      if ((!isMove && !isFree) || !onlyKernelsRead(&op))
        continue;
      Value source = op.getOperand(0);
      if (Value further = sourceOf.lookup(source))
        source = further;
      else if (isFree)
        continue;
      while (std::optional<Tie> tie = getViewTie(source))
        source = source.getDefiningOp()->getOperand(tie->operand);
      sourceOf[op.getResult(0)] = source;
      if (isMove)
        bySource[source].addMove(&op);
      else
        bySource[source].addFree(&op);
    }
    for (auto &[source, moves] : bySource)
      if (moves.savesMemory(source))
        for (Operation *op : moves.getMoves())
          op->setAttr(ScrimpDialect::kInReaders, UnitAttr::get(op->getContext()));
  }
};
} // namespace
