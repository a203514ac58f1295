// What the entries of the op table build with: a node's inputs and attributes, and ops that fold as they are made.
#ifndef SCRIMP_LIB_IMPORT_NODEBUILDER_H
#define SCRIMP_LIB_IMPORT_NODEBUILDER_H

#include "Model.h"

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::scrimp::onnx_import {

/// A loss of the form N/D, beside the quotient itself.
struct LossParts {
  Value sum, count;
};

/// The graph under construction, shared by all nodes.
class GraphState {
public:
  GraphState(MLIRContext *context, const ImportOptions &options)
      : context(context), options(options), builder(context) {}

  MLIRContext *context;
  const ImportOptions &options;
  OpBuilder builder;
  func::FuncOp function;
  llvm::StringMap<Value> values;
  llvm::StringMap<SmallVector<Value>> sequences;
  /// The ATen op that torch traced a value from, where the exporter wrote it.
  llvm::StringMap<StringRef> traced;
  /// Exact values of constants and attributes that the file holds rounded (scrimp.scalars).
  std::map<std::string, double> scalars;
  std::map<std::string, std::vector<double>> lists; // of several
  /// Entries of scrimp.modes by module scope.
  std::map<std::string, llvm::json::Object> modes;
  /// What becomes of running statistics and counters, by their value at the start of the step.
  llvm::MapVector<Value, Value> updates;
  llvm::DenseMap<Value, LossParts> losses;
  /// Names of outputs that some live node or the loss reads.
  llvm::StringSet<> used;
  int64_t batch = -1; // -1: no batched input
  std::vector<std::string> evaluationDropouts, evaluationNorms;
  std::vector<std::string> notes; // for ImportedModel
  llvm::StringSet<> ignored;      // "Op.attribute" and "Op.number of input", those noted

  /// An argument that the runtime fills each step.
  Value scalarArgument(StringRef name, Type type);
  int64_t nextRandomKey() { return randomKeys++; }

  /// Under --precision fp64 every float is a double.
  Type widen(Type elementType) const;

  /// As a constant, or an iota where it counts, without the dimensions along which it repeats under a broadcast.
  Value constant(Location loc, const HostTensor &value);
  /// The same, repeated to `type`.
  Value constant(Location loc, const HostTensor &value, RankedTensorType type);
  /// The constant that lies in the file; where it goes by the distance of its last two indices, a function of these.
  FailureOr<Value> stored(const WeightSource &source, Type elementType, Location loc);
  /// Evaluates `op` if its operands depend on constants alone; its results, folded or not. An elementwise op of
  /// integers whose result would hold more than each of its operands (positions compared with positions) stays.
  SmallVector<Value> fold(Operation *op);

private:
  llvm::DenseSet<Value> symbolic; // depend on constants alone, and are not folded
  int64_t randomKeys = 0;
  llvm::StringMap<Value> scalarArguments;
};

/// The value of what depends on constants alone, if it is not too large.
std::optional<HostTensor> constantOf(Value value);

/// The elements as a tensor; bytes are read where they lie.
FailureOr<HostTensor> readTensor(const WeightSource &source, Type elementType, Location loc);

class NodeBuilder {
public:
  NodeBuilder(GraphState &graph, const Node &node)
      : graph(graph), node(node), builder(graph.builder), loc(locationOf(node, graph.context)) {}

  GraphState &graph;
  const Node &node;
  OpBuilder &builder;
  Location loc;

  static Location locationOf(const Node &node, MLIRContext *context);

  /// "node 'scope/name' (Type): " and the message that the caller streams.
  InFlightDiagnostic error();

  unsigned numInputs() const { return node.inputs.size(); }
  bool has(unsigned i) const {
    readInputs.insert(i);
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  /// Null when left out. Use `require` where it must be there.
  Value input(unsigned i) const;
  /// Whether torch traced the node, or its input `i`, from an ATen op whose name starts with one of `ops` ("aten.clamp");
  /// false where the exporter did not write it. Ops of one value differ in their gradient where the function has a kink.
  bool isFrom(ArrayRef<StringRef> ops) const;
  bool isInputFrom(unsigned i, ArrayRef<StringRef> ops) const;
  LogicalResult require(unsigned first, unsigned count);
  LogicalResult requireFloat(unsigned i);
  LogicalResult requireRank(unsigned i, int64_t least);
  SmallVector<Value> allInputs() const;

  /// The attribute; null when it is left out, or of another kind, of which checkAllRead tells.
  const AttributeValue *find(StringRef name, AttributeValue::Kind kind) const;
  /// After the node is built: fails after an error if an attribute was of another kind than it was read as; attributes
  /// and inputs that nobody read are noted.
  LogicalResult checkAllRead();
  /// Counts an attribute as read that changes nothing here.
  void pass(StringRef name) const { read.insert(name); }
  int64_t intAttr(StringRef name, int64_t fallback) const;
  /// Exact where scrimp.scalars has it.
  double floatAttr(StringRef name, double fallback) const;
  std::string stringAttr(StringRef name, StringRef fallback) const;
  std::optional<SmallVector<int64_t>> intsAttr(StringRef name) const;
  bool hasAttr(StringRef name) const {
    read.insert(name);
    return node.attributes.count(name.str());
  }

  /// The elements of input `i`, which must be a constant of integers.
  FailureOr<SmallVector<int64_t>> constantInts(unsigned i, StringRef what);
  /// The single element of input `i`, which must be a constant.
  FailureOr<double> constantScalar(unsigned i, StringRef what);
  /// Axes from the input `i` or, in older opsets, the attribute `name`; nullopt if neither is there.
  FailureOr<std::optional<SmallVector<int64_t>>> axes(StringRef name, unsigned i);
  /// Maps [-rank, rank) to [0, rank).
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes, int64_t rank);

  /// Makes an op and folds it. For ops with one result.
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return graph.fold(Op::create(builder, loc, std::forward<Args>(args)...))[0];
  }
  template <typename Op, typename... Args> SmallVector<Value> makeAll(Args &&...args) {
    return graph.fold(Op::create(builder, loc, std::forward<Args>(args)...));
  }
  Value splat(RankedTensorType type, double value) { return splatConstant(builder, loc, type, value); }
  Value intConstant(ArrayRef<int64_t> values, ArrayRef<int64_t> shape, Type elementType = nullptr);
  /// i64: start + the index along `dim`.
  Value positions(ArrayRef<int64_t> shape, int64_t dim, int64_t start = 0);
  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value broadcast(Value value, ArrayRef<int64_t> shape);
  Value cast(Value value, Type elementType);
  Value transpose(Value value, ArrayRef<int64_t> permutation);
  /// Slice with the given first element, count and step a dimension.
  Value slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides);
  Value sliceDim(Value value, int64_t dim, int64_t start, int64_t size);
  Value reduce(ReduceKind kind, Value value, ArrayRef<int64_t> dims);
  /// `root(sum)`, without a gradient where the sum is 0: as torch's norms and deviations, unlike its roots.
  Value rootOfSum(Value sum, llvm::function_ref<Value(Value)> root);
  /// NumPy's common shape; fails after an error naming both.
  FailureOr<SmallVector<int64_t>> commonShape(ValueRange values);
  /// All values broadcast to their common shape; element types must agree.
  FailureOr<SmallVector<Value>> broadcastTogether(ValueRange values);

  LogicalResult set(unsigned output, Value value);
  LogicalResult result(Value value) { return set(0, value); }
  bool isUsed(unsigned output) const;

