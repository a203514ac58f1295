// What the ranks of a run decide together: all go on, stop or fail alike. With one rank nothing is said to anybody.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_RANKS_H
#define SCRIMP_RUNTIME_LIB_COMMON_RANKS_H

#include "scrimp/runtime/Communicator.h"

namespace scrimp::runtime {

/// The samples of a batch that one rank has: `count` from `begin` on. The first ranks have one more where the ranks do
/// not divide the batch.
struct Share {
  int64_t begin = 0, count = 0;

  static Share of(int64_t batch, int rank, int ranks) {
    int64_t each = batch / ranks, more = batch % ranks;
    return {rank * each + (rank < more ? rank : more), each + (rank < more)};
  }
};

/// Something that must be the same on all ranks.
struct Fact {
  enum class Kind { integer, real, hash, flag };
  std::string what; // "the number of training samples"
  int64_t value;    // real: the bits of a double
  Kind kind = Kind::integer;

  static Fact real(std::string what, double value);
  std::string textOf(int64_t value) const;
};

class Ranks {
public:
  /// The communicator outlives this.
  explicit Ranks(Communicator &communicator);

  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
  /// The rank that speaks for all.
  bool isFirst() const { return rank() == 0; }

  /// Success where it is one on all ranks. Else all get one failure: of those that know most (`weight`, 0 to 2) that of
  /// the lowest rank, which it names unless all failed alike.
  Status agree(const Status &mine, int weight = 0);
  /// Also whether to stop: the largest of the signals that ranks have met, 0 for none.
  Result<int> agreeOnSignal(const Status &mine, int weight, int signal);
  /// Fails where ranks differ in one of the facts, naming ranks and values; `advice` ends the message.
  Status requireEqual(const std::vector<Fact> &facts, const std::string &advice);
  /// The sum over the ranks, in their order.
  Result<double> sum(double mine);
  /// Collects `bytes` of every rank, in their order, in `all`.
  Status gather(const void *mine, void *all, int64_t bytes) { return communicator.gather(mine, all, bytes); }
  /// The largest.
  Result<int64_t> largest(int64_t mine);

  /// Whether the last failure is known to all ranks, so that one may tell it.
  bool failedTogether() const { return isTogether; }
  /// What follows only this rank knows.
  void failAlone() { isTogether = false; }

private:
  Status share(Status mine, int64_t from, bool namesRank);

  Communicator &communicator;
  std::vector<int64_t> codes; // of all ranks, made once
  std::vector<double> values;
  bool isTogether = false;
};

} // namespace scrimp::runtime

#endif
