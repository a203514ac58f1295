// scrimp-optimizer: gradients become updates, parameters and their states become flat buckets. The rules themselves are
// in UpdateRule.cpp, the layout in Buckets.cpp.
#include "Buckets.h"
#include "UpdateRule.h"
#include "scrimp/Transforms/Passes.h"

#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_OPTIMIZER
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// The later of two ops of one block; null is before all.
static Operation *later(Operation *a, Operation *b) { return !a || (b && a->isBeforeInBlock(b)) ? b : a; }

/// The last op, the terminator apart, that reads bytes of `value`, through views too. Null if there is none.
static Operation *lastReader(Value value) {
  Operation *last = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>())
      continue;
    last = later(last, user);
    if (auto alias = dyn_cast<AliasOp>(user))
      if (alias.getAliasOperand() == use.getOperandNumber())
        last = later(last, lastReader(user->getResult(0)));
  }
  return last;
}

/// The value whose bytes `value` lies in.
static Value aliasRoot(Value value) {
  while (auto alias = value.getDefiningOp<AliasOp>())
    value = alias->getOperand(alias.getAliasOperand());
  return value;
}

/// The same value in bytes of its own: x + (-0) is x to the bit.
static Value copyExactly(OpBuilder &builder, Location loc, Value value) {
  Value zero = splatConstant(builder, loc, tensorType(value), -0.0);
  return AddOp::create(builder, loc, value, zero);
}

namespace {

/// A parameter that is updated, and everything its update reads.
struct Update {
  const Bucket *bucket;
  const BucketMember *member;
  unsigned bucketIndex;
  Value gradient;
  size_t position;            // among the gradients
  Operation *after = nullptr; // the last op that must come before the update
};

/// Builds the updates of one function, given its gradients.
class UpdateBuilder {
public:
  UpdateBuilder(func::FuncOp function, const UpdateRule &rule, ArrayRef<Bucket> buckets, ArrayRef<BlockArgument> whole)
      : function(function), rule(rule), buckets(buckets), whole(whole), block(function.getBody().front()) {
    MLIRContext *context = function.getContext();
    for (const Bucket &bucket : buckets) {
      SmallVector<BlockArgument> &ofBucket = states.emplace_back();
      // f16 and bf16 parameters keep their states, and compute their update, in f32.
      Type stateType = getComputeType(bucket.elementType);
      if (bucket.kind == "trainable")
        for (StringRef name : rule.getStateNames())
          ofBucket.push_back(appendArgument(function, RankedTensorType::get({bucket.size()}, stateType),
                                            bucket.stateAttributes(context, name), function.getLoc()));
      if (!scalarType || scalarType.getIntOrFloatBitWidth() < stateType.getIntOrFloatBitWidth())
        scalarType = stateType;
    }
  }

  /// Places the updates, builds them and returns the gradients' norm.
  Value build(MutableArrayRef<Update> updates, bool clip) {
    for (Update &update : updates)
      update.after = earliestPlace(update);
    // In the order in which gradients come, so that the norm's running sum follows them.
    llvm::sort(updates, [](const Update &a, const Update &b) {
      if (a.after == b.after)
        return a.position < b.position;
      return later(a.after, b.after) == b.after;
    });
    OpBuilder builder(function.getContext());
    Value squares;
    for (Update &update : updates) {
      setInsertionPointAfter(builder, update.after);
      squares = addSquares(builder, update, squares);
      if (!clip)
        buildUpdate(builder, update, nullptr);
    }
    builder.setInsertionPoint(block.getTerminator());
    Location loc = function.getLoc();
    if (!squares)
      squares = splatConstant(builder, loc, RankedTensorType::get({}, builder.getF64Type()), 0);
    Value norm = SqrtOp::create(builder, loc, squares);
    if (clip) {
      Value coefficient = clipCoefficient(builder, loc, norm);
      for (Update &update : updates)
        buildUpdate(builder, update, coefficient);
    }
    return norm;
  }

