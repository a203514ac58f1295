// Reading checkpoints: nothing enters the arena before everything has been checked.
#include "StoredTensors.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/Hash.h"
#include "scrimp/runtime/TensorFile.h"
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace scrimp::runtime {

namespace fs = std::filesystem;
using nlohmann::json;

/// The name of a checkpoint inside `path`, the last in their order; empty without one.
static std::string lastCheckpointIn(const std::string &path) {
  std::string last;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; fs::exists(it->path() / stateFile, ignored))
      last = std::max(last, it->path().filename().string());
  return last;
}

/// The folder that holds state.json: `path` itself, or what its `latest` names.
static Result<std::string> findFolder(const std::string &path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return Status::error("'%s' is no folder, expected a checkpoint or a folder of checkpoints", path.c_str());
  if (fs::exists(path + "/" + stateFile, error))
    return path;
  Result<std::string> latest = readText(path + "/latest", 4096);
  if (latest.failed()) {
    std::string last = lastCheckpointIn(path);
    return Status::error("'%s' holds no checkpoint: there is neither %s nor latest%s", path.c_str(), stateFile,
                         last.empty() ? "" : ("; '" + path + "/" + last + "' is one").c_str());
  }
  std::string name = latest->substr(0, latest->find('\n'));
  if (name.empty() || name.find('/') != std::string::npos || !fs::is_directory(path + "/" + name, error))
    return Status::error("'%s/latest' names '%s', which is not there; name one of the folder's checkpoints",
                         path.c_str(), name.c_str());
  return path + "/" + name;
}

namespace {

/// Typed access to state.json; remembers the first field that is missing or of the wrong kind.
class StateReader {
public:
  explicit StateReader(const json &object) : object(object) {}

  int64_t integer(const char *name) {
    const json *value = find(name);
    if (!value || !value->is_number_integer())
      return reject<int64_t>(name);
    return value->is_number_unsigned() ? static_cast<int64_t>(value->get<uint64_t>()) : value->get<int64_t>();
  }
  bool boolean(const char *name) {
    const json *value = find(name);
    return value && value->is_boolean() ? value->get<bool>() : reject<bool>(name);
  }
  double number(const char *name) {
    const json *value = find(name);
    if (!value || !value->is_string())
      return reject<double>(name);
    return strtod(value->get_ref<const std::string &>().c_str(), nullptr);
  }
  const json *find(const char *name) const {
    auto it = object.find(name);
    return it == object.end() ? nullptr : &*it;
  }
  template <typename T> T reject(const char *name) {
    if (!missing)
      missing = name;
    return T{};
  }
  const char *missing = nullptr;

private:
  const json &object;
};

} // namespace

/// Which tensors are shared out, and how; false if it is no such table or does not fit to so many ranks.
static bool readSharing(const json &table, int64_t world, std::map<std::string, TensorSet::Entry> &shared) {
  constexpr int64_t most = int64_t{1} << 48;
  if (!table.is_object() || world < 2 || world > 1 << 20)
    return false;
  auto number = [&](const json &value, int64_t &target) {
    bool isNumber = value.is_number_unsigned() && value.get<uint64_t>() <= most;
    target = isNumber ? value.get<int64_t>() : 0;
    return isNumber;
  };
  for (auto &[name, tensor] : table.items()) {
    TensorSet::Entry entry;
    for (const char *key : {"dtype", "shape", "part_elements", "bucket_offset"})
      if (!tensor.is_object() || !tensor.contains(key))
        return false;
    if (!tensor["dtype"].is_string() || !safetensorsType(tensor["dtype"].get<std::string>(), entry.type) ||
        !tensor["shape"].is_array() || !number(tensor["part_elements"], entry.sharing.partElements) ||
        !number(tensor["bucket_offset"], entry.sharing.bucketOffset) || !entry.sharing.isShared())
      return false;
    __int128 elements = 1;
    for (const json &extent : tensor["shape"]) {
      if (!number(extent, entry.shape.emplace_back()))
        return false;
      elements = std::min<__int128>(elements * entry.shape.back(), most + 1);
    }
    __int128 held = static_cast<__int128>(entry.sharing.partElements) * world;
    if (elements > most || entry.sharing.bucketOffset + elements > held)
      return false;
    shared.emplace(name, std::move(entry));
  }
  return true;
}

