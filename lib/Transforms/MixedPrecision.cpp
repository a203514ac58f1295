// scrimp-mixed-precision: a model written in f32 computes from and stores 16-bit activations. PrecisionPlan decides
// which they are, by PrecisionOp; here the types change and the casts appear.
#include "NamePatterns.h"
#include "PrecisionPlan.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace mlir::scrimp {
#define GEN_PASS_DEF_MIXEDPRECISION
#include "scrimp/Transforms/Passes.h.inc"
} // namespace mlir::scrimp

namespace {

/// The layers that an op stands for: the names in its location, as the user knows them.
SmallVector<StringRef> layersOf(Operation *op) {
  SmallVector<StringRef> names;
  op->getLoc()->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner))
      names.push_back(named.getName());
    return WalkResult::advance();
  });
  return names;
}

/// Ops and parameters that stay in f32: those of a layer, a module or a parameter that a pattern names.
class Kept {
public:
  Kept(NamePatterns &patterns, func::FuncOp function) : patterns(patterns) {
    if (patterns.empty())
      return;
    for (BlockArgument argument : function.getArguments())
      if (isParameter(function, argument.getArgNumber())) {
        parameters.insert(argument);
        for (Operation *user : argument.getUsers())
          for (StringRef layer : layersOf(user))
            layers.insert(layer); // its gradient's ops, too
      }
  }

  bool contains(BlockArgument parameter) const { return parameters.contains(parameter); }

  bool contains(Operation *op) {
    // Not llvm::any_of: every pattern is to see every name.
    bool found = false;
    for (StringRef layer : patterns.empty() ? SmallVector<StringRef>() : layersOf(op))
      found |= layers.contains(layer) || matchesLayer(layer);
    return found;
  }

private:
  bool isParameter(func::FuncOp function, unsigned index) {
    if (!function.getArgAttr(index, ScrimpDialect::kParam))
      return false;
    bool found = patterns.match(argumentName(function, index));
    if (auto aliases = function.getArgAttrOfType<ArrayAttr>(index, ScrimpDialect::kAliases))
      for (auto alias : aliases.getAsRange<StringAttr>())
        found |= patterns.match(alias);
    return found;
  }

  /// "h.0.mlp/node_gelu" by itself and by its module, "h.0.mlp".
  bool matchesLayer(StringRef layer) {
    bool found = patterns.match(layer);
    size_t slash = layer.rfind('/');
    return (slash != StringRef::npos && patterns.match(layer.take_front(slash))) || found;
  }

  NamePatterns &patterns;
  DenseSet<Value> parameters;
  llvm::DenseSet<StringRef> layers;
};

/// Rewrites one function.
class Lowering {
public:
  Lowering(func::FuncOp function, const PrecisionPlan &plan, Type to)
      : function(function), plan(plan), to(to), builder(function.getContext()) {}

  /// The parameter is of 16 bits itself.
  void setLow(BlockArgument parameter) {
    parameter.setType(lowType(parameter));
    rounded[parameter] = parameter;
  }

  void run() {
    Block &block = function.getBody().front();
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : ops)
      rewrite(op);
    for (OpOperand &operand : block.getTerminator()->getOpOperands())
      if (rounded.contains(operand.get()))
        operand.set(getWide(operand.get()));
    function.setType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  }