  /// Puts the new pieces into their buckets, which become results.
  void pack() {
    OpBuilder builder(block.getTerminator());
    for (auto &[argument, argumentPieces] : pieces) {
      Value bucket = argument;
      llvm::sort(argumentPieces, [](auto &a, auto &b) { return a.first < b.first; });
      for (auto &[offset, piece] : argumentPieces)
        bucket = PackOp::create(builder, piece.getLoc(), bucket, piece, offset);
      appendResult(function, bucket, ScrimpDialect::kUpdates,
                   builder.getI64IntegerAttr(cast<BlockArgument>(argument).getArgNumber()));
    }
  }

private:
  /// The update may not come before the gradient is there, nor before the last reader of the old parameter.
  Operation *earliestPlace(const Update &update) {
    Operation *after = update.gradient.getDefiningOp();
    for (Operation *user : whole[update.bucketIndex].getUsers())
      if (auto view = dyn_cast<ViewOp>(user))
        if (static_cast<int64_t>(view.getOffset()) == update.member->offset &&
            view.getY().getType() == update.member->type)
          after = later(later(after, view), lastReader(view));
    return after;
  }

  void setInsertionPointAfter(OpBuilder &builder, Operation *op) {
    if (op)
      builder.setInsertionPointAfter(op);
    else
      builder.setInsertionPointToStart(&block);
  }

  /// Layers are named after their parameter, so that reports of updates are too.
  Location locationOf(const Update &update) {
    MLIRContext *context = function.getContext();
    Location name = NameLoc::get(StringAttr::get(context, update.member->name));
    return FusedLoc::get({name}, StringAttr::get(context, "update"), context);
  }

  Value flat(OpBuilder &builder, Location loc, Value value) {
    return reshapeTo(builder, loc, value, {tensorType(value).getNumElements()});
  }

  /// squares + |gradient|^2 (null: 0).
  Value addSquares(OpBuilder &builder, const Update &update, Value squares) {
    if (update.member->type.getNumElements() == 0)
      return squares;
    Location loc = locationOf(update);
    Value sums = SumSquaresOp::create(builder, loc, flat(builder, loc, update.gradient));
    Value sum = tensorType(sums).getNumElements() == 1 ? reshapeTo(builder, loc, sums, {})
                                                       : ReduceOp::create(builder, loc, ReduceKind::sum, sums, {0});
    return squares ? AddOp::create(builder, loc, squares, sum) : sum;
  }

  /// min(clip_norm / (norm + 1e-6), 1) of torch.nn.utils.clip_grad_norm_; a NaN stays one.
  Value clipCoefficient(OpBuilder &builder, Location loc, Value norm) {
    GraphExpr total(builder, loc, norm);
    GraphExpr limit = total.with(castTo(builder, loc, scalarArgument("clip_norm"), norm.getType()));
    GraphExpr coefficient = limit / (total + 1e-6);
    return select(gt(coefficient, 1.0), like(coefficient, 1.0), coefficient).value;
  }

  Value castTo(OpBuilder &builder, Location loc, Value value, Type type) {
    return value.getType() == type ? value : CastOp::create(builder, loc, type, value);
  }

  /// The hyperparameter's argument, added at its first use.
  BlockArgument scalarArgument(StringRef name) {
    BlockArgument &argument = scalars[name];
    if (!argument) {
      Builder builder(function.getContext());
      auto attributes =
          builder.getDictionaryAttr({builder.getNamedAttr(ScrimpDialect::kName, builder.getStringAttr(name)),
                                     builder.getNamedAttr(ScrimpDialect::kScalar, builder.getStringAttr(name))});
      argument = appendArgument(function, RankedTensorType::get({}, scalarType), attributes, function.getLoc());
    }
    return argument;
  }

