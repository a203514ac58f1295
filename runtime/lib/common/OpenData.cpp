// Which file feeds which input: parsing --data and checking files against the program's inputs.
#include "Tokens.h"
#include "scrimp/runtime/Data.h"
#include <algorithm>

namespace scrimp::runtime {

using program::Input;

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Result<std::vector<DataSpec>> parseDataSpec(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Status::error("found '%s', expected name=file", text.c_str());
  std::string names = text.substr(0, equals), path = text.substr(equals + 1);
  int64_t shift = 0;
  if (size_t colon = path.rfind(":+"); colon != std::string::npos && colon > 0) {
    std::string digits = path.substr(colon + 2);
    if (!digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos) {
      shift = std::stoll(digits);
      path.resize(colon);
    }
  }
  std::vector<DataSpec> specs;
  for (size_t begin = 0; begin <= names.size();) {
    size_t comma = std::min(names.find(',', begin), names.size());
    // a,b=file: b holds the tokens that follow a's.
    specs.push_back({names.substr(begin, comma - begin), path, shift + static_cast<int64_t>(specs.size())});
    begin = comma + 1;
  }
  if (specs.size() > 1 && !endsWith(path, ".bin"))
    return Status::error("found '%s', expected one input for a file that is no token .bin", text.c_str());
  return specs;
}

/// Inputs and their shapes, for messages.
static std::string describe(const Input *input) {
  return format("'%s' (%s %s)", input->name()->c_str(), dtypeName(input->dtype()), shapeText(input->shape()).c_str());
}

Status Dataset::openSource(const Input *input, const DataSpec &spec, int tokenBytes, const char *flag) {
  Result<File> file = File::open(spec.path);
  if (file.failed())
    return Status::error("%s %s: %s", flag, spec.input.c_str(), file.status().message().c_str());
  Source source{input, std::move(*file), {}, spec.path};
  // The shape of one sample, and its place in the input: `outer` runs before the batch dimension.
  std::vector<int64_t> sampleShape;
  int dim = input->batch_dim();
  for (int d = 0, rank = static_cast<int>(items(input->shape()).size()); d < rank; ++d) {
    int64_t extent = input->shape()->Get(d);
    if (d == dim)
      extent /= batch;
    (d < dim ? source.outer : source.inner) *= extent;
    if (d != dim || extent != 1)
      sampleShape.push_back(extent);
  }
  source.stride = source.inner * batch;
  int64_t perSample = source.outer * source.inner;

  bool isTokens = endsWith(spec.path, ".bin");
  if (isTokens) {
    if (isFloat(input->dtype()) && input->valid_begin() == input->valid_end())
      return Status::error("%s: '%s' holds tokens, but input %s is not an index", flag, spec.path.c_str(),
                           describe(input).c_str());
    Result<StoredTensor> opened = openTokens(source.file, spec.path, input, tokenBytes, flag);
    if (opened.failed())
      return opened.status();
    source.tensor = std::move(*opened);
    int64_t tokens = source.tensor.elements();
    source.windows = true;
    source.shift = spec.tokenShift;
    int64_t ahead = std::max<int64_t>(spec.tokenShift, 1);
    source.samples = perSample > 0 && tokens > ahead ? (tokens - ahead) / perSample : 0;
    if (dim < 0 && tokens < perSample + spec.tokenShift)
      source.samples = 0;
    if (source.samples < 1)
      return Status::error("%s: '%s' has %lld tokens, a sample of input %s needs %lld", flag, spec.path.c_str(),
                           (long long)tokens, describe(input).c_str(), (long long)(perSample + ahead));
    sources.push_back(std::move(source));
    return Status::ok();
  }

  if (spec.tokenShift)
    return Status::error("%s: '%s:+%lld' shifts tokens, but the file is no .bin", flag, spec.path.c_str(),
                         (long long)spec.tokenShift);
  if (endsWith(spec.path, ".npy")) {
    Result<StoredTensor> tensor = readNpyHeader(source.file);
    if (tensor.failed())
      return Status::error("%s: %s", flag, tensor.status().message().c_str());
    source.tensor = std::move(*tensor);
  } else if (endsWith(spec.path, ".safetensors")) {
    auto tensors = readSafetensorsHeader(source.file);
    if (tensors.failed())
      return Status::error("%s: %s", flag, tensors.status().message().c_str());
    auto found = tensors->find(spec.input);
    if (found == tensors->end() && tensors->size() == 1)
      found = tensors->begin();
    if (found == tensors->end())
      return Status::error("%s: '%s' holds %zu tensors, none of them named '%s'", flag, spec.path.c_str(),
                           tensors->size(), spec.input.c_str());
    source.tensor = found->second;
  } else
    return Status::error("%s: '%s' is of no known kind, expected .npy, .safetensors or .bin", flag, spec.path.c_str());

  if (!canConvert(source.tensor.type, input->dtype()))
    return Status::error("%s: '%s' holds %s, which does not convert to input %s", flag, spec.path.c_str(),
                         fileTypeName(source.tensor.type), describe(input).c_str());
  std::vector<int64_t> expected = sampleShape, found = source.tensor.shape;
  if (dim >= 0) {
    source.samples = found.empty() ? 0 : found.front();
    if (!found.empty())
      expected.insert(expected.begin(), found.front());
    else
      expected.insert(expected.begin(), 1);
  }
  if (expected != found) {
    std::string shape = dim >= 0 ? "[samples" : "[";
    for (int64_t extent : sampleShape)
      shape += (shape.size() > 1 ? ", " : "") + std::to_string(extent);
    return Status::error("%s: '%s' has shape %s, input %s takes %s]", flag, spec.path.c_str(),
                         source.tensor.shapeText().c_str(), describe(input).c_str(), shape.c_str());
  }
  if (dim >= 0 && source.samples == 0)
    return Status::error("%s: '%s' holds no samples", flag, spec.path.c_str());
  sources.push_back(std::move(source));
  return Status::ok();
}

Result<Dataset> Dataset::open(const program::Program *program, const std::vector<DataSpec> &specs, int tokenBytes,
                              const char *flag, const Dataset *fallback) {
  Dataset data;
  data.batch = placesPerRank(program);
  // Allocated now, so that no step does.
  data.buffer.resize(ioBufferBytes);
  for (size_t i = 0; i < specs.size(); ++i) {
    std::string known;
    bool isInput = false;
    for (const Input *input : items(program->inputs())) {
      known += (known.empty() ? "" : ", ") + std::string(textOf(input->name()));
      isInput |= textOf(input->name()) == specs[i].input;
    }
    for (const flatbuffers::String *unused : items(program->unused_inputs()))
      isInput |= textOf(unused) == specs[i].input;
    if (!isInput)
      return Status::error("%s %s: the model has no such input, its inputs are %s", flag, specs[i].input.c_str(),
                           known.empty() ? "none" : known.c_str());
    for (size_t j = 0; j < i; ++j)
      if (specs[j].input == specs[i].input)
        return Status::error("%s %s is given twice", flag, specs[i].input.c_str());
  }
  for (const Input *input : items(program->inputs())) {
    auto spec = std::find_if(specs.begin(), specs.end(),
                             [&](const DataSpec &candidate) { return candidate.input == textOf(input->name()); });
    data.anyBatched |= input->batch_dim() >= 0;
    if (spec == specs.end() && fallback && input->batch_dim() < 0)
      continue;
    if (spec == specs.end())
      return Status::error("input %s has no data; give %s %s=FILE", describe(input).c_str(), flag,
                           input->name()->c_str());
    if (Status status = data.openSource(input, *spec, tokenBytes, flag); status.failed())
      return status;
    const Source &source = data.sources.back();
    if (input->batch_dim() < 0)
      continue;
    if (data.sampleCount && source.samples != data.sampleCount) {
      const Source *other = &data.sources.front();
      for (const Source &candidate : data.sources)
        if (candidate.samples == data.sampleCount && candidate.input->batch_dim() >= 0)
          other = &candidate;
      return Status::error("%s: '%s' holds %lld samples, but '%s' holds %lld", flag, source.path.c_str(),
                           (long long)source.samples, other->path.c_str(), (long long)data.sampleCount);
    }
    data.sampleCount = source.samples;
  }
  return data;
}

} // namespace scrimp::runtime
