// Filling the inputs of a batch, and the order of samples.
#include "scrimp/runtime/Data.h"
#include <algorithm>
#include <cstring>

namespace scrimp::runtime {

using program::Input;

int64_t SampleOrder::operator()(int64_t position) const {
  if (!shuffle)
    return position % samples;
  Permutation permutation(static_cast<uint64_t>(samples), seed, static_cast<uint64_t>(position / samples));
  return static_cast<int64_t>(permutation(static_cast<uint64_t>(position % samples)));
}

Status Dataset::fillFixed(ArenaRef arena) {
  for (Source &source : sources) {
    if (source.input->batch_dim() >= 0)
      continue;
    HostBytes target(arena, source.input->offset(), byteCount(source.input));
    int64_t count = elementCount(source.input->shape());
    if (Status status =
            readElements(source.file, source.tensor, source.shift, count, source.input->dtype(), target.data(), buffer);
        status.failed())
      return status;
    if (Status status = checkValues(source, target.data(), count, -1); status.failed())
      return status;
    if (Status status = target.store(); status.failed())
      return status;
  }
  return Status::ok();
}

/// Run number `run` of a sample.
Status Dataset::readRun(Source &source, int64_t run, char *target, int64_t sample) {
  int64_t first = (sample * source.outer + run) * source.inner + source.shift;
  if (Status status =
          readElements(source.file, source.tensor, first, source.inner, source.input->dtype(), target, buffer);
      status.failed())
    return status;
  return checkValues(source, target, source.inner, sample);
}

std::vector<const Input *> Dataset::wholeInputs() const {
  std::vector<const Input *> inputs;
  for (const Source &source : sources)
    if (isWhole(source.input))
      inputs.push_back(source.input);
  return inputs;
}

Status Dataset::fillSample(const InputMemory &memory, int64_t slot, int64_t sample) {
  for (Source &source : sources) {
    if (!isWhole(source.input))
      continue;
    int64_t each = elementBytes(source.input->dtype());
    for (int64_t o = 0; o < source.outer; ++o) {
      char *target = memory(source.input) + (o * source.stride + slot * source.inner) * each;
      if (Status status = readRun(source, o, target, sample); status.failed())
        return status;
    }
  }
  return Status::ok();
}

Status Dataset::readSample(const Input *input, char *target, int64_t sample) {
  for (Source &source : sources)
    if (source.input == input)
      return readRun(source, /*run=*/0, target, sample); // samples of a streamed input are one run
  return Status::error("input '%s' has no data", input->name()->c_str());
}

int64_t Dataset::sampleBytes(const Input *input) const {
  return elementCount(input->shape()) / batch * elementBytes(input->dtype());
}

void Dataset::writeValid(const Input *input, char *target) const {
  int64_t bytes = sampleBytes(input);
  memset(target, 0, static_cast<size_t>(bytes));
  if (input->valid_begin() <= 0 && 0 < input->valid_end())
    return;
  for (int64_t i = 0; i < bytes / elementBytes(input->dtype()); ++i)
    storeElement(input->dtype(), target, i, static_cast<double>(input->valid_begin()));
}

static int64_t loadInteger(DType type, const char *data, int64_t index) {
  int64_t wide;
  if (type != DType::i64)
    return static_cast<int64_t>(loadElement(type, data, index));
  memcpy(&wide, data + index * 8, 8);
  return wide;
}

Status Dataset::checkValues(const Source &source, const char *data, int64_t count, int64_t sample) const {
  const Input *input = source.input;
  if (input->valid_begin() == input->valid_end() || isFloat(input->dtype()))
    return Status::ok();
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = loadInteger(input->dtype(), data, i);
    if (value >= input->valid_begin() && value < input->valid_end())
      continue;
    if (input->has_ignore() && value == input->ignore())
      continue;
    std::string where = sample < 0 ? "" : format(", sample %lld", (long long)sample);
    std::string ignore = input->has_ignore() ? format(" (or %lld, ignored)", (long long)input->ignore()) : "";
    return Status::error("input '%s'%s: value %lld in '%s' is outside %lld to %lld%s", input->name()->c_str(),
                         where.c_str(), (long long)value, source.path.c_str(), (long long)input->valid_begin(),
                         (long long)input->valid_end() - 1, ignore.c_str());
  }
  return Status::ok();
}

std::string Dataset::pathOf(const Input *input) const {
  for (const Source &source : sources)
    if (source.input == input)
      return source.path;
  return "";
}

} // namespace scrimp::runtime
