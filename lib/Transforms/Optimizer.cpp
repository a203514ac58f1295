// scrimp-optimizer: gradients become updates, parameters and their states become flat buckets. The rules themselves are
// in UpdateRule.cpp, where updates stand in UpdateBuilder.cpp, the layout in Buckets.cpp.
#include "UpdateBuilder.h"
#include "scrimp/Analysis/Blocks.h"
#include "scrimp/Transforms/Passes.h"

#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_OPTIMIZER
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

/// The value whose bytes `value` lies in.
static Value aliasRoot(Value value) {
  while (std::optional<Tie> tie = getViewTie(value))
    value = value.getDefiningOp()->getOperand(tie->operand);
  return value;
}

/// The same value in bytes of its own: -(-x) is x to the bit. Adding -0 is too, but folds away.
static Value copyExactly(OpBuilder &builder, Location loc, Value value) {
  return NegOp::create(builder, loc, NegOp::create(builder, loc, value));
}

namespace {

/// Which parameters weight decay spares.
class DecayExemptions {
public:
  /// Fails after an error at `loc` on a malformed pattern.
  LogicalResult parse(ArrayRef<std::string> texts, Location loc) {
    for (const std::string &text : texts) {
      Entry entry{text, std::nullopt};
      if (text != "1d") {
        auto pattern = llvm::GlobPattern::create(text);
        if (!pattern)
          return emitError(loc) << "no-decay pattern '" << text << "': " << toString(pattern.takeError());
        entry.pattern = *pattern;
      }
      entries.push_back(std::move(entry));
    }
    return success();
  }

  /// Whether an entry covers the argument, by its name or one of its aliases.
  bool contains(func::FuncOp function, unsigned index) {
    SmallVector<std::string> names{argumentName(function, index)};
    if (auto aliases = function.getArgAttrOfType<ArrayAttr>(index, ScrimpDialect::kAliases))
      for (auto alias : aliases.getAsRange<StringAttr>())
        names.push_back(alias.str());
    bool exempt = false;
    for (Entry &entry : entries)
      if (entry.pattern ? llvm::any_of(names, [&](StringRef name) { return entry.pattern->match(name); })
                        : tensorType(function.getArgument(index)).getRank() <= 1)
        exempt = entry.used = true;
    return exempt;
  }

  /// Fails after an error on a pattern that covered nothing: most likely a misspelt name.
  LogicalResult checkUsed(Location loc) {
    for (const Entry &entry : entries)
      if (entry.pattern && !entry.used)
        return emitError(loc) << "no-decay pattern '" << entry.text << "' matches no trained parameter";
    return success();
  }

private:
  struct Entry {
    std::string text;
    std::optional<llvm::GlobPattern> pattern; // none: "1d"
    bool used = false;
  };
  SmallVector<Entry> entries;
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
    // A gradient can be a parameter itself (of sum(w * b)), which is about to be replaced.
    OpBuilder builder(train.getBody().front().getTerminator());
    for (auto &entry : gradients)
      if (auto argument = dyn_cast<BlockArgument>(entry.second);
          argument && train.getArgAttr(argument.getArgNumber(), ScrimpDialect::kParam))
        entry.second = copyExactly(builder, argument.getLoc(), argument);
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
    if (states != "f32" && states != "bf16")
      return getOperation().emitError() << "states cannot be kept in '" << states << "'; f32 and bf16 are possible";
    if (world < 1 || zero < 0 || zero > 3)
      return getOperation().emitError() << "there are stages 0 to 3 of ZeRO, for 1 rank or more; found stage "
                                        << zero.getValue() << " and " << world.getValue() << " ranks";
    if (layout != "elements" && layout != "matrices")
      return getOperation().emitError() << "layout is '" << layout.getValue() << "'; there are elements and matrices";
    if (layout == "matrices" && zero == 3)
      return getOperation().emitError() << "a layout of whole matrices leaves ranks without a part of most blocks, so "
                                           "stage 3 of ZeRO would share out little; use stage 1 or 2, or the layout "
                                           "elements";
    if (!unshard.empty() && (zero != 3 || world == 1))
      return getOperation().emitError()
             << "only stage 3 of ZeRO shards parameters that unshard could keep gathered; found "
             << "stage " << zero.getValue() << " and " << world.getValue() << " ranks";
    if (sync != "auto" && sync != "per-step" && sync != "per-micro-batch")
      return getOperation().emitError() << "sync is '" << sync.getValue()
                                        << "'; there are auto, per-step and per-micro-batch";
    if (reduceDtype != "" && reduceDtype != "f32" && reduceDtype != "bf16" && reduceDtype != "f16")
      return getOperation().emitError() << "gradients cannot be sent as '" << reduceDtype.getValue()
                                        << "'; f32, bf16 and f16 are possible";
    if (nesterov && !momentum)
      return getOperation().emitError() << "nesterov needs momentum";
    return success();
  }

