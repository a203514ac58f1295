// From a checked model to @main: inputs, parameters, nodes; what it gives is in ImportLoss.cpp.
#include "Importer.h"
#include "TorchMetadata.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;
using namespace mlir::scrimp::onnx_import;

LogicalResult Importer::readMetadata() {
  auto object = [&](StringRef key) -> std::optional<llvm::json::Object> {
    auto entry = model.metadata.find(key.str());
    if (entry == model.metadata.end())
      return std::nullopt;
    llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(entry->second);
    if (parsed && parsed->getAsObject())
      return std::move(*parsed->getAsObject());
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    return std::nullopt;
  };
  if (auto scalars = object("scrimp.scalars"))
    for (auto &[key, value] : *scalars) {
      if (std::optional<double> number = value.getAsNumber())
        graph.scalars[key.str()] = *number;
      if (const llvm::json::Array *list = value.getAsArray())
        for (const llvm::json::Value &each : *list)
          graph.lists[key.str()].push_back(each.getAsNumber().value_or(std::nan("")));
    }
  if (auto modes = object("scrimp.modes"))
    for (auto &[key, value] : *modes)
      if (llvm::json::Object *mode = value.getAsObject())
        graph.modes[key.str()] = std::move(*mode);
  if (auto described = object("scrimp.parameters"))
    for (auto &[key, value] : *described)
      if (llvm::json::Object *entry = value.getAsObject())
        if (llvm::json::Object *init = entry->getObject("init"))
          inits[key.str()] = std::move(*init);
  return success();
}

/// Data are the inputs that scrimp-export did not list as parameters, or that --data names, or else all without a value
/// that torch.export's signature does not know as a weight.
LogicalResult Importer::chooseData() {
  std::optional<llvm::json::Value> kinds;
  auto entry = model.metadata.find("scrimp.parameters");
  if (entry != model.metadata.end()) {
    llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(entry->second);
    if (parsed)
      kinds = std::move(*parsed);
    else
      llvm::consumeError(parsed.takeError());
  }
  std::string problem;
  std::optional<Signature> signature = Signature::parse(model.signature, problem);
  llvm::StringSet<> named;
  for (const std::string &name : options.dataNames)
    named.insert(name);
  for (const ValueInfo &input : model.inputs) {
    if (model.initializers.count(input.name) || (constants && constants->count(input.name)))
      continue;
    bool parameter = kinds ? kinds->getAsObject() && kinds->getAsObject()->get(input.name)
                           : signature && signature->byTarget(input.name) && !named.contains(input.name);
    if (!parameter && (kinds || named.empty() || named.contains(input.name)))
      dataInputs.insert(input.name);
  }
  return success();
}

/// --data names inputs without a value, or --loss's target: a misspelt name would make its input a parameter.
LogicalResult Importer::checkDataNames() {
  for (const std::string &name : options.dataNames) {
    bool isInput = llvm::any_of(model.inputs, [&](const ValueInfo &i) { return i.name == name; });
    bool hasValue = model.initializers.count(name);
    if ((isInput && !hasValue) || (spec && spec->target == name))
      continue;
    std::string known;
    for (const ValueInfo &input : model.inputs)
      if (!model.initializers.count(input.name))
        known += (known.empty() ? "'" : ", '") + input.name + "'";
    return error() << (hasValue ? "holds the value of '" : "has no input '") << name << "', which --data names; its "
                   << "inputs without a value are " << (known.empty() ? "none" : known);
  }
  return success();
}

void Importer::findLive() {
  live.assign(model.nodes.size(), 0);
  for (size_t i = model.nodes.size(); i-- > 0;) {
    for (const std::string &output : model.nodes[i].outputs)
      live[i] |= !output.empty() && graph.used.contains(output);
    if (live[i])
      for (const std::string &input : model.nodes[i].inputs)
        graph.used.insert(input);
  }
}

LogicalResult Importer::checkOps() {
  bool supported = true;
  for (auto [i, node] : llvm::enumerate(model.nodes)) {
    std::string reason;
    if (live[i] && !findOp(node, reason)) {
      Location loc = NodeBuilder::locationOf(node, context);
      emitError(loc) << "node '" << cast<NameLoc>(loc).getName().getValue() << "': " << reason;
      supported = false;
    }
  }
  return success(supported);
}