Result<CheckpointOnDisk> openCheckpoint(const std::string &path) {
  Result<std::string> folder = findFolder(path);
  if (folder.failed())
    return folder.status();
  CheckpointOnDisk result;
  result.folder = *folder;
  std::string file = *folder + "/" + stateFile;
  Result<std::string> text = readText(file, 1 << 28);
  if (text.failed())
    return text.status();
  json whole = json::parse(*text, nullptr, false);
  auto damaged = [&] { return Status::error("'%s' is damaged; take another checkpoint", file.c_str()); };
  if (!whole.is_object() || !whole.contains("state") || !whole["state"].is_object() || !whole.contains("xxh64") ||
      !whole["xxh64"].is_string())
    return damaged();
  const json &object = whole["state"];
  std::string canonical = object.dump(-1, ' ', false, json::error_handler_t::replace);
  Hash64 hash;
  hash.update(canonical.data(), canonical.size());
  if (hashText(hash.digest()) != whole["xxh64"].get<std::string>())
    return damaged();

  StateReader read(object);
  int64_t format = read.integer("format");
  if (format != wholeFormat && format != sharedFormat)
    return Status::error("'%s' has format %lld, this executable reads formats %d and %d", file.c_str(),
                         (long long)format, wholeFormat, sharedFormat);
  if (const json *optimizer = read.find("optimizer"); optimizer && optimizer->is_string())
    result.optimizer = optimizer->get<std::string>();
  else
    read.missing = "optimizer";
  RunState &state = result.state;
  state.step = read.integer("step");
  state.updates = read.integer("updates");
  state.position = read.integer("position");
  state.seed = static_cast<uint64_t>(read.integer("seed"));
  state.samples = read.integer("samples");
  if (read.find("total_steps"))
    state.total = read.integer("total_steps");
  state.shuffle = read.boolean("shuffle");
  state.schedule.kind = static_cast<ScheduleKind>(read.integer("schedule"));
  state.schedule.warmup = read.integer("warmup");
  state.schedule.lrMin = read.number("lr_min");
  if (const json *scale = read.find("loss_scale"); scale && scale->is_object() && !scale->empty()) {
    StateReader readScale(*scale);
    state.lossScale.scale = readScale.number("scale");
    state.lossScale.updates = readScale.integer("updates");
    state.lossScale.skippedSteps = readScale.integer("skipped_steps");
    if (readScale.missing)
      read.missing = "loss_scale";
  }
  if (const json *values = read.find("hyperparameters"); values && values->is_object()) {
    // Only those that the saved program had.
    StateReader readValue(*values);
    for (size_t i = 0; i < std::size(hyperparameterTable); ++i) {
      const HyperparameterInfo &info = hyperparameterTable[i];
      state.hasValue[i] = values->contains(info.name);
      if (state.hasValue[i])
        state.values.*info.value = readValue.number(info.name);
    }
    if (readValue.missing)
      read.missing = "hyperparameters";
  } else
    read.missing = "hyperparameters";
  int64_t world = format == sharedFormat ? read.integer("world") : 1;
  for (bool kind : {false, true}) {
    CheckpointOnDisk::Tensors &tensors = kind ? result.states : result.model;
    const json *shared = read.find("shared"), *files = read.find("files");
    if (const char *name = kind ? "optimizer" : "model"; format == sharedFormat && shared && shared->contains(name))
      if (!readSharing((*shared)[name], world, tensors.shared))
        return damaged();
    tensors.files = storedFiles(kind, tensors.shared.empty() ? 1 : static_cast<int>(world));
    for (const std::string &name : tensors.files) {
      if (!files || !files->contains(name) || !(*files)[name].contains("bytes") || !(*files)[name].contains("xxh64"))
        return damaged();
      result.files[name] = {(*files)[name]["bytes"].get<uint64_t>(), (*files)[name]["xxh64"].get<std::string>()};
    }
  }
  if (read.missing)
    return Status::error("'%s' lacks a valid '%s'; take another checkpoint", file.c_str(), read.missing);
  return result;
}

static Status checkFile(const File &file, const CheckpointOnDisk::FileInfo &info) {
  if (file.bytes() != info.bytes)
    return Status::error("'%s' is %s: it has %llu bytes, expected %llu; take another checkpoint", file.path().c_str(),
                         file.bytes() < info.bytes ? "truncated" : "too long", (unsigned long long)file.bytes(),
                         (unsigned long long)info.bytes);
  std::vector<char> buffer(ioBufferBytes);
  Hash64 hash;
  for (uint64_t at = 0; at < file.bytes(); at += ioBufferBytes) {
    uint64_t part = std::min(ioBufferBytes, file.bytes() - at);
    if (Status status = file.read(at, buffer.data(), part); status.failed())
      return status;
    hash.update(buffer.data(), part);
  }
  if (hashText(hash.digest()) != info.hash)
    return Status::error("'%s' is damaged: its hash is %s, expected %s; take another checkpoint", file.path().c_str(),
                         hashText(hash.digest()).c_str(), info.hash.c_str());
  return Status::ok();
}

Status CheckpointOnDisk::checkFiles(int reader, int readers, bool withStates) const {
  int number = 0;
  for (const Tensors *tensors : {&model, &states})
    for (const std::string &name : tensors->files) {
      if ((tensors == &states && !withStates) || number++ % readers != reader)
        continue;
      Result<File> file = File::open(folder + "/" + name);
      if (file.failed())
        return file.status();
      if (Status status = checkFile(*file, files.at(name)); status.failed())
        return status;
    }
  return Status::ok();
}