  /// The gradients by parameter, no longer results.
  llvm::MapVector<StringRef, Value> takeGradients(func::FuncOp train) {
    llvm::MapVector<StringRef, Value> gradients;
    llvm::BitVector erased(train.getNumResults());
    for (unsigned i = 0; i < train.getNumResults(); ++i)
      if (auto name = train.getResultAttrOfType<StringAttr>(i, ScrimpDialect::kGradient)) {
        gradients[name.getValue()] = train.getBody().front().getTerminator()->getOperand(i);
        erased.set(i);
      }
    eraseResults(train, erased);
    return gradients;
  }

  /// Whether the next member is to begin another bucket.
  bool isFull(const Bucket &bucket, RankedTensorType next) const {
    int64_t bytes = bytesOf(next);
    for (const BucketMember &member : bucket.members)
      bytes += bytesOf(member.type);
    return bucketBytes > 0 && !bucket.members.empty() && bytes > bucketBytes;
  }

  /// Whether each rank has a part of the bucket only.
  bool isShared(const Bucket &bucket) const {
    return world > 1 && (bucket.isTrained() ? zero >= 1 : zero == 3) && !bucket.isSmall;
  }

  /// The block patterns; what matches no parameter may match an op (scrimp-rematerialize).
  FailureOr<SmallVector<llvm::GlobPattern>> parseBlocks(Location loc) {
    SmallVector<llvm::GlobPattern> patterns;
    for (const std::string &text : blocks) {
      auto pattern = llvm::GlobPattern::create(text);
      if (!pattern)
        return emitError(loc) << "block pattern '" << text << "': " << toString(pattern.takeError());
      patterns.push_back(*pattern);
    }
    return patterns;
  }

  /// Whether a pattern matches the bucket's block, or a parameter in it.
  static bool isMatched(const Bucket &bucket, ArrayRef<llvm::GlobPattern> patterns) {
    return llvm::any_of(patterns, [&](const llvm::GlobPattern &pattern) {
      return (!bucket.block.empty() && pattern.match(bucket.block)) ||
             llvm::any_of(bucket.members, [&](const BucketMember &member) { return pattern.match(member.name); });
    });
  }

  /// The patterns of what is gathered once. Fails after an error on one that is malformed or matches nothing: most
  /// likely a misspelt name.
  LogicalResult parseUnshard(Location loc, ArrayRef<Bucket> buckets, SmallVectorImpl<llvm::GlobPattern> &patterns) {
    for (const std::string &text : unshard) {
      auto pattern = llvm::GlobPattern::create(text, /*MaxSubPatterns=*/1024);
      if (!pattern)
        return emitError(loc) << "unshard pattern '" << text << "': " << toString(pattern.takeError());
      if (llvm::none_of(buckets, [&](const Bucket &bucket) { return isMatched(bucket, *pattern); }))
        return emitError(loc) << "unshard pattern '" << text << "' matches no block and no parameter";
      patterns.push_back(*pattern);
    }
    return success();
  }

