// scrimp.accumulate and scrimp.conditional: the ops whose bodies are lists of ops that run in place.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::scrimp;

/// Checks the body's arguments and what it yields against the types they stand for.
static LogicalResult verifyBody(Operation *op, Block &body, ArrayRef<Type> arguments, TypeRange yielded) {
  if (body.getNumArguments() != arguments.size())
    return op->emitOpError() << "the body must have " << arguments.size() << " arguments, found "
                             << body.getNumArguments();
  for (auto [i, expected] : llvm::enumerate(arguments))
    if (Type found = body.getArgument(i).getType(); found != expected)
      return op->emitOpError() << "argument " << i << " of the body must be " << expected << ", found " << found;
  ValueRange values = body.getTerminator()->getOperands();
  if (values.size() != yielded.size())
    return op->emitOpError() << "the body must yield " << yielded.size() << " values, one per init operand, found "
                             << values.size();
  for (auto [i, expected] : llvm::enumerate(yielded))
    if (values[i].getType() != expected)
      return op->emitOpError() << "the body must yield " << expected << " as value " << i << ", found "
                               << values[i].getType();
  return success();
}

/// Over all iterations.
static int64_t sumOverBody(BodyOp op, function_ref<int64_t(CostOp)> costOf) {
  int64_t sum = 0;
  for (auto inner : op.getBodyBlock().getOps<CostOp>())
    sum += costOf(inner);
  return sum * op.getIterations();
}

static int64_t bodyFlops(BodyOp op) {
  return sumOverBody(op, [](CostOp inner) { return inner.getFlops(); });
}

static int64_t bodyMovedBytes(BodyOp op) {
  return sumOverBody(op, [](CostOp inner) { return inner.getMovedBytes(); });
}

static int64_t bodyLinkBytes(BodyOp op) {
  return sumOverBody(op, [](CostOp inner) { return inner.getLinkBytes(); });
}

/// How results of a body op lie: in the bytes of what they carry, the last operands.
static Tie carriedTie(BodyOp op, unsigned result) {
  return Tie{op->getNumOperands() - op->getNumResults() + result, 0, std::nullopt};
}

static LogicalResult interpretBody(Block &body, ArrayRef<const HostTensor *> arguments,
                                   MutableArrayRef<HostTensor> yielded) {
  return evalBlock(body, arguments, yielded);
}

//===-- accumulate -----------------------------------------------------------------------------------------------===//

void AccumulateOp::build(OpBuilder &builder, OperationState &state, int64_t count, ValueRange shared, ValueRange split,
                         ArrayRef<int64_t> dims, ValueRange inits) {
  build(builder, state, inits.getTypes(), builder.getI64IntegerAttr(count), shared, split, inits,
        builder.getDenseI64ArrayAttr(dims), builder.getDenseI64ArrayAttr({}));
}

LogicalResult AccumulateOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                             DictionaryAttr attributes, OpaqueProperties properties,
                                             RegionRange regions, SmallVectorImpl<Type> &types) {
  llvm::append_range(types, Adaptor(operands, attributes, properties, regions).getInits().getTypes());
  return success();
}

RankedTensorType AccumulateOp::getPieceType(unsigned index) {
  RankedTensorType whole = tensorType(getSplit()[index]);
  SmallVector<int64_t> shape(whole.getShape());
  shape[getDims()[index]] /= static_cast<int64_t>(getCount());
  return RankedTensorType::get(shape, whole.getElementType());
}

LogicalResult AccumulateOp::verify() {
  if (getDims().size() != getSplit().size())
    return emitOpError() << "needs a dimension for each of " << getSplit().size() << " split operands, found "
                         << getDims().size();
  int64_t count = getCount();
  for (auto [i, pair] : llvm::enumerate(llvm::zip(getSplit(), getDims()))) {
    auto [value, dim] = pair;
    RankedTensorType type = tensorType(value);
    if (dim < 0 || dim >= type.getRank())
      return emitOpError() << "split operand " << i << " has no dimension " << dim << ": it is " << type;
    if (productOf(type.getShape().take_front(dim)) != 1)
      return emitOpError() << "split operand " << i << " is " << type << ": pieces along dimension " << dim
                           << " are not contiguous; transpose it so that the dimension comes first";
    if (type.getDimSize(dim) % count)
      return emitOpError() << "dimension " << dim << " of split operand " << i << " has " << type.getDimSize(dim)
                           << " elements, which " << count << " iterations do not divide";
  }
  for (int64_t number : getFilled())
    if (number < 0 || number >= static_cast<int64_t>(getSplit().size()))
      return emitOpError() << "has no split operand " << number << " to be filled";
  SmallVector<Type> arguments{RankedTensorType::get({}, IntegerType::get(getContext(), 64))};
  llvm::append_range(arguments, getShared().getTypes());
  for (unsigned i = 0; i < getSplit().size(); ++i)
    arguments.push_back(getPieceType(i));
  llvm::append_range(arguments, getInits().getTypes());
  return verifyBody(*this, getBodyBlock(), arguments, getInits().getTypes());
}

