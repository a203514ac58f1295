// attention and its gradient in tiles: a block takes some queries of a head (or some keys) and goes over tiles of keys
// (queries), which it stages in the memory that its threads share. Scores never leave that. The forward pass keeps a
// running maximum (online softmax, Milakov and Gimelshein 2018); the gradient makes probabilities again from the log of
// the sum of exponentials (FlashAttention, Dao et al. 2022 and 2023). Tiles that no query of the block sees are
// skipped. Which terms are added in which order follows from the shape alone.
#include "AttentionScore.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// Rows of a tile.
struct TileRows {
  int64_t queries, keys;
};
} // namespace

/// What a kernel may share without asking the driver for more.
static constexpr int64_t kSharedBytes = 48 * 1024;
/// Threads that share the work on a row's maximum and sum.
static constexpr int64_t kParts = 4;

static int64_t alignToPiece(int64_t size) { return llvm::alignTo(size, 4); }
/// The stride of rows that are read down a column: odd, so that 32 rows lie in 32 banks.
static int64_t staggered(int64_t width) { return width | 1; }

/// Elements that the forward pass shares: queries, keys or values, scores, sums, and of each row maximum, sum of
/// exponentials, factor and parts.
static int64_t sharedElements(const rt::AttentionShape &s, TileRows t) {
  return t.queries * staggered(s.D) + t.keys * std::max(staggered(s.D), s.Dv) + t.queries * staggered(t.keys) +
         t.queries * alignToPiece(s.Dv) + t.queries * (3 + kParts);
}

/// The same of the gradient: a tile of each operand, probabilities and their gradients, sums, and of each row of
/// queries the log of the sum of exponentials, delta and parts.
static int64_t sharedGradientElements(const rt::AttentionShape &s, TileRows t) {
  int64_t sums = std::max(t.queries * alignToPiece(s.D), t.keys * (alignToPiece(s.D) + alignToPiece(s.Dv)));
  return (t.queries + t.keys) * (staggered(s.D) + staggered(s.Dv)) + 2 * t.queries * staggered(t.keys) + sums +
         t.queries * (2 + kParts);
}

/// The largest tile that fits, no larger than there are rows; none: heads are too wide.
template <typename Op> static std::optional<TileRows> chooseTile(Op op) {
  rt::AttentionShape s = attentionShape(op);
  if (s.D == 0 || s.Dv == 0 || s.Sq == 0 || s.Sk == 0)
    return std::nullopt;
  constexpr bool isGradient = std::is_same_v<Op, AttentionGradOp>;
  int64_t bytes = elementBytesOf(tensorType(op.getLse()).getElementType());
  constexpr TileRows forward[] = {{32, 64}, {32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}, {4, 4}};
  constexpr TileRows gradient[] = {{32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}, {4, 4}};
  for (TileRows t : isGradient ? ArrayRef<TileRows>(gradient) : ArrayRef<TileRows>(forward)) {
    t = {std::min(t.queries, alignToPiece(s.Sq)), std::min(t.keys, alignToPiece(s.Sk))};
    if (bytes * (isGradient ? sharedGradientElements(s, t) : sharedElements(s, t)) <= kSharedBytes)
      return t;
  }
  return std::nullopt;
}

namespace {
/// Rows that the threads of a block share.
struct SharedRows {
  Value memory;
  int64_t stride, begin = 0;
};

template <typename Op> class TileEmitter {
public:
  /// The operands that not all such ops have start at `optional`.
  TileEmitter(Op op, Location loc, LoadFn load, StoreFn store, unsigned optional)
      : scores(op, loc, load, optional), s(scores.s), tile(*chooseTile(op)), loc(loc), store(store),
        infinity(std::numeric_limits<double>::infinity()) {}

protected:
  using Rows = SharedRows;

  Value index(OpBuilder &b, int64_t value) const { return emitIndex(b, loc, value); }
  Value add(OpBuilder &b, Value x, Value y) const { return arith::AddIOp::create(b, loc, x, y); }
  Value add(OpBuilder &b, Value x, int64_t y) const { return y ? add(b, x, index(b, y)) : x; }
  Value multiply(OpBuilder &b, Value x, int64_t y) const { return arith::MulIOp::create(b, loc, x, index(b, y)); }
  Value isBelow(OpBuilder &b, Value x, int64_t bound) const {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, index(b, bound));
  }
  Value clamp(OpBuilder &b, Value x, int64_t size) const {
    return arith::MinSIOp::create(b, loc, x, index(b, size - 1));
  }
  ScalarExpr number(OpBuilder &b, double value) const {
    return ScalarExpr(b, loc, emitConstant(b, loc, scores.compute, value));
  }

