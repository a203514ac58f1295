#include "GraphBuilder.h"

#include "scrimp/Transforms/GraphFunction.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

GraphBuilder::GraphBuilder(MLIRContext &context, uint64_t seed, const RandomGraphOptions &options)
    : builder(&context), random(seed * 0x9E3779B97F4A7C15u + 1), module(ModuleOp::create(UnknownLoc::get(&context))) {
  batch = options.batch ? options.batch : between(2, 7);
  type = options.type == "f64" ? FloatType(builder.getF64Type()) : FloatType(builder.getF32Type());
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, module->getLoc(), "main", builder.getFunctionType({}, {}));
  block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);

  // The first values: data times a parameter, and now and then an embedding.
  Shape shape{batch};
  for (int64_t rank = between(0, 3); rank > 0; --rank)
    shape.push_back(size());
  // Samples may lie along another dimension of what is given.
  int64_t dim = chance(.15) ? pick(shape.size()) : 0;
  std::swap(shape[0], shape[dim]);
  Node x = front({input(shape, dim), dim, 1, 2});
  add(make<MulOp>(x.value, partner({x.value, 0, 1, 2}).value), x, 4);
  nodes.front() = within(nodes.front(), 2);
  Shape flat{batch, tensorType(x.value).getNumElements() / batch};
  add({project(reshape(x.value, flat), between(2, 6)), 0, 1, 4});
}

Location GraphBuilder::location(StringRef op) {
  return NameLoc::get(builder.getStringAttr(scope + "/" + op.drop_front(op.rfind('.') + 1) + "_" + Twine(ops++)));
}

//===-- Arguments ------------------------------------------------------------------------------------------------===//

Value GraphBuilder::argument(RankedTensorType type, const std::string &name, SmallVector<NamedAttribute> attributes) {
  if (!name.empty())
    attributes.push_back(builder.getNamedAttr(ScrimpDialect::kName, builder.getStringAttr(name)));
  argumentAttributes.push_back(builder.getDictionaryAttr(attributes));
  return block->addArgument(type, NameLoc::get(builder.getStringAttr(name.empty() ? "scalar" : name)));
}

Value GraphBuilder::parameter(ArrayRef<int64_t> shape) {
  for (Value known : parameters)
    if (shapeOf(known) == shape && chance(.4))
      return known;
  StringRef role = !parameters.empty() && chance(.2) ? "frozen" : "trainable";
  std::string name = scope + ".w" + std::to_string(parameters.size());
  return parameters.emplace_back(
      argument(tensor(shape), name, {builder.getNamedAttr(ScrimpDialect::kParam, builder.getStringAttr(role))}));
}

Value GraphBuilder::input(ArrayRef<int64_t> shape, int64_t dim) {
  return argument(tensor(shape), "x" + std::to_string(argumentAttributes.size()),
                  {builder.getNamedAttr(ScrimpDialect::kInput, builder.getI64IntegerAttr(dim))});
}

Value GraphBuilder::integerInput(ArrayRef<int64_t> shape, int64_t dim, int64_t begin, int64_t end,
                                 std::optional<int64_t> ignore) {
  SmallVector<NamedAttribute> attributes{
      builder.getNamedAttr(ScrimpDialect::kInput, builder.getI64IntegerAttr(dim)),
      builder.getNamedAttr("scrimp.valid", builder.getDenseI64ArrayAttr({begin, end}))};
  if (ignore)
    attributes.push_back(builder.getNamedAttr("scrimp.ignore", builder.getI64IntegerAttr(*ignore)));
  return argument(integers(shape), "i" + std::to_string(argumentAttributes.size()), attributes);
}

Value GraphBuilder::scalar(StringRef name) {
  Value &known = scalars[name];
  if (!known)
    known = argument(integers({}), "", {builder.getNamedAttr(ScrimpDialect::kScalar, builder.getStringAttr(name))});
  return known;
}