  LogicalResult makeBuckets(func::FuncOp train, const llvm::MapVector<StringRef, Value> &gradients,
                            SmallVectorImpl<Bucket> &buckets) {
    DecayExemptions exemptions;
    if (failed(exemptions.parse(noDecay, train.getLoc())))
      return failure();
    FailureOr<SmallVector<llvm::GlobPattern>> patterns = parseBlocks(train.getLoc());
    if (failed(patterns))
      return failure();
    SmallVector<bool> used(patterns->size());
    SmallVector<Bucket> trained, frozen;
    for (BlockArgument argument : train.getArguments()) {
      unsigned index = argument.getArgNumber();
      if (!train.getArgAttr(index, ScrimpDialect::kParam))
        continue;
      auto type = tensorType(argument);
      std::string name = argumentName(train, index);
      // A trainable parameter without a gradient is never updated: it is kept like a frozen one.
      bool isUpdated = gradients.contains(name);
      StringRef group = !isUpdated ? "" : decay && !exemptions.contains(train, index) ? "decay" : "no_decay";
      // Small parameters are not worth a block's exchange.
      bool isSmall = world > 1 && type.getNumElements() < persistBelow;
      // Whole matrices are balanced between ranks over all blocks: one has fewer than there are ranks.
      bool isOfModel = isSmall || (layout == "matrices" && world > 1);
      StringRef block = isOfModel ? StringRef() : findBlockPrefix(name, *patterns, used);
      // What is read in 16 bits alone is gathered in 16 bits.
      Type read = world > 1 ? getReadType(argument) : Type();
      SmallVector<Bucket> &ofKind = isUpdated ? trained : frozen;
      auto *bucket = llvm::find_if(ofKind, [&](const Bucket &b) {
        return b.block == block && b.group == group && b.elementType == type.getElementType() && b.isSmall == isSmall &&
               b.read == read && !isFull(b, type);
      });
      if (bucket == ofKind.end()) {
        bucket = &ofKind.emplace_back();
        bucket->block = block;
        bucket->group = group;
        bucket->isSmall = isSmall;
        bucket->read = read;
        bucket->number = llvm::count_if(ofKind, [&](const Bucket &b) {
          return b.block == block && b.group == group && b.elementType == type.getElementType() && b.isSmall == isSmall;
        });
        bucket->elementType = type.getElementType();
      }
      bucket->members.push_back({name, type, train.getArgAttrDict(index)});
    }
    if (failed(exemptions.checkUsed(train.getLoc())))
      return failure();
    llvm::append_range(buckets, trained);
    llvm::append_range(buckets, frozen);
    SmallVector<llvm::GlobPattern> unsharded;
    if (failed(parseUnshard(train.getLoc(), buckets, unsharded)))
      return failure();
    for (Bucket &bucket : buckets) {
      if (states == "bf16")
        bucket.narrowest = BFloat16Type::get(&getContext());
      bucket.ranks = world;
      bucket.updatesPart = isShared(bucket) && bucket.isTrained();
      bucket.keepsWhole = bucket.updatesPart && layout == "matrices";
      // Where 16 bits are gathered, each rank keeps its part of what they are rounded from.
      bucket.holdsPart = isShared(bucket) && (zero == 3 || bucket.read);
      bucket.gathersAnew = zero == 3 && !isMatched(bucket, unsharded);
      bucket.alignment = TargetAttr::of(train).getAlignment();
      bucket.layOut();
    }
    return success();
  }

  void buildUpdates(func::FuncOp train, const UpdateRule &rule, ArrayRef<Bucket> buckets, ArrayRef<BlockArgument> whole,
                    const llvm::MapVector<StringRef, Value> &gradients) {
    // The gradient of a sum of a product can be another parameter itself, and a graph may return one: their bytes are
    // overwritten, so these few are copied.
    auto isUpdated = [&](Value value) {
      Value root = aliasRoot(value);
      return llvm::any_of(llvm::zip(buckets, whole),
                          [&](auto pair) { return std::get<0>(pair).isTrained() && std::get<1>(pair) == root; });
    };
    Operation *terminator = train.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (OpOperand &operand : terminator->getOpOperands())
      if (isUpdated(operand.get()))
        operand.set(copyExactly(builder, operand.get().getLoc(), operand.get()));
    auto own = [&](Value gradient) {
      if (!isUpdated(gradient))
        return gradient;
      builder.setInsertionPointAfterValue(gradient);
      return copyExactly(builder, gradient.getLoc(), gradient);
    };
    SmallVector<Update> updates;
    for (auto [index, bucket] : llvm::enumerate(buckets)) {
      if (!bucket.isTrained())
        continue;
      if (world > 1) {
        SmallVector<Value> ofBucket;
        for (const BucketMember &member : bucket.members)
          ofBucket.push_back(own(gradients.find(member.name)->second));
        Value gradient = addUp(bucket, packGradients(bucket, ofBucket));
        updates.push_back({&bucket, static_cast<unsigned>(index), bucket.getName(), 0, bucket.updatedSize(),
                           bucket.members, gradient, updates.size()});
        continue;
      }
      for (const BucketMember &member : bucket.members)
        updates.push_back({&bucket, static_cast<unsigned>(index), member.name, member.offset,
                           member.type.getNumElements(), member, own(gradients.find(member.name)->second), 0});
    }
    for (Update &update : updates)
      if (world == 1)
        update.position = std::distance(gradients.begin(), gradients.find(update.name));
    // A loss whose scaled gradients overflow is to change nothing.
    UpdateOptions options{clipGradNorm, clipGradNorm || waitForNorm || lossScale, lossScale};
    if (states == "bf16")
      options.stateType = BFloat16Type::get(&getContext());
    UpdateBuilder update(train, rule, buckets, whole, options);
    Value norm = update.build(updates);
    insertOutput(train, norm, "grad_norm", options.wait);
    update.pack();
  }

