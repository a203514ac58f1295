// Export and inspection.
#include "Commands.h"
#include "scrimp/runtime/SafetensorsWriter.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace scrimp::runtime {

Result<TensorSource> TensorSource::open(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    Result<TensorSet> tensors = TensorSet::open({{path, std::nullopt}});
    if (tensors.failed())
      return tensors.status();
    return TensorSource{std::nullopt, std::move(*tensors), std::nullopt};
  }
  Result<CheckpointOnDisk> checkpoint = openCheckpoint(path);
  if (checkpoint.failed())
    return checkpoint.status();
  Result<TensorSet> model = checkpoint->open(/*optimizerState=*/false);
  if (model.failed())
    return model.status();
  Result<TensorSet> states = checkpoint->open(/*optimizerState=*/true);
  if (states.failed())
    return states.status();
  return TensorSource{std::move(*checkpoint), std::move(*model), std::move(*states)};
}

/// Names, those of wide elements first, so that all are aligned in a file.
static std::vector<std::string> inOrder(const TensorSet &set) {
  std::vector<std::string> names;
  for (auto &[name, entry] : set.tensors())
    names.push_back(name);
  std::sort(names.begin(), names.end(), [&](const std::string &a, const std::string &b) {
    int64_t bytesA = fileTypeBytes(set.tensors().at(a).type), bytesB = fileTypeBytes(set.tensors().at(b).type);
    return bytesA != bytesB ? bytesA > bytesB : a < b;
  });
  return names;
}

static Status writeTensors(TensorSet &set, const std::string &path) {
  SafetensorsWriter file;
  std::vector<std::string> names = inOrder(set);
  for (const std::string &name : names)
    file.add(name, set.tensors().at(name).type, set.tensors().at(name).shape);
  if (Status status = file.create(path); status.failed())
    return status;
  std::vector<char> buffer(ioBufferBytes);
  auto copy = [&](const TensorSet::Piece &piece) {
    int64_t each = fileTypeBytes(piece.stored.type);
    auto begin = piece.stored.offset + static_cast<uint64_t>(piece.first * each);
    auto bytes = static_cast<uint64_t>(piece.count * each);
    for (uint64_t done = 0; done < bytes; done += buffer.size()) {
      uint64_t part = std::min<uint64_t>(buffer.size(), bytes - done);
      if (Status status = piece.file.read(begin + done, buffer.data(), part); status.failed())
        return status;
      if (Status status = file.write(buffer.data(), part); status.failed())
        return status;
    }
    return Status::ok();
  };
  for (const std::string &name : names)
    if (Status status = set.forEachPiece(name, 0, set.tensors().at(name).elements(), copy); status.failed())
      return status;
  Result<FileDigest> finished = file.finish();
  return finished.failed() ? finished.status() : Status::ok();
}

Status exportTensors(const std::string &path, const std::string &output, bool ofStates) {
  Result<TensorSource> source = TensorSource::open(path);
  if (source.failed())
    return source.status();
  if (ofStates && !source->states)
    return Status::error("'%s' is no checkpoint: it has no states of an optimizer", path.c_str());
  if (Status status = source->check(); status.failed())
    return status;
  std::string temporary = output + ".tmp";
  Status status = writeTensors(ofStates ? *source->states : source->model, temporary);
  if (!status.failed() && rename(temporary.c_str(), output.c_str()))
    status = Status::error("cannot rename '%s' to '%s': %s", temporary.c_str(), output.c_str(), strerror(errno));
  if (status.failed())
    unlink(temporary.c_str());
  return status;
}

/// Which ranks have some of a tensor: ", on ranks 1 to 2".
static std::string placeText(const TensorSet::Entry &entry) {
  int64_t elements = entry.elements();
  if (!entry.sharing.isShared() || !elements)
    return "";
  long long first = entry.sharing.bucketOffset / entry.sharing.partElements;
  long long last = (entry.sharing.bucketOffset + elements - 1) / entry.sharing.partElements;
  return first == last ? format(", on rank %lld", first) : format(", on ranks %lld to %lld", first, last);
}

static void inspectTensors(const TensorSet &set, const char *kind, std::string &text) {
  uint64_t bytes = 0;
  for (auto &[name, entry] : set.tensors()) {
    text += format("%-9s  %s: %s %s%s\n", kind, name.c_str(), fileTypeName(entry.type), entry.shapeText().c_str(),
                   placeText(entry).c_str());
    bytes += static_cast<uint64_t>(entry.elements() * fileTypeBytes(entry.type));
  }
  text += format("%-9s  %zu tensors, %llu bytes\n", kind, set.tensors().size(), (unsigned long long)bytes);
}

Status inspect(const std::string &path, std::string &text) {
  Result<TensorSource> source = TensorSource::open(path);
  if (source.failed())
    return source.status();
  if (const auto &checkpoint = source->checkpoint) {
    const RunState &state = checkpoint->state;
    size_t ranks = std::max(checkpoint->model.files.size(), checkpoint->states.files.size());
    text += format("%s: step %lld, %lld updates by %s, %lld samples, %s\n", checkpoint->folder.c_str(),
                   (long long)state.step, (long long)state.updates, checkpoint->optimizer.c_str(),
                   (long long)state.position, ranks > 1 ? format("shared out to %zu ranks", ranks).c_str() : "whole");
  }
  inspectTensors(source->model, "model", text);
  if (source->states)
    inspectTensors(*source->states, "optimizer", text);
  return Status::ok();
}

} // namespace scrimp::runtime
