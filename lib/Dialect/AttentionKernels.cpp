// attention and its gradients as kernels, for targets whose library has none: in tiles (AttentionTiles.cpp), or, where
// heads are too wide for these, a unit is a row of queries, of keys or an element of a mask, and goes over the scores
// that it needs one after the other.
#include "AttentionScore.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// Sums of a row's elements, kept beside the code.
class RowSums {
public:
  RowSums(OpBuilder &b, Location loc, int64_t size, Type type)
      : loc(loc), size(size), buffer(emitStackBuffer(b, loc, {size}, type)) {
    emitLoop(
        b, loc, size,
        [&](OpBuilder &in, Value d) { memref::StoreOp::create(in, loc, emitConstant(in, loc, type, 0), buffer, d); },
        true);
  }
  ScalarExpr at(OpBuilder &b, Value d) const { return ScalarExpr(b, loc, memref::LoadOp::create(b, loc, buffer, d)); }
  /// Replaces each by `next(d, sum)`.
  void update(OpBuilder &b, llvm::function_ref<ScalarExpr(OpBuilder &, Value, ScalarExpr)> next) const {
    emitLoop(
        b, loc, size,
        [&](OpBuilder &in, Value d) { memref::StoreOp::create(in, loc, next(in, d, at(in, d)).value, buffer, d); },
        true);
  }
  void store(OpBuilder &b, StoreFn store, unsigned result, ArrayRef<Value> row, Type type,
             llvm::function_ref<ScalarExpr(OpBuilder &, ScalarExpr)> last) const {
    emitLoop(
        b, loc, size,
        [&](OpBuilder &in, Value d) {
          SmallVector<Value> index(row);
          index.push_back(d);
          store(in, result, index, emitConvert(in, loc, last(in, at(in, d)).value, type));
        },
        true);
  }

private:
  Location loc;
  int64_t size;
  Value buffer;
};
} // namespace

template <typename T> static Type elementTypeOf(T value) { return tensorType(value).getElementType(); }

/// `value` with the builder of an inner block.
static ScalarExpr inside(OpBuilder &b, ScalarExpr value) { return ScalarExpr(b, value.loc, value.value); }

//===-- attention ------------------------------------------------------------------------------------------------===//

int64_t AttentionOp::getNumUnits() {
  if (int64_t tiles = countTiles(*this))
    return tiles;
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq;
}

void AttentionOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  if (countTiles(*this))
    return emitTile(*this, builder, loc, unit, load, store);
  ScoreEmitter<AttentionOp> scores(*this, loc, load, 3);
  const rt::AttentionShape &s = scores.s;
  SmallVector<Value> row = emitDelinearize(builder, loc, unit, {s.B, s.Hq, s.Sq});
  Value b = row[0], h = row[1], i = row[2];
  RowSums sums(builder, loc, s.Dv, scores.compute);
  double infinity = std::numeric_limits<double>::infinity();
  auto [first, end] = scores.keysOf(builder, i);
  SmallVector<ScalarExpr> state = scores.loop(
      builder, first, end,
      {emitConstant(builder, loc, scores.compute, -infinity), emitConstant(builder, loc, scores.compute, 0)},
      [&](OpBuilder &in, Value j, ValueRange carried) {
        ScalarExpr most = scores.expr(in, carried[0]), total = scores.expr(in, carried[1]);
        auto [score, sees] = scores.score(in, b, h, i, j);
        score = select(sees, score, like(score, -infinity));
        ScalarExpr next = maximum(most, score);
        // Before the first key that is seen both are -inf.
        ScalarExpr hidden = eq(next, like(next, -infinity));
        ScalarExpr keep = select(hidden, like(next, 1), exp(most - next));
        ScalarExpr p = select(hidden, like(next, 0), exp(score - next));
        ScalarExpr weight = scores.drop(in, p, b, h, i, j);
        sums.update(in, [&](OpBuilder &d, Value at, ScalarExpr sum) {
          return sum * inside(d, keep) + inside(d, weight) * scores.read(d, 2, {b, scores.keyHead(d, h), j, at});
        });
        return SmallVector<Value>{next.value, (total * keep + p).value};
      });
  ScalarExpr most = state[0], total = state[1], seesNothing = eq(total, like(total, 0));
  ScalarExpr divisor = select(seesNothing, like(total, 1), total);
  sums.store(builder, store, 0, row, elementTypeOf(getOut()),
             [&](OpBuilder &in, ScalarExpr sum) { return sum / inside(in, divisor); });
  store(builder, 1, row, select(seesNothing, like(total, 0), most + log(divisor)).value);
}

