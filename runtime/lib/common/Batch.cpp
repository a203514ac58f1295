#include "Batch.h"
#include "scrimp/runtime/NonFinite.h"
#include <algorithm>

namespace scrimp::runtime {

using program::Input;

Status Batch::reserve(ArenaRef arena, int slots) {
  for (int slot = 0; slot < slots; ++slot)
    for (const Input *input : data.wholeInputs()) {
      Result<HostBytes> bytes = HostBytes::lasting(arena, input->offset(), byteCount(input));
      if (bytes.failed())
        return bytes.status();
      inputs[slot].emplace_back(input, std::move(*bytes));
    }
  return Status::ok();
}

HostBytes &Batch::bytesOf(const Input *input, int slot) {
  auto &all = inputs[slot];
  return std::find_if(all.begin(), all.end(), [&](auto &each) { return each.first == input; })->second;
}

Status Batch::fill(int slot) {
  auto memory = [&](const Input *input) { return bytesOf(input, slot).data(); };
  for (int64_t place = 0; data.hasBatchedInputs() && place < data.places(); ++place)
    if (Status status = data.fillSample(memory, place, sampleIn(place)); status.failed())
      return Status::error("%s: %s", flag, status.message().c_str());
  for (auto &[input, bytes] : inputs[slot])
    if (Status status = bytes.store(); status.failed())
      return status;
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

std::optional<Batch::Found> Batch::findNonFinite(const Input *input, bool nanOnly, int slot) {
  if (!isFloat(input->dtype()))
    return std::nullopt;
  if (!input->streamed()) {
    const char *values = bytesOf(input, slot).data();
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
