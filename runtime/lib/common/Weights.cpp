// First values of tensors.
#include "scrimp/runtime/Weights.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/Json.h"
#include "scrimp/runtime/Random.h"
#include <algorithm>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

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
                         ArenaRef arena, ThreadPool &pool) {
  std::optional<File> trailer;
  uint64_t trailerStart = 0;
  for (const Tensor *tensor : items(program->tensors())) {
    if ((which != InitialTensors::all && isWeight(tensor)) ||
        (which == InitialTensors::constants && tensor->role() != TensorRole::constant))
      continue;
    TensorPart part = partOf(tensor, rank);
    // Memory of a device is as it was allocated.
    if (tensor->init() == InitKind::zeros && !arena.isHost())
      continue;
    DType type = tensor->dtype();
    int64_t each = elementBytes(type), end = part.begin + part.count;
    auto bytes = static_cast<uint64_t>(part.count * each);
    HostBytes memory(arena, part.offset, part.count * each);
    char *target = memory.data();
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
    if (Status status = memory.store(); status.failed())
      return status;
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

namespace {
/// Where --init-from has a tensor: in which of the sets, and under which name there.
struct Found {
  TensorSet *set;
  std::string name;
  const TensorSet::Entry &entry() const { return set->tensors().at(name); }
};
} // namespace

/// Reads `count` elements from `begin` on, as they are stored.
static Status readStored(const Found &found, int64_t begin, int64_t count, char *target) {
  int64_t each = fileTypeBytes(found.entry().type);
  return found.set->forEachPiece(found.name, begin, count, [&](const TensorSet::Piece &piece) {
    auto bytes = static_cast<uint64_t>(piece.count * each);
    Status status = piece.file.read(piece.stored.offset + static_cast<uint64_t>(piece.first * each), target, bytes);
    target += bytes;
    return status;
  });
}

/// Whether two stored tensors are the same to the bit in a range of elements, as far as they have it.
static Result<bool> areEqual(const Found &a, const Found &b, const ElementRange &range) {
  if (a.entry().type != b.entry().type || a.entry().shape != b.entry().shape)
    return false;
  std::vector<char> left(1 << 16), right(1 << 16);
  int64_t each = fileTypeBytes(a.entry().type), most = static_cast<int64_t>(left.size()) / each;
  int64_t begin = std::min(range.begin, a.entry().elements());
  int64_t end = std::min(begin + range.count, a.entry().elements());
  for (; begin < end; begin += most) {
    int64_t count = std::min(most, end - begin);
    if (Status status = readStored(a, begin, count, left.data()); status.failed())
      return status;
    if (Status status = readStored(b, begin, count, right.data()); status.failed())
      return status;
    if (memcmp(left.data(), right.data(), static_cast<size_t>(count * each)))
      return false;
  }
  return true;
}

/// What --init-from names: a file, the files of an index, a folder with either, or a checkpoint, whose files are
/// checked (each rank its share of them).
static Result<std::vector<TensorSet>> openSets(std::string path, int rank, int ranks) {
  struct stat info;
  std::vector<TensorSet> sets;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    // A link that leads nowhere counts, so that it is told.
    auto has = [&](const char *name) { return lstat((path + "/" + name).c_str(), &info) == 0; };
    bool isCheckpoint = has("state.json") || has("latest");
    if (isCheckpoint || !(has("model.safetensors.index.json") || has("model.safetensors"))) {
      Result<CheckpointOnDisk> checkpoint = openCheckpoint(path);
      if (checkpoint.failed())
        return checkpoint.status();
      if (Status status = checkpoint->checkFiles(rank, ranks, /*states=*/false); status.failed())
        return status;
      Result<TensorSet> set = checkpoint->open(/*optimizerState=*/false);
      if (set.failed())
        return set.status();
      sets.push_back(std::move(*set));
      return sets;
    }
    path += has("model.safetensors.index.json") ? "/model.safetensors.index.json" : "/model.safetensors";
  }
  Result<std::vector<std::string>> paths = shardPaths(path);
  if (paths.failed())
    return paths.status();
  for (const std::string &shard : *paths) {
    Result<TensorSet> set = TensorSet::open({{shard, {}}});
    if (set.failed())
      return set.status();
    sets.push_back(std::move(*set));
  }
  return sets;
}

Status initializeFrom(const Program *program, const std::string &path, const PrefixRename &rename, int rank,
                      ArenaRef arena, CarriedTensors &carried) {
  Result<std::vector<TensorSet>> sets = openSets(path, rank, static_cast<int>(program->world()));
  if (sets.failed())
    return Status::error("--init-from: %s", sets.status().message().c_str());
  std::map<std::string, Found> stored;
  for (TensorSet &set : *sets) {
    std::map<std::string, StoredTensor> whole; // those that may be carried
    std::set<std::string> names;
    for (auto &[name, entry] : set.tensors()) {
      std::string newName = rename.apply(name);
      if (!names.insert(newName).second)
        return Status::error("--init-rename %s gives '%s' to two tensors of '%s'", rename.text().c_str(),
                             newName.c_str(), set.file()->path().c_str());
      stored.insert_or_assign(newName, Found{&set, name});
      if (!entry.sharing.isShared())
        whole.emplace(newName, set.inFile().at(name));
    }
    if (Status status = carried.take(set.file(), whole); status.failed())
      return Status::error("--init-from: %s", status.message().c_str());
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
      Result<bool> equal = areEqual(stored.at(match), stored.at(name), partOf(tensor, rank));
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
    const Found &found = stored.at(name);
    const TensorSet::Entry &entry = found.entry();
    if (shapeOf(tensor) != entry.shape || !canConvert(entry.type, tensor->dtype()))
      return Status::error("--init-from: tensor '%s' is %s %s in '%s', the model takes %s %s", name.c_str(),
                           fileTypeName(entry.type), entry.shapeText().c_str(), path.c_str(),
                           dtypeName(tensor->dtype()), shapeText(tensor->shape()).c_str());
    TensorPart part = partOf(tensor, rank);
    HostBytes memory(arena, part.offset, part.count * elementBytes(tensor->dtype()));
    char *target = memory.data();
    auto read = [&, tensor = tensor](const TensorSet::Piece &piece) {
      Status status = readElements(piece.file, piece.stored, piece.first, piece.count, tensor->dtype(), target, buffer);
      target += piece.count * elementBytes(tensor->dtype());
      return status;
    };
    if (Status status = found.set->forEachPiece(found.name, part.begin, part.count, read); status.failed())
      return Status::error("--init-from: tensor '%s' of %s", name.c_str(), status.message().c_str());
    if (Status status = memory.store(); status.failed())
      return status;
  }
  return Status::ok();
}

} // namespace scrimp::runtime
