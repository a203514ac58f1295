// What entries of the random graphs (Entries*.cpp) build with: values that know where the batch is and how large they
// may get, arguments of every role, and draws.
#ifndef SCRIMP_TEST_UNIT_EQUIVALENCE_GRAPHBUILDER_H
#define SCRIMP_TEST_UNIT_EQUIVALENCE_GRAPHBUILDER_H

#include "RandomGraph.h"

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <random>

namespace mlir::scrimp {

using Shape = SmallVector<int64_t>;

/// A float value of the graph.
struct Node {
  Value value;
  int64_t dim = 0; // the one with samples, which has `rest` places for each; -1: no samples
  int64_t rest = 1;
  double bound = 1; // on the magnitude of its elements, roughly: keeps what is built on it finite
};

class GraphBuilder {
public:
  GraphBuilder(MLIRContext &context, uint64_t seed, const RandomGraphOptions &options);

  /// The module, after all has been added: what nothing reads becomes part of the loss.
  OwningOpRef<ModuleOp> finish();

  //===-- Draws
  //----------------------------------------------------------------------------------------------------===//
  int64_t pick(int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t low, int64_t high) { return low + pick(high - low + 1); }
  bool chance(double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; }
  double number(double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  }
  /// A size of a dimension: often 1 or odd.
  int64_t size() {
    static const int64_t sizes[] = {1, 2, 2, 3, 3, 4, 5, 7};
    return sizes[pick(8)];
  }

  //===-- Values
  //---------------------------------------------------------------------------------------------------===//
  int64_t batch;
  FloatType type;

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(builder, location(Op::getOperationName()), std::forward<Args>(args)...);
  }
  RankedTensorType tensor(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, type); }
  RankedTensorType integers(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI64Type()); }
  Value splat(RankedTensorType type, double value);
  Value constant(ArrayRef<int64_t> shape, function_ref<double(int64_t)> element);
  Value indices(ArrayRef<int64_t> shape, function_ref<int64_t(int64_t)> element);

  /// A parameter; now and then one that exists, or a frozen one.
  Value parameter(ArrayRef<int64_t> shape);
  /// Data, samples along `dim` (-1: the same for all).
  Value input(ArrayRef<int64_t> shape, int64_t dim);
  /// Data in [begin, end), or `ignore`.
  Value integerInput(ArrayRef<int64_t> shape, int64_t dim, int64_t begin, int64_t end,
                     std::optional<int64_t> ignore = std::nullopt);
  Value scalar(StringRef name);
  /// A running statistic; `update` gives what replaces it.
  Value state(ArrayRef<int64_t> shape, bool isVariance);
  void update(Value state, Value replacement);

  /// An earlier value, mostly a recent one.
  Node pickNode();
  /// Another value of x's type and layout, if there is one.
  std::optional<Node> findLike(const Node &x);
  /// A second operand for x: another value, a parameter or number broadcast to it, data, or x.
  Node partner(const Node &x);
  void add(Value value, const Node &like, double bound) { nodes.push_back({value, like.dim, like.rest, bound}); }
  void add(const Node &node) { nodes.push_back(node); }
  /// A sum over samples, which may only go into the loss.
  void addSum(Value value) { sums.push_back(value); }

  /// x with elements of at most `bound`.
  Node within(const Node &x, double bound);
  /// A value of x's type with elements in [.5, bound].
  Node positive(const Node &x);
  /// x with samples alone along dimension 0.
  Node front(const Node &x);
  /// The same with `rank` dimensions (at least 2), none of them larger than it was.
  Node withRank(const Node &x, int64_t rank);
  Value reshape(Value x, ArrayRef<int64_t> shape);
  Value transpose(Value x, ArrayRef<int64_t> permutation);
  Value broadcast(Value x, ArrayRef<int64_t> shape);
  /// [rows, columns] times a parameter; `columns` results.
  Value project(Value x, int64_t columns);
  /// The sum of all elements.
  Value sumAll(Value x);

  /// Counter-based ops take these.
  std::array<Value, 3> drawScalars();
  int64_t nextKey() { return ++key; }
  Location location(StringRef op);
  void enter(const std::string &scope) { this->scope = scope; }

  OpBuilder builder;

private:
  Value argument(RankedTensorType type, const std::string &name, SmallVector<NamedAttribute> attributes);
  Value lossOf(const Node &leaf);

  std::mt19937_64 random;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Block *block;
  SmallVector<Attribute> argumentAttributes;
  SmallVector<std::pair<Value, Value>> updates;
  SmallVector<Node> nodes;
  SmallVector<Value> parameters, sums;
  llvm::StringMap<Value> scalars;
  std::string scope = "stem";
  int64_t key = 0, ops = 0;
};

/// Adds to the graph something with the op in it, made of x.
struct Entry {
  const char *name; // an op without its dialect's prefix, or a construct
  void (*add)(GraphBuilder &builder, Node x);
  double weight = 1; // how often, beside others
};

ArrayRef<Entry> elementwiseEntries();
ArrayRef<Entry> shapeEntries();
ArrayRef<Entry> indexingEntries();
ArrayRef<Entry> imageEntries();
ArrayRef<Entry> neuralEntries();

} // namespace mlir::scrimp

#endif