Block &AccumulateOp::getBodyBlock() { return getBody().front(); }
int64_t AccumulateOp::getIterations() { return getCount(); }
int64_t AccumulateOp::getFlops() { return bodyFlops(*this); }
int64_t AccumulateOp::getMovedBytes() { return bodyMovedBytes(*this); }
int64_t AccumulateOp::getLinkBytes() { return bodyLinkBytes(*this); }
bool AccumulateOp::hasCode() { return true; }
std::optional<Tie> AccumulateOp::getTie(unsigned result) { return carriedTie(*this, result); }

BodyArgument AccumulateOp::getBodyArgument(unsigned argument) {
  if (argument == 0)
    return {BodyArgument::Index};
  unsigned operand = argument - 1, shared = getShared().size(), split = getSplit().size();
  if (operand < shared)
    return {BodyArgument::Shared, operand};
  if (operand < shared + split)
    return {llvm::is_contained(getFilled(), operand - shared) ? BodyArgument::Filled : BodyArgument::Piece, operand,
            bytesOf(getPieceType(operand - shared))};
  return {BodyArgument::Carried, operand, 0, operand - shared - split};
}

LogicalResult AccumulateOp::evalWith(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results,
                                     RunBodyFn runBody) {
  Block &body = getBodyBlock();
  std::vector<HostTensor> values; // of the body's arguments
  for (BlockArgument argument : body.getArguments()) {
    BodyArgument means = getBodyArgument(argument.getArgNumber());
    bool isWhole = means.kind == BodyArgument::Shared || means.kind == BodyArgument::Carried;
    values.push_back(isWhole ? *operands[means.operand] : HostTensor(tensorType(argument)));
  }
  SmallVector<const HostTensor *> arguments;
  for (HostTensor &value : values)
    arguments.push_back(&value);
  for (int64_t i = 0; i < getIterations(); ++i) {
    for (unsigned a = 0; a < values.size(); ++a) {
      BodyArgument means = getBodyArgument(a);
      if (means.kind == BodyArgument::Index)
        values[a].ints()[0] = i;
      if (!means.isPiece())
        continue;
      const HostTensor &whole = *operands[means.operand];
      int64_t size = values[a].size();
      if (whole.isFloat())
        llvm::copy(whole.floats().slice(i * size, size), values[a].floats().begin());
      else
        llvm::copy(whole.ints().slice(i * size, size), values[a].ints().begin());
    }
    SmallVector<HostTensor> yielded(results.size());
    if (failed(runBody(body, arguments, yielded)))
      return failure();
    for (unsigned a = 0; a < values.size(); ++a)
      if (BodyArgument means = getBodyArgument(a); means.kind == BodyArgument::Carried)
        values[a] = std::move(yielded[means.result]);
  }
  for (unsigned a = 0; a < values.size(); ++a)
    if (BodyArgument means = getBodyArgument(a); means.kind == BodyArgument::Carried)
      results[means.result] = std::move(values[a]);
  return success();
}

LogicalResult AccumulateOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  return evalWith(operands, results, interpretBody);
}

/// The values of the body that a result which is read depends on, over all iterations.
static llvm::SmallDenseSet<Value> findLive(AccumulateOp op) {
  llvm::SmallDenseSet<Value> live;
  SmallVector<Value> worklist;
  ValueRange yielded = op.getBodyBlock().getTerminator()->getOperands();
  auto visit = [&](Value value) {
    if (live.insert(value).second)
      worklist.push_back(value);
  };
  for (OpResult result : op->getResults())
    if (!result.use_empty())
      visit(yielded[result.getResultNumber()]);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (Operation *producer = value.getDefiningOp())
      llvm::for_each(producer->getOperands(), visit);
    else if (BodyArgument means = op.getBodyArgument(cast<BlockArgument>(value).getArgNumber());
             means.kind == BodyArgument::Carried)
      visit(yielded[means.result]);
  }
  return live;
}

