// Writing checkpoints.
#include "StoredTensors.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/File.h"
#include "scrimp/runtime/Hash.h"
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace scrimp::runtime {

namespace fs = std::filesystem;
using nlohmann::json;

static const char *safetensorsName(DType type) {
  switch (type) {
  case DType::f32:
    return "F32";
  case DType::f64:
    return "F64";
  case DType::bf16:
    return "BF16";
  case DType::f16:
    return "F16";
  case DType::i1:
    return "BOOL";
  case DType::i8:
    return "I8";
  case DType::i32:
    return "I32";
  case DType::i64:
    return "I64";
  }
  return "";
}

namespace {

/// A file that hashes what it is given.
class HashedFile {
public:
  explicit HashedFile(File file) : file(std::move(file)) {}
  Status write(const void *data, uint64_t bytes) {
    const char *at = static_cast<const char *>(data);
    // In pieces, so that each is hashed while it is in the cache.
    for (uint64_t done = 0; done < bytes; done += ioBufferBytes) {
      uint64_t part = std::min(ioBufferBytes, bytes - done);
      hash.update(at + done, part);
      if (Status status = file.write(at + done, part); status.failed())
        return status;
    }
    written += bytes;
    return Status::ok();
  }
  Status finish(json &entry) {
    entry = {{"bytes", written}, {"xxh64", hashText(hash.digest())}};
    return file.sync();
  }

private:
  File file;
  Hash64 hash;
  uint64_t written = 0;
};

} // namespace

/// `carried`, if any, comes after `tensors`.
static Status writeTensors(const std::string &path, const std::vector<NamedTensor> &tensors, const char *arena,
                           const CarriedTensors *carried, json &entry) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  static const std::map<std::string, CarriedTensors::Place> none;
  const auto &places = carried ? carried->byName() : none;
  for (const NamedTensor &named : tensors) {
    auto shape = nlohmann::ordered_json::array();
    for (int64_t extent : items(named.tensor->shape()))
      shape.push_back(extent);
    uint64_t bytes = static_cast<uint64_t>(byteCount(named.tensor));
    header[named.name] = {{"dtype", safetensorsName(named.tensor->dtype())},
                          {"shape", shape},
                          {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  auto bytesOf = [](const StoredTensor &tensor) {
    return static_cast<uint64_t>(tensor.elements() * fileTypeBytes(tensor.type));
  };
  for (const auto &[name, place] : places) {
    header[name] = {{"dtype", safetensorsName(place.tensor.type)},
                    {"shape", place.tensor.shape},
                    {"data_offsets", {offset, offset + bytesOf(place.tensor)}}};
    offset += bytesOf(place.tensor);
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  Result<File> created = File::create(path);
  if (created.failed())
    return created.status();
  HashedFile file(std::move(*created));
  if (Status status = file.write(&length, 8); status.failed())
    return status;
  if (Status status = file.write(text.data(), text.size()); status.failed())
    return status;
  for (const NamedTensor &named : tensors)
    if (Status status = file.write(arena + named.tensor->offset(), static_cast<uint64_t>(byteCount(named.tensor)));
        status.failed())
      return status;
  std::vector<char> buffer(places.empty() ? 0 : ioBufferBytes);
  for (const auto &[name, place] : places)
    for (uint64_t done = 0, bytes = bytesOf(place.tensor); done < bytes; done += buffer.size()) {
      uint64_t part = std::min<uint64_t>(buffer.size(), bytes - done);
      if (Status status = place.file->read(place.tensor.offset + done, buffer.data(), part); status.failed())
        return status;
      if (Status status = file.write(buffer.data(), part); status.failed())
        return status;
    }
  return file.finish(entry);
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
  return {{"format", checkpointFormat},
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

static Status writeCheckpoint(const program::Program *program, const char *arena, const CarriedTensors &carried,
                              const RunState &state, const std::string &folder) {
  json description = describeState(program, state);
  for (bool optimizer : {false, true}) {
    const char *name = optimizer ? optimizerFile : modelFile;
    if (Status status = writeTensors(folder + "/" + name, storedTensors(program, optimizer), arena,
                                     optimizer ? nullptr : &carried, description["files"][name]);
        status.failed())
      return status;
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

Status saveCheckpoint(const program::Program *program, const char *arena, const CarriedTensors &carried,
                      const RunState &state, const std::string &folder, int64_t keep) {
  std::string name = format("step-%06lld", (long long)state.step);
  std::string temporary = folder + "/.tmp-" + name, final = folder + "/" + name;
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  Status status = error ? Status::error("cannot create '%s': %s", temporary.c_str(), error.message().c_str())
                        : writeCheckpoint(program, arena, carried, state, temporary);
  if (!status.failed())
    status = replacePath(temporary, final);
  if (!status.failed())
    status = syncDirectory(folder);
  if (status.failed()) {
    fs::remove_all(temporary, error);
    return Status::error("checkpoint of step %lld was not saved: %s; earlier checkpoints are intact",
                         (long long)state.step, status.message().c_str());
  }
  if (Status latest = writeLatest(folder, name); latest.failed())
    return Status::error("checkpoint '%s' is saved, but '%s/latest' was not updated: %s", final.c_str(), folder.c_str(),
                         latest.message().c_str());
  if (keep > 0)
    removeOld(folder, name, keep);
  return syncDirectory(folder);
}

} // namespace scrimp::runtime