  /// `coefficient` (rank 0) scales the gradient; null: 1.
  void buildUpdate(OpBuilder &builder, const Update &update, Value coefficient) {
    Location loc = locationOf(update);
    int64_t offset = update.member->offset;
    auto flatType = RankedTensorType::get({update.member->type.getNumElements()}, update.member->type.getElementType());
    auto computeType = flatType.clone(getComputeType(flatType.getElementType()));
    auto spread = [&](Value scalar) {
      Value typed = castTo(builder, loc, scalar, computeType.clone(ArrayRef<int64_t>()));
      return GraphExpr(builder, loc, broadcastTo(builder, loc, typed, computeType.getShape()));
    };
    auto compute = [&](Value value) { return GraphExpr(builder, loc, castTo(builder, loc, value, computeType)); };
    GraphExpr gradient = compute(flat(builder, loc, update.gradient));
    if (coefficient)
      gradient.value = (gradient * spread(coefficient)).value;
    BlockArgument bucket = whole[update.bucketIndex];
    GraphExpr parameter = compute(ViewOp::create(builder, loc, flatType, bucket, offset));
    SmallVector<GraphExpr> newStates;
    for (BlockArgument state : states[update.bucketIndex])
      newStates.emplace_back(builder, loc, ViewOp::create(builder, loc, computeType, state, offset));
    GraphExpr newParameter = rule.build(parameter, gradient, newStates, update.member->decay,
                                        [&](StringRef name) { return spread(scalarArgument(name)); });
    pieces[bucket].emplace_back(offset, castTo(builder, loc, newParameter.value, flatType));
    for (auto [state, value] : llvm::zip(states[update.bucketIndex], newStates))
      pieces[state].emplace_back(offset, value.value);
  }

  func::FuncOp function;
  const UpdateRule &rule;
  ArrayRef<Bucket> buckets;
  ArrayRef<BlockArgument> whole;
  Block &block;
  Type scalarType;
  SmallVector<SmallVector<BlockArgument>> states; // per bucket
  llvm::StringMap<BlockArgument> scalars;
  llvm::MapVector<Value, SmallVector<std::pair<int64_t, Value>>> pieces; // per bucket argument
};

struct Optimizer : scrimp::impl::OptimizerBase<Optimizer> {
  using OptimizerBase::OptimizerBase;

  void runOnOperation() override {
    std::unique_ptr<UpdateRule> rule = createUpdateRule(kind, momentum, nesterov);
    func::FuncOp train = lookupGraph(getOperation(), "train", "scrimp-optimizer");
    if (!train || failed(checkOptions(rule.get())))
      return signalPassFailure();
    llvm::MapVector<StringRef, Value> gradients = takeGradients(train);
    if (gradients.empty()) {
      train.emitError() << "no result of @train has scrimp.gradient; run scrimp-autodiff first";
      return signalPassFailure();
    }
    SmallVector<Bucket> buckets;
    if (failed(makeBuckets(train, gradients, buckets)))
      return signalPassFailure();
    SmallVector<BlockArgument> whole = replaceByBuckets(train, buckets);
    buildUpdates(train, *rule, buckets, whole, gradients);
    if (auto eval = getOperation().lookupSymbol<func::FuncOp>("eval"))
      replaceByBuckets(eval, buckets);
  }

private:
  LogicalResult checkOptions(const UpdateRule *rule) {
    if (!rule)
      return getOperation().emitError() << "unknown optimizer '" << kind << "'; there are sgd, adam and adamw";
    if ((momentum || nesterov) && kind != "sgd")
      return getOperation().emitError() << "momentum and nesterov belong to sgd, not to " << kind;
    if (nesterov && !momentum)
      return getOperation().emitError() << "nesterov needs momentum";
    return success();
  }

  /// The gradients by parameter, no longer results.
  llvm::MapVector<StringRef, Value> takeGradients(func::FuncOp train) {
    llvm::MapVector<StringRef, Value> gradients;
    llvm::BitVector erased(train.getNumResults());
    for (unsigned i = 0; i < train.getNumResults(); ++i)
      if (auto name = train.getResultAttrOfType<StringAttr>(i, "scrimp.gradient")) {
        gradients[name.getValue()] = train.getBody().front().getTerminator()->getOperand(i);
        erased.set(i);
      }
    eraseResults(train, erased);
    return gradients;
  }

  /// Whether weight decay leaves the parameter alone. Marks the patterns that match.
  bool isExempt(StringRef name, RankedTensorType type, ArrayRef<llvm::GlobPattern> patterns,
                llvm::BitVector &matched) {
    if (!decay)
      return true;
    if (noDecay.empty())
      return type.getRank() <= 1;
    bool exempt = false;
    for (auto [i, pattern] : llvm::enumerate(patterns))
      if (pattern.match(name)) {
        matched.set(i);
        exempt = true;
      }
    return exempt;
  }