Value GraphBuilder::state(ArrayRef<int64_t> shape, bool isVariance) {
  std::string name = scope + ".running" + std::to_string(argumentAttributes.size());
  return argument(
      tensor(shape), name,
      {builder.getNamedAttr(ScrimpDialect::kState, builder.getUnitAttr()),
       builder.getNamedAttr("scrimp.init", builder.getDictionaryAttr(builder.getNamedAttr(
                                               "kind", builder.getStringAttr(isVariance ? "ones" : "zeros"))))});
}

void GraphBuilder::update(Value state, Value replacement) { updates.push_back({state, replacement}); }

std::array<Value, 3> GraphBuilder::drawScalars() { return {scalar("seed"), scalar("step"), splat(integers({}), 0)}; }

//===-- Values ---------------------------------------------------------------------------------------------------===//

Value GraphBuilder::splat(RankedTensorType type, double value) {
  return splatConstant(builder, location("constant"), type, value);
}

Value GraphBuilder::constant(ArrayRef<int64_t> shape, function_ref<double(int64_t)> element) {
  HostTensor value(tensor(shape));
  for (auto [i, slot] : llvm::enumerate(value.floats()))
    slot = element(i);
  value.roundToType();
  return make<ConstantOp>(cast<ElementsAttr>(Attribute(value.toAttr())));
}

Value GraphBuilder::indices(ArrayRef<int64_t> shape, function_ref<int64_t(int64_t)> element) {
  HostTensor value(integers(shape));
  for (auto [i, slot] : llvm::enumerate(value.ints()))
    slot = element(i);
  return make<ConstantOp>(cast<ElementsAttr>(Attribute(value.toAttr())));
}

Node GraphBuilder::pickNode() {
  auto count = static_cast<int64_t>(nodes.size());
  return nodes[count - 1 - (chance(.7) ? pick(std::min<int64_t>(count, 3)) : pick(count))];
}

std::optional<Node> GraphBuilder::findLike(const Node &x) {
  SmallVector<Node> found;
  for (const Node &node : nodes)
    if (node.value.getType() == x.value.getType() && node.dim == x.dim && node.rest == x.rest)
      found.push_back(node);
  if (found.empty())
    return std::nullopt;
  return found[pick(found.size())];
}

Node GraphBuilder::partner(const Node &x) {
  ArrayRef<int64_t> shape = shapeOf(x.value);
  switch (pick(6)) {
  case 0:
    return {broadcast(splat(tensor({}), number(-2, 2)), shape), x.dim, x.rest, 2};
  case 1:
    if (x.dim >= 0) {
      Shape parted(shape);
      if (x.rest > 1) {
        parted[x.dim] = batch;
        parted.insert(parted.begin() + x.dim + 1, x.rest);
      }
      return {reshape(input(parted, x.dim), shape), x.dim, x.rest, 2};
    }
    break;
  case 2:
  case 3:
    if (std::optional<Node> other = findLike(x))
      return *other;
    break;
  case 4:
    return x;
  default:
    break;
  }
  // One element for each index of some trailing dimensions.
  Shape small(shape.drop_front(pick(shape.size() + 1)));
  int64_t dropped = shape.size() - small.size();
  for (auto [i, size] : llvm::enumerate(small))
    if (static_cast<int64_t>(i) + dropped == x.dim || chance(.2))
      size = 1;
  return {broadcast(parameter(small), shape), x.dim, x.rest, 1};
}

Node GraphBuilder::within(const Node &x, double bound) {
  if (x.bound <= bound)
    return x;
  Node result = x;
  if (bound >= 1 && chance(.5)) {
    result.value = make<TanhOp>(x.value);
    result.bound = 1;
  } else {
    result.value = make<MulOp>(x.value, broadcast(splat(tensor({}), bound / x.bound), shapeOf(x.value)));
    result.bound = bound;
  }
  return result;
}

Node GraphBuilder::positive(const Node &x) {
  Node y = within(x, 2);
  y.value = make<AddOp>(make<MulOp>(y.value, y.value), broadcast(splat(tensor({}), .5), shapeOf(x.value)));
  y.bound = y.bound * y.bound + .5;
  return y;
}

Value GraphBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  return shapeOf(x) == shape ? x : make<ReshapeOp>(tensorType(x).clone(shape), x);
}

