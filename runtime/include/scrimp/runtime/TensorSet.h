// The tensors of a .safetensors file, or of the files of several ranks between which some of them are shared out: read
// by name and range of elements. Of a file nothing is read but its header and what is asked for.
#ifndef SCRIMP_RUNTIME_TENSORSET_H
#define SCRIMP_RUNTIME_TENSORSET_H

#include "scrimp/runtime/TensorFile.h"
#include "scrimp/runtime/TensorPart.h"
#include <functional>
#include <memory>
#include <optional>

namespace scrimp::runtime {

class TensorSet {
public:
  struct Entry {
    FileType type = FileType::f32;
    std::vector<int64_t> shape;
    Sharing sharing; // to the files, in their order; else it is whole in the first

    int64_t elements() const;
    std::string shapeText() const;
  };
  struct Part {
    std::string path;
    std::optional<uint64_t> bytes; // that the file must have
  };
  /// Elements [begin, begin + count) of a tensor lie in `file` as those of `stored` from `first` on.
  struct Piece {
    const File &file;
    const StoredTensor &stored;
    int64_t first, begin, count;
  };

  /// Opens the first file; `shared` are the tensors that lie in parts, flat, in several.
  static Result<TensorSet> open(std::vector<Part> parts, std::map<std::string, Entry> shared = {});

  const std::map<std::string, Entry> &tensors() const { return entries; }
  /// The first file, which holds what is whole.
  const std::shared_ptr<const File> &file() const { return parts.front().file; }
  const std::map<std::string, StoredTensor> &inFile() const { return parts.front().tensors; }

  /// Calls `use` for the pieces of elements [begin, begin + count) of a tensor that is there, in their order, until one
  /// fails.
  Status forEachPiece(const std::string &name, int64_t begin, int64_t count,
                      const std::function<Status(const Piece &)> &use);

private:
  struct OpenPart : Part {
    std::shared_ptr<const File> file; // null: not open
    bool isKnown = false;             // its header has been read
    std::map<std::string, StoredTensor> tensors;
  };

  Status openPart(OpenPart &part);

  std::vector<OpenPart> parts;
  std::map<std::string, Entry> entries;
  size_t openFiles = 0;
};

} // namespace scrimp::runtime

#endif
