// attention and its gradients as kernels, for targets whose library has none: a unit is a row of queries, of keys or an
// element of a mask, and goes over the scores that it needs one after the other. The forward pass keeps a running
// maximum (online softmax, Milakov and Gimelshein 2018); the gradients make probabilities again from the log of the sum
// of exponentials (FlashAttention, Dao et al. 2022). No tensor of queries times keys exists.
#include "AttentionOps.h"
#include "IndexMath.h"
#include "NeuralRows.h"
#include "RandomOps.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// The scores of an op in a kernel. `b`, `h`, `i` and `j` (index values) are the member of the batch, the query head,
/// the query and the key.
template <typename Op> class ScoreEmitter {
public:
  /// The operands that not all such ops have start at `optional`.
  ScoreEmitter(Op op, Location loc, LoadFn load, unsigned optional)
      : s(attentionShape(op)), compute(tensorType(op.getLse()).getElementType()), op(op), loc(loc), load(load),
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

private:
  Value originOf(OpBuilder &b, int64_t d) const {
    return emitConvert(b, loc, load(b, origin, {index(b, d)}), b.getIndexType());
  }

  /// Key j sees query i where -left <= j - (i + shift) <= right, with shift = whole keys - whole queries, both by their
  /// indices in the whole.
  std::pair<Value, Value> reach(OpBuilder &b, Value at, bool ofQuery) const {
    auto [left, right] = op.getReach();
    int64_t count = ofQuery ? s.Sk : s.Sq;
    if (!ofQuery)
      std::swap(left, right);
    Value shift = index(b, whole[2] - whole[1]);
    if (origin)
      shift = arith::AddIOp::create(b, loc, shift, arith::SubIOp::create(b, loc, originOf(b, 1), originOf(b, 2)));
    Value place =
        ofQuery ? Value(arith::AddIOp::create(b, loc, at, shift)) : Value(arith::SubIOp::create(b, loc, at, shift));
    auto clamp = [&](int64_t by) -> Value {
      Value moved = arith::AddIOp::create(b, loc, place, index(b, by));
      return arith::MaxSIOp::create(b, loc, index(b, 0), arith::MinSIOp::create(b, loc, moved, index(b, count)));
    };
    return {left == Op::kUnbounded ? index(b, 0) : clamp(-left),
            right == Op::kUnbounded ? index(b, count) : clamp(right + 1)};
  }

  mutable Op op; // its accessors are not const
  Location loc;
  LoadFn load;
  unsigned firstMask, segments, random, origin; // operands; 0: not there
  SmallVector<int64_t> whole;
};

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
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq;
}

void AttentionOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
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
  rt::AttentionShape s = attentionShape(*this);
  return s.B * s.Hq * s.Sq + s.B * s.Hkv * s.Sk;
}

void AttentionGradOp::emitUnit(OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store, ValueRange) {
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