Result<TensorSet> CheckpointOnDisk::open(bool optimizerState) const {
  const Tensors &tensors = optimizerState ? states : model;
  std::vector<TensorSet::Part> parts;
  for (const std::string &name : tensors.files)
    parts.push_back({folder + "/" + name, files.at(name).bytes});
  return TensorSet::open(std::move(parts), tensors.shared);
}

static bool isSameType(FileType file, DType dtype) {
  return sameRepresentation(file, dtype) || (file == FileType::b1 && dtype == DType::i1);
}

/// Reads a piece of a tensor that matchTensors found to fit to `target`.
static Status readPiece(const TensorSet::Piece &piece, const NamedTensor &named, char *target) {
  FileType type = piece.stored.type;
  DType dtype = named.tensor->dtype();
  int64_t from = fileTypeBytes(type), to = elementBytes(dtype), most = static_cast<int64_t>(ioBufferBytes) / from;
  uint64_t offset = piece.stored.offset + static_cast<uint64_t>(piece.first * from);
  if (isSameType(type, dtype))
    return piece.file.read(offset, target, static_cast<uint64_t>(piece.count * from));
  std::vector<char> buffer(ioBufferBytes);
  for (int64_t at = 0; at < piece.count; at += most) {
    int64_t n = std::min(most, piece.count - at);
    if (Status status =
            piece.file.read(offset + static_cast<uint64_t>(at * from), buffer.data(), static_cast<uint64_t>(n * from));
        status.failed())
      return status;
    if (int64_t bad = convertElements(type, buffer.data(), dtype, target + at * to, n); bad >= 0)
      return Status::error("'%s': element %lld of tensor '%s' is %s, which this executable's %s does not hold",
                           piece.file.path().c_str(), (long long)(piece.begin + at + bad), named.name.c_str(),
                           valueText(type, buffer.data(), bad).c_str(), dtypeName(dtype));
  }
  return Status::ok();
}

static Status matchTensors(const TensorSet &source, const std::vector<NamedTensor> &expected,
                           const CarriedTensors *carried) {
  const char *path = source.file()->path().c_str();
  const std::map<std::string, TensorSet::Entry> &found = source.tensors();
  for (const NamedTensor &named : expected) {
    auto it = found.find(named.name);
    const program::Tensor *tensor = named.tensor;
    std::string wanted = std::string(dtypeName(tensor->dtype())) + " " + shapeText(tensor->shape());
    if (it == found.end())
      return Status::error("'%s' is of another model: it lacks tensor '%s' (%s)", path, named.name.c_str(),
                           wanted.c_str());
    // Floats of another precision convert: what was trained in one may go on in another.
    bool fits =
        isSameType(it->second.type, tensor->dtype()) || (fileTypeIsFloat(it->second.type) && isFloat(tensor->dtype()));
    if (shapeOf(tensor) != it->second.shape || !fits)
      return Status::error("'%s' is of another model: tensor '%s' is %s %s, expected %s", path, named.name.c_str(),
                           fileTypeName(it->second.type), it->second.shapeText().c_str(), wanted.c_str());
  }
  std::set<std::string_view> names;
  for (const NamedTensor &named : expected)
    names.insert(named.name);
  for (auto &[name, tensor] : found)
    if (!names.count(name) && !(carried && carried->has(name)))
      return Status::error("'%s' is of another model: it has tensor '%s' (%s %s), which this one does not", path,
                           name.c_str(), fileTypeName(tensor.type), tensor.shapeText().c_str());
  return Status::ok();
}

Status loadCheckpoint(const program::Program *program, const CheckpointOnDisk &checkpoint, int rank, ArenaRef arena,
                      CarriedTensors &carried) {
  if (Status status = checkpoint.checkFiles(rank, static_cast<int>(program->world())); status.failed())
    return status;
  struct Opened {
    TensorSet source;
    std::vector<NamedTensor> expected;
  };
  std::vector<Opened> opened;
  for (bool optimizer : {false, true}) {
    Result<TensorSet> source = checkpoint.open(optimizer);
    if (source.failed())
      return source.status();
    opened.push_back({std::move(*source), storedTensors(program, optimizer)});
    if (Status status = matchTensors(opened.back().source, opened.back().expected, optimizer ? nullptr : &carried);
        status.failed())
      return status;
  }
  if (Status status = carried.take(opened.front().source.file(), opened.front().source.inFile()); status.failed())
    return status;
  for (Opened &each : opened)
    for (const NamedTensor &named : each.expected) {
      TensorPart part = partOf(named.tensor, rank);
      HostBytes memory(arena, part.offset, part.count * elementBytes(named.tensor->dtype()));
      char *target = memory.data();
      auto read = [&](const TensorSet::Piece &piece) {
        Status status = readPiece(piece, named, target);
        target += piece.count * elementBytes(named.tensor->dtype());
        return status;
      };
      if (Status status = each.source.forEachPiece(named.name, part.begin, part.count, read); status.failed())
        return status;
      if (Status status = memory.store(); status.failed())
        return status;
    }
  return Status::ok();
}

} // namespace scrimp::runtime
