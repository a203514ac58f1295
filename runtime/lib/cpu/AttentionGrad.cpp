// The gradients of attention. A block of query rows at a time, its probabilities are computed again.
#include "AttentionScores.h"

namespace scrimp::runtime {

namespace {

/// dv = P^T dout; dP = dout v^T; dS = P (dP - rowsum(dout out)) scale; dq = dS k; dk = dS^T q. The work is cut into
/// blocks of query rows, numbered by key-value head, query head and row. The blocks of a key-value head add to its dk
/// and dv in this order, tile by tile of its keys; both cuts are functions of the shape, so it does not matter to the
/// bits who computes which block or tile.
template <typename T> struct Gradient {
  Attention<T> a;
  const AttentionShape &s = a.s;
  const char *out, *dout;
  const T *lse;
  char *dq, *dk, *dv, *workspace;
  int64_t rowBlocks = divideUp(s.Sq, a.rows), blocksPerKeyHead = a.group() * rowBlocks, keyTile = attentionKeyTile(s),
          keyTiles = divideUp(s.Sk, keyTile);
  using Slot = typename Attention<T>::Slot;

  explicit Gradient(const LibraryArguments &arguments) : a(arguments, 6) {
    out = arguments.buffers[3], lse = reinterpret_cast<const T *>(arguments.buffers[4]), dout = arguments.buffers[5];
    dq = a.results[0], dk = a.results[1], dv = a.results[2], workspace = a.results[3];
  }
  /// Of a mask's gradient: dmask and the workspace are all.
  struct OfMask {};
  Gradient(const LibraryArguments &arguments, OfMask) : a(arguments, 6) {
    out = arguments.buffers[3], lse = reinterpret_cast<const T *>(arguments.buffers[4]), dout = arguments.buffers[5];
    dq = dk = dv = nullptr, workspace = a.results[1];
  }

  struct Block {
    int64_t b, h, i, count;
    Keys keys;
    int64_t stride;
    int64_t row; // of all B x Hq x Sq
  };
  Block block(int64_t index) const {
    int64_t keyHead = index / blocksPerKeyHead, within = index % blocksPerKeyHead;
    int64_t b = keyHead / s.Hkv, h = keyHead % s.Hkv * a.group() + within / rowBlocks, i = within % rowBlocks * a.rows;
    int64_t count = smallerOf(a.rows, s.Sq - i);
    Keys keys = a.keysOf(i, count);
    return {b, h, i, count, keys, largerOf(keys.count, 1), (b * s.Hq + h) * s.Sq + i};
  }

  /// Fills the slot's scores with probabilities, and their gradients.
  void differentiateScores(int64_t index, const Slot &slot) const {
    Block block = this->block(index);
    int64_t key = index / blocksPerKeyHead * s.Sk + block.keys.first, width = block.keys.count;
    a.scores(block.b, block.h, block.i, block.count, block.keys, slot);
    a.multiply(block.count, width, s.Dv, T(1), a.stored(dout, block.row, s.Dv), a.stored(a.v, key, s.Dv, true), false,
               slot.gradients, block.stride, slot.panels);
    for (int64_t r = 0; r < block.count; ++r) {
      T delta = a.dotRows(dout, out, block.row + r, s.Dv);
      a.differentiateRow(block.b, block.h, block.i + r, block.keys, lse[block.row + r], delta, slot.scores + r * width,
                         slot.gradients + r * width);
    }
  }

  /// Fills the slot, and the block's rows of dq.
  void differentiate(int64_t index, const Slot &slot) const {
    differentiateScores(index, slot);
    Block block = this->block(index);
    int64_t key = index / blocksPerKeyHead * s.Sk + block.keys.first;
    a.multiplyInto(dq, block.row, block.count, s.D, block.keys.count, a.scale, a.summed(slot.gradients, block.stride),
                   a.stored(a.k, key, s.D), slot);
  }

  /// Where dk and dv of a key-value head are summed: in place, or in the slot of a worker that has no other head at the
  /// time.
  struct KeySums {
    T *dk, *dv;
  };
  KeySums keySums(int64_t keyHead, int64_t worker) const {
    if (!a.narrow)
      return {reinterpret_cast<T *>(dk) + keyHead * s.Sk * s.D, reinterpret_cast<T *>(dv) + keyHead * s.Sk * s.Dv};
    T *sums = a.slotOf(workspace, worker).keySums;
    return {sums, sums + s.Sk * s.D};
  }

  /// Adds the part of a block that `differentiate` left in the slot to one tile of dk and dv. The first block finds
  /// zeros, the last one leaves the result.
  void addToKeys(int64_t index, const Slot &slot, int64_t tile, const KeySums &sums, char *panels) const {
    int64_t keyHead = index / blocksPerKeyHead, within = index % blocksPerKeyHead;
    int64_t first = tile * keyTile, rows = smallerOf(keyTile, s.Sk - first);
    if (within == 0) {
      memset(sums.dk + first * s.D, 0, rows * s.D * sizeof(T));
      memset(sums.dv + first * s.Dv, 0, rows * s.Dv * sizeof(T));
    }
    Block block = this->block(index);
    int64_t j = largerOf(first, block.keys.first),
            count = smallerOf(first + rows, block.keys.first + block.keys.count) - j;
    if (count > 0) {
      int64_t column = j - block.keys.first;
      a.multiply(count, s.D, block.count, a.scale, a.summed(slot.gradients + column, block.stride, true),
                 a.stored(a.q, block.row, s.D), true, sums.dk + j * s.D, s.D, panels);
      a.multiply(count, s.Dv, block.count, T(1), a.summed(slot.scores + column, block.stride, true),
                 a.stored(dout, block.row, s.Dv), true, sums.dv + j * s.Dv, s.Dv, panels);
    }
    if (a.narrow && within + 1 == blocksPerKeyHead) {
      int64_t key = keyHead * s.Sk + first;
      a.storeNarrow(sums.dk + first * s.D, dk, key * s.D, rows * s.D);
      a.storeNarrow(sums.dv + first * s.Dv, dv, key * s.Dv, rows * s.Dv);
    }
  }

  /// Each key-value head by one thread.
  void runByKeyHead(ThreadPool &pool) const {
    auto body = [&](int64_t begin, int64_t end, int worker) {
      Slot slot = a.slotOf(workspace, worker);
      for (int64_t keyHead = begin; keyHead < end; ++keyHead)
        for (int64_t index = keyHead * blocksPerKeyHead; index < (keyHead + 1) * blocksPerKeyHead; ++index) {
          differentiate(index, slot);
          for (int64_t tile = 0; tile < keyTiles; ++tile)
            addToKeys(index, slot, tile, keySums(keyHead, worker), slot.panels);
        }
    };
    pool.parallelFor(s.B * s.Hkv, 1, body);
  }

  /// dmask of the mask numbered `index`. A part of it that samples and heads have for themselves is summed by one
  /// thread, block by block and row by row.
  void runForMask(int64_t index, ThreadPool &pool) const {
    const AttentionMask &mask = a.masks[index];
    T *dmask = reinterpret_cast<T *>(a.results[0]);
    bool bySample = mask.strides[0] != 0, byHead = mask.strides[1] != 0;
    int64_t samples = bySample ? s.B : 1, heads = byHead ? s.Hq : 1;
    memset(dmask, 0, static_cast<size_t>(maskBounds(s, mask).end) * sizeof(T));
    auto body = [&](int64_t begin, int64_t end, int worker) {
      Slot slot = a.slotOf(workspace, worker);
      for (int64_t unit = begin; unit < end; ++unit)
        for (int64_t index = 0; index < s.B * s.Hkv * blocksPerKeyHead; ++index) {
          Block block = this->block(index);
          if ((bySample && block.b != unit / heads) || (byHead && block.h != unit % heads))
            continue;
          differentiateScores(index, slot);
          for (int64_t r = 0; r < block.count; ++r) {
            T *row = dmask + a.maskAt(mask, block.b, block.h, block.i + r, block.keys.first);
            for (int64_t j = 0; j < block.keys.count; ++j)
              row[j * mask.strides[3]] += slot.gradients[r * block.keys.count + j];
          }
        }
    };
    pool.parallelFor(samples * heads, 1, body);
  }

  /// As many blocks at a time as there are threads, then the tiles of the keys that they add to.
  void runByBlock(ThreadPool &pool) const {
    int64_t blocks = s.B * s.Hkv * blocksPerKeyHead, threads = pool.threads();
    for (int64_t first = 0; first < blocks; first += threads) {
      int64_t last = smallerOf(first + threads, blocks), firstHead = first / blocksPerKeyHead,
              heads = (last - 1) / blocksPerKeyHead - firstHead + 1;
      auto compute = [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          differentiate(first + i, a.slotOf(workspace, i));
      };
      pool.parallelFor(last - first, 1, compute);
      // Panels are those of the thread at work, sums those of the head: at most as many heads are begun as there are
      // threads.
      auto add = [&](int64_t begin, int64_t end, int worker) {
        for (int64_t unit = begin; unit < end; ++unit) {
          int64_t keyHead = firstHead + unit / keyTiles;
          for (int64_t index = first; index < last; ++index)
            if (index / blocksPerKeyHead == keyHead)
              addToKeys(index, a.slotOf(workspace, index - first), unit % keyTiles, keySums(keyHead, keyHead % threads),
                        a.slotOf(workspace, worker).panels);
        }
      };
      pool.parallelFor(heads * keyTiles, 1, add);
    }
  }

  /// By key-value heads unless that leaves more than an eighth of the threads' time idle.
  void run(ThreadPool &pool) const {
    int64_t keyHeads = s.B * s.Hkv, threads = pool.threads();
    if (8 * keyHeads >= 7 * threads * divideUp(keyHeads, threads))
      runByKeyHead(pool);
    else
      runByBlock(pool);
  }
};

} // namespace

void runAttentionGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  if (arguments.dtype == DType::f32)
    Gradient<float>(arguments).run(pool);
  else
    Gradient<double>(arguments).run(pool);
}

void runAttentionMaskGrad(const LibraryArguments &arguments, ThreadPool &pool) {
  if (arguments.dtype == DType::f32)
    Gradient<float>(arguments, Gradient<float>::OfMask{}).runForMask(arguments.ints.back(), pool);
  else
    Gradient<double>(arguments, Gradient<double>::OfMask{}).runForMask(arguments.ints.back(), pool);
}

} // namespace scrimp::runtime
