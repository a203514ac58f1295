// Writing checkpoints.
#include "Ranks.h"
#include "StoredTensors.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/File.h"
#include "scrimp/runtime/SafetensorsWriter.h"
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace scrimp::runtime {

namespace fs = std::filesystem;
using nlohmann::json;

/// Writes what `rank` has of one of the files: of a tensor that is shared out its part, of others, where it is the
/// first, the whole. `carried`, if any, comes after them.
static Result<FileDigest> writeTensors(const std::string &path, const std::vector<NamedTensor> &tensors, int rank,
                                       ArenaRef arena, const CarriedTensors *carried) {
  SafetensorsWriter file;
  std::vector<std::pair<uint64_t, int64_t>> spans;
  for (const NamedTensor &named : tensors) {
    const program::Tensor *tensor = named.tensor;
    TensorPart part = partOf(tensor, rank);
    bool isShared = tensor->part_elements() > 0;
    if (isShared ? part.count == 0 : rank != 0)
      continue;
    file.add(named.name, fileTypeOf(tensor->dtype()), isShared ? std::vector{part.count} : shapeOf(tensor));
    spans.emplace_back(part.offset, part.count * elementBytes(tensor->dtype()));
  }
  static const std::map<std::string, CarriedTensors::Place> none;
  const auto &places = carried ? carried->byName() : none;
  for (const auto &[name, place] : places)
    file.add(name, place.tensor.type, place.tensor.shape);
  if (Status status = file.create(path); status.failed())
    return status;
  for (auto [offset, bytes] : spans) {
    HostBytes memory(arena, offset, bytes);
    if (Status status = memory.load(); status.failed())
      return status;
    if (Status status = file.write(memory.data(), static_cast<uint64_t>(bytes)); status.failed())
      return status;
  }
  std::vector<char> buffer(places.empty() ? 0 : ioBufferBytes);
  for (const auto &[name, place] : places) {
    auto bytes = static_cast<uint64_t>(place.tensor.elements() * fileTypeBytes(place.tensor.type));
    for (uint64_t done = 0; done < bytes; done += buffer.size()) {
      uint64_t part = std::min<uint64_t>(buffer.size(), bytes - done);
      if (Status status = place.file->read(place.tensor.offset + done, buffer.data(), part); status.failed())
        return status;
      if (Status status = file.write(buffer.data(), part); status.failed())
        return status;
    }
  }
  return file.finish();
}

/// Numbers as text: JSON has no infinity, and %.17g brings every double back.
static std::string numberText(double value) { return format("%.17g", value); }

static json describeState(const program::Program *program, const RunState &state) {
  json values = json::object();
  for (const HyperparameterInfo &info : hyperparameterTable)
    for (const program::Hyperparameter *parameter : items(program->hyperparameters()))
      if (textOf(parameter->name()) == info.name)
        values[info.name] = numberText(state.values.*info.value);
  json scale = json::object(); // of a program that has none: empty
  if (state.lossScale.scale)
    scale = {{"scale", numberText(state.lossScale.scale)},
             {"updates", state.lossScale.updates},
             {"skipped_steps", state.lossScale.skippedSteps}};
  return {{"format", wholeFormat},
          {"model", textOf(program->model())},
          {"optimizer", textOf(program->optimizer())},
          {"fingerprint", hashText(program->fingerprint())},
          {"step", state.step},
          {"updates", state.updates},
          {"position", state.position},
          {"epoch", state.samples ? state.position / state.samples : 0},
          {"seed", state.seed},
          {"samples", state.samples},
          {"total_steps", state.total},
          {"shuffle", state.shuffle},
          {"schedule", static_cast<int>(state.schedule.kind)},
          {"warmup", state.schedule.warmup},
          {"lr_min", numberText(state.schedule.lrMin)},
          {"loss_scale", scale},
          {"hyperparameters", values}};
}

static Status writeText(const std::string &path, const std::string &text) {
  Result<File> file = File::create(path);
  if (file.failed())
    return file.status();
  if (Status status = file->write(text.data(), text.size()); status.failed())
    return status;
  return file->sync();
}

static constexpr bool kinds[] = {false, true}; // parameters, states

/// What tells readers where the elements of tensors are that are shared out.
static json describeSharing(const std::vector<NamedTensor> &tensors) {
  json table = json::object();
  for (const NamedTensor &named : tensors)
    if (Sharing sharing = sharingOf(named.tensor); sharing.isShared())
      table[named.name] = {{"dtype", safetensorsName(fileTypeOf(named.tensor->dtype()))},
                           {"shape", shapeOf(named.tensor)},
                           {"part_elements", sharing.partElements},
                           {"bucket_offset", sharing.bucketOffset}};
  return table;
}

namespace {

/// One save, as one of the ranks sees it.
class Saving {
public:
  Saving(const program::Program *program, const RunState &state, const std::string &folder, Ranks &ranks)
      : program(program), state(state), folder(folder), ranks(ranks) {
    for (bool kind : kinds) {
      tensors[kind] = storedTensors(program, kind);
      files[kind] = storedFiles(kind, partsOf(program, tensors[kind]));
    }
  }

  /// Writes the files that are this rank's; afterwards the first rank knows those of all.
  Status writeFiles(ArenaRef arena, const CarriedTensors &carried);
  /// The first rank: what makes a checkpoint of them.
  Status writeIndex() const;

private:
  const program::Program *program;
  const RunState &state;
  const std::string &folder;
  Ranks &ranks;
  std::vector<NamedTensor> tensors[2];
  std::vector<std::string> files[2];
  std::vector<FileDigest> digests; // two of each rank
};

} // namespace

Status Saving::writeFiles(ArenaRef arena, const CarriedTensors &carried) {
  FileDigest mine[2];
  Status status;
  auto rank = static_cast<size_t>(ranks.rank());
  for (bool kind : kinds) {
    if (status.failed() || rank >= files[kind].size())
      continue;
    Result<FileDigest> written = writeTensors(folder + "/" + files[kind][rank], tensors[kind], ranks.rank(), arena,
                                              kind || rank ? nullptr : &carried);
    if (written.failed())
      status = written.status();
    else
      mine[kind] = *written;
  }
  if (status = ranks.agree(status); status.failed())
    return status;
  digests.resize(2 * static_cast<size_t>(ranks.size()));
  return ranks.gather(mine, digests.data(), sizeof(mine));
}

Status Saving::writeIndex() const {
  json description = describeState(program, state);
  for (bool kind : kinds) {
    for (size_t rank = 0; rank < files[kind].size(); ++rank) {
      const std::string &name = files[kind][rank];
      const FileDigest &digest = digests[2 * rank + kind];
      std::error_code error;
      if (fs::file_size(folder + "/" + name, error) != digest.bytes || error)
        return Status::error("rank %zu wrote '%s/%s', but this rank does not find it there; all ranks must share the "
                             "folder",
                             rank, folder.c_str(), name.c_str());
      description["files"][name] = {{"bytes", digest.bytes}, {"xxh64", hashText(digest.hash)}};
    }
    if (files[kind].size() == 1)
      continue;
    description["format"] = sharedFormat;
    description["world"] = program->world();
    description["shared"][kind ? "optimizer" : "model"] = describeSharing(tensors[kind]);
  }
  // The state has a hash of its own, over its canonical text.
  std::string text = description.dump(-1, ' ', false, json::error_handler_t::replace);
  Hash64 hash;
  hash.update(text.data(), text.size());
  json whole = {{"state", json::parse(text)}, {"xxh64", hashText(hash.digest())}};
  if (Status status = writeText(folder + "/" + stateFile, whole.dump(2) + "\n"); status.failed())
    return status;
  return syncDirectory(folder);
}

static Status renamePath(const std::string &from, const std::string &to) {
  if (rename(from.c_str(), to.c_str()))
    return Status::error("cannot rename '%s' to '%s': %s", from.c_str(), to.c_str(), strerror(errno));
  return Status::ok();
}

static Status writeLatest(const std::string &folder, const std::string &name) {
  std::string temporary = folder + "/.tmp-latest";
  Status status = writeText(temporary, name + "\n");
  if (!status.failed())
    status = renamePath(temporary, folder + "/latest");
  if (status.failed())
    unlink(temporary.c_str());
  return status;
}

static bool isStepName(const std::string &name) {
  return name.size() > 5 && name.compare(0, 5, "step-") == 0 &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

/// Puts `from` in the place of the checkpoint `to`, at once where the file system can: a run that is killed has always
/// either of them. What was there is removed.
static Status replacePath(const std::string &from, const std::string &to) {
  std::error_code error;
  if (!fs::exists(to, error))
    return renamePath(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE)) {
    fs::remove_all(to, error);
    return renamePath(from, to);
  }
  fs::remove_all(from, error);
  return Status::ok();
}

/// Removes the oldest checkpoints so that `keep` remain; `newest` stays.
static void removeOld(const std::string &folder, const std::string &newest, int64_t keep) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored))
    if (std::string name = it->path().filename(); isStepName(name) && name != newest)
      names.push_back(name);
  std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  for (size_t i = 0; static_cast<int64_t>(names.size() - i) > keep - 1; ++i) {
    // Out of sight first, so that an interrupted removal leaves no half checkpoint.
    std::string hidden = folder + "/.tmp-" + names[i];
    if (!rename((folder + "/" + names[i]).c_str(), hidden.c_str()))
      fs::remove_all(hidden, ignored);
  }
}

