// Which number is the loss, how --loss makes it, and what @main returns.
#include "Importer.h"

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

static std::string describe(const ValueInfo &value) {
  std::string text = value.name + " " + value.typeName;
  if (!value.shape)
    return text;
  text += "[";
  for (auto [i, dim] : llvm::enumerate(*value.shape))
    text += (i ? "," : "") + (dim.size ? std::to_string(*dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  return text + "]";
}

LogicalResult Importer::chooseLoss() {
  if (constants) {
    for (const ValueInfo &output : model.outputs)
      graph.used.insert(output.name);
    return success();
  }
  if (!options.loss.empty()) {
    FailureOr<LossSpec> parsed = parseLoss(options.loss, context);
    if (failed(parsed))
      return failure();
    spec = *parsed;
    graph.used.insert(spec->prediction);
    if (!spec->target.empty())
      graph.used.insert(spec->target);
    bool found = dataInputs.contains(spec->prediction);
    for (const Node &node : model.nodes)
      found |= llvm::is_contained(node.outputs, spec->prediction);
    if (!found) {
      InFlightDiagnostic diagnostic = error() << "has no value '" << spec->prediction << "', which --loss names; its "
                                              << "outputs are ";
      llvm::interleave(
          model.outputs, [&](const ValueInfo &o) { diagnostic << describe(o); }, [&] { diagnostic << ", "; });
      return diagnostic;
    }
    if (spec->kind == LossSpec::Given) {
      lossName = spec->prediction;
      spec.reset();
    }
    return success();
  }
  auto entry = model.metadata.find("scrimp.loss");
  if (entry != model.metadata.end())
    lossName = entry->second;
  std::vector<const ValueInfo *> scalars, unknown;
  for (const ValueInfo &output : model.outputs) {
    if (output.elementType && !isa<FloatType>(output.elementType))
      continue;
    if (!output.shape)
      unknown.push_back(&output);
    else if (llvm::all_of(*output.shape, [](const Dimension &dim) { return dim.size == 1; }))
      scalars.push_back(&output);
  }
  if (lossName.empty() && scalars.size() == 1)
    lossName = scalars[0]->name;
  if (lossName.empty() && scalars.empty() && unknown.size() == 1)
    lossName = unknown[0]->name;
  for (const ValueInfo *output : scalars)
    if (lossName.empty() && output->name == "loss")
      lossName = output->name;
  if (lossName.empty() || llvm::none_of(model.outputs, [&](auto &o) { return o.name == lossName; })) {
    InFlightDiagnostic diagnostic =
        error() << "has " << (scalars.size() > 1 ? "several scalar outputs" : "no output that is one number")
                << " to take as the loss (its outputs are ";
    llvm::interleave(
        model.outputs, [&](const ValueInfo &o) { diagnostic << describe(o); }, [&] { diagnostic << ", "; });
    if (scalars.size() > 1)
      return diagnostic << "); name one with --loss, for example --loss " << scalars[0]->name;
    return diagnostic << "); pass --loss, for example --loss 'cross_entropy("
                      << (model.outputs.empty() ? "logits" : model.outputs[0].name) << ",labels)'";
  }
  graph.used.insert(lossName);
  return success();
}

FailureOr<Value> Importer::finishLoss() {
  if (!spec) {
    Value loss = graph.values.lookup(lossName);
    if (!loss || !isFloatTensor(loss) || tensorType(loss).getNumElements() != 1) {
      InFlightDiagnostic diagnostic = error() << "has a loss '" << lossName << "' that is not one number";
      if (loss)
        diagnostic << " but " << tensorType(loss);
      diagnostic << "; reduce it in the model, or give --loss a function of it: 'cross_entropy(" << lossName
                 << ",labels)', 'mse(" << lossName << ",target)' or 'bce_with_logits(" << lossName << ",target)'";
      return failure();
    }
    LossParts parts = graph.losses.lookup(loss);
    if (tensorType(loss).getRank() != 0) {
      Value scalar = reshapeTo(graph.builder, loss.getLoc(), loss, {});
      if (parts.sum)
        graph.losses[scalar] = parts;
      loss = scalar;
    }
    return loss;
  }
  Value prediction = graph.values.lookup(spec->prediction), target = graph.values.lookup(spec->target);
  Node node;
  node.name = "loss";
  node.type = "--loss";
  NodeBuilder builder(graph, node);
  if (!prediction) {
    error() << "has a value '" << spec->prediction << "' that is not a tensor";
    return failure();
  }
  if (!target) {
    RankedTensorType type = targetType(*spec, tensorType(prediction));
    int64_t batchDim = type.getRank() > 0 && type.getDimSize(0) == graph.batch ? 0 : -1;
    target = addArgument(spec->target, type,
                         {attr(ScrimpDialect::kInput, IntegerAttr::get(IntegerType::get(context, 64), batchDim))});
  }
  return buildLoss(builder, *spec, prediction, target);
}

LogicalResult Importer::addResults(Value loss) {
  SmallVector<std::pair<Value, NamedAttribute>> results;
  auto output = [&](Value value, StringRef name) {
    results.push_back({value, attr(ScrimpDialect::kOutput, StringAttr::get(context, name))});
  };
  if (constants)
    for (const ValueInfo &graphOutput : model.outputs) {
      Value value = graph.values.lookup(graphOutput.name);
      if (!value)
        return error() << "has an output '" << graphOutput.name << "' that is not a tensor";
      output(value, graphOutput.name);
    }
  else
    output(loss, "loss");
  auto parts = graph.losses.find(loss);
  // A count that is a number would not know of empty places: such a loss is a mean over the samples themselves.
  if (!constants && parts != graph.losses.end() && !parts->second.count.getDefiningOp<ConstantOp>()) {
    output(parts->second.sum, "loss_sum");
    output(parts->second.count, "loss_count");
  }
  for (auto &[start, value] : graph.updates) {
    auto state = dyn_cast<BlockArgument>(start);
    if (state && graph.function.getArgAttr(state.getArgNumber(), ScrimpDialect::kState))
      results.push_back({value, attr(ScrimpDialect::kUpdates,
                                     IntegerAttr::get(IntegerType::get(context, 64), state.getArgNumber()))});
  }
  SmallVector<Value> values;
  SmallVector<Type> types;
  for (auto &[value, attribute] : results) {
    values.push_back(value);
    types.push_back(value.getType());
  }
  func::ReturnOp::create(graph.builder, graph.function.getLoc(), values);
  graph.function.setFunctionType(FunctionType::get(context, graph.function.getArgumentTypes(), types));
  for (auto [i, result] : llvm::enumerate(results))
    graph.function.setResultAttr(i, result.second.getName(), result.second.getValue());
  // Shape arithmetic and what else was needed only to import.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

/// What the file says of its outputs must be what the graph computes under the sizes that --dim gave.
LogicalResult Importer::checkOutputs() {
  for (const ValueInfo &output : model.outputs) {
    Value value = graph.values.lookup(output.name);
    if (!value || !output.shape)
      continue;
    RankedTensorType type = tensorType(value);
    bool fits = (int64_t)output.shape->size() == type.getRank();
    for (int64_t i = 0; fits && i < type.getRank(); ++i) {
      const Dimension &dim = (*output.shape)[i];
      auto bound = options.dims.find(dim.symbol);
      int64_t expected = dim.size ? *dim.size : bound != options.dims.end() ? bound->second : type.getDimSize(i);
      fits = expected == type.getDimSize(i);
    }
    if (!fits)
      return error() << "declares its output as " << describe(output) << ", but with the sizes that are bound it is "
                     << type << "; the dimensions contradict each other, check --dim";
  }
  return success();
}