//===-- The gradients --------------------------------------------------------------------------------------------===//

namespace {
/// What the gradients make of one score: the probability, and the gradient of the score.
template <typename Op> class GradientEmitter : public ScoreEmitter<Op> {
public:
  GradientEmitter(Op op, Location loc, LoadFn load) : ScoreEmitter<Op>(op, loc, load, 6), dv(this->s.Dv) {}

  /// The sum of out and its gradient's products.
  ScalarExpr delta(OpBuilder &in, Value b, Value h, Value i) const {
    return this->sum(in, dv, [&](OpBuilder &d, Value at) {
      return this->read(d, 3, {b, h, i, at}) * this->read(d, 5, {b, h, i, at});
    });
  }

  struct Score {
    ScalarExpr probability, gradient;
  };
  Score at(OpBuilder &in, Value b, Value h, Value i, Value j, ScalarExpr delta) const {
    auto [score, sees] = this->score(in, b, h, i, j);
    ScalarExpr p = exp(score - this->read(in, 4, {b, h, i}));
    p = select(sees, p, like(p, 0));
    ScalarExpr dp = this->sum(in, dv, [&](OpBuilder &d, Value at) {
      return this->read(d, 5, {b, h, i, at}) * this->read(d, 2, {b, this->keyHead(d, h), j, at});
    });
    return {p, p * (this->drop(in, dp, b, h, i, j) - inside(in, delta))};
  }

private:
  int64_t dv;
};
} // namespace

/// First the rows of queries, then those of keys and values.
int64_t AttentionGradOp::getNumUnits() {
  if (int64_t tiles = countTiles(*this))
    return tiles;
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq + s.B * s.Hkv * s.Sk;
}

void AttentionGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
  if (countTiles(*this))
    return emitTile(*this, builder, loc, unit, load, store);
  GradientEmitter<AttentionGradOp> scores(*this, loc, load);
  const rt::AttentionShape &s = scores.s;
  double scale = getScale().convertToDouble();
  auto scaled = [&](OpBuilder &, ScalarExpr sum) { return sum * scale; };
  auto plain = [](OpBuilder &, ScalarExpr sum) { return sum; };

  auto emitQuery = [&](OpBuilder &b, Value query) {
    SmallVector<Value> row = emitDelinearize(b, loc, query, {s.B, s.Hq, s.Sq});
    ScalarExpr delta = scores.delta(b, row[0], row[1], row[2]);
    RowSums sums(b, loc, s.D, scores.compute);
    auto [first, end] = scores.keysOf(b, row[2]);
    scores.loop(b, first, end, {}, [&](OpBuilder &in, Value j, ValueRange) {
      ScalarExpr gradient = scores.at(in, row[0], row[1], row[2], j, delta).gradient;
      sums.update(in, [&](OpBuilder &d, Value at, ScalarExpr sum) {
        return sum + inside(d, gradient) * scores.read(d, 1, {row[0], scores.keyHead(d, row[1]), j, at});
      });
      return SmallVector<Value>();
    });
    sums.store(b, store, 0, row, elementTypeOf(getDq()), scaled);
  };
  auto emitKey = [&](OpBuilder &b, Value key) {
    SmallVector<Value> row = emitDelinearize(b, loc, key, {s.B, s.Hkv, s.Sk});
    RowSums ofKey(b, loc, s.D, scores.compute), ofValue(b, loc, s.Dv, scores.compute);
    auto [first, end] = scores.queriesOf(b, row[2]);
    int64_t group = s.Hq / s.Hkv;
    Value firstHead = arith::MulIOp::create(b, loc, row[1], scores.index(b, group));
    Value from = first, to = end;
    emitLoop(b, loc, group, [&](OpBuilder &heads, Value member) {
      Value h = arith::AddIOp::create(heads, loc, firstHead, member);
      scores.loop(heads, from, to, {}, [&](OpBuilder &in, Value i, ValueRange) {
        auto score = scores.at(in, row[0], h, i, row[2], scores.delta(in, row[0], h, i));
        ScalarExpr weight = scores.drop(in, score.probability, row[0], h, i, row[2]);
        ofKey.update(in, [&](OpBuilder &d, Value at, ScalarExpr sum) {
          return sum + inside(d, score.gradient) * scores.read(d, 0, {row[0], h, i, at});
        });
        ofValue.update(in, [&](OpBuilder &d, Value at, ScalarExpr sum) {
          return sum + inside(d, weight) * scores.read(d, 5, {row[0], h, i, at});
        });
        return SmallVector<Value>();
      });
    });
    ofKey.store(b, store, 1, row, elementTypeOf(getDk()), scaled);
    ofValue.store(b, store, 2, row, elementTypeOf(getDv()), plain);
  };

  Value queries = emitIndex(builder, loc, s.B * s.Hq * s.Sq);
  Value isQuery = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, unit, queries);
  auto branch = scf::IfOp::create(builder, loc, isQuery, /*withElseRegion=*/true);
  OpBuilder then = branch.getThenBodyBuilder(), otherwise = branch.getElseBodyBuilder();
  emitQuery(then, unit);
  emitKey(otherwise, arith::SubIOp::create(otherwise, loc, unit, queries));
}