BlockArgument Importer::addArgument(StringRef name, RankedTensorType type, SmallVector<NamedAttribute> attributes) {
  unsigned index = graph.function.getNumArguments();
  attributes.push_back(attr(ScrimpDialect::kName, StringAttr::get(context, name)));
  (void)graph.function.insertArgument(index, type, DictionaryAttr::get(context, attributes), nameLoc(name, context));
  return graph.function.getArgument(index);
}

FailureOr<RankedTensorType> Importer::bindShape(const ValueInfo &input) {
  if (!input.elementType) {
    error() << "has an input '" << input.name << "' of " << input.typeName
            << "; supported are float16, bfloat16, float, double, bool, int8, int32 and int64";
    return failure();
  }
  if (!input.shape) {
    error() << "has an input '" << input.name << "' without a shape";
    return failure();
  }
  SmallVector<int64_t> shape;
  for (auto [i, dim] : llvm::enumerate(*input.shape)) {
    if (dim.size) {
      if (*dim.size < 0) {
        error() << "has an input '" << input.name << "' with a dimension of " << *dim.size;
        return failure();
      }
      shape.push_back(*dim.size);
      continue;
    }
    std::string symbol = dim.symbol.empty() ? input.name + "." + std::to_string(i) : dim.symbol;
    auto bound = options.dims.find(symbol);
    if (bound == options.dims.end()) {
      error() << "has an input '" << input.name << "' whose dimension " << i << ", '" << symbol
              << "', has no size; give it one with --dim " << symbol << "=N";
      return failure();
    }
    if (bound->second <= 0) {
      error() << "cannot have a dimension '" << symbol << "' of " << bound->second << "; expected --dim " << symbol
              << "=N with N at least 1";
      return failure();
    }
    shape.push_back(bound->second);
  }
  return RankedTensorType::get(shape, graph.widen(input.elementType));
}

LogicalResult Importer::addData() {
  llvm::StringSet<> symbols;
  std::string known;
  for (const ValueInfo &input : model.inputs)
    if (input.shape)
      for (auto [i, dim] : llvm::enumerate(*input.shape))
        if (!dim.size && symbols.insert(dim.symbol.empty() ? input.name + "." + std::to_string(i) : dim.symbol).second)
          known += (known.empty() ? "'" : ", '") +
                   (dim.symbol.empty() ? input.name + "." + std::to_string(i) : dim.symbol) + "'";
  for (const auto &entry : options.dims)
    if (!symbols.contains(entry.first()))
      return error() << "has no symbolic dimension '" << entry.first() << "', which --dim names; "
                     << (known.empty() ? "all its dimensions are fixed" : "it has " + known);
  std::vector<std::pair<const ValueInfo *, RankedTensorType>> inputs;
  SmallVector<StringRef> unused; // data for them may be given; nobody reads it
  for (const ValueInfo &input : model.inputs) {
    if (!dataInputs.contains(input.name))
      continue;
    if (!graph.used.contains(input.name)) {
      imported.notes.push_back("input '" + input.name + "' is left out: the loss does not depend on it");
      unused.push_back(input.name);
      continue;
    }
    FailureOr<RankedTensorType> type = bindShape(input);
    if (failed(type))
      return failure();
    inputs.push_back({&input, *type});
    if (graph.batch < 0 && type->getRank() > 0) {
      graph.batch = type->getDimSize(0);
      batchSymbol = (*input.shape)[0].symbol;
    }
  }
  for (auto &[input, type] : inputs) {
    int64_t batchDim = -1;
    for (int64_t i = 0; i < type.getRank() && batchDim < 0; ++i)
      if (!batchSymbol.empty() ? (*input->shape)[i].symbol == batchSymbol && !(*input->shape)[i].size
                               : i == 0 && type.getDimSize(0) == graph.batch)
        batchDim = i;
    graph.values[input->name] = addArgument(
        input->name, type, {attr(ScrimpDialect::kInput, IntegerAttr::get(IntegerType::get(context, 64), batchDim))});
  }
  if (!unused.empty())
    imported.module->getOperation()->setAttr(ScrimpDialect::kUnusedInputs, Builder(context).getStrArrayAttr(unused));
  return success();
}