/// What no result that is read depends on is not carried, split or passed in: a loop of a training step that evaluation
/// takes over does not update the state that it began in.
LogicalResult AccumulateOp::canonicalize(AccumulateOp op, PatternRewriter &rewriter) {
  Block &body = op.getBodyBlock();
  llvm::SmallDenseSet<Value> live = findLive(op);
  SmallVector<BlockArgument> kept;
  SmallVector<Value> shared, split, inits;
  SmallVector<int64_t> dims, filled;
  for (BlockArgument argument : body.getArguments()) {
    BodyArgument means = op.getBodyArgument(argument.getArgNumber());
    bool isRead = means.kind == BodyArgument::Carried && !op->getResult(means.result).use_empty();
    if (means.kind != BodyArgument::Index && !live.contains(argument) && !isRead)
      continue;
    kept.push_back(argument);
    if (means.kind == BodyArgument::Shared)
      shared.push_back(op->getOperand(means.operand));
    if (means.kind == BodyArgument::Carried)
      inits.push_back(op->getOperand(means.operand));
    if (!means.isPiece())
      continue;
    if (means.kind == BodyArgument::Filled)
      filled.push_back(split.size());
    split.push_back(op->getOperand(means.operand));
    dims.push_back(op.getDims()[means.operand - op.getShared().size()]);
  }
  if (kept.size() == body.getNumArguments())
    return failure();
  auto next = AccumulateOp::create(rewriter, op.getLoc(), op.getCount(), shared, split, dims, inits);
  next.setFilled(filled);
  next->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  OpBuilder::InsertionGuard guard(rewriter);
  Block *block = rewriter.createBlock(&next.getBody());
  IRMapping mapping;
  for (BlockArgument argument : kept)
    mapping.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  for (Operation &inner : body.without_terminator())
    if (llvm::any_of(inner.getResults(), [&](Value result) { return live.contains(result); }))
      rewriter.clone(inner, mapping);
  SmallVector<Value> yielded;
  for (BlockArgument argument : kept) {
    BodyArgument means = op.getBodyArgument(argument.getArgNumber());
    if (means.kind != BodyArgument::Carried)
      continue;
    rewriter.replaceAllUsesWith(op->getResult(means.result), next->getResult(yielded.size()));
    yielded.push_back(mapping.lookup(body.getTerminator()->getOperand(means.result)));
  }
  YieldOp::create(rewriter, body.getTerminator()->getLoc(), yielded);
  rewriter.eraseOp(op);
  return success();
}

//===-- conditional ----------------------------------------------------------------------------------------------===//

LogicalResult ConditionalOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                              DictionaryAttr attributes, OpaqueProperties properties,
                                              RegionRange regions, SmallVectorImpl<Type> &types) {
  llvm::append_range(types, Adaptor(operands, attributes, properties, regions).getInits().getTypes());
  return success();
}

/// Whether the op is elementwise or has no code.
static bool isElementwise(Operation &op) {
  if (isViewLike(&op))
    return true;
  if (auto kernel = dyn_cast<KernelRegionOp>(op))
    return llvm::all_of(kernel.getBody().front().without_terminator(), isElementwise);
  auto kernel = dyn_cast<KernelOp>(op);
  return kernel && kernel.getKernelFamily() == KernelFamily::Map;
}

LogicalResult ConditionalOp::verify() {
  SmallVector<Type> arguments(getShared().getTypes());
  llvm::append_range(arguments, getInits().getTypes());
  if (failed(verifyBody(*this, getBodyBlock(), arguments, getInits().getTypes())))
    return failure();
  for (Operation &op : getBodyBlock().without_terminator())
    if (!isElementwise(op))
      return op.emitOpError() << "is not elementwise: it cannot depend on a condition";
  return success();
}

Block &ConditionalOp::getBodyBlock() { return getBody().front(); }
int64_t ConditionalOp::getIterations() { return 1; }
int64_t ConditionalOp::getFlops() { return bodyFlops(*this); }
int64_t ConditionalOp::getMovedBytes() { return bodyMovedBytes(*this); }
int64_t ConditionalOp::getLinkBytes() { return bodyLinkBytes(*this); }
bool ConditionalOp::hasCode() { return true; }
std::optional<Tie> ConditionalOp::getTie(unsigned result) { return carriedTie(*this, result); }
std::optional<unsigned> ConditionalOp::getConditionOperand() { return 0; }

BodyArgument ConditionalOp::getBodyArgument(unsigned argument) {
  unsigned shared = getShared().size();
  if (argument < shared)
    return {BodyArgument::Shared, argument + 1};
  return {BodyArgument::Carried, argument + 1, 0, argument - shared};
}

LogicalResult ConditionalOp::evalWith(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results,
                                      RunBodyFn runBody) {
  if (operands[0]->ints()[0])
    return runBody(getBodyBlock(), operands.drop_front(), results);
  for (auto [r, value] : llvm::enumerate(operands.take_back(results.size())))
    results[r] = *value;
  return success();
}

LogicalResult ConditionalOp::eval(ArrayRef<const HostTensor *> operands, MutableArrayRef<HostTensor> results) {
  return evalWith(operands, results, interpretBody);
}