  Rows share(OpBuilder &b, int64_t rows, int64_t stride) const {
    return {emitStackBuffer(b, loc, {rows * stride}, scores.compute), stride};
  }
  Value placeOf(OpBuilder &b, Rows rows, Value row, Value column) const {
    Value place = rows.stride == 1 ? row : multiply(b, row, rows.stride);
    return add(b, column ? add(b, place, column) : place, rows.begin);
  }
  ScalarExpr get(OpBuilder &b, Rows rows, Value row, Value column = nullptr) const {
    return ScalarExpr(b, loc, memref::LoadOp::create(b, loc, rows.memory, placeOf(b, rows, row, column)));
  }
  void set(OpBuilder &b, ScalarExpr value, Rows rows, Value row, Value column = nullptr) const {
    memref::StoreOp::create(b, loc, value.value, rows.memory, placeOf(b, rows, row, column));
  }

  using RowFn = llvm::function_ref<void(OpBuilder &, Value)>;
  using ElementFn = llvm::function_ref<void(OpBuilder &, Value row, Value column)>;
  void forRows(OpBuilder &b, int64_t rows, RowFn body) const { emitLoop(b, loc, rows, body, /*parallel=*/true); }
  /// Each thread takes four columns that follow each other, where the width allows.
  void forElements(OpBuilder &b, int64_t rows, int64_t width, ElementFn body) const {
    int64_t piece = width % 4 ? 1 : 4;
    forRows(b, rows * (width / piece), [&](OpBuilder &in, Value at) {
      SmallVector<Value> place = emitDelinearize(in, loc, at, {rows, width / piece});
      for (int64_t c = 0; c < piece; ++c)
        body(in, place[0], add(in, piece == 1 ? place[1] : multiply(in, place[1], piece), c));
    });
  }
  /// Each row is shared by kParts threads; `body` gets the part's number too.
  void forParts(OpBuilder &b, int64_t rows, ElementFn body) const {
    forRows(b, rows * kParts, [&](OpBuilder &in, Value at) {
      SmallVector<Value> place = emitDelinearize(in, loc, at, {rows, kParts});
      body(in, place[0], place[1]);
    });
  }
  /// `next(j, value)` over part `part` of `count` elements.
  ScalarExpr overPart(OpBuilder &b, Value part, int64_t count, ScalarExpr first,
                      llvm::function_ref<ScalarExpr(OpBuilder &, Value, ScalarExpr)> next) const {
    auto loop = scf::ForOp::create(b, loc, part, index(b, count), index(b, kParts), ValueRange{first.value});
    OpBuilder in = OpBuilder::atBlockBegin(loop.getBody());
    Value value = next(in, loop.getInductionVar(), ScalarExpr(in, loc, loop.getRegionIterArgs()[0])).value;
    scf::YieldOp::create(in, loc, value);
    return ScalarExpr(b, loc, loop.getResult(0));
  }
  /// The parts of a row together, in order.
  ScalarExpr overParts(OpBuilder &b, Rows parts, Value row,
                       llvm::function_ref<ScalarExpr(ScalarExpr, ScalarExpr)> combine) const {
    ScalarExpr all = get(b, parts, row, index(b, 0));
    for (int64_t part = 1; part < kParts; ++part)
      all = combine(all, get(b, parts, row, index(b, part)));
    return all;
  }