  LogicalResult makeBuckets(func::FuncOp train, const llvm::MapVector<StringRef, Value> &gradients,
                            SmallVectorImpl<Bucket> &buckets) {
    bool none = noDecay.size() == 1 && noDecay[0] == "none";
    SmallVector<llvm::GlobPattern> patterns;
    if (!none)
      for (const std::string &text : noDecay) {
        auto pattern = llvm::GlobPattern::create(text);
        if (!pattern)
          return train.emitError() << "no-decay pattern '" << text << "': " << toString(pattern.takeError());
        patterns.push_back(*pattern);
      }
    llvm::BitVector matched(patterns.size());
    SmallVector<Bucket> trainable, frozen;
    for (BlockArgument argument : train.getArguments()) {
      unsigned index = argument.getArgNumber();
      if (!train.getArgAttr(index, ScrimpDialect::kParam))
        continue;
      auto type = tensorType(argument);
      std::string name = argumentName(train, index);
      // A trainable parameter without a gradient is never updated: it is kept like a frozen one.
      bool updated = gradients.contains(name);
      SmallVector<Bucket> &ofKind = updated ? trainable : frozen;
      auto *bucket = llvm::find_if(ofKind, [&](const Bucket &b) { return b.elementType == type.getElementType(); });
      if (bucket == ofKind.end()) {
        ofKind.push_back({updated ? "trainable" : "frozen", type.getElementType(), {}});
        bucket = &ofKind.back();
      }
      bucket->members.push_back(
          {name, type, train.getArgAttrDict(index), updated && !isExempt(name, type, patterns, matched)});
    }
    for (auto [i, text] : llvm::enumerate(none ? ArrayRef<std::string>() : ArrayRef<std::string>(noDecay)))
      if (!matched.test(i))
        return train.emitError() << "no-decay pattern '" << text << "' matches no trained parameter";
    llvm::append_range(buckets, trainable);
    llvm::append_range(buckets, frozen);
    for (Bucket &bucket : buckets)
      bucket.layOut();
    return success();
  }

  void buildUpdates(func::FuncOp train, const UpdateRule &rule, ArrayRef<Bucket> buckets,
                    ArrayRef<BlockArgument> whole, const llvm::MapVector<StringRef, Value> &gradients) {
    // The gradient of a sum of a product can be another parameter itself, and a graph may return one: their bytes are
    // overwritten, so these few are copied.
    auto isUpdated = [&](Value value) {
      Value root = aliasRoot(value);
      return llvm::any_of(llvm::zip(buckets, whole), [&](auto pair) {
        return std::get<0>(pair).kind == "trainable" && std::get<1>(pair) == root;
      });
    };
    Operation *terminator = train.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (OpOperand &operand : terminator->getOpOperands())
      if (isUpdated(operand.get()))
        operand.set(copyExactly(builder, operand.get().getLoc(), operand.get()));
    SmallVector<Update> updates;
    for (auto [name, gradient] : gradients)
      for (auto [index, bucket] : llvm::enumerate(buckets))
        if (const BucketMember *member = bucket.find(name)) {
          Value owned = gradient;
          if (isUpdated(gradient)) {
            builder.setInsertionPointAfterValue(gradient);
            owned = copyExactly(builder, gradient.getLoc(), gradient);
          }
          updates.push_back({&bucket, member, static_cast<unsigned>(index), owned, updates.size()});
        }
    UpdateBuilder update(train, rule, buckets, whole);
    Value norm = update.build(updates, clipGradNorm);
    insertOutput(train, norm, "grad_norm");
    update.pack();
  }

  /// Adds an output after the others and before the updates.
  void insertOutput(func::FuncOp function, Value value, StringRef name) {
    unsigned position = 0;
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, ScrimpDialect::kOutput))
        position = i + 1;
    Builder builder(function.getContext());
    Operation *terminator = function.getBody().front().getTerminator();
    terminator->insertOperands(position, value);
    (void)function.insertResult(position, value.getType(),
                                builder.getDictionaryAttr(builder.getNamedAttr(ScrimpDialect::kOutput,
                                                                               builder.getStringAttr(name))));
  }
};
} // namespace