private:
  RankedTensorType lowType(Value value) { return tensorType(value).clone(to); }

  void rewrite(Operation *op) {
    std::optional<PrecisionRule> rule = precisionRuleOf(op);
    bool isLow = plan.isLow(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (!isF32(value) && !rounded.contains(value))
        continue;
      ElementKind kind = rule ? rule->operands[operand.getOperandNumber()] : ElementKind::Wide;
      if (isLow && kind == ElementKind::Data)
        operand.set(getLow(value, op));
      else if (!isLow || kind != ElementKind::Own || !rounded.contains(value))
        operand.set(getWide(value));
      else
        operand.set(rounded.lookup(value));
    }
    for (OpResult result : op->getResults()) {
      if (!isF32(result) || !rule)
        continue;
      if (isLow && (rule->results[result.getResultNumber()] == ElementKind::Data || plan.isActivation(result))) {
        if (rule->results[result.getResultNumber()] == ElementKind::Wide)
          continue;
        result.setType(lowType(result));
        rounded[result] = result;
      } else if (plan.isActivation(result) && !plan.isInternal(op) && !result.use_empty()) {
        builder.setInsertionPointAfter(op);
        Value stored = plan.mayMask(op) ? saturate(result) : result;
        rounded[result] = CastOp::create(builder, op->getLoc(), lowType(result), stored);
      }
    }
  }

  /// The value as f32: what was rounded where it is stored is widened again by each kernel that reads it.
  Value getWide(Value value) {
    auto known = rounded.find(value);
    if (known == rounded.end())
      return value;
    Value &wide = widened[value];
    if (!wide) {
      builder.setInsertionPointAfterValue(known->second);
      wide = CastOp::create(builder, value.getLoc(), tensorType(value).clone(builder.getF32Type()), known->second);
    }
    return wide;
  }

  /// The value in 16 bits, for `reader` if it is the first: rounded where it is computed, since it may not be read
  /// otherwise; an argument where it is first read.
  Value getLow(Value value, Operation *reader) {
    auto known = rounded.find(value);
    if (known != rounded.end())
      return known->second;
    Value &low = narrowed[value];
    if (low)
      return low;
    Operation *producer = value.getDefiningOp();
    if (producer)
      builder.setInsertionPointAfter(producer);
    else
      builder.setInsertionPoint(reader);
    auto constant = dyn_cast_or_null<ConstantOp>(producer);
    if (auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr())
      low = splatConstant(builder, value.getLoc(), lowType(value),
                          saturated(splat.getSplatValue<APFloat>().convertToDouble()));
    else
      low = CastOp::create(builder, value.getLoc(), lowType(value), value);
    return low;
  }

  double getMost() const { return APFloat::getLargest(cast<FloatType>(to).getFloatSemantics()).convertToDouble(); }

  /// What stands for "never" in a mask, the least f32, is not to become an infinity, of which softmax makes NaN.
  double saturated(double value) const {
    return std::isfinite(value) ? std::clamp(value, -getMost(), getMost()) : value;
  }

  /// The same for numbers that are known when the program runs. An infinity stays one.
  Value saturate(Value wide) {
    Location loc = wide.getLoc();
    Value infinity = splatConstant(builder, loc, tensorType(wide), std::numeric_limits<double>::infinity());
    Value isFinite = CompareOp::create(builder, loc, Predicate::lt, AbsOp::create(builder, loc, wide), infinity);
    Value bounded =
        ClipOp::create(builder, loc, wide, APFloat(-getMost()), APFloat(getMost()), /*straight_through=*/false);
    return SelectOp::create(builder, loc, isFinite, bounded, wide);
  }

  func::FuncOp function;
  const PrecisionPlan &plan;
  Type to;
  OpBuilder builder;
  DenseMap<Value, Value> rounded;  // what all who read the value read
  DenseMap<Value, Value> widened;  // that as f32
  DenseMap<Value, Value> narrowed; // of values that others read in f32
};

struct MixedPrecision : scrimp::impl::MixedPrecisionBase<MixedPrecision> {
  using MixedPrecisionBase::MixedPrecisionBase;

  void runOnOperation() override {
    Type type = to == "bf16" ? Type(BFloat16Type::get(&getContext())) : Float16Type::get(&getContext());
    if (to != "bf16" && to != "f16") {
      getOperation().emitError() << "cannot compute in '" << to << "'; there are bf16 and f16";
      return signalPassFailure();
    }
    NamePatterns patterns;
    if (failed(patterns.parse("keep-fp32", keepFp32, getOperation().getLoc())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        lower(function, patterns, type);
    if (failed(patterns.checkUsed("keep-fp32", "layer, module or parameter", getOperation().getLoc())))
      signalPassFailure();
  }

  void lower(func::FuncOp function, NamePatterns &patterns, Type type) {
    Kept kept(patterns, function);
    PrecisionPlan plan(function, [&](Operation *op) { return kept.contains(op); });
    Lowering lowering(function, plan, type);
    if (!masters)
      for (BlockArgument argument : function.getArguments())
        if (function.getArgAttr(argument.getArgNumber(), ScrimpDialect::kParam) && isF32(argument) &&
            !kept.contains(argument))
          lowering.setLow(argument);
    lowering.run();
  }
};
} // namespace