  /// Goes over tiles of `size` rows from that of row `begin` to that of the row before `end`.
  void forTiles(OpBuilder &b, Value begin, Value end, int64_t size, RowFn body) const {
    Value step = index(b, size);
    begin = multiply(b, arith::DivUIOp::create(b, loc, begin, step), size);
    auto loop = scf::ForOp::create(b, loc, begin, end, step);
    OpBuilder in = OpBuilder::atBlockBegin(loop.getBody());
    body(in, loop.getInductionVar());
  }

  /// The first `count` of `rows` x `width` elements that are neighbours in a buffer too: how many of them a thread
  /// takes follows from how they lie there.
  void forNeighbours(OpBuilder &b, Value count, int64_t rows, int64_t width, ElementFn body) const {
    emitLoop(
        b, loc, index(b, 0), count,
        [&](OpBuilder &in, Value at) {
          SmallVector<Value> place = emitDelinearize(in, loc, at, {rows, width});
          body(in, place[0], place[1]);
        },
        /*parallel=*/true);
  }

  /// Rows of an operand from row `first` of a head on; 0 behind its last, which is `count` - 1.
  void stage(OpBuilder &b, Rows to, unsigned operand, Value batch, Value head, Value first, int64_t rows, int64_t count,
             int64_t width) const {
    forNeighbours(b, index(b, rows * width), rows, width, [&](OpBuilder &in, Value row, Value column) {
      Value at = add(in, first, row);
      bool isWhole = count % rows == 0;
      ScalarExpr value = scores.read(in, operand, {batch, head, isWhole ? at : clamp(in, at, count), column});
      if (!isWhole)
        value = select(ScalarExpr(in, loc, isBelow(in, at, count)), value, like(value, 0));
      set(in, value, to, row, column);
    });
  }
  void clear(OpBuilder &b, Rows rows, int64_t count) const {
    forElements(b, count, rows.stride,
                [&](OpBuilder &in, Value row, Value column) { set(in, number(in, 0), rows, row, column); });
  }

  /// A thread's part of a tile of results: `rows` x `columns` of them, as far apart as they can be, so that threads
  /// next to each other have columns next to each other.
  struct Piece {
    SmallVector<Value> rows, columns;
  };
  void forPieces(OpBuilder &b, int64_t rows, int64_t columns, llvm::function_ref<void(OpBuilder &, Piece)> body) const {
    int64_t side = rows * columns < 2048 ? 2 : 4, across = columns / side, down = rows / side;
    forRows(b, down * across, [&](OpBuilder &in, Value at) {
      SmallVector<Value> first = emitDelinearize(in, loc, at, {down, across});
      Piece piece;
      for (int64_t n = 0; n < side; ++n) {
        piece.rows.push_back(add(in, first[0], n * down));
        piece.columns.push_back(add(in, first[1], n * across));
      }
      body(in, piece);
    });
  }