Value GraphBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())) ? x : make<TransposeOp>(x, permutation);
}

Value GraphBuilder::broadcast(Value x, ArrayRef<int64_t> shape) {
  return shapeOf(x) == shape ? x : make<BroadcastOp>(tensorType(x).clone(shape), x);
}

Node GraphBuilder::front(const Node &x) {
  ArrayRef<int64_t> shape = shapeOf(x.value);
  if (x.dim < 0) {
    Shape wide{batch};
    llvm::append_range(wide, shape);
    return {broadcast(x.value, wide), 0, 1, x.bound};
  }
  Value value = x.value;
  if (x.rest > 1) {
    Shape parted(shape);
    parted[x.dim] = batch;
    parted.insert(parted.begin() + x.dim + 1, x.rest);
    value = reshape(value, parted);
  }
  Shape permutation(shapeOf(value).size());
  std::iota(permutation.begin(), permutation.end(), 0);
  permutation.erase(permutation.begin() + x.dim);
  permutation.insert(permutation.begin(), x.dim);
  return {transpose(value, permutation), 0, 1, x.bound};
}

Node GraphBuilder::withRank(const Node &x, int64_t rank) {
  Node y = front(x);
  Shape shape(shapeOf(y.value));
  while (static_cast<int64_t>(shape.size()) > rank) {
    int64_t last = shape.pop_back_val();
    shape.back() *= last;
  }
  while (static_cast<int64_t>(shape.size()) < rank) {
    // A factor of some dimension, or 1.
    int64_t place = shape.size() == 1 ? 0 : between(1, shape.size() - 1), factor = 1;
    for (int64_t candidate : {3, 2})
      if (place > 0 && shape[place] % candidate == 0 && chance(.7))
        factor = candidate;
    if (place > 0)
      shape[place] /= factor;
    shape.insert(shape.begin() + place + 1, factor);
  }
  y.value = reshape(y.value, shape);
  return y;
}

Value GraphBuilder::project(Value x, int64_t columns) {
  int64_t rows = shapeOf(x)[1];
  bool turned = chance(.3);
  Value w = parameter(turned ? Shape{columns, rows} : Shape{rows, columns});
  return make<MatmulOp>(x, w, false, turned);
}