  /// The gradients of all members in a bucket of their own: each is computed at its place there.
  static Value packGradients(const Bucket &bucket, ArrayRef<Value> gradients) {
    Operation *last = nullptr;
    for (Value gradient : gradients)
      if (Operation *op = gradient.getDefiningOp(); op && (!last || last->isBeforeInBlock(op)))
        last = op;
    OpBuilder builder(bucket.elementType.getContext());
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(Value(gradients.front()).getParentBlock());
    Location loc = NameLoc::get(builder.getStringAttr(bucket.getName("gradient")));
    Value whole = splatConstant(
        builder, loc, RankedTensorType::get({bucket.size()}, tensorType(gradients.front()).getElementType()), 0);
    llvm::SmallPtrSet<Value, 8> placed;
    for (auto [member, found] : llvm::zip(bucket.members, gradients)) {
      Value gradient = found;
      // What is computed elsewhere, or for another member too, has to be written once more.
      Value root = aliasRoot(gradient);
      bool isOwn = root.getDefiningOp() && !matchPattern(root, m_Constant()) && placed.insert(root).second &&
                   bytesOf(root) == bytesOf(gradient);
      if (!isOwn)
        gradient = copyExactly(builder, gradient.getLoc(), gradient);
      Value flat = reshapeTo(builder, loc, gradient, {member.type.getNumElements()});
      if (member.type.getNumElements())
        whole = PackOp::create(builder, loc, whole, flat, member.offset);
    }
    return whole;
  }

  /// The sum over the ranks of what each adds to the gradients; where ranks share out the bucket, the rank's part of
  /// it.
  Value addUp(const Bucket &bucket, Value part) {
    OpBuilder builder(part.getContext());
    builder.setInsertionPointAfterValue(part);
    Type wire = wireType(bucket.elementType);
    bool perStep = sync != "per-micro-batch" && (sync == "per-step" || zero < 2);
    Value sum = bucket.updatesPart
                    ? Value(ReduceScatterOp::create(builder, part.getLoc(), part, world, wire, perStep))
                    : Value(AllReduceOp::create(builder, part.getLoc(), ReduceKind::sum, part, world, wire, perStep));
    return WaitOp::create(builder, part.getLoc(), sum);
  }

  /// What the terms of sums are sent as: null for their own type.
  Type wireType(Type element) {
    if (!element.isF32())
      return nullptr;
    return reduceDtype == "bf16"  ? Type(BFloat16Type::get(&getContext()))
           : reduceDtype == "f16" ? Type(Float16Type::get(&getContext()))
                                  : Type();
  }

  /// Adds an output after the others and before the updates; with `isGate` no update may come before it.
  void insertOutput(func::FuncOp function, Value value, StringRef name, bool isGate) {
    unsigned position = 0;
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, ScrimpDialect::kOutput))
        position = i + 1;
    Builder builder(function.getContext());
    SmallVector<NamedAttribute> attributes{{ScrimpDialect::kOutput, builder.getStringAttr(name)}};
    if (isGate)
      attributes.emplace_back(ScrimpDialect::kGate, builder.getUnitAttr());
    Operation *terminator = function.getBody().front().getTerminator();
    terminator->insertOperands(position, value);
    (void)function.insertResult(position, value.getType(), builder.getDictionaryAttr(attributes));
  }
};
} // namespace
