// Where the bytes of a parameter lie: inside the model file or at a place in another one. Nothing is copied before
// somebody asks for a piece.
#ifndef SCRIMP_IMPORT_WEIGHTS_H
#define SCRIMP_IMPORT_WEIGHTS_H

#include "mlir/IR/Location.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <string>

namespace mlir::scrimp {

struct WeightSource {
  /// Inline: the bytes, little endian, row-major. They live as long as `owner`.
  llvm::StringRef bytes;
  std::shared_ptr<const void> owner;
  /// External (when not empty): the file, and where in it the `length` bytes begin.
  std::string path;
  uint64_t offset = 0;
  uint64_t length = 0;
  /// Type and shape of the stored elements. The parameter's element type may be wider (--precision fp64). The type is
  /// null, and `typeName` safetensors' name for it, where Scrimp does not compute with it (U8, I16, ...).
  Type elementType;
  std::string typeName;
  llvm::SmallVector<int64_t> shape;
  /// The parameter is the transpose of the (rank 2) stored tensor: its shape is `shape` reversed.
  bool transposed = false;

  bool isExternal() const { return !path.empty(); }
  uint64_t getLength() const { return isExternal() ? length : bytes.size(); }
};

/// Copies `buffer.size()` stored bytes from `offset` on. Fails after an error at `loc` that names the file when it
/// cannot be read or is too short.
LogicalResult readWeightBytes(const WeightSource &source, uint64_t offset, MutableArrayRef<char> buffer, Location loc);

/// safetensors' name of an element type ("F32", "BOOL").
llvm::StringRef safetensorsName(Type type);

/// What is wrong with reading `path`, which a file in `folder` names, to follow its name in a message: it is a link
/// that leads out of `folder`, and `followLinks` is not given. Empty where nothing is wrong.
std::string whyOutside(llvm::StringRef path, llvm::StringRef folder, bool followLinks);

/// The tensors of a safetensors file, or of all the shards of a `*.safetensors.index.json`, by name. Checks the header
/// against the file's size. Fails after an error at UnknownLoc that names the file.
FailureOr<llvm::StringMap<WeightSource>> openSafetensors(llvm::StringRef path, MLIRContext *context);

} // namespace mlir::scrimp

#endif