  using FactorFn = llvm::function_ref<ScalarExpr(OpBuilder &, Value, Value k)>;
  /// For each row and column the sum of left(row, k) right(column, k) over k, one after the other onto `sums`, in one
  /// rounding each.
  SmallVector<Value> products(OpBuilder &b, const Piece &piece, int64_t count, SmallVector<Value> sums, FactorFn left,
                              FactorFn right) const {
    auto loop = scf::ForOp::create(b, loc, index(b, 0), index(b, count), index(b, 1), sums);
    OpBuilder in = OpBuilder::atBlockBegin(loop.getBody());
    Value k = loop.getInductionVar();
    SmallVector<Value> ofRows, ofColumns, next;
    for (Value row : piece.rows)
      ofRows.push_back(left(in, row, k).value);
    for (Value column : piece.columns)
      ofColumns.push_back(right(in, column, k).value);
    for (size_t n = 0; n < sums.size(); ++n)
      next.push_back(math::FmaOp::create(in, loc, ofRows[n / ofColumns.size()], ofColumns[n % ofColumns.size()],
                                         loop.getRegionIterArgs()[n]));
    scf::YieldOp::create(in, loc, next);
    return llvm::to_vector_of<Value>(loop.getResults());
  }
  SmallVector<Value> zeros(OpBuilder &b, const Piece &piece) const {
    return SmallVector<Value>(piece.rows.size() * piece.columns.size(), number(b, 0).value);
  }
  /// sums = sums factor(row) + left right, over the inner dimension of `count`; `width` columns of `right` are there.
  void accumulate(OpBuilder &b, Rows sums, int64_t rows, int64_t count, FactorFn left, Rows right, int64_t width,
                  llvm::function_ref<ScalarExpr(OpBuilder &, Value row)> factor = nullptr) const {
    forPieces(b, rows, sums.stride, [&](OpBuilder &in, Piece piece) {
      SmallVector<Value> before;
      for (Value row : piece.rows) {
        std::optional<ScalarExpr> scale;
        if (factor)
          scale = factor(in, row);
        for (Value column : piece.columns) {
          ScalarExpr sum = get(in, sums, row, column);
          before.push_back((scale ? sum * *scale : sum).value);
        }
      }
      Piece there = piece;
      if (sums.stride != width)
        for (Value &column : there.columns)
          column = clamp(in, column, width);
      SmallVector<Value> after = products(in, there, count, before, left, [&](OpBuilder &k, Value column, Value at) {
        return get(k, right, at, column);
      });
      for (size_t n = 0; n < after.size(); ++n)
        set(in, ScalarExpr(in, loc, after[n]), sums, piece.rows[n / piece.columns.size()],
            piece.columns[n % piece.columns.size()]);
    });
  }

  /// Stores rows of sums, the first at row `first` of a head that has `count`.
  void storeRows(OpBuilder &b, unsigned result, Value batch, Value head, Value first, int64_t rows, int64_t count,
                 int64_t width, Type type, Rows sums,
                 llvm::function_ref<ScalarExpr(OpBuilder &, Value row, ScalarExpr)> last) const {
    Value elements = index(b, rows * width);
    if (count % rows) {
      Value left = multiply(b, arith::SubIOp::create(b, loc, index(b, count), first), width);
      elements = arith::MinUIOp::create(b, loc, left, elements);
    }
    forNeighbours(b, elements, rows, width, [&](OpBuilder &in, Value row, Value column) {
      ScalarExpr value = last(in, row, get(in, sums, row, column));
      store(in, result, {batch, head, add(in, first, row), column}, emitConvert(in, loc, value.value, type));
    });
  }
  /// Where a tile of `rows` may reach behind the last row.
  void ifBelow(OpBuilder &b, Value at, int64_t rows, int64_t count, llvm::function_ref<void(OpBuilder &)> body) const {
    if (count % rows == 0)
      return body(b);
    auto branch = scf::IfOp::create(b, loc, isBelow(b, at, count), /*withElseRegion=*/false);
    OpBuilder then = branch.getThenBodyBuilder();
    body(then);
  }

  /// The score and whether it is seen, where query and key may lie behind the last ones.
  std::pair<ScalarExpr, ScalarExpr> judge(OpBuilder &b, Value sum, Value batch, Value h, Value i, Value j) const {
    bool wholeQueries = s.Sq % tile.queries == 0, wholeKeys = s.Sk % tile.keys == 0;
    auto [score, sees] = scores.judge(b, ScalarExpr(b, loc, sum), batch, h, wholeQueries ? i : clamp(b, i, s.Sq),
                                      wholeKeys ? j : clamp(b, j, s.Sk));
    auto also = [&](Value condition) { sees = sees.with(arith::AndIOp::create(b, loc, sees.value, condition)); };
    also(scores.isInReach(b, i, j));
    if (!wholeQueries)
      also(isBelow(b, i, s.Sq));
    if (!wholeKeys)
      also(isBelow(b, j, s.Sk));
    return {score, sees};
  }