Status prepareCheckpointFolder(const std::string &folder, File &lock) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return Status::error("cannot create '%s': %s", folder.c_str(), error.message().c_str());
  if (access(folder.c_str(), W_OK | X_OK))
    return Status::error("cannot write to '%s': %s", folder.c_str(), strerror(errno));
  // Two runs would write into one temporary folder. The lock is on the folder itself, so nothing is left to remove.
  Result<File> held = File::lockFolder(folder);
  if (held.failed())
    return held.status();
  lock = std::move(*held);
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(folder, error), end; it != end; it.increment(error))
    if (it->path().filename().string().compare(0, 10, ".tmp-step-") == 0)
      stale.push_back(it->path());
  for (const fs::path &path : stale)
    fs::remove_all(path, error);
  return Status::ok();
}

static Status makeEmptyFolder(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  fs::create_directories(path, error);
  return error ? Status::error("cannot create '%s': %s", path.c_str(), error.message().c_str()) : Status::ok();
}

/// The temporary folder becomes the checkpoint `name`.
static Status publish(const std::string &folder, const std::string &temporary, const std::string &name) {
  if (Status status = replacePath(temporary, folder + "/" + name); status.failed())
    return status;
  return syncDirectory(folder);
}

/// What follows once the checkpoint `name` is there.
static Status tidyUp(const std::string &folder, const std::string &name, int64_t keep) {
  if (Status latest = writeLatest(folder, name); latest.failed())
    return Status::error("checkpoint '%s/%s' is saved, but '%s/latest' was not updated: %s", folder.c_str(),
                         name.c_str(), folder.c_str(), latest.message().c_str());
  if (keep > 0)
    removeOld(folder, name, keep);
  return syncDirectory(folder);
}