/// The elements of the mask, each the sum over all scores that it is added to.
int64_t AttentionMaskGradOp::getNumUnits() { return tensorType(getDmask()).getNumElements(); }

void AttentionMaskGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store,
                                   ValueRange) {
  GradientEmitter<AttentionMaskGradOp> scores(*this, loc, load);
  const rt::AttentionShape &s = scores.s;
  ArrayRef<int64_t> shape = shapeOf(getDmask());
  SmallVector<Value> element = emitDelinearize(builder, loc, unit, shape);
  Value zero = emitConstant(builder, loc, scores.compute, 0), none = emitIndex(builder, loc, 0);
  auto next = [&](OpBuilder &b, Value at) -> Value { return arith::AddIOp::create(b, loc, at, emitIndex(b, loc, 1)); };
  // An index that the mask has is that one; over one that it lacks the sum goes.
  bool byDistance = shape.size() == 2;
  auto bounds = [&](OpBuilder &b, unsigned d, int64_t size) -> std::pair<Value, Value> {
    int64_t place = byDistance ? static_cast<int64_t>(d) - 1 : d;
    if (place < 0 || place > (byDistance ? 0 : 3) || shape[place] == 1)
      return {none, emitIndex(b, loc, size)};
    return {element[place], next(b, element[place])};
  };
  auto total = [&](OpBuilder &b, std::pair<Value, Value> range, Value sum,
                   llvm::function_ref<Value(OpBuilder &, Value, Value)> body) {
    return scores
        .loop(b, range.first, range.second, {sum},
              [&](OpBuilder &in, Value at, ValueRange carried) {
                return SmallVector<Value>{body(in, at, carried[0])};
              })[0]
        .value;
  };
  Value sum = total(builder, bounds(builder, 0, s.B), zero, [&](OpBuilder &ofBatch, Value b, Value sumB) {
    return total(ofBatch, bounds(ofBatch, 1, s.Hq), sumB, [&](OpBuilder &ofHead, Value h, Value sumH) {
      return total(ofHead, bounds(ofHead, 2, s.Sq), sumH, [&](OpBuilder &ofQuery, Value i, Value sumI) {
        auto [first, end] = scores.keysOf(ofQuery, i);
        ScalarExpr delta = scores.delta(ofQuery, b, h, i);
        if (byDistance || shape[3] != 1) {
          // One key; none where it lies outside of the query's reach.
          Value j = byDistance
                        ? Value(arith::SubIOp::create(ofQuery, loc, arith::AddIOp::create(ofQuery, loc, element[1], i),
                                                      emitIndex(ofQuery, loc, s.Sq - 1)))
                        : element[3];
          first = arith::MaxSIOp::create(ofQuery, loc, first, j);
          end = arith::MinSIOp::create(ofQuery, loc, end, next(ofQuery, j));
          // Empty unless j is in reach: with j before it, the end is at or before the beginning.
        }
        return total(ofQuery, {first, end}, sumI, [&](OpBuilder &in, Value j, Value sumJ) {
          return (scores.expr(in, sumJ) + scores.at(in, b, h, i, j, delta).gradient).value;
        });
      });
    });
  });
  store(builder, 0, element, sum);
}