  /// The keys that some query of a tile may see, and the queries that may see some key of one.
  std::pair<Value, Value> keysOf(OpBuilder &b, Value first) const {
    Value last = clamp(b, add(b, first, tile.queries - 1), s.Sq);
    return {scores.keysOf(b, first).first, scores.keysOf(b, last).second};
  }
  std::pair<Value, Value> queriesOf(OpBuilder &b, Value first) const {
    Value last = clamp(b, add(b, first, tile.keys - 1), s.Sk);
    return {scores.queriesOf(b, first).first, scores.queriesOf(b, last).second};
  }
  int64_t queryTiles() const { return llvm::divideCeil(s.Sq, tile.queries); }
  int64_t keyTiles() const { return llvm::divideCeil(s.Sk, tile.keys); }

  const ScoreEmitter<Op> scores;
  const rt::AttentionShape s;
  const TileRows tile;
  const Location loc;
  StoreFn store;
  double infinity;
};

//===-- attention ------------------------------------------------------------------------------------------------===//

class ForwardTile : public TileEmitter<AttentionOp> {
public:
  ForwardTile(AttentionOp op, OpBuilder &b, Location loc, LoadFn load, StoreFn store)
      : TileEmitter(op, loc, load, store, 3), type(tensorType(op.getOut()).getElementType()),
        queries(share(b, tile.queries, staggered(s.D))),
        staged(emitStackBuffer(b, loc, {tile.keys * std::max(staggered(s.D), s.Dv)}, scores.compute)),
        weights(share(b, tile.queries, staggered(tile.keys))), sums(share(b, tile.queries, alignToPiece(s.Dv))),
        most(share(b, tile.queries, 1)), total(share(b, tile.queries, 1)), keep(share(b, tile.queries, 1)),
        parts(share(b, tile.queries, kParts)) {}

  void emit(OpBuilder &b, Value unit) const {
    SmallVector<Value> at = emitDelinearize(b, loc, unit, {s.B, s.Hq, queryTiles()});
    Value batch = at[0], head = at[1], first = multiply(b, at[2], tile.queries), keyHead = scores.keyHead(b, head);
    forRows(b, tile.queries, [&](OpBuilder &in, Value row) {
      set(in, number(in, -infinity), most, row);
      set(in, number(in, 0), total, row);
    });
    clear(b, sums, tile.queries);
    stage(b, queries, 0, batch, head, first, tile.queries, s.Sq, s.D);
    auto [begin, end] = keysOf(b, first);
    forTiles(b, begin, end, tile.keys, [&](OpBuilder &in, Value key) {
      Rows keys{staged, staggered(s.D)}, values{staged, s.Dv};
      stage(in, keys, 1, batch, keyHead, key, tile.keys, s.Sk, s.D);
      score(in, keys, batch, head, first, key);
      stage(in, values, 2, batch, keyHead, key, tile.keys, s.Sk, s.Dv);
      exponentiate(in);
      drop(in, batch, head, first, key);
      accumulate(
          in, sums, tile.queries, tile.keys,
          [&](OpBuilder &k, Value row, Value column) { return get(k, weights, row, column); }, values, s.Dv,
          [&](OpBuilder &r, Value row) { return get(r, keep, row); });
    });
    storeRows(b, 0, batch, head, first, tile.queries, s.Sq, s.Dv, type, sums,
              [&](OpBuilder &in, Value row, ScalarExpr sum) { return sum / divisor(in, row); });
    forRows(b, tile.queries, [&](OpBuilder &in, Value row) {
      Value query = add(in, first, row);
      ifBelow(in, query, tile.queries, s.Sq, [&](OpBuilder &then) {
        ScalarExpr sum = get(then, total, row);
        ScalarExpr logSum = get(then, most, row) + log(divisor(then, row));
        store(then, 1, {batch, head, query}, select(eq(sum, like(sum, 0)), like(sum, 0), logSum).value);
      });
    });
  }

private:
  /// 1 where a query sees nothing.
  ScalarExpr divisor(OpBuilder &b, Value row) const {
    ScalarExpr sum = get(b, total, row);
    return select(eq(sum, like(sum, 0)), like(sum, 1), sum);
  }

