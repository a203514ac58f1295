#include "scrimp/runtime/TensorSet.h"
#include <algorithm>

namespace scrimp::runtime {

/// Far below what a process may have open.
static constexpr size_t mostOpenFiles = 256;

int64_t TensorSet::Entry::elements() const { return StoredTensor{type, shape}.elements(); }

std::string TensorSet::Entry::shapeText() const { return StoredTensor{type, shape}.shapeText(); }

Result<TensorSet> TensorSet::open(std::vector<Part> parts, std::map<std::string, Entry> shared) {
  TensorSet set;
  for (Part &part : parts)
    set.parts.push_back({{std::move(part)}, nullptr, false, {}});
  set.entries = std::move(shared);
  if (Status status = set.openPart(set.parts.front()); status.failed())
    return status;
  for (auto &[name, stored] : set.parts.front().tensors)
    set.entries.try_emplace(name, Entry{stored.type, stored.shape, {}});
  return set;
}

Status TensorSet::openPart(OpenPart &part) {
  if (part.file)
    return Status::ok();
  // The first stays open: it has most.
  if (openFiles >= mostOpenFiles) {
    for (size_t i = 1; i < parts.size(); ++i)
      parts[i].file = nullptr;
    openFiles = 1;
  }
  Result<File> file = File::open(part.path);
  if (file.failed())
    return file.status();
  if (part.bytes && file->bytes() != *part.bytes)
    return Status::error("'%s' is %s: it has %llu bytes, expected %llu; take another checkpoint",
                         part.path.c_str(), file->bytes() < *part.bytes ? "truncated" : "too long",
                         (unsigned long long)file->bytes(), (unsigned long long)*part.bytes);
  if (!part.isKnown) {
    auto tensors = readSafetensorsHeader(*file);
    if (tensors.failed())
      return tensors.status();
    part.tensors = std::move(*tensors);
    part.isKnown = true;
  }
  part.file = std::make_shared<const File>(std::move(*file));
  ++openFiles;
  return Status::ok();
}

Status TensorSet::forEachPiece(const std::string &name, int64_t begin, int64_t count,
                               const std::function<Status(const Piece &)> &use) {
  const Entry &entry = entries.at(name);
  if (!count)
    return Status::ok();
  if (!entry.sharing.isShared())
    return use({*parts.front().file, parts.front().tensors.at(name), begin, begin, count});
  // The part that element `begin` is in.
  auto i = static_cast<size_t>((entry.sharing.bucketOffset + begin) / entry.sharing.partElements);
  for (int64_t end = begin + count; begin < end && i < parts.size(); ++i) {
    OpenPart &part = parts[i];
    ElementRange range = entry.sharing.rangeOf(entry.elements(), static_cast<int>(i));
    if (Status status = openPart(part); status.failed())
      return status;
    auto stored = part.tensors.find(name);
    if (stored == part.tensors.end() || stored->second.type != entry.type ||
        stored->second.shape != std::vector<int64_t>{range.count})
      return Status::error("'%s' is damaged: tensor '%s' is not what the checkpoint says", part.path.c_str(),
                           name.c_str());
    int64_t held = std::min(range.begin + range.count, end) - begin;
    if (Status status = use({*part.file, stored->second, begin - range.begin, begin, held}); status.failed())
      return status;
    begin += held;
  }
  return Status::ok();
}

} // namespace scrimp::runtime
