// What attention's kernels make of a score: where a query sees a key, masks and dropout; for kernels that go row by row
// and for those in tiles.
#ifndef SCRIMP_LIB_DIALECT_ATTENTIONSCORE_H
#define SCRIMP_LIB_DIALECT_ATTENTIONSCORE_H

#include "AttentionOps.h"
#include "IndexMath.h"
#include "NeuralRows.h"
#include "RandomOps.h"

namespace mlir::scrimp {

/// The scores of an op in a kernel. `b`, `h`, `i` and `j` (index values) are the member of the batch, the query head,
/// the query and the key.
template <typename Op> class ScoreEmitter {
public:
  /// The operands that not all such ops have start at `optional`.
  ScoreEmitter(Op op, Location loc, LoadFn load, unsigned optional)
      : s(attentionShape(op)), compute(tensorType(op.getLse()).getElementType()), loc(loc), op(op), load(load),
        firstMask(optional), whole(wholeScores(op)) {
    optional += op.getMasks().size();
    segments = op.getSegments() ? optional++ : 0;
    random = op.getSeed() ? optional : 0;
    optional += op.getSeed() ? 3 : 0;
    origin = op.getOrigin() ? optional : 0;
  }

  const rt::AttentionShape s;
  const Type compute;

  Value index(OpBuilder &b, int64_t value) const { return emitIndex(b, loc, value); }
  ScalarExpr expr(OpBuilder &b, Value value) const { return ScalarExpr(b, loc, value); }
  /// An element of an operand, in the type of sums.
  ScalarExpr read(OpBuilder &b, unsigned operand, ValueRange at) const {
    return expr(b, emitConvert(b, loc, load(b, operand, at), compute));
  }
  Value keyHead(OpBuilder &b, Value h) const {
    return s.Hq == s.Hkv ? h : Value(arith::DivUIOp::create(b, loc, h, index(b, s.Hq / s.Hkv)));
  }

  /// The sum of `element(j)` for j in [0, n).
  ScalarExpr sum(OpBuilder &b, int64_t n, llvm::function_ref<ScalarExpr(OpBuilder &, Value)> element) const {
    return expr(b, emitReduce(b, loc, n, Combine::Add, compute, [&](OpBuilder &in, Value j) {
                     return SmallVector<Value>{element(in, j).value};
                   })[0]);
  }

  using Body = llvm::function_ref<SmallVector<Value>(OpBuilder &, Value, ValueRange)>;
  /// Goes from `begin` to before `end` with values that are carried along.
  SmallVector<ScalarExpr> loop(OpBuilder &b, Value begin, Value end, ArrayRef<Value> carried, Body body) const {
    auto loop = scf::ForOp::create(b, loc, begin, end, index(b, 1), ValueRange(carried));
    OpBuilder in = OpBuilder::atBlockBegin(loop.getBody());
    SmallVector<Value> next = body(in, loop.getInductionVar(), loop.getRegionIterArgs());
    if (!carried.empty())
      scf::YieldOp::create(in, loc, next);
    SmallVector<ScalarExpr> results;
    for (Value result : loop.getResults())
      results.push_back(expr(b, result));
    return results;
  }

  /// The keys [first, second) that a query may see for its place, and the queries that may see a key.
  std::pair<Value, Value> keysOf(OpBuilder &b, Value i) const { return reach(b, i, /*ofQuery=*/true); }
  std::pair<Value, Value> queriesOf(OpBuilder &b, Value j) const { return reach(b, j, /*ofQuery=*/false); }

  /// The score of a query for a key of its reach, and whether it sees that.
  std::pair<ScalarExpr, ScalarExpr> score(OpBuilder &b, Value batch, Value h, Value i, Value j) const {
    ScalarExpr dot = sum(b, s.D, [&](OpBuilder &in, Value d) {
      return read(in, 0, {batch, h, i, d}) * read(in, 1, {batch, keyHead(in, h), j, d});
    });
    return judge(b, dot, batch, h, i, j);
  }

  /// The same from the sum of the products of q and k.
  std::pair<ScalarExpr, ScalarExpr> judge(OpBuilder &b, ScalarExpr dot, Value batch, Value h, Value i, Value j) const {
    dot = dot * op.getScale().convertToDouble();
    ScalarExpr sees = expr(b, emitConstant(b, loc, b.getI1Type(), 1));
    auto also = [&](Value condition) { sees = sees.with(arith::AndIOp::create(b, loc, sees.value, condition)); };
    for (auto [n, mask] : llvm::enumerate(op.getMasks())) {
      Value element = load(b, firstMask + n, maskIndex(b, mask, batch, h, i, j));
      if (isFloatTensor(mask))
        dot = dot + expr(b, emitConvert(b, loc, element, compute));
      else
        also(element);
    }
    if (segments)
      also(eq(expr(b, load(b, segments, {batch, i})), expr(b, load(b, segments, {batch, j}))).value);
    return {dot, sees};
  }

  /// Whether a query may see a key for its place.
  Value isInReach(OpBuilder &b, Value i, Value j) const {
    auto [left, right] = op.getReach();
    Value distance = arith::SubIOp::create(b, loc, j, arith::AddIOp::create(b, loc, i, shift(b)));
    Value reached = emitConstant(b, loc, b.getI1Type(), 1);
    auto also = [&](arith::CmpIPredicate predicate, int64_t bound) {
      Value holds = arith::CmpIOp::create(b, loc, predicate, distance, index(b, bound));
      reached = arith::AndIOp::create(b, loc, reached, holds);
    };
    if (left != Op::kUnbounded)
      also(arith::CmpIPredicate::sge, -left);
    if (right != Op::kUnbounded)
      also(arith::CmpIPredicate::sle, right);
    return reached;
  }

  /// The indices of a mask's element for a score.
  SmallVector<Value> maskIndex(OpBuilder &b, Value mask, Value batch, Value h, Value i, Value j) const {
    ArrayRef<int64_t> shape = shapeOf(mask);
    Value at[] = {batch, h, i, j};
    SmallVector<Value> indices;
    if (shape.size() == 2) {
      Value distance = arith::SubIOp::create(b, loc, arith::AddIOp::create(b, loc, j, index(b, s.Sq - 1)), i);
      return {shape[0] == 1 ? index(b, 0) : h, distance};
    }
    for (auto [size, each] : llvm::zip(shape, at))
      indices.push_back(size == 1 ? index(b, 0) : each);
    return indices;
  }

  bool drops() const { return random; }
  /// What dropout makes of a value of the scores' shape: 0, or that times 1 / (1 - p).
  ScalarExpr drop(OpBuilder &b, ScalarExpr value, Value batch, Value h, Value i, Value j) const {
    if (!random)
      return value;
    int64_t samples = op.getSamples().value_or(0), rest = s.B / std::max<int64_t>(samples, 1);
    Value sample = arith::ConstantIntOp::create(b, loc, 0, 64), first = index(b, 0);
    if (samples) {
      Value each = index(b, rest);
      sample = arith::AddIOp::create(b, loc, load(b, random + 2, {}),
                                     emitConvert(b, loc, arith::DivUIOp::create(b, loc, batch, each), b.getI64Type()));
      first = arith::RemUIOp::create(b, loc, batch, each);
    } else {
      first = batch;
    }
    SmallVector<Value> at{first, h, i, j};
    for (int64_t d = 0; origin && d < 3; ++d)
      at[d + 1] = arith::AddIOp::create(b, loc, at[d + 1], originOf(b, d));
    Value element =
        emitConvert(b, loc, emitLinearize(b, loc, at, {rest, whole[0], whole[1], whole[2]}), b.getI64Type());
    Value key =
        arith::XOrIOp::create(b, loc, load(b, random, {}),
                              arith::ConstantIntOp::create(b, loc, static_cast<int64_t>(mix64(*op.getKey())), 64));
    Value bits = emitDrawBits(b, loc, key, sample, load(b, random + 1, {}), element);
    double p = op.getP()->convertToDouble();
    Value below = arith::ConstantIntOp::create(b, loc, static_cast<int32_t>(dropBelow(p)), 32);
    Value dropped = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, bits, below);
    return select(expr(b, dropped), like(value, 0), value * (1 / (1 - p)));
  }

