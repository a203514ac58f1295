// Values that are functions of positions: known without evaluating a tensor of queries times keys.
#ifndef SCRIMP_LIB_TRANSFORMS_RAISEIDIOMS_POSITIONS_H
#define SCRIMP_LIB_TRANSFORMS_RAISEIDIOMS_POSITIONS_H

#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/HostTensor.h"

namespace mlir::scrimp {

/// start + the sum over the dimensions of steps[d] * index[d].
struct Affine {
  int64_t start = 0;
  SmallVector<int64_t> steps;
};

/// `value` as such a function, if it is one, exactly, in its type. Not of i1.
std::optional<Affine> getAffine(Value value);

/// The shape, of `value`'s rank, of a tensor that broadcasts to `value` and that the same ops could compute.
SmallVector<int64_t> narrowShape(Value value);

/// `value` computed in `shape`: each dimension 1 where narrowShape has 1, or else `value`'s.
Value buildNarrow(OpBuilder &builder, Value value, ArrayRef<int64_t> shape);

/// Values [.., queries, .., keys, ..] that depend on query i and key j through j - i alone.
class Diagonals {
public:
  /// Without a builder nothing is built, and `get` only tells.
  explicit Diagonals(OpBuilder *builder = nullptr) : builder(builder) {}

  /// Of `value`, whose dimensions `query` and `key` have sizes Sq and Sk, the one with 1 and Sq + Sk - 1 in their
  /// places, element j - i + Sq - 1 being that of query i and key j. Null if `value` depends on them otherwise.
  Value get(Value value, int64_t query, int64_t key);

private:
  Value find(Value value, int64_t query, int64_t key);
  Value findConstant(Value value, int64_t query, int64_t key);
  Value findCompared(Operation *op, int64_t query, int64_t key);
  Value findPointwise(Operation *op, int64_t query, int64_t key);

  OpBuilder *builder;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> known;
  unsigned depth = 0;
};

/// Builds what is only looked at, outside of the function: a pattern that fails must leave nothing that the driver sees.
class Scratch {
public:
  OpBuilder builder;

  explicit Scratch(MLIRContext *context) : builder(context) { builder.setInsertionPointToEnd(&block); }
  ~Scratch() {
    while (!block.empty())
      block.back().erase();
  }

private:
  Block block;
};

/// Evaluates `value` if it depends on nothing but constants and no intermediate value has more than `most` elements.
std::optional<HostTensor> evaluateConstant(Value value, int64_t most);

} // namespace mlir::scrimp

#endif
