// The batch under way, as a graph finds it: filled whole before the graph runs, and read piece by piece while it does.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_BATCH_H
#define SCRIMP_RUNTIME_LIB_COMMON_BATCH_H

#include "scrimp/runtime/Data.h"
#include "scrimp/runtime/Executor.h"
#include <functional>

namespace scrimp::runtime {

/// What the places of this rank's batch hold: samples of the data.
class Batch final : public BatchSource {
public:
  /// `sampleIn` gives the sample in a place of the batch under way. `flag` names the data in messages. `data` and
  /// the arena outlive this.
  Batch(Dataset &data, const char *flag, std::function<int64_t(int64_t place)> sampleIn)
      : data(data), flag(flag), sampleIn(std::move(sampleIn)) {}
  /// Makes `slots` places for batches of the inputs that are whole in the arena.
  Status reserve(ArenaRef arena, int slots);

  /// Fills the inputs that are whole in the arena with the batch of a slot.
  Status fill(int slot = 0);
  void read(const program::Input *input, int64_t first, int64_t count, char *target) override;
  /// The first sample that read() could not give.
  const Status &failure() const { return unread; }

  /// Where a number is that is not finite (with `nanOnly`: NaN) among the samples of an input that has them.
  struct Found {
    int64_t sample;
    double value;
  };
  std::optional<Found> findNonFinite(const program::Input *input, bool nanOnly, int slot = 0);

private:
  HostBytes &bytesOf(const program::Input *input, int slot);

  Dataset &data;
  const char *flag;
  std::vector<std::pair<const program::Input *, HostBytes>> inputs[Device::marks]; // that are whole in the arena
  std::function<int64_t(int64_t place)> sampleIn;
  Status unread;
};

} // namespace scrimp::runtime

#endif
