// First values of tensors.
#include "scrimp/runtime/Weights.h"
#include "scrimp/runtime/Json.h"
#include "scrimp/runtime/Random.h"
#include "scrimp/runtime/TensorFile.h"
#include "scrimp/runtime/TensorPart.h"
#include <algorithm>
#include <optional>
#include <set>

namespace scrimp::runtime {

using namespace program;

Result<uint64_t> openTrailer(const char *path, uint64_t expected, File &file) {
  Result<File> opened = File::open(path);
  if (opened.failed())
    return opened.status();
  file = std::move(*opened);
  char footer[16];
  uint64_t length = 0;
  if (file.bytes() >= sizeof(footer)) {
    if (Status status = file.read(file.bytes() - sizeof(footer), footer, sizeof(footer)); status.failed())
      return status;
    if (memcmp(footer, "SCRIMPW1", 8) == 0)
      memcpy(&length, footer + 8, 8);
  }
  if (length != expected || length > file.bytes() - sizeof(footer))
    return Status::error("the initial weights at the end of the executable are missing or truncated: found %llu bytes, "
                         "expected %llu; copy the executable whole (strip removes them)",
                         (unsigned long long)length, (unsigned long long)expected);
  return file.bytes() - sizeof(footer) - length;
}

static bool isWeight(const Tensor *tensor) {
  return tensor->role() == TensorRole::parameter || tensor->role() == TensorRole::frozen_parameter ||
         tensor->role() == TensorRole::buffer;
}

Status initializeTensors(const Program *program, const char *weightsPath, InitialTensors which, uint64_t seed, int rank,
                         char *arena, ThreadPool &pool) {
  std::optional<File> trailer;
  uint64_t trailerStart = 0;
  for (const Tensor *tensor : items(program->tensors())) {
    if ((which != InitialTensors::all && isWeight(tensor)) ||
        (which == InitialTensors::constants && tensor->role() != TensorRole::constant))
      continue;
    TensorPart part = partOf(tensor, rank);
    char *target = arena + part.offset;
    DType type = tensor->dtype();
    int64_t each = elementBytes(type), end = part.begin + part.count;
    auto bytes = static_cast<uint64_t>(part.count * each);
    auto fill = [&](double value) {
      auto body = [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          storeElement(type, target, i, value);
      };
      pool.parallelFor(part.count, 1 << 16, body);
    };
    // In blocks of four elements of the tensor, of which the first and the last may be another rank's in part.
    int64_t firstBlock = part.begin / 4;
    auto draw = [&](auto block) {
      auto body = [&](int64_t first, int64_t last, int) {
        for (int64_t b = firstBlock + first; b < firstBlock + last; ++b) {
          std::array<float, 4> values = block(static_cast<uint64_t>(b));
          for (int64_t i = std::max(4 * b, part.begin); i < std::min(4 * b + 4, end); ++i)
            storeElement(type, target, i - part.begin, values[static_cast<size_t>(i % 4)]);
        }
      };
      pool.parallelFor(part.count ? (end + 3) / 4 - firstBlock : 0, 1 << 12, body);
    };
    InitialValues values(seed, textOf(tensor->name()));
    switch (tensor->init()) {
    case InitKind::zeros:
      memset(target, 0, bytes);
      break;
    case InitKind::ones:
      fill(1);
      break;
    case InitKind::constant:
      fill(tensor->a());
      break;
    case InitKind::uniform:
      draw([&](uint64_t b) { return values.uniform(b, tensor->a(), tensor->b()); });
      break;
    case InitKind::normal:
      draw([&](uint64_t b) { return values.normal(b, tensor->a(), tensor->b()); });
      break;
    case InitKind::file:
      if (!trailer) {
        Result<uint64_t> start = openTrailer(weightsPath, program->weights_bytes(), trailer.emplace());
        if (start.failed())
          return start.status();
        trailerStart = *start;
      }
      if (Status status = trailer->read(
              trailerStart + tensor->weights_offset() + static_cast<uint64_t>(part.begin * each), target, bytes);
          status.failed())
        return status;
      break;
    }
  }
  return Status::ok();
}

/// The files that `path` stands for: itself, or the shards of an index.
static Result<std::vector<std::string>> shardPaths(const std::string &path) {
  constexpr std::string_view ending = ".index.json";
  if (path.size() < ending.size() || path.compare(path.size() - ending.size(), ending.size(), ending) != 0)
    return std::vector<std::string>{path};
  Result<std::string> text = readText(path, 64 << 20);
  if (text.failed())
    return text.status();
  std::string repeated;
  nlohmann::json index = parseJson(*text, repeated);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return Status::error("'%s' is no safetensors index: it has no weight_map", path.c_str());
  if (!repeated.empty())
    return Status::error("'%s' holds '%s' twice; it is damaged, write it again", path.c_str(), repeated.c_str());
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::set<std::string> shards;
  for (auto &[name, shard] : index["weight_map"].items()) {
    // Shards lie beside the index, never elsewhere.
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      return Status::error("'%s' places tensor '%s' outside its folder", path.c_str(), name.c_str());
    shards.insert(folder + shard.get<std::string>());
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

static std::string firstNames(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > 8 ? text + format(" and %zu more", names.size() - 8) : text;
}

/// Whether two stored tensors are the same to the bit in a range of elements, as far as they have it.
static Result<bool> areEqual(const File &fileA, const StoredTensor &a, const File &fileB, const StoredTensor &b,
                             const ElementRange &range) {
  if (a.type != b.type || a.shape != b.shape)
    return false;
  std::vector<char> left(1 << 16), right(1 << 16);
  int64_t each = fileTypeBytes(a.type), begin = std::min(range.begin, a.elements());
  auto skipped = static_cast<uint64_t>(begin * each);
  auto bytes = static_cast<uint64_t>(std::min(range.count, a.elements() - begin) * each);
  for (uint64_t done = 0; done < bytes; done += left.size()) {
    uint64_t count = std::min<uint64_t>(left.size(), bytes - done);
    if (Status status = fileA.read(a.offset + skipped + done, left.data(), count); status.failed())
      return status;
    if (Status status = fileB.read(b.offset + skipped + done, right.data(), count); status.failed())
      return status;
    if (memcmp(left.data(), right.data(), count))
      return false;
  }
  return true;
}

Status initializeFrom(const Program *program, const std::string &path, const PrefixRename &rename, int rank,
                      char *arena, CarriedTensors &carried) {
  Result<std::vector<std::string>> paths = shardPaths(path);
  if (paths.failed())
    return Status::error("--init-from: %s", paths.status().message().c_str());
  struct Found {
    size_t file;
    StoredTensor tensor;
  };
  std::vector<std::shared_ptr<const File>> files;
  std::map<std::string, Found> stored;
  for (const std::string &shard : *paths) {
    Result<File> file = File::open(shard);
    if (file.failed())
      return Status::error("--init-from: %s", file.status().message().c_str());
    auto tensors = readSafetensorsHeader(*file);
    if (tensors.failed())
      return Status::error("--init-from: %s", tensors.status().message().c_str());
    files.push_back(std::make_shared<const File>(std::move(*file)));
    if (!rename.empty()) {
      std::map<std::string, StoredTensor> renamed;
      for (auto &[name, tensor] : *tensors)
        if (!renamed.emplace(rename.apply(name), tensor).second)
          return Status::error("--init-rename %s gives '%s' to two tensors of '%s'", rename.text().c_str(),
                               rename.apply(name).c_str(), shard.c_str());
      *tensors = std::move(renamed);
    }
    if (Status status = carried.take(files.back(), *tensors); status.failed())
      return Status::error("--init-from: %s", status.message().c_str());
    for (auto &[name, tensor] : *tensors)
      stored[name] = {files.size() - 1, tensor};
  }

  // Everything is matched before anything is read.
  std::vector<std::pair<const Tensor *, std::string>> matches;
  std::vector<std::string> missing, unexpected;
  std::vector<std::vector<std::string>> missingNames;
  std::set<std::string> used;
  for (const Tensor *tensor : items(program->tensors())) {
    if (!isWeight(tensor))
      continue;
    std::vector<std::string> names{tensor->name()->str()};
    for (const flatbuffers::String *alias : items(tensor->aliases()))
      names.push_back(alias->str());
    std::string match;
    for (const std::string &name : names) {
      if (!stored.count(name))
        continue;
      used.insert(name);
      if (match.empty()) {
        match = name;
        continue;
      }
      const Found &first = stored[match], &second = stored[name];
      Result<bool> equal =
          areEqual(*files[first.file], first.tensor, *files[second.file], second.tensor, partOf(tensor, rank));
      if (equal.failed())
        return Status::error("--init-from: %s", equal.status().message().c_str());
      if (!*equal)
        return Status::error("--init-from: '%s' and '%s' are one parameter of the model, but '%s' gives them different "
                             "values; leave one of them out",
                             match.c_str(), name.c_str(), path.c_str());
    }
    if (match.empty()) {
      missing.push_back(names.front());
      missingNames.push_back(names);
    } else
      matches.emplace_back(tensor, match);
  }
  for (auto &[name, found] : stored)
    if (!used.count(name) && !carried.has(name))
      unexpected.push_back(name);
  if (PrefixRename match = findRename(missingNames, unexpected); !match.empty())
    return Status::error(
        "--init-from: '%s' lacks %s, but has %zu of %zu under another prefix; --init-rename %s takes them",
        path.c_str(), firstNames(missing).c_str(), missing.size(), missing.size() + matches.size(),
        match.text().c_str());
  if (!missing.empty())
    return Status::error("--init-from: '%s' lacks %s", path.c_str(), firstNames(missing).c_str());
  if (!unexpected.empty())
    return Status::error("--init-from: '%s' has %s, which the model does not", path.c_str(),
                         firstNames(unexpected).c_str());
  std::vector<char> buffer;
  for (auto &[tensor, name] : matches) {
    Found &found = stored[name];
    if (shapeOf(tensor) != found.tensor.shape || !canConvert(found.tensor.type, tensor->dtype()))
      return Status::error("--init-from: tensor '%s' is %s %s in '%s', the model takes %s %s", name.c_str(),
                           fileTypeName(found.tensor.type), found.tensor.shapeText().c_str(), path.c_str(),
                           dtypeName(tensor->dtype()), shapeText(tensor->shape()).c_str());
    TensorPart part = partOf(tensor, rank);
    if (Status status = readElements(*files[found.file], found.tensor, part.begin, part.count, tensor->dtype(),
                                     arena + part.offset, buffer);
        status.failed())
      return Status::error("--init-from: tensor '%s' of %s", name.c_str(), status.message().c_str());
  }
  return Status::ok();
}

} // namespace scrimp::runtime