  const Location loc;

private:
  Value originOf(OpBuilder &b, int64_t d) const {
    return emitConvert(b, loc, load(b, origin, {index(b, d)}), b.getIndexType());
  }

  /// Where query 0 stands among the keys.
  Value shift(OpBuilder &b) const {
    Value shift = index(b, whole[2] - whole[1]);
    if (origin)
      shift = arith::AddIOp::create(b, loc, shift, arith::SubIOp::create(b, loc, originOf(b, 1), originOf(b, 2)));
    return shift;
  }

  /// Key j sees query i where -left <= j - (i + shift) <= right, with shift = whole keys - whole queries, both by their
  /// indices in the whole.
  std::pair<Value, Value> reach(OpBuilder &b, Value at, bool ofQuery) const {
    auto [left, right] = op.getReach();
    int64_t count = ofQuery ? s.Sk : s.Sq;
    if (!ofQuery)
      std::swap(left, right);
    Value by = shift(b);
    Value place = ofQuery ? Value(arith::AddIOp::create(b, loc, at, by)) : Value(arith::SubIOp::create(b, loc, at, by));
    auto clamp = [&](int64_t distance) -> Value {
      Value moved = arith::AddIOp::create(b, loc, place, index(b, distance));
      return arith::MaxSIOp::create(b, loc, index(b, 0), arith::MinSIOp::create(b, loc, moved, index(b, count)));
    };
    return {left == Op::kUnbounded ? index(b, 0) : clamp(-left),
            right == Op::kUnbounded ? index(b, count) : clamp(right + 1)};
  }

  mutable Op op; // its accessors are not const
  LoadFn load;
  unsigned firstMask, segments, random, origin; // operands; 0: not there
  SmallVector<int64_t> whole;
};

/// Attention in tiles (AttentionTiles.cpp), where those fit into what a block shares. Units are tiles of queries, in the
/// gradient followed by tiles of keys; 0: they do not fit.
int64_t countTiles(AttentionOp op);
int64_t countTiles(AttentionGradOp op);
void emitTile(AttentionOp op, OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store);
void emitTile(AttentionGradOp op, OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store);

} // namespace mlir::scrimp

#endif