Value GraphBuilder::sumAll(Value x) {
  Shape dims(shapeOf(x).size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims.empty() ? x : make<ReduceOp>(ReduceKind::sum, x, dims).getResult();
}

//===-- The loss -------------------------------------------------------------------------------------------------===//

Value GraphBuilder::lossOf(const Node &leaf) {
  Node y = within(leaf, 2);
  Value zero = splat(tensor({}), 0), one = splat(tensor({}), 1);
  // A quotient whose count may be 0, as the importer writes it.
  auto quotient = [&](Value sum, Value count) -> Value {
    Value isZero = make<CompareOp>(Predicate::eq, count, zero);
    return make<DivOp>(sum, make<SelectOp>(isZero, one, count));
  };
  if (y.dim >= 0 && chance(.5)) {
    y = front(y);
    Shape rows{batch, tensorType(y.value).getNumElements() / batch};
    Value flat = reshape(y.value, rows);
    if (chance(.6)) { // cross entropy, of which some labels are ignored
      int64_t classes = between(2, 5);
      Value logits = project(flat, classes);
      std::optional<int64_t> ignore;
      if (chance(.8))
        ignore = -100;
      Value labels = integerInput({batch}, 0, 0, classes, ignore);
      Value losses = make<CrossEntropyOp>(logits, labels, ignore).getLoss();
      if (!ignore)
        return quotient(sumAll(losses), splat(tensor({}), batch));
      Value counted = make<SelectOp>(make<CompareOp>(Predicate::ne, labels, splat(integers({batch}), *ignore)),
                                     broadcast(one, {batch}), broadcast(zero, {batch}));
      if (chance(.3)) { // and others weighted
        Value weights =
            make<GatherOp>(parameter({classes}),
                           make<SelectOp>(make<CompareOp>(Predicate::ne, labels, splat(integers({batch}), *ignore)),
                                          labels, splat(integers({batch}), 0)),
                           0);
        losses = make<MulOp>(losses, make<MulOp>(weights, weights));
      }
      return quotient(sumAll(losses), sumAll(counted));
    }
    // Samples weighted by data.
    Value weights = make<AbsOp>(input({batch}, 0));
    Value rowSums = make<ReduceOp>(ReduceKind::sum, make<MulOp>(flat, flat), ArrayRef<int64_t>{1});
    return quotient(sumAll(make<MulOp>(rowSums, weights)), sumAll(weights));
  }
  Value term =
      chance(.5) ? make<MulOp>(y.value, y.value).getResult() : make<MulOp>(y.value, make<TanhOp>(y.value)).getResult();
  Value sum = sumAll(term);
  if (chance(.3))
    return sum;
  return make<DivOp>(sum, splat(tensor({}), std::max<int64_t>(1, tensorType(y.value).getNumElements())));
}

OwningOpRef<ModuleOp> GraphBuilder::finish() {
  enter("head");
  Value loss;
  auto addLoss = [&](Value term) { loss = loss ? make<AddOp>(loss, term).getResult() : term; };
  // Values that nothing reads; of those that something does, the last.
  SmallVector<Node> leaves;
  for (const Node &node : nodes)
    if (node.value.use_empty() || &node == &nodes.back())
      leaves.push_back(node);
  for (const Node &leaf : leaves)
    addLoss(lossOf(leaf));
  for (Value sum : sums)
    addLoss(sumAll(make<MulOp>(sum, constant(shapeOf(sum), [&](int64_t) { return number(-1, 1); }))));
  SmallVector<Value> results{loss};
  SmallVector<Attribute> resultAttributes{
      builder.getDictionaryAttr(builder.getNamedAttr(ScrimpDialect::kOutput, builder.getStringAttr("loss")))};
  for (auto [state, replacement] : updates) {
    results.push_back(replacement);
    auto index = builder.getI64IntegerAttr(cast<BlockArgument>(state).getArgNumber());
    resultAttributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(ScrimpDialect::kUpdates, index)));
  }
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setFunctionType(builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(resultAttributes);
  return std::move(module);
}

//===-- Graphs ---------------------------------------------------------------------------------------------------===//

static std::vector<Entry> allEntries() {
  std::vector<Entry> all;
  for (ArrayRef<Entry> some :
       {elementwiseEntries(), shapeEntries(), indexingEntries(), imageEntries(), neuralEntries()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::vector<std::string> mlir::scrimp::randomGraphEntries() {
  std::vector<std::string> names;
  for (const Entry &entry : allEntries())
    names.push_back(entry.name);
  return names;
}

OwningOpRef<ModuleOp> mlir::scrimp::makeRandomGraph(MLIRContext &context, uint64_t seed,
                                                    const RandomGraphOptions &options) {
  GraphBuilder graph(context, seed, options);
  std::vector<Entry> entries = allEntries();
  double total = 0;
  for (const Entry &entry : entries)
    total += entry.weight;
  auto draw = [&] {
    double left = graph.number(0, total);
    for (const Entry &entry : entries)
      if ((left -= entry.weight) < 0)
        return entry;
    return entries.back();
  };
  std::vector<Entry> chosen;
  for (const std::string &name : options.ops)
    chosen.push_back(*llvm::find_if(entries, [&](const Entry &entry) { return entry.name == name; }));
  for (int i = 0; i < options.size; ++i)
    chosen.insert(chosen.begin() + graph.pick(chosen.size() + 1), draw());
  for (auto [i, entry] : llvm::enumerate(chosen)) {
    graph.enter("layers." + std::to_string(i / 4));
    Node x = graph.pickNode();
    // What has grown large would only take time.
    if (tensorType(x.value).getNumElements() > 400) {
      x = graph.withRank(x, 2);
      x.value = graph.make<ReduceOp>(ReduceKind::max, x.value, ArrayRef<int64_t>{1});
    }
    entry.add(graph, x);
  }
  return graph.finish();
}