private:
  mutable llvm::StringSet<> read; // names of attributes
  mutable llvm::SmallDenseSet<unsigned> readInputs;
  mutable std::string mistyped;
};

/// One ONNX op in a range of opsets.
struct OpEntry {
  const char *type, *domain;
  int64_t since, until; // until 0: up to the newest
  LogicalResult (*build)(NodeBuilder &);
};

/// The op table, by kind of op. Adding an op is one entry in one of these.
ArrayRef<OpEntry> constantOps();
ArrayRef<OpEntry> elementwiseOps();
ArrayRef<OpEntry> shapeOps();
ArrayRef<OpEntry> reductionOps();
ArrayRef<OpEntry> neuralOps();
ArrayRef<OpEntry> convolutionOps();
ArrayRef<OpEntry> indexingOps();
ArrayRef<OpEntry> recurrentOps();
ArrayRef<OpEntry> resizeOps();
/// All of them.
SmallVector<const OpEntry *> allOps();

/// The entry for a node, null if the op is not supported; `reason` then says what is wrong: the domain, the type or
/// the opset.
const OpEntry *findOp(const Node &node, std::string &reason);

/// Gives integer inputs of @main the values that their uses allow: scrimp.valid and scrimp.ignore.
void markValidRanges(func::FuncOp function);

/// The mean of `values` (a sum of them over `count`, both rank 0) with its parts remembered for the loss.
Value quotientLoss(NodeBuilder &b, Value sum, Value count);

/// Notes a warning if `scores`, which `loss` ("cross_entropy", "bce_with_logits") makes probabilities of, are such
/// already.
void tellNormalizedScores(GraphState &graph, Value scores, StringRef loss);

/// Cross entropy of logits [.., C] and labels [..] with PyTorch's mean over labels that are not ignored.
/// `reduction` is "mean", "sum" or "none" (then the losses of labels' shape).
FailureOr<Value> crossEntropy(NodeBuilder &b, Value logits, Value labels, Value weight, std::optional<int64_t> ignore,
                              StringRef reduction);

} // namespace mlir::scrimp::onnx_import

#endif