Status saveCheckpoint(const program::Program *program, ArenaRef arena, const CarriedTensors &carried,
                      const RunState &state, const std::string &folder, int64_t keep, Ranks &ranks) {
  std::string name = format("step-%06lld", (long long)state.step);
  std::string temporary = folder + "/.tmp-" + name;
  Status status = ranks.agree(ranks.isFirst() ? makeEmptyFolder(temporary) : Status::ok());
  Saving saving(program, state, temporary, ranks);
  if (!status.failed())
    status = saving.writeFiles(arena, carried);
  if (!status.failed()) {
    Status published = ranks.isFirst() ? saving.writeIndex() : Status::ok();
    if (ranks.isFirst() && !published.failed())
      published = publish(folder, temporary, name);
    status = ranks.agree(published);
  }
  if (status.failed()) {
    // Where a rank has died the others may be writing still; the next run removes what they leave.
    std::error_code ignored;
    if (ranks.isFirst() && ranks.failedTogether())
      fs::remove_all(temporary, ignored);
    return Status::error("checkpoint of step %lld was not saved: %s; earlier checkpoints are intact",
                         (long long)state.step, status.message().c_str());
  }
  return ranks.agree(ranks.isFirst() ? tidyUp(folder, name, keep) : Status::ok());
}

} // namespace scrimp::runtime