/// What scrimp starts a parameter from when nobody gives its value: by name and shape.
DictionaryAttr Importer::defaultInit(const Parameter &parameter) {
  StringRef leaf = StringRef(parameter.name).rsplit('.').second;
  leaf = leaf.empty() ? StringRef(parameter.name) : leaf;
  StringRef kind = "ones";
  double a = 0, b = 0;
  if (parameter.source) {
    kind = "file";
  } else if (auto init = inits.find(parameter.name); init != inits.end()) {
    // What the module's own weights were drawn from (scrimp-export without weights).
    kind = init->second.getString("kind").value_or("zeros");
    a = init->second.getNumber("a").value_or(0);
    b = init->second.getNumber("b").value_or(0);
  } else if (parameter.shape.size() <= 1) {
    if (leaf.contains("bias") || leaf == "running_mean" || leaf == "num_batches_tracked")
      kind = "zeros";
  } else if (parameter.shape.size() == 2) {
    kind = "normal";
    b = 0.02;
  } else {
    kind = "uniform";
    double fanIn = 1;
    for (int64_t dim : ArrayRef<int64_t>(parameter.shape).drop_front())
      fanIn *= dim;
    b = fanIn > 0 ? 1 / std::sqrt(fanIn) : 0;
    a = -b;
  }
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr("kind", builder.getStringAttr(kind)),
                                    builder.getNamedAttr("a", builder.getF64FloatAttr(a)),
                                    builder.getNamedAttr("b", builder.getF64FloatAttr(b))});
}

LogicalResult Importer::addParameters() {
  SmallVector<Attribute> buffers;
  SmallVector<Value> values;
  Builder builder(context);
  bool trainable = false, given = false, absent = false;
  for (const Parameter &parameter : parameters.list) {
    auto type = RankedTensorType::get(parameter.shape, graph.widen(parameter.elementType));
    if (parameter.role == Parameter::Constant) {
      FailureOr<Value> read = graph.stored(*parameter.source, type.getElementType(), nameLoc(parameter.name, context));
      if (failed(read))
        return failure();
      Value constant = *read;
      if (parameter.source->transposed)
        constant =
            graph.fold(TransposeOp::create(graph.builder, constant.getLoc(), constant, ArrayRef<int64_t>{1, 0}))[0];
      values.push_back(constant);
      if (isa<FloatType>(parameter.elementType) || !parameter.made)
        buffers.push_back(
            builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(parameter.name)),
                                       builder.getNamedAttr("reason", builder.getStringAttr(parameter.reason)),
                                       builder.getNamedAttr("type", TypeAttr::get(type))}));
      continue;
    }
    SmallVector<NamedAttribute> attributes;
    if (parameter.role == Parameter::State)
      attributes.push_back(attr(ScrimpDialect::kState, builder.getUnitAttr()));
    else
      attributes.push_back(
          attr(ScrimpDialect::kParam,
               builder.getStringAttr(parameter.role == Parameter::Trainable ? "trainable" : "frozen")));
    trainable |= parameter.role == Parameter::Trainable;
    SmallVector<StringRef> aliases(parameter.aliases.begin(), parameter.aliases.end());
    if (!aliases.empty())
      attributes.push_back(attr(ScrimpDialect::kAliases, builder.getStrArrayAttr(aliases)));
    attributes.push_back(attr(ScrimpDialect::kReason, builder.getStringAttr(parameter.reason)));
    attributes.push_back(attr(ScrimpDialect::kInit, defaultInit(parameter)));
    values.push_back(addArgument(parameter.name, type, attributes));
    (parameter.source ? given : absent) = true;
    if (parameter.role == Parameter::State && !isa<FloatType>(parameter.elementType))
      counters.push_back(cast<BlockArgument>(values.back()));
    if (parameter.source)
      imported.weights[parameter.name] = *parameter.source;
  }
  if (absent && given)
    for (const Parameter &parameter : parameters.list)
      if (!parameter.source)
        imported.notes.push_back("'" + parameter.name + "' has no value; it starts from the default for its kind");
  if (!trainable && !constants && !options.mayTrainNothing)
    return error() << "has nothing to train: no parameter is trainable; --trainable PATTERN makes parameters so, and "
                   << "weights that are graph inputs need --data to tell the data from them";
  // Transposes are made once, at the head of the graph.
  for (const Binding &binding : parameters.bindings) {
    Value value = values[binding.parameter];
    if (binding.transposed && parameters.list[binding.parameter].role != Parameter::Constant)
      value = TransposeOp::create(graph.builder, value.getLoc(), value, ArrayRef<int64_t>{1, 0});
    graph.values[binding.value] = value;
  }
  if (!buffers.empty())
    imported.module->getOperation()->setAttr(ScrimpDialect::kBuffers, builder.getArrayAttr(buffers));
  return success();
}

