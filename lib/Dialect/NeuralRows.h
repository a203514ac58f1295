// What the ops of NeuralOps.td that work row by row share: the elements of one row in a kernel, its reductions, and
// statistics' types.
#ifndef SCRIMP_LIB_DIALECT_NEURALROWS_H
#define SCRIMP_LIB_DIALECT_NEURALROWS_H

#include "MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::scrimp {

/// `type`'s shape cut to its first `axis` dimensions, f32 for f16 and bf16 elements, otherwise of its element type.
inline RankedTensorType wideOuterType(RankedTensorType type, int64_t axis) {
  return RankedTensorType::get(type.getShape().take_front(axis), getComputeType(type.getElementType()));
}

/// Row `unit` of tensors of one shape: the dimensions from `axis` on, at one index of those before.
class RowEmitter {
public:
  RowEmitter(OpBuilder &builder, Location loc, Value unit, ArrayRef<int64_t> shape, int64_t axis)
      : builder(builder), loc(loc), outer(emitDelinearize(builder, loc, unit, shape.take_front(axis))),
        inner(shape.drop_front(axis)), size(productOf(inner)) {}

  int64_t getSize() const { return size; }
  /// The index of the row's statistics.
  ValueRange getOuter() const { return outer; }
  /// The index of element `j` of the row, and within a tensor of the row's shape.
  SmallVector<Value> at(OpBuilder &b, Value j) const {
    SmallVector<Value> index(outer);
    llvm::append_range(index, within(b, j));
    return index;
  }
  SmallVector<Value> within(OpBuilder &b, Value j) const { return emitDelinearize(b, loc, j, inner); }

  using ElementFn = llvm::function_ref<SmallVector<ScalarExpr>(OpBuilder &b, Value j)>;
  /// Combines what `element` gives over the row, each in its own accumulator of type `type`.
  SmallVector<ScalarExpr> reduce(Combine kind, Type type, unsigned count, ElementFn element) const {
    SmallVector<Combine> kinds(count, kind);
    SmallVector<Type> types(count, type);
    SmallVector<ScalarExpr> results;
    for (Value value : emitReduce(builder, loc, size, kinds, types, [&](OpBuilder &b, Value j) {
           SmallVector<Value> values;
           for (ScalarExpr e : element(b, j))
             values.push_back(e.value);
           return values;
         }))
      results.push_back(ScalarExpr(builder, loc, value));
    return results;
  }
  ScalarExpr reduce(Combine kind, Type type, llvm::function_ref<ScalarExpr(OpBuilder &, Value)> element) const {
    return reduce(kind, type, 1, [&](OpBuilder &b, Value j) { return SmallVector<ScalarExpr>{element(b, j)}; })[0];
  }
  /// Stores `element(j)`, rounded to `type`, as every element of result `result`'s row.
  void forEach(StoreFn store, unsigned result, Type type,
               llvm::function_ref<ScalarExpr(OpBuilder &, Value)> element) const {
    emitLoop(
        builder, loc, size,
        [&](OpBuilder &b, Value j) { store(b, result, at(b, j), emitConvert(b, loc, element(b, j).value, type)); },
        true);
  }

private:
  OpBuilder &builder;
  Location loc;
  SmallVector<Value> outer;
  SmallVector<int64_t> inner;
  int64_t size;
};

/// `value` computed with another builder.
inline ScalarExpr in(OpBuilder &b, ScalarExpr value) { return ScalarExpr(b, value.loc, value.value); }

} // namespace mlir::scrimp

#endif