  /// -inf where a key is not seen.
  void score(OpBuilder &b, Rows keys, Value batch, Value head, Value first, Value key) const {
    forPieces(b, tile.queries, tile.keys, [&](OpBuilder &in, Piece piece) {
      SmallVector<Value> dots = products(
          in, piece, s.D, zeros(in, piece), [&](OpBuilder &d, Value row, Value k) { return get(d, queries, row, k); },
          [&](OpBuilder &d, Value column, Value k) { return get(d, keys, column, k); });
      for (size_t n = 0; n < dots.size(); ++n) {
        Value row = piece.rows[n / piece.columns.size()], column = piece.columns[n % piece.columns.size()];
        auto [score, sees] = judge(in, dots[n], batch, head, add(in, first, row), add(in, key, column));
        set(in, select(sees, score, like(score, -infinity)), weights, row, column);
      }
    });
  }

  /// The new maxima, what they leave of earlier sums, and probabilities times the sum of exponentials.
  void exponentiate(OpBuilder &b) const {
    forParts(b, tile.queries, [&](OpBuilder &in, Value row, Value part) {
      auto larger = [&](OpBuilder &j, Value key, ScalarExpr value) {
        return maximum(value, get(j, weights, row, key));
      };
      set(in, overPart(in, part, tile.keys, number(in, -infinity), larger), parts, row, part);
    });
    forRows(b, tile.queries, [&](OpBuilder &in, Value row) {
      ScalarExpr before = get(in, most, row);
      ScalarExpr now = overParts(in, parts, row, [](ScalarExpr x, ScalarExpr y) { return maximum(x, y); });
      now = maximum(before, now);
      // Before the first key that is seen both are -inf.
      set(in, select(eq(now, like(now, -infinity)), like(now, 1), exp(before - now)), keep, row);
      set(in, now, most, row);
    });
    forParts(b, tile.queries, [&](OpBuilder &in, Value row, Value part) {
      ScalarExpr largest = get(in, most, row), hidden = eq(largest, like(largest, -infinity));
      auto addTo = [&](OpBuilder &j, Value key, ScalarExpr sum) {
        ScalarExpr p = exp(get(j, weights, row, key) - mlir::scrimp::in(j, largest));
        p = select(mlir::scrimp::in(j, hidden), like(p, 0), p);
        set(j, p, weights, row, key);
        return sum + p;
      };
      set(in, overPart(in, part, tile.keys, number(in, 0), addTo), parts, row, part);
    });
    forRows(b, tile.queries, [&](OpBuilder &in, Value row) {
      ScalarExpr sum = overParts(in, parts, row, [](ScalarExpr x, ScalarExpr y) { return x + y; });
      set(in, get(in, total, row) * get(in, keep, row) + sum, total, row);
    });
  }

  void drop(OpBuilder &b, Value batch, Value head, Value first, Value key) const {
    if (!scores.drops())
      return;
    forElements(b, tile.queries, tile.keys, [&](OpBuilder &in, Value row, Value column) {
      ScalarExpr kept =
          scores.drop(in, get(in, weights, row, column), batch, head, add(in, first, row), add(in, key, column));
      set(in, kept, weights, row, column);
    });
  }

  Type type;
  Rows queries;
  Value staged; // keys, then values
  Rows weights, sums, most, total, keep, parts;
};

//===-- The gradient ---------------------------------------------------------------------------------------------===//

class GradientTile : public TileEmitter<AttentionGradOp> {
public:
  GradientTile(AttentionGradOp op, OpBuilder &b, Location loc, LoadFn load, StoreFn store)
      : TileEmitter(op, loc, load, store, 6), type(tensorType(op.getDq()).getElementType()),
        scale(op.getScale().convertToDouble()), queries(share(b, tile.queries, staggered(s.D))),
        outGradients(share(b, tile.queries, staggered(s.Dv))), keys(share(b, tile.keys, staggered(s.D))),
        values(share(b, tile.keys, staggered(s.Dv))), weights(share(b, tile.queries, staggered(tile.keys))),
        gradients(share(b, tile.queries, staggered(tile.keys))), logSum(share(b, tile.queries, 1)),
        delta(share(b, tile.queries, 1)), parts(share(b, tile.queries, kParts)) {
    int64_t width = alignToPiece(s.D), valueWidth = alignToPiece(s.Dv);
    sums = emitStackBuffer(b, loc, {std::max(tile.queries * width, tile.keys * (width + valueWidth))}, scores.compute);
  }