LogicalResult Importer::buildNodes() {
  for (auto [i, node] : llvm::enumerate(model.nodes)) {
    if (!live[i])
      continue;
    std::string reason;
    NodeBuilder builder(graph, node);
    if (failed(findOp(node, reason)->build(builder)) || failed(builder.checkAllRead()))
      return failure();
  }
  for (BlockArgument counter : counters) {
    Value one = splatConstant(graph.builder, counter.getLoc(), tensorType(counter), 1);
    graph.updates[counter] = AddOp::create(graph.builder, counter.getLoc(), counter, one);
  }
  return success();
}

/// An export in evaluation mode trains, but not as the model would.
void Importer::tellModes() {
  llvm::append_range(imported.notes, graph.notes);
  auto tell = [&](const std::vector<std::string> &nodes, StringRef what) {
    if (!nodes.empty())
      imported.notes.push_back(("warning: " + Twine(nodes.size()) + " " + what + " in evaluation mode (first '" +
                                nodes.front() + "'); --training-mode lets them train")
                                   .str());
  };
  tell(graph.evaluationDropouts, "of the Dropout nodes stand");
  tell(graph.evaluationNorms, "of the BatchNormalization nodes stand");
}

FailureOr<ImportedModel> Importer::run() {
  FailureOr<Model> loaded = loadModel(path, context, constants != nullptr, options.followLinks);
  if (failed(loaded))
    return failure();
  model = std::move(*loaded);
  if (!llvm::is_contained({"", "fp64", "fp32", "bf16", "fp16"}, StringRef(options.precision))) {
    error() << "cannot be imported with --precision " << options.precision << "; expected fp64, fp32, bf16 or fp16";
    return failure();
  }
  if (failed(readMetadata()) || failed(chooseData()) || failed(chooseLoss()) || failed(checkDataNames()))
    return failure();
  findLive();
  if (failed(checkOps()))
    return failure();

  context->loadDialect<ScrimpDialect, func::FuncDialect>();
  Location loc = nameLoc(path, context);
  imported.module = ModuleOp::create(loc);
  graph.builder.setInsertionPointToEnd(imported.module->getBody());
  graph.function = func::FuncOp::create(graph.builder, loc, "main", FunctionType::get(context, {}, {}));
  graph.builder.setInsertionPointToEnd(graph.function.addEntryBlock());
  if (failed(addData()))
    return failure();
  if (constants) {
    for (const auto &entry : *constants) {
      FailureOr<HostTensor> value = readTensor(entry.second, graph.widen(entry.second.elementType), loc);
      if (failed(value))
        return failure();
      graph.values[entry.first()] = graph.constant(nameLoc(entry.first(), context), *value);
      dataInputs.insert(entry.first());
    }
  }
  SmallVector<bool> liveNodes(live.begin(), live.end());
  FailureOr<Parameters> analyzed = analyzeParameters(model, liveNodes, dataInputs, options, context, imported.notes);
  if (failed(analyzed))
    return failure();
  parameters = std::move(*analyzed);
  imported.carried = std::move(parameters.carried);
  if (failed(addParameters()) || failed(buildNodes()))
    return failure();
  FailureOr<Value> loss = constants ? Value() : finishLoss();
  if (failed(loss) || failed(checkOutputs()) || failed(addResults(*loss)))
    return failure();
  markValidRanges(graph.function);
  tellModes();
  if (failed(verify(*imported.module)))
    return failure();
  return std::move(imported);
}

FailureOr<ImportedModel> mlir::scrimp::importOnnxGraph(StringRef path, const llvm::StringMap<WeightSource> &constants,
                                                       const ImportOptions &options, MLIRContext *context) {
  Importer importer(path, options, context);
  importer.takeGraphAlone(constants);
  return importer.run();
}

FailureOr<ImportedModel> mlir::scrimp::importOnnx(StringRef path, const ImportOptions &options, MLIRContext *context) {
  return Importer(path, options, context).run();
}
