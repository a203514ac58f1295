#include "Batch.h"
#include "scrimp/runtime/NonFinite.h"

namespace scrimp::runtime {

using program::Input;

Status Batch::fill(char *arena) {
  for (int64_t place = 0; data.hasBatchedInputs() && place < data.places(); ++place)
    if (Status status = data.fillSample(arena, place, sampleIn(place)); status.failed())
      return Status::error("%s: %s", flag, status.message().c_str());
  return Status::ok();
}

void Batch::read(const Input *input, int64_t first, int64_t count, char *target) {
  int64_t bytes = data.sampleBytes(input);
  for (int64_t place = first; place < first + count; ++place, target += bytes) {
    Status status = data.readSample(input, target, sampleIn(place));
    if (!status.failed())
      continue;
    data.writeValid(input, target);
    if (!unread.failed())
      unread = Status::error("%s: %s", flag, status.message().c_str());
  }
}

std::optional<Batch::Found> Batch::findNonFinite(const Input *input, const char *arena, bool nanOnly) {
  if (!isFloat(input->dtype()))
    return std::nullopt;
  if (!input->streamed()) {
    const char *values = arena + input->offset();
    int64_t at = scrimp::runtime::findNonFinite(input->dtype(), values, elementCount(input->shape()), nanOnly);
    if (at < 0)
      return std::nullopt;
    int64_t each = input->shape()->Get(static_cast<flatbuffers::uoffset_t>(input->batch_dim())) / data.places();
    for (auto d = static_cast<size_t>(input->batch_dim()) + 1; d < items(input->shape()).size(); ++d)
      each *= input->shape()->Get(static_cast<flatbuffers::uoffset_t>(d));
    return Found{sampleIn(at / each % data.places()), loadElement(input->dtype(), values, at)};
  }
  // It is no longer there.
  int64_t bytes = data.sampleBytes(input);
  std::vector<char> sample(static_cast<size_t>(bytes));
  for (int64_t place = 0; place < data.places(); ++place) {
    if (data.readSample(input, sample.data(), sampleIn(place)).failed())
      continue;
    int64_t at =
        scrimp::runtime::findNonFinite(input->dtype(), sample.data(), bytes / elementBytes(input->dtype()), nanOnly);
    if (at >= 0)
      return Found{sampleIn(place), loadElement(input->dtype(), sample.data(), at)};
  }
  return std::nullopt;
}

} // namespace scrimp::runtime