  void emit(OpBuilder &b, Value unit) const {
    Value queryUnits = index(b, s.B * s.Hq * queryTiles());
    Value isQuery = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, unit, queryUnits);
    auto branch = scf::IfOp::create(b, loc, isQuery, /*withElseRegion=*/true);
    OpBuilder then = branch.getThenBodyBuilder(), otherwise = branch.getElseBodyBuilder();
    emitQueries(then, unit);
    emitKeys(otherwise, arith::SubIOp::create(otherwise, loc, unit, queryUnits));
  }

private:
  void emitQueries(OpBuilder &b, Value unit) const {
    SmallVector<Value> at = emitDelinearize(b, loc, unit, {s.B, s.Hq, queryTiles()});
    Value batch = at[0], head = at[1], first = multiply(b, at[2], tile.queries), keyHead = scores.keyHead(b, head);
    Rows ofQueries{sums, alignToPiece(s.D)};
    clear(b, ofQueries, tile.queries);
    stageQueries(b, batch, head, first);
    auto [begin, end] = keysOf(b, first);
    forTiles(b, begin, end, tile.keys, [&](OpBuilder &in, Value key) {
      stageKeys(in, batch, keyHead, key);
      differentiate(in, batch, head, first, key, /*keepsWeights=*/false);
      accumulate(
          in, ofQueries, tile.queries, tile.keys,
          [&](OpBuilder &k, Value row, Value column) { return get(k, gradients, row, column); }, keys, s.D);
    });
    storeRows(b, 0, batch, head, first, tile.queries, s.Sq, s.D, type, ofQueries,
              [&](OpBuilder &, Value, ScalarExpr sum) { return sum * scale; });
  }

  void emitKeys(OpBuilder &b, Value unit) const {
    SmallVector<Value> at = emitDelinearize(b, loc, unit, {s.B, s.Hkv, keyTiles()});
    Value batch = at[0], keyHead = at[1], key = multiply(b, at[2], tile.keys);
    Rows ofKeys{sums, alignToPiece(s.D)};
    Rows ofValues{sums, alignToPiece(s.Dv), tile.keys * ofKeys.stride};
    clear(b, ofKeys, tile.keys);
    clear(b, ofValues, tile.keys);
    stageKeys(b, batch, keyHead, key);
    auto [begin, end] = queriesOf(b, key);
    int64_t group = s.Hq / s.Hkv;
    Value from = begin, to = end;
    emitLoop(b, loc, group, [&](OpBuilder &heads, Value member) {
      Value head = add(heads, multiply(heads, keyHead, group), member);
      forTiles(heads, from, to, tile.queries, [&](OpBuilder &in, Value first) {
        stageQueries(in, batch, head, first);
        differentiate(in, batch, head, first, key, /*keepsWeights=*/true);
        accumulate(
            in, ofKeys, tile.keys, tile.queries,
            [&](OpBuilder &k, Value row, Value query) { return get(k, gradients, query, row); }, queries, s.D);
        accumulate(
            in, ofValues, tile.keys, tile.queries,
            [&](OpBuilder &k, Value row, Value query) { return get(k, weights, query, row); }, outGradients, s.Dv);
      });
    });
    storeRows(b, 1, batch, keyHead, key, tile.keys, s.Sk, s.D, type, ofKeys,
              [&](OpBuilder &, Value, ScalarExpr sum) { return sum * scale; });
    storeRows(b, 2, batch, keyHead, key, tile.keys, s.Sk, s.Dv, type, ofValues,
              [&](OpBuilder &, Value, ScalarExpr sum) { return sum; });
  }

  void stageQueries(OpBuilder &b, Value batch, Value head, Value first) const {
    stage(b, queries, 0, batch, head, first, tile.queries, s.Sq, s.D);
    stage(b, outGradients, 5, batch, head, first, tile.queries, s.Sq, s.Dv);
    // The sum of out and its gradient's products.
    forParts(b, tile.queries, [&](OpBuilder &in, Value row, Value part) {
      Value query = clamp(in, add(in, first, row), s.Sq);
      auto addTo = [&](OpBuilder &d, Value at, ScalarExpr sum) {
        return sum + scores.read(d, 3, {batch, head, query, at}) * scores.read(d, 5, {batch, head, query, at});
      };
      set(in, overPart(in, part, s.Dv, number(in, 0), addTo), parts, row, part);
    });
    forRows(b, tile.queries, [&](OpBuilder &in, Value row) {
      set(in, overParts(in, parts, row, [](ScalarExpr x, ScalarExpr y) { return x + y; }), delta, row);
      set(in, scores.read(in, 4, {batch, head, clamp(in, add(in, first, row), s.Sq)}), logSum, row);
    });
  }

  void stageKeys(OpBuilder &b, Value batch, Value keyHead, Value key) const {
    stage(b, keys, 1, batch, keyHead, key, tile.keys, s.Sk, s.D);
    stage(b, values, 2, batch, keyHead, key, tile.keys, s.Sk, s.Dv);
  }

  /// The gradients of a tile of scores, and what multiplies the values.
  void differentiate(OpBuilder &b, Value batch, Value head, Value first, Value key, bool keepsWeights) const {
    auto of = [&](Rows rows) {
      return [this, rows](OpBuilder &k, Value row, Value at) { return get(k, rows, row, at); };
    };
    forPieces(b, tile.queries, tile.keys, [&](OpBuilder &in, Piece piece) {
      SmallVector<Value> dots = products(in, piece, s.D, zeros(in, piece), of(queries), of(keys));
      SmallVector<Value> dps = products(in, piece, s.Dv, zeros(in, piece), of(outGradients), of(values));
      for (size_t n = 0; n < dots.size(); ++n) {
        Value row = piece.rows[n / piece.columns.size()], column = piece.columns[n % piece.columns.size()];
        Value i = add(in, first, row), j = add(in, key, column);
        auto [score, sees] = judge(in, dots[n], batch, head, i, j);
        ScalarExpr p = exp(score - get(in, logSum, row)), dp(in, loc, dps[n]), weight = select(sees, p, like(p, 0));
        p = weight;
        if (scores.drops()) {
          ScalarExpr factor = scores.drop(in, number(in, 1), batch, head, i, j);
          weight = p * factor;
          dp = dp * factor;
        }
        set(in, p * (dp - get(in, delta, row)), gradients, row, column);
        if (keepsWeights)
          set(in, weight, weights, row, column);
      }
    });
  }

  Type type;
  double scale;
  Rows queries, outGradients, keys, values, weights, gradients, logSum, delta, parts;
  Value sums;
};
} // namespace

int64_t mlir::scrimp::countTiles(AttentionOp op) {
  rt::AttentionShape s = attentionShape(op);
  std::optional<TileRows> tile = chooseTile(op);
  return tile ? s.B * s.Hq * llvm::divideCeil(s.Sq, tile->queries) : 0;
}

int64_t mlir::scrimp::countTiles(AttentionGradOp op) {
  rt::AttentionShape s = attentionShape(op);
  std::optional<TileRows> tile = chooseTile(op);
  return tile ? s.B * s.Hq * llvm::divideCeil(s.Sq, tile->queries) + s.B * s.Hkv * llvm::divideCeil(s.Sk, tile->keys)
              : 0;
}

void mlir::scrimp::emitTile(AttentionOp op, OpBuilder &builder, Location loc, Value unit, LoadFn load, StoreFn store) {
  ForwardTile(op, builder, loc, load, store).emit(builder, unit);
}

void mlir::scrimp::emitTile(AttentionGradOp op, OpBuilder &builder, Location loc, Value unit, LoadFn load,
                            StoreFn store) {
  GradientTile(op, builder, loc, load, store).emit(builder, unit);
}
